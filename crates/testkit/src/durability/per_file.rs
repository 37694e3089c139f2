//! The promise of a format that stores no owners and orders its writes by the file, as FAT does:
//! what was synced and not touched since is unchanged. Of a path that was touched, its state is one
//! that it had since the last sync, each sector is of one version at its place, and a rename that
//! nothing else touched leaves exactly one of both names.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{AttributeChange, ErrorKind, FileSystem, InodeNumber, NewNode, RenameFlags, Result};

use crate::listing::Contents;

/// A node of a tree: a content, or `None` for a directory.
type Node = Option<Vec<u8>>;

/// The content of a volume, and what it may hold after a cut since its last sync.
#[derive(Default)]
pub struct History {
    now: Contents,
    /// States of each path since the last sync: absent, a directory, or a content.
    allowed: BTreeMap<String, Vec<Option<Node>>>,
    /// Pairs of paths of which not both may be gone, nor both be there with one content: renames
    /// since the last sync.
    renames: Vec<(String, String, Vec<u8>)>,
    counter: u8,
}

impl History {
    fn set(&mut self, path: &str, state: Option<Node>) {
        let old = self.now.get(path).cloned();
        self.allowed.entry(path.into()).or_insert_with(|| vec![old]).push(state.clone());
        match state {
            Some(state) => self.now.insert(path.into(), state),
            None => self.now.remove(path),
        };
    }

    fn synced(&mut self) {
        self.allowed.clear();
        self.renames.clear();
    }

    /// Compares the files after a cut with what the promise allows. Errors: how they break it.
    pub fn judge(&self, found: &Contents) -> std::result::Result<(), String> {
        let paths: BTreeSet<&String> = found.keys().chain(self.now.keys()).chain(self.allowed.keys()).collect();
        paths.into_iter().try_for_each(|path| self.judge_path(path, found.get(path)))?;
        self.renames.iter().try_for_each(|rename| self.judge_rename(rename, found))
    }

    fn judge_path(&self, path: &str, seen: Option<&Node>) -> std::result::Result<(), String> {
        let length = |state: Option<&Node>| state.map(|node| node.as_ref().map(Vec::len));
        let Some(states) = self.allowed.get(path) else {
            let expected = self.now.get(path);
            let said = || format!("{path} is {:?}, and was synced as {:?}", length(seen), length(expected));
            return if seen == expected { Ok(()) } else { Err(said()) };
        };
        let versions: Vec<&Vec<u8>> = states.iter().flatten().flatten().collect();
        let good = match seen {
            None => states.contains(&None),
            Some(None) => states.contains(&Some(None)),
            Some(Some(content)) => plausible(content, &versions),
        };
        let lengths: Vec<_> = states.iter().map(|state| length(state.as_ref())).collect();
        if good { Ok(()) } else { Err(format!("{path} is {:?}, which it never was: {lengths:?}", length(seen))) }
    }

    /// Judges a rename whose names nothing else has touched since the sync: exactly one of the two
    /// names must have the content.
    fn judge_rename(
        &self,
        (from, to, content): &(String, String, Vec<u8>),
        found: &Contents,
    ) -> std::result::Result<(), String> {
        let touched = |path: &String| self.allowed.get(path).map_or(0, Vec::len);
        if touched(from) != 2 || touched(to) != 2 {
            return Ok(());
        }
        let is = |node: Option<&Node>| node.and_then(Option::as_ref) == Some(content);
        let has = |path: &String| is(found.get(path));
        let was_there = self.allowed.get(to).and_then(|states| states.first()).is_some_and(|old| is(old.as_ref()));
        if has(from) != has(to) || was_there {
            return Ok(());
        }
        Err(format!("rename {from} to {to}: {} {}", has(from), has(to)))
    }
}

fn parent_of(fs: &dyn FileSystem, path: &str) -> Result<(InodeNumber, String)> {
    match path.split_once('/') {
        Some((directory, name)) => Ok((fs.lookup(fs.root(), directory.as_bytes())?, name.into())),
        None => Ok((fs.root(), path.into())),
    }
}

