//! Operations for the naming code: make, change and orphan inodes; change directory pages.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};
use zerocopy::FromBytes;

use super::WritableVolume;
use crate::blocks::{Blocks, Nodes};
use crate::encode::inode::{InodeRest, inode_block};
use crate::encode::pack::orphans_max;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, NodeId};
use crate::inode::Inode;
use crate::layout::node::FOOTER_BYTES;
use crate::layout::{Footer, InodeHead, NodeOffset};
use crate::pages::Page;

impl<D: BlockDevice> WritableVolume<D> {
    /// Changes the fixed part of an inode: times, owner, mode, links, flags, names. Code that
    /// changes content sets size and blocks. Errors: `Corrupt` (no inode), `Device`.
    pub fn with_inode<R>(&mut self, ino: NodeId, change: impl FnOnce(&mut InodeHead) -> R) -> Result<R> {
        self.with_inode_block(ino, |block| InodeHead::mut_from_prefix(block).ok().map(|(head, _)| change(head)))?
            .ok_or_else(|| no_inode(ino))
    }

    /// Changes an inode's block: extra attributes, inline entries and inline attributes, at the
    /// offsets in [`Inode::shape`]. The caller must not change the footer. Errors: `Corrupt` (no
    /// inode), `Device`.
    pub fn with_inode_block<R>(&mut self, ino: NodeId, change: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.expect_running()?;
        let block = self.node(ino)?;
        if Footer::of_block(&block).is_none_or(|footer| footer.ino() != ino) {
            return Err(no_inode(ino));
        }
        drop(block);
        self.settle_times(ino)?;
        self.edit_node(ino, change)
    }

    /// Makes an inode with this head and content. It sets `blocks` of the head; all else is the
    /// caller's, including links and name. The inode exists from now on, in no directory. Errors:
    /// `NoSpace` (no block or no nid), before any change; `Device`.
    pub fn new_inode(&mut self, head: &InodeHead, rest: &InodeRest<'_>) -> Result<NodeId> {
        let (size, features) = (self.geometry().block_size(), self.geometry().features);
        self.admit_owners(None, [head.uid.get(), head.gid.get(), rest.project_id])?;
        self.make_inode_block(&mut |_| Ok(inode_block(size, features, &InodeHead { blocks: 1.into(), ..*head }, rest)))
    }

    /// Like [`WritableVolume::new_inode`], with a whole block except the footer, which `make`
    /// builds for the inode's number. Errors: also those of `make`; then nothing has changed.
    pub(crate) fn make_inode_block(&mut self, make: &mut dyn FnMut(NodeId) -> Result<Vec<u8>>) -> Result<NodeId> {
        self.expect_running()?;
        let ino = self.take_nid()?;
        let charged = self.writer.segments.space.charge(1, 0).and_then(|charge| match make(ino) {
            Ok(block) => Ok((charge, block)),
            Err(error) => {
                self.writer.segments.space.refund(charge);
                Err(error)
            }
        });
        let (charge, content) = match charged {
            Ok(charged) => charged,
            Err(error) => {
                self.writer.nids.give_back(ino);
                return Err(error);
            }
        };
        let directory = InodeHead::of_block(&content).and_then(|head| head.file_kind()) == Some(FileKind::Directory);
        let made = self.put_node(ino, ino, NodeOffset::INODE, !directory).and_then(|()| {
            self.edit_node(ino, |block| {
                let end = block.len().saturating_sub(FOOTER_BYTES);
                block.iter_mut().zip(content.get(..end).unwrap_or_default()).for_each(|(to, from)| *to = *from);
            })
        });
        if let Err(error) = made {
            self.writer.segments.space.refund(charge);
            return Err(error);
        }
        self.writer.segments.space.valid_inodes = self.writer.segments.space.valid_inodes.saturating_add(1);
        Ok(ino)
    }

    /// Records an open inode without a name: the checkpoint lists it, and a mount after a power cut
    /// frees it. Errors: `NoSpace` (the checkpoint has no room for another).
    pub fn add_orphan(&mut self, ino: NodeId) -> Result<()> {
        self.expect_running()?;
        let most = orphans_max(self.geometry());
        if self.writer.orphans.len() >= most && !self.writer.orphans.contains(&ino) {
            let detail = format!("{most} open files have no name; a checkpoint has no room for more");
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        }
        self.writer.orphans.insert(ino);
        Ok(())
    }

    /// Removes an inode from the orphans, because it got a name again or is gone.
    /// [`WritableVolume::free_inode`] calls it.
    pub fn remove_orphan(&mut self, ino: NodeId) {
        self.writer.orphans.remove(&ino);
    }

    /// Open inodes without a name, ascending.
    pub fn orphans(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.writer.orphans.iter().copied()
    }

    /// Whether the last checkpoint holds an inode. If it does not hold a directory, an fsync of a
    /// file inside must be a checkpoint.
    pub fn is_checkpointed(&self, ino: NodeId) -> bool {
        self.nat.is_checkpointed(ino)
    }

    /// The current page of a directory; `None` for a hole. Errors: `Corrupt`, `Device`.
    pub fn directory_page(&self, directory: &Inode, page: u32) -> Result<Option<Block>> {
        use crate::directory::DirectoryPages;
        crate::directory::Directory { volume: self, inode: directory }.page(page)
    }

    /// Changes a page of a directory whose entries are not inline; allocates a hole and extends the
    /// size to the page. Errors: `NoSpace` (nothing has changed), `FileTooBig`, `Corrupt`,
    /// `Device`.
    pub fn change_directory_page<R>(
        &mut self,
        directory: NodeId,
        page: u32,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        self.expect_running()?;
        let inode = self.inode_at(directory)?;
        let mut bytes = match self.directory_page(&inode, page)? {
            Some(block) => block.to_vec(),
            None => vec![0; self.geometry().block_size()],
        };
        self.reserve(directory, u64::from(page), 1)?;
        let result = change(&mut bytes);
        let end = (u64::from(page) + 1) << self.geometry().log_block_size();
        if inode.head.size.get() < end {
            self.with_inode(directory, |head| head.size = end.into())?;
        }
        self.writer.pages().change(directory, page, Page::Bytes(bytes.into()), true);
        Ok(result)
    }
}

#[cold]
fn no_inode(ino: NodeId) -> FsError {
    Defect::new(FindingKind::Footer, format!("{ino} is not an inode but part of one")).into_error()
}
