//! The store that keeps only the numbers in a page's tags: for page-mapped layers on the largest
//! devices, at about four bytes per tag.
//!
//! A page whose OOB consists of tags only (`codec::page_tag`), with consecutive sequence numbers,
//! takes a few bytes. For each tag the store keeps the number: its own 48 bits without the lowest
//! eight. Those eight bits and the sequence number are kept once for a run of pages in which the
//! former are equal and the latter advance evenly: by one per page, or by the number of pages
//! programmed on other dies in between. Described data of such a page are not kept, and reads of
//! them return `NoContent`. Everything else, such as data in bytes and other OOB content, is kept
//! whole: metadata, and what tests write.

use std::collections::BTreeMap;

use nandkit_codec::page_tag::{TAG_BYTES, TagFormat, TagRead};
use nandkit_flash::PageProgram;
use nandkit_units::{FlashGeometry, Payload, ReadInto};
use smallvec::SmallVec;

use super::numbers::Numbers;
use super::pages::fill_oob;
use super::{NoContent, SavedPage, SlotPage, Store, StoreKind, bytes_of};

/// Consecutive pages of a block whose tags advance evenly.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first tag's sequence number (48 bits), and above it the eight bits common to all tags.
    first: u64,
    /// The first page and the number of pages.
    page: u16,
    pages: u16,
    /// The sequence number's increment per page; 0 in a run of one page.
    step: u32,
}

const LOW_BITS: u32 = 8;
const SEQUENCE: u64 = (1 << 48) - 1;

impl Run {
    const fn sequence(&self) -> u64 {
        self.first & SEQUENCE
    }

    const fn low(&self) -> u64 {
        self.first >> 48
    }

    const fn end(&self) -> u32 {
        self.page as u32 + self.pages as u32
    }

    /// A run of one page.
    const fn of_one(first: u64, page: u32) -> Self {
        Self { first, page: page as u16, pages: 1, step: 0 }
    }

    const fn holds(&self, page: u32) -> bool {
        self.page as u32 <= page && page < self.end()
    }

    /// The distance of a page's sequence number from the first one's.
    const fn ahead(&self, page: u32) -> u64 {
        (page - self.page as u32) as u64 * self.step as u64
    }

    /// Appends the next page if it continues the run.
    #[inline(always)]
    fn take(&mut self, page: u32, first: u64) -> bool {
        if self.end() != page || self.pages == u16::MAX {
            return false;
        }
        // More than 2^32 tags between two pages of a block start a new run.
        let Some(ahead) = first.checked_sub(self.first) else { return false };
        if self.pages == 1 {
            match u32::try_from(ahead) {
                Ok(step) if step > 0 => self.step = step,
                _ => return false,
            }
        } else if ahead != self.ahead(page) {
            return false;
        }
        self.pages += 1;
        true
    }
}

/// A page that is kept whole.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Whole {
    data: WholeData,
    oob: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WholeData {
    /// No data were programmed.
    Erased,
    /// The data were described, and the OOB were tags.
    NotKept,
    /// The page's first bytes; the rest is erased.
    Bytes(Box<[u8]>),
}

/// Keeps the numbers of tags, and everything else whole.
#[derive(Clone, Debug)]
pub struct AddressStore {
    format: TagFormat,
    page_size: u32,
    pages_per_block: usize,
    /// All pages of the device.
    pages: usize,
    /// Tags per page: the number in the first tagged page; 0 before. Pages with another number are
    /// kept whole.
    tags: usize,
    numbers: Numbers,
    /// For each slot: the runs in page order.
    runs: Vec<SmallVec<[Run; 1]>>,
    whole: BTreeMap<(usize, u32), Whole>,
}

