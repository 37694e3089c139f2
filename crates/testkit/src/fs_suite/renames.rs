//! Renaming.

use nandkit_vfs::ErrorKind::{Exists, InvalidArgument, IsADirectory, NotADirectory, NotEmpty, NotFound, NotSupported};
use nandkit_vfs::{InodeNumber, RenameFlags, Result};

use super::Check;
use super::bench::{Bench, CheckResult, fails, ok};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("rename_moves", rename_moves),
    ("rename_directory", rename_directory),
    ("rename_over_file", rename_over_file),
    ("rename_over_directory", rename_over_directory),
    ("rename_kind_mismatch", rename_kind_mismatch),
    ("rename_into_itself", rename_into_itself),
    ("rename_same_name", rename_same_name),
    ("rename_missing", rename_missing),
    ("rename_no_replace", rename_no_replace),
    ("rename_exchange", rename_exchange),
    ("rename_over_link", rename_over_link),
];

fn rename(bench: &mut Bench<'_>, from: (InodeNumber, &str), to: (InodeNumber, &str), flags: RenameFlags) -> Result<()> {
    bench.changes().rename((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()), flags)
}

fn replace(bench: &mut Bench<'_>, from: (InodeNumber, &str), to: (InodeNumber, &str)) -> Result<()> {
    rename(bench, from, to, RenameFlags::Replace)
}

fn rename_moves(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"a", b"content")?;
    let directory = bench.directory(root, b"directory")?;
    ok(replace(bench, (root, "a"), (root, "a much longer name than before")), "rename in a directory")?;
    bench.expect_names(root, &[b"a much longer name than before", b"directory"], "renamed")?;
    ok(replace(bench, (root, "a much longer name than before"), (directory, "c")), "rename to another directory")?;
    bench.expect_names(root, &[b"directory"], "the old directory")?;
    bench.expect_names(directory, &[b"c"], "the new directory")?;
    ensure!(bench.lookup(directory, b"c")? == file, "a rename changed the inode number");
    bench.expect_content(file, b"content", "after renames")?;
    bench.remount()?;
    let directory = bench.lookup(bench.root, b"directory")?;
    bench.expect_names(directory, &[b"c"], "the new directory, mounted again")?;
    bench.expect_content(bench.lookup(directory, b"c")?, b"content", "after renames, mounted again")
}

fn rename_directory(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let (a, b) = (bench.directory(root, b"a")?, bench.directory(root, b"b")?);
    let child = bench.directory(a, b"child")?;
    bench.directory(child, b"grandchild")?;
    ok(replace(bench, (a, "child"), (b, "moved")), "rename of a directory")?;
    bench.expect_names(a, &[], "the old parent")?;
    ensure!(bench.lookup(b, b"moved")? == child, "a rename changed a directory's inode number");
    bench.expect_names(child, &[b"grandchild"], "the moved directory")?;
    ok(bench.changes().remove(root, b"a"), "remove of the old parent")?;
    ok(replace(bench, (b, "moved"), (root, "a")), "rename up")?;
    bench.remount()?;
    bench.expect_names(bench.root, &[b"a", b"b"], "directories moved, mounted again")?;
    bench.expect_names(bench.lookup(bench.root, b"a")?, &[b"grandchild"], "the moved directory, mounted again")
}

fn rename_over_file(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let (a, b) = (bench.file(b"a", b"content of a")?, bench.file(b"b", b"of b")?);
    ok(replace(bench, (root, "a"), (root, "b")), "rename over a file")?;
    bench.expect_names(root, &[b"b"], "after a rename over a file")?;
    ensure!(bench.lookup(root, b"b")? == a, "the name does not stand for the renamed file");
    bench.expect_content(a, b"content of a", "after a rename over a file")?;
    fails(bench.fs().stat(b), &[NotFound], "stat of a file that was replaced")
}

fn rename_over_directory(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let (a, b) = (bench.directory(root, b"a")?, bench.directory(root, b"b")?);
    bench.directory(a, b"in a")?;
    bench.directory(b, b"in b")?;
    fails(replace(bench, (root, "a"), (root, "b")), &[NotEmpty], "rename over a directory with entries")?;
    bench.expect_names(root, &[b"a", b"b"], "after a refused rename")?;
    bench.expect_names(b, &[b"in b"], "after a refused rename")?;
    ok(bench.changes().remove(b, b"in b"), "remove")?;
    ok(replace(bench, (root, "a"), (root, "b")), "rename over an empty directory")?;
    bench.expect_names(root, &[b"b"], "after a rename over an empty directory")?;
    ensure!(bench.lookup(root, b"b")? == a, "the name does not stand for the renamed directory");
    bench.expect_names(a, &[b"in a"], "after a rename over an empty directory")?;
    // The other way: the target holds the source.
    fails(replace(bench, (a, "in a"), (root, "b")), &[NotEmpty], "rename over the directory that holds it")
}

