//! Step 1: finding the valid half of the journal.

use nandkit_flash::{ErrorKind, Flash, PageRead};
use nandkit_units::{BlockIndex, Context, ReadInto};

use super::PageMapRecovery;
use crate::failure::{Failure, LayerResult};
use crate::page_map::journal::layout::{Kind, Line, Snapshot, read_page};
use crate::page_map::journal::{JournalOnFlash, all_rows, good_of};

/// The newest journal whose snapshot is complete and sealed.
pub(super) fn journal<F: Flash>(
    flash: &F,
    context: &Context,
    report: &mut PageMapRecovery,
) -> LayerResult<JournalOnFlash> {
    let blocks = all_rows(flash.geometry());
    let mut best: Option<JournalOnFlash> = None;
    for half in 0..2 {
        let good = good_of(flash, &blocks, half);
        let mut pages = Pages { flash, context: *context, blocks: good.collect(), next: 0, report };
        if let Some(found) = pages.half(half)?
            && best.as_ref().is_none_or(|best| best.generation < found.generation)
        {
            best = Some(found);
        }
    }
    best.ok_or_else(|| {
        Failure::unfit(
            "a chip without a page-mapped device: no whole journal was found; expected one that was formatted as such",
        )
    })
}

/// Whether the first page of every good block is erased.
pub(super) fn is_blank<F: Flash>(flash: &F, context: &Context) -> LayerResult<bool> {
    let geometry = *flash.geometry();
    let (mut data, mut oob) = (vec![0; geometry.page_size as usize], vec![0; geometry.oob_size as usize]);
    for block in (0..geometry.blocks).map(BlockIndex).filter(|block| !flash.is_bad(*block)) {
        let read = PageRead { column: 0, data: ReadInto::Bytes(&mut data), oob: &mut oob };
        match flash.read(context, block.page(0), read) {
            Ok(_) if data.iter().chain(&oob).all(|byte| *byte == 0xFF) => {}
            // A page that is unreadable, or that the store does not hold, was programmed.
            Ok(_) => return Ok(false),
            Err(error) if super::scan::is_loss(error.kind) || error.kind == ErrorKind::NoContent => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Reads the pages of a half in sequence.
struct Pages<'a, F> {
    flash: &'a F,
    context: Context,
    blocks: Vec<BlockIndex>,
    next: u32,
    report: &'a mut PageMapRecovery,
}

impl<F: Flash> Pages<'_, F> {
    /// The journal in this half, if it is valid.
    fn half(&mut self, half: usize) -> LayerResult<Option<JournalOnFlash>> {
        let Some((generation, bytes)) = self.group(None, 0, Kind::Snapshot)? else { return Ok(None) };
        let Some(snapshot) = Snapshot::take(&bytes) else { return Ok(None) };
        if self.group(Some(generation), 1, Kind::Seal)?.is_none() {
            return Ok(None);
        }
        let mut lines = Vec::new();
        for group in 2.. {
            let Some((_, bytes)) = self.group(Some(generation), group, Kind::Lines)? else { break };
            let Some(more) = Line::all(&bytes) else { break };
            lines.extend(more);
        }
        Ok(Some(JournalOnFlash { half, generation, snapshot, lines }))
    }

    /// The next group, if it is complete and the expected one.
    fn group(&mut self, generation: Option<u64>, group: u32, kind: Kind) -> LayerResult<Option<(u64, Vec<u8>)>> {
        let (mut all, mut whole) = (Vec::new(), None);
        for index in 0.. {
            let Some(page) = self.page()? else { return Ok(None) };
            let Some((place, bytes)) = read_page(&page) else { return Ok(None) };
            let (generation, count) = *whole.get_or_insert((generation.unwrap_or(place.generation), place.count));
            let is_next = place.kind == kind && place.generation == generation && place.group == group;
            if !is_next || place.index != index || place.count != count {
                return Ok(None);
            }
            all.extend_from_slice(bytes);
            if index + 1 == count {
                return Ok(Some((generation, all)));
            }
        }
        Ok(None)
    }

    /// The next page; `None` at the end, or if it is unreadable.
    fn page(&mut self) -> LayerResult<Option<Vec<u8>>> {
        let geometry = *self.flash.geometry();
        let (index, page) = (self.next / geometry.pages_per_block, self.next % geometry.pages_per_block);
        let Some(block) = self.blocks.get(index as usize) else { return Ok(None) };
        self.next += 1;
        self.report.pages_read += 1;
        let mut bytes = vec![0; geometry.page_size as usize];
        let read = PageRead { column: 0, data: ReadInto::Bytes(&mut bytes), oob: &mut [] };
        let context = Context { issued: self.report.completed, ..self.context };
        match self.flash.read(&context, block.page(page), read) {
            Ok(done) => {
                self.report.completed = self.report.completed.max(done.completed);
                Ok(Some(bytes))
            }
            Err(error) if super::scan::is_loss(error.kind) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
