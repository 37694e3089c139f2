//! Dumps whose pages contain ECC: pages are corrected when read, and get new ECC when changes go to
//! the file.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_units::{BlockIndex, PageAddress};

use super::DumpFlash;
use crate::changes::Changed;
use crate::layout::OobPlacement;
use crate::oob::{CodewordState, OobLayout, PageContent};

/// Number of cached decoded pages, one per remainder of block numbers: readers read a page in
/// pieces, and several read at once.
const SLOTS: usize = 16;

/// Most uncorrectable code words listed in a report.
const LISTED_MAX: usize = 256;

/// A decoded page.
type DecodedPage = (PageAddress, Arc<PageContent>);

/// The most recently decoded pages.
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

/// The result of checking the ECC of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EccReport {
    /// The layout used for decoding.
    pub layout: Arc<OobLayout>,
    /// Code words in good blocks.
    pub codewords: u64,
    /// Code words that were never programmed.
    pub erased: u64,
    /// Code words with wrong bits that were all corrected.
    pub corrected: u64,
    /// Corrected bits in these code words.
    pub corrected_bits: u64,
    /// Code words with more wrong bits than the code corrects.
    pub uncorrectable: u64,
    /// The first 256 uncorrectable code words, in page order.
    pub listed: Vec<UncorrectableCodeword>,
}

/// A code word with more wrong bits than the code corrects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncorrectableCodeword {
    /// The page with the code word.
    pub page: PageAddress,
    /// The code word's index in the page.
    pub codeword: usize,
    /// The device's data bytes that it covers, in contiguous ranges.
    pub data: Vec<Range<u64>>,
}

impl DumpFlash {
    /// The layout of the pages, if they contain ECC that is checked and written.
    pub fn oob_layout(&self) -> Option<&Arc<OobLayout>> {
        self.shape.layout.ecc.as_ref()
    }

    /// Checks the ECC of the whole dump; `None` if its layout has none. Cost: decodes every page.
    /// Errors: those of the file.
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

    /// A page with its OOB in raw form, including ECC, with the changes since the last sync. `into`
    /// must have the length of both. Errors: those of the file.
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

    /// A page with its OOB, in the file's form.
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

    /// Decodes a page that is unchanged since the last sync. The layout must have ECC.
    pub(super) fn decoded(&self, layout: &OobLayout, at: PageAddress) -> io::Result<Arc<PageContent>> {
        self.decoded.get(at, || {
            let mut raw = vec![0; layout.raw_bytes()];
            self.copy_raw(at, &mut raw)?;
            Ok(layout.decode(&raw))
        })
    }

    /// The most bits corrected in a code word of these data bytes; `None` if one is uncorrectable.
    /// Errors: those of the file.
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

    /// The first programmed OOB byte that the layout cannot store.
    pub(super) fn lost_oob(&self, oob: &[u8]) -> Option<usize> {
        let layout = self.oob_layout()?;
        oob.iter().enumerate().position(|(byte, value)| *value != 0xFF && !layout.keeps_oob(byte))
    }

    /// Computes the stored form of changed pages, with their ECC. Errors: those of the file, which
    /// is then not written.
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
