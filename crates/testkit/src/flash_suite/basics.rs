//! Checks of programs, reads, erases, bad blocks and time.

use nandkit_flash::{ErrorKind, Flash, PageProgram, PageRead};
use nandkit_units::{BlockIndex, Context, Done, Nanos, PageAddress, Payload, ReadInto};

use super::bench::{Bench, same};
use crate::violation::ensure;

/// The geometry is the one asked for, possible, and does not change.
pub fn geometry(bench: &mut Bench<'_>) -> Result<(), String> {
    let before = *bench.flash.geometry();
    before.check().map_err(|error| error.to_string())?;
    ensure!(before == bench.geometry, "the device has {before:?}, asked for was {:?}", bench.geometry);
    let block = bench.blocks(1)?[0];
    bench.fill_page(block.page(0))?;
    ensure!(*bench.flash.geometry() == before, "the geometry changed by use");
    Ok(())
}

/// Whole pages come back as they were programmed, in the first and the last block, and stay so.
pub fn program_and_read_back(bench: &mut Bench<'_>) -> Result<(), String> {
    let mut written = Vec::new();
    for block in bench.blocks(3)? {
        for page in 0..bench.geometry.pages_per_block {
            let at = block.page(page);
            let bytes = bench.fill_page(at)?;
            bench.expect_page(at, &bytes, "directly after its program")?;
            written.push((at, bytes));
        }
    }
    written.iter().try_for_each(|(at, bytes)| bench.expect_page(*at, bytes, "after all programs"))
}

/// Reads of parts of a page: data alone, OOB alone, both, and nothing.
pub fn partial_reads(bench: &mut Bench<'_>) -> Result<(), String> {
    if !bench.options.keeps_bytes {
        return Ok(());
    }
    let at = bench.blocks(1)?[0].page(0);
    let (data, oob) = bench.fill_page(at)?;
    let size = bench.geometry.page_size as usize;
    let columns = [0, 1, 3, 511, size / 2 - 1, size / 2, size - 1, size];
    let lengths = [0, 1, 2, 7, 100, 512, size / 2, size - 1, size];
    for column in columns {
        for length in lengths.into_iter().filter(|length| column + length <= size && column < size) {
            let mut found = vec![0xA5; length];
            bench
                .flash
                .read(&bench.context(), at, PageRead::bytes(column as u32, &mut found))
                .map_err(|error| format!("read of {length} bytes from column {column}: {error}"))?;
            same(&found, &data[column..column + length])
                .map_err(|detail| format!("read of {length} bytes from column {column}: {detail}"))?;
        }
    }
    for length in [0, 1, oob.len() / 2, oob.len()].into_iter().filter(|&length| length <= oob.len()) {
        let mut found = vec![0xA5; length];
        bench
            .flash
            .read(&bench.context(), at, PageRead::oob(&mut found))
            .map_err(|error| format!("read of {length} OOB bytes: {error}"))?;
        same(&found, &oob[..length]).map_err(|detail| format!("read of {length} OOB bytes: {detail}"))?;
    }
    let (mut part, mut found_oob) = (vec![0; size / 2], vec![0; oob.len()]);
    let read = PageRead { column: size as u32 / 2, data: ReadInto::Bytes(&mut part), oob: &mut found_oob };
    bench.flash.read(&bench.context(), at, read).map_err(|error| format!("half a page with OOB: {error}"))?;
    same(&part, &data[size / 2..]).map_err(|detail| format!("second half of the page, read with OOB: {detail}"))?;
    same(&found_oob, &oob).map_err(|detail| format!("OOB, read with the second half of the page: {detail}"))
}

/// After an erase everything reads 0xFF and may be programmed again.
pub fn erase_clears(bench: &mut Bench<'_>) -> Result<(), String> {
    let blocks = bench.blocks(2)?;
    let pages = bench.geometry.pages_per_block;
    let erased = bench.erased_page();
    for round in 0..2 {
        for &block in &blocks {
            for page in 0..pages {
                bench.expect_page(block.page(page), &erased, &format!("erased, round {round}"))?;
            }
            for page in 0..pages {
                bench.fill_page(block.page(page)).map_err(|error| format!("round {round} after erase: {error}"))?;
            }
            bench.erase(block)?;
        }
    }
    for page in 0..pages {
        bench.expect_page(blocks[0].page(page), &erased, "erased at last")?;
    }
    Ok(())
}

