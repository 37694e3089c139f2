//! Checks of removed names, and of inodes that live on without a name.

use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::ErrorKind::{Exists, IsADirectory, NotEmpty, NotFound};
use nandkit_vfs::{AttributeChange, FileKind, NewNode};

use super::Check;
use super::bench::{Bench, CheckResult, fails, ok, pattern};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("remove", remove),
    ("remove_directory", remove_directory),
    ("stale_inodes", stale_inodes),
    ("hard_links", hard_links),
    ("hard_links_of_other_kinds", hard_links_of_other_kinds),
    ("retained_file", retained_file),
    ("retained_replaced", retained_replaced),
    ("retained_directory", retained_directory),
];

fn remove(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    for name in [&b"a"[..], b"b", b"c"] {
        bench.file(name, name)?;
    }
    ok(bench.changes().remove(root, b"b"), "remove")?;
    fails(bench.fs().lookup(root, b"b"), &[NotFound], "lookup of a removed name")?;
    fails(bench.changes().remove(root, b"b"), &[NotFound], "remove of a removed name")?;
    bench.expect_names(root, &[b"a", b"c"], "after a remove")?;
    let again = bench.file(b"b", b"new")?;
    bench.expect_content(again, b"new", "a name that was removed and made again")?;
    bench.remount()?;
    bench.expect_names(bench.root, &[b"a", b"b", b"c"], "after a remove, mounted again")
}

fn remove_directory(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let directory = bench.directory(root, b"directory")?;
    bench.directory(directory, b"inner")?;
    fails(bench.changes().remove(root, b"directory"), &[NotEmpty], "remove of a directory with entries")?;
    bench.expect_names(directory, &[b"inner"], "after a refused remove")?;
    ok(bench.changes().remove(directory, b"inner"), "remove of an empty directory")?;
    bench.expect_names(directory, &[], "after a remove")?;
    ok(bench.changes().remove(root, b"directory"), "remove of a directory that became empty")?;
    bench.expect_names(root, &[], "after the last remove")
}

fn stale_inodes(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"file", b"content")?;
    let directory = bench.directory(root, b"directory")?;
    ok(bench.changes().remove(root, b"file"), "remove")?;
    ok(bench.changes().remove(root, b"directory"), "remove of a directory")?;
    for inode in [file, directory, nandkit_vfs::InodeNumber(u64::MAX), nandkit_vfs::InodeNumber(0)] {
        if inode == root {
            continue;
        }
        let mut bytes = [0; 4];
        fails(bench.fs().stat(inode), &[NotFound], "stat of a stale inode")?;
        fails(bench.fs().read(inode, 0, ReadInto::Bytes(&mut bytes)), &[NotFound], "read of a stale inode")?;
        fails(bench.fs().lookup(inode, b"x"), &[NotFound], "lookup in a stale inode")?;
        fails(bench.changes().write(inode, 0, Payload::Bytes(b"x")), &[NotFound], "write to a stale inode")?;
        let change = AttributeChange { size: Some(0), ..Default::default() };
        fails(bench.changes().set_attributes(inode, &change), &[NotFound], "attributes of a stale inode")?;
        fails(bench.changes().create(inode, b"x", &NewNode::FILE), &[NotFound], "create in a stale inode")?;
        if let Some(open_files) = bench.changes().open_files() {
            fails(open_files.retain(inode), &[NotFound], "retain of a stale inode")?;
        }
    }
    Ok(())
}

fn hard_links(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"a", b"content")?;
    let directory = bench.directory(root, b"directory")?;
    if !bench.features.hard_links {
        ensure!(bench.changes().links().is_none(), "features say no hard links, but there is the capability");
        return Ok(());
    }
    let Some(links) = bench.changes().links() else {
        return Err("features say hard links, but there is no capability".into());
    };
    ok(links.link(file, directory, b"b"), "link")?;
    fails(links.link(file, root, b"directory"), &[Exists], "link over an existing name")?;
    fails(links.link(directory, root, b"x"), &[IsADirectory], "link to a directory")?;
    ensure!(bench.lookup(directory, b"b")? == file, "a link stands for another inode");
    ensure!(bench.stat(file)?.links == 2, "a file with two names has {} links", bench.stat(file)?.links);
    bench.write(file, 0, b"C")?;
    ok(bench.changes().remove(root, b"a"), "remove of the first name")?;
    ensure!(bench.stat(file)?.links == 1, "a file with one name left has {} links", bench.stat(file)?.links);
    bench.expect_content(file, b"Content", "by the second name")?;
    bench.remount()?;
    let directory = bench.lookup(bench.root, b"directory")?;
    let file = bench.lookup(directory, b"b")?;
    bench.expect_content(file, b"Content", "by the second name, mounted again")?;
    ok(bench.changes().remove(directory, b"b"), "remove of the last name")?;
    fails(bench.fs().stat(file), &[NotFound], "stat after the last name")
}

