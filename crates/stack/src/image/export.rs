//! Export of images in the forms that writing tools need.
//!
//! | tool | takes | bad blocks of the device | source |
//! | --- | --- | --- | --- |
//! | nandwrite | data | skipped; the data continues in the next block | mtd-utils, nandwrite.c |
//! | nandwrite --oob | each page's data and its OOB | the same | the same |
//! | U-Boot, nand write and nand write.trimffs | data | skipped | U-Boot, cmd/nand.c |
//! | U-Boot, nand write.raw | each page's data and its OOB | not looked at | the same |
//! | programmers of bare chips | every block with its OOB, bad ones too | as their user says | |

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use nandkit_flash::{ErrorKind, Flash, Look, PageRead};
use nandkit_flash_image::oob::{self, OobLayout};
use nandkit_flash_image::{DumpFlash, Image, ImageLayout, OobPlacement};
use nandkit_units::{BlockIndex, Context, FlashKind, PageAddress};

use super::choose::{choose, whole_region};
use super::oob_layout::named;
use super::open::read;
use crate::StackError;
use crate::format::{FlashWriter, MediumKind, OobLayoutChoice, OpenOptions, wrong};

/// Bytes copied at once.
const COPIED_AT_ONCE: u64 = 1 << 20;

/// The content of an exported form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportForm {
    /// Whether each page is followed by its OOB.
    pub oob: bool,
    /// Whether bad blocks are included. Otherwise they are left out, since the tools skip bad
    /// blocks of the target device.
    pub bad_blocks: bool,
    /// Whether erased blocks at the end are included. Otherwise they are left out: writing them
    /// would program pages that must stay erased.
    pub erased_end: bool,
}

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Bytes written.
    pub bytes: u64,
    /// Blocks written.
    pub blocks: u32,
    /// Data bytes of a block.
    pub block_size: u64,
    /// Data bytes of a page.
    pub page_size: u32,
    /// OOB bytes of a page that were written; 0 for none.
    pub oob_size: u32,
    /// Bad blocks that were left out.
    pub bad_left_out: Vec<u32>,
    /// Erased blocks at the end that were left out.
    pub erased_left_out: u32,
    /// Bits that the image's ECC corrected in what was written.
    pub bits_corrected: u64,
    /// Code words that it could not correct; they were written unchanged.
    pub uncorrectable: u64,
}

/// An image of flash, ready to be exported.
pub struct Exporting {
    device: DumpFlash,
    /// The byte range of an image without a file system for flash, which is copied unchanged.
    plain: Option<Range<u64>>,
    /// The layout of the pages in forms with OOB.
    layout: Option<Arc<OobLayout>>,
    writer: FlashWriter,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

impl Exporting {
    /// Opens an image for reading. The option `oob_layout` sets the layout of the output; the
    /// layout of the image is detected and may differ. Errors: those of [`super::open`]; a layout
    /// for other page sizes, or for an image of sectors.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StackError> {
        let (image, mut notes): (Image, Vec<String>) = read(path, options)?;
        if let Some(region) = whole_region(path, &image, options)? {
            notes.extend(region.notes);
            let device = DumpFlash::new(image, region.layout).map_err(|error| wrong(path, error))?;
            return Ok(Self {
                device: device.into_read_only(),
                plain: Some(region.range),
                layout: None,
                writer: FlashWriter::default(),
                notes,
            });
        }
        let asked = match &options.oob_layout {
            OobLayoutChoice::Named(name) => Some(named(name)?),
            OobLayoutChoice::Known(layout) => Some(Arc::clone(layout)),
            OobLayoutChoice::Detect | OobLayoutChoice::AsStored => None,
        };
        let mut options = options.clone();
        if let Some(layout) = &asked {
            options.oob_layout = match oob::try_layout(image.bytes(), 0, layout).is_sure() {
                true => OobLayoutChoice::Known(Arc::clone(layout)),
                false => OobLayoutChoice::Detect,
            };
        }
        let selected = choose(path, &image, &options)?;
        notes.extend(selected.notes);
        let found = selected.found;
        let writer = found.format.writer();
        if found.format.medium() != MediumKind::Flash {
            if asked.is_some() {
                let name = found.format.name();
                return Err(wrong(
                    path,
                    format!("`oob_layout`: this is {name}, which has no OOB; expected no `oob_layout`"),
                ));
            }
            let held = (image.bytes().len() as u64).saturating_sub(found.layout.offset);
            let end = found.layout.size.map_or(held, |size| size.min(held));
            let device = DumpFlash::new(image, found.layout).map_err(|error| wrong(path, error))?;
            return Ok(Self { device: device.into_read_only(), plain: Some(0..end), layout: None, writer, notes });
        }
        let layout = asked.or_else(|| found.layout.ecc.clone());
        let stored = match &layout {
            Some(layout) => with_pages(found.layout, layout).map_err(|detail| wrong(path, detail))?,
            None => found.layout,
        };
        let device = DumpFlash::new(image, stored).map_err(|error| wrong(path, error))?;
        Ok(Self { device: device.into_read_only(), plain: None, layout, writer, notes })
    }