/// An operation changes only the pages that it names.
pub fn isolation(bench: &mut Bench<'_>) -> Result<(), String> {
    let blocks = bench.blocks(5)?;
    let erased = bench.erased_page();
    let mut held = Vec::new();
    for &block in &blocks {
        let bytes = bench.fill_page(block.page(0))?;
        held.push((block.page(0), bytes));
    }
    let check = |bench: &Bench<'_>, held: &[(PageAddress, _)], why: &str| {
        held.iter().try_for_each(|(at, bytes)| bench.expect_page(*at, bytes, why))
    };
    for (index, &block) in blocks.iter().enumerate() {
        bench.erase(block)?;
        held[index].1 = erased.clone();
        check(bench, &held, &format!("after the erase of {block}"))?;
    }
    for &block in &blocks {
        let (at, last) = (block.page(0), block.page(bench.geometry.pages_per_block - 1));
        let bytes = bench.fill_page(at)?;
        if last != at {
            bench.expect_page(last, &erased, &format!("after the program of {at}"))?;
        }
        held.iter_mut().filter(|(held, _)| *held == at).for_each(|(_, old)| old.clone_from(&bytes));
        check(bench, &held, &format!("after the program of {at}"))?;
    }
    Ok(())
}

/// Programs with some OOB bytes, or none, leave the rest of the OOB erased.
pub fn oob(bench: &mut Bench<'_>) -> Result<(), String> {
    let size = bench.geometry.oob_size as usize;
    let (data, oob) = bench.random_page();
    for (block, length) in bench.blocks(3)?.into_iter().zip([0, size / 2, size]) {
        bench.program(block.page(0), PageProgram::new(Payload::Bytes(&data), &oob[..length]))?;
        let mut expected = bench.erased_page().1;
        expected[..length].copy_from_slice(&oob[..length]);
        bench.expect_page(block.page(0), &(data.clone(), expected), &format!("{length} OOB bytes programmed"))?;
    }
    if size == 0 {
        return Ok(());
    }
    let at = bench.blocks(1)?[0].page(0);
    bench
        .program(at, PageProgram::new(Payload::Bytes(&[]), &oob))
        .map_err(|error| format!("a program of OOB alone: {error}"))?;
    let expected = (bench.erased_page().0, oob);
    let mut found = vec![0; size];
    bench
        .flash
        .read(&bench.context(), at, PageRead::oob(&mut found))
        .map_err(|error| format!("a read of OOB alone: {error}"))?;
    let compared = if bench.options.keeps_bytes { size } else { size.min(16) };
    same(&found[..compared], &expected.1[..compared]).map_err(|detail| format!("OOB programmed alone: {detail}"))?;
    bench.expect_page(at, &expected, "after a program of OOB alone")
}

/// Bad-block marks stay, leave other blocks good, and stop programs and erases.
pub fn bad_blocks(bench: &mut Bench<'_>) -> Result<(), String> {
    let blocks = bench.blocks(3)?;
    let (bad, other) = (blocks[0], blocks[blocks.len() - 1]);
    let kept = bench.fill_page(other.page(0))?;
    let context = bench.context();
    for outside in [bench.geometry.blocks, bench.geometry.blocks.saturating_add(7), u32::MAX] {
        ensure!(bench.flash.is_bad(BlockIndex(outside)), "block {outside}, outside the device, is not bad");
    }
    for round in 0..2 {
        bench.flash.mark_bad(&context, bad).map_err(|error| format!("mark_bad, time {}: {error}", round + 1))?;
        ensure!(bench.flash.is_bad(bad), "{bad} was marked bad and is not");
    }
    ensure!(!bench.flash.is_bad(other), "{other} became bad when {bad} was marked");
    let (data, oob) = bench.random_page();
    let program = PageProgram::new(Payload::Bytes(&data), &oob);
    let result = bench.flash.program(&context, bad.page(0), program);
    Bench::expect_error(result, ErrorKind::BadBlock, "a program into a bad block")?;
    Bench::expect_error(bench.flash.erase(&context, bad), ErrorKind::BadBlock, "an erase of a bad block")?;
    ensure!(bench.flash.is_bad(bad), "the refused erase took the mark away");
    bench.expect_page(other.page(0), &kept, "after another block was marked bad")
}

