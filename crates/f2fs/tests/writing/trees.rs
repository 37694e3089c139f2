//! Random operations on names, and the trees that a cut may leave: that of the last checkpoint plus
//! the names fsynced since, and nothing in between.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nandkit_block::BlockDevice;
use nandkit_f2fs::WritableVolume;
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, ErrorKind, FileKind, FileSystem, InodeNumber, Links, NewNode, RenameFlags, Result};

use super::oracle::Oracle;

/// Inodes by directory and name.
pub type Tree = BTreeMap<(InodeNumber, Vec<u8>), InodeNumber>;

pub fn tree<D: BlockDevice>(volume: &WritableVolume<D>) -> Tree {
    let (mut tree, mut queue) = (Tree::new(), vec![volume.root()]);
    while let Some(directory) = queue.pop() {
        let mut sink = |entry: nandkit_vfs::DirectoryEntry<'_>| {
            tree.insert((directory, entry.name.to_vec()), entry.inode);
            if entry.kind == FileKind::Directory {
                queue.push(entry.inode);
            }
            ControlFlow::Continue(())
        };
        volume.read_dir(directory, 0, &mut sink).unwrap();
    }
    tree
}

/// An fsync that was no checkpoint: the file and where its name was at that time.
#[derive(Clone, Debug)]
struct Synced {
    inode: InodeNumber,
    place: (InodeNumber, Vec<u8>),
}

/// What may be on the device.
#[derive(Clone, Debug, Default)]
pub struct Known {
    now: Tree,
    /// The tree of the last checkpoint, and its version.
    pub durable: Tree,
    version: u64,
    synced: Vec<Synced>,
    /// The fsync in progress.
    syncing: Option<Synced>,
    pub checkpoints: u32,
}

impl Known {
    /// The state of a volume that was just mounted.
    pub fn of<D: BlockDevice>(volume: &WritableVolume<D>) -> Self {
        let (now, version) = (tree(volume), volume.checkpoint_state().0.head.version.get());
        Self { durable: now.clone(), now, version, ..Self::default() }
    }

    /// The trees that a cut may leave now.
    pub fn possible(&self) -> Vec<Tree> {
        let mut all = vec![recovered(&self.durable, &self.synced), self.now.clone()];
        if let Some(syncing) = &self.syncing {
            all.push(recovered(&self.durable, &[&self.synced[..], std::slice::from_ref(syncing)].concat()));
        }
        all
    }

    fn saw<D: BlockDevice>(&mut self, volume: &WritableVolume<D>) {
        let version = volume.checkpoint_state().0.head.version.get();
        if version != self.version {
            // A checkpoint comes before an operation changes anything, or after everything.
            (self.version, self.durable) = (version, self.now.clone());
            self.synced.clear();
            self.checkpoints += 1;
        }
    }
}

/// The tree of a checkpoint plus the names fsynced since.
fn recovered(durable: &Tree, synced: &[Synced]) -> Tree {
    let mut tree = durable.clone();
    for Synced { inode, place } in synced {
        if !durable.values().any(|known| known == inode) {
            tree.insert(place.clone(), *inode);
        }
    }
    tree
}

/// A random directory and a name in it, sometimes a long one.
fn place<D: BlockDevice>(known: &Known, volume: &WritableVolume<D>, random: &mut Random) -> (InodeNumber, Vec<u8>) {
    let is_directory = |inode: &InodeNumber| volume.stat(*inode).is_ok_and(|stat| stat.kind == FileKind::Directory);
    let directories: Vec<InodeNumber> =
        std::iter::once(volume.root()).chain(known.now.values().copied().filter(is_directory)).collect();
    let directory = directories[random.below(directories.len() as u64) as usize];
    let number = random.below(20);
    (directory, format!("{number}{}", "-long".repeat((number * 3) as usize)).into_bytes())
}

impl Oracle for Known {
    fn step<D: BlockDevice>(
        &mut self,
        volume: &mut WritableVolume<D>,
        random: &mut Random,
        before: &mut dyn FnMut(&Self),
    ) -> Result<()> {
        let new = place(self, volume, random);
        let at = random.below(self.now.len().max(1) as u64) as usize;
        let some = self.now.iter().nth(at).map(|(place, inode)| (place.clone(), *inode));
        let (choice, root) = (random.below(12), volume.root());
        if let (9 | 10, Some((place, inode))) = (choice, &some)
            && volume.stat(*inode)?.kind == FileKind::Regular
        {
            self.syncing = Some(Synced { inode: *inode, place: place.clone() });
        }
        before(self);
        let done = match (choice, some) {
            // Owners come and go: with quotas, the check compares them.
            (0..4, _) => {
                let node = NewNode { uid: new.1.len() as u32 * 1_000_003, ..NewNode::FILE };
                volume.create(new.0, &new.1, &node).map(drop)
            }
            (4, _) => volume.create(new.0, &new.1, &NewNode::DIRECTORY).map(drop),
            (5 | 6, Some((old, _))) => volume.rename((old.0, &old.1), (new.0, &new.1), RenameFlags::Replace),
            (7, Some((_, inode))) => volume.link(inode, new.0, &new.1),
            (8, Some((old, _))) => volume.remove(old.0, &old.1),
            (9 | 10, Some((_, inode))) => Changes::sync(volume, Some(inode)),
            (11, _) if random.below(4) == 0 => Changes::sync(volume, None),
            _ => volume.lookup(root, b"absent").map(drop),
        };
        // A refused operation may have made a checkpoint first.
        self.saw(volume);
        match done {
            Err(error) if [ErrorKind::Device, ErrorKind::ReadOnly, ErrorKind::Corrupt].contains(&error.kind) => {
                return Err(error);
            }
            Err(_) => self.syncing = None,
            Ok(()) => {}
        }
        if let Some(synced) = self.syncing.take()
            && !self.durable.values().any(|known| *known == synced.inode)
        {
            self.synced.push(synced);
        }
        self.now = tree(volume);
        Ok(())
    }

    fn judge<D: BlockDevice>(&self, volume: &WritableVolume<D>, context: &str) {
        let (found, possible) = (tree(volume), self.possible());
        assert!(possible.contains(&found), "{context}: {found:?}\nis none of {possible:?}");
    }

    fn settle<D: BlockDevice>(&mut self, volume: &WritableVolume<D>) {
        *self = Self { checkpoints: self.checkpoints, ..Self::of(volume) };
    }
}