/// One random operation, on the file system and, where it succeeded or may have begun, on the
/// history.
pub fn step(fs: &mut dyn FileSystem, history: &mut History, random: &mut Random) -> Result<()> {
    const NAMES: [&str; 9] = [
        "a",
        "a rather long name for a file.txt",
        "C",
        "dir/x",
        "dir/y",
        "dir/another long name that needs slots",
        "sub/z",
        "sub/x",
        "b",
    ];
    let path = NAMES[random.below(NAMES.len() as u64) as usize];
    let (directory, name) = match parent_of(fs, path) {
        Ok(found) => found,
        Err(error) if error.kind == ErrorKind::NotFound => {
            let directory = path.split_once('/').unwrap().0;
            history.set(directory, Some(None));
            let root = fs.root();
            fs.changes().unwrap().create(root, directory.as_bytes(), &NewNode::DIRECTORY)?;
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let existing = history.now.get(path).cloned().flatten();
    history.counter = history.counter.wrapping_add(1);
    match random.below(8) {
        // Replaced by a new content (truncate and write); every prefix of it may be found.
        0 | 1 => {
            let content = vec![history.counter; 1 + random.below(3000) as usize];
            let inode = match existing {
                Some(_) => fs.lookup(directory, name.as_bytes())?,
                None => {
                    history.set(path, Some(Some(Vec::new())));
                    fs.changes().unwrap().create(directory, name.as_bytes(), &NewNode::FILE)?
                }
            };
            history.set(path, Some(Some(Vec::new())));
            fs.changes().unwrap().set_attributes(inode, &AttributeChange { size: Some(0), ..Default::default() })?;
            history.set(path, Some(Some(content.clone())));
            fs.changes().unwrap().write(inode, 0, Payload::Bytes(&content))?;
        }
        2 if existing.is_some() => {
            let mut content = existing.unwrap();
            let inode = fs.lookup(directory, name.as_bytes())?;
            let more = vec![history.counter; 1 + random.below(2500) as usize];
            let at = content.len() as u64;
            content.extend_from_slice(&more);
            history.set(path, Some(Some(content)));
            fs.changes().unwrap().write(inode, at, Payload::Bytes(&more))?;
        }
        3 if existing.is_some() => {
            let mut content = existing.unwrap();
            content.truncate(random.below(content.len() as u64 + 1) as usize);
            let inode = fs.lookup(directory, name.as_bytes())?;
            let change = AttributeChange { size: Some(content.len() as u64), ..Default::default() };
            history.set(path, Some(Some(content)));
            fs.changes().unwrap().set_attributes(inode, &change)?;
        }
        4 if existing.is_some() => {
            history.set(path, None);
            fs.changes().unwrap().remove(directory, name.as_bytes())?;
        }
        5 | 6 if existing.is_some() => {
            let content = existing.unwrap();
            let other = NAMES[random.below(NAMES.len() as u64) as usize];
            let Ok((to, other_name)) = parent_of(fs, other) else { return Ok(()) };
            if other == path {
                return Ok(());
            }
            history.renames.push((path.into(), other.into(), content.clone()));
            history.set(other, Some(Some(content)));
            history.set(path, None);
            let from = (directory, name.as_bytes());
            fs.changes().unwrap().rename(from, (to, other_name.as_bytes()), RenameFlags::Replace)?;
        }
        7 if random.below(3) == 0 => {
            fs.changes().unwrap().sync(None)?;
            history.synced();
        }
        _ => {}
    }
    Ok(())
}

/// Whether a file's content can come from the versions that it had: the size is one of theirs, and
/// each sector is of one version (or was zero, or was written over by a later one) at that place.
fn plausible(content: &[u8], versions: &[&Vec<u8>]) -> bool {
    versions.iter().any(|version| version.len() == content.len())
        && content.chunks(512).enumerate().all(|(sector, part)| {
            let start = sector * 512;
            versions.iter().any(|version| version.get(start..start + part.len()) == Some(part))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(byte: u8, length: usize) -> Option<Node> {
        Some(Some(vec![byte; length]))
    }

    fn tree(files: &[(&str, u8, usize)]) -> Contents {
        files.iter().map(|(path, byte, length)| (path.to_string(), Some(vec![*byte; *length]))).collect()
    }

    #[test]
    fn what_was_synced_may_neither_go_nor_change() {
        let mut history = History::default();
        history.set("a", file(1, 700));
        history.synced();
        assert_eq!(history.judge(&tree(&[("a", 1, 700)])), Ok(()));
        for planted in [tree(&[]), tree(&[("a", 1, 699)]), tree(&[("a", 2, 700)]), tree(&[("a", 1, 700), ("b", 1, 1)])]
        {
            assert!(history.judge(&planted).is_err(), "{planted:?}");
        }
    }

    #[test]
    fn what_was_not_synced_is_old_or_new_by_sectors() {
        let mut history = History::default();
        history.set("a", file(1, 1024));
        history.synced();
        history.set("a", file(2, 1024));
        let mixed = Contents::from([("a".to_owned(), Some([[1; 512], [2; 512]].concat()))]);
        for fair in [tree(&[("a", 1, 1024)]), tree(&[("a", 2, 1024)]), mixed] {
            assert_eq!(history.judge(&fair), Ok(()));
        }
        let torn = Contents::from([("a".to_owned(), Some([vec![1; 500], vec![2; 524]].concat()))]);
        for planted in [tree(&[]), tree(&[("a", 3, 1024)]), tree(&[("a", 2, 512)]), torn] {
            assert!(history.judge(&planted).is_err(), "{planted:?}");
        }
    }

    #[test]
    fn a_renamed_file_has_one_of_its_names() {
        let mut history = History::default();
        history.set("a", file(1, 9));
        history.synced();
        history.renames.push(("a".into(), "b".into(), vec![1; 9]));
        history.set("b", file(1, 9));
        history.set("a", None);
        for fair in [tree(&[("a", 1, 9)]), tree(&[("b", 1, 9)])] {
            assert_eq!(history.judge(&fair), Ok(()));
        }
        for planted in [tree(&[]), tree(&[("a", 1, 9), ("b", 1, 9)])] {
            assert!(history.judge(&planted).unwrap_err().starts_with("rename a to b"), "{planted:?}");
        }
    }
}