/// `sync` succeeds and changes nothing.
pub fn sync(bench: &mut Bench<'_>) -> Result<(), String> {
    let at = bench.blocks(1)?[0].page(0);
    let bytes = bench.fill_page(at)?;
    for _ in 0..2 {
        let context = bench.context();
        let done = bench.flash.sync(&context).map_err(|error| error.to_string())?;
        ensure!(done.completed >= context.issued, "sync ended at {}, issued at {}", done.completed, context.issued);
    }
    bench.expect_page(at, &bytes, "after sync")
}

/// No operation ends before it was issued, whether issued late, early or at the end of time; busy
/// time fits between.
pub fn time(bench: &mut Bench<'_>) -> Result<(), String> {
    let block = bench.blocks(1)?[0];
    let (data, oob) = bench.random_page();
    let mut page = vec![0; data.len()];
    let later = Nanos(bench.now.0 + 7_777_777);
    for issued in [bench.now, later, Nanos(3), later, Nanos(u64::MAX - 10), Nanos(u64::MAX)] {
        let context = Context::at(issued);
        let check = |what: &str, done: Done| {
            ensure!(
                done.completed >= issued,
                "{what} issued at {} ns ended before, at {} ns",
                issued.0,
                done.completed.0
            );
            Ok(())
        };
        let flash: &mut dyn Flash = &mut *bench.flash;
        check("erase", flash.erase(&context, block).map_err(|error| error.to_string())?)?;
        let program = PageProgram::new(Payload::Bytes(&data), &oob);
        check("program", flash.program(&context, block.page(0), program).map_err(|error| error.to_string())?)?;
        let whole = ReadInto::Nothing { length: data.len() as u32 };
        let read = PageRead { column: 0, data: whole, oob: &mut [] };
        check("read of nothing", flash.read(&context, block.page(0), read).map_err(|error| error.to_string())?)?;
        if bench.options.keeps_bytes {
            let read = PageRead::bytes(0, &mut page);
            check("read", flash.read(&context, block.page(0), read).map_err(|error| error.to_string())?)?;
        }
        check("sync", flash.sync(&context).map_err(|error| error.to_string())?)?;
    }
    Ok(())
}

/// Two devices made the same and used the same answer the same.
pub fn repeatable(bench: &mut Bench<'_>) -> Result<(), String> {
    let mut second = bench.another();
    let blocks = bench.blocks(2)?;
    let mut at = bench.now;
    // Both devices must have the same history.
    for &block in &blocks {
        second.erase(&Context::at(Nanos(1_000_000)), block).map_err(|error| error.to_string())?;
    }
    bench.flash = {
        let mut first = bench.another();
        for &block in &blocks {
            first.erase(&Context::at(Nanos(1_000_000)), block).map_err(|error| error.to_string())?;
        }
        first
    };
    let (data, oob) = bench.random_page();
    for page in 0..bench.geometry.pages_per_block {
        for &block in &blocks {
            let context = Context::at(at);
            let program = PageProgram::new(Payload::Bytes(&data), &oob);
            let first = bench.flash.program(&context, block.page(page), program).map_err(|error| error.to_string())?;
            let other = second.program(&context, block.page(page), program).map_err(|error| error.to_string())?;
            ensure!(first == other, "program of {}: {first:?} and {other:?}", block.page(page));
            let read = |flash: &dyn Flash| {
                let read = PageRead { column: 0, data: ReadInto::Nothing { length: 100 }, oob: &mut [] };
                flash.read(&context, block.page(page), read).map_err(|error| error.to_string())
            };
            let (first, other) = (read(&*bench.flash)?, read(&*second)?);
            ensure!(first == other, "read of {}: {first:?} and {other:?}", block.page(page));
            at = if page % 3 == 0 { first.completed } else { at + Nanos(1000) };
        }
    }
    Ok(())
}
