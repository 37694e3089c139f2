//! The file-system contract for a volume mounted for writing.

use std::ops::Range;

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Nanos, Payload};
use nandkit_vfs::{
    Adopt, AdoptedRange, Allocation, AtomicWrites, AttributeChange, Attributes, Changes, FileExtent, FileSystem, Holes,
    Housekeeping, InodeNumber, Links, NewNode, OpenFiles, RenameFlags, Result, XattrChanges,
};

use crate::blocks::Blocks;
use crate::device::WritableBlocks;
use crate::ids::{Block, BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::Geometry;
use crate::names::store::{InodeStore, edit_head, set_modified};
use crate::names::{attributes, links, rename};
use crate::pages::Page;
use crate::volume::{Access, Counts};
use crate::write::{WritableVolume, Writer};

impl<D: BlockDevice> Access<WritableBlocks<D>> for Writer {
    fn show(&self, inode: &mut Inode) {
        self.lazy_times.show(inode);
    }

    fn attributes(inode: &Inode, geometry: &Geometry) -> Attributes {
        // An open inode without a name has no links.
        Attributes { links: inode.head.links.get(), ..inode.attributes(geometry) }
    }

    fn counts(volume: &WritableVolume<D>) -> Counts {
        let space = &volume.segments().space;
        Counts {
            user_blocks: volume.user_blocks(),
            valid_blocks: space.valid_blocks.saturating_add(space.reserved_blocks),
            valid_nodes: space.valid_nodes.into(),
        }
    }

    fn directory_page(&self, directory: NodeId, page: u32) -> Option<Block> {
        match self.locked_pages().get(directory, page) {
            Some(Page::Bytes(block)) => Some(block.clone()),
            _ => None,
        }
    }

    fn directory_block(volume: &WritableVolume<D>, directory: NodeId, page: u32, at: BlockAddress) -> Result<Block> {
        let mut block = vec![0; volume.device.geometry().block_size()];
        volume.device.read(Cause::Metadata, at, &mut block)?;
        let block = Block::from(block);
        volume.writer.locked_pages().keep(directory, page, Page::Bytes(block.clone()));
        Ok(block)
    }

    fn read(volume: &WritableVolume<D>, inode: &Inode, offset: u64, into: &mut [u8]) -> Result<()> {
        if let Some(reads) = &volume.writer.reads {
            reads.note(inode.nid, into.len());
        }
        volume.read_at(inode, offset, into)
    }

    fn data_after(volume: &WritableVolume<D>, inode: &Inode, offset: u64) -> Result<Option<Range<u64>>> {
        volume.data_after(inode, offset)
    }

    fn extent_after(volume: &WritableVolume<D>, inode: &Inode, offset: u64) -> Result<Option<FileExtent>> {
        volume.extent_now(inode, offset)
    }

    fn changes(volume: &mut WritableVolume<D>) -> Option<&mut dyn Changes> {
        Some(volume)
    }
}

impl<D: BlockDevice> WritableVolume<D> {
    /// The number of an existing inode. Errors: `NotFound`, `Corrupt`, `Device`.
    fn living(&self, inode: InodeNumber) -> Result<NodeId> {
        Ok(self.inode(inode)?.nid)
    }

    /// The number of a regular file that may be changed. Errors: `IsADirectory`, `InvalidArgument`,
    /// `ReadOnly`, and as [`WritableVolume::living`].
    fn changeable_file(&self, inode: InodeNumber) -> Result<NodeId> {
        let ino = self.writable_file(inode)?.nid;
        self.expect_no_draft(ino)?;
        Ok(ino)
    }

    /// The inode of a regular file or of a draft that may be written. Errors: as `changeable_file`.
    fn writable_file(&self, inode: InodeNumber) -> Result<Inode> {
        let inode = self.regular(inode)?;
        links::expect_mutable(&inode)?;
        self.expect_no_draft_of(inode.nid)?;
        Ok(inode)
    }

    /// Sets the times of a file whose content changed.
    fn touch(&mut self, ino: NodeId) -> Result<()> {
        let now = self.now();
        edit_head(self, ino, &mut |head| set_modified(head, now))
    }
}

impl<D: BlockDevice> Changes for WritableVolume<D> {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        let directory = self.living(directory)?;
        links::create(self, directory, name, node).map(|ino| InodeNumber(u64::from(ino.0)))
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        let file = self.writable_file(inode)?;
        let (ino, size) = (file.nid, file.head.size.get());
        let written = self.write_to(file, offset, data)?;
        if offset.saturating_add(written as u64) > size {
            self.touch(ino)?;
        } else if written > 0 {
            let now = self.now();
            self.writer.lazy_times.put(ino, now);
        }
        Ok(written)
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        if *change != AttributeChange::default() {
            // Adding a quota record for a new owner is already a change.
            self.balance()?;
            // Checked before truncation, so that a refused change of attributes truncates nothing.
            let known = self.inode(inode)?;
            attributes::admit(self, &known, change)?;
            if let Some(size) = change.size {
                let ino = self.changeable_file(inode)?;
                self.truncate(ino, size)?;
                self.touch(ino)?;
            }
            let ino = self.living(inode)?;
            attributes::change(self, ino, change)?;
        }
        self.stat(inode)
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let directory = self.living(directory)?;
        links::unlink(self, directory, name)
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        let (source, target) = (self.living(from.0)?, self.living(to.0)?);
        rename::rename(self, (source, from.1), (target, to.1), flags)
    }

    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        match inode {
            Some(inode) => {
                let ino = self.living(inode)?;
                self.fsync(ino, false)
            }
            None => WritableVolume::sync(self),
        }
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        Some(self)
    }

    fn links(&mut self) -> Option<&mut dyn Links> {
        Some(self)
    }

    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        Some(self)
    }

    fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        Some(self)
    }

    fn holes(&mut self) -> Option<&mut dyn Holes> {
        Some(self)
    }

    fn adopt(&mut self) -> Option<&mut dyn Adopt> {
        if self.can_adopt() { Some(self) } else { None }
    }

    fn atomic_writes(&mut self) -> Option<&mut dyn AtomicWrites> {
        Some(self)
    }

    fn housekeeping(&mut self) -> Option<&mut dyn Housekeeping> {
        if self.stopped().is_none() { Some(self) } else { None }
    }
}

