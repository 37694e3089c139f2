//! What reading needs from the layer below: blocks by address, nodes by nid.
//!
//! All reading code is generic over [`Nodes`]: a read-only volume reads nodes from the device, a
//! writable one also from memory.

use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::ids::{Block, BlockAddress, NodeId};
use crate::layout::{Geometry, NatEntry};

/// The first address of a run of blocks, and the buffer for its bytes.
pub type Piece<'a> = (BlockAddress, &'a mut [u8]);

/// Reads blocks by address.
pub trait Blocks: Sync {
    /// The volume's geometry. Cost: a field access.
    fn geometry(&self) -> &Geometry;

    /// Reads whole blocks starting at `at`; the length of `into` is a multiple of the block size.
    /// Errors: `Device`, `Corrupt` (the device ends before the last block).
    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()>;

    /// Reads several runs of whole blocks in one submission, as Linux does for the pieces of a
    /// read-ahead (data.c, `f2fs_mpage_readpages`); it takes as long as the slowest piece. Errors:
    /// those of [`Blocks::read`].
    fn read_together(&self, cause: Cause, pieces: &mut [Piece<'_>]) -> Result<()> {
        pieces.iter_mut().try_for_each(|(at, into)| self.read(cause, *at, into))
    }

    /// Whether the devices are large enough to hold the block; false past the end of a volume that
    /// was cut short.
    fn reaches(&self, at: BlockAddress) -> bool {
        let _ = at;
        true
    }
}

/// Reads nodes by nid.
pub trait Nodes: Sync {
    /// The NAT entry of a node; a free nid has an entry too. Errors: `Corrupt` (a nid outside the
    /// NAT), `Device`.
    fn entry(&self, nid: NodeId) -> Result<NatEntry>;

    /// A node's block, with its footer checked against the nid. Errors: `Corrupt` (a free nid, an
    /// address outside the main area, the footer of another node), `Device`.
    fn node(&self, nid: NodeId) -> Result<Block>;
}
