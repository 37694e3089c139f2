//! Copyback, where a device offers it.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, PageAddress};

use super::bench::Bench;
use crate::violation::ensure;

/// Two different good blocks between which the device copies.
fn copy_pair(bench: &mut Bench<'_>) -> Result<Option<(BlockIndex, BlockIndex)>, String> {
    if bench.flash.copyback().is_none() {
        return Ok(None);
    }
    let blocks = bench.blocks(12)?;
    for (index, &from) in blocks.iter().enumerate() {
        for &to in &blocks[index + 1..] {
            if bench.flash.copyback().is_some_and(|copyback| copyback.can_copy(from, to)) {
                return Ok(Some((from, to)));
            }
        }
    }
    Err("copyback is offered, and can_copy says no to every pair of blocks".to_string())
}

/// A copy carries data and OOB; given OOB bytes replace the first ones; the source stays.
pub fn copyback(bench: &mut Bench<'_>) -> Result<(), String> {
    let Some((from, to)) = copy_pair(bench)? else { return Ok(()) };
    let pages = bench.geometry.pages_per_block.min(3);
    let size = bench.geometry.oob_size as usize;
    let replacement = bench.random_page().1;
    for page in 0..pages {
        let bytes = bench.fill_page(from.page(page))?;
        let oob = [None, Some(&replacement[..size / 2]), Some(&replacement[..])][page as usize % 3];
        let context = bench.context();
        let Some(copyback) = bench.flash.copyback() else { return Err("the capability went away".to_string()) };
        let done = copyback
            .copy(&context, from.page(page), to.page(page), oob)
            .map_err(|error| format!("a plain copy was refused: {error}"))?;
        ensure!(done.completed >= context.issued, "a copy ended before it was issued");
        bench.now = bench.now.max(done.completed);
        let mut expected = bytes.clone();
        if let Some(oob) = oob {
            expected.1[..oob.len()].copy_from_slice(oob);
        }
        bench.expect_page(to.page(page), &expected, "the target of a copy")?;
        bench.expect_page(from.page(page), &bytes, "the source of a copy")?;
    }
    bench.erase(from)?;
    let replaced = if pages == 3 { Some(&replacement) } else { None };
    if let Some(oob) = replaced {
        let (_, found) = bench.read_page(to.page(2)).map_err(|error| error.to_string())?;
        let compared = if bench.options.keeps_bytes { size } else { size.min(16) };
        ensure!(found[..compared] == oob[..compared], "the copy changed when its source was erased");
    }
    Ok(())
}

/// Copies that break a rule are refused, and change nothing.
pub fn copyback_misuse(bench: &mut Bench<'_>) -> Result<(), String> {
    let Some((from, to)) = copy_pair(bench)? else { return Ok(()) };
    let geometry = bench.geometry;
    let source = bench.fill_page(from.page(0))?;
    let target = bench.fill_page(to.page(0))?;
    let context = bench.context();
    let copy = |bench: &mut Bench<'_>, from, to, oob: Option<&[u8]>, what: &str| {
        let Some(copyback) = bench.flash.copyback() else { return Err("the capability went away".to_string()) };
        Bench::expect_misuse(copyback.copy(&context, from, to, oob), what)
    };
    if !bench.is_nor() && bench.options.enforces_rules {
        copy(bench, from.page(0), to.page(0), None, "a copy over a programmed page")?;
    }
    let free = to.page(1 % geometry.pages_per_block);
    let outside = PageAddress::new(geometry.blocks, 0);
    copy(bench, outside, free, None, "a copy from outside the device")?;
    copy(bench, from.page(0), outside, None, "a copy to outside the device")?;
    copy(bench, from.page(geometry.pages_per_block), free, None, "a copy from a page outside the block")?;
    copy(bench, from.page(0), to.page(geometry.pages_per_block), None, "a copy to a page outside the block")?;
    let long = vec![0; geometry.oob_size as usize + 1];
    copy(bench, from.page(0), free, Some(&long), "a copy with one OOB byte too many")?;
    let others: Vec<BlockIndex> = bench.blocks_untouched();
    for &other in &others {
        let can = bench.flash.copyback().is_some_and(|copyback| copyback.can_copy(from, other));
        if !can && !bench.flash.is_bad(other) {
            copy(bench, from.page(0), other.page(0), None, "a copy where can_copy says no")?;
        }
    }
    bench.expect_page(from.page(0), &source, "after refused copies")?;
    bench.expect_page(to.page(0), &target, "after refused copies")
}
