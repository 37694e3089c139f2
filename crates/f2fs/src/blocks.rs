//! What reading needs from below: blocks by address, nodes by nid.
//!
//! All reading code is generic over [`Nodes`]: a read-only volume serves it from the device, one
//! that writes from what it has changed as well.

use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::ids::{Block, BlockAddress, NodeId};
use crate::layout::{Geometry, NatEntry};

/// Where a stretch of blocks begins, and what takes its bytes.
pub type Piece<'a> = (BlockAddress, &'a mut [u8]);

/// Blocks at addresses.
pub trait Blocks: Sync {
    /// The volume's shape. Cost: a field access.
    fn geometry(&self) -> &Geometry;

    /// Reads whole blocks from `at` on; the length of `into` is a multiple of the block size.
    /// Errors: `Device`, `Corrupt` (the device ends before).
    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()>;

    /// Reads several stretches of whole blocks that are handed to the devices together, as Linux
    /// does with the pieces of a read-ahead (data.c, `f2fs_mpage_readpages`): they take as long as
    /// the last one to come. Errors: those of [`Blocks::read`].
    fn read_together(&self, cause: Cause, pieces: &mut [Piece<'_>]) -> Result<()> {
        pieces.iter_mut().try_for_each(|(at, into)| self.read(cause, *at, into))
    }

    /// Whether the devices reach as far as the block: not those of a volume that was cut short.
    fn reaches(&self, at: BlockAddress) -> bool {
        let _ = at;
        true
    }
}

/// Nodes by nid.
pub trait Nodes: Sync {
    /// Where a node lies. Errors: `Corrupt` (a nid outside the NAT), `Device`. A free nid is an
    /// entry like others.
    fn entry(&self, nid: NodeId) -> Result<NatEntry>;

    /// A node's block, whose footer names it. Errors: `Corrupt` (a free nid, an address outside the
    /// main area, a foreign footer), `Device`.
    fn node(&self, nid: NodeId) -> Result<Block>;
}
