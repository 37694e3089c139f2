//! A seeded workload on a small tree, and what may be found of it after a power cut.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_block::BlockDevice;
use nandkit_fat::Fat;
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{AttributeChange, ErrorKind, FileSystem, InodeNumber, NewNode, RenameFlags, Result};

use super::read_all;

pub type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// What may be found after a cut. A file is named by the versions that its content had since the last sync.
#[derive(Default)]
pub struct Oracle {
    pub now: Tree,
    /// States of each path since the last sync: absent, a directory, or a content.
    allowed: BTreeMap<String, Vec<Option<Option<Vec<u8>>>>>,
    /// Pairs of paths of which not both may be gone, nor both be there with one content: renames since the last sync.
    renames: Vec<(String, String, Vec<u8>)>,
    counter: u8,
}

impl Oracle {
    fn set(&mut self, path: &str, state: Option<Option<Vec<u8>>>) {
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
}

fn parent_of<D: BlockDevice>(fat: &Fat<D>, path: &str) -> Result<(InodeNumber, String)> {
    match path.split_once('/') {
        Some((directory, name)) => Ok((fat.lookup(fat.root(), directory.as_bytes())?, name.into())),
        None => Ok((fat.root(), path.into())),
    }
}

/// One random operation, on the file system and, where it succeeded or may have begun, on the oracle.
pub fn step<D: BlockDevice>(fat: &mut Fat<D>, oracle: &mut Oracle, random: &mut Random) -> Result<()> {
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
    let (directory, name) = match parent_of(fat, path) {
        Ok(found) => found,
        Err(error) if error.kind == ErrorKind::NotFound => {
            let directory = path.split_once('/').unwrap().0;
            oracle.set(directory, Some(None));
            let root = fat.root();
            fat.changes().unwrap().create(root, directory.as_bytes(), &NewNode::DIRECTORY)?;
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let existing = oracle.now.get(path).cloned().flatten();
    oracle.counter = oracle.counter.wrapping_add(1);
    match random.below(8) {
        // Replaced by a new content: truncate and write; every prefix of it may be found.
        0 | 1 => {
            let content = vec![oracle.counter; 1 + random.below(3000) as usize];
            let inode = match existing {
                Some(_) => fat.lookup(directory, name.as_bytes())?,
                None => {
                    oracle.set(path, Some(Some(Vec::new())));
                    fat.changes().unwrap().create(directory, name.as_bytes(), &NewNode::FILE)?
                }
            };
            oracle.set(path, Some(Some(Vec::new())));
            fat.changes().unwrap().set_attributes(inode, &AttributeChange { size: Some(0), ..Default::default() })?;
            oracle.set(path, Some(Some(content.clone())));
            fat.changes().unwrap().write(inode, 0, Payload::Bytes(&content))?;
        }
        2 if existing.is_some() => {
            let mut content = existing.unwrap();
            let inode = fat.lookup(directory, name.as_bytes())?;
            let more = vec![oracle.counter; 1 + random.below(2500) as usize];
            let at = content.len() as u64;
            content.extend_from_slice(&more);
            oracle.set(path, Some(Some(content)));
            fat.changes().unwrap().write(inode, at, Payload::Bytes(&more))?;
        }
        3 if existing.is_some() => {
            let mut content = existing.unwrap();
            content.truncate(random.below(content.len() as u64 + 1) as usize);
            let inode = fat.lookup(directory, name.as_bytes())?;
            let change = AttributeChange { size: Some(content.len() as u64), ..Default::default() };
            oracle.set(path, Some(Some(content)));
            fat.changes().unwrap().set_attributes(inode, &change)?;
        }
        4 if existing.is_some() => {
            oracle.set(path, None);
            fat.changes().unwrap().remove(directory, name.as_bytes())?;
        }
        5 | 6 if existing.is_some() => {
            let content = existing.unwrap();
            let other = NAMES[random.below(NAMES.len() as u64) as usize];
            let Ok((to, other_name)) = parent_of(fat, other) else { return Ok(()) };
            if other == path {
                return Ok(());
            }
            oracle.renames.push((path.into(), other.into(), content.clone()));
            oracle.set(other, Some(Some(content)));
            oracle.set(path, None);
            let from = (directory, name.as_bytes());
            fat.changes().unwrap().rename(from, (to, other_name.as_bytes()), RenameFlags::Replace)?;
        }
        7 if random.below(3) == 0 => {
            fat.changes().unwrap().sync(None)?;
            oracle.synced();
        }
        _ => {}
    }
    Ok(())
}

pub fn tree<D: BlockDevice>(fat: &Fat<D>) -> Tree {
    let mut found = Tree::new();
    let mut queue = vec![(fat.root(), String::new())];
    while let Some((directory, prefix)) = queue.pop() {
        let mut entries = Vec::new();
        fat.read_dir(directory, 0, &mut |entry| {
            entries.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.inode, entry.kind));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        for (name, inode, kind) in entries {
            let path = format!("{prefix}{name}");
            let content = match kind {
                nandkit_vfs::FileKind::Directory => {
                    queue.push((inode, format!("{path}/")));
                    None
                }
                _ => Some(read_all(fat, inode)),
            };
            assert!(found.insert(path.clone(), content).is_none(), "{path} twice");
        }
    }
    found
}

/// Whether a file's content can come from the versions that it had: the size is one of theirs, and each sector is of one version (or was
/// zero, or was written over by a later one) at that place.
fn plausible(content: &[u8], versions: &[&Vec<u8>]) -> bool {
    versions.iter().any(|version| version.len() == content.len())
        && content.chunks(512).enumerate().all(|(sector, part)| {
            let start = sector * 512;
            versions.iter().any(|version| version.get(start..start + part.len()) == Some(part))
        })
}

pub fn judge(found: &Tree, oracle: &Oracle, what: &str) {
    let paths: BTreeSet<&String> = found.keys().chain(oracle.now.keys()).chain(oracle.allowed.keys()).collect();
    for path in paths {
        let seen = found.get(path);
        match oracle.allowed.get(path) {
            None => assert_eq!(seen, oracle.now.get(path), "{what}: {path} was synced and not touched since"),
            Some(states) => {
                let versions: Vec<&Vec<u8>> = states.iter().flatten().flatten().collect();
                let good = match seen {
                    None => states.contains(&None),
                    Some(None) => states.contains(&Some(None)),
                    Some(Some(content)) => plausible(content, &versions),
                };
                let lengths: Vec<_> = states.iter().map(|s| s.as_ref().map(|s| s.as_ref().map(Vec::len))).collect();
                let length = seen.map(|s| s.as_ref().map(Vec::len));
                assert!(good, "{what}: {path} is {length:?}, which it never was: {lengths:?}");
            }
        }
    }
    // The last rename since the sync whose names nothing else touched: exactly one of both names has the content.
    for (from, to, content) in &oracle.renames {
        let touched = |path: &String| oracle.allowed.get(path).map_or(0, Vec::len);
        if touched(from) == 2 && touched(to) == 2 {
            let has = |path: &String| found.get(path) == Some(&Some(content.clone()));
            assert!(
                has(from) != has(to) || oracle.allowed[to][0] == Some(Some(content.clone())),
                "{what}: rename {from} to {to}: {} {}",
                has(from),
                has(to)
            );
        }
    }
}
