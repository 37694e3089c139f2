//! A random run, compared operation by operation with a model.

use std::collections::BTreeMap;

use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_units::{BlockIndex, Described, Description, Generator, Payload, ReadInto};

use super::bench::{Bench, PageBytes, same};

/// What the blocks of the run hold: the programmed pages of each, from page 0 on.
type Model = BTreeMap<BlockIndex, Vec<PageBytes>>;

/// Programs, reads, erases, copies and refused operations in random order; everything held is
/// compared at the end.
pub fn model(bench: &mut Bench<'_>) -> Result<(), String> {
    let blocks = bench.blocks(6)?;
    let mut model: Model = blocks.iter().map(|&block| (block, Vec::new())).collect();
    for round in 0..bench.options.rounds {
        let block = blocks[bench.random.below(blocks.len() as u64) as usize];
        step(bench, &blocks, &mut model, block).map_err(|detail| format!("round {round}: {detail}"))?;
    }
    let erased = bench.erased_page();
    for (block, pages) in &model {
        for page in 0..bench.geometry.pages_per_block {
            let expected = pages.get(page as usize).unwrap_or(&erased);
            bench.expect_page(block.page(page), expected, "after the random run")?;
        }
    }
    Ok(())
}

fn step(bench: &mut Bench<'_>, blocks: &[BlockIndex], model: &mut Model, block: BlockIndex) -> Result<(), String> {
    let pages = bench.geometry.pages_per_block as usize;
    let held = model.get(&block).map_or(0, Vec::len);
    match bench.random.below(100) {
        0..45 if held < pages => {
            let bytes = program(bench, block, held as u32)?;
            model.entry(block).or_default().push(bytes);
        }
        0..50 if held == pages => {
            bench.erase(block)?;
            model.entry(block).or_default().clear();
        }
        50..60 => copy(bench, blocks, model, block)?,
        60..63 => refuse(bench, block, held)?,
        _ => read(bench, model, block)?,
    }
    Ok(())
}

fn program(bench: &mut Bench<'_>, block: BlockIndex, page: u32) -> Result<PageBytes, String> {
    let (mut data, oob) = bench.random_page();
    let described = Described {
        description: Description {
            record: bench.random.below(1000),
            version: bench.random.below(9) as u32,
            offset: bench.random.below(512) as u32 * 8,
            generator: Generator::Record,
        },
        length: data.len() as u32,
    };
    if bench.random.chance(0.3) {
        described.description.generate(&mut data);
        bench.program(block.page(page), PageProgram::new(Payload::Described(described), &oob))?;
    } else {
        bench.program(block.page(page), PageProgram::new(Payload::Bytes(&data), &oob))?;
    }
    Ok((data, oob))
}

fn copy(bench: &mut Bench<'_>, blocks: &[BlockIndex], model: &mut Model, to: BlockIndex) -> Result<(), String> {
    let from = blocks[bench.random.below(blocks.len() as u64) as usize];
    let held = model.get(&from).map_or(0, Vec::len);
    let next = model.get(&to).map_or(0, Vec::len);
    if held == 0 || next >= bench.geometry.pages_per_block as usize {
        return Ok(());
    }
    let page = bench.random.below(held as u64) as usize;
    let Some(mut bytes) = model.get(&from).and_then(|pages| pages.get(page)).cloned() else { return Ok(()) };
    let replacement = bench.random_page().1;
    let oob = bench.random.chance(0.5).then_some(&replacement[..]);
    let context = bench.context();
    let Some(copyback) = bench.flash.copyback() else { return Ok(()) };
    if !copyback.can_copy(from, to) {
        return Ok(());
    }
    let done = copyback
        .copy(&context, from.page(page as u32), to.page(next as u32), oob)
        .map_err(|error| format!("a plain copy was refused: {error}"))?;
    bench.now = bench.now.max(done.completed);
    if let Some(oob) = oob {
        bytes.1.copy_from_slice(oob);
    }
    model.entry(to).or_default().push(bytes);
    Ok(())
}

/// A program that the contract forbids.
fn refuse(bench: &mut Bench<'_>, block: BlockIndex, held: usize) -> Result<(), String> {
    let (data, oob) = bench.random_page();
    let context = bench.context();
    let at = block.page(bench.geometry.pages_per_block);
    let program = PageProgram::new(Payload::Bytes(&data), &oob);
    Bench::expect_misuse(bench.flash.program(&context, at, program), "a program behind the block")?;
    if held > 0 && bench.options.enforces_rules && !bench.is_nor() {
        let page = bench.random.below(held as u64) as u32;
        let result = bench.flash.program(&context, block.page(page), program);
        Bench::expect_misuse(result, "a program over a programmed page")?;
    }
    Ok(())
}

fn read(bench: &mut Bench<'_>, model: &Model, block: BlockIndex) -> Result<(), String> {
    let page = bench.random.below(u64::from(bench.geometry.pages_per_block)) as u32;
    let erased = bench.erased_page();
    let expected = model.get(&block).and_then(|pages| pages.get(page as usize)).unwrap_or(&erased);
    if !bench.options.keeps_bytes {
        return bench.expect_page(block.page(page), expected, "in the random run");
    }
    let size = expected.0.len() as u64;
    let start = bench.random.below(size) as usize;
    let length = bench.random.between(0, size - start as u64) as usize;
    let oob_length = bench.random.between(0, expected.1.len() as u64) as usize;
    let (mut data, mut oob) = (vec![0; length], vec![0; oob_length]);
    let read = PageRead { column: start as u32, data: ReadInto::Bytes(&mut data), oob: &mut oob };
    bench.flash.read(&bench.context(), block.page(page), read).map_err(|error| error.to_string())?;
    let at = block.page(page);
    same(&data, &expected.0[start..start + length])
        .map_err(|detail| format!("{length} bytes from column {start} of {at}: {detail}"))?;
    same(&oob, &expected.1[..oob_length]).map_err(|detail| format!("{oob_length} OOB bytes of {at}: {detail}"))
}
