//! Attributes, times and extended attributes.

use nandkit_vfs::ErrorKind::{NoAttribute, NotSupported};
use nandkit_vfs::{AttributeChange, NewNode, Timestamp};

use super::Check;
use super::bench::{Bench, Outcome, fails, ok, pattern, show};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("modes_and_owners", modes_and_owners),
    ("times", times),
    ("times_move", times_move),
    ("xattrs", xattrs),
    ("remount", remount),
];

fn modes_and_owners(bench: &mut Bench<'_>) -> Outcome {
    let node = NewNode { mode: 0o4751, uid: 1000, gid: 70_000, ..NewNode::FILE };
    let file = bench.create(bench.root, b"file", &node)?;
    let (permissions, owners) = (bench.features.permissions, bench.features.owners);
    let check = |bench: &Bench<'_>, inode, mode: u16, owner: (u32, u32), when: &str| {
        let found = bench.stat(inode)?;
        ensure!(!permissions || found.mode == mode, "{when}: mode {:o}, expected {mode:o}", found.mode);
        ensure!(!owners || (found.uid, found.gid) == owner, "{when}: owner {}:{}", found.uid, found.gid);
        Ok(())
    };
    check(bench, file, 0o4751, (1000, 70_000), "as made")?;
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

fn times(bench: &mut Bench<'_>) -> Outcome {
    let file = bench.file(b"file", b"content")?;
    let step = i64::try_from(bench.features.modified_step_ns.max(1)).map_err(|error| error.to_string())?;
    let expected = Timestamp(ODD_TIME - ODD_TIME.rem_euclid(step));
    let change = AttributeChange { modified: Some(Timestamp(ODD_TIME)), ..Default::default() };
    let answered = ok(bench.changes().set_attributes(file, &change), "time of modification")?;
    ensure!(answered.modified == expected, "modified answers {:?}, expected {expected:?}", answered.modified);
    ensure!(bench.stat(file)?.modified == expected, "modified is {:?}", bench.stat(file)?.modified);
    bench.remount()?;
    let file = bench.lookup(bench.root, b"file")?;
    ensure!(bench.stat(file)?.modified == expected, "modified, mounted again, is {:?}", bench.stat(file)?.modified);
    Ok(())
}

/// Writes and resizes bring the time of modification up to the clock; a change of other attributes does not.
fn times_move(bench: &mut Bench<'_>) -> Outcome {
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

fn xattrs(bench: &mut Bench<'_>) -> Outcome {
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

/// A whole tree, kept in a model, is the same after sync and remount.
fn remount(bench: &mut Bench<'_>) -> Outcome {
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