/// The first tag of an OOB: its sequence number, with the low bits above it. `None` if the tags
/// cannot be part of a run.
#[inline(always)]
fn run_of(format: TagFormat, oob: &[u8], mut number: impl FnMut(usize, u64)) -> Option<u64> {
    let (images, rest) = oob.as_chunks::<TAG_BYTES>();
    if !rest.is_empty() {
        return None;
    }
    let mut first = None;
    for (place, image) in images.iter().enumerate() {
        let TagRead::Valid { payload, sequence } = format.decode(image) else { return None };
        if image.get(format.marker()) != Some(&0xFF) {
            return None;
        }
        let low = payload & ((1 << LOW_BITS) - 1);
        let expected = *first.get_or_insert(low << 48 | sequence);
        if expected >> 48 != low || (expected & SEQUENCE) + place as u64 != sequence {
            return None;
        }
        number(place, payload >> LOW_BITS);
    }
    first
}

/// The first bytes of a page after a program, which only clears bits.
fn laid_over(old: &[u8], program: &PageProgram<'_>) -> WholeData {
    let column = program.column as usize;
    let mut new = vec![0xFF; program.data.len()];
    program.data.copy_to(&mut new);
    let mut all = old.to_vec();
    all.resize(old.len().max(column + new.len()), 0xFF);
    all.iter_mut().skip(column).zip(&new).for_each(|(old, new)| *old &= new);
    WholeData::Bytes(all.into())
}

impl AddressStore {
    #[inline(always)]
    const fn place_of(&self, place: SlotPage) -> usize {
        (place.slot * self.pages_per_block + place.page as usize) * self.tags
    }

    #[inline]
    fn run(&self, place: SlotPage) -> Option<&Run> {
        self.runs.get(place.slot)?.iter().find(|run| run.holds(place.page))
    }

    /// Records a tagged page after the last one of its block. Returns `false`, with nothing
    /// recorded, if its OOB are no such tags or it was programmed before.
    #[inline(always)]
    fn note(&mut self, place: SlotPage, oob: &[u8]) -> bool {
        if oob.len() != self.tags * TAG_BYTES || oob.is_empty() {
            return self.tags == 0 && self.note_first(place, oob);
        }
        let at = self.place_of(place);
        let Some(runs) = self.runs.get_mut(place.slot) else { return false };
        let last = runs.last_mut();
        if last.as_ref().is_some_and(|last| place.page < last.end()) {
            return false;
        }
        // If the page turns out to have another form, the numbers written so far are unused: no run
        // will refer to them.
        let numbers = &mut self.numbers;
        let Some(first) = run_of(self.format, oob, |place, number| numbers.set(at + place, number)) else {
            return false;
        };
        if !last.is_some_and(|last| last.take(place.page, first)) {
            runs.push(Run::of_one(first, place.page));
        }
        true
    }

    /// Records the first tagged page, which determines the number of tags per page.
    #[cold]
    fn note_first(&mut self, place: SlotPage, oob: &[u8]) -> bool {
        if oob.is_empty() || run_of(self.format, oob, |_, _| {}).is_none() {
            return false;
        }
        self.tags = oob.len() / TAG_BYTES;
        self.numbers = Numbers::new(self.pages * self.tags);
        self.note(place, oob)
    }

    /// Reconstructs the OOB of a page in a run.
    #[inline]
    fn deliver_tags(&self, place: SlotPage, run: &Run, oob: &mut [u8]) {
        let (at, skipped) = (self.place_of(place), run.ahead(place.page));
        if self.tags == 1
            && let Ok(into) = <&mut [u8; TAG_BYTES]>::try_from(&mut *oob)
        {
            *into = self.format.image(self.numbers.get(at) << LOW_BITS | run.low(), run.sequence() + skipped);
            return;
        }
        oob.fill(0xFF);
        for (tag, into) in oob.chunks_mut(TAG_BYTES).take(self.tags).enumerate() {
            let payload = self.numbers.get(at + tag) << LOW_BITS | run.low();
            let image = self.format.image(payload, run.sequence() + skipped + tag as u64);
            fill_oob(into, &image);
        }
    }

    /// The programmed part of a page's OOB; `None` for an erased page.
    fn oob_of(&self, place: SlotPage) -> Option<Vec<u8>> {
        if let Some(whole) = self.whole.get(&(place.slot, place.page)) {
            return Some(whole.oob.to_vec());
        }
        let run = self.run(place)?;
        let mut oob = vec![0; self.tags * TAG_BYTES];
        self.deliver_tags(place, run, &mut oob);
        Some(oob)
    }

