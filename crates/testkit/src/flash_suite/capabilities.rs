//! Copyback and multi-plane commands, where a device offers them.

use nandkit_flash::{Flash, PageProgram};
use nandkit_units::{BlockIndex, Context, PageAddress, Payload};

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

/// Good blocks one on each plane of one die; at least two, or none.
fn plane_blocks(bench: &mut Bench<'_>) -> Result<Vec<BlockIndex>, String> {
    let geometry = bench.geometry;
    if bench.flash.multi_plane().is_none() {
        return Ok(Vec::new());
    }
    let group = geometry.planes * geometry.dies;
    for first in (0..geometry.blocks).step_by(group as usize) {
        let blocks: Vec<BlockIndex> = (first..first + geometry.planes).map(BlockIndex).collect();
        if blocks.len() >= 2 && blocks.iter().all(|&block| !bench.flash.is_bad(block)) {
            for &block in &blocks {
                bench.erase(block)?;
            }
            return Ok(blocks);
        }
    }
    Ok(Vec::new())
}

/// One command does what its members would do one by one.
pub fn multi_plane(bench: &mut Bench<'_>) -> Result<(), String> {
    let blocks = plane_blocks(bench)?;
    if blocks.is_empty() {
        return Ok(());
    }
    let mut held = Vec::new();
    for page in 0..bench.geometry.pages_per_block.min(3) {
        let pages: Vec<_> = blocks.iter().map(|_| bench.random_page()).collect();
        let programs: Vec<_> = blocks
            .iter()
            .zip(&pages)
            .map(|(block, (data, oob))| (block.page(page), PageProgram::new(Payload::Bytes(data), oob)))
            .collect();
        let context = bench.context();
        let Some(multi_plane) = bench.flash.multi_plane() else { return Err("the capability went away".to_string()) };
        let done = multi_plane
            .program_planes(&context, &programs)
            .map_err(|error| format!("a plain multi-plane program was refused: {error}"))?;
        ensure!(done.completed >= context.issued, "a multi-plane program ended before it was issued");
        bench.now = bench.now.max(done.completed);
        held.extend(blocks.iter().map(|block| block.page(page)).zip(pages));
        held.iter().try_for_each(|(at, bytes)| bench.expect_page(*at, bytes, "programmed on several planes"))?;
    }
    let context = bench.context();
    let Some(multi_plane) = bench.flash.multi_plane() else { return Err("the capability went away".to_string()) };
    let done = multi_plane
        .erase_planes(&context, &blocks)
        .map_err(|error| format!("a plain multi-plane erase was refused: {error}"))?;
    ensure!(done.completed >= context.issued, "a multi-plane erase ended before it was issued");
    bench.now = bench.now.max(done.completed);
    let erased = bench.erased_page();
    for (at, _) in &held {
        bench.expect_page(*at, &erased, "erased on several planes")?;
    }
    for block in blocks {
        bench.fill_page(block.page(0)).map_err(|error| format!("after a multi-plane erase: {error}"))?;
    }
    Ok(())
}

/// The same plane twice, or a block outside the device: refused, and no member carried out.
pub fn multi_plane_misuse(bench: &mut Bench<'_>) -> Result<(), String> {
    let blocks = plane_blocks(bench)?;
    if blocks.is_empty() {
        return Ok(());
    }
    let (data, oob) = bench.random_page();
    let program = PageProgram::new(Payload::Bytes(&data), &oob);
    let outside = BlockIndex(bench.geometry.blocks);
    let context = Context::at(bench.now);
    let first = blocks[0];
    let mut pairs = vec![(first, first, "the same block twice"), (first, outside, "a block outside the device")];
    let group = bench.geometry.planes * bench.geometry.dies;
    let same_plane = BlockIndex(first.0.wrapping_add(group) % bench.geometry.blocks);
    if same_plane != first && !bench.flash.is_bad(same_plane) {
        bench.erase(same_plane)?;
        pairs.push((first, same_plane, "two blocks of one plane"));
    }
    for (one, other, what) in pairs {
        let Some(multi_plane) = bench.flash.multi_plane() else { return Err("the capability went away".to_string()) };
        let programs = [(one.page(0), program), (other.page(0), program)];
        Bench::expect_misuse(multi_plane.program_planes(&context, &programs), &format!("program of {what}"))?;
        Bench::expect_misuse(multi_plane.erase_planes(&context, &[one, other]), &format!("erase of {what}"))?;
        let erased = bench.erased_page();
        bench.expect_page(first.page(0), &erased, &format!("after a refused program of {what}"))?;
    }
    let bytes = bench.fill_page(first.page(0))?;
    let Some(multi_plane) = bench.flash.multi_plane() else { return Err("the capability went away".to_string()) };
    let result = multi_plane.erase_planes(&context, &[first, outside]);
    Bench::expect_misuse(result, "erase with a block outside the device")?;
    bench.expect_page(first.page(0), &bytes, "after a refused multi-plane erase")
}
