//! Checks of volumes that fill up: `NoSpace` without damage, and space that is free again after
//! removals.

use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::ErrorKind::NoSpace;
use nandkit_vfs::NewNode;

use super::Check;
use super::bench::{Bench, CheckResult, fails, ok, pattern};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("full_volume", full_volume),
    ("space_comes_back", space_comes_back),
    ("full_of_names", full_of_names),
    ("sparse", sparse),
];

/// More rounds than any volume that the suite asks for can take.
const ROUNDS_MAX: u64 = 20_000;

/// Appends to a file until nothing fits; returns the bytes that were taken.
fn fill(bench: &mut Bench<'_>, name: &[u8], seed: u64) -> CheckResult<Vec<u8>> {
    let file = bench.create(bench.root, name, &NewNode::FILE)?;
    let mut taken = Vec::new();
    for round in 0..ROUNDS_MAX {
        let piece = pattern(7777, seed * ROUNDS_MAX + round);
        match bench.changes().write(file, taken.len() as u64, Payload::Bytes(&piece)) {
            Ok(0) => return Err("a write took nothing and gave no error".into()),
            Ok(count) => {
                ensure!(count <= piece.len(), "a write of {} bytes took {count}", piece.len());
                taken.extend_from_slice(&piece[..count]);
            }
            Err(error) => {
                ensure!(error.kind == NoSpace, "a write to a full volume: {error}");
                return Ok(taken);
            }
        }
    }
    Err("a volume that should be small does not fill up".into())
}

fn full_volume(bench: &mut Bench<'_>) -> CheckResult {
    let survivor = pattern(5000, 99);
    bench.file(b"survivor", &survivor)?;
    let taken = fill(bench, b"filler", 1)?;
    ensure!(taken.len() >= 16_384, "a small volume was full after {} bytes", taken.len());
    let filler = bench.lookup(bench.root, b"filler")?;
    bench.expect_content(filler, &taken, "the file that filled the volume")?;
    let file = bench.lookup(bench.root, b"survivor")?;
    bench.expect_content(file, &survivor, "another file on the full volume")?;
    bench
        .write(file, 100, &pattern(50, 5))
        .or_else(|error| if error.contains("no space left") { Ok(()) } else { Err(error) })?;
    bench.remount()?;
    let filler = bench.lookup(bench.root, b"filler")?;
    bench.expect_content(filler, &taken, "the file that filled the volume, mounted again")?;
    // Removing must work on a full volume.
    bench.remove(b"filler", "remove on a full volume")?;
    ok(bench.changes().sync(None), "sync after a remove on a full volume")?;
    let again = fill(bench, b"filler", 2)?;
    let filler = bench.lookup(bench.root, b"filler")?;
    bench.expect_content(filler, &again, "the file that filled the volume again")?;
    ensure!(
        again.len() + taken.len() / 10 >= taken.len(),
        "{} bytes fitted at first, {} after all was removed",
        taken.len(),
        again.len()
    );
    Ok(())
}

fn space_comes_back(bench: &mut Bench<'_>) -> CheckResult {
    let before = bench.volume()?;
    ensure!(before.blocks_free <= before.blocks, "{} of {} blocks are free", before.blocks_free, before.blocks);
    let mut after_first = None;
    for round in 0..12 {
        let taken = fill(bench, b"filler", round)?;
        let full = bench.volume()?;
        ensure!(full.blocks_free < before.blocks_free, "{} bytes took no block", taken.len());
        match round % 3 {
            0 => bench.remove(b"filler", "remove")?,
            1 => {
                let file = bench.lookup(bench.root, b"filler")?;
                bench.resize(file, 0)?;
                bench.remove(b"filler", "remove of an emptied file")?;
            }
            _ => {
                // Nothing fits any more, so the name has to be there: what is replaced is the
                // filler.
                let file = bench.lookup(bench.root, b"filler")?;
                bench.resize(file, 100)?;
                bench.file(b"small", b"x")?;
                let root = bench.root;
                ok(bench.changes().rename((root, b"small"), (root, b"filler"), Default::default()), "rename over")?;
                ok(bench.changes().remove(root, b"filler"), "remove")?;
            }
        }
        ok(bench.changes().sync(None), "sync")?;
        let free = bench.volume()?.blocks_free;
        let first = *after_first.get_or_insert(free);
        ensure!(
            free.abs_diff(first) <= before.blocks / 20 + 2,
            "round {round}: {free} blocks free, after the first {first}"
        );
    }
    Ok(())
}

