//! What changes of names need of a volume that is written.

use std::collections::BTreeMap;

use nandkit_units::random::Random;
use nandkit_vfs::{ErrorKind, FsError, Result, Timestamp};
use zerocopy::FromBytes;

use super::new_inode::Making;
use crate::directory::Position;
use crate::encode::inode::seconds;
use crate::ids::{Block, NodeId};
use crate::inode::Inode;
use crate::layout::{Geometry, InodeHead};
use crate::quota::Owners;

/// Inodes, pages of directories and attributes, as they are now and to be changed. What a change
/// says is seen at once and durable with the next checkpoint.
///
/// A change that ends in `NoSpace` has changed nothing.
pub trait InodeStore {
    /// The shape of the volume.
    fn geometry(&self) -> &Geometry;

    /// The time that changes leave in inodes.
    fn now(&self) -> Timestamp;

    /// What is kept in memory of names.
    fn state(&mut self) -> &mut NameState;

    /// Asked before each operation that changes anything: refuses (`ReadOnly`), or makes room.
    fn prepare(&mut self) -> Result<()>;

    /// An inode that something on the volume names. Errors: `Corrupt`, `Device`.
    fn inode_at(&self, ino: NodeId) -> Result<Inode>;

    /// A page of a directory; `None` for a hole. Errors: `Corrupt`, `Device`.
    fn directory_page(&self, directory: &Inode, page: u32) -> Result<Option<Block>>;

    /// The entry with a name, as lookups find it. Errors: `Corrupt`, `Device`.
    fn find_entry(&self, directory: &Inode, name: &[u8]) -> Result<Option<Position>>;

    /// Whether a directory holds nothing but its dots. Errors: `Corrupt`, `Device`. Cost: its pages
    /// up to the first entry.
    fn is_empty_directory(&self, directory: &Inode) -> Result<bool>;

    /// An inode's area of extended attributes. Errors: `Corrupt`, `Device`.
    fn xattr_area(&self, inode: &Inode) -> Result<Vec<u8>>;

    /// Changes an inode's block; footer and checksum are the store's. Errors: `Corrupt`, `Device`.
    fn edit_inode(&mut self, ino: NodeId, change: &mut dyn FnMut(&mut [u8])) -> Result<()>;

    /// Changes a page of a directory or of a link; a hole is zeroes and gets a block, and a
    /// directory's size grows to the page. Errors: `NoSpace`, `FileTooBig`, `Corrupt`, `Device`.
    fn edit_page(&mut self, ino: NodeId, page: u32, change: &mut dyn FnMut(&mut [u8])) -> Result<()>;

    /// Makes a hole of a page of a directory. Errors: `Corrupt`, `Device`.
    fn drop_page(&mut self, ino: NodeId, page: u32) -> Result<()>;

    /// Makes a hole of all pages of a directory; the nodes that led to them go, too. Errors:
    /// `Corrupt`, `Device`.
    fn drop_all_pages(&mut self, ino: NodeId) -> Result<()>;

    /// A new inode, whose block without the footer `make` gives for its number. Errors: `NoSpace`,
    /// `Device`, those of `make`; nothing has changed then.
    fn make_inode(&mut self, make: &mut dyn FnMut(NodeId) -> Result<Vec<u8>>) -> Result<NodeId>;

    /// Gives an inode the attributes of this area, whose node comes and goes as it is needed.
    /// Errors: `NoSpace`, `Corrupt`, `Device`.
    fn set_xattr_area(&mut self, ino: NodeId, area: &[u8]) -> Result<()>;

    /// An inode is about to have other owners (user, group, project), or a new one (`None`) to have
    /// these. Errors: `QuotaExceeded`, `NoSpace`; nothing has changed then.
    fn admit(&mut self, ino: Option<NodeId>, owners: Owners) -> Result<()>;

    /// An inode without a name lives on, as the checkpoint says; or no longer. Errors: `NoSpace` (a
    /// checkpoint has no room for one more).
    fn set_orphan(&mut self, ino: NodeId, orphan: bool) -> Result<()>;

    /// A file is about to take another one's name: its content goes to the device before. A
    /// checkpoint in between would leave neither the old content nor the new one under that name.
    /// What finds no room waits as ever. Room may be made, so that inodes that were read before may
    /// be others. Errors: `Device` (the other file keeps its name), `ReadOnly`, `Corrupt`.
    fn bring_content(&mut self, ino: NodeId) -> Result<()>;

    /// A directory lost a name, or the inode of one changed: roll-forward could not tell an older
    /// state of it from the present one (f2fs-writing.md, "fsync", `fsync_mode=strict`).
    /// `name_of_directory`: the name was a directory's, which roll-forward could not move out of
    /// the way of a file.
    fn lost_name(&mut self, directory: NodeId, name_of_directory: bool);

    /// Gives up an inode with all its nodes and pages. Errors: `Corrupt`, `Device`.
    fn free_inode(&mut self, ino: NodeId) -> Result<()>;
}

/// What is kept in memory of names.
#[derive(Clone, Debug)]
pub struct NameState {
    /// How inodes are made.
    pub making: Making,
    /// Extensions of cold and of hot files.
    pub extensions: (Vec<String>, Vec<String>),
    /// Who is retained, and how often.
    retained: BTreeMap<NodeId, u64>,
    generations: Random,
}

impl NameState {
    /// Nobody is retained. The generations of new inodes come from the seed.
    pub fn new(making: Making, extensions: (Vec<String>, Vec<String>), seed: u64) -> Self {
        Self { making, extensions, retained: BTreeMap::new(), generations: Random::new(seed, "generations") }
    }

    /// Whether somebody retains an inode.
    pub fn is_retained(&self, ino: NodeId) -> bool {
        self.retained.contains_key(&ino)
    }

    /// One more retains it.
    pub fn retain(&mut self, ino: NodeId) {
        let count = self.retained.entry(ino).or_default();
        *count = count.saturating_add(1);
    }

    /// One less retains it; whether that was the last. Errors: `InvalidArgument` where nobody does.
    pub fn release(&mut self, ino: NodeId) -> Result<bool> {
        let Some(count) = self.retained.get_mut(&ino) else {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("nobody retains inode {}", ino.0)));
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.retained.remove(&ino);
        }
        Ok(last)
    }

    /// A number for a new inode.
    pub fn generation(&mut self) -> u32 {
        self.generations.below(1 << 32) as u32
    }
}

/// Changes the fixed part of an inode. Errors: `Corrupt`, `Device`.
pub fn edit_head<S: InodeStore + ?Sized>(
    store: &mut S,
    ino: NodeId,
    change: &mut dyn FnMut(&mut InodeHead),
) -> Result<()> {
    store.edit_inode(ino, &mut |block| {
        if let Ok((head, _)) = InodeHead::mut_from_prefix(block) {
            change(head);
        }
    })
}

/// The time of the last change.
pub fn set_changed(head: &mut InodeHead, now: Timestamp) {
    let (whole, ns) = seconds(now);
    (head.changed, head.changed_ns) = (whole.into(), ns.into());
}

/// The times of the last change of content.
pub fn set_modified(head: &mut InodeHead, now: Timestamp) {
    let (whole, ns) = seconds(now);
    (head.modified, head.modified_ns) = (whole.into(), ns.into());
    set_changed(head, now);
}
