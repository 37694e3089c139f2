//! Checks of reading, writing, growing and truncating files.

use std::ops::Range;

use nandkit_units::{Content, Described, Description, Generator, Payload, ReadInto};
use nandkit_vfs::ErrorKind::{FileTooBig, InvalidArgument, IsADirectory};
use nandkit_vfs::{AttributeChange, InodeNumber};

use super::Check;
use super::bench::{Bench, CheckResult, fails, ok, pattern};
use crate::violation::ensure;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("write_and_read", write_and_read),
    ("read_at_the_end", read_at_the_end),
    ("overwrite_inside", overwrite_inside),
    ("gap_reads_zero", gap_reads_zero),
    ("truncate", truncate),
    ("append", append),
    ("boundaries", boundaries),
    ("big_file", big_file),
    ("described_content", described_content),
    ("file_too_big", file_too_big),
    ("content_of_other_kinds", content_of_other_kinds),
    ("allocation", allocation),
    ("data_ranges", data_ranges),
];

fn write_and_read(bench: &mut Bench<'_>) -> CheckResult {
    for (index, length) in [1, 15, 511, 512, 513, 4095, 4096, 4097, 70_000].into_iter().enumerate() {
        let data = pattern(length, index as u64);
        let file = bench.file(format!("file{index}").as_bytes(), &data)?;
        bench.expect_content(file, &data, &format!("{length} bytes as written"))?;
    }
    bench.remount()?;
    for (index, length) in [1, 15, 511, 512, 513, 4095, 4096, 4097, 70_000].into_iter().enumerate() {
        let file = bench.lookup(bench.root, format!("file{index}").as_bytes())?;
        bench.expect_content(file, &pattern(length, index as u64), &format!("{length} bytes after a remount"))?;
    }
    Ok(())
}

fn read_at_the_end(bench: &mut Bench<'_>) -> CheckResult {
    let data = pattern(1000, 1);
    let file = bench.file(b"file", &data)?;
    for (offset, length) in
        [(0, 1000), (0, 1001), (990, 10), (990, 11), (999, 1), (1000, 1), (1001, 5), (u64::MAX, 5), (5, 0)]
    {
        let mut bytes = vec![0; length];
        let expected = 1000usize.saturating_sub(offset.min(1000) as usize).min(length);
        let what = format!("read of {length} bytes at {offset} of 1000");
        let count = ok(bench.fs().read(file, offset, ReadInto::Bytes(&mut bytes)), &what)?;
        ensure!(count == expected, "{what} delivers {count}, expected {expected}");
        let start = offset.min(1000) as usize;
        ensure!(bytes[..count] == data[start..start + count], "{what} delivers other bytes");
        let nothing = ReadInto::Nothing { length: length as u32 };
        let count = ok(bench.fs().read(file, offset, nothing), format_args!("{what} into nothing"))?;
        ensure!(count == expected, "{what} into nothing counts {count}, expected {expected}");
    }
    Ok(())
}

fn overwrite_inside(bench: &mut Bench<'_>) -> CheckResult {
    let mut expected = pattern(20_000, 1);
    let file = bench.file(b"file", &expected)?;
    for (round, (offset, length)) in
        [(0, 1), (511, 2), (4090, 12), (4096, 4096), (19_999, 1), (100, 19_000), (7, 0)].into_iter().enumerate()
    {
        let data = pattern(length, 10 + round as u64);
        bench.write(file, offset as u64, &data)?;
        expected[offset..offset + length].copy_from_slice(&data);
        bench.expect_content(file, &expected, &format!("after writing {length} bytes at {offset}"))?;
    }
    Ok(())
}

fn gap_reads_zero(bench: &mut Bench<'_>) -> CheckResult {
    // What was freed must not show in the gap.
    let old = bench.file(b"old", &pattern(200_000, 3))?;
    ok(bench.changes().sync(Some(old)), "sync of a file")?;
    bench.remove(b"old", "remove")?;
    for (index, (first, gap)) in
        [(0usize, 1usize), (10, 100), (10, 10_000), (4096, 4096), (0, 100_000)].into_iter().enumerate()
    {
        let name = format!("gap{index}");
        let file = bench.file(name.as_bytes(), &pattern(first, 1))?;
        bench.write(file, (first + gap) as u64, b"end")?;
        let mut expected = pattern(first, 1);
        expected.resize(first + gap, 0);
        expected.extend_from_slice(b"end");
        bench.expect_content(file, &expected, &format!("a gap of {gap} bytes after {first}"))?;
        bench.remount()?;
        let file = bench.lookup(bench.root, name.as_bytes())?;
        bench.expect_content(file, &expected, &format!("a gap of {gap} bytes after {first}, mounted again"))?;
    }
    Ok(())
}

