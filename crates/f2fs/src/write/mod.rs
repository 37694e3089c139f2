//! A volume mounted for writing.
//!
//! What changes waits in memory: nodes, pages of files and directories, entries of NAT and SIT. A
//! checkpoint (`checkpoint.rs`) makes all of it but the data of files durable at once; an fsync one
//! file. Reading is that of every [`MountedVolume`], which sees what has changed.
//!
//! Names, kinds and times are not decided here: code that changes a directory takes its pages
//! ([`WritableVolume::change_directory_page`]), code that makes a file an inode
//! ([`WritableVolume::new_inode`]).

mod adopt;
mod atomic;
mod back;
mod balance;
mod collected;
mod data;
mod extents;
mod fsync;
mod gather;
mod idle;
mod inodes;
mod lazy_times;
mod mount;
mod names;
mod nodes;
mod options;
mod quota;
mod read_counts;
mod runs;
mod since_checkpoint;
mod sync;
mod tree;
mod truncate;
mod xattrs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nandkit_block::BlockDevice;
use nandkit_units::{Nanos, Statistics};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::counters::Recovered;
use crate::device::WritableBlocks;
use crate::ids::{BlockAddress, NodeId};
use crate::names::store::NameState;
use crate::nids::Nids;
use crate::pages::Pages;
use crate::quota::usage::Quotas;
use crate::segments::Segments;
use crate::segments::sit_table::SitTable;
use crate::volume::MountedVolume;
use gather::Gather;
use idle::Idle;
use lazy_times::LazyTimes;
use read_counts::ReadCounts;
use since_checkpoint::SinceCheckpoint;

pub use balance::Cleaners;
pub use gather::{GatherOptions, Gathered};
pub use mount::obstacle;
pub use options::{WriteOptions, ipu};

pub use crate::counters::{Counters, Published, Reason};
pub use crate::device::Atomicity;
pub use crate::names::new_inode::Making;
pub use crate::pages::PageLimits;
pub use crate::segments::classes::ActiveLogs;
pub(crate) use tree::Slot;

/// A volume that is written.
pub type WritableVolume<D> = MountedVolume<WritableBlocks<D>, Writer>;

/// Everything that only writing needs.
#[derive(Debug)]
pub struct Writer {
    /// The checksum of the last checkpoint's first block.
    pub(crate) checksum: u32,
    pub(crate) segments: Segments,
    pub(crate) sit: SitTable,
    pub(crate) nids: Nids,
    pub(crate) pages: Mutex<Pages>,
    pub(crate) orphans: BTreeSet<NodeId>,
    pub(crate) options: WriteOptions,
    /// When it was mounted, and the checkpoint's clock then.
    pub(crate) mounted_at: Nanos,
    pub(crate) elapsed_at_mount: u64,
    /// Blocks handed to the device since the mount, and how many of them the last checkpoint
    /// counted.
    pub(crate) written_blocks: u64,
    pub(crate) counted_blocks: u64,
    pub(crate) since_checkpoint: SinceCheckpoint,
    /// Times that no node has yet.
    pub(crate) lazy_times: LazyTimes,
    /// Files whose last page has more behind the end on the device than in memory, as it could not
    /// be written when that was cleared: before they grow it is tried again.
    pub(crate) uncleared: BTreeSet<NodeId>,
    /// During a sync, files of which pages were moved by the collector after their write-back.
    pub(crate) moved_files: Option<BTreeSet<NodeId>>,
    /// Second inodes of atomic writes, each with its file.
    pub(crate) drafts: BTreeMap<NodeId, NodeId>,
    pub(crate) names: NameState,
    pub(crate) quotas: Quotas,
    pub(crate) cleaners: Cleaners,
    pub(crate) idle: Idle,
    pub(crate) counters: Counters,
    pub(crate) published: Published,
    /// Blocks that were moved by remapping: the device is told after the next checkpoint that they
    /// are without use.
    pub(crate) mapped: Vec<BlockAddress>,
    /// How often files are read, where somebody asks.
    pub(crate) reads: Option<ReadCounts>,
    /// How files are gathered in idle times, where they are.
    pub(crate) gather: Option<Gather>,
    /// Nothing is to be allocated or written yet.
    pub(crate) recovering: bool,
    /// A checkpoint was made since the mount ([`WritableVolume::begin_anew`]).
    pub(crate) has_checkpoint: bool,
    /// Blocks of data that the device did not take when they were overwritten where they stand:
    /// their pages go elsewhere.
    pub(crate) failed_places: BTreeSet<BlockAddress>,
    /// Why nothing is written any more.
    pub(crate) stopped: Option<String>,
    pub(crate) recovered: Recovered,
}

impl Writer {
    /// Pages of files and directories, for those who have the volume alone.
    pub(crate) fn pages(&mut self) -> &mut Pages {
        self.pages.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn locked_pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: BlockDevice> WritableVolume<D> {
    /// What the mount recovered.
    pub fn recovered(&self) -> Recovered {
        self.writer.recovered
    }

    /// What happened since the mount.
    pub fn counters(&self) -> &Counters {
        &self.writer.counters
    }

    /// The counters, for those who watch the volume while it is in use: those after the last
    /// write-back, checkpoint or collection.
    pub fn statistics(&self) -> Arc<dyn Statistics> {
        self.writer.published.show(self.device.now(), &self.writer.counters, &self.writer.segments);
        Arc::new(self.writer.published.clone())
    }

    /// Segments, logs and counts of blocks.
    pub fn segments(&self) -> &Segments {
        &self.writer.segments
    }

    /// How segments are allocated, and other choices that may change between operations.
    pub fn segments_mut(&mut self) -> &mut Segments {
        &mut self.writer.segments
    }

    /// How it was mounted.
    pub fn options(&self) -> &WriteOptions {
        &self.writer.options
    }

    /// Why the volume is read-only since an error; `None` while it is not.
    pub fn stopped(&self) -> Option<&str> {
        self.writer.stopped.as_deref()
    }

    /// The devices as they are: nothing more is written, as if the power had gone.
    pub fn abandon(self) -> Vec<D> {
        self.device.into_inner().devices.into_inner()
    }

    /// Seconds of the checkpoint's clock: those of all mounts together.
    pub fn elapsed_seconds(&self) -> u64 {
        let since = self.device.now().0.saturating_sub(self.writer.mounted_at.0) / 1_000_000_000;
        self.writer.elapsed_at_mount.saturating_add(since)
    }

    /// Refuses to change a volume that stopped. Errors: `ReadOnly`, with the reason.
    pub(crate) fn expect_running(&self) -> Result<()> {
        match &self.writer.stopped {
            None => Ok(()),
            Some(why) => {
                let detail = format!("the volume is read-only since an error: {why}");
                Err(FsError::new(ErrorKind::ReadOnly, detail))
            }
        }
    }

    /// Nothing is written any more: what is on the device is the last checkpoint, whole.
    pub(crate) fn stop(&mut self, why: &FsError) {
        self.writer.stopped.get_or_insert_with(|| why.to_string());
    }

    /// The result of work on metadata: a failing device stops the volume.
    pub(crate) fn or_stop<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt)
        {
            self.stop(error);
        }
        result
    }
}
