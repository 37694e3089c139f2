//! Stores: what a chip keeps of its pages. That is all bytes, bytes and descriptions, only a tag,
//! or only the numbers in the OOB.
//!
//! Stores know nothing of rules, time or faults. A block gets a slot when it is first programmed;
//! clones share a slot's pages until one of them writes.

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

/// The position of a page in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPage {
    /// The slot of the page's block.
    pub slot: usize,
    /// The page number in the block.
    pub page: u32,
}

/// The store does not have the requested bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoContent;

/// The content of a page to be saved: exactly what a program needs to restore it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedPage {
    /// Nothing was programmed.
    Erased,
    /// Data bytes and OOB bytes; bytes beyond their ends are erased.
    Bytes(Vec<u8>, Vec<u8>),
    /// The column of a description, the description, and the OOB bytes.
    Described(u32, Described, Vec<u8>),
    /// A shadow store's tag of bytes that it did not keep, and the OOB bytes.
    Tag(u64, Vec<u8>),
}

/// Keeps the content of pages.
pub trait Store: Clone + Send + Sync {
    /// The kind of the store, for specs and records.
    const KIND: StoreKind;
    /// Whether described data can be read back.
    const KEEPS_DESCRIBED: bool = true;

    /// A store without slots.
    fn new(geometry: &FlashGeometry) -> Self;

    /// Adds a slot of erased pages. Its number is the previous count of slots.
    fn add_slot(&mut self);

    /// Programs a page: bits change from 1 to 0. The chip has checked ranges and rules.
    fn program(&mut self, place: SlotPage, program: &PageProgram<'_>);

    /// Copies the source's data and OOB to an erased page; `oob` replaces the beginning of the
    /// source's OOB.
    fn copy(&mut self, from: SlotPage, to: SlotPage, oob: Option<&[u8]>);

    /// Copies pages of one slot to erased pages from `to` on; `oob` holds an equal number of bytes
    /// for each, which replace the beginning of the source's OOB.
    fn copy_run(&mut self, slot: usize, from: &[PageAddress], to: SlotPage, oob: &[u8]) {
        copy_each(self, slot, from, to, oob);
    }

    /// Copies the source's data to an erased page with a new OOB: `oob`, padded as erased up to
    /// `oob_size`.
    fn place(&mut self, from: SlotPage, to: SlotPage, oob: &[u8], oob_size: usize) {
        let mut image = oob.to_vec();
        image.resize(oob_size.max(oob.len()), 0xFF);
        self.copy(from, to, Some(&image));
    }

    /// Composes an erased page from equal parts of other pages, each given by its page and its
    /// index there, with an OOB as in [`Store::place`]. `sizes` are the sizes of a page and of its
    /// OOB.
    fn place_parts(&mut self, from: &[(SlotPage, u32)], to: SlotPage, oob: &[u8], sizes: (u32, usize)) {
        place_each(self, from, to, oob, sizes);
    }

    /// Erases all pages of a slot.
    fn erase(&mut self, slot: usize);

    /// Erases one page.
    fn erase_page(&mut self, place: SlotPage);

    /// Reads data from `column` on, and OOB from its start. The chip has checked ranges.
    fn read(&self, place: SlotPage, column: u32, into: &mut ReadInto<'_>, oob: &mut [u8]) -> Result<(), NoContent>;

    /// The content of a page to be saved.
    fn keep(&self, place: SlotPage) -> SavedPage;

    /// Restores a page of an erased block. A store that cannot hold the content (a tag in a content
    /// store) leaves the page erased and returns an error.
    fn bring_back(&mut self, place: SlotPage, kept: &SavedPage) -> Result<(), NoContent>;
}

/// [`Store::copy_run`] page by page.
fn copy_each<S: Store>(store: &mut S, slot: usize, from: &[PageAddress], to: SlotPage, oob: &[u8]) {
    let length = oob.len().checked_div(from.len()).unwrap_or(0);
    for (index, (page, from)) in (to.page..).zip(from).enumerate() {
        let image = oob.get(index * length..(index + 1) * length);
        store.copy(SlotPage { slot, page: from.page }, SlotPage { slot: to.slot, page }, image);
    }
}

/// [`Store::place_parts`] through the parts' contents. If the store does not know a part (the bytes
/// of a shadow's tag), nothing but the OOB of the new page is known.
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

/// The kinds of stores.
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

/// Delivers the bytes from `column` on of a page that holds `described` at `start` and is otherwise
/// erased.
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

/// The target bytes of a read in any form; `None` if nothing is to be delivered.
pub(crate) fn bytes_of<'a>(into: &'a mut ReadInto<'_>) -> Option<&'a mut [u8]> {
    match into {
        ReadInto::Bytes(bytes) => Some(bytes),
        ReadInto::Content { content, length } => Some(content.set_bytes(*length as usize)),
        ReadInto::Nothing { .. } => None,
    }
}
