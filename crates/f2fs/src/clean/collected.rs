//! The volume as a collector sees it.

use nandkit_block::Placement;
use nandkit_vfs::Result;

use super::mover::{LiveBlock, Mover};
use crate::device::RemapsSeen;
use crate::ids::{BlockAddress, NodeId, SegmentIndex};
use crate::segments::{Segments, Space, Summary};

/// Whether a data block belongs to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The node in its summary points elsewhere: the summary is old, or the image is inconsistent.
    Dead,
    /// A page of a file, to be moved as it is.
    Live(NodeId, u32),
    /// A page that must stay: of a pinned file, or locked.
    Stays,
    /// The volume moves it itself: a newer page in memory was or will be written.
    Taken,
}

/// The volume as the collector sees it.
pub trait CollectableVolume {
    /// The volume's segments.
    fn segments(&mut self) -> &mut Segments;

    /// Runs `work` with the allocator of blocks.
    fn with_space<R>(&mut self, work: impl FnOnce(&mut dyn Space) -> Result<R>) -> Result<R>
    where
        Self: Sized;

    /// The summary of a segment that is being collected. Errors: `Corrupt` if its kind differs from
    /// the SIT's; checkpoints must stop then.
    fn summaries(&mut self, segment: SegmentIndex) -> Result<Vec<Summary>>;

    /// The liveness of a data block. Errors: `Device`; inconsistent blocks are dead.
    fn liveness(&mut self, at: BlockAddress, owner: Summary) -> Result<Liveness>;

    /// Moves a node that the NAT has at this address to its usual log; returns false if the NAT has
    /// it elsewhere. Errors: `Device`, `NoSpace`.
    fn move_node(&mut self, at: BlockAddress, nid: NodeId) -> Result<bool>;

    /// Sets the new address of a block's page in its node, but not in [`Space`]. Errors: `Device`.
    fn moved(&mut self, block: &LiveBlock, to: BlockAddress) -> Result<()>;

    /// The sizes, in blocks, of the requests that a checkpoint would issue now.
    fn checkpoint_requests(&mut self) -> Vec<u32>;

    /// The device.
    fn mover(&mut self) -> &mut dyn Mover;

    /// Seconds on the checkpoint's clock.
    fn now(&self) -> u64;

    /// Whether any file was read recently; false if reads are not counted. Cost: reads a counter.
    fn reads_any(&self) -> bool {
        false
    }

    /// How often a file was read recently, in whole passes; 0 if reads are not counted.
    fn reads_of(&self, inode: NodeId) -> f64 {
        let _ = inode;
        0.0
    }

    /// The remap commands since the mount.
    fn remaps_seen(&self) -> RemapsSeen {
        RemapsSeen::default()
    }

    /// The die that holds a block, if the device tells.
    fn placement(&self, at: BlockAddress) -> Option<Placement> {
        let _ = at;
        None
    }
}