fn truncate(bench: &mut Bench<'_>) -> CheckResult {
    let mut expected = pattern(30_000, 1);
    let file = bench.file(b"file", &expected)?;
    for size in [30_000, 29_999, 12_345, 20_000, 4096, 8192, 4095, 4097, 1, 600, 0, 5000, 100, 100_000, 0] {
        let attributes = bench.resize(file, size)?;
        ensure!(attributes.size == size, "set_attributes to {size} bytes answers {}", attributes.size);
        expected.resize(size as usize, 0);
        bench.expect_content(file, &expected, &format!("cut or grown to {size}"))?;
    }
    bench.write(file, 0, b"again")?;
    bench.resize(file, 3)?;
    bench.remount()?;
    let file = bench.lookup(bench.root, b"file")?;
    bench.expect_content(file, b"aga", "cut off and mounted again")?;
    bench.resize(file, 5)?;
    bench.expect_content(file, b"aga\0\0", "cut off, mounted again and grown")
}

fn append(bench: &mut Bench<'_>) -> CheckResult {
    let file = bench.file(b"file", b"")?;
    let mut expected = Vec::new();
    for (round, length) in [1, 100, 411, 1, 3583, 4096, 5000, 1, 12_000].into_iter().enumerate() {
        let data = pattern(length, round as u64);
        bench.write(file, expected.len() as u64, &data)?;
        expected.extend_from_slice(&data);
        ensure!(
            bench.stat(file)?.size == expected.len() as u64,
            "the size after appends is {}",
            bench.stat(file)?.size
        );
    }
    bench.expect_content(file, &expected, "after appends")
}

/// Small writes across every power of two: sectors, clusters, pages and blocks of all formats end
/// at one.
fn boundaries(bench: &mut Bench<'_>) -> CheckResult {
    let size = (1 << 18) + 64;
    let mut expected = pattern(size, 1);
    let file = bench.file(b"file", &expected)?;
    for power in 4..=18 {
        let offset = (1usize << power) - 3;
        let data = pattern(7, 100 + power);
        bench.write(file, offset as u64, &data)?;
        expected[offset..offset + 7].copy_from_slice(&data);
    }
    bench.expect_content(file, &expected, "after writes across boundaries")?;
    for power in 4..=18 {
        let offset = (1usize << power) - 2;
        let mut bytes = [0; 4];
        let count = ok(bench.fs().read(file, offset as u64, ReadInto::Bytes(&mut bytes)), "read across a boundary")?;
        ensure!(
            count == 4 && bytes == expected[offset..offset + 4],
            "a read of 4 bytes at {offset} delivers {bytes:?}"
        );
    }
    Ok(())
}

/// A file larger than 12 direct pointers, one indirect block or one node of a tree can hold.
fn big_file(bench: &mut Bench<'_>) -> CheckResult {
    const PIECE: usize = 100_003;
    const PIECES: u64 = 90;
    let file = bench.file(b"file", b"")?;
    for piece in 0..PIECES {
        bench.write(file, piece * PIECE as u64, &pattern(PIECE, piece))?;
    }
    bench.remount()?;
    let file = bench.lookup(bench.root, b"file")?;
    ensure!(bench.stat(file)?.size == PIECES * PIECE as u64, "the size is {}", bench.stat(file)?.size);
    for piece in (0..PIECES).rev() {
        let mut bytes = vec![0; PIECE];
        let count = ok(bench.fs().read(file, piece * PIECE as u64, ReadInto::Bytes(&mut bytes)), "read of a big file")?;
        ensure!(count == PIECE && bytes == pattern(PIECE, piece), "piece {piece} of a big file came back changed");
    }
    bench.resize(file, PIECE as u64 + 1)?;
    let mut expected = pattern(PIECE, 0);
    expected.push(pattern(1, 1)[0]);
    bench.expect_content(file, &expected, "a big file cut off")
}

fn described_content(bench: &mut Bench<'_>) -> CheckResult {
    let file = bench.file(b"file", b"")?;
    let description = Description { record: 5, version: 2, offset: 0, generator: Generator::Record };
    let described = Payload::Described(Described { description, length: 9000 });
    let count = ok(bench.changes().write(file, 100, described), "write of described content")?;
    ensure!(count == 9000, "a described write of 9000 bytes took {count}");
    let mut expected = vec![0; 9100];
    description.generate(&mut expected[100..]);
    bench.expect_content(file, &expected, "after a described write")?;
    let mut content = Content::new();
    let into = ReadInto::Content { content: &mut content, length: 9000 };
    let count = ok(bench.fs().read(file, 100, into), "read into a content")?;
    let bytes = content.to_bytes();
    ensure!(count == 9000 && bytes.get(..9000) == Some(&expected[100..]), "a content came back changed");
    Ok(())
}

fn file_too_big(bench: &mut Bench<'_>) -> CheckResult {
    let max = bench.volume()?.file_size_max;
    let file = bench.file(b"file", b"content")?;
    let data = Payload::Bytes(b"xy");
    fails(bench.changes().write(file, u64::MAX - 1, data), &[FileTooBig], "write up to the last offset")?;
    if max < u64::MAX - 2 {
        fails(bench.changes().write(file, max, data), &[FileTooBig], format_args!("write behind {max}"))?;
        let change = AttributeChange { size: Some(max + 1), ..Default::default() };
        fails(bench.changes().set_attributes(file, &change), &[FileTooBig], format_args!("size to {max} + 1"))?;
    }
    bench.expect_content(file, b"content", "after writes that are too far")
}

