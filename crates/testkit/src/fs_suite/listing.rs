//! Checks of directories and their cookies.

use std::collections::BTreeMap;

use nandkit_vfs::{FileKind, NewNode};

use super::Check;
use super::bench::{Bench, CheckResult, ok, show};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("listing", listing),
    ("cookies", cookies),
    ("cookies_while_changing", cookies_while_changing),
    ("many_entries", many_entries),
];

fn listing(bench: &mut Bench<'_>) -> CheckResult {
    let directory = bench.directory(bench.root, b"directory")?;
    bench.expect_names(directory, &[], "a new directory")?;
    let file = bench.create(directory, b"file", &NewNode::FILE)?;
    let inner = bench.directory(directory, b"inner")?;
    let entries = bench.list(directory, 0, usize::MAX)?;
    ensure!(entries.len() == 2, "a directory with two names lists {}", entries.len());
    for (cookie, entry) in entries {
        let expected = if entry.name == b"file" { (file, FileKind::Regular) } else { (inner, FileKind::Directory) };
        ensure!((entry.inode, entry.kind) == expected, "{} is listed as {:?}", show(&entry.name), entry);
        ensure!(cookie != 0, "an entry has cookie 0, which is the start");
    }
    Ok(())
}

fn name(number: usize) -> Vec<u8> {
    format!("entry number {number}").into_bytes()
}

fn cookies(bench: &mut Bench<'_>) -> CheckResult {
    let directory = bench.directory(bench.root, b"directory")?;
    for number in 0..50 {
        bench.create(directory, &name(number), &NewNode::FILE)?;
    }
    let all = bench.list(directory, 0, usize::MAX)?;
    ensure!(all.len() == 50, "50 names list as {}", all.len());
    for (at, (cookie, _)) in all.iter().enumerate() {
        let rest = bench.list(directory, *cookie, usize::MAX)?;
        ensure!(rest == all[at + 1..], "after the cookie of entry {at} of 50 come {} entries", rest.len());
    }
    for step in [1, 7] {
        let (mut cookie, mut found) = (0, Vec::new());
        loop {
            let part = bench.list(directory, cookie, step)?;
            let Some((last, _)) = part.last() else { break };
            cookie = *last;
            found.extend(part);
            ensure!(found.len() <= 50, "listing {step} at a time does not end");
        }
        ensure!(found == all, "listing {step} at a time shows other entries than all at once");
    }
    Ok(())
}

/// Entries are removed and added between two parts of a listing; all others are listed exactly
/// once.
fn cookies_while_changing(bench: &mut Bench<'_>) -> CheckResult {
    let directory = bench.directory(bench.root, b"directory")?;
    for number in 0..60 {
        bench.create(directory, &name(number), &NewNode::FILE)?;
    }
    let seen = bench.list(directory, 0, 25)?;
    let cookie = seen.last().map_or(0, |(cookie, _)| *cookie);
    let unseen = bench.list(directory, cookie, usize::MAX)?;
    let mut shown: BTreeMap<Vec<u8>, u32> = seen.iter().map(|(_, entry)| (entry.name.clone(), 1)).collect();
    // Every third seen one goes, the last seen one (whose cookie is used) too, and every fourth
    // unseen one.
    let gone: Vec<Vec<u8>> =
        seen.iter().rev().step_by(3).chain(unseen.iter().step_by(4)).map(|(_, e)| e.name.clone()).collect();
    for name in &gone {
        ok(bench.changes().remove(directory, name), format_args!("remove {}", show(name)))?;
    }
    for number in 100..130 {
        bench.create(directory, &name(number), &NewNode::FILE)?;
    }
    for (_, entry) in bench.list(directory, cookie, usize::MAX)? {
        *shown.entry(entry.name).or_insert(0) += 1;
    }
    for number in 0..60 {
        let count = shown.get(&name(number)).copied().unwrap_or(0);
        ensure!(count == 1 || gone.contains(&name(number)), "{} shows {count} times", show(&name(number)));
    }
    ensure!(shown.values().all(|count| *count == 1), "an entry that was removed or added shows twice");
    Ok(())
}

fn many_entries(bench: &mut Bench<'_>) -> CheckResult {
    const COUNT: usize = 1100;
    let directory = bench.directory(bench.root, b"directory")?;
    for number in 0..COUNT {
        bench.create(directory, &name(number), &NewNode::FILE)?;
    }
    for number in (0..COUNT).step_by(2) {
        ok(bench.changes().remove(directory, &name(number)), "remove of one of many")?;
    }
    bench.remount()?;
    let directory = bench.lookup(bench.root, b"directory")?;
    let mut expected: Vec<Vec<u8>> = (1..COUNT).step_by(2).map(name).collect();
    expected.sort();
    let expected: Vec<&[u8]> = expected.iter().map(Vec::as_slice).collect();
    bench.expect_names(directory, &expected, "half of many names")?;
    for number in 1..COUNT {
        let found = bench.fs().lookup(directory, &name(number)).is_ok();
        ensure!(found == (number % 2 == 1), "lookup of {} is {found}", show(&name(number)));
    }
    Ok(())
}
