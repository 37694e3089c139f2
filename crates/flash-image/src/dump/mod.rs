//! A dump as a flash device.

mod ecc;
mod sync;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, OnceLock};

use nandkit_block::Access;
use nandkit_flash::{ErrorKind, Flash, FlashError, Look, Operation, PageProgram, PageRead};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, FlashKind, PageAddress, ReadInto};

pub use self::ecc::{EccReport, UncorrectableCodeword};

use self::ecc::DecodedPages;
use crate::bad_blocks::{BadTable, marker_place};
use crate::bytes::Bytes;
use crate::changes::{Changed, Changes, PageImage};
use crate::error::{ImageError, ImageErrorKind, Result};
use crate::image::Image;
use crate::layout::{ImageLayout, OobPlacement, Shape};
use crate::overlay::Overlay;
use crate::store::Store;

type FlashResult = nandkit_flash::Result<Done>;

/// A dump as a flash device. Operations take no simulated time.
///
/// **Reading.** Bytes come from the mapped file without a copy. What the file lacks (the rest of an
/// incomplete last block, omitted blocks) reads as erased.
///
/// **Writing.** Changes stay in memory, page by page, until [`Flash::sync`] writes them to the file
/// atomically: see [`Image::open`]. The rules of flash hold: NAND data can be programmed where they
/// are erased, in units of `write_unit` and in any page order; NOR data and OOB bytes only change
/// bits from 1 to 0. A page programmed with only 0xFF is indistinguishable from an erased one, and
/// may be programmed again.
///
/// **ECC.** With [`ImageLayout::ecc`] data are corrected when read; a read that touches an
/// uncorrectable code word fails with `Uncorrectable` and returns the bytes as they are. Programmed
/// data get their ECC on the way to the file. The OOB is presented as the layout says.
///
/// **Bad blocks** are those marked, named by the layout, or omitted from the file.
/// [`Flash::mark_bad`] writes its mark to the OOB of the block's first page (0x00 in the marker
/// byte); in a dump without OOB it lasts only while the device is open.
#[derive(Debug)]
pub struct DumpFlash {
    bytes: Arc<Bytes>,
    oob: Option<Arc<Bytes>>,
    shape: Shape,
    access: Access,
    changes: Changes,
    marked: BTreeSet<u32>,
    table: OnceLock<BadTable>,
    decoded: DecodedPages,
    store: Option<Store>,
    overlay: Option<Overlay>,
    /// Set by a failure that leaves the file in the middle of a sync; the journal is then complete,
    /// and the next opening finishes the sync.
    poisoned: bool,
    /// The amount of changes beyond which they are synced automatically; after a failed sync it
    /// grows by the same amount.
    commit_limit: Option<CommitLimit>,
    notes: Vec<String>,
}

/// Bytes of a block that show whether it is in use: no file system leaves them blank or zero.
const BEGINNING: usize = 16;

/// When changes are synced without an explicit request.
#[derive(Clone, Copy, Debug)]
struct CommitLimit {
    bytes: u64,
    next: u64,
}

/// Facts about a dump other than its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpInfo {
    /// Length of the (first) file in bytes.
    pub file_bytes: u64,
    /// The layout in use.
    pub layout: ImageLayout,
    /// The resulting geometry.
    pub geometry: FlashGeometry,
    /// The number of existing bytes of an incomplete last block, including OOB; 0 if it is
    /// complete. The rest reads as erased.
    pub tail_bytes: u64,
    /// All bad blocks, in ascending order.
    pub bad_blocks: Vec<u32>,
    /// Remarks for people, one sentence each.
    pub notes: Vec<String>,
}

impl DumpFlash {
    /// Opens the image as a device with this layout. Errors: `Layout`; `InUse` if the image is
    /// writable and has views.
    pub fn new(image: Image, layout: ImageLayout) -> Result<Self> {
        let Image { bytes, oob, store, overlay, access, notes, .. } = image;
        if access == Access::ReadWrite
            && (Arc::strong_count(&bytes) > 1 || oob.as_ref().is_some_and(|oob| Arc::strong_count(oob) > 1))
        {
            let detail = "the image is to be changed, but views of it exist: drop them first";
            return Err(ImageError::new(ImageErrorKind::InUse, detail));
        }
        if (layout.oob == OobPlacement::Separate) != oob.is_some() {
            let detail = "a layout with OOB in a file of its own needs that file, and no other layout takes one";
            return Err(ImageError::layout(detail));
        }
        let shape = Shape::new(layout, bytes.as_slice().len() as u64)?;
        Ok(Self {
            bytes,
            oob,
            shape,
            access,
            changes: Changes::default(),
            marked: BTreeSet::new(),
            table: OnceLock::new(),
            decoded: DecodedPages::default(),
            store,
            overlay,
            poisoned: false,
            commit_limit: None,
            notes,
        })
    }