/// Inodes that are neither files nor directories can have a second name, too.
fn hard_links_of_other_kinds(bench: &mut Bench<'_>) -> CheckResult {
    let (root, features) = (bench.root, bench.features);
    if !features.hard_links {
        return Ok(());
    }
    let kinds = [(FileKind::Symlink, features.symlinks), (FileKind::CharacterDevice, features.device_nodes)];
    for (kind, _) in kinds.into_iter().filter(|(_, held)| *held) {
        let (name, second) = (format!("{kind:?}"), format!("second {kind:?}"));
        let (target, device): (&[u8], _) = if kind == FileKind::Symlink { (b"target", 0) } else { (b"", 1 << 32 | 3) };
        let inode = bench.create(root, name.as_bytes(), &NewNode { kind, target, device, ..NewNode::FILE })?;
        let Some(links) = bench.changes().links() else { return Err("hard links are gone".into()) };
        ok(links.link(inode, root, second.as_bytes()), format_args!("link of a {kind:?}"))?;
        bench.remove(name.as_bytes(), "remove of the first name")?;
    }
    bench.remount()?;
    for (kind, _) in kinds.into_iter().filter(|(_, held)| *held) {
        let attributes = bench.stat(bench.lookup(bench.root, format!("second {kind:?}").as_bytes())?)?;
        ensure!((attributes.kind, attributes.links) == (kind, 1), "a {kind:?} by its second name is {attributes:?}");
    }
    Ok(())
}

fn retained_file(bench: &mut Bench<'_>) -> CheckResult {
    if bench.changes().open_files().is_none() {
        return Ok(());
    }
    let root = bench.root;
    let data = pattern(20_000, 1);
    let file = bench.file(b"file", &data)?;
    let free = bench.volume()?.blocks_free;
    ok(bench.open_files().retain(file), "retain")?;
    ok(bench.open_files().retain(file), "second retain")?;
    ok(bench.changes().remove(root, b"file"), "remove of a retained file")?;
    bench.expect_names(root, &[], "after the remove")?;
    let other = bench.file(b"file", &pattern(20_000, 2))?;
    ensure!(other != file, "the number of a retained inode was given away");
    bench.expect_content(file, &data, "a retained file without a name")?;
    bench.write(file, 20_000, b"more")?;
    ensure!(bench.stat(file)?.links == 0, "a file without a name has {} links", bench.stat(file)?.links);
    ok(bench.open_files().release(file), "first release")?;
    ensure!(bench.content(file)?.ends_with(b"more"), "a file that is still retained lost its end");
    ok(bench.open_files().release(file), "last release")?;
    fails(bench.fs().stat(file), &[NotFound], "stat after the last release")?;
    bench.expect_content(other, &pattern(20_000, 2), "a file of the same name")?;
    ok(bench.changes().sync(None), "sync")?;
    ensure!(bench.volume()?.blocks_free.saturating_add(2) >= free, "the space of a released file did not come back");
    let kept = bench.file(b"kept", &data)?;
    ok(bench.open_files().retain(kept), "retain")?;
    ok(bench.open_files().release(kept), "release of a file with a name")?;
    bench.expect_content(kept, &data, "after a release of a file with a name")
}

fn retained_replaced(bench: &mut Bench<'_>) -> CheckResult {
    if bench.changes().open_files().is_none() {
        return Ok(());
    }
    let root = bench.root;
    let (old, new) = (bench.file(b"old", b"old content")?, bench.file(b"new", b"new content")?);
    ok(bench.open_files().retain(old), "retain")?;
    ok(bench.changes().rename((root, b"new"), (root, b"old"), Default::default()), "rename over a retained file")?;
    bench.expect_content(old, b"old content", "a retained file that was replaced")?;
    bench.expect_content(new, b"new content", "what replaced a retained file")?;
    bench.remount()?;
    bench.expect_names(bench.root, &[b"old"], "after a remount with a retained file")?;
    bench.expect_content(bench.lookup(bench.root, b"old")?, b"new content", "after a remount with a retained file")
}

fn retained_directory(bench: &mut Bench<'_>) -> CheckResult {
    if bench.changes().open_files().is_none() {
        return Ok(());
    }
    let root = bench.root;
    let directory = bench.directory(root, b"directory")?;
    ok(bench.open_files().retain(directory), "retain of a directory")?;
    ok(bench.changes().remove(root, b"directory"), "remove of a retained directory")?;
    bench.expect_names(directory, &[], "a retained directory without a name")?;
    let result = bench.changes().create(directory, b"x", &NewNode::FILE);
    fails(result, &[NotFound], "create in a directory without a name")?;
    ok(bench.open_files().release(directory), "release")?;
    fails(bench.fs().stat(directory), &[NotFound], "stat after the release")
}
