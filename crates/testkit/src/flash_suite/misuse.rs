//! Checks that misuse is refused and changes nothing.

use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_units::{BlockIndex, Context, Described, Description, Generator, PageAddress, Payload, ReadInto};

use super::PageOrder;
use super::bench::Bench;
use crate::violation::ensure;

/// Addresses and lengths outside the device, by one and by much.
pub fn range(bench: &mut Bench<'_>) -> Result<(), String> {
    let geometry = bench.geometry;
    let blocks = bench.blocks(5)?;
    let mut held = Vec::new();
    for &block in &blocks {
        held.push((block.page(0), bench.fill_page(block.page(0))?));
    }
    let (block, size) = (blocks[0], geometry.page_size as usize);
    let context = bench.context();
    let (data, oob) = bench.random_page();
    let mut buffer = vec![0; size + 1];
    let pages = [
        PageAddress::new(geometry.blocks, 0),
        PageAddress::new(u32::MAX, u32::MAX),
        block.page(geometry.pages_per_block),
        block.page(u32::MAX),
    ];
    for at in pages {
        let result = bench.flash.read(&context, at, PageRead::bytes(0, &mut buffer[..size]));
        Bench::expect_misuse(result, &format!("read of {at}"))?;
        let result = bench.flash.read(&context, at, PageRead::oob(&mut []));
        Bench::expect_misuse(result, &format!("empty read of {at}"))?;
        let program = PageProgram::new(Payload::Bytes(&data), &oob);
        Bench::expect_misuse(bench.flash.program(&context, at, program), &format!("program of {at}"))?;
    }
    for outside in [geometry.blocks, u32::MAX] {
        let outside = BlockIndex(outside);
        Bench::expect_misuse(bench.flash.erase(&context, outside), &format!("erase of {outside}"))?;
        Bench::expect_misuse(bench.flash.mark_bad(&context, outside), &format!("mark_bad of {outside}"))?;
    }
    let page = block.page(0);
    for (column, length) in [(0, size + 1), (1, size), (size, 1), (size - 1, 2), (u32::MAX as usize, 1)] {
        let read = PageRead::bytes(column as u32, &mut buffer[..length]);
        let what = format!("read of {length} bytes from column {column}");
        Bench::expect_misuse(bench.flash.read(&context, page, read), &what)?;
    }
    let next = block.page(1);
    if geometry.pages_per_block > 1 {
        let long = vec![0x5A; size + geometry.write_unit as usize];
        for (column, length) in [(0, long.len()), (geometry.write_unit as usize, size), (size, size)] {
            let program = PageProgram::bytes(column as u32, &long[..length]);
            let what = format!("program of {length} bytes at column {column}");
            Bench::expect_misuse(bench.flash.program(&context, next, program), &what)?;
        }
        let long_oob = vec![0x5A; geometry.oob_size as usize + 1];
        let program = PageProgram::new(Payload::Bytes(&data), &long_oob);
        Bench::expect_misuse(bench.flash.program(&context, next, program), "program of one OOB byte too many")?;
        held.push((next, bench.erased_page()));
    }
    let mut long_oob = vec![0; geometry.oob_size as usize + 1];
    let result = bench.flash.read(&context, page, PageRead::oob(&mut long_oob));
    Bench::expect_misuse(result, "read of one OOB byte too many")?;
    held.iter().try_for_each(|(at, bytes)| bench.expect_page(*at, bytes, "after refused operations"))
}

