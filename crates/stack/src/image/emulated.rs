//! Loads an image onto an emulated chip, which adds timing and wear. The image itself does not
//! change.

use std::path::Path;

use nandkit_block::{BlockDevice, BlockGeometry};
use nandkit_flash::{Flash, FlashError, Operation, PageProgram, PageRead};
use nandkit_flash_image::DumpFlash;
use nandkit_nand_sim::PageOrder;
use nandkit_units::{BlockIndex, Clock, Context, FlashGeometry, Lba, PageAddress, Payload, ReadInto, format_bytes};
use toml::{Table, Value};

use super::choose::choose;
use super::is_chip;
use super::open::{dump, read};
use crate::crash::{CrashChip, Existing};
use crate::format::detected::DetectedFormat;
use crate::format::sectors::{DumpSectors, SECTOR_SIZE};
use crate::format::{MediumKind, OpenOptions, titles, wrong};
use crate::{DeviceSpec, FsSpec, FtlSpec, Mounted, Stack, StackError, StackSpec, presets};

/// Smallest number of blocks: fewer have no space for the reserve of a file system.
const BLOCKS_MIN: u32 = 16;
/// The preset whose timing is used if none has the image's block size. It has small pages, so that
/// every erase size is a multiple of them.
const OTHERWISE: &str = "nandsim-32m-16k";
/// Bytes copied at once to a block device.
const PIECE: usize = 64 << 10;

/// An image to load onto a chip.
pub struct EmulatedImage {
    found: DetectedFormat,
    device: DumpFlash,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

/// A page and its OOB.
struct PageContent {
    data: Vec<u8>,
    oob: Vec<u8>,
}

impl PageContent {
    fn is_blank(&self) -> bool {
        self.data.iter().chain(&self.oob).all(|byte| *byte == 0xFF)
    }

    fn program(&self) -> PageProgram<'_> {
        PageProgram { oob: &self.oob, ..PageProgram::bytes(0, &self.data) }
    }
}

