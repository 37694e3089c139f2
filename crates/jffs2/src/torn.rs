//! Telling damage by power cuts from other damage.

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::{FsError, Result};

use crate::NodeAddress;
use crate::catalogue::Owner;
use crate::damage::DamageKind;
use crate::scan::node;
use crate::scan::walk::run_of;
use crate::volume::Jffs2;

impl<F: Flash> Jffs2<F> {
    /// The kind of damage in a node: a torn write if only free flash follows, by the same rule as
    /// [`Jffs2::check`]. Errors: `Device`.
    pub(crate) fn kind_at(&self, at: NodeAddress, kind: DamageKind) -> Result<DamageKind> {
        let shape = self.medium.shape();
        let Some(block) = self.catalogue.block(shape.block_of(at)) else { return Ok(kind) };
        let place = block.place_of(at.offset(shape.erase_size));
        let Some([node, behind @ ..]) = place.and_then(|place| block.nodes.get(place..)) else { return Ok(kind) };
        // Most nodes are followed by others: only the last one costs a read.
        if behind.iter().any(|node| !node.is_obsolete() || node.owner() != Owner::None) {
            return Ok(kind);
        }
        let end = node.offset.saturating_add(node.length);
        let mut bytes = vec![0; shape.erase_size.saturating_sub(node.offset) as usize];
        let read = self.medium.read(at, &mut bytes, Cause::UserData);
        let _ = read.map_err(|error| FsError::device("the flash", error))?;
        let free = bytes.get(node.length as usize..).unwrap_or(&[]);
        let torn = end < shape.erase_size
            && run_of(free, 0xFF) == free.len()
            && !node::was_written_so(self.medium.order(), &bytes);
        Ok(if torn { DamageKind::Torn } else { kind })
    }
}
