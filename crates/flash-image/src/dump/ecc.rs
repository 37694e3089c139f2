//! Dumps whose pages hold ECC: pages are corrected as they are read, and what is written gets its
//! ECC when it goes to the file.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_units::{BlockIndex, PageAddress};

use super::DumpFlash;
use crate::changes::Changed;
use crate::layout::OobPlacement;
use crate::oob::{CodewordState, OobLayout, PageContent};

/// Pages that are kept decoded, each for the blocks of one remainder: readers go through a page in
/// pieces, and several read at once.
const SLOTS: usize = 16;

/// Uncorrectable code words that a report lists.
const LISTED_MAX: usize = 256;

/// A page that was decoded.
type DecodedPage = (PageAddress, Arc<PageContent>);

/// The pages that were decoded last.
#[derive(Debug, Default)]
pub(super) struct DecodedPages {
    slots: [Mutex<Option<DecodedPage>>; SLOTS],
}

impl DecodedPages {
    fn get(&self, at: PageAddress, decode: impl FnOnce() -> io::Result<PageContent>) -> io::Result<Arc<PageContent>> {
        let slot = self.slots.get(at.block.0 as usize % SLOTS);
        let held = slot.map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some((known, content)) = held.as_deref().and_then(Option::as_ref)
            && *known == at
        {
            return Ok(Arc::clone(content));
        }
        let content = Arc::new(decode()?);
        if let Some(mut held) = held {
            *held = Some((at, Arc::clone(&content)));
        }
        Ok(content)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What the ECC of a dump says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EccReport {
    /// The layout by which it was read.
    pub layout: Arc<OobLayout>,
    /// Code words of good blocks.
    pub codewords: u64,
    /// Those that were never programmed.
    pub erased: u64,
    /// Those with wrong bits, all of which were corrected.
    pub corrected: u64,
    /// The bits that were corrected in them.
    pub corrected_bits: u64,
    /// Those with more wrong bits than the code corrects.
    pub uncorrectable: u64,
    /// The first 256 of these, in the order of the pages.
    pub listed: Vec<UncorrectableCodeword>,
}

/// A code word with more wrong bits than the code corrects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncorrectableCodeword {
    /// The page.
    pub page: PageAddress,
    /// Its number within the page.
    pub codeword: usize,
    /// The bytes of the device's data that it covers, where they are side by side.
    pub data: Vec<Range<u64>>,
}

impl DumpFlash {
    /// The layout of the pages, where they hold ECC that is read and written.
    pub fn oob_layout(&self) -> Option<&Arc<OobLayout>> {
        self.shape.layout.ecc.as_ref()
    }

    /// What the ECC says of the whole dump; `None` where it has no layout with one. Cost: every
    /// page is decoded. Errors: those of the file.
    pub fn ecc_report(&self) -> io::Result<Option<EccReport>> {
        let Some(layout) = self.oob_layout() else { return Ok(None) };
        let mut report = EccReport {
            layout: Arc::clone(layout),
            codewords: 0,
            erased: 0,
            corrected: 0,
            corrected_bits: 0,
            uncorrectable: 0,
            listed: Vec::new(),
        };
        let geometry = self.shape.geometry;
        let mut raw = vec![0; layout.raw_bytes()];
        for block in (0..geometry.blocks).map(BlockIndex).filter(|block| !self.marks_bad(*block)) {
            for at in (0..geometry.pages_per_block).map(|page| block.page(page)) {
                self.stored_page(at, &mut raw)?;
                let codewords = match nandkit_units::is_erased(&raw) {
                    true => vec![CodewordState::Erased(0); layout.codewords()],
                    false => layout.decode(&raw).codewords,
                };
                for (number, state) in codewords.into_iter().enumerate() {
                    self.count(&mut report, at, number, state);
                }
            }
        }
        Ok(Some(report))
    }

    fn count(&self, report: &mut EccReport, at: PageAddress, codeword: usize, state: CodewordState) {
        report.codewords += 1;
        report.erased += u64::from(matches!(state, CodewordState::Erased(_)));
        match state.bits() {
            Some(0) => {}
            Some(bits) => {
                report.corrected += 1;
                report.corrected_bits += u64::from(bits);
            }
            None => {
                report.uncorrectable += 1;
                if report.listed.len() < LISTED_MAX {
                    let geometry = &self.shape.geometry;
                    let page = u64::from(at.block.0) * geometry.block_size()
                        + u64::from(at.page) * u64::from(geometry.page_size);
                    let covered = report.layout.covered(codeword).into_iter();
                    let data = covered.map(|range| page + range.start as u64..page + range.end as u64).collect();
                    report.listed.push(UncorrectableCodeword { page: at, codeword, data });
                }
            }
        }
    }

