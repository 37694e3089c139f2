//! Writes the extended attributes of an inode as a whole area.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::WritableVolume;
use crate::blocks::{Blocks, Nodes};
use crate::ids::{DataAddress, NodeId};
use crate::layout::NodeOffset;
use crate::layout::inode::inline;
use crate::layout::node::FOOTER_BYTES;

impl<D: BlockDevice> WritableVolume<D> {
    /// Sets an inode's attributes to this area (`encode::xattr::area`; empty for none): first its
    /// inline words, then a separate node, which is made or freed as needed (xattr.c,
    /// `write_all_xattrs`). `xattr::area` reads it back. Errors: `AttributesTooBig` (E2BIG, as in
    /// `__f2fs_setxattr`), `NoSpace` (no block for the node; nothing has changed), `ReadOnly`,
    /// `Corrupt`, `Device`.
    pub fn set_xattr_area(&mut self, ino: NodeId, area: &[u8]) -> Result<()> {
        self.balance()?;
        let inode = self.inode_at(ino)?;
        // Without the flag, words reserved for attributes hold none (xattr.c, `inline_xattr_size`).
        let words = match inode.head.has_inline(inline::XATTR) {
            true => inode.shape.xattrs.clone(),
            false => inode.shape.xattrs.end..inode.shape.xattrs.end,
        };
        let node_room = self.geometry().block_size() - FOOTER_BYTES;
        if area.len() > words.len() + node_room {
            let detail =
                format!("attributes of {} bytes; an inode has room for {}", area.len(), words.len() + node_room);
            return Err(FsError::new(ErrorKind::AttributesTooBig, detail));
        }
        let (inside, behind) = area.split_at(area.len().min(words.len()));
        let old = NodeId(inode.head.xattr_nid.get());
        match (old.some(), behind.is_empty()) {
            (None, true) => {}
            (Some(nid), true) => {
                self.expect_xattr_node(ino, nid)?;
                if matches!(self.entry(nid)?.address(), DataAddress::At(_)) {
                    // Linux's roll-forward takes attributes from a node that it finds but never
                    // removes a node, so an fsync has to be a checkpoint (node.c,
                    // `f2fs_recover_inline_xattr`).
                    self.writer.since_checkpoint.pruned(ino);
                }
                self.drop_node(nid)?;
                self.edit_head(ino, |head| head.xattr_nid = 0.into())?;
                self.count_blocks(ino, -1)?;
            }
            (None, false) => {
                self.admit_blocks(ino, 1, false)?;
                let nid = self.take_nid()?;
                if let Err(error) = self.writer.segments.space.charge(1, 0) {
                    self.writer.nids.give_back(nid);
                    return Err(error);
                }
                self.put_node(nid, ino, NodeOffset::XATTR, inode.kind != FileKind::Directory)?;
                self.edit_head(ino, |head| head.xattr_nid = nid.0.into())?;
                self.count_blocks(ino, 1)?;
                self.fill(nid, 0..node_room, behind)?;
            }
            (Some(nid), false) => {
                self.expect_xattr_node(ino, nid)?;
                self.fill(nid, 0..node_room, behind)?;
            }
        }
        if inode.kind == FileKind::Directory {
            self.writer.since_checkpoint.xattrs_changed(ino);
        }
        self.fill(ino, words, inside)
    }

    /// Writes bytes into a part of a node and zeroes the rest of that part.
    fn fill(&mut self, nid: NodeId, part: std::ops::Range<usize>, bytes: &[u8]) -> Result<()> {
        self.edit_node(nid, |block| {
            let places = block.get_mut(part).unwrap_or_default().iter_mut();
            places.zip(bytes.iter().copied().chain(std::iter::repeat(0))).for_each(|(to, from)| *to = from);
        })
    }
}