    /// Whether it consists of sectors, or is a region without a file system for flash. It then has
    /// no form for NAND, and only its bytes can be copied.
    pub const fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// Whether pages in forms with OOB are written with ECC.
    pub fn has_ecc(&self) -> bool {
        self.layout.is_some()
    }

    /// How Linux's tools write it to NAND.
    pub const fn writer(&self) -> FlashWriter {
        self.writer
    }

    /// Whether the image is known to be from NAND.
    pub fn is_nand(&self) -> bool {
        !self.is_plain() && self.device.geometry().kind == FlashKind::Nand
    }

    /// Whether the image contains OOB.
    pub fn has_oob(&self) -> bool {
        !self.is_plain() && (self.layout.is_some() || self.device.geometry().oob_size > 0)
    }

    /// Whether any block is bad.
    pub fn has_bad_blocks(&self) -> bool {
        !self.device.info().bad_blocks.is_empty()
    }

    /// Writes the image in a form. Errors: those of writing.
    pub fn write(&self, form: ExportForm, out: &mut dyn Write) -> io::Result<Exported> {
        if let Some(range) = &self.plain {
            return copy(&self.device, range, out);
        }
        let device = &self.device;
        let geometry = *device.geometry();
        let oob_size = self.oob_size(form);
        let mut told = Exported {
            block_size: geometry.block_size(),
            page_size: geometry.page_size,
            oob_size,
            ..Exported::default()
        };
        let mut end = geometry.blocks;
        if !form.erased_end {
            while end > 0 && self.is_erased_or_left_out(BlockIndex(end - 1), form) {
                end -= 1;
            }
        }
        let mut block = block_buffer(device, oob_size);
        for number in (0..end).map(BlockIndex) {
            if device.is_bad(number) && !form.bad_blocks {
                told.bad_left_out.push(number.0);
                continue;
            }
            self.read_block(number, oob_size, &mut block);
            self.count(number, &mut told);
            out.write_all(&block)?;
            told.blocks += 1;
            told.bytes += block.len() as u64;
        }
        told.erased_left_out =
            (end..geometry.blocks).filter(|number| !device.is_bad(BlockIndex(*number))).count() as u32;
        Ok(told)
    }

    /// OOB bytes written per page.
    fn oob_size(&self, form: ExportForm) -> u32 {
        match (&self.layout, form.oob) {
            (_, false) => 0,
            (Some(layout), true) => layout.oob_size(),
            (None, true) => self.device.geometry().oob_size,
        }
    }

    fn is_erased_or_left_out(&self, block: BlockIndex, form: ExportForm) -> bool {
        if self.device.is_bad(block) {
            return !form.bad_blocks;
        }
        let oob_size = self.oob_size(form);
        let mut bytes = block_buffer(&self.device, oob_size);
        self.read_block(block, oob_size, &mut bytes);
        nandkit_units::is_erased(&bytes)
    }

    /// Reads a block page by page, each followed by `oob_size` bytes of its OOB. Marked-bad blocks
    /// are read too: their bytes are in the dump.
    fn read_block(&self, block: BlockIndex, oob_size: u32, into: &mut [u8]) {
        let page_size = self.device.geometry().page_size as usize;
        for (page, bytes) in (0..).zip(into.chunks_mut(page_size + oob_size as usize)) {
            let at = block.page(page);
            match self.layout.as_ref().filter(|_| oob_size > 0) {
                Some(layout) => self.page_with_ecc(layout, at, bytes),
                None => read_page(&self.device, at, bytes),
            }
        }
    }