fn content_of_other_kinds(bench: &mut Bench<'_>) -> CheckResult {
    let directory = bench.directory(bench.root, b"directory")?;
    let mut bytes = [0; 8];
    fails(bench.fs().read(directory, 0, ReadInto::Bytes(&mut bytes)), &[IsADirectory], "read of a directory")?;
    fails(bench.changes().write(directory, 0, Payload::Bytes(b"x")), &[IsADirectory], "write to a directory")?;
    let change = AttributeChange { size: Some(5), ..Default::default() };
    fails(bench.changes().set_attributes(directory, &change), &[IsADirectory, InvalidArgument], "size of a directory")?;
    let file = bench.file(b"file", b"x")?;
    ensure!(
        bench.fs().symlinks().is_some() == bench.features.symlinks,
        "features say symbolic links: {}, the capability says otherwise",
        bench.features.symlinks
    );
    let Some(symlinks) = bench.fs().symlinks() else { return Ok(()) };
    fails(symlinks.read_link(file), &[InvalidArgument], "read_link of a regular file")?;
    fails(symlinks.read_link(directory), &[InvalidArgument], "read_link of a directory")
}

fn allocation(bench: &mut Bench<'_>) -> CheckResult {
    let mut expected = pattern(50_000, 1);
    let file = bench.file(b"file", &expected)?;
    let Some(allocation) = bench.changes().allocation() else { return Ok(()) };
    ok(allocation.allocate(file, 40_000, 60_000, true), "allocate with keep_size")?;
    bench.expect_content(file, &expected, "allocated behind the end")?;
    if let Some(allocation) = bench.changes().allocation() {
        ok(allocation.allocate(file, 60_000, 20_000, false), "allocate")?;
    }
    expected.resize(80_000, 0);
    bench.expect_content(file, &expected, "allocated and grown")?;
    ensure!(
        bench.features.holes || bench.changes().holes().is_none(),
        "features say no holes, but there is the capability"
    );
    for (offset, length) in [(100u64, 200u64), (4000, 9000), (70_000, 50_000)] {
        let Some(holes) = bench.changes().holes() else { return Ok(()) };
        ok(holes.punch_hole(file, offset, length), format_args!("punch of {length} at {offset}"))?;
        let end = (offset + length).min(80_000) as usize;
        expected[offset as usize..end].fill(0);
        bench.expect_content(file, &expected, &format!("after a punch of {length} at {offset}"))?;
    }
    Ok(())
}

/// The ranges that hold data lie within the file in ascending order; everything else reads as
/// zeroes.
fn data_ranges(bench: &mut Bench<'_>) -> CheckResult {
    let far = if bench.features.holes { (bench.volume()?.file_size_max / 2).min(1 << 26) } else { 100_000 };
    let size = far + 100_000;
    let file = bench.file(b"file", b"start")?;
    bench.write(file, far / 2, &pattern(10_001, 1))?;
    bench.write(file, far, b"end")?;
    bench.resize(file, size)?;
    for mounted in ["", ", mounted again"] {
        let file = bench.lookup(bench.root, b"file")?;
        let (mut at, mut zero) = (0, vec![1; 1 << 16]);
        while let Some(data) = ok(bench.fs().data_after(file, at), format_args!("data after {at}{mounted}"))? {
            let is_inside = data.start >= at && data.start < data.end && data.end <= size;
            ensure!(is_inside, "data after {at} of {size} are at {data:?}{mounted}");
            all_zero(bench, file, at..data.start, &mut zero)?;
            let middle = data.start + (data.end - data.start) / 2;
            let again = ok(bench.fs().data_after(file, middle), "data after the middle of a range")?;
            let starts = again.as_ref().map(|data| data.start);
            ensure!(starts == Some(middle), "{middle} is within {data:?}, and data after it are at {again:?}{mounted}");
            at = data.end;
        }
        all_zero(bench, file, at..size, &mut zero)?;
        for behind in [size, size + 1, u64::MAX] {
            let data = ok(bench.fs().data_after(file, behind), "data after the end")?;
            ensure!(data.is_none(), "data after {behind} of {size} are at {data:?}{mounted}");
        }
        bench.remount()?;
    }
    let directory = bench.directory(bench.root, b"directory")?;
    fails(bench.fs().data_after(directory, 0), &[IsADirectory], "data of a directory")
}

fn all_zero(bench: &Bench<'_>, file: InodeNumber, range: Range<u64>, bytes: &mut [u8]) -> CheckResult {
    let mut at = range.start;
    while at < range.end {
        let wanted = (range.end - at).min(bytes.len() as u64) as usize;
        let count = ok(bench.fs().read(file, at, ReadInto::Bytes(&mut bytes[..wanted])), "read of a hole")?;
        ensure!(count == wanted, "a read of {wanted} bytes of a hole at {at} delivers {count}");
        let found = bytes[..wanted].iter().position(|byte| *byte != 0);
        ensure!(
            found.is_none(),
            "what is told to be a hole, {range:?}, holds data at {}",
            at + found.unwrap_or(0) as u64
        );
        at += wanted as u64;
    }
    Ok(())
}