    /// Treats these blocks as good whatever their marks say, because their content proves it.
    pub fn with_good_blocks(mut self, blocks: &[u32]) -> Self {
        self.shape.layout.good.extend_from_slice(blocks);
        self.table = OnceLock::new();
        self
    }

    /// Makes the device sync automatically when it holds more changes than this. Only for layers
    /// for which a sync after any program or erase is no worse than a power cut. If such a sync
    /// fails, the changes stay in memory, and the next [`Flash::sync`] returns the error.
    pub fn with_commit_limit(self, bytes: u64) -> Self {
        Self { commit_limit: Some(CommitLimit { bytes, next: bytes }), ..self }
    }

    /// Total length of the changed pages in memory, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.changes.held_bytes
    }

    fn commit_if_due(&mut self) {
        let held = self.changes.held_bytes;
        let Some(limit) = self.commit_limit.filter(|limit| held >= limit.next && !self.poisoned) else { return };
        let next = if self.sync_changes().is_ok() { limit.bytes } else { held.saturating_add(limit.bytes) };
        self.commit_limit = Some(CommitLimit { next, ..limit });
    }

    /// A device over bytes in memory; changes stay there.
    pub fn from_bytes(bytes: Vec<u8>, layout: ImageLayout) -> Result<Self> {
        Self::new(Image::from_bytes(bytes, None)?, layout)
    }

    /// Makes the device read-only: every change is refused.
    pub fn into_read_only(self) -> Self {
        Self { access: Access::ReadOnly, ..self }
    }

    /// The layout.
    pub fn layout(&self) -> &ImageLayout {
        &self.shape.layout
    }

    /// Data bytes of a whole block without copying, for scans. `None` if they are not contiguous
    /// (OOB between the pages) or are corrected when read, if the block was changed since the last
    /// sync, or if the file does not contain all of it. Then use [`DumpFlash::page_bytes`] or
    /// [`Flash::read`].
    pub fn block_bytes(&self, block: BlockIndex) -> Option<&[u8]> {
        let decoded = self.shape.layout.ecc.is_some();
        if decoded || !self.shape.layout.is_contiguous() || self.changes.blocks.contains_key(&block.0) {
            return None;
        }
        self.stored(block.page(0), self.shape.layout.block_size as usize)
    }

    /// Data bytes of a whole page without copying; `None` if the file does not contain all of it,
    /// it was erased since the last sync, or its data are corrected when read.
    pub fn page_bytes(&self, at: PageAddress) -> Option<&[u8]> {
        match self.changes.page(at) {
            Changed::Page(page) => Some(page.data()),
            Changed::Erased => None,
            Changed::No if self.shape.layout.ecc.is_some() => None,
            Changed::No => self.stored(at, self.shape.layout.page_size as usize),
        }
    }

    fn stored(&self, at: PageAddress, length: usize) -> Option<&[u8]> {
        if !self.shape.geometry.contains(at) {
            return None;
        }
        let place = self.shape.place(at)?;
        let held = self.bytes.held(place.data, self.shape.end, length);
        (held.len() == length).then_some(held)
    }

    /// Copies data bytes from byte `offset` of the device on, across pages and blocks. Bytes past
    /// the end of the device read as erased. Errors: those of the file.
    pub fn read_data(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let geometry = &self.shape.geometry;
        if self.is_plain() && offset.saturating_add(into.len() as u64) <= geometry.capacity() {
            // One read of the file, however small the pages are.
            return self.bytes.copy(self.shape.layout.offset.saturating_add(offset), self.shape.end, into);
        }
        let page_size = geometry.page_size as usize;
        let mut page = offset / page_size as u64;
        let mut column = (offset % page_size as u64) as usize;
        let mut rest = into;
        while !rest.is_empty() {
            let (part, tail) = rest.split_at_mut(rest.len().min(page_size - column));
            let block = u32::try_from(page / u64::from(geometry.pages_per_block)).unwrap_or(u32::MAX);
            let at = PageAddress::new(block, (page % u64::from(geometry.pages_per_block)) as u32);
            if geometry.contains(at) {
                self.copy_data(at, column, part)?;
            } else {
                part.fill(0xFF);
            }
            (rest, page, column) = (tail, page + 1, 0);
        }
        Ok(())
    }

    /// Facts about the dump. Cost: checks every block's mark.
    pub fn info(&self) -> DumpInfo {
        let geometry = self.shape.geometry;
        let table = self.table();
        let mut bad_blocks: BTreeSet<u32> = table.blocks.clone();
        bad_blocks.extend(&self.marked);
        let mut notes = self.notes.clone();
        notes.extend(table.notes.iter().cloned());
        let layout = self.shape.layout.clone();
        let file_bytes = self.bytes.as_slice().len() as u64;
        if let Some(missing) = layout
            .size
            .and_then(|size| layout.offset.saturating_add(size).checked_sub(file_bytes))
            .filter(|&missing| missing > 0)
        {
            notes
                .push(format!("the region ends {missing} bytes behind the end of the file; they are taken for erased"));
        }
        if self.shape.tail > 0 {
            notes.push(format!(
                "the last block, {}, is not whole: {} of {} bytes are there, the rest is taken for erased",
                geometry.blocks - 1,
                self.shape.tail,
                layout.stored_block()
            ));
        }
        let bad_blocks = bad_blocks.into_iter().collect();
        DumpInfo { file_bytes, layout, geometry, tail_bytes: self.shape.tail, bad_blocks, notes }
    }

    /// The image with all changes, for one whose changes stay in memory. Cost: only the changes
    /// since the last sync.
    pub fn into_image(mut self) -> Image {
        self.apply_in_memory();
        let Self { bytes, oob, store, overlay, access, notes, .. } = self;
        Image { bytes, oob, store, overlay, access, notes, left_out: Vec::new() }
    }

    /// The files' bytes with all changes: the image, and the OOB file. Cost: a copy, unless they
    /// are in memory already.
    pub fn into_bytes(mut self) -> (Vec<u8>, Option<Vec<u8>>) {
        self.apply_in_memory();
        let take = |bytes: Arc<Bytes>| match Arc::try_unwrap(bytes) {
            Ok(Bytes::Owned(bytes)) => bytes,
            Ok(bytes) => bytes.as_slice().to_vec(),
            Err(shared) => shared.as_slice().to_vec(),
        };
        (take(self.bytes), self.oob.map(take))
    }

    fn table(&self) -> &BadTable {
        self.table.get_or_init(|| {
            let source = match self.shape.layout.oob {
                OobPlacement::Separate => self.oob.as_deref().map_or(&[][..], Bytes::as_slice),
                _ => self.bytes.held(0, self.shape.end, usize::MAX),
            };
            let oob_byte = |offset| {
                usize::try_from(offset).ok().and_then(|offset: usize| source.get(offset)).copied().unwrap_or(0xFF)
            };
            let is_used = |block| {
                let first = self.stored(PageAddress::new(block, 0), BEGINNING);
                first.is_some_and(|bytes| !nandkit_units::is_erased(bytes) && !nandkit_units::is_zeroed(bytes))
            };
            BadTable::read(&self.shape, oob_byte, is_used)
        })
    }

    /// Whether the data bytes are stored unencoded and contiguously in the file.
    fn is_plain(&self) -> bool {
        let layout = &self.shape.layout;
        let whole = layout.oob == OobPlacement::None && layout.missing.is_empty() && layout.bad.is_empty();
        whole && self.changes.is_empty()
    }

    /// Copies data of a page from `column` on.
    #[inline]
    fn copy_data(&self, at: PageAddress, column: usize, into: &mut [u8]) -> io::Result<()> {
        match (self.changes.page(at), self.shape.place(at)) {
            (Changed::Page(page), _) => fill(page.data(), column, into),
            (Changed::No, Some(_)) if self.shape.layout.ecc.is_some() => {
                if let Some(layout) = self.oob_layout() {
                    fill(&self.decoded(layout, at)?.data, column, into);
                }
            }
            (Changed::No, Some(place)) => self.bytes.copy(place.data + column as u64, self.shape.end, into)?,
            _ => into.fill(0xFF),
        }
        Ok(())
    }

    #[inline]
    fn copy_oob(&self, at: PageAddress, into: &mut [u8]) -> io::Result<()> {
        match (self.changes.page(at), self.shape.place(at)) {
            (Changed::Page(page), _) => fill(page.oob(), 0, into),
            (Changed::No, Some(_)) if self.shape.layout.ecc.is_some() => {
                if let Some(layout) = self.oob_layout() {
                    fill(&self.decoded(layout, at)?.oob, 0, into);
                }
            }
            (Changed::No, Some(place)) => match (self.shape.layout.oob, &self.oob) {
                (OobPlacement::Separate, Some(oob)) => oob.copy(place.oob, u64::MAX, into)?,
                _ => self.bytes.copy(place.oob, self.shape.end, into)?,
            },
            _ => into.fill(0xFF),
        }
        Ok(())
    }

    fn check_range(
        &self,
        operation: Operation,
        at: PageAddress,
        column: u32,
        length: usize,
        oob: usize,
    ) -> nandkit_flash::Result<()> {
        let geometry = &self.shape.geometry;
        let refuse = |detail| Err(FlashError::new(ErrorKind::Misuse, operation, at, detail));
        if !geometry.contains(at) {
            return refuse("the page is outside the device");
        }
        if u64::from(column).saturating_add(length as u64) > u64::from(geometry.page_size) {
            return refuse("the data reach past the end of the page");
        }
        if oob > geometry.oob_size as usize {
            return refuse("the OOB bytes are more than the page has");
        }
        Ok(())
    }

    fn check_change(&self, operation: Operation, at: PageAddress) -> nandkit_flash::Result<()> {
        if at.block.0 >= self.shape.geometry.blocks {
            return Err(FlashError::new(ErrorKind::Misuse, operation, at, "the block is outside the device"));
        }
        if self.access == Access::ReadOnly {
            return Err(FlashError::new(ErrorKind::ReadOnly, operation, at, "the image was opened for reading only"));
        }
        if self.poisoned {
            let detail = "an earlier sync failed half-way: open the image again, which completes it";
            return Err(FlashError::new(ErrorKind::Io, operation, at, detail));
        }
        Ok(())
    }

    fn check_good(&self, operation: Operation, at: PageAddress) -> nandkit_flash::Result<()> {
        if self.is_bad(at.block) {
            return Err(FlashError::new(
                ErrorKind::BadBlock,
                operation,
                at,
                "the block is marked bad, or the dump leaves it out",
            ));
        }
        Ok(())
    }

    /// The current page, for changes; it becomes part of the changes. Errors: those of the file.
    fn page_mut(&mut self, operation: Operation, at: PageAddress) -> nandkit_flash::Result<&mut PageImage> {
        let geometry = &self.shape.geometry;
        let known = self.changes.blocks.get(&at.block.0).is_some_and(|block| block.pages.contains_key(&at.page));
        let mut image =
            PageImage::erased(if known { 0 } else { geometry.page_size }, if known { 0 } else { geometry.oob_size });
        if !known {
            let (data, oob) = image.parts_mut();
            let copied = self.copy_data(at, 0, data).and_then(|()| self.copy_oob(at, oob));
            copied.map_err(|error| FlashError::io(operation, at, error))?;
        }
        Ok(self.changes.page_mut(at, || image))
    }

    /// Checks whether these bytes may be programmed over the existing ones; changes nothing.
    fn check_rules(&self, at: PageAddress, program: &PageProgram<'_>, data: &[u8]) -> nandkit_flash::Result<()> {
        let refuse = |detail| Err(FlashError::new(ErrorKind::Misuse, Operation::Program, at, detail));
        let sets_bits = |new: &[u8], old: &[u8]| new.iter().zip(old).any(|(new, old)| new & !old != 0);
        let mut old = vec![0xFF; data.len()];
        let failed = |error| FlashError::io(Operation::Program, at, error);
        self.copy_data(at, program.column as usize, &mut old).map_err(failed)?;
        match self.shape.geometry.kind {
            FlashKind::Nand if !nandkit_units::is_erased(&old) => {
                return refuse("this part of the page was programmed since the block's erase");
            }
            FlashKind::Nor if sets_bits(data, &old) => {
                return refuse("NOR programs only clear bits: erase the block first");
            }
            _ => {}
        }
        old.resize(program.oob.len(), 0xFF);
        self.copy_oob(at, &mut old).map_err(failed)?;
        if sets_bits(program.oob, &old) {
            return refuse("OOB programs only clear bits: erase the block first");
        }
        if !self.shape.may_grow && self.shape.end_of(at, program.column, data.len(), program.oob.len()) > self.shape.end
        {
            let detail = "the bytes lie behind the end of the region";
            return Err(FlashError::new(ErrorKind::ReadOnly, Operation::Program, at, detail));
        }
        Ok(())
    }
}