    /// Handles a program that no run can hold: of bytes, of other OOB content, or of a page that
    /// was programmed before.
    #[inline(never)]
    fn program_whole(&mut self, place: SlotPage, program: PageProgram<'_>) {
        let old = self.oob_of(place);
        let data = match (old.is_some(), program.data.len()) {
            (true, _) => self.data_again(place, &program),
            (false, 0) => WholeData::Erased,
            (false, _) => laid_over(&[], &program),
        };
        let mut oob = old.unwrap_or_default();
        oob.resize(oob.len().max(program.oob.len()), 0xFF);
        oob.iter_mut().zip(program.oob).for_each(|(old, new)| *old &= new);
        self.forget(place);
        self.whole.insert((place.slot, place.page), Whole { data, oob: oob.into() });
    }

    /// The data of a page after a further program.
    fn data_again(&self, place: SlotPage, program: &PageProgram<'_>) -> WholeData {
        match self.whole.get(&(place.slot, place.page)).map(|whole| &whole.data) {
            Some(old) if program.data.is_empty() => old.clone(),
            Some(WholeData::Bytes(old)) => laid_over(old, program),
            Some(WholeData::Erased) => laid_over(&[], program),
            Some(WholeData::NotKept) | None => WholeData::NotKept,
        }
    }

    /// Removes a page from its run, or from the pages kept whole.
    fn forget(&mut self, place: SlotPage) {
        self.whole.remove(&(place.slot, place.page));
        let Some(runs) = self.runs.get_mut(place.slot) else { return };
        let Some(index) = runs.iter().position(|run| run.holds(place.page)) else { return };
        let run = runs.remove(index);
        let (before, behind) = (place.page - u32::from(run.page), run.end() - place.page - 1);
        let part = |page: u32, pages: u32| Run {
            first: run.first + run.ahead(page),
            page: page as u16,
            pages: pages as u16,
            step: if pages == 1 { 0 } else { run.step },
        };
        if behind > 0 {
            runs.insert(index, part(place.page + 1, behind));
        }
        if before > 0 {
            runs.insert(index, part(u32::from(run.page), before));
        }
    }
}

impl Store for AddressStore {
    const KIND: StoreKind = StoreKind::Address;
    const KEEPS_DESCRIBED: bool = false;

    fn new(geometry: &FlashGeometry) -> Self {
        Self {
            format: TagFormat::new(geometry.page_size),
            page_size: geometry.page_size,
            pages_per_block: geometry.pages_per_block as usize,
            pages: usize::try_from(geometry.pages()).unwrap_or(usize::MAX),
            tags: 0,
            numbers: Numbers::new(0),
            runs: Vec::new(),
            whole: BTreeMap::new(),
        }
    }

    fn add_slot(&mut self) {
        self.runs.push(SmallVec::new());
    }

    #[inline(always)]
    fn program(&mut self, place: SlotPage, program: &PageProgram<'_>) {
        let described = matches!(program.data, Payload::Described(described) if described.length == self.page_size);
        if !(described && self.note(place, program.oob)) {
            self.program_whole(place, *program);
        }
    }

    #[inline]
    fn copy(&mut self, from: SlotPage, to: SlotPage, oob: Option<&[u8]>) {
        self.copy_whole(from, to, oob);
    }

    #[inline(always)]
    fn place(&mut self, from: SlotPage, to: SlotPage, oob: &[u8], oob_size: usize) {
        // Of data that are not kept, only the tags move.
        let kept = !self.whole.is_empty() && self.whole.contains_key(&(from.slot, from.page));
        if kept || self.run(from).is_none() || !self.note(to, oob) {
            let mut image = oob.to_vec();
            image.resize(oob_size.max(oob.len()), 0xFF);
            self.copy_whole(from, to, Some(&image));
        }
    }

