//! What a chip keeps of its pages: all bytes, bytes and descriptions, only a tag, or only the
//! numbers in its OOB.
//!
//! Stores know nothing of rules, time or faults. Blocks get a slot when they are first programmed;
//! a store holds its slots' pages so that a clone shares them until one side writes.

mod address;
mod content;
mod described;
mod numbers;
mod packed;
mod pages;
mod shadow;
mod sparse;

pub use address::AddressStore;
pub use content::ContentStore;
pub use described::DescribedStore;
pub use shadow::ShadowStore;

use nandkit_flash::PageProgram;
use nandkit_units::{Assembly, Content, Described, FlashGeometry, PageAddress, Payload, ReadInto};
use serde::{Deserialize, Serialize};

/// A page that a store holds: its block's slot, and the page in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPage {
    /// The block's slot.
    pub slot: usize,
    /// The page in the block.
    pub page: u32,
}

/// The store has no bytes for what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoContent;

/// What of a page is left to be saved: exactly what a program would need to bring it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedPage {
    /// Nothing was programmed.
    Erased,
    /// Bytes; shorter than the page where the rest is erased. The second are the OOB's, with the
    /// same reading.
    Bytes(Vec<u8>, Vec<u8>),
    /// A description from a column on, and the OOB's bytes.
    Described(u32, Described, Vec<u8>),
    /// A shadow's tag of bytes that it did not keep, and the OOB's bytes.
    Tag(u64, Vec<u8>),
}

/// Keeps pages.
pub trait Store: Clone + Send + Sync {
    /// The store's name in specs and records.
    const KIND: StoreKind;
    /// Whether described data can be read back.
    const KEEPS_DESCRIBED: bool = true;

    /// A store without slots.
    fn new(geometry: &FlashGeometry) -> Self;

    /// Adds a slot of erased pages. Its number is the count of slots before.
    fn add_slot(&mut self);

    /// Programs: bits go from 1 to 0. The chip has checked ranges and rules.
    fn program(&mut self, place: SlotPage, program: &PageProgram<'_>);

    /// Puts the source's data and OOB into an erased page; `oob` replaces the beginning of the
    /// source's OOB.
    fn copy(&mut self, from: SlotPage, to: SlotPage, oob: Option<&[u8]>);

    /// Puts pages of one slot into erased pages from `to` on; `oob` is as many bytes for each,
    /// which replace the beginning of the source's OOB.
    fn copy_run(&mut self, slot: usize, from: &[PageAddress], to: SlotPage, oob: &[u8]) {
        copy_each(self, slot, from, to, oob);
    }

    /// Puts the source's data and an OOB of its own into an erased page: `oob`, and behind it, up
    /// to `oob_size`, nothing.
    fn place(&mut self, from: SlotPage, to: SlotPage, oob: &[u8], oob_size: usize) {
        let mut image = oob.to_vec();
        image.resize(oob_size.max(oob.len()), 0xFF);
        self.copy(from, to, Some(&image));
    }

    /// Fills an erased page with equal parts of other pages, each given with its page and its
    /// number there, and gives it an OOB as [`Store::place`] does. `sizes` are those of a page and
    /// of its OOB.
    fn place_parts(&mut self, from: &[(SlotPage, u32)], to: SlotPage, oob: &[u8], sizes: (u32, usize)) {
        place_each(self, from, to, oob, sizes);
    }

    /// Erases all pages of a slot.
    fn erase(&mut self, slot: usize);

    /// Erases one page.
    fn erase_page(&mut self, place: SlotPage);

    /// Reads data from `column` on into `into` and the OOB from its start. The chip has checked
    /// ranges.
    fn read(&self, place: SlotPage, column: u32, into: &mut ReadInto<'_>, oob: &mut [u8]) -> Result<(), NoContent>;

    /// What must be saved of a page.
    fn keep(&self, place: SlotPage) -> SavedPage;

    /// Brings back a page whose block is erased. A store that cannot hold what is kept (a tag in a
    /// content store) leaves it erased and says so.
    fn bring_back(&mut self, place: SlotPage, kept: &SavedPage) -> Result<(), NoContent>;
}

/// A [`Store::copy_run`] page by page.
fn copy_each<S: Store>(store: &mut S, slot: usize, from: &[PageAddress], to: SlotPage, oob: &[u8]) {
    let length = oob.len().checked_div(from.len()).unwrap_or(0);
    for (index, (page, from)) in (to.page..).zip(from).enumerate() {
        let image = oob.get(index * length..(index + 1) * length);
        store.copy(SlotPage { slot, page: from.page }, SlotPage { slot: to.slot, page }, image);
    }
}

/// A [`Store::place_parts`] through the parts' contents. A part that the store does not know (the
/// bytes of a shadow's tag) makes the whole page one of which nothing is known but its OOB.
fn place_each<S: Store>(
    store: &mut S,
    from: &[(SlotPage, u32)],
    to: SlotPage,
    oob: &[u8],
    (page_size, oob_size): (u32, usize),
) {
    let size = page_size / (from.len().max(1) as u32);
    let mut contents = vec![Content::new(); from.len()];
    for ((place, part), content) in from.iter().zip(&mut contents) {
        let mut into = ReadInto::Content { content, length: size };
        if store.read(*place, part * size, &mut into, &mut []).is_err() {
            return store.place(*place, to, oob, oob_size);
        }
    }
    let parts: Vec<Payload<'_>> = contents.iter().map(Content::payload).collect();
    let mut buffer = Assembly::new();
    let data = Payload::joined(&parts, &mut buffer);
    store.program(to, &PageProgram::new(data, oob));
}

/// The stores by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// [`ContentStore`].
    #[default]
    Content,
    /// [`DescribedStore`].
    Described,
    /// [`ShadowStore`].
    Shadow,
    /// [`AddressStore`].
    Address,
}

/// Delivers the bytes from `column` on of a page of which `described` begins at `start` and the
/// rest is erased.
fn deliver_described(into: &mut ReadInto<'_>, column: u32, start: u32, described: Described) {
    let length = into.len();
    if length == 0 {
        return;
    }
    let payload = Payload::Described(described);
    if let Some(part) = column.checked_sub(start).and_then(|skip| payload.part(skip as usize, length)) {
        return into.deliver(part);
    }
    let from = column.max(start);
    let to = (u64::from(column) + length as u64).min(u64::from(start) + u64::from(described.length)) as u32;
    let Some(bytes) = bytes_of(into) else { return };
    bytes.fill(0xFF);
    if from < to
        && let Some(part) = payload.part((from - start) as usize, (to - from) as usize)
        && let Some(target) = bytes.get_mut((from - column) as usize..(to - column) as usize)
    {
        part.copy_to(target);
    }
}

/// The bytes that a read fills, whichever form it takes; `None` where nothing is to be delivered.
pub(crate) fn bytes_of<'a>(into: &'a mut ReadInto<'_>) -> Option<&'a mut [u8]> {
    match into {
        ReadInto::Bytes(bytes) => Some(bytes),
        ReadInto::Content { content, length } => Some(content.set_bytes(*length as usize)),
        ReadInto::Nothing { .. } => None,
    }
}
