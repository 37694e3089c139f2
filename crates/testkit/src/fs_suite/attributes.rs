//! Checks of attributes, times and extended attributes.

use nandkit_vfs::ErrorKind::{InvalidArgument, NoAttribute, NotSupported};
use nandkit_vfs::acl::{self, AclEntry, AclSubject};
use nandkit_vfs::{AttributeChange, FileKind, InodeNumber, NewNode, RenameFlags, Timestamp};

use super::Check;
use super::bench::{Bench, CheckResult, fails, ok, pattern, show};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("modes_and_owners", modes_and_owners),
    ("times", times),
    ("times_move", times_move),
    ("directory_times_move", directory_times_move),
    ("xattrs", xattrs),
    ("xattr_name_spaces", xattr_name_spaces),
    ("access_control_lists", access_control_lists),
    ("attributes_of_all_kinds", attributes_of_all_kinds),
    ("remount", remount),
];

fn modes_and_owners(bench: &mut Bench<'_>) -> CheckResult {
    let node = NewNode { mode: 0o4751, uid: 1000, gid: 70_000, ..NewNode::FILE };
    let file = bench.create(bench.root, b"file", &node)?;
    let (permissions, owners) = (bench.features.permissions, bench.features.owners);
    let check = |bench: &Bench<'_>, inode, mode: u16, owner: (u32, u32), when: &str| {
        let found = bench.stat(inode)?;
        ensure!(!permissions || found.mode == mode, "{when}: mode {:o}, expected {mode:o}", found.mode);
        ensure!(!owners || (found.uid, found.gid) == owner, "{when}: owner {}:{}", found.uid, found.gid);
        Ok(())
    };
    check(bench, file, 0o4751, (1000, 70_000 & bench.features.owner_max), "as made")?;
    for (change, held) in [
        (AttributeChange { mode: Some(0o1604), ..Default::default() }, permissions),
        (AttributeChange { uid: Some(5), gid: Some(6), ..Default::default() }, owners),
    ] {
        match bench.changes().set_attributes(file, &change) {
            Err(error) if error.kind == NotSupported && !held => {}
            result => {
                let answered = ok(result, format_args!("{change:?}"))?;
                ensure!(answered == bench.stat(file)?, "set_attributes answers other attributes than stat");
            }
        }
    }
    check(bench, file, 0o1604, (5, 6), "as changed")?;
    ok(bench.changes().set_attributes(file, &AttributeChange::default()), "an empty change")?;
    bench.remount()?;
    check(bench, bench.lookup(bench.root, b"file")?, 0o1604, (5, 6), "mounted again")
}

/// 2024-02-29T12:34:57.123456789Z, odd in every unit.
const ODD_TIME: i64 = 1_709_210_097_123_456_789;

fn times(bench: &mut Bench<'_>) -> CheckResult {
    let file = bench.file(b"file", b"content")?;
    let step = i64::try_from(bench.features.modified_step_ns.max(1)).map_err(|error| error.to_string())?;
    let expected = Timestamp(ODD_TIME - ODD_TIME.rem_euclid(step));
    // A whole number of days later, so that the remainder is the same for every step.
    let accessed = Timestamp(expected.0 + 400 * 86_400_000_000_000);
    let change =
        AttributeChange { modified: Some(Timestamp(ODD_TIME)), accessed: Some(accessed), ..Default::default() };
    let answered = ok(bench.changes().set_attributes(file, &change), "times")?;
    ensure!(answered.modified == expected, "modified answers {:?}, expected {expected:?}", answered.modified);
    for mounted in ["as set", "mounted again"] {
        let found = bench.stat(bench.lookup(bench.root, b"file")?)?;
        ensure!(found.modified == expected, "modified, {mounted}, is {:?}, expected {expected:?}", found.modified);
        if bench.features.accessed_times {
            ensure!(found.accessed == accessed, "accessed, {mounted}, is {:?}, expected {accessed:?}", found.accessed);
        }
        // The inode alone is made durable, before the remount makes everything so.
        let inode = bench.lookup(bench.root, b"file")?;
        ok(bench.changes().sync(Some(inode)), "sync of one inode")?;
        bench.remount()?;
    }
    Ok(())
}

