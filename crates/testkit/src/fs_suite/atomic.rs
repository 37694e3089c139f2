//! Checks of drafts of files: a draft is apart from its file until it is committed as a whole.
//! Skipped where the file system has no atomic writes.

use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{AtomicWrites, AttributeChange, ErrorKind, InodeNumber};

use super::Check;
use super::bench::{Bench, CheckResult, fails, ok, pattern};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("drafts_apart", drafts_apart),
    ("drafts_committed", drafts_committed),
    ("drafts_aborted", drafts_aborted),
    ("drafts_refused", drafts_refused),
    ("drafts_mounted_again", drafts_mounted_again),
];

/// Files of some sizes, each with changes of which some are parts of blocks and some lie behind its
/// end.
const CASES: [(usize, &[(u64, usize)]); 5] = [
    (0, &[(0, 100)]),
    (60, &[(10, 20), (50, 9000)]),
    (70_000, &[(5, 1), (4096, 4096), (20_000, 9000), (69_990, 20)]),
    (70_000, &[(100_000, 50)]),
    (3_000_000, &[(1_000_000, 500_000), (2_999_999, 1), (12_288, 8192), (0, 1)]),
];

fn has_drafts(bench: &mut Bench<'_>) -> bool {
    bench.changes().atomic_writes().is_some()
}

/// The capability, which the file system is known to have.
fn atomic<'a>(bench: &'a mut Bench<'_>) -> CheckResult<&'a mut dyn AtomicWrites> {
    bench.changes().atomic_writes().ok_or_else(|| "atomic writes are gone".to_owned())
}

fn name(number: usize) -> Vec<u8> {
    format!("file-{number}").into_bytes()
}

/// Makes the file of a case, and a draft with the changes: file, draft, and the content of each.
fn drafted(bench: &mut Bench<'_>, number: usize) -> CheckResult<(InodeNumber, InodeNumber, Vec<u8>, Vec<u8>)> {
    let (size, writes) = CASES[number];
    let old = pattern(size, number as u64);
    let inode = bench.file(&name(number), &old)?;
    let draft = ok(atomic(bench)?.begin_atomic(inode), "begin_atomic")?;
    ensure!(draft != inode, "the draft is the file");
    bench.expect_content(draft, &old, "a draft that was just begun")?;
    let mut new = old.clone();
    for (index, (at, length)) in writes.iter().enumerate() {
        let bytes = pattern(*length, 77 + index as u64);
        bench.write(draft, *at, &bytes)?;
        new.resize(new.len().max(*at as usize + length), 0);
        new[*at as usize..][..*length].copy_from_slice(&bytes);
    }
    Ok((inode, draft, old, new))
}

fn drafts_apart(bench: &mut Bench<'_>) -> CheckResult {
    let has = has_drafts(bench);
    ensure!(has == bench.features.atomic_writes, "features and capability differ about atomic writes: {has}");
    if !has {
        return Ok(());
    }
    for number in 0..CASES.len() {
        let (inode, draft, old, new) = drafted(bench, number)?;
        bench.expect_content(inode, &old, "a file with a draft")?;
        bench.expect_content(draft, &new, "a draft that was written")?;
        ok(bench.changes().sync(None), "sync")?;
        bench.expect_content(inode, &old, "a file with a draft, behind a sync")?;
        bench.expect_content(draft, &new, "a draft, behind a sync")?;
        let middle = new.len() / 2;
        let mut part = vec![0; (new.len() - middle).min(5000)];
        let count = ok(bench.fs().read(draft, middle as u64, ReadInto::Bytes(&mut part)), "read of a part")?;
        ensure!(count == part.len() && part[..] == new[middle..][..count], "a part of a draft is another");
    }
    Ok(())
}