/// Absurd lengths and columns, and empty requests, cause no panic and change nothing.
pub fn silly_arguments(bench: &mut Bench<'_>) -> Result<(), String> {
    let blocks = bench.blocks(2)?;
    let at = blocks[0].page(0);
    let bytes = bench.fill_page(at)?;
    let context = bench.context();
    let size = bench.geometry.page_size;
    let endless = |record, offset, length| {
        let description = Description { record, version: 0, offset, generator: Generator::Record };
        Payload::Described(Described { description, length })
    };
    let free = blocks[1].page(0);
    for payload in [endless(0, 0, u32::MAX), endless(1, u32::MAX, 0), endless(2, 8, size + 1)] {
        for column in [0, 1, size, u32::MAX] {
            let program = PageProgram { column, data: payload, oob: &[] };
            let result = bench.flash.program(&context, free, program);
            ensure!(result.is_err() || payload.is_empty(), "a program of {} bytes succeeded", payload.len());
        }
    }
    for length in [0, 1, size + 1, u32::MAX] {
        for column in [0, 1, size, u32::MAX - 1, u32::MAX] {
            let read = PageRead { column, data: ReadInto::Nothing { length }, oob: &mut [] };
            let inside = u64::from(column) + u64::from(length) <= u64::from(size);
            let result = bench.flash.read(&context, at, read);
            ensure!(
                inside || length == 0 || result.is_err(),
                "a read of {length} bytes from column {column} succeeded"
            );
        }
    }
    // Empty programs may be taken or refused.
    let _ = bench.flash.program(&context, free, PageProgram::bytes(0, &[]));
    let _ = bench.flash.program(&context, free, PageProgram::bytes(u32::MAX, &[]));
    if let Some(copyback) = bench.flash.copyback() {
        ensure!(!copyback.can_copy(BlockIndex(u32::MAX), BlockIndex(0)), "can_copy from outside the device");
        ensure!(!copyback.can_copy(BlockIndex(0), BlockIndex(u32::MAX)), "can_copy to outside the device");
    }
    bench.expect_page(at, &bytes, "after silly arguments")?;
    let erased = bench.erased_page();
    bench.expect_page(free, &erased, "after silly programs")
}

/// Column and length of a program are multiples of the write unit.
pub fn write_unit(bench: &mut Bench<'_>) -> Result<(), String> {
    let unit = bench.geometry.write_unit as usize;
    if unit == 1 {
        return Ok(());
    }
    let at = bench.blocks(1)?[0].page(0);
    let context = bench.context();
    let data = vec![0x11; unit];
    for (column, length) in [(0, unit - 1), (0, 1), (1, unit - 1), (unit / 2, unit / 2)] {
        let result = bench.flash.program(&context, at, PageProgram::bytes(column as u32, &data[..length]));
        Bench::expect_misuse(result, &format!("program of {length} bytes at column {column} with a unit of {unit}"))?;
    }
    let erased = bench.erased_page();
    bench.expect_page(at, &erased, "after programs beside the write unit")?;
    bench.fill_page(at).map(|_| ()).map_err(|error| format!("after refused programs: {error}"))
}

/// NAND: programmed units cannot be programmed again before an erase.
pub fn no_overwrite(bench: &mut Bench<'_>) -> Result<(), String> {
    if bench.is_nor() || !bench.options.enforces_rules {
        return Ok(());
    }
    let block = bench.blocks(1)?[0];
    let at = block.page(0);
    let bytes = bench.fill_page(at)?;
    let context = bench.context();
    let (other, oob) = bench.random_page();
    let unit = bench.geometry.write_unit as usize;
    let last_unit = bench.geometry.page_size - bench.geometry.write_unit;
    for program in [
        PageProgram::new(Payload::Bytes(&other), &oob),
        PageProgram::bytes(0, &bytes.0),
        PageProgram::bytes(last_unit, &other[..unit]),
    ] {
        let result = bench.flash.program(&context, at, program);
        Bench::expect_misuse(result, "a program over a programmed page")?;
        bench.expect_page(at, &bytes, "after a refused program over it")?;
    }
    bench.erase(block)?;
    bench.fill_page(at).map(|_| ()).map_err(|error| format!("after the erase: {error}"))
}