    /// A page with its OOB as the flash holds it, ECC included: after the changes since the last
    /// sync. `into` has the length of both. Errors: those of the file.
    pub fn stored_page(&self, at: PageAddress, into: &mut [u8]) -> io::Result<()> {
        match (self.changes.page(at), self.oob_layout()) {
            (Changed::No, _) => self.copy_raw(at, into),
            (Changed::Erased, _) => {
                into.fill(0xFF);
                Ok(())
            }
            (Changed::Page(page), Some(layout)) => {
                let mut before = vec![0xFF; into.len()];
                if !self.changes.is_erased(at.block) {
                    self.copy_raw(at, &mut before)?;
                }
                let made = layout.encode_page(page.data(), page.oob(), &before);
                into.iter_mut().zip(made).for_each(|(into, byte)| *into = byte);
                Ok(())
            }
            (Changed::Page(page), None) => {
                let bytes = page.data().iter().chain(page.oob());
                into.iter_mut().zip(bytes).for_each(|(into, byte)| *into = *byte);
                Ok(())
            }
        }
    }

    /// A page with its OOB as the file holds it.
    fn copy_raw(&self, at: PageAddress, into: &mut [u8]) -> io::Result<()> {
        let Some(place) = self.shape.place(at) else {
            into.fill(0xFF);
            return Ok(());
        };
        let (data, oob) = into.split_at_mut(into.len().min(self.shape.layout.page_size as usize));
        self.bytes.copy(place.data, self.shape.end, data)?;
        match (self.shape.layout.oob, &self.oob) {
            (OobPlacement::Separate, Some(file)) => file.copy(place.oob, u64::MAX, oob),
            _ => self.bytes.copy(place.oob, self.shape.end, oob),
        }
    }

    /// A page that was not changed since the last sync, decoded. The layout has ECC.
    pub(super) fn decoded(&self, layout: &OobLayout, at: PageAddress) -> io::Result<Arc<PageContent>> {
        self.decoded.get(at, || {
            let mut raw = vec![0; layout.raw_bytes()];
            self.copy_raw(at, &mut raw)?;
            Ok(layout.decode(&raw))
        })
    }

    /// The most bits that were corrected in a code word of these data bytes; `None` where one is
    /// beyond the code. Errors: those of the file.
    pub(super) fn corrected_bits(&self, at: PageAddress, data: Range<usize>) -> io::Result<Option<u16>> {
        let Some(layout) = self.oob_layout().filter(|_| matches!(self.changes.page(at), Changed::No)) else {
            return Ok(Some(0));
        };
        let content = self.decoded(layout, at)?;
        let mut most = Some(0);
        for (number, state) in content.codewords.iter().enumerate() {
            if state.bits() == Some(0) {
                continue;
            }
            let touches = |range: &Range<usize>| range.start < data.end && data.start < range.end;
            if layout.covered(number).iter().any(touches) {
                let bits = state.bits().map(|bits| u16::try_from(bits).unwrap_or(u16::MAX));
                most = most.zip(bits).map(|(most, bits)| most.max(bits));
            }
        }
        Ok(most)
    }

    /// The first byte of the OOB that is programmed although the layout keeps none there.
    pub(super) fn lost_oob(&self, oob: &[u8]) -> Option<usize> {
        let layout = self.oob_layout()?;
        oob.iter().enumerate().position(|(byte, value)| *value != 0xFF && !layout.keeps_oob(byte))
    }

    /// Makes the pages that go to the file, with their ECC. Errors: those of the file, which is not
    /// written then.
    pub(super) fn make_ecc(&mut self) -> io::Result<()> {
        let Some(layout) = self.oob_layout().cloned() else { return Ok(()) };
        let mut made = Vec::new();
        for at in self.changes.unmade() {
            let mut raw = vec![0; layout.raw_bytes()];
            self.stored_page(at, &mut raw)?;
            made.push((at, raw));
        }
        for (at, raw) in made {
            self.changes.set_stored(at, raw.into());
        }
        self.decoded.clear();
        Ok(())
    }

    fn marks_bad(&self, block: BlockIndex) -> bool {
        self.marked.contains(&block.0) || self.table().blocks.contains(&block.0)
    }
}