fn drafts_committed(bench: &mut Bench<'_>) -> CheckResult {
    if !has_drafts(bench) {
        return Ok(());
    }
    for number in 0..CASES.len() {
        let (inode, draft, _, mut content) = drafted(bench, number)?;
        ok(atomic(bench)?.commit_atomic(draft), "commit_atomic")?;
        bench.expect_content(inode, &content, "a file whose draft was committed")?;
        fails(bench.fs().stat(draft), &[ErrorKind::NotFound], "stat of a draft that was committed")?;
        fails(atomic(bench)?.commit_atomic(draft), &[ErrorKind::NotFound], "a second commit")?;
        // A second draft, over the new content.
        let again = ok(atomic(bench)?.begin_atomic(inode), "begin_atomic")?;
        bench.write(again, 3, b"again")?;
        ok(atomic(bench)?.commit_atomic(again), "commit_atomic")?;
        content[3..8].copy_from_slice(b"again");
        bench.expect_content(inode, &content, "a file whose second draft was committed")?;
        bench.write(inode, 0, b"plain")?;
        content[..5].copy_from_slice(b"plain");
        bench.expect_content(inode, &content, "a file that was written behind a commit")?;
    }
    Ok(())
}

fn drafts_aborted(bench: &mut Bench<'_>) -> CheckResult {
    if !has_drafts(bench) {
        return Ok(());
    }
    for number in 0..CASES.len() {
        let free = bench.volume()?.blocks_free;
        let (inode, draft, old, _) = drafted(bench, number)?;
        ok(atomic(bench)?.abort_atomic(draft), "abort_atomic")?;
        bench.expect_content(inode, &old, "a file whose draft was dropped")?;
        fails(bench.fs().stat(draft), &[ErrorKind::NotFound], "stat of a draft that was dropped")?;
        bench.remove(&name(number), "remove")?;
        let now = bench.volume()?.blocks_free;
        ensure!(now + 3 >= free, "{now} blocks are free; before the draft {free}");
    }
    Ok(())
}

fn drafts_refused(bench: &mut Bench<'_>) -> CheckResult {
    if !has_drafts(bench) {
        return Ok(());
    }
    let (root, invalid) = (bench.root, [ErrorKind::InvalidArgument]);
    let (inode, draft, old, new) = drafted(bench, 2)?;
    fails(atomic(bench)?.begin_atomic(root), &[ErrorKind::IsADirectory], "a draft of a directory")?;
    fails(atomic(bench)?.begin_atomic(inode), &invalid, "a second draft")?;
    fails(atomic(bench)?.begin_atomic(draft), &invalid, "a draft of a draft")?;
    fails(atomic(bench)?.commit_atomic(inode), &invalid, "a commit of no draft")?;
    fails(atomic(bench)?.abort_atomic(inode), &invalid, "an abort of no draft")?;
    fails(bench.changes().write(inode, 0, Payload::Bytes(b"x")), &invalid, "a write to a file with a draft")?;
    let size = AttributeChange { size: Some(5), ..AttributeChange::default() };
    fails(bench.changes().set_attributes(inode, &size), &invalid, "a size of a file with a draft")?;
    fails(bench.changes().set_attributes(draft, &size), &[ErrorKind::NotSupported], "a size of a draft")?;
    bench.expect_content(inode, &old, "a file with a draft")?;
    bench.expect_content(draft, &new, "a draft")?;
    // A file with a draft can be renamed; a draft is removed with its file.
    ok(bench.changes().rename((root, &name(2)), (root, b"moved"), Default::default()), "rename")?;
    bench.remove(b"moved", "remove of a file with a draft")?;
    fails(bench.fs().stat(draft), &[ErrorKind::NotFound], "the draft of a file that is gone")?;
    fails(atomic(bench)?.commit_atomic(draft), &[ErrorKind::NotFound], "a commit of a draft that is gone")
}

fn drafts_mounted_again(bench: &mut Bench<'_>) -> CheckResult {
    if !has_drafts(bench) {
        return Ok(());
    }
    let (_, draft, _, new) = drafted(bench, 2)?;
    ok(atomic(bench)?.commit_atomic(draft), "commit_atomic")?;
    let (_, _, old, _) = drafted(bench, 4)?;
    bench.remount()?;
    let committed = bench.lookup(bench.root, &name(2))?;
    bench.expect_content(committed, &new, "a file whose draft was committed, mounted again")?;
    let dropped = bench.lookup(bench.root, &name(4))?;
    bench.expect_content(dropped, &old, "a file whose draft was not committed, mounted again")
}
