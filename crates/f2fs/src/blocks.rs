//! What reading needs from below: blocks by address, nodes by nid.
//!
//! All reading code is generic over [`Nodes`]: a read-only volume serves it from the device, one
//! that writes from what it has changed as well.

use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::ids::{Block, BlockAddress, NodeId};
use crate::layout::{Geometry, NatEntry};

/// Blocks at addresses.
pub trait Blocks: Sync {
    /// The volume's shape. Cost: a field access.
    fn geometry(&self) -> &Geometry;

    /// Reads whole blocks from `at` on; the length of `into` is a multiple of the block size.
    /// Errors: `Device`, `Corrupt` (the device ends before).
    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()>;

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
