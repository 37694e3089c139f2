//! The changes since the last sync, and the file bytes they affect.

use std::collections::BTreeMap;

use nandkit_units::{BlockIndex, PageAddress};

use crate::layout::{OobPlacement, Shape};
use crate::pieces::{Piece, PieceContent};

/// A changed page: its data followed by its OOB.
#[derive(Clone, Debug)]
pub(crate) struct PageImage {
    bytes: Box<[u8]>,
    page_size: usize,
    /// The page in its stored form, if the layout encodes it.
    stored: Option<Box<[u8]>>,
}

impl PageImage {
    pub fn erased(page_size: u32, oob_size: u32) -> Self {
        let page_size = page_size as usize;
        Self { bytes: vec![0xFF; page_size + oob_size as usize].into(), page_size, stored: None }
    }

    /// Length of data and OOB in bytes.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn data(&self) -> &[u8] {
        self.bytes.get(..self.page_size).unwrap_or(&[])
    }

    pub fn oob(&self) -> &[u8] {
        self.bytes.get(self.page_size..).unwrap_or(&[])
    }

    /// The stored data and OOB of the page.
    pub fn stored(&self) -> (&[u8], &[u8]) {
        let bytes = self.stored.as_deref().unwrap_or(&self.bytes);
        bytes.split_at(self.page_size.min(bytes.len()))
    }

    /// Data and OOB, for changes.
    pub fn parts_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        self.stored = None;
        self.bytes.split_at_mut(self.page_size)
    }
}

/// The changes of a block since the last sync.
#[derive(Debug, Default)]
pub(crate) struct BlockChange {
    /// Whether it was erased: pages that are not in `pages` are then erased, otherwise as in the
    /// file.
    pub erased: bool,
    pub pages: BTreeMap<u32, PageImage>,
}

/// All changes since the last sync. Memory: the changed pages.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub blocks: BTreeMap<u32, BlockChange>,
    /// Total length of all changed pages in bytes.
    pub held_bytes: u64,
}

/// The state of a changed page.
pub(crate) enum Changed<'a> {
    No,
    Erased,
    Page(&'a PageImage),
}

impl Changes {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    #[inline]
    pub fn page(&self, at: PageAddress) -> Changed<'_> {
        if self.blocks.is_empty() {
            return Changed::No;
        }
        let Some(block) = self.blocks.get(&at.block.0) else { return Changed::No };
        match block.pages.get(&at.page) {
            Some(page) => Changed::Page(page),
            None if block.erased => Changed::Erased,
            None => Changed::No,
        }
    }

    pub fn erase(&mut self, block: BlockIndex) {
        let change = self.blocks.entry(block.0).or_default();
        change.erased = true;
        let dropped: u64 = change.pages.values().map(PageImage::len).sum();
        change.pages.clear();
        self.held_bytes -= dropped;
    }

    /// The changed page, made with `make` if there is none yet.
    pub fn page_mut(&mut self, at: PageAddress, make: impl FnOnce() -> PageImage) -> &mut PageImage {
        let held = &mut self.held_bytes;
        let pages = &mut self.blocks.entry(at.block.0).or_default().pages;
        pages.entry(at.page).or_insert_with(|| {
            let page = make();
            *held += page.len();
            page
        })
    }

    /// Whether a block was erased since the last sync.
    pub fn is_erased(&self, block: BlockIndex) -> bool {
        self.blocks.get(&block.0).is_some_and(|block| block.erased)
    }

    /// The changed pages without a stored form.
    pub fn unmade(&self) -> Vec<PageAddress> {
        let pages = self.blocks.iter().flat_map(|(block, change)| change.pages.iter().map(move |page| (*block, page)));
        pages
            .filter(|(_, (_, image))| image.stored.is_none())
            .map(|(block, (page, _))| PageAddress::new(block, *page))
            .collect()
    }

    /// Sets the stored form of a changed page.
    pub fn set_stored(&mut self, at: PageAddress, stored: Box<[u8]>) {
        let page = self.blocks.get_mut(&at.block.0).and_then(|block| block.pages.get_mut(&at.page));
        if let Some(page) = page {
            page.stored = Some(stored);
        }
    }

    /// The changed pieces of the files; later ones override earlier ones. `lengths` are those of
    /// the image and of the OOB file.
    pub fn pieces<'a>(&'a self, shape: &Shape, lengths: [u64; 2]) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        for (&block, change) in &self.blocks {
            block_pieces(shape, lengths, BlockIndex(block), change, &mut pieces);
        }
        // A gap in the OOB file before new content is erased, not zero.
        let first = pieces.iter().filter(|piece| piece.file == 1).map(|piece| piece.offset).min();
        if let Some(first) = first.filter(|&first| first > lengths[1]) {
            let content = PieceContent::Erased(first - lengths[1]);
            pieces.insert(0, Piece { file: 1, offset: lengths[1], content });
        }
        pieces
    }
}

fn block_pieces<'a>(
    shape: &Shape,
    lengths: [u64; 2],
    block: BlockIndex,
    change: &'a BlockChange,
    pieces: &mut Vec<Piece<'a>>,
) {
    let Some(base) = shape.place(block.page(0)) else { return };
    let layout = &shape.layout;
    let block_end = base.data + layout.stored_block();
    // The last block may be incomplete in the file; the file grows only for bytes that are not
    // erased.
    let grows = shape.may_grow
        && change.pages.iter().any(|(&page, image)| {
            shape.page_end(block.page(page)) > lengths[0]
                && !(nandkit_units::is_erased(image.data()) && nandkit_units::is_erased(image.oob()))
        });
    let limit = if grows { block_end } else { shape.end.min(lengths[0]) };
    let erased = |file, from: u64, to: u64| {
        let length = to.saturating_sub(from);
        (length > 0).then_some(Piece { file, offset: from, content: PieceContent::Erased(length) })
    };
    if change.erased {
        pieces.extend(erased(0, base.data, block_end.min(limit)));
        if layout.oob == OobPlacement::Separate {
            let oob_bytes = u64::from(shape.geometry.pages_per_block) * u64::from(layout.oob_size);
            pieces.extend(erased(1, base.oob, (base.oob + oob_bytes).min(lengths[1])));
        }
    } else if grows {
        pieces.extend(erased(0, lengths[0].max(base.data), block_end));
    }
    for (&page, image) in &change.pages {
        let Some(place) = shape.place(block.page(page)) else { continue };
        let mut put = |file, offset: u64, bytes: &'a [u8], limit: u64| {
            let length = usize::try_from(limit.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
            let bytes = bytes.get(..length).unwrap_or(&[]);
            if !bytes.is_empty() {
                pieces.push(Piece { file, offset, content: PieceContent::Bytes(bytes) });
            }
        };
        let (data, oob) = image.stored();
        put(0, place.data, data, limit);
        match layout.oob {
            OobPlacement::None => {}
            OobPlacement::Separate if place.oob >= lengths[1] && nandkit_units::is_erased(image.oob()) => {}
            OobPlacement::Separate => put(1, place.oob, oob, u64::MAX),
            OobPlacement::AfterPage | OobPlacement::AfterBlock => put(0, place.oob, oob, limit),
        }
    }
}
