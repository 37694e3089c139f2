//! The volume as a collector sees it.

use nandkit_block::Placement;
use nandkit_vfs::Result;

use super::mover::{LiveBlock, Mover};
use crate::device::RemapsSeen;
use crate::ids::{BlockAddress, NodeId, SegmentIndex};
use crate::segments::{Segments, Space, Summary};

/// What a block of data is to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The node of its summary points elsewhere: the summary is old, or the image contradicts
    /// itself.
    Dead,
    /// A page of a file, to be moved as it is.
    Live(NodeId, u32),
    /// A page that must stay: of a pinned file, or locked.
    Stays,
    /// The volume moves it itself: a newer page in memory was written, or will be.
    Taken,
}

/// The volume as the collector sees it.
pub trait CollectableVolume {
    /// The segments.
    fn segments(&mut self) -> &mut Segments;

    /// Blocks, taken and given back.
    fn with_space<R>(&mut self, work: impl FnOnce(&mut dyn Space) -> Result<R>) -> Result<R>
    where
        Self: Sized;

    /// The summary of a segment that is collected. Errors: `Corrupt` where it is of another kind
    /// than the SIT says: checkpoints must stop.
    fn summaries(&mut self, segment: SegmentIndex) -> Result<Vec<Summary>>;

    /// What a block of data is. Errors: `Device`; what contradicts itself is dead.
    fn liveness(&mut self, at: BlockAddress, owner: Summary) -> Result<Liveness>;

    /// Moves a node that the NAT has at this address, to its usual log; false if the NAT has it
    /// elsewhere. Errors: `Device`, `NoSpace`.
    fn move_node(&mut self, at: BlockAddress, nid: NodeId) -> Result<bool>;

    /// The page of a block is at another address now: in the node's addresses, not in [`Space`].
    /// Errors: `Device`.
    fn moved(&mut self, block: &LiveBlock, to: BlockAddress) -> Result<()>;

    /// The sizes in blocks of the requests that a checkpoint now would make.
    fn checkpoint_requests(&mut self) -> Vec<u32>;

    /// The device.
    fn mover(&mut self) -> &mut dyn Mover;

    /// Seconds of the checkpoint's clock.
    fn now(&self) -> u64;

    /// Whether any file was read of late: never where nobody counts. Cost: a look at a counter.
    fn reads_any(&self) -> bool {
        false
    }

    /// How often a file was read of late, from its first page to its last; 0 where nobody counts.
    fn reads_of(&self, inode: NodeId) -> f64 {
        let _ = inode;
        0.0
    }

    /// The remap commands since the mount.
    fn remaps_seen(&self) -> RemapsSeen {
        RemapsSeen::default()
    }

    /// Which die holds a block, where the device tells.
    fn placement(&self, at: BlockAddress) -> Option<Placement> {
        let _ = at;
        None
    }
}