impl EmulatedImage {
    /// Opens an image. Errors: those of [`super::open()`]; the file already is an emulated chip.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StackError> {
        if is_chip(path, options)? {
            let detail = "the file already holds an emulated chip; expected a flash dump or a volume";
            return Err(wrong(path, detail));
        }
        let (image, mut notes) = read(path, options)?;
        let chosen = choose(path, &image, options)?;
        notes.extend(chosen.notes);
        if !chosen.found.format.loads_onto_chips() {
            let others = titles(|format| format.loads_onto_chips());
            let detail = format!(
                "images of {} are not loaded onto chips; expected one of {others}",
                chosen.found.format.title()
            );
            return Err(wrong(path, detail));
        }
        let device = dump(path, image, &chosen.found)?;
        Ok(Self { found: chosen.found, device, notes })
    }

    /// The format of its volume: `fat`, `jffs2`.
    pub fn format(&self) -> &'static str {
        self.found.format.name()
    }

    /// The chip for it: the requested one or, for an image of flash, a preset of its shape with the
    /// image's number of blocks. Error: the shape does not fit.
    pub fn device(&mut self, asked: Option<DeviceSpec>) -> Result<DeviceSpec, StackError> {
        let misfit = |detail: String| StackError::new("stack.device", detail);
        if self.found.format.medium() == MediumKind::Blocks {
            return asked
                .map_or_else(|| DeviceSpec::preset(crate::DEFAULT_DEVICE).map_err(|error| misfit(error.detail)), Ok);
        }
        let Some(device) = asked else { return self.like_a_preset() };
        let blocks = self.blocks();
        match &device {
            DeviceSpec::Chip { chip, .. } if self.fits(&chip.geometry.build()) && chip.geometry.blocks >= blocks => {
                Ok(device)
            }
            _ => Err(misfit(format!(
                "{} does not fit; expected a chip with {}, and at least {blocks} of them",
                device.title(),
                self.shape()
            ))),
        }
    }

    /// A preset of the image's shape, or one adapted to its block size, which a note reports.
    fn like_a_preset(&mut self) -> Result<DeviceSpec, StackError> {
        let shape_of = |name: &str| presets::chip(name).ok().map(|chip| chip.geometry.build());
        let same = presets::names().into_iter().find(|name| shape_of(name).is_some_and(|shape| self.fits(&shape)));
        let blocks = self.blocks().max(BLOCKS_MIN);
        let mut table = Table::from_iter([("blocks".to_owned(), Value::Integer(blocks.into()))]);
        let name = same.unwrap_or(OTHERWISE);
        if same.is_none() {
            let erase_size = self.found.detection.erase_size;
            let other =
                shape_of(name).map(|shape| FlashGeometry { pages_per_block: erase_size / shape.page_size, ..shape });
            let Some(other) = other.filter(|shape| self.fits(shape)) else {
                let detail = format!("no preset has {}; expected a chip's spec (.toml)", self.shape());
                return Err(StackError::new("stack.device", detail));
            };
            let pages = Value::Integer(other.pages_per_block.into());
            table
                .insert("geometry".to_owned(), Value::Table(Table::from_iter([("pages_per_block".to_owned(), pages)])));
            self.notes.push(format!(
                "no preset has {}: {name} with adapted blocks is used; `device` chooses another chip",
                self.shape()
            ));
        }
        table.insert("preset".to_owned(), Value::String(name.to_owned()));
        let device = table.try_into();
        device.map_err(|error: toml::de::Error| StackError::new("stack.device", error.message().to_owned()))
    }

    /// Erase blocks of the image.
    fn blocks(&self) -> u32 {
        self.device.geometry().blocks
    }

    fn shape(&self) -> String {
        let (erase, page, oob) =
            (self.found.detection.erase_size, self.found.detection.page_size, self.found.detection.oob_size);
        let mut shape = format!("blocks of {}", format_bytes(erase.into()));
        if oob > 0 {
            shape += &format!(" in pages of {page} and {oob} bytes");
        }
        shape
    }

    fn fits(&self, chip: &FlashGeometry) -> bool {
        let detection = &self.found.detection;
        let pages_fit =
            detection.oob_size == 0 || (chip.page_size, chip.oob_size) == (detection.page_size, detection.oob_size);
        chip.page_size * chip.pages_per_block == detection.erase_size && pages_fit
    }

    /// Sets the options that the image determines: byte order and sector size.
    pub fn settle(&self, spec: &mut StackSpec) {
        if let FsSpec::Format(format) = &mut spec.fs {
            format.set_byte_order(self.found.detection.byte_order);
        }
        match &mut spec.ftl {
            FtlSpec::BlockMap(ftl) => ftl.sector_size = SECTOR_SIZE,
            FtlSpec::Fast(ftl) => ftl.sector_size = SECTOR_SIZE,
            FtlSpec::PageMap(ftl) => ftl.sector_size = SECTOR_SIZE,
            FtlSpec::None => {}
        }
    }

    /// Makes the chip of the stack and loads the image, page by page, or sector by sector through
    /// the translation layer; blank pages stay blank. [`Stack::build_on`] mounts the volume.
    /// Errors: no chip; a chip that is too small, or that has a bad block where the image uses one.
    pub fn load(self, spec: &StackSpec, seed: u64) -> Result<CrashChip, StackError> {
        let chip = CrashChip::new(spec, seed)?;
        match self.found.format.medium() {
            MediumKind::Flash => {
                let consecutive =
                    matches!(&spec.device, DeviceSpec::Chip { chip, .. } if chip.rules.order == PageOrder::Consecutive);
                self.load_pages(chip, consecutive)
            }
            MediumKind::Blocks => self.load_sectors(spec, seed, chip),
        }
    }

    /// Programs the pages of the image. `consecutive`: the chip needs pages programmed without
    /// gaps, so that blank pages in between are programmed too.
    fn load_pages(self, mut chip: CrashChip, consecutive: bool) -> Result<CrashChip, StackError> {
        let failed =
            |error: FlashError| StackError::new("stack.device", format!("the image cannot be loaded: {error}"));
        let (geometry, blocks) = (*chip.geometry(), self.blocks());
        let context = Context::default();
        let blank = PageContent { data: vec![0xFF; geometry.page_size as usize], oob: Vec::new() };
        for block in (0..blocks.min(geometry.blocks)).map(BlockIndex) {
            if self.device.is_bad(block) {
                if !chip.is_bad(block) {
                    chip.mark_bad(&context, block).map_err(failed)?;
                }
                continue;
            }
            let mut next = 0;
            for page in 0..geometry.pages_per_block {
                let content = self.page(&geometry, block.page(page)).map_err(failed)?;
                if content.is_blank() {
                    continue;
                }
                for skipped in if consecutive { next..page } else { page..page } {
                    chip.program(&context, block.page(skipped), blank.program()).map_err(failed)?;
                }
                chip.program(&context, block.page(page), content.program()).map_err(failed)?;
                next = page + 1;
            }
        }
        Ok(chip)
    }

    /// The image's content of a page of the chip, with OOB if the image has any; pages then have
    /// the same size.
    fn page(&self, geometry: &FlashGeometry, at: PageAddress) -> nandkit_flash::Result<PageContent> {
        let mut data = vec![0; geometry.page_size as usize];
        if self.found.detection.oob_size == 0 {
            let start =
                u64::from(at.block.0) * geometry.block_size() + u64::from(at.page) * u64::from(geometry.page_size);
            let failed = |error| FlashError::io(Operation::Read, at, error);
            self.device.read_data(start, &mut data).map_err(failed)?;
            return Ok(PageContent { data, oob: Vec::new() });
        }
        let mut oob = vec![0xFF; geometry.oob_size as usize];
        let read = PageRead { oob: &mut oob, ..PageRead::bytes(0, &mut data) };
        self.device.read(&Context::default(), at, read)?;
        Ok(PageContent { data, oob })
    }

    fn load_sectors(self, spec: &StackSpec, seed: u64, chip: CrashChip) -> Result<CrashChip, StackError> {
        let without = StackSpec { fs: FsSpec::None, ..spec.clone() };
        let (mounted, below) = Stack::build_on(&without, seed, chip.clone(), Existing::Nothing)?.lift();
        let Mounted::Blocks(mut blocks) = mounted else {
            return Err(StackError::new("stack.device", "the stack is not a block device"));
        };
        let (from, to) = (DumpSectors::new(self.device), *blocks.geometry());
        let bytes = from.geometry().capacity();
        if bytes > to.capacity() {
            let detail = format!(
                "the volume has {}, but the translation layer on this chip has {}; expected a larger chip",
                format_bytes(bytes),
                format_bytes(to.capacity())
            );
            return Err(StackError::new("stack.device", detail));
        }
        copy_sectors(&from, &mut blocks, &to, &below.clock)
            .map_err(|error| StackError::new("stack.device", format!("the image cannot be loaded: {error}")))?;
        below.close(Mounted::Blocks(blocks))?;
        Ok(chip)
    }
}

/// Copies all bytes that are not zero; the target reads as zeroes already.
pub fn copy_sectors(
    from: &dyn BlockDevice,
    to: &mut dyn BlockDevice,
    geometry: &BlockGeometry,
    clock: &Clock,
) -> nandkit_block::Result<()> {
    let (bytes, sector) = (from.geometry().capacity(), u64::from(geometry.sector_size));
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < bytes {
        let length = usize::try_from(bytes - at).unwrap_or(PIECE).min(PIECE);
        let part = piece.get_mut(..length).unwrap_or_default();
        from.read(&Context::default(), Lba(at / u64::from(from.geometry().sector_size)), ReadInto::Bytes(part))?;
        if !nandkit_units::is_zeroed(part) {
            let done = to.write(&Context::at(clock.now()), Lba(at / sector), Payload::Bytes(part))?;
            clock.advance_to(done.completed);
        }
        at += length as u64;
    }
    let done = to.flush(&Context::at(clock.now()))?;
    clock.advance_to(done.completed);
    Ok(())
}
