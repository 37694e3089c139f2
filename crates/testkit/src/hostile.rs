//! A walk over volumes of damaged images. Errors are fine; a panic, an endless loop and answers
//! that contradict the contract are not.

use std::ops::ControlFlow;

use nandkit_units::random::Random;
use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, InodeNumber, NewNode};

/// Largest depth of directories that are entered.
const DEPTH_MAX: u32 = 8;
/// Largest number of entries of one directory that are looked at.
const ENTRIES_MAX: usize = 2000;
/// Largest number of ranges of data of one file that are asked for.
const RANGES_MAX: u32 = 50;

/// A name that the walk has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// The directory that has it.
    pub directory: InodeNumber,
    /// The name.
    pub name: Vec<u8>,
    /// The inode to which it leads.
    pub inode: InodeNumber,
}

/// Reads everything that can be reached, to a bounded depth, up to `names_max` names.
///
/// # Panics
///
/// Where a directory's cookies do not go up, a name is empty or holds `/` or NUL, or a range of
/// data is empty or outside its file.
pub fn roam(volume: &dyn FileSystem, names_max: usize) -> Vec<Met> {
    let _ = volume.volume();
    let mut met = Vec::new();
    let mut queue = vec![(volume.root(), 0)];
    while let Some((directory, depth)) = queue.pop() {
        let mut entries = Vec::new();
        let _ = volume.read_dir(directory, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.inode, entry.kind, entry.cookie));
            if entries.len() < ENTRIES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(entries.windows(2).all(|pair| pair[0].3 < pair[1].3), "cookies go up");
        for (name, inode, kind, _) in entries {
            assert!(!name.contains(&b'/') && !name.contains(&0) && !name.is_empty(), "{name:?}");
            if met.len() == names_max {
                return met;
            }
            let _ = volume.lookup(directory, &name);
            look(volume, inode);
            if kind == FileKind::Directory && depth < DEPTH_MAX {
                queue.push((inode, depth + 1));
            }
            met.push(Met { directory, name, inode });
        }
    }
    met
}

/// Asks everything of one inode, which need not be there.
///
/// # Panics
///
/// Where a range of data is empty or outside its file.
pub fn look(volume: &dyn FileSystem, inode: InodeNumber) {
    let size = volume.stat(inode).map_or(0, |stat| stat.size);
    let mut bytes = [0; 20_000];
    for offset in [0, size / 2, size.saturating_sub(9000), u64::MAX - 5000] {
        let _ = volume.read(inode, offset, ReadInto::Bytes(&mut bytes));
    }
    let mut at = 0;
    for _ in 0..RANGES_MAX {
        let Ok(Some(range)) = volume.data_after(inode, at) else { break };
        assert!(range.start >= at && range.end > range.start && range.end <= size, "{range:?} behind {at} of {size}");
        at = range.end;
    }
    if let Some(symlinks) = volume.symlinks() {
        let _ = symlinks.read_link(inode);
    }
    if let Some(xattrs) = volume.xattrs() {
        let _ = xattrs.all_xattrs(inode);
        let _ = xattrs.xattr(inode, b"user.a");
    }
}

/// Changes what was met, in `rounds` places that are drawn.
///
/// # Panics
///
/// Where an error blames the device, which has no fault.
pub fn change(volume: &mut dyn FileSystem, met: &[Met], rounds: usize, random: &mut Random) {
    for _ in 0..rounds.min(met.len()) {
        let Met { directory, name, inode } = &met[random.below(met.len() as u64) as usize];
        let Some(changes) = volume.changes() else { return };
        let results = [
            changes.write(*inode, random.below(6000), Payload::Bytes(&[7; 700])).map(drop),
            changes.create(*directory, b"a new name beside the others", &NewNode::FILE).map(drop),
            changes.remove(*directory, name),
            changes.sync(None),
        ];
        for error in results.into_iter().filter_map(Result::err) {
            assert_ne!(error.kind, ErrorKind::Device, "{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_units::Clock;
    use nandkit_vfs::model::{ModelFileSystem, ModelOptions};

    #[test]
    fn all_names_are_met_and_changed() {
        let mut volume = ModelFileSystem::new(ModelOptions::POSIX, Clock::default());
        let mut directory = volume.root();
        for _ in 0..12 {
            let changes = volume.changes().unwrap();
            changes.create(directory, b"file", &NewNode::FILE).unwrap();
            directory = changes.create(directory, b"below", &NewNode::DIRECTORY).unwrap();
        }
        let met = roam(&volume, 100);
        assert_eq!((met.len(), roam(&volume, 5).len()), (2 * (DEPTH_MAX as usize + 1), 5));
        change(&mut volume, &met, 3, &mut Random::new(1, "change"));
        assert_ne!(roam(&volume, 100), met);
    }
}
