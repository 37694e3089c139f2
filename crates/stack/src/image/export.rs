//! The way back to a device: an image in the forms that writing tools take.
//!
//! | tool | takes | bad blocks of the device | source |
//! | --- | --- | --- | --- |
//! | nandwrite | data | skipped, the data goes on in the next block | mtd-utils, nandwrite.c |
//! | nandwrite --oob | each page's data and its OOB | the same | the same |
//! | U-Boot, nand write and nand write.trimffs | data | skipped | U-Boot, cmd/nand.c |
//! | U-Boot, nand write.raw | each page's data and its OOB | not looked at | the same |
//! | programmers of bare chips | every block with its OOB, bad ones too | as their user says | |

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use nandkit_flash::{Flash, Look, PageRead};
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_units::{BlockIndex, Context, FlashKind};

use super::choose::{choose, whole_region};
use super::open::read;
use crate::StackError;
use crate::format::{MediumKind, OpenOptions, wrong};

/// Bytes that are copied at once.
const COPIED_AT_ONCE: u64 = 1 << 20;

/// What a form of an image holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportForm {
    /// Each page's OOB behind its data.
    pub oob: bool,
    /// Bad blocks as they are. Without, they are left out, since the tools skip the bad blocks of the device that is written.
    pub bad_blocks: bool,
    /// Erased blocks at the end. Without, they are left out: writing them would program pages that are to stay erased.
    pub erased_end: bool,
}

/// What an export came to.
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
}

/// An image of flash, ready to be exported.
pub struct Exporting {
    device: DumpFlash,
    /// The bytes of a region that holds no file system for flash: they are copied as they are.
    plain: Option<Range<u64>>,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
}

impl Exporting {
    /// Opens an image for reading. Errors: those of [`super::open`]; an image of sectors.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StackError> {
        let (image, mut notes): (Image, Vec<String>) = read(path, options)?;
        if let Some(region) = whole_region(path, &image, options)? {
            notes.extend(region.notes);
            let device = DumpFlash::new(image, region.layout).map_err(|error| wrong(path, error))?;
            return Ok(Self { device: device.into_read_only(), plain: Some(region.range), notes });
        }
        let selected = choose(path, &image, options)?;
        notes.extend(selected.notes);
        let found = selected.found;
        if found.format.medium() != MediumKind::Flash {
            let detail = format!(
                "this is {}, sectors and no flash; expected a dump of flash: sectors are copied as they are",
                found.format.name()
            );
            return Err(wrong(path, detail));
        }
        let device = DumpFlash::new(image, found.layout).map_err(|error| wrong(path, error))?;
        Ok(Self { device: device.into_read_only(), plain: None, notes })
    }

    /// Whether it is a region that holds no file system for flash: only its bytes are known then, and no
    /// form for NAND.
    pub const fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// Whether the image is known to be of NAND.
    pub fn is_nand(&self) -> bool {
        !self.is_plain() && self.device.geometry().kind == FlashKind::Nand
    }

    /// Whether it holds the OOB of its pages.
    pub fn has_oob(&self) -> bool {
        !self.is_plain() && self.device.geometry().oob_size > 0
    }

    /// Whether any block is bad.
    pub fn has_bad_blocks(&self) -> bool {
        !self.device.info().bad_blocks.is_empty()
    }

    /// Writes it in a form. Errors: those of writing.
    pub fn write(&self, form: ExportForm, out: &mut dyn Write) -> io::Result<Exported> {
        if let Some(range) = &self.plain {
            return copy(&self.device, range, out);
        }
        let device = &self.device;
        let geometry = *device.geometry();
        let oob_size = if form.oob { geometry.oob_size } else { 0 };
        let mut told = Exported {
            block_size: geometry.block_size(),
            page_size: geometry.page_size,
            oob_size,
            ..Exported::default()
        };
        let mut end = geometry.blocks;
        if !form.erased_end {
            while end > 0 && is_erased_or_left_out(device, BlockIndex(end - 1), form) {
                end -= 1;
            }
        }
        let mut block = block_buffer(device, oob_size);
        for number in (0..end).map(BlockIndex) {
            if device.is_bad(number) && !form.bad_blocks {
                told.bad_left_out.push(number.0);
                continue;
            }
            read_block(device, number, oob_size, &mut block);
            out.write_all(&block)?;
            told.blocks += 1;
            told.bytes += block.len() as u64;
        }
        told.erased_left_out =
            (end..geometry.blocks).filter(|number| !device.is_bad(BlockIndex(*number))).count() as u32;
        Ok(told)
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

fn is_erased_or_left_out(device: &DumpFlash, block: BlockIndex, form: ExportForm) -> bool {
    if device.is_bad(block) {
        return !form.bad_blocks;
    }
    let geometry = device.geometry();
    let oob_size = if form.oob { geometry.oob_size } else { 0 };
    let mut bytes = block_buffer(device, oob_size);
    read_block(device, block, oob_size, &mut bytes);
    nandkit_units::is_erased(&bytes)
}

/// Room for a block with so many bytes of OOB for each page.
fn block_buffer(device: &DumpFlash, oob_size: u32) -> Vec<u8> {
    let geometry = device.geometry();
    let stored_page = u64::from(geometry.page_size) + u64::from(oob_size);
    vec![0; usize::try_from(stored_page * u64::from(geometry.pages_per_block)).unwrap_or(0)]
}

/// A block, page by page, each with so many bytes of its OOB behind it. Whatever a page's mark says, its bytes are in the dump.
fn read_block(device: &DumpFlash, block: BlockIndex, oob_size: u32, into: &mut [u8]) {
    let page_size = device.geometry().page_size as usize;
    for (page, bytes) in (0..).zip(into.chunks_mut(page_size + oob_size as usize)) {
        let (data, oob) = bytes.split_at_mut(page_size);
        let read = PageRead { oob, ..PageRead::bytes(0, data) };
        if device.read(&Context::default(), block.page(page), read).is_err() {
            bytes.fill(0xFF);
        }
    }
}
