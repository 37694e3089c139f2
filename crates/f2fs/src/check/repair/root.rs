//! Makes a new root directory; lost inodes get the names that they record.

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result, Timestamp};
use zerocopy::FromZeros;

use super::mend::{Mender, Overlay};
use crate::check::report::Draft;
use crate::check::{Check, batch};
use crate::checkpoint_state::CheckpointState;
use crate::encode::directory::put_dots;
use crate::encode::inode::{InodeRest, inode_block};
use crate::encode::node::{FooterFields, put_footer};
use crate::encode::put;
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::dentry::type_of;
use crate::layout::inode::{DEFAULT_XATTR_WORDS, EXTRA_BYTES_MAX, Extent, NIDS, flag, inline};
use crate::layout::{BLOCKS_PER_SEGMENT, Features, Footer, Geometry, InodeHead, NatEntry, NodeOffset, Superblock};

/// Permissions of a new root, as in mkfs.f2fs.
const PERMISSIONS: u16 = 0o755;

/// Makes sure that the volume has a root directory. A root with the wrong file type gets the right
/// one; one that cannot be used is replaced by a new, empty one. Returns whether it is new. Errors:
/// `NoSpace` (needs two free segments), `Corrupt` (a volume that is never written has no place for
/// one).
pub(super) fn provide(overlay: &mut Overlay<'_>, superblock: &Superblock, state: &mut CheckpointState) -> Result<bool> {
    let geometry = overlay.inner.geometry();
    let (marked, new) = {
        let mut check = Check::new(overlay, superblock, state, Draft::default());
        check.mender = Some(Mender::default());
        check.walk_from_roots(superblock);
        if check.inodes.get(NodeId::ROOT).inode_type == type_of(FileKind::Directory) {
            return Ok(false);
        }
        match check.marked_root() {
            Some(marked) => (Some(marked), None),
            None => {
                check.find_lost();
                (None, Some(check.places_of_root()?))
            }
        }
    };
    if let Some((at, block)) = marked {
        overlay.blocks.insert(at, block);
        return Ok(false);
    }
    let Some((node, page)) = new else { return Ok(false) };
    overlay.blocks.insert(node, root_inode(geometry, state, node, page).into());
    let mut first = vec![0; geometry.block_size()];
    put_dots(&mut first, NodeId::ROOT, NodeId::ROOT);
    overlay.blocks.insert(page, first.into());
    state.nat_journal.retain(|(nid, _)| *nid != NodeId::ROOT);
    state.nat_journal.push((NodeId::ROOT, NatEntry::new(0, NodeId::ROOT, node)));
    Ok(true)
}

impl Check<'_> {
    /// The root's block with the file type of a directory, if the block is the root's and is usable
    /// with it.
    fn marked_root(&self) -> Option<(BlockAddress, Block)> {
        let DataAddress::At(at) = self.nat.entry(NodeId::ROOT)?.address() else { return None };
        self.geometry.main(at)?;
        let mut block = batch::one(self.blocks, Cause::Metadata, at).ok()?.to_vec();
        let footer = Footer::of_block(&block)?;
        if (footer.nid(), footer.ino()) != (NodeId::ROOT, NodeId::ROOT) {
            return None;
        }
        let mode = InodeHead::of_block(&block)?.mode.get();
        put(&mut block, 0, &(mode & 0o7777 | FileKind::Directory.mode() as u16).to_le_bytes());
        let block: Block = block.into();
        Inode::decode(self.geometry, NodeId::ROOT, block.clone(), &mut |_| {})?;
        Some((at, block))
    }

    /// Addresses for a root's node and its first page, in segments without claimed blocks.
    fn places_of_root(&self) -> Result<(BlockAddress, BlockAddress)> {
        if self.geometry.features.has(Features::READ_ONLY) {
            let detail = "there is no root directory, and no room for one on a read-only volume";
            return Err(FsError::new(ErrorKind::Corrupt, detail));
        }
        let next = |from| self.segments.free_segment(self.geometry, self.state, from);
        let node = next(None);
        let page = node.and_then(|node| next(node.checked_add(BLOCKS_PER_SEGMENT)));
        let detail = "there is no root directory, and there are no two free segments for a new one";
        node.zip(page).ok_or_else(|| FsError::new(ErrorKind::NoSpace, detail))
    }
}

/// The node of a root with one page. Its checksum is set later with those of all inodes.
fn root_inode(geometry: &Geometry, state: &CheckpointState, node: BlockAddress, page: BlockAddress) -> Vec<u8> {
    let mut head = InodeHead::new_zeroed();
    head.mode = (FileKind::Directory.mode() as u16 | PERMISSIONS).into();
    (head.links, head.blocks, head.depth) = (2.into(), 2.into(), 1.into());
    head.size = (geometry.block_size() as u64).into();
    head.inline = inline::XATTR;
    head.flags = flag::INDEX.into();
    let rest = InodeRest {
        extra_bytes: if geometry.features.has(Features::EXTRA_ATTRIBUTES) { EXTRA_BYTES_MAX } else { 0 },
        project_id: 0,
        compression: (0, 0, 0),
        xattr_words: DEFAULT_XATTR_WORDS,
        created: Timestamp(0),
        inline: &[],
        words: &[page.0],
        xattrs: &[],
        nids: [NodeId::NONE; NIDS],
        extent: Extent::default(),
    };
    let mut block = inode_block(geometry.block_size(), geometry.features, &head, &rest);
    let footer = FooterFields {
        nid: NodeId::ROOT,
        ino: NodeId::ROOT,
        offset: NodeOffset::INODE,
        marks: FooterFields::cold(true),
        checkpoint: state.head.version.get(),
        next: BlockAddress(node.0.saturating_add(1)),
    };
    put_footer(&mut block, &footer);
    block
}
