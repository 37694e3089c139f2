//! Checks of reads, writes, ranges and time.

use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_units::{Content, Context, Described, Description, Done, Generator, Lba, Nanos, Payload, ReadInto};

use super::bench::Bench;
use crate::flash_suite::same;
use crate::violation::ensure;

/// The geometry is possible, at least as large as asked for, and does not change.
pub fn geometry(bench: &mut Bench<'_>) -> Result<(), String> {
    let (found, asked) = (bench.geometry, *bench.asked());
    ensure!(
        found.sector_size == asked.sector_size,
        "sectors of {} bytes, asked for {}",
        found.sector_size,
        asked.sector_size
    );
    ensure!(found.sectors >= asked.sectors, "{} sectors, asked for {}", found.sectors, asked.sectors);
    ensure!(
        found.sector_size.is_power_of_two() && (512..=65_536).contains(&found.sector_size),
        "sectors of {} bytes",
        found.sector_size
    );
    ensure!(
        found.preferred_size.is_power_of_two() && found.preferred_size >= found.sector_size,
        "a preferred size of {} bytes for sectors of {}",
        found.preferred_size,
        found.sector_size
    );
    bench.fill(Lba(0), 1)?;
    ensure!(*bench.device.geometry() == found, "the geometry changed by use");
    Ok(())
}

/// Sectors that were never written read as zeroes, into every kind of destination.
pub fn unwritten_reads_zero(bench: &mut Bench<'_>) -> Result<(), String> {
    let sectors = bench.geometry.sectors.min(4);
    let zeroes = vec![0; sectors as usize * bench.size()];
    bench.expect(Lba(0), &zeroes, "never written")?;
    bench.expect(Lba(bench.geometry.sectors - sectors), &zeroes, "never written")?;
    let mut content = Content::new();
    content.set_bytes(5).fill(7);
    let into = ReadInto::Content { content: &mut content, length: zeroes.len() as u32 };
    bench.device.read(&bench.context(), Lba(1), into).map_err(|error| error.to_string())?;
    same(content.to_bytes(), &zeroes).map_err(|detail| format!("never written, as content: {detail}"))
}

/// Requests of one and many sectors, at the start, at the end, across preferred units.
pub fn write_and_read_back(bench: &mut Bench<'_>) -> Result<(), String> {
    let sectors = bench.geometry.sectors;
    for count in [1, 2, 3, 7, 16].into_iter().filter(|&count| count <= sectors) {
        for at in [0, 1, 5, sectors / 2, sectors - count].into_iter().filter(|at| at + count <= sectors) {
            let bytes = bench.fill(Lba(at), count)?;
            bench.expect(Lba(at), &bytes, &format!("{count} sectors written"))?;
            let size = bench.size();
            for index in 0..count as usize {
                let part = &bytes[index * size..(index + 1) * size];
                bench.expect(Lba(at + index as u64), part, "read sector by sector")?;
            }
        }
    }
    Ok(())
}

/// The last write counts, at once and later.
pub fn overwrites(bench: &mut Bench<'_>) -> Result<(), String> {
    for round in 0..20 {
        let bytes = bench.fill(Lba(3), 1)?;
        bench.expect(Lba(3), &bytes, &format!("directly after overwrite {round}"))?;
        bench.fill(Lba(round % bench.geometry.sectors.min(3)), 1)?;
        bench.expect(Lba(3), &bytes, &format!("some time after overwrite {round}"))?;
    }
    Ok(())
}

/// A write changes only the sectors that it names.
pub fn isolation(bench: &mut Bench<'_>) -> Result<(), String> {
    let sectors = bench.geometry.sectors.min(16);
    let size = bench.size();
    let mut held = bench.fill(Lba(0), sectors)?;
    for (at, count) in [(3, 1), (0, 1), (7, 2), (sectors - 1, 1), (1, 5)] {
        let bytes = bench.fill(Lba(at), count)?;
        held[at as usize * size..(at + count) as usize * size].copy_from_slice(&bytes);
        bench.expect(Lba(0), &held, &format!("after a write of {count} sectors at {at}"))?;
    }
    Ok(())
}