fn rename_kind_mismatch(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    bench.file(b"file", b"content")?;
    bench.directory(root, b"directory")?;
    fails(replace(bench, (root, "file"), (root, "directory")), &[IsADirectory], "rename of a file over a directory")?;
    fails(replace(bench, (root, "directory"), (root, "file")), &[NotADirectory], "rename of a directory over a file")?;
    bench.expect_names(root, &[b"directory", b"file"], "after refused renames")
}

fn rename_into_itself(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let a = bench.directory(root, b"a")?;
    let b = bench.directory(a, b"b")?;
    let c = bench.directory(b, b"c")?;
    for (place, name) in [(a, "x"), (b, "x"), (c, "x")] {
        fails(replace(bench, (root, "a"), (place, name)), &[InvalidArgument], "rename of a directory into itself")?;
    }
    bench.expect_names(root, &[b"a"], "after refused renames")?;
    bench.expect_names(c, &[], "after refused renames")
}

fn rename_same_name(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"a", b"content")?;
    bench.directory(root, b"d")?;
    ok(replace(bench, (root, "a"), (root, "a")), "rename of a file to its own name")?;
    ok(replace(bench, (root, "d"), (root, "d")), "rename of a directory to its own name")?;
    bench.expect_names(root, &[b"a", b"d"], "after renames to the same name")?;
    bench.expect_content(file, b"content", "after renames to the same name")
}

fn rename_missing(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"a", b"content")?;
    fails(replace(bench, (root, "none"), (root, "a")), &[NotFound], "rename of a missing name over a file")?;
    fails(replace(bench, (root, "none"), (root, "x")), &[NotFound], "rename of a missing name")?;
    bench.expect_names(root, &[b"a"], "after refused renames")?;
    bench.expect_content(file, b"content", "after refused renames")
}

fn rename_no_replace(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let (a, b) = (bench.file(b"a", b"of a")?, bench.file(b"b", b"of b")?);
    let result = rename(bench, (root, "a"), (root, "b"), RenameFlags::NoReplace);
    fails(result, &[Exists], "rename without replacing")?;
    bench.expect_names(root, &[b"a", b"b"], "after a refused rename")?;
    ensure!(bench.lookup(root, b"a")? == a && bench.lookup(root, b"b")? == b, "a refused rename moved a name");
    ok(rename(bench, (root, "a"), (root, "c"), RenameFlags::NoReplace), "rename to a free name without replacing")?;
    bench.expect_names(root, &[b"b", b"c"], "after a rename without replacing")
}

fn rename_exchange(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"a", b"of a")?;
    let directory = bench.directory(root, b"directory")?;
    let inner = bench.directory(directory, b"inner")?;
    bench.directory(inner, b"leaf")?;
    let result = rename(bench, (root, "a"), (directory, "inner"), RenameFlags::Exchange);
    if !bench.features.exchange {
        fails(result, &[NotSupported], "features say no exchange; an exchange")?;
        bench.expect_names(root, &[b"a", b"directory"], "after an exchange that is not supported")?;
        return bench.expect_names(directory, &[b"inner"], "after an exchange that is not supported");
    }
    ok(result, "exchange of a file and a directory")?;
    bench.expect_names(root, &[b"a", b"directory"], "after an exchange")?;
    bench.expect_names(directory, &[b"inner"], "after an exchange")?;
    ensure!(bench.lookup(root, b"a")? == inner, "the directory did not come over");
    ensure!(bench.lookup(directory, b"inner")? == file, "the file did not come over");
    bench.expect_content(file, b"of a", "after an exchange")?;
    bench.expect_names(inner, &[b"leaf"], "after an exchange")?;
    let result = rename(bench, (root, "a"), (root, "none"), RenameFlags::Exchange);
    fails(result, &[NotFound], "exchange with a missing name")?;
    let result = rename(bench, (root, "a"), (inner, "leaf"), RenameFlags::Exchange);
    fails(result, &[InvalidArgument], "exchange of a directory with what is in it")?;
    bench.remount()?;
    bench.expect_names(bench.lookup(bench.root, b"a")?, &[b"leaf"], "after an exchange, mounted again")
}

/// Two names of one inode: POSIX says that nothing happens.
fn rename_over_link(bench: &mut Bench<'_>) -> CheckResult {
    let root = bench.root;
    let file = bench.file(b"a", b"content")?;
    let Some(links) = bench.changes().links() else { return Ok(()) };
    ok(links.link(file, root, b"b"), "link")?;
    ok(replace(bench, (root, "a"), (root, "b")), "rename over another name of the same file")?;
    bench.expect_names(root, &[b"a", b"b"], "after a rename over another name of the same file")?;
    ensure!(bench.stat(file)?.links == 2, "the file has {} names, expected 2", bench.stat(file)?.links);
    Ok(())
}
