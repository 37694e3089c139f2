//! What naming operations need from a writable volume.

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

/// Inodes, directory pages and attributes in their current state, and changes of them. A change is
/// visible at once and durable with the next checkpoint.
///
/// A failure with `NoSpace` leaves everything unchanged.
pub trait InodeStore {
    /// The geometry of the volume.
    fn geometry(&self) -> &Geometry;

    /// The time that changes store in inodes.
    fn now(&self) -> Timestamp;

    /// The naming state in memory.
    fn state(&mut self) -> &mut NameState;

    /// Called before each operation that changes anything: refuses it (`ReadOnly`) or makes room.
    fn prepare(&mut self) -> Result<()>;

    /// The inode that something on the volume refers to. Errors: `Corrupt`, `Device`.
    fn inode_at(&self, ino: NodeId) -> Result<Inode>;

    /// A page of a directory; `None` for a hole. Errors: `Corrupt`, `Device`.
    fn directory_page(&self, directory: &Inode, page: u32) -> Result<Option<Block>>;

    /// Finds the entry with a name, as a lookup does. Errors: `Corrupt`, `Device`.
    fn find_entry(&self, directory: &Inode, name: &[u8]) -> Result<Option<Position>>;

    /// Whether a directory has no entries except dots. Errors: `Corrupt`, `Device`. Cost: reads its
    /// pages up to the first entry.
    fn is_empty_directory(&self, directory: &Inode) -> Result<bool>;

    /// An inode's area of extended attributes. Errors: `Corrupt`, `Device`.
    fn xattr_area(&self, inode: &Inode) -> Result<Vec<u8>>;

    /// Changes an inode's block; the store updates footer and checksum. Errors: `Corrupt`,
    /// `Device`.
    fn edit_inode(&mut self, ino: NodeId, change: &mut dyn FnMut(&mut [u8])) -> Result<()>;

    /// Changes a page of a directory or symlink; a hole gets a zeroed block, and a directory's size
    /// grows to the page. Errors: `NoSpace`, `FileTooBig`, `Corrupt`, `Device`.
    fn edit_page(&mut self, ino: NodeId, page: u32, change: &mut dyn FnMut(&mut [u8])) -> Result<()>;

    /// Turns a page of a directory into a hole. Errors: `Corrupt`, `Device`.
    fn drop_page(&mut self, ino: NodeId, page: u32) -> Result<()>;

    /// Turns all pages of a directory into holes and frees the nodes above them. Errors: `Corrupt`,
    /// `Device`.
    fn drop_all_pages(&mut self, ino: NodeId) -> Result<()>;

    /// Makes an inode whose block, without the footer, `make` builds for its number. Errors:
    /// `NoSpace`, `Device`, those of `make`; then nothing has changed.
    fn make_inode(&mut self, make: &mut dyn FnMut(NodeId) -> Result<Vec<u8>>) -> Result<NodeId>;

    /// Sets an inode's attribute area; makes or frees its node as needed. Errors: `NoSpace`,
    /// `Corrupt`, `Device`.
    fn set_xattr_area(&mut self, ino: NodeId, area: &[u8]) -> Result<()>;

    /// Checks new owners (user, group, project) of an inode, or the owners of a new inode (`None`),
    /// against their quotas. Errors: `QuotaExceeded`, `NoSpace`; then nothing has changed.
    fn admit(&mut self, ino: Option<NodeId>, owners: Owners) -> Result<()>;

    /// Adds or removes an inode without a name to or from the checkpoint's orphans. Errors:
    /// `NoSpace` (a checkpoint has no room for another).
    fn set_orphan(&mut self, ino: NodeId, orphan: bool) -> Result<()>;

    /// Writes a file's content to the device before the file replaces another one's name: a
    /// checkpoint in between would leave neither the old nor the new content under that name.
    /// Content without room waits as usual. May make room, so inodes read before may be out of
    /// date. Errors: `Device` (the other file keeps its name), `ReadOnly`, `Corrupt`.
    fn bring_content(&mut self, ino: NodeId) -> Result<()>;

    /// Notes that a directory lost a name, or that a name's inode changed: roll-forward could not
    /// tell the directory's older state from the current one (f2fs-writing.md, "fsync",
    /// `fsync_mode=strict`). `name_of_directory`: the name was a directory's, which roll-forward
    /// could not move out of the way of a file.
    fn lost_name(&mut self, directory: NodeId, name_of_directory: bool);

    /// Frees an inode with all its nodes and pages. Errors: `Corrupt`, `Device`.
    fn free_inode(&mut self, ino: NodeId) -> Result<()>;
}

/// The naming state in memory.
#[derive(Clone, Debug)]
pub struct NameState {
    /// Options for new inodes.
    pub making: Making,
    /// Extensions of cold and of hot files.
    pub extensions: (Vec<String>, Vec<String>),
    /// Retained inodes, with the number of retains.
    retained: BTreeMap<NodeId, u64>,
    generations: Random,
}

impl NameState {
    /// A state without retained inodes; `seed` determines the generations of new inodes.
    pub fn new(making: Making, extensions: (Vec<String>, Vec<String>), seed: u64) -> Self {
        Self { making, extensions, retained: BTreeMap::new(), generations: Random::new(seed, "generations") }
    }

    /// Whether an inode is retained.
    pub fn is_retained(&self, ino: NodeId) -> bool {
        self.retained.contains_key(&ino)
    }

    /// Adds one retain.
    pub fn retain(&mut self, ino: NodeId) {
        let count = self.retained.entry(ino).or_default();
        *count = count.saturating_add(1);
    }

    /// Removes one retain; returns whether it was the last. Errors: `InvalidArgument` (the inode is
    /// not retained).
    pub fn release(&mut self, ino: NodeId) -> Result<bool> {
        let Some(count) = self.retained.get_mut(&ino) else {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {} is not retained", ino.0)));
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.retained.remove(&ino);
        }
        Ok(last)
    }

    /// A generation number for a new inode.
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

/// Sets the change time.
pub fn set_changed(head: &mut InodeHead, now: Timestamp) {
    let (whole, ns) = seconds(now);
    (head.changed, head.changed_ns) = (whole.into(), ns.into());
}

/// Sets the modification and change times.
pub fn set_modified(head: &mut InodeHead, now: Timestamp) {
    let (whole, ns) = seconds(now);
    (head.modified, head.modified_ns) = (whole.into(), ns.into());
    set_changed(head, now);
}
