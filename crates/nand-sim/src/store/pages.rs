//! Pages as shared byte strings or descriptions, in copy-on-write tables per block.
//!
//! A page composed of pieces keeps the descriptions among them ([`Packed`]), so that a store of
//! descriptions grows with the metadata, not with the traffic: see `PageStore::held_bytes`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use nandkit_codec::page_tag::TagFormat;
use nandkit_flash::PageProgram;
use nandkit_units::{Assembly, Content, Described, Description, FlashGeometry, Generator, Payload, ReadInto};

use super::packed::Packed;
use super::sparse::{self, Sparse};
use super::{NoContent, SavedPage, SlotPage, Store, StoreKind, deliver_described};

/// Whether a page store keeps descriptions.
pub trait Form: Clone + fmt::Debug + Send + Sync + 'static {
    /// Whether descriptions are kept as such.
    const KEEPS_DESCRIPTIONS: bool;
    /// The kind of the store.
    const KIND: StoreKind;
}

/// The data of a page. Bytes may be fewer than the page has: the rest is erased.
#[derive(Clone, Debug, Default)]
enum Data {
    #[default]
    Erased,
    Bytes(Arc<[u8]>),
    /// Bytes with many zeroes: the length that a [`Sparse`] represents, and its image.
    Sparse(u32, Arc<[u8]>),
    /// A description at column 0. The fields of a [`Described`] are inlined here, which makes a
    /// page's table entry 8 bytes smaller.
    Described {
        record: u64,
        version: u32,
        offset: u32,
        length: u32,
        is_record: bool,
    },
    /// Several pieces in a row.
    Packed(Packed),
}

// One for each page of every block ever programmed: 8 bytes make 8 MB for each 16 GiB of pages.
const _: () = assert!(size_of::<Page>() == 48);

impl Data {
    const fn of_description(Described { description, length }: Described) -> Self {
        let Description { record, version, offset, generator } = description;
        Self::Described { record, version, offset, length, is_record: matches!(generator, Generator::Record) }
    }

    /// The description, if the data is a single one.
    const fn described(&self) -> Option<Described> {
        let &Self::Described { record, version, offset, length, is_record } = self else { return None };
        let generator = if is_record { Generator::Record } else { Generator::Zero };
        Some(Described { description: Description { version, offset, record, generator }, length })
    }

    /// The number of bytes from column 0 on that are not erased.
    fn len(&self) -> usize {
        match self {
            Self::Erased => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Sparse(length, _) => *length as usize,
            Self::Described { length, .. } => *length as usize,
            Self::Packed(packed) => packed.len(),
        }
    }

    /// Whether the data is plain bytes.
    const fn is_bytes(&self) -> bool {
        matches!(self, Self::Erased | Self::Bytes(_) | Self::Sparse(..))
    }

    /// Delivers the data from `column` on; past the end, erased bytes.
    fn read(&self, column: u32, into: &mut ReadInto<'_>) {
        match self {
            Self::Erased => into.deliver_fill(0xFF),
            Self::Described { .. } => {
                if let Some(described) = self.described() {
                    deliver_described(into, column, 0, described);
                }
            }
            Self::Packed(packed) => packed.read(column as usize, into),
            Self::Sparse(length, image) => {
                if let Some(target) = super::bytes_of(into) {
                    sparse::read(image, *length as usize, column as usize, target);
                }
            }
            Self::Bytes(bytes) => {
                let rest = bytes.get(column as usize..).unwrap_or(&[]);
                match rest.get(..into.len()) {
                    Some(bytes) => into.deliver(Payload::Bytes(bytes)),
                    None => {
                        if let Some(target) = super::bytes_of(into) {
                            target.fill(0xFF);
                            target[..rest.len()].copy_from_slice(rest);
                        }
                    }
                }
            }
        }
    }

    /// Memory used outside the table entry, in bytes.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Erased | Self::Described { .. } => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Sparse(_, image) => image.len(),
            Self::Packed(packed) => packed.held_bytes(),
        }
    }
}

const INLINE: usize = 22;

/// The OOB of a page; missing bytes at the end are erased.
#[derive(Clone, Debug, Default)]
enum Oob {
    #[default]
    Erased,
    /// What translation layers write: short enough to need no memory of its own.
    Short(u8, [u8; INLINE]),
    Long(Arc<[u8]>),
    /// The OOB is in the image of the page's data.
    Packed,
}

