//! Random operations on a volume and on its history.

use std::collections::BTreeMap;

use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber, NewNode, Result};

use super::history::History;
use super::observed::inodes;
use super::state::{Name, Node, PAGE, ROOT, XATTRS, page, value_of, xattr_name};

/// One random operation, on the volume and on what is known of it. `false`: the volume is full.
/// Needs links and extended attributes.
///
/// Errors: those of the volume, but `NoSpace`.
///
/// # Panics
///
/// Where the volume cannot be read, or allows what the contract forbids.
pub fn step(fs: &mut dyn FileSystem, history: &mut History, random: &mut Random) -> Result<bool> {
    let before = history.now();
    let inodes = inodes(fs);
    let directories: Vec<usize> =
        before.nodes.iter().filter(|(_, node)| node.directory).map(|(number, _)| *number).collect();
    // Half of the operations are in the root. A name is either of files or of directories.
    let name = |random: &mut Random, kind: &str| -> Name {
        let below = random.below(2) == 0;
        let parent = if below { directories[random.below(directories.len() as u64) as usize] } else { ROOT };
        let many = if kind == "directory" || parent != ROOT { 2 } else { 7 };
        (parent, format!("{kind}-{}", random.below(many)))
    };
    let kind = random.below(30);
    let what = if matches!(kind, 4..=7) || random.below(8) == 0 { "directory" } else { "file" };
    let (chosen, other) = (name(random, what), name(random, what));
    let result = match (kind, before.names.get(&chosen).copied()) {
        (0, _) => {
            history.begin([]);
            changes(fs).sync(None).map(|()| history.sync())
        }
        (_, None) if what == "directory" && directories.len() > 4 => {
            history.begin([]);
            Ok(())
        }
        (_, None) => create(fs, history, &inodes, &chosen, what == "directory"),
        (1 | 4, Some(node)) => remove(fs, history, &inodes, &chosen, node),
        (2 | 3 | 5 | 6, Some(node)) => rename(fs, history, &inodes, (&chosen, node), &other),
        (8, Some(node)) if what == "file" => {
            let pages = random.below(5) as usize;
            history.begin([before.change(node, |node| node.pages.resize(pages, 0))]);
            let change = AttributeChange { size: Some((pages * PAGE) as u64), ..Default::default() };
            changes(fs).set_attributes(inodes[&node], &change).map(drop)
        }
        (9, Some(node)) if what == "file" && !before.names.contains_key(&other) => {
            let mut after = before.clone();
            after.put(&other, node);
            history.begin([after]);
            changes(fs).links().unwrap().link(inodes[&node], inodes[&other.0], other.1.as_bytes())
        }
        (7 | 10, Some(node)) => {
            let mode = 0o600 + random.below(0o100) as u16;
            history.begin([before.change(node, |node| node.mode = mode)]);
            changes(fs)
                .set_attributes(inodes[&node], &AttributeChange { mode: Some(mode), ..Default::default() })
                .map(drop)
        }
        (11..=14, Some(node)) => change_xattr(fs, history, random, node, inodes[&node]),
        (_, Some(node)) if what == "file" => write(fs, history, random, node, &inodes),
        (_, Some(_)) => {
            history.begin([]);
            Ok(())
        }
    };
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind == ErrorKind::NoSpace => {
            history.take_back(before);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn changes(fs: &mut dyn FileSystem) -> &mut dyn Changes {
    fs.changes().expect("a volume that can be changed")
}

fn create(
    fs: &mut dyn FileSystem,
    history: &mut History,
    inodes: &BTreeMap<usize, InodeNumber>,
    name: &Name,
    directory: bool,
) -> Result<()> {
    history.given.0 += 1;
    let mut after = history.now();
    after.nodes.insert(history.given.0, Node::new(directory));
    after.put(name, history.given.0);
    history.begin([after]);
    let kind = if directory { NewNode::DIRECTORY } else { NewNode::FILE };
    let node = NewNode { uid: history.given.0 as u32, mode: Node::new(directory).mode, ..kind };
    changes(fs).create(inodes[&name.0], name.1.as_bytes(), &node).map(drop)
}

/// Makes an operation that the contract forbids, and that must change nothing.
fn refused(history: &mut History, expected: ErrorKind, operation: impl FnOnce() -> Result<()>) -> Result<()> {
    history.begin([]);
    match operation() {
        Err(error) if error.kind == ErrorKind::Device => Err(error),
        result => {
            assert_eq!(result.map_err(|error| error.kind), Err(expected));
            Ok(())
        }
    }
}

fn remove(
    fs: &mut dyn FileSystem,
    history: &mut History,
    inodes: &BTreeMap<usize, InodeNumber>,
    name: &Name,
    node: usize,
) -> Result<()> {
    let mut after = history.now();
    let (directory, name_in) = (inodes[&name.0], name.1.as_bytes());
    if after.holds_names(node) {
        return refused(history, ErrorKind::NotEmpty, || changes(fs).remove(directory, name_in));
    }
    after.take(name);
    history.begin([after]);
    changes(fs).remove(directory, name_in)
}

fn rename(
    fs: &mut dyn FileSystem,
    history: &mut History,
    inodes: &BTreeMap<usize, InodeNumber>,
    (name, node): (&Name, usize),
    other: &Name,
) -> Result<()> {
    let mut after = history.now();
    let mut go = || {
        let (from, to) = ((inodes[&name.0], name.1.as_bytes()), (inodes[&other.0], other.1.as_bytes()));
        changes(fs).rename(from, to, Default::default())
    };
    let replaced = after.names.get(other).copied();
    if after.nodes[&node].directory && after.leads_to(node, other.0) {
        return refused(history, ErrorKind::InvalidArgument, go);
    }
    if replaced == Some(node) {
        history.begin([]);
        return go();
    }
    if replaced.is_some_and(|replaced| after.holds_names(replaced)) {
        return refused(history, ErrorKind::NotEmpty, go);
    }
    after.put(other, node);
    let both = after.clone();
    after.take(name);
    history.begin([both, after]);
    go()
}

fn change_xattr(
    fs: &mut dyn FileSystem,
    history: &mut History,
    random: &mut Random,
    node: usize,
    inode: InodeNumber,
) -> Result<()> {
    let (name, value) = (random.below(XATTRS), random.below(6) as u32);
    let before = history.now();
    let changes = changes(fs).xattr_changes().unwrap();
    if value > 0 {
        history.begin([before.change(node, |node| node.xattrs.extend([(name, value)]))]);
        return changes.set_xattr(inode, xattr_name(name).as_bytes(), &value_of(value));
    }
    if !before.nodes[&node].xattrs.contains_key(&name) {
        let remove = || changes.remove_xattr(inode, xattr_name(name).as_bytes());
        return refused(history, ErrorKind::NoAttribute, remove);
    }
    history.begin([before.change(node, |node| node.xattrs.retain(|other, _| *other != name))]);
    changes.remove_xattr(inode, xattr_name(name).as_bytes())
}

fn write(
    fs: &mut dyn FileSystem,
    history: &mut History,
    random: &mut Random,
    node: usize,
    inodes: &BTreeMap<usize, InodeNumber>,
) -> Result<()> {
    let at = random.below(5) as usize;
    let (mut after, mut states) = (history.now(), Vec::new());
    if after.nodes[&node].pages.len() < at {
        after = after.change(node, |node| node.pages.resize(at, 0));
        states.push(after.clone());
    }
    history.given.1 += 1;
    let version = history.given.1;
    states.push(after.change(node, |node| {
        node.pages.resize(node.pages.len().max(at + 1), 0);
        node.pages[at] = version;
    }));
    history.begin(states);
    let taken = changes(fs).write(inodes[&node], (at * PAGE) as u64, Payload::Bytes(&page(version)))?;
    if taken == PAGE {
        return Ok(());
    }
    // The volume is full, and the page was written in part: remove the file.
    let links = history.now().names.into_iter().filter(|(_, of)| *of == node).map(|(name, _)| name);
    for link in links.collect::<Vec<_>>() {
        let mut after = history.now();
        after.take(&link);
        history.begin([after]);
        changes(fs).remove(inodes[&link.0], link.1.as_bytes())?;
    }
    Ok(())
}