/// A file far larger than the volume, most of it never written.
fn sparse(bench: &mut Bench<'_>) -> CheckResult {
    let far = (bench.volume()?.file_size_max / 2).min(1 << 26);
    let before = bench.volume()?;
    let room = before.blocks.saturating_mul(u64::from(before.block_size));
    if !bench.features.holes {
        // The gap has to be filled, so that either it fits or nothing is taken.
        let file = bench.create(bench.root, b"sparse", &NewNode::FILE)?;
        if room < far {
            let result = bench.changes().write(file, far, Payload::Bytes(b"end"));
            fails(result, &[NoSpace], format_args!("write at {far} on a volume of {room} bytes"))?;
            return bench.expect_content(file, b"", "after a write that did not fit");
        }
        return Ok(());
    }
    let file = bench.file(b"sparse", b"start")?;
    bench.write(file, far, b"end")?;
    bench.write(file, far / 2, b"middle")?;
    bench.resize(file, far + 5_000_000)?;
    for mounted in ["", ", mounted again"] {
        let file = bench.lookup(bench.root, b"sparse")?;
        let taken = bench.stat(file)?.allocated;
        ensure!(taken <= room / 2, "14 bytes and holes take {taken} of {room} bytes{mounted}");
        for (offset, expected) in [
            (0, &b"start\0\0"[..]),
            (far / 2 - 2, b"\0\0middle\0"),
            (far - 2, b"\0\0end\0\0"),
            (far / 4, b"\0\0\0"),
            (far + 4_999_999, b"\0"),
        ] {
            let mut bytes = vec![0xEE; expected.len()];
            let count = ok(bench.fs().read(file, offset, ReadInto::Bytes(&mut bytes)), "read of a hole")?;
            ensure!(count == expected.len() && bytes == expected, "at {offset}{mounted}: {bytes:?}");
        }
        bench.remount()?;
    }
    let file = bench.lookup(bench.root, b"sparse")?;
    bench.resize(file, 7)?;
    bench.expect_content(file, b"start\0\0", "a sparse file that was cut off")
}

/// Makes names until nothing fits: each is complete or missing.
fn full_of_names(bench: &mut Bench<'_>) -> CheckResult {
    let directory = bench.directory(bench.root, b"directory")?;
    let filled = fill(bench, b"filler", 1)?;
    let mut made = Vec::new();
    for number in 0..ROUNDS_MAX {
        let name = format!("a rather long name so that directories fill up, number {number:06}").into_bytes();
        match bench.changes().create(directory, &name, &NewNode::FILE) {
            Ok(_) => made.push(name),
            Err(error) => {
                ensure!(error.kind == NoSpace, "create on a full volume: {error}");
                break;
            }
        }
        if made.len() >= 3000 {
            break;
        }
    }
    for mounted in ["", ", mounted again"] {
        let directory = bench.lookup(bench.root, b"directory")?;
        let names: Vec<&[u8]> = made.iter().map(Vec::as_slice).collect();
        bench.expect_names(directory, &names, &format!("names on a full volume{mounted}"))?;
        let filler = bench.lookup(bench.root, b"filler")?;
        bench.expect_content(filler, &filled, &format!("the file that filled the volume{mounted}"))?;
        bench.remount()?;
    }
    Ok(())
}