/// Pages of a block are programmed in the order that the device asks for.
pub fn page_order(bench: &mut Bench<'_>) -> Result<(), String> {
    let pages = bench.geometry.pages_per_block;
    if pages < 3 {
        return Ok(());
    }
    let blocks = bench.blocks(2)?;
    let (block, second) = (blocks[0], blocks[blocks.len() - 1]);
    let (data, oob) = bench.random_page();
    let program = PageProgram::new(Payload::Bytes(&data), &oob);
    bench.program(block.page(0), program)?;
    let context = bench.context();
    let skipping = bench.flash.program(&context, block.page(2), program);
    if bench.options.order == PageOrder::Consecutive && bench.options.enforces_rules {
        Bench::expect_misuse(skipping, "a program that leaves a page out")?;
        let erased = bench.erased_page();
        return bench.expect_page(block.page(2), &erased, "after a refused program");
    }
    skipping.map_err(|error| format!("a program that leaves a page out: {error}"))?;
    let back = bench.flash.program(&context, block.page(1), program);
    if bench.options.order == PageOrder::Any {
        back.map_err(|error| format!("a program out of order: {error}"))?;
    } else if bench.options.enforces_rules {
        Bench::expect_misuse(back, "a program of a page before the last programmed one")?;
        let erased = bench.erased_page();
        bench.expect_page(block.page(1), &erased, "after a refused program")?;
    }
    bench.program(second.page(0), program).map(|_| ()).map_err(|error| format!("order across blocks: {error}"))
}

/// NAND: a page takes as many partial programs as the device allows, and no more.
pub fn partial_programs(bench: &mut Bench<'_>) -> Result<(), String> {
    let geometry = bench.geometry;
    let units = geometry.page_size / geometry.write_unit;
    let allowed = bench.options.partial_programs;
    if bench.is_nor() || allowed < 2 || units < 2 {
        return Ok(());
    }
    let at = bench.blocks(1)?[0].page(0);
    let (data, oob) = bench.random_page();
    let unit = geometry.write_unit as usize;
    let mut expected = bench.erased_page();
    for index in 0..units as usize {
        let part = &data[index * unit..(index + 1) * unit];
        let part_oob = if index == 0 { &oob[..] } else { &[] };
        let program = PageProgram { column: (index * unit) as u32, data: Payload::Bytes(part), oob: part_oob };
        let context = bench.context();
        let result = bench.flash.program(&context, at, program);
        if index as u32 >= allowed {
            if bench.options.enforces_rules {
                Bench::expect_misuse(result, &format!("program {} of {allowed} of a page", index + 1))?;
                bench.expect_page(at, &expected, "after one program too many")?;
            }
            return Ok(());
        }
        result.map_err(|error| format!("program {} of {allowed} of a page: {error}", index + 1))?;
        expected.0[index * unit..(index + 1) * unit].copy_from_slice(part);
        if index == 0 {
            expected.1.copy_from_slice(&oob);
        }
        bench.expect_page(at, &expected, &format!("after {} programs", index + 1))?;
    }
    Ok(())
}

/// NOR: bits go from 1 to 0 at any time, and never back without an erase.
pub fn nor_overwrite(bench: &mut Bench<'_>) -> Result<(), String> {
    if !bench.is_nor() || !bench.options.keeps_bytes {
        return Ok(());
    }
    let at = bench.blocks(1)?[0].page(0);
    let mut expected = bench.erased_page();
    for (column, byte) in [(5, 0xF7), (5, 0xF0), (5, 0x00), (6, 0x7F), (0, 0x01)] {
        bench.program(at, PageProgram::bytes(column, &[byte]))?;
        expected.0[column as usize] = byte;
        bench.expect_page(at, &expected, "after bits were cleared")?;
    }
    if bench.options.enforces_rules {
        let result = bench.flash.program(&Context::at(bench.now), at, PageProgram::bytes(5, &[0x01]));
        Bench::expect_misuse(result, "a program that sets a bit")?;
        bench.expect_page(at, &expected, "after a refused program")?;
    }
    Ok(())
}