impl<D: BlockDevice> OpenFiles for WritableVolume<D> {
    fn retain(&mut self, inode: InodeNumber) -> Result<()> {
        let ino = self.living(inode)?;
        links::retain(self, ino)
    }

    fn release(&mut self, inode: InodeNumber) -> Result<()> {
        let ino = self.living(inode)?;
        links::release(self, ino)
    }
}

impl<D: BlockDevice> Links for WritableVolume<D> {
    fn link(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let (ino, directory) = (self.living(inode)?, self.living(directory)?);
        links::link(self, ino, directory, name)
    }
}

impl<D: BlockDevice> XattrChanges for WritableVolume<D> {
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()> {
        let ino = self.living(inode)?;
        attributes::set_xattr(self, ino, name, value)
    }

    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        let ino = self.living(inode)?;
        attributes::remove_xattr(self, ino, name)
    }
}

impl<D: BlockDevice> Allocation for WritableVolume<D> {
    fn allocate(&mut self, inode: InodeNumber, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        let ino = self.changeable_file(inode)?;
        self.allocate_range(ino, offset, length, keep_size)?;
        self.touch(ino)
    }
}

impl<D: BlockDevice> Holes for WritableVolume<D> {
    fn punch_hole(&mut self, inode: InodeNumber, offset: u64, length: u64) -> Result<()> {
        let ino = self.changeable_file(inode)?;
        self.punch(ino, offset, length)?;
        self.touch(ino)
    }
}

impl<D: BlockDevice> Adopt for WritableVolume<D> {
    fn unit(&mut self) -> u32 {
        Blocks::geometry(self).block_size() as u32
    }

    fn adopt(&mut self, target: InodeNumber, places: &[AdoptedRange]) -> Result<()> {
        let target = self.changeable_file(target)?;
        self.adopt_places(target, places)?;
        if places.is_empty() { Ok(()) } else { self.touch(target) }
    }
}

impl<D: BlockDevice> Housekeeping for WritableVolume<D> {
    fn next_due(&mut self) -> Nanos {
        Self::next_due(self)
    }

    fn work(&mut self) -> Result<bool> {
        self.work_when_idle()
    }
}

impl<D: BlockDevice> AtomicWrites for WritableVolume<D> {
    fn begin_atomic(&mut self, inode: InodeNumber) -> Result<InodeNumber> {
        let inode = self.regular(inode)?;
        links::expect_mutable(&inode)?;
        self.begin_draft(inode.nid).map(|draft| InodeNumber(u64::from(draft.0)))
    }

    fn commit_atomic(&mut self, draft: InodeNumber) -> Result<()> {
        let draft = self.living(draft)?;
        self.commit_draft(draft)
    }

    fn abort_atomic(&mut self, draft: InodeNumber) -> Result<()> {
        let draft = self.living(draft)?;
        self.abort_draft(draft)
    }
}
