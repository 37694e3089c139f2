//! Pages as shared byte strings or descriptions, in copy-on-write tables per block.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use nandkit_flash::PageProgram;
use nandkit_units::{Described, FlashGeometry, Payload, ReadInto};

use super::sparse::Sparse;
use super::{Kept, NoContent, Place, Store, StoreKind, deliver_described};

/// Whether a page store keeps descriptions.
pub trait Form: Clone + fmt::Debug + Send + Sync + 'static {
    /// Whether a description stays one.
    const KEEPS_DESCRIPTIONS: bool;
    /// The store's name.
    const KIND: StoreKind;
}

/// The data of a page. Bytes may be fewer than the page has: the rest is erased.
#[derive(Clone, Debug, Default)]
enum Data {
    #[default]
    Erased,
    Bytes(Arc<[u8]>),
    /// The same where much of it is zeroes.
    Sparse(Sparse),
    /// From column 0 on.
    Described(Described),
}

const INLINE: usize = 22;

/// The OOB of a page; fewer bytes than it has: the rest is erased.
#[derive(Clone, Debug, Default)]
enum Oob {
    #[default]
    Erased,
    /// What translation layers write: short enough to need no memory of its own.
    Short(u8, [u8; INLINE]),
    Long(Arc<[u8]>),
}

impl Oob {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Erased => &[],
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

    /// Programs bytes from offset 0 on.
    fn program(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        *self = match self {
            Self::Erased => Self::from_bytes(bytes),
            ref old => {
                let old = old.bytes();
                let both: Vec<u8> = (0..old.len().max(bytes.len()))
                    .map(|at| old.get(at).copied().unwrap_or(0xFF) & bytes.get(at).copied().unwrap_or(0xFF))
                    .collect();
                Self::from_bytes(&both)
            }
        };
    }

    /// Puts bytes in place of the beginning.
    fn replace(&mut self, bytes: &[u8]) {
        let old = self.bytes();
        if old.len() <= bytes.len() {
            *self = Self::from_bytes(bytes);
        } else {
            let both: Vec<u8> = bytes.iter().chain(&old[bytes.len()..]).copied().collect();
            *self = Self::from_bytes(&both);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Page {
    data: Data,
    oob: Oob,
}

/// A store of pages by [`Form`].
#[derive(Clone, Debug)]
pub struct PageStore<F> {
    blocks: Vec<Arc<[Page]>>,
    page_size: usize,
    pages_per_block: usize,
    form: PhantomData<F>,
}

impl<F: Form> PageStore<F> {
    fn page(&self, place: Place) -> Option<&Page> {
        self.blocks.get(place.slot)?.get(place.page as usize)
    }

    fn page_mut(&mut self, place: Place) -> Option<&mut Page> {
        unshared(self.blocks.get_mut(place.slot)?).get_mut(place.page as usize)
    }

    fn program_data(page: &mut Page, page_size: usize, column: usize, data: Payload<'_>) {
        if data.is_empty() {
            return;
        }
        if let (Payload::Described(described), 0, Data::Erased, true) =
            (data, column, &page.data, F::KEEPS_DESCRIPTIONS)
        {
            page.data = Data::Described(described);
            return;
        }
        if let (Payload::Bytes(bytes), 0, Data::Erased) = (data, column, &page.data) {
            page.data = Self::kept(bytes);
            return;
        }
        let end = column + data.len();
        let mut whole = vec![0xFF; page_size];
        let old_length = match &page.data {
            Data::Erased => 0,
            Data::Bytes(bytes) => {
                whole[..bytes.len()].copy_from_slice(bytes);
                bytes.len()
            }
            Data::Sparse(sparse) => {
                sparse.read(0, &mut whole);
                sparse.len()
            }
            Data::Described(described) => {
                let length = (described.length as usize).min(page_size);
                described.description.generate(&mut whole[..length]);
                length
            }
        };
        // The chip lets no part be programmed twice, so what is there is 0xFF and the program alone decides.
        data.copy_to(&mut whole[column..end]);
        page.data = Self::kept(&whole[..old_length.max(end)]);
    }

    /// Bytes as this store keeps them: a store that is to be small leaves out zeroes.
    fn kept(bytes: &[u8]) -> Data {
        let sparse = if F::KEEPS_DESCRIPTIONS { Sparse::new(bytes) } else { None };
        sparse.map_or_else(|| Data::Bytes(Arc::from(bytes)), Data::Sparse)
    }
}

/// The table for writing: copied first if a snapshot shares it.
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
            form: PhantomData,
        }
    }

    fn add_slot(&mut self) {
        self.blocks.push((0..self.pages_per_block).map(|_| Page::default()).collect());
    }

    fn program(&mut self, place: Place, program: &PageProgram<'_>) {
        let page_size = self.page_size;
        if let Some(page) = self.page_mut(place) {
            Self::program_data(page, page_size, program.column as usize, program.data);
            page.oob.program(program.oob);
        }
    }

    fn copy(&mut self, from: Place, to: Place, oob: Option<&[u8]>) {
        let Some(mut source) = self.page(from).cloned() else { return };
        if let Some(oob) = oob {
            source.oob.replace(oob);
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

    fn erase_page(&mut self, place: Place) {
        if let Some(page) = self.page_mut(place) {
            *page = Page::default();
        }
    }

    fn read(&self, place: Place, column: u32, into: &mut ReadInto<'_>, oob: &mut [u8]) -> Result<(), NoContent> {
        let Some(page) = self.page(place) else {
            into.deliver_fill(0xFF);
            oob.fill(0xFF);
            return Ok(());
        };
        match &page.data {
            Data::Erased => into.deliver_fill(0xFF),
            Data::Described(described) => deliver_described(into, column, 0, *described),
            Data::Sparse(sparse) => {
                if let Some(target) = super::bytes_of(into) {
                    sparse.read(column as usize, target);
                }
            }
            Data::Bytes(bytes) => {
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
        fill_oob(oob, page.oob.bytes());
        Ok(())
    }

    fn keep(&self, place: Place) -> Kept {
        match self.page(place) {
            None | Some(Page { data: Data::Erased, oob: Oob::Erased }) => Kept::Erased,
            Some(Page { data: Data::Erased, oob }) => Kept::Bytes(Vec::new(), oob.bytes().to_vec()),
            Some(Page { data: Data::Bytes(bytes), oob }) => Kept::Bytes(bytes.to_vec(), oob.bytes().to_vec()),
            Some(Page { data: Data::Sparse(sparse), oob }) => Kept::Bytes(sparse.to_vec(), oob.bytes().to_vec()),
            Some(Page { data: Data::Described(described), oob }) => {
                Kept::Described(0, *described, oob.bytes().to_vec())
            }
        }
    }

    fn bring_back(&mut self, place: Place, kept: &Kept) -> Result<(), NoContent> {
        let (column, data, oob) = match kept {
            Kept::Erased => return Ok(()),
            Kept::Tag(..) => return Err(NoContent),
            Kept::Bytes(bytes, oob) => (0, Payload::Bytes(bytes), oob),
            Kept::Described(column, described, oob) => (*column, Payload::Described(*described), oob),
        };
        self.program(place, &PageProgram { column, data, oob });
        Ok(())
    }
}

/// Fills a read's OOB with what is there; the rest is erased.
pub(super) fn fill_oob(into: &mut [u8], stored: &[u8]) {
    let length = stored.len().min(into.len());
    let (head, tail) = into.split_at_mut(length);
    head.copy_from_slice(&stored[..length]);
    tail.fill(0xFF);
}