/// Requests outside the device, and of parts of sectors, are refused and change nothing.
pub fn range(bench: &mut Bench<'_>) -> Result<(), String> {
    let (sectors, size) = (bench.geometry.sectors, bench.size());
    let first = bench.fill(Lba(0), 2)?;
    let last = bench.fill(Lba(sectors - 2), 2)?;
    let context = bench.context();
    let requests = [
        (sectors, size),
        (sectors - 1, 2 * size),
        (sectors + 1, size),
        (u64::MAX, size),
        (u64::MAX - 1, 4 * size),
        (0, 1),
        (0, size - 1),
        (1, size + 1),
        (sectors + 1, 0),
    ];
    for (at, length) in requests {
        let mut bytes = vec![0x5A; length];
        let what = format!("{length} bytes at sector {at} of {sectors}");
        let result = bench.device.write(&context, Lba(at), Payload::Bytes(&bytes));
        Bench::expect_error(result, ErrorKind::OutOfRange, &format!("write of {what}"))?;
        let result = bench.device.read(&context, Lba(at), ReadInto::Bytes(&mut bytes));
        Bench::expect_error(result, ErrorKind::OutOfRange, &format!("read of {what}"))?;
        let into = ReadInto::Nothing { length: length as u32 };
        let result = bench.device.read(&context, Lba(at), into);
        Bench::expect_error(result, ErrorKind::OutOfRange, &format!("read into nothing of {what}"))?;
    }
    for (at, count) in [(sectors, 1), (sectors - 1, 2), (0, sectors + 1), (u64::MAX, u64::MAX), (1, u64::MAX)] {
        let Some(trim) = bench.device.trim() else { break };
        let result = trim.trim(&context, Lba(at), count);
        Bench::expect_error(result, ErrorKind::OutOfRange, &format!("trim of {count} sectors at {at}"))?;
    }
    bench.expect(Lba(0), &first, "after refused requests")?;
    bench.expect(Lba(sectors - 2), &last, "after refused requests")
}

/// Empty and absurdly long requests and endless descriptions cause no panic and change nothing.
pub fn silly_arguments(bench: &mut Bench<'_>) -> Result<(), String> {
    let bytes = bench.fill(Lba(0), 2)?;
    let context = bench.context();
    let ends = [Lba(0), Lba(1), bench.last(), Lba(bench.geometry.sectors)];
    for at in ends {
        bench.device.write(&context, at, Payload::Bytes(&[])).map_err(|error| format!("an empty write: {error}"))?;
        bench.device.read(&context, at, ReadInto::Bytes(&mut [])).map_err(|error| format!("an empty read: {error}"))?;
        if let Some(trim) = bench.device.trim() {
            trim.trim(&context, at, 0).map_err(|error| format!("an empty trim: {error}"))?;
        }
    }
    if let Some(remap) = bench.device.remap() {
        let _ = remap.share(&context, &[]);
        let _ = remap.remap_move(&context, &[]);
        let _ = remap.share(&context, &[(Lba(u64::MAX), Lba(u64::MAX))]);
        let _ = remap.remap_move(&context, &[(Lba(u64::MAX), Lba(0))]);
    }
    let endless = Described { description: Description::default(), length: u32::MAX };
    let result = bench.device.write(&context, Lba(0), Payload::Described(endless));
    Bench::expect_error(result, ErrorKind::OutOfRange, "a write of an endless description")?;
    let result = bench.device.read(&context, Lba(u64::MAX), ReadInto::Nothing { length: u32::MAX });
    Bench::expect_error(result, ErrorKind::OutOfRange, "an endless read")?;
    bench.expect(Lba(0), &bytes, "after silly requests")
}

/// A described payload reads as the bytes it describes, as a whole and sector by sector.
pub fn described(bench: &mut Bench<'_>) -> Result<(), String> {
    let size = bench.size();
    for (record, offset, sectors) in [(0, 0, 1u32), (7, 0, 3), (9, 4096, 2), (1, 8 * 3, 4)] {
        let description = Description { record, version: 3, offset, generator: Generator::Record };
        let length = sectors * bench.geometry.sector_size;
        let mut expected = vec![0; length as usize];
        description.generate(&mut expected);
        let context = bench.context();
        bench
            .device
            .write(&context, Lba(2), Payload::Described(Described { description, length }))
            .map_err(|error| format!("a described write: {error}"))?;
        bench.expect(Lba(2), &expected, &format!("{description:?} written"))?;
        for index in 0..sectors as usize {
            let part = &expected[index * size..(index + 1) * size];
            bench.expect(Lba(2 + index as u64), part, &format!("sector {index} of {description:?}"))?;
            read_content(bench, Lba(2 + index as u64), part)?;
        }
        read_content(bench, Lba(2), &expected)?;
    }
    Ok(())
}

fn read_content(bench: &Bench<'_>, at: Lba, expected: &[u8]) -> Result<(), String> {
    let mut content = Content::new();
    content.set_bytes(3).fill(0x77);
    let into = ReadInto::Content { content: &mut content, length: expected.len() as u32 };
    bench.device.read(&bench.context(), at, into).map_err(|error| error.to_string())?;
    same(content.to_bytes(), expected).map_err(|detail| format!("content from {at} on: {detail}"))
}