/// Copies from `column` on; missing bytes are erased.
#[inline]
fn fill(bytes: &[u8], column: usize, into: &mut [u8]) {
    let held = bytes.get(column..).unwrap_or(&[]);
    let length = held.len().min(into.len());
    let (there, rest) = into.split_at_mut(length);
    there.copy_from_slice(held.get(..length).unwrap_or(&[]));
    rest.fill(0xFF);
}

impl Image {
    /// A read-only device on the same bytes, for trying a layout. Cost: no copy. While a view
    /// exists, the image cannot become a writable device. Errors: `Layout`.
    pub fn view(&self, layout: ImageLayout) -> Result<DumpFlash> {
        DumpFlash::new(self.shared(), layout)
    }
}

impl Look for DumpFlash {
    fn look_at(&self, offset: u64, into: &mut [u8]) {
        if self.read_data(offset, into).is_err() {
            into.fill(0xFF);
        }
    }
}

impl Flash for DumpFlash {
    #[inline]
    fn geometry(&self) -> &FlashGeometry {
        &self.shape.geometry
    }

    #[inline]
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> FlashResult {
        self.check_range(Operation::Read, at, read.column, read.data.len(), read.oob.len())?;
        let (column, length) = (read.column as usize, read.data.len());
        let data = match read.data {
            ReadInto::Bytes(bytes) => self.copy_data(at, column, bytes),
            ReadInto::Content { content, length } => self.copy_data(at, column, content.set_bytes(length as usize)),
            ReadInto::Nothing { .. } => Ok(()),
        };
        let oob = if read.oob.is_empty() { Ok(()) } else { self.copy_oob(at, read.oob) };
        data.and(oob).map_err(|error| FlashError::io(Operation::Read, at, error))?;
        let read = column..column + length;
        match self.corrected_bits(at, read).map_err(|error| FlashError::io(Operation::Read, at, error))? {
            Some(corrected_bits) => Ok(Done { corrected_bits, ..Done::immediately(context) }),
            None => Err(FlashError::new(
                ErrorKind::Uncorrectable,
                Operation::Read,
                at,
                "a code word has more wrong bits than its ECC corrects",
            )),
        }
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> FlashResult {
        let length = program.data.len();
        self.check_range(Operation::Program, at, program.column, length, program.oob.len())?;
        let unit = self.shape.geometry.write_unit as usize;
        if !(program.column as usize).is_multiple_of(unit) || !length.is_multiple_of(unit) {
            let detail = "column and length of a program are multiples of the write unit";
            return Err(FlashError::new(ErrorKind::Misuse, Operation::Program, at, detail));
        }
        self.check_change(Operation::Program, at)?;
        self.check_good(Operation::Program, at)?;
        if self.lost_oob(program.oob).is_some() {
            let detail = "the OOB layout keeps ECC or nothing where OOB bytes are to be programmed";
            return Err(FlashError::new(ErrorKind::Misuse, Operation::Program, at, detail));
        }
        let mut bytes = vec![0; length];
        program.data.copy_to(&mut bytes);
        self.check_rules(at, &program, &bytes)?;
        let (data, oob) = self.page_mut(Operation::Program, at)?.parts_mut();
        for (into, byte) in data.iter_mut().skip(program.column as usize).zip(&bytes) {
            *into = *byte;
        }
        for (into, byte) in oob.iter_mut().zip(program.oob) {
            *into = *byte;
        }
        self.commit_if_due();
        Ok(Done::immediately(context))
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> FlashResult {
        self.check_change(Operation::Erase, block.page(0))?;
        self.check_good(Operation::Erase, block.page(0))?;
        self.changes.erase(block);
        Ok(Done::immediately(context))
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        block.0 >= self.shape.geometry.blocks
            || self.marked.contains(&block.0)
            || self.table().blocks.contains(&block.0)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> FlashResult {
        self.check_change(Operation::MarkBad, block.page(0))?;
        if self.is_bad(block) {
            return Ok(Done::immediately(context));
        }
        if let Some((offset, pages)) = marker_place(&self.shape)
            && let Some(byte) =
                self.page_mut(Operation::MarkBad, block.page(pages.start))?.parts_mut().1.get_mut(offset as usize)
        {
            *byte = 0;
        }
        self.marked.insert(block.0);
        Ok(Done::immediately(context))
    }

    fn sync(&mut self, context: &Context) -> FlashResult {
        if self.access == Access::ReadOnly || self.changes.is_empty() {
            return Ok(Done::immediately(context));
        }
        let at = PageAddress::default();
        self.check_change(Operation::Sync, at)?;
        self.sync_changes().map_err(|error| FlashError::io(Operation::Sync, at, error))?;
        Ok(Done::immediately(context))
    }
}