/// Writes and resizes bring the time of modification up to the clock; a change of other attributes
/// does not.
fn times_move(bench: &mut Bench<'_>) -> CheckResult {
    let file = bench.file(b"file", b"content")?;
    let now = bench.stat(file)?.modified;
    let old = AttributeChange { modified: Some(Timestamp(ODD_TIME / 2)), ..Default::default() };
    for what in ["write", "resize"] {
        let set = ok(bench.changes().set_attributes(file, &old), "time of modification")?.modified;
        ensure!(set < now, "the file was made at {now:?}: the clock of the volume must start after 2000");
        if bench.features.permissions {
            let mode = AttributeChange { mode: Some(0o600), ..Default::default() };
            let kept = ok(bench.changes().set_attributes(file, &mode), "mode")?.modified;
            ensure!(kept == set, "a change of mode moved the time of modification");
        }
        match what {
            "write" => bench.write(file, 3, b"x")?,
            _ => bench.resize(file, 2).map(|_| ())?,
        }
        let modified = bench.stat(file)?.modified;
        ensure!(modified >= now, "a {what} leaves the time of modification at {modified:?}, the clock showed {now:?}");
    }
    Ok(())
}

/// Adding, removing and moving names sets their directory's time of modification to the clock. (The
/// root may have no field for one.)
fn directory_times_move(bench: &mut Bench<'_>) -> CheckResult {
    let (one, other) = (bench.directory(bench.root, b"one")?, bench.directory(bench.root, b"other")?);
    let now = bench.stat(one)?.modified;
    let old = AttributeChange { modified: Some(Timestamp(ODD_TIME / 2)), ..Default::default() };
    type Step = fn(&mut Bench<'_>, InodeNumber, InodeNumber) -> CheckResult;
    let steps: [(&str, [bool; 2], Step); 5] = [
        ("a new file", [true, false], |bench, one, _| bench.create(one, b"a", &NewNode::FILE).map(|_| ())),
        ("a new directory", [true, false], |bench, one, _| bench.directory(one, b"d").map(|_| ())),
        ("a move", [true, true], |bench, one, other| {
            ok(bench.changes().rename((one, b"a"), (other, b"b"), RenameFlags::Replace), "a move")
        }),
        ("a new name", [false, true], |bench, _, other| {
            ok(bench.changes().rename((other, b"b"), (other, b"c"), RenameFlags::Replace), "a new name")
        }),
        ("a removal", [false, true], |bench, _, other| ok(bench.changes().remove(other, b"c"), "a removal")),
    ];
    for (what, moved, step) in steps {
        for directory in [one, other] {
            ok(bench.changes().set_attributes(directory, &old), "time of a directory")?;
        }
        step(bench, one, other)?;
        for (directory, moved) in [one, other].into_iter().zip(moved) {
            let modified = bench.stat(directory)?.modified;
            ensure!((modified >= now) == moved, "{what}: a directory's time is {modified:?}, the clock showed {now:?}");
        }
    }
    bench.remount()?;
    let kept = bench.stat(bench.lookup(bench.root, b"other")?)?.modified;
    ensure!(kept >= now, "mounted again, a directory's time is {kept:?}, the clock showed {now:?}");
    Ok(())
}

fn xattrs(bench: &mut Bench<'_>) -> CheckResult {
    let file = bench.file(b"file", b"content")?;
    if !bench.features.xattrs {
        ensure!(bench.fs().xattrs().is_none(), "features say no extended attributes, but there is the capability");
        return Ok(());
    }
    let missing = "features say extended attributes, but there is no capability";
    let value = pattern(200, 1);
    let changes = bench.changes().xattr_changes().ok_or(missing)?;
    ok(changes.set_xattr(file, b"user.a", b"first"), "set_xattr")?;
    ok(changes.set_xattr(file, b"user.b", &value), "set_xattr of 200 bytes")?;
    ok(changes.set_xattr(file, b"user.empty", b""), "set_xattr of an empty value")?;
    ok(changes.set_xattr(file, b"user.a", b"other"), "set_xattr of an existing one")?;
    fails(changes.remove_xattr(file, b"user.none"), &[NoAttribute], "remove_xattr of a missing one")?;
    fails(changes.set_xattr(file, b"nonsense.x", b""), &[NotSupported], "set_xattr with an unknown prefix")?;
    for mounted in ["as set", "mounted again"] {
        let file = bench.lookup(bench.root, b"file")?;
        let reader = bench.fs().xattrs().ok_or(missing)?;
        for (name, expected) in [(&b"user.a"[..], &b"other"[..]), (b"user.b", &value), (b"user.empty", b"")] {
            let found = ok(reader.xattr(file, name), format_args!("xattr {} {mounted}", show(name)))?;
            ensure!(found == expected, "{} {mounted} is {}", show(name), show(&found));
        }
        fails(reader.xattr(file, b"user.none"), &[NoAttribute], "xattr of a missing one")?;
        let mut names = ok(reader.xattr_names(file), "xattr_names")?;
        names.sort();
        ensure!(names == [&b"user.a"[..], b"user.b", b"user.empty"], "{} names {mounted}", names.len());
        bench.remount()?;
    }
    let file = bench.lookup(bench.root, b"file")?;
    let changes = bench.changes().xattr_changes().ok_or(missing)?;
    ok(changes.remove_xattr(file, b"user.b"), "remove_xattr")?;
    fails(bench.fs().xattrs().ok_or(missing)?.xattr(file, b"user.b"), &[NoAttribute], "xattr of a removed one")
}

/// The same name in three name spaces, on inodes of all kinds.
fn xattr_name_spaces(bench: &mut Bench<'_>) -> CheckResult {
    if !bench.features.xattrs {
        return Ok(());
    }
    const NAMES: [&[u8]; 3] = [b"security.name", b"trusted.name", b"user.name"];
    let made = one_of_each_kind(bench)?;
    for (name, inode) in &made {
        for space in NAMES {
            let value = [space, b" of ", *name].concat();
            let Some(changes) = bench.changes().xattr_changes() else { return Err("attributes are gone".into()) };
            ok(changes.set_xattr(*inode, space, &value), format_args!("{} of the {}", show(space), show(name)))?;
        }
    }
    bench.remount()?;
    for (name, _) in &made {
        let inode = bench.lookup(bench.root, name)?;
        let Some(reader) = bench.fs().xattrs() else { return Err("attributes are gone".into()) };
        let mut names = ok(reader.xattr_names(inode), "xattr_names")?;
        names.sort();
        ensure!(names == NAMES, "the {} has {} names", show(name), names.len());
        for space in NAMES {
            let found = ok(reader.xattr(inode, space), format_args!("{} of the {}", show(space), show(name)))?;
            ensure!(
                found == [space, b" of ", *name].concat(),
                "{} of the {}: {}",
                show(space),
                show(name),
                show(&found)
            );
        }
    }
    Ok(())
}

fn access_control_lists(bench: &mut Bench<'_>) -> CheckResult {
    if !bench.features.xattrs {
        ensure!(!bench.features.posix_acls, "access control lists are extended attributes, of which features say none");
        return Ok(());
    }
    use AclSubject::{Group, Mask, Others, Owner, OwningGroup, User};
    let list = |subjects: &[AclSubject]| {
        let entry = |(at, subject): (usize, &AclSubject)| AclEntry { subject: *subject, permissions: (at % 8) as u8 };
        acl::encode(&subjects.iter().enumerate().map(entry).collect::<Vec<_>>())
    };
    let short = list(&[Owner, OwningGroup, Others]);
    let long =
        list(&[Owner, User(0), User(1000), User(u32::MAX - 1), OwningGroup, Group(7), Group(70_000), Mask, Others]);
    let (root, file) = (bench.root, bench.file(b"file", b"content")?);
    let directory = bench.directory(root, b"directory")?;
    let missing = "extended attributes are gone";
    let held = bench.features.posix_acls;
    let changes = bench.changes().xattr_changes().ok_or(missing)?;
    if !held {
        return fails(changes.set_xattr(file, acl::ACCESS, &short), &[NotSupported], "an access control list");
    }
    ok(changes.set_xattr(file, acl::ACCESS, &short), "the shortest list")?;
    ok(changes.set_xattr(file, acl::ACCESS, &long), "a long list instead of it")?;
    ok(changes.set_xattr(directory, acl::ACCESS, &short), "a directory's own list")?;
    ok(changes.set_xattr(directory, acl::DEFAULT, &long), "a directory's default list")?;
    fails(changes.set_xattr(file, acl::DEFAULT, &short), &[InvalidArgument], "a default list for a file")?;
    fails(changes.set_xattr(file, b"system.other", &short), &[NotSupported], "another name of the system")?;
    for wrong in [&b""[..], b"nonsense", &long[..long.len() - 8], &long[..long.len() - 1]] {
        fails(changes.set_xattr(file, acl::ACCESS, wrong), &[InvalidArgument], "what is no list")?;
    }
    for mounted in ["as set", "mounted again"] {
        for (name, attribute, expected) in [
            (&b"file"[..], acl::ACCESS, &long),
            (b"directory", acl::ACCESS, &short),
            (b"directory", acl::DEFAULT, &long),
        ] {
            let inode = bench.lookup(bench.root, name)?;
            let reader = bench.fs().xattrs().ok_or(missing)?;
            let found = ok(reader.xattr(inode, attribute), format_args!("{} {mounted}", show(attribute)))?;
            ensure!(found == *expected, "{} of {} {mounted} is {found:02x?}", show(attribute), show(name));
        }
        bench.remount()?;
    }
    let file = bench.lookup(bench.root, b"file")?;
    ok(bench.changes().xattr_changes().ok_or(missing)?.remove_xattr(file, acl::ACCESS), "remove of a list")?;
    let reader = bench.fs().xattrs().ok_or(missing)?;
    fails(reader.xattr(file, acl::ACCESS), &[NoAttribute], "a list that was removed")
}

/// A file, a directory, and what else the format holds, in the root directory.
fn one_of_each_kind(bench: &mut Bench<'_>) -> CheckResult<Vec<(&'static [u8], InodeNumber)>> {
    let (symlinks, nodes) = (bench.features.symlinks, bench.features.device_nodes);
    let mut made = Vec::new();
    for (name, kind, held) in [
        (&b"file"[..], FileKind::Regular, true),
        (b"directory", FileKind::Directory, true),
        (b"symlink", FileKind::Symlink, symlinks),
        (b"character", FileKind::CharacterDevice, nodes),
        (b"fifo", FileKind::Fifo, nodes),
    ] {
        let target: &[u8] = if kind == FileKind::Symlink { b"target" } else { b"" };
        let device = if kind == FileKind::CharacterDevice { (1 << 32) | 3 } else { 0 };
        if held {
            made.push((name, bench.create(bench.root, name, &NewNode { kind, target, device, ..NewNode::FILE })?));
        }
    }
    Ok(made)
}

/// Owners, modes and times of everything but regular files.
fn attributes_of_all_kinds(bench: &mut Bench<'_>) -> CheckResult {
    let (permissions, owners) = (bench.features.permissions, bench.features.owners);
    if !(permissions && owners) {
        return Ok(());
    }
    let step = i64::try_from(bench.features.modified_step_ns.max(1)).map_err(|error| error.to_string())?;
    let modified = Timestamp(ODD_TIME - ODD_TIME.rem_euclid(step));
    let made = one_of_each_kind(bench)?;
    for (name, inode) in &made {
        // Linux cannot change a link's mode.
        let mode = (*name != b"symlink").then_some(0o5421);
        let (uid, gid) = (Some(70_001), Some(u32::MAX - 1));
        let change = AttributeChange { mode, uid, gid, modified: Some(modified), ..Default::default() };
        ok(bench.changes().set_attributes(*inode, &change), format_args!("attributes of the {}", show(name)))?;
    }
    bench.remount()?;
    for (name, _) in &made {
        let found = bench.stat(bench.lookup(bench.root, name)?)?;
        let mode = if *name == b"symlink" { 0o777 } else { 0o5421 };
        let highest = bench.features.owner_max;
        let expected = (mode, 70_001 & highest, (u32::MAX - 1) & highest, modified);
        let all = (found.mode, found.uid, found.gid, found.modified);
        ensure!(all == expected, "the {} has {all:?}, expected {expected:?}", show(name));
    }
    Ok(())
}

/// A whole tree, kept in a model, is the same after sync and remount.
fn remount(bench: &mut Bench<'_>) -> CheckResult {
    use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
    use nandkit_vfs::path::{CompareOptions, CopyOptions, compare_trees, copy_tree};
    let mut place = bench.root;
    for depth in 0..6u64 {
        for number in 0..8 {
            let file = bench.create(place, format!("File {number}.dat").as_bytes(), &NewNode::FILE)?;
            bench.write(file, depth * 100, &pattern(1 + number as usize * 777, depth * 10 + number))?;
        }
        place = bench.directory(place, format!("Directory {depth}").as_bytes())?;
    }
    let mut kept = ModelFileSystem::new(ModelOptions::POSIX, nandkit_units::Clock::default());
    let root = nandkit_vfs::FileSystem::root(&kept);
    let strict = CopyOptions { skip_problems: false, ..Default::default() };
    ok(copy_tree(bench.fs(), bench.root, &mut kept, root, strict), "copy of the tree")?;
    bench.remount()?;
    let options = CompareOptions::for_features(&bench.features, &bench.features);
    let found = compare_trees((&kept, root), (bench.fs(), bench.root), options);
    ensure!(found.is_empty(), "{} differences after a remount, the first: {}", found.len(), found[0]);
    Ok(())
}
