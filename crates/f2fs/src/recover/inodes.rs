//! Recovers inodes of the chain: creates them, and takes over fields, inline content and attributes
//! (recovery.c, `recover_inode`; node.c, `f2fs_recover_inode_page`; inline.c,
//! `f2fs_recover_inline_data`).

use nandkit_block::BlockDevice;
use nandkit_vfs::Result;
use zerocopy::{FromBytes, IntoBytes};

use crate::blocks::Blocks;
use crate::encode::put;
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::inode::{Extent, WORDS_OFFSET, inline};
use crate::layout::node::FOOTER_BYTES;
use crate::layout::{ExtraAttributes, InodeHead, NodeOffset, set_word};
use crate::write::WritableVolume;

impl<D: BlockDevice> WritableVolume<D> {
    /// Creates a file that the checkpoint does not have: empty, with one link for the name to come.
    /// Errors: `NoSpace`, `Corrupt`, `Device`.
    pub(super) fn make_from(&mut self, from: &Inode) -> Result<()> {
        let charge = self.writer.segments.space.charge(1, 0)?;
        if let Err(error) = self.put_node(from.nid, from.nid, NodeOffset::INODE, true) {
            self.writer.segments.space.refund(charge);
            return Err(error);
        }
        self.writer.segments.space.valid_inodes = self.writer.segments.space.valid_inodes.saturating_add(1);
        let head = InodeHead {
            inline: from.head.inline & (inline::XATTR | inline::EXTRA),
            links: 1.into(),
            size: 0.into(),
            blocks: 1.into(),
            xattr_nid: 0.into(),
            extent: Extent::default(),
            ..from.head
        };
        let extra = from.extra;
        self.edit_node(from.nid, |block| {
            put(block, 0, head.as_bytes());
            if let Some(extra) = &extra {
                let length = usize::from(extra.bytes.get()).min(size_of::<ExtraAttributes>());
                put(block, WORDS_OFFSET, extra.as_bytes().get(..length).unwrap_or_default());
            }
        })
    }

    /// Takes over the fields that an fsync makes durable; not links, parent or depth.
    pub(super) fn take_fields(&mut self, from: &Inode) -> Result<()> {
        let kept = inline::PINNED | inline::DATA_EXISTS;
        let (source, features) = (from.head, self.geometry().features);
        self.edit_head(from.nid, |head| {
            (head.mode, head.uid, head.gid, head.size) = (source.mode, source.uid, source.gid, source.size);
            (head.accessed, head.changed, head.modified) = (source.accessed, source.changed, source.modified);
            (head.accessed_ns, head.changed_ns) = (source.accessed_ns, source.changed_ns);
            (head.modified_ns, head.advise, head.flags) = (source.modified_ns, source.advise, source.flags);
            head.inline = head.inline & !kept | source.inline & kept;
        })?;
        let project = from.extra.and_then(|extra| extra.project_id(features));
        let at = WORDS_OFFSET + std::mem::offset_of!(ExtraAttributes, project_id);
        if let Some(project) = project
            && self.inode_at(from.nid)?.extra.is_some_and(|extra| extra.project_id(features).is_some())
        {
            self.edit_node(from.nid, |block| set_word(block, at, project))?;
        }
        Ok(())
    }

    /// Takes over the inline attributes and frees an attribute node that the file no longer has.
    pub(super) fn take_inline_xattrs(&mut self, from: &Inode) -> Result<()> {
        let flag = from.head.inline & inline::XATTR;
        self.edit_head(from.nid, |head| head.inline = head.inline & !inline::XATTR | flag)?;
        let here = self.inode_at(from.nid)?;
        let words = here.shape.xattrs.clone();
        let bytes = from.inline_xattrs().to_vec();
        if bytes.len() == words.len() {
            self.edit_node(from.nid, |block| put(block, words.start, &bytes))?;
        }
        let node = NodeId(here.head.xattr_nid.get());
        if from.head.xattr_nid.get() == 0
            && let Some(nid) = node.some()
        {
            self.expect_xattr_node(from.nid, nid)?;
            self.drop_node(nid)?;
            self.edit_head(from.nid, |head| head.xattr_nid = 0.into())?;
            self.count_blocks(from.nid, -1)?;
        }
        Ok(())
    }

    /// Takes over an attribute node, under a nid from the checkpoint or a new one.
    pub(super) fn take_xattr_node(&mut self, ino: NodeId, content: &[u8]) -> Result<()> {
        let here = self.inode_at(ino)?;
        let nid = match NodeId(here.head.xattr_nid.get()).some() {
            Some(nid) => {
                self.expect_xattr_node(ino, nid)?;
                nid
            }
            None => {
                let nid = self.take_nid()?;
                if let Err(error) = self.writer.segments.space.charge(1, 0) {
                    self.writer.nids.give_back(nid);
                    return Err(error);
                }
                self.put_node(nid, ino, NodeOffset::XATTR, true)?;
                self.edit_head(ino, |head| head.xattr_nid = nid.0.into())?;
                self.count_blocks(ino, 1)?;
                nid
            }
        };
        let end = content.len().saturating_sub(FOOTER_BYTES);
        self.edit_node(nid, |block| put(block, 0, content.get(..end).unwrap_or_default()))
    }

    /// Takes over inline content, in all four combinations of before and after. Returns true if
    /// there are no addresses to take over.
    pub(super) fn take_inline_data(&mut self, ino: NodeId, from: Option<&Inode>) -> Result<bool> {
        let here = self.inode_at(ino)?;
        let had = here.head.has_inline(inline::DATA);
        let Some(from) = from.filter(|from| from.head.has_inline(inline::DATA)) else {
            if had {
                self.edit_node(ino, |block| {
                    let start = here.shape.inline.start.saturating_sub(4);
                    block.get_mut(start..here.shape.inline.end).unwrap_or_default().fill(0);
                    if let Ok((head, _)) = InodeHead::mut_from_prefix(block) {
                        head.inline &= !inline::DATA;
                    }
                })?;
            }
            return Ok(false);
        };
        if !had {
            self.free_pages_from(ino, 0)?;
            self.edit_head(ino, |head| head.inline |= inline::DATA)?;
        }
        let room = self.inode_at(ino)?.shape.inline;
        let bytes = from.block.get(from.shape.inline.clone()).unwrap_or_default().to_vec();
        self.edit_node(ino, |block| {
            let place = block.get_mut(room.start.saturating_sub(4)..room.end).unwrap_or_default();
            place.fill(0);
            put(place, 4, &bytes);
        })?;
        Ok(true)
    }
}