impl Oob {
    /// The bytes stored here; those of a packed OOB come from its page.
    fn own_bytes(&self) -> &[u8] {
        match self {
            Self::Erased | Self::Packed => &[],
            Self::Short(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or(bytes),
            Self::Long(bytes) => bytes,
        }
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            Self::Erased
        } else if bytes.len() <= INLINE {
            let mut short = [0xFF; INLINE];
            short[..bytes.len()].copy_from_slice(bytes);
            Self::Short(bytes.len() as u8, short)
        } else {
            Self::Long(Arc::from(bytes))
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Page {
    data: Data,
    oob: Oob,
}

impl Page {
    fn oob(&self, format: TagFormat) -> Cow<'_, [u8]> {
        match (&self.oob, &self.data) {
            (Oob::Packed, Data::Packed(packed)) => packed.oob(format).into(),
            (oob, _) => oob.own_bytes().into(),
        }
    }

    /// Programs OOB bytes from offset 0 on.
    fn program_oob(&mut self, bytes: &[u8], format: TagFormat) {
        if bytes.is_empty() {
            return;
        }
        let old = self.oob(format);
        if old.is_empty() {
            self.oob = Oob::from_bytes(bytes);
            return;
        }
        let both: Vec<u8> = (0..old.len().max(bytes.len()))
            .map(|at| old.get(at).copied().unwrap_or(0xFF) & bytes.get(at).copied().unwrap_or(0xFF))
            .collect();
        self.oob = Oob::from_bytes(&both);
    }

    /// Replaces the beginning of the OOB.
    fn replace_oob(&mut self, bytes: &[u8], format: TagFormat) {
        let old = self.oob(format);
        self.oob = match old.get(bytes.len()..) {
            Some(rest) if !rest.is_empty() => {
                let both: Vec<u8> = bytes.iter().chain(rest).copied().collect();
                Oob::from_bytes(&both)
            }
            _ => Oob::from_bytes(bytes),
        };
    }
}

/// A store of pages in the given [`Form`].
#[derive(Clone, Debug)]
pub struct PageStore<F> {
    blocks: Vec<Arc<[Page]>>,
    page_size: usize,
    pages_per_block: usize,
    /// The format of translation layers' tags.
    format: TagFormat,
    form: PhantomData<F>,
}

impl<F: Form> PageStore<F> {
    fn page(&self, place: SlotPage) -> Option<&Page> {
        self.blocks.get(place.slot)?.get(place.page as usize)
    }

    fn page_mut(&mut self, place: SlotPage) -> Option<&mut Page> {
        unshared(self.blocks.get_mut(place.slot)?).get_mut(place.page as usize)
    }

    /// Programs the data; returns whether the OOB was stored with them.
    fn program_data(page: &mut Page, (page_size, format): (usize, TagFormat), program: &PageProgram<'_>) -> bool {
        let (column, data) = (program.column as usize, program.data);
        match (data, column, &page.data, F::KEEPS_DESCRIPTIONS) {
            _ if data.is_empty() => {}
            (Payload::Described(described), 0, Data::Erased, true) => page.data = Data::of_description(described),
            (Payload::Bytes(bytes), 0, Data::Erased, _) => page.data = Self::kept(bytes),
            (Payload::Assembled(_), 0, Data::Erased, true) => return Self::pack(page, data, program.oob, format),
            (data, _, old, true) if !(old.is_bytes() && matches!(data, Payload::Bytes(_))) => {
                Self::add_pieces(page, column, data, format);
            }
            _ => Self::add_bytes(page, page_size, column, data),
        }
        false
    }

    /// Stores several pieces in an erased page. A long OOB programmed with them goes into the same
    /// allocation to save overhead; returns whether it did.
    fn pack(page: &mut Page, data: Payload<'_>, oob: &[u8], format: TagFormat) -> bool {
        let together = oob.len() > INLINE && matches!(page.oob, Oob::Erased);
        page.data = Data::Packed(Packed::new(data, if together { oob } else { &[] }, format));
        if together {
            page.oob = Oob::Packed;
        }
        together
    }

    /// Adds data to a page that is not only bytes.
    fn add_pieces(page: &mut Page, column: usize, data: Payload<'_>, format: TagFormat) {
        let (length, end) = (page.data.len(), column + data.len());
        let mut old = Content::new();
        if length > 0 {
            page.data.read(0, &mut ReadInto::Content { content: &mut old, length: length as u32 });
        }
        // Any part of an assembly can be described, but only those parts of a description that 32
        // bits can address.
        let (mut before, mut all) = (Assembly::new(), Assembly::new());
        before.push(old.payload());
        let before = before.payload();
        all.push(before.part(0, column.min(length)).unwrap_or(Payload::Bytes(&[])));
        if column > length {
            all.push(Payload::Bytes(&vec![0xFF; column - length]));
        }
        all.push(data);
        if end < length {
            all.push(before.part(end, length - end).unwrap_or(Payload::Bytes(&[])));
        }
        let oob = page.oob(format).into_owned();
        page.data = match all.payload() {
            Payload::Described(described) => Data::of_description(described),
            Payload::Bytes(bytes) => Self::kept(bytes),
            pieces @ Payload::Assembled(_) => Data::Packed(Packed::new(pieces, &[], format)),
        };
        // The OOB may have been in the image that was replaced.
        page.oob = Oob::from_bytes(&oob);
    }

    /// Adds data to a page, which is stored as bytes from now on.
    fn add_bytes(page: &mut Page, page_size: usize, column: usize, data: Payload<'_>) {
        let end = column + data.len();
        let mut whole = vec![0xFF; page_size];
        let old_length = page.data.len().min(page_size);
        page.data.read(0, &mut ReadInto::Bytes(whole.get_mut(..old_length).unwrap_or(&mut [])));
        // The chip never programs a part twice, so the old bytes are 0xFF and only the program
        // counts.
        data.copy_to(&mut whole[column..end]);
        page.data = Self::kept(&whole[..old_length.max(end)]);
    }

    /// Memory that the pages take, in bytes: tables and allocations. Memory shared by pages or
    /// snapshots counts once for each. Cost: a pass over all pages.
    pub fn held_bytes(&self) -> u64 {
        let pages = self.blocks.iter().flat_map(|block| block.iter());
        let beside =
            |page: &Page| (page.data.held_bytes() + if let Oob::Long(oob) = &page.oob { oob.len() } else { 0 }) as u64;
        pages.map(|page| size_of::<Page>() as u64 + beside(page)).sum()
    }

    /// Bytes in the form that this store keeps: a store that must be small omits zeroes.
    fn kept(bytes: &[u8]) -> Data {
        let sparse = if F::KEEPS_DESCRIPTIONS { Sparse::new(bytes) } else { None };
        let sparse = sparse.map(Sparse::into_image);
        sparse.map_or_else(|| Data::Bytes(Arc::from(bytes)), |(length, image)| Data::Sparse(length, image))
    }
}

/// The table for writing; copied first if a snapshot shares it.
fn unshared(table: &mut Arc<[Page]>) -> &mut [Page] {
    Arc::make_mut(table)
}

impl<F: Form> Store for PageStore<F> {
    const KIND: StoreKind = F::KIND;

    fn new(geometry: &FlashGeometry) -> Self {
        Self {
            blocks: Vec::new(),
            page_size: geometry.page_size as usize,
            pages_per_block: geometry.pages_per_block as usize,
            format: TagFormat::new(geometry.page_size),
            form: PhantomData,
        }
    }

    fn add_slot(&mut self) {
        self.blocks.push((0..self.pages_per_block).map(|_| Page::default()).collect());
    }

    fn program(&mut self, place: SlotPage, program: &PageProgram<'_>) {
        let (page_size, format) = (self.page_size, self.format);
        if let Some(page) = self.page_mut(place)
            && !Self::program_data(page, (page_size, format), program)
        {
            page.program_oob(program.oob, format);
        }
    }

    fn copy(&mut self, from: SlotPage, to: SlotPage, oob: Option<&[u8]>) {
        let Some(mut source) = self.page(from).cloned() else { return };
        if let Some(oob) = oob {
            source.replace_oob(oob, self.format);
        }
        if let Some(target) = self.page_mut(to) {
            *target = source;
        }
    }

    fn erase(&mut self, slot: usize) {
        let Some(table) = self.blocks.get_mut(slot) else { return };
        match Arc::get_mut(table) {
            Some(pages) => pages.fill_with(Page::default),
            None => *table = (0..self.pages_per_block).map(|_| Page::default()).collect(),
        }
    }

    fn erase_page(&mut self, place: SlotPage) {
        if let Some(page) = self.page_mut(place) {
            *page = Page::default();
        }
    }

    fn read(&self, place: SlotPage, column: u32, into: &mut ReadInto<'_>, oob: &mut [u8]) -> Result<(), NoContent> {
        let Some(page) = self.page(place) else {
            into.deliver_fill(0xFF);
            oob.fill(0xFF);
            return Ok(());
        };
        page.data.read(column, into);
        if !oob.is_empty() {
            fill_oob(oob, &page.oob(self.format));
        }
        Ok(())
    }

    fn keep(&self, place: SlotPage) -> SavedPage {
        let Some(page) = self.page(place) else { return SavedPage::Erased };
        let oob = page.oob(self.format).into_owned();
        if let Some(described) = page.data.described() {
            return SavedPage::Described(0, described, oob);
        }
        if matches!((&page.data, &page.oob), (Data::Erased, Oob::Erased)) {
            return SavedPage::Erased;
        }
        let mut bytes = vec![0; page.data.len()];
        page.data.read(0, &mut ReadInto::Bytes(&mut bytes));
        SavedPage::Bytes(bytes, oob)
    }

    fn bring_back(&mut self, place: SlotPage, kept: &SavedPage) -> Result<(), NoContent> {
        let (column, data, oob) = match kept {
            SavedPage::Erased => return Ok(()),
            SavedPage::Tag(..) => return Err(NoContent),
            SavedPage::Bytes(bytes, oob) => (0, Payload::Bytes(bytes), oob),
            SavedPage::Described(column, described, oob) => (*column, Payload::Described(*described), oob),
        };
        self.program(place, &PageProgram { column, data, oob });
        Ok(())
    }
}

/// Fills a read's OOB with the stored bytes; the rest is erased.
pub(super) fn fill_oob(into: &mut [u8], stored: &[u8]) {
    let length = stored.len().min(into.len());
    let (head, tail) = into.split_at_mut(length);
    head.copy_from_slice(&stored[..length]);
    tail.fill(0xFF);
}