/// Reads into a content deliver what reads into bytes do, over sectors of every kind in one
/// request.
pub fn content_reads(bench: &mut Bench<'_>) -> Result<(), String> {
    let description = Description { record: 3, version: 1, offset: 0, generator: Generator::Record };
    let length = 2 * bench.geometry.sector_size;
    let context = bench.context();
    bench
        .device
        .write(&context, Lba(4), Payload::Described(Described { description, length }))
        .map_err(|error| error.to_string())?;
    bench.fill(Lba(6), 1)?;
    let expected = bench.read(Lba(2), 7)?;
    read_content(bench, Lba(2), &expected)?;
    read_content(bench, Lba(6), &bench.read(Lba(6), 1)?)?;
    let mut content = Content::new();
    let into = ReadInto::Content { content: &mut content, length: expected.len() as u32 };
    bench.device.read(&context, Lba(2), into).map_err(|error| error.to_string())?;
    let target = Lba(bench.geometry.sectors - 7);
    bench.device.write(&context, target, content.payload()).map_err(|error| error.to_string())?;
    bench.expect(target, &expected, "content moved elsewhere")
}

/// A flush succeeds, also a second time, and changes nothing.
pub fn flush(bench: &mut Bench<'_>) -> Result<(), String> {
    let bytes = bench.fill(Lba(1), 3)?;
    for _ in 0..2 {
        let context = bench.context();
        let done = bench.device.flush(&context).map_err(|error| error.to_string())?;
        ensure!(done.completed >= context.issued, "a flush ended before it was issued");
        bench.expect(Lba(1), &bytes, "after a flush")?;
    }
    let more = bench.fill(Lba(2), 1)?;
    bench.expect(Lba(2), &more, "written after a flush")
}

/// No request ends before it was issued.
pub fn time(bench: &mut Bench<'_>) -> Result<(), String> {
    let bytes = bench.random_sectors(2);
    let later = Nanos(bench.now.0 + 7_777_777);
    for issued in [bench.now, later, Nanos(3), later, Nanos(u64::MAX - 10), Nanos(u64::MAX)] {
        let context = Context::at(issued);
        let check = |what: &str, result: nandkit_block::Result<Done>| {
            let done = result.map_err(|error| error.to_string())?;
            let end = done.completed.0;
            ensure!(done.completed >= issued, "{what} issued at {} ns ended before, at {end} ns", issued.0);
            Ok(())
        };
        check("write", bench.device.write(&context, Lba(0), Payload::Bytes(&bytes)))?;
        let mut found = vec![0; bytes.len()];
        check("read", bench.device.read(&context, Lba(0), ReadInto::Bytes(&mut found)))?;
        let into = ReadInto::Nothing { length: bytes.len() as u32 };
        check("read of nothing", bench.device.read(&context, Lba(0), into))?;
        check("flush", bench.device.flush(&context))?;
        if let Some(trim) = bench.device.trim() {
            check("trim", trim.trim(&context, Lba(0), 1))?;
        }
    }
    Ok(())
}

/// Two devices made the same and used the same answer the same.
pub fn repeatable(bench: &mut Bench<'_>) -> Result<(), String> {
    let mut second = bench.another();
    let mut at = bench.now;
    for round in 0..30u64 {
        let context = Context::at(at);
        let bytes = bench.random_sectors(1 + round % 3);
        let lba = Lba(round * 7 % (bench.geometry.sectors - 3));
        let use_it = |device: &mut dyn BlockDevice| -> nandkit_block::Result<[Done; 3]> {
            let write = device.write(&context, lba, Payload::Bytes(&bytes))?;
            let read = device.read(&context, lba, ReadInto::Nothing { length: bytes.len() as u32 })?;
            let flush = if round % 5 == 0 { device.flush(&context)? } else { Done::default() };
            Ok([write, read, flush])
        };
        let first = use_it(&mut *bench.device).map_err(|error| error.to_string())?;
        let other = use_it(&mut *second).map_err(|error| error.to_string())?;
        ensure!(first == other, "round {round}: {first:?} and {other:?}");
        at = if round % 2 == 0 { first[0].completed } else { at + Nanos(1000) };
    }
    Ok(())
}

/// Reads of several threads at once each deliver their own sectors.
pub fn parallel_reads(bench: &mut Bench<'_>) -> Result<(), String> {
    let count = bench.geometry.sectors.min(16);
    let bytes = bench.fill(Lba(0), count)?;
    let (device, context, size) = (&*bench.device, bench.context(), bench.size());
    let reader = |first: u64| -> Result<(), String> {
        let mut found = vec![0; size];
        for round in 0..60 {
            let at = (first * 3 + round * 5) % count;
            device.read(&context, Lba(at), ReadInto::Bytes(&mut found)).map_err(|error| error.to_string())?;
            same(&found, &bytes[at as usize * size..(at as usize + 1) * size])
                .map_err(|detail| format!("sector {at} read in parallel: {detail}"))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let reader = &reader;
        let threads: Vec<_> = (0..4).map(|first| scope.spawn(move || reader(first))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