    fn place_parts(&mut self, from: &[(SlotPage, u32)], to: SlotPage, oob: &[u8], sizes: (u32, usize)) {
        let tagged = |place: SlotPage| !self.whole.contains_key(&(place.slot, place.page)) && self.run(place).is_some();
        // A page of which only some parts are known could not be read anyway.
        let some_unknown = from.iter().any(|(place, _)| tagged(*place));
        if !some_unknown {
            return super::place_each(self, from, to, oob, sizes);
        }
        if !self.note(to, oob) {
            let whole = Whole { data: WholeData::NotKept, oob: oob.into() };
            self.whole.insert((to.slot, to.page), whole);
        }
    }

    #[inline]
    fn erase(&mut self, slot: usize) {
        if let Some(runs) = self.runs.get_mut(slot) {
            runs.clear();
        }
        if !self.whole.is_empty() {
            let keys: Vec<_> = self.whole.range((slot, 0)..=(slot, u32::MAX)).map(|(key, _)| *key).collect();
            keys.iter().for_each(|key| {
                self.whole.remove(key);
            });
        }
    }

    fn erase_page(&mut self, place: SlotPage) {
        self.forget(place);
    }

    #[inline]
    fn read(&self, place: SlotPage, column: u32, into: &mut ReadInto<'_>, oob: &mut [u8]) -> Result<(), NoContent> {
        let nothing_asked = into.is_empty() || matches!(into, ReadInto::Nothing { .. });
        if !self.whole.is_empty()
            && let Some(whole) = self.whole.get(&(place.slot, place.page))
        {
            fill_oob(oob, &whole.oob);
            match &whole.data {
                WholeData::NotKept if !nothing_asked => return Err(NoContent),
                WholeData::Bytes(bytes) => {
                    if let Some(into) = bytes_of(into) {
                        fill_oob(into, bytes.get(column as usize..).unwrap_or(&[]));
                    }
                }
                _ => into.deliver_fill(0xFF),
            }
            return Ok(());
        }
        let Some(run) = self.run(place) else {
            into.deliver_fill(0xFF);
            oob.fill(0xFF);
            return Ok(());
        };
        self.deliver_tags(place, run, oob);
        if nothing_asked { Ok(()) } else { Err(NoContent) }
    }

    fn keep(&self, place: SlotPage) -> SavedPage {
        let Some(oob) = self.oob_of(place) else { return SavedPage::Erased };
        match self.whole.get(&(place.slot, place.page)).map(|whole| &whole.data) {
            Some(WholeData::Bytes(bytes)) => SavedPage::Bytes(bytes.to_vec(), oob),
            Some(WholeData::Erased) => SavedPage::Bytes(Vec::new(), oob),
            Some(WholeData::NotKept) | None => SavedPage::Tag(0, oob),
        }
    }

    fn bring_back(&mut self, place: SlotPage, kept: &SavedPage) -> Result<(), NoContent> {
        match kept {
            SavedPage::Erased => {}
            SavedPage::Bytes(bytes, oob) => self.program(place, &PageProgram::new(Payload::Bytes(bytes), oob)),
            SavedPage::Described(_, _, oob) | SavedPage::Tag(_, oob) => {
                if !self.note(place, oob) {
                    let whole = Whole { data: WholeData::NotKept, oob: oob.as_slice().into() };
                    self.whole.insert((place.slot, place.page), whole);
                }
            }
        }
        Ok(())
    }
}

impl AddressStore {
    /// Copies a page that is kept whole, an erased one, or one whose tags are not replaced.
    #[cold]
    #[inline(never)]
    fn copy_whole(&mut self, from: SlotPage, to: SlotPage, oob: Option<&[u8]>) {
        let source = self.oob_of(from);
        let is_erased = source.is_none();
        let data = match self.whole.get(&(from.slot, from.page)) {
            Some(whole) => whole.data.clone(),
            None if is_erased => WholeData::Erased,
            None => WholeData::NotKept,
        };
        let mut image = source.unwrap_or_default();
        if let Some(oob) = oob {
            image.resize(image.len().max(oob.len()), 0xFF);
            image.iter_mut().zip(oob).for_each(|(old, new)| *old = *new);
        }
        if is_erased && image.is_empty() || data == WholeData::NotKept && self.note(to, &image) {
            return;
        }
        self.whole.insert((to.slot, to.page), Whole { data, oob: image.into() });
    }
}