    /// Reads a corrected page and encodes it with the ECC of a layout, that of the image or another
    /// one.
    fn page_with_ecc(&self, layout: &OobLayout, at: PageAddress, into: &mut [u8]) {
        let device = &self.device;
        if device.oob_layout().is_some_and(|own| **own == *layout) {
            match device.stored_page(at, into) {
                Ok(()) => into.copy_from_slice(&layout.mended(into)),
                Err(_) => into.fill(0xFF),
            }
            return;
        }
        let (page_size, oob_size) = (device.geometry().page_size as usize, device.geometry().oob_size as usize);
        let mut page = vec![0xFF; page_size + oob_size];
        read_page(device, at, &mut page);
        let (data, oob) = page.split_at(page_size);
        // The marks and free bytes of the image's OOB are kept.
        let mut shown = vec![0xFF; layout.oob_size() as usize];
        for (byte, into) in shown.iter_mut().enumerate().filter(|(byte, _)| layout.keeps_oob(*byte)) {
            *into = oob.get(byte).copied().unwrap_or(0xFF);
        }
        let blank = vec![0xFF; layout.raw_bytes()];
        let raw = layout.encode_page(data, &shown, &blank);
        into.iter_mut().zip(raw).for_each(|(into, byte)| *into = byte);
    }

    /// Adds the ECC statistics of a block.
    fn count(&self, block: BlockIndex, told: &mut Exported) {
        let Some(own) = self.device.oob_layout() else { return };
        let mut raw = vec![0xFF; own.raw_bytes()];
        for at in (0..self.device.geometry().pages_per_block).map(|page| block.page(page)) {
            if self.device.stored_page(at, &mut raw).is_err() || nandkit_units::is_erased(&raw) {
                continue;
            }
            for state in own.decode(&raw).codewords {
                told.bits_corrected += u64::from(state.bits().unwrap_or(0));
                told.uncorrectable += u64::from(state.bits().is_none());
            }
        }
    }
}

/// Copies data bytes of a device.
fn copy(device: &DumpFlash, range: &Range<u64>, out: &mut dyn Write) -> io::Result<Exported> {
    let mut bytes = vec![0; COPIED_AT_ONCE as usize];
    let mut at = range.start;
    while at < range.end {
        let length = (range.end - at).min(COPIED_AT_ONCE);
        let Some(part) = bytes.get_mut(..length as usize) else { break };
        device.look_at(at, part);
        out.write_all(part)?;
        at += length;
    }
    Ok(Exported { bytes: range.end - range.start, ..Exported::default() })
}

/// The image layout with the page and OOB sizes of an OOB layout. Error: what does not fit, and
/// what would.
fn with_pages(stored: ImageLayout, layout: &OobLayout) -> Result<ImageLayout, String> {
    let page = layout.page_size();
    let name = layout.name();
    if stored.oob != OobPlacement::None {
        return match stored.page_size == page {
            true => Ok(stored),
            false => Err(format!(
                "`oob_layout` {name} is for pages of {page} bytes, but those of the image have {}; expected a layout for these",
                stored.page_size
            )),
        };
    }
    if !stored.block_size.is_multiple_of(page) {
        return Err(format!(
            "`oob_layout` {name} is for pages of {page} bytes, but the erase blocks of the image have {}; expected whole pages",
            stored.block_size
        ));
    }
    Ok(ImageLayout { kind: FlashKind::Nand, page_size: page, write_unit: page, ..stored })
}

/// A buffer for a block with `oob_size` bytes of OOB per page.
fn block_buffer(device: &DumpFlash, oob_size: u32) -> Vec<u8> {
    let geometry = device.geometry();
    let stored_page = u64::from(geometry.page_size) + u64::from(oob_size);
    vec![0; usize::try_from(stored_page * u64::from(geometry.pages_per_block)).unwrap_or(0)]
}

/// Reads a page, and as much of its OOB as fits the buffer. Uncorrectable bytes are returned
/// unchanged.
fn read_page(device: &DumpFlash, at: PageAddress, bytes: &mut [u8]) {
    let (data, oob) = bytes.split_at_mut(bytes.len().min(device.geometry().page_size as usize));
    let read = device.read(&Context::default(), at, PageRead { oob, ..PageRead::bytes(0, data) });
    if read.is_err_and(|error| error.kind != ErrorKind::Uncorrectable) {
        bytes.fill(0xFF);
    }
}
