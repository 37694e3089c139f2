//! A volume mounted for writing.
//!
//! Changes stay in memory: nodes, pages of files and directories, NAT and SIT entries. A checkpoint
//! (`checkpoint.rs`) makes all of it except file data durable at once; an fsync makes one file
//! durable. Reading is that of every [`MountedVolume`] and sees the changes.
//!
//! This module does not decide about names, kinds and times: code that changes a directory edits
//! its pages ([`WritableVolume::change_directory_page`]), code that makes a file makes an inode
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

/// A volume mounted for writing.
pub type WritableVolume<D> = MountedVolume<WritableBlocks<D>, Writer>;

/// State that only writing needs.
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
    /// When the volume was mounted, and the checkpoint's clock at that time.
    pub(crate) mounted_at: Nanos,
    pub(crate) elapsed_at_mount: u64,
    /// Blocks handed to the device since the mount, and how many of them the last checkpoint
    /// counted.
    pub(crate) written_blocks: u64,
    pub(crate) counted_blocks: u64,
    pub(crate) since_checkpoint: SinceCheckpoint,
    /// Changed times that are not yet in a node.
    pub(crate) lazy_times: LazyTimes,
    /// Files whose last page on the device still holds bytes past the end that were cleared in
    /// memory, because writing it failed; it is retried before they grow.
    pub(crate) uncleared: BTreeSet<NodeId>,
    /// During a sync, files whose pages the collector moved after their write-back.
    pub(crate) moved_files: Option<BTreeSet<NodeId>>,
    /// Drafts (the second inodes of atomic writes), each with its file.
    pub(crate) drafts: BTreeMap<NodeId, NodeId>,
    pub(crate) names: NameState,
    pub(crate) quotas: Quotas,
    pub(crate) cleaners: Cleaners,
    pub(crate) idle: Idle,
    pub(crate) counters: Counters,
    pub(crate) published: Published,
    /// Blocks left by remapping, to be discarded after the next checkpoint.
    pub(crate) mapped: Vec<BlockAddress>,
    /// How often files are read, if a policy needs it.
    pub(crate) reads: Option<ReadCounts>,
    /// The gathering of files in idle time, if enabled.
    pub(crate) gather: Option<Gather>,
    /// Whether roll-forward is still reading: nothing may be allocated or written yet.
    pub(crate) recovering: bool,
    /// Whether a checkpoint was made since the mount ([`WritableVolume::begin_anew`]).
    pub(crate) has_checkpoint: bool,
    /// Data blocks whose in-place overwrite failed; their pages are written elsewhere.
    pub(crate) failed_places: BTreeSet<BlockAddress>,
    /// Why the volume stopped writing.
    pub(crate) stopped: Option<String>,
    pub(crate) recovered: Recovered,
}

impl Writer {
    /// Pages of files and directories, without locking.
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

    /// Counters since the mount.
    pub fn counters(&self) -> &Counters {
        &self.writer.counters
    }

    /// The counters for concurrent readers, as of the last write-back, checkpoint or collection.
    pub fn statistics(&self) -> Arc<dyn Statistics> {
        self.writer.published.show(self.device.now(), &self.writer.counters, &self.writer.segments);
        Arc::new(self.writer.published.clone())
    }

    /// Segments, logs and counts of blocks.
    pub fn segments(&self) -> &Segments {
        &self.writer.segments
    }

    /// Segments, for changing their allocation and other options between operations.
    pub fn segments_mut(&mut self) -> &mut Segments {
        &mut self.writer.segments
    }

    /// The options of the mount.
    pub fn options(&self) -> &WriteOptions {
        &self.writer.options
    }

    /// The error that made the volume read-only, if any.
    pub fn stopped(&self) -> Option<&str> {
        self.writer.stopped.as_deref()
    }

    /// Gives the devices back without writing anything more, as after a power cut.
    pub fn abandon(self) -> Vec<D> {
        self.device.into_inner().devices.into_inner()
    }

    /// Seconds on the checkpoint's clock, summed over all mounts.
    pub fn elapsed_seconds(&self) -> u64 {
        let since = self.device.now().0.saturating_sub(self.writer.mounted_at.0) / 1_000_000_000;
        self.writer.elapsed_at_mount.saturating_add(since)
    }

    /// Refuses changes to a stopped volume. Errors: `ReadOnly`, with the reason.
    pub(crate) fn expect_running(&self) -> Result<()> {
        match &self.writer.stopped {
            None => Ok(()),
            Some(why) => {
                let detail = format!("the volume became read-only after an error: {why}");
                Err(FsError::new(ErrorKind::ReadOnly, detail))
            }
        }
    }

    /// Stops all writing; the device keeps the last checkpoint intact.
    pub(crate) fn stop(&mut self, why: &FsError) {
        self.writer.stopped.get_or_insert_with(|| why.to_string());
    }

    /// Passes on the result of metadata work; a failing device stops the volume.
    pub(crate) fn or_stop<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt)
        {
            self.stop(error);
        }
        result
    }
}
