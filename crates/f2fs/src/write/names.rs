//! Implements the interfaces of [`crate::names`] for a volume.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FileKind, Result, Timestamp};

use super::WritableVolume;
use super::back::Why;
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::directory::{Directory, Position};
use crate::ids::{Block, NodeId};
use crate::inode::Inode;
use crate::layout::superblock::EXTENSIONS_MAX;
use crate::layout::{Geometry, Superblock};
use crate::names::new_inode::Making;
use crate::names::store::{InodeStore, NameState};
use crate::pages::Page;
use crate::quota::Owners;

/// The initial state of naming at a mount. Generations depend on the volume and its last
/// checkpoint.
pub(super) fn state_of(superblock: &Superblock, state: &CheckpointState, making: Making) -> NameState {
    let cold = superblock.extension_count.get() as usize;
    let hot = usize::from(superblock.hot_extension_count);
    let name = |bytes: &[u8; 8]| {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
    };
    let names: Vec<String> =
        superblock.extensions.iter().take(cold.saturating_add(hot).min(EXTENSIONS_MAX)).map(name).collect();
    let (cold, hot) = names.split_at(cold.min(names.len()));
    let [a, b, c, d, e, f, g, h, ..] = superblock.uuid;
    let seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ state.head.version.get();
    NameState::new(making, (cold.to_vec(), hot.to_vec()), seed)
}

impl<D: BlockDevice> InodeStore for WritableVolume<D> {
    fn geometry(&self) -> &Geometry {
        Blocks::geometry(self)
    }

    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.device.unix_ns()).unwrap_or(i64::MAX))
    }

    fn state(&mut self) -> &mut NameState {
        &mut self.writer.names
    }

    fn prepare(&mut self) -> Result<()> {
        self.balance()
    }

    fn inode_at(&self, ino: NodeId) -> Result<Inode> {
        WritableVolume::inode_at(self, ino)
    }

    fn directory_page(&self, directory: &Inode, page: u32) -> Result<Option<Block>> {
        WritableVolume::directory_page(self, directory, page)
    }

    fn find_entry(&self, directory: &Inode, name: &[u8]) -> Result<Option<Position>> {
        Directory { volume: self, inode: directory }.find(name)
    }

    fn is_empty_directory(&self, directory: &Inode) -> Result<bool> {
        Directory { volume: self, inode: directory }.is_empty()
    }

    fn xattr_area(&self, inode: &Inode) -> Result<Vec<u8>> {
        crate::xattr::area(self, inode)
    }

    fn edit_inode(&mut self, ino: NodeId, change: &mut dyn FnMut(&mut [u8])) -> Result<()> {
        self.with_inode_block(ino, change)
    }

    fn edit_page(&mut self, ino: NodeId, page: u32, change: &mut dyn FnMut(&mut [u8])) -> Result<()> {
        if WritableVolume::inode_at(self, ino)?.kind == FileKind::Directory {
            return self.change_directory_page(ino, page, change);
        }
        let mut bytes = self.page_bytes(ino, page.into())?;
        self.reserve(ino, page.into(), 1)?;
        change(&mut bytes);
        self.writer.pages().change(ino, page, Page::Bytes(bytes.into()), false);
        // A symlink is as durable as its name, but a checkpoint leaves file data out (namei.c,
        // `f2fs_symlink`).
        self.write_back(&[ino], Why::BACKGROUND)
    }

    fn drop_page(&mut self, ino: NodeId, page: u32) -> Result<()> {
        self.free_pages(ino, page.into(), u64::from(page) + 1)
    }

    fn drop_all_pages(&mut self, ino: NodeId) -> Result<()> {
        self.writer.pages().truncate(ino, 0);
        self.free_pages_from(ino, 0)
    }

    fn make_inode(&mut self, make: &mut dyn FnMut(NodeId) -> Result<Vec<u8>>) -> Result<NodeId> {
        self.make_inode_block(make)
    }

    fn set_xattr_area(&mut self, ino: NodeId, area: &[u8]) -> Result<()> {
        WritableVolume::set_xattr_area(self, ino, area)
    }

    fn admit(&mut self, ino: Option<NodeId>, owners: Owners) -> Result<()> {
        self.admit_owners(ino, owners)
    }

    fn set_orphan(&mut self, ino: NodeId, orphan: bool) -> Result<()> {
        if orphan {
            return self.add_orphan(ino);
        }
        self.remove_orphan(ino);
        Ok(())
    }

    fn bring_content(&mut self, ino: NodeId) -> Result<()> {
        let written = self.write_back(&[ino], Why { makes_room: true, ..Why::BACKGROUND });
        written.or_else(|error| if error.kind == ErrorKind::NoSpace { Ok(()) } else { Err(error) })
    }

    fn lost_name(&mut self, directory: NodeId, name_of_directory: bool) {
        self.writer.since_checkpoint.lost_name(directory, name_of_directory);
    }

    fn free_inode(&mut self, ino: NodeId) -> Result<()> {
        self.give_up_inode(ino)
    }
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Frees inodes without a name. Errors: `Corrupt`, `Device`, `ReadOnly`.
    pub(crate) fn free_orphans(&mut self) -> Result<()> {
        while let Some(&ino) = self.writer.orphans.first() {
            self.free_inode(ino)?;
        }
        Ok(())
    }
}
