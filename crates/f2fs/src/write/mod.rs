//! A volume mounted for writing.
//!
//! What changes waits in memory: nodes, pages of files and directories, entries of NAT and SIT. A checkpoint (`checkpoint.rs`) makes all of it but the data of files durable at once;
//! an fsync one file. [`Volume`] serves [`Blocks`] and [`Nodes`] from what it has changed, so that the code of reading sees the present state.
//!
//! Names, kinds and times are nobody's business here: who changes a directory takes its pages ([`Volume::change_directory_page`]), who makes a file an inode ([`Volume::new_inode`]).

mod adopt;
mod atomic;
mod back;
mod balance;
mod collected;
mod data;
mod fsync;
mod idle;
mod inodes;
mod lazy_times;
mod mount;
mod names;
mod nodes;
mod options;
mod quota;
mod runs;
mod since_checkpoint;
mod sync;
mod tree;
mod truncate;
mod xattrs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Nanos, Statistics};
use nandkit_vfs::{ErrorKind, FsError, InodeNumber, Result};

use crate::blocks::{Blocks, Nodes};
use crate::checkpoint_state::CheckpointState;
use crate::compressed::Clusters;
use crate::counters::Recovered;
use crate::device::WritableBlocks;
use crate::findings::Defect;
use crate::ids::{Block, BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::{Geometry, NatEntry, Superblock};
use crate::meta::MetaBlocks;
use crate::names::store::NameState;
use crate::nat::Nat;
use crate::nids::Nids;
use crate::node::cache::NodeCache;
use crate::node::checked::{address_of, check_node, decode_inode};
use crate::open::WhichCopy;
use crate::pages::{Page, Pages};
use crate::quota::usage::Quotas;
use crate::segments::Segments;
use crate::segments::sit_table::SitTable;
use crate::volume::DirectorySource;
use idle::Idle;
use lazy_times::LazyTimes;
use since_checkpoint::SinceCheckpoint;

pub use balance::Cleaners;
pub use mount::obstacle;
pub use options::{WriteOptions, ipu};

pub use crate::counters::{Counters, Published, Reason};
pub use crate::device::Atomicity;
pub use crate::names::new_inode::Making;
pub use crate::pages::PageLimits;
pub use crate::segments::classes::ActiveLogs;
pub(crate) use tree::Slot;

/// An F2FS volume that is written. Readers share it; who changes it has it alone.
#[derive(Debug)]
pub struct Volume<D> {
    pub(crate) device: WritableBlocks<D>,
    pub(crate) superblock: Superblock,
    /// The last checkpoint, in which pack it stands, and the checksum of its block.
    pub(crate) state: CheckpointState,
    pub(crate) pack: WhichCopy,
    pub(crate) checksum: u32,
    pub(crate) segments: Segments,
    pub(crate) sit: SitTable,
    pub(crate) nat: Nat,
    pub(crate) nids: Nids,
    pub(crate) nodes: NodeCache,
    pub(crate) meta: MetaBlocks,
    pub(crate) pages: Mutex<Pages>,
    pub(crate) orphans: BTreeSet<NodeId>,
    pub(crate) clusters: Clusters,
    pub(crate) options: WriteOptions,
    pub(crate) checksum_seed: u32,
    /// When it was mounted, and the checkpoint's clock then.
    pub(crate) mounted_at: Nanos,
    pub(crate) elapsed_at_mount: u64,
    /// Blocks handed to the device since the mount, and how many of them the last checkpoint counted.
    pub(crate) written_blocks: u64,
    pub(crate) counted_blocks: u64,
    pub(crate) since_checkpoint: SinceCheckpoint,
    /// Times that no node has yet.
    pub(crate) lazy_times: LazyTimes,
    /// Files whose last page has more behind the end on the device than in memory, as it could not be written when that was cleared: before they grow it is tried again.
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
    /// Blocks that were moved by remapping: the device is told after the next checkpoint that they are without use.
    pub(crate) mapped: Vec<BlockAddress>,
    /// Nothing is to be allocated or written yet.
    pub(crate) recovering: bool,
    /// A checkpoint was made since the mount ([`Volume::begin_anew`]).
    pub(crate) has_checkpoint: bool,
    /// Blocks of data that the device did not take when they were overwritten where they stand: their pages go elsewhere.
    pub(crate) failed_places: BTreeSet<BlockAddress>,
    /// Why nothing is written any more.
    pub(crate) stopped: Option<String>,
    pub(crate) notes: Vec<Defect>,
    pub(crate) recovered: Recovered,
}

impl<D: BlockDevice> Volume<D> {
    /// What mounting found that does not stop it.
    pub fn notes(&self) -> &[Defect] {
        &self.notes
    }

    /// What the mount recovered.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// What happened since the mount.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counters, for those who watch the volume while it is in use: those after the last write-back, checkpoint or collection.
    pub fn statistics(&self) -> Arc<dyn Statistics> {
        self.published.show(self.device.now(), &self.counters, &self.segments);
        Arc::new(self.published.clone())
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The last checkpoint, and in which pack it stands.
    pub fn checkpoint_state(&self) -> (&CheckpointState, WhichCopy) {
        (&self.state, self.pack)
    }

    /// Segments, logs and counts of blocks.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// How segments are allocated, and other choices that may change between operations.
    pub fn segments_mut(&mut self) -> &mut Segments {
        &mut self.segments
    }

    /// How it was mounted.
    pub fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// Why the volume is read-only since an error; `None` while it is not.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// An inode by the number that the file-system contract knows, as it is now. Errors: `NotFound` for a number that nobody has, `Corrupt`, `Device`.
    pub fn inode(&self, number: InodeNumber) -> Result<Inode> {
        let absent = || FsError::new(ErrorKind::NotFound, format!("no inode {}", number.0));
        let nid = u32::try_from(number.0).map(NodeId).map_err(|_| absent())?;
        let is_known = self.nodes.is_dirty(nid);
        if !is_known && (self.geometry().nat_block(nid).is_none() || nid < NodeId::ROOT || self.entry(nid)?.is_free()) {
            return Err(absent());
        }
        self.inode_at(nid)
    }

    /// An inode that something on the volume names, as it is now. Errors: `Corrupt`, `Device`.
    pub fn inode_at(&self, ino: NodeId) -> Result<Inode> {
        let mut inode = decode_inode(self.geometry(), ino, self.node(ino)?)?;
        self.lazy_times.show(&mut inode);
        Ok(inode)
    }

    /// The devices as they are: nothing more is written, as if the power had gone.
    pub fn abandon(self) -> Vec<D> {
        self.device.into_inner().devices.into_inner()
    }

    /// Seconds of the checkpoint's clock: those of all mounts together.
    pub fn elapsed_seconds(&self) -> u64 {
        let since = self.device.now().0.saturating_sub(self.mounted_at.0) / 1_000_000_000;
        self.elapsed_at_mount.saturating_add(since)
    }

    /// Pages of files and directories, for who has the volume alone.
    pub(crate) fn pages(&mut self) -> &mut Pages {
        self.pages.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn locked_pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to change a volume that stopped. Errors: `ReadOnly`, with the reason.
    pub(crate) fn expect_running(&self) -> Result<()> {
        match &self.stopped {
            None => Ok(()),
            Some(why) => {
                let detail = format!("the volume is read-only since an error: {why}");
                Err(FsError::new(ErrorKind::ReadOnly, detail))
            }
        }
    }

    /// Nothing is written any more: what is on the device is the last checkpoint, whole.
    pub(crate) fn stop(&mut self, why: &FsError) {
        self.stopped.get_or_insert_with(|| why.to_string());
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

impl<D: BlockDevice> Blocks for Volume<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        self.device.read(cause, at, into)
    }
}

impl<D: BlockDevice> Nodes for Volume<D> {
    fn entry(&self, nid: NodeId) -> Result<NatEntry> {
        self.nat.entry(&self.meta, &self.device, nid)
    }

    fn node(&self, nid: NodeId) -> Result<Block> {
        if let Some(block) = self.nodes.get(nid) {
            return Ok(block);
        }
        let entry = self.entry(nid)?;
        let at = address_of(self.geometry(), nid, &entry)?;
        let mut block = vec![0; self.geometry().block_size()];
        self.device.read(Cause::Metadata, at, &mut block)?;
        check_node((self.geometry(), self.checksum_seed), nid, &entry, at, &block)?;
        let block = Block::from(block);
        self.nodes.keep(nid, block.clone());
        Ok(block)
    }
}

impl<D: BlockDevice> DirectorySource for Volume<D> {
    fn changed_page(&self, directory: NodeId, page: u32) -> Option<Block> {
        match self.locked_pages().get(directory, page) {
            Some(Page::Bytes(block)) => Some(block.clone()),
            _ => None,
        }
    }

    fn directory_block(&self, directory: NodeId, page: u32, at: BlockAddress) -> Result<Block> {
        let mut block = vec![0; self.geometry().block_size()];
        self.device.read(Cause::Metadata, at, &mut block)?;
        let block = Block::from(block);
        self.locked_pages().keep(directory, page, Page::Bytes(block.clone()));
        Ok(block)
    }
}
