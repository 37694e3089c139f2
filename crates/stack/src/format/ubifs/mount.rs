//! UBIFS on an emulated chip: UBI and an empty volume are made on a new chip, and one that holds
//! them is attached and mounted.

use nandkit_flash::{Flash, FlashError, PageProgram};
use nandkit_ubi::layout::{EcHeader, HEADER_SIZE, LAYOUT_LEBS, VolumeType};
use nandkit_ubi::write::{MOVING_PEBS, NewVolume, UbiWriter, WriteOptions as UbiOptions};
use nandkit_ubi::{Geometry, Ubi};
use nandkit_ubifs::{BuildOptions, LebSink, LebWriter, Lebs, Ubifs, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Cause, Clock, Context, FlashGeometry, FlashKind};
use nandkit_vfs::source::MemoryTree;
use nandkit_vfs::{ErrorKind, FileSystem as _, FsError};

use super::counted::{Chip, ChipLebs, Counted};
use super::spec::UbifsSpec;
use super::ubi_lebs::WritableLebs;
use crate::format::Format;
use crate::format::emulate::{FormatSpec, WatchedFlash, wrong};
use crate::frame::Frame;
use crate::mounted::MountedFileSystem;
use crate::{DeviceSpec, FtlSpec, StackError};

impl FormatSpec for UbifsSpec {
    fn format(&self) -> &'static dyn Format {
        &super::FORMAT
    }

    fn title(&self) -> String {
        Self::title(self)
    }

    fn check_device(&self, device: &DeviceSpec, _ftl: &FtlSpec) -> Result<(), StackError> {
        let DeviceSpec::Chip { chip, .. } = device else { return Ok(()) };
        let (of_chip, bad) = (chip.geometry.build(), chip.bad_blocks.factory_max);
        let geometry = self.geometry(&of_chip, chip.rules.partial_programs)?;
        self.build_options(&of_chip, geometry.leb_size(), lebs_on(&of_chip, bad)).check().map_err(too_small)
    }

    fn mount_on_flash(
        &self,
        flash: WatchedFlash,
        seed: u64,
        frame: &mut Frame,
    ) -> Result<Box<dyn MountedFileSystem>, StackError> {
        let is_there = frame.keeping.is_some() && !flash.is_blank(&frame.clock)?;
        frame.expect(is_there)?;
        let clock = frame.clock.clone();
        let lebs = match is_there {
            true => self.attached(flash.flash, &clock)?,
            false => self.made(flash, seed, &clock)?,
        };
        let options = WriteOptions {
            compression: Some(self.compression()),
            policy: self.policy().map_err(|error| StackError::new("stack.fs", error.to_string()))?,
            seed,
            dirty_max: frame.host.map_or(0, |host| host.dirty),
            ..WriteOptions::default()
        };
        let fs = Counted::new(Ubifs::mount_for_writing(Box::new(lebs), clock, options).map_err(wrong)?);
        if !is_there && fs.volume().map_err(wrong)?.blocks_free == 0 {
            return Err(too_small(FsError::new(ErrorKind::NoSpace, "an empty volume has no room for a file")));
        }
        frame.watch("fs", fs.statistics());
        frame.top(fs, is_there)
    }
}

impl UbifsSpec {
    fn writer(&self, flash: Chip, clock: &Clock) -> Result<UbiWriter<Chip>, StackError> {
        let options = UbiOptions { wear_threshold: self.wear_threshold, ..UbiOptions::default() };
        UbiWriter::new(Ubi::attach(flash, clock.clone()).map_err(wrong)?, options).map_err(wrong)
    }

    /// The volume of a chip that holds UBI.
    fn attached(&self, flash: Chip, clock: &Clock) -> Result<ChipLebs, StackError> {
        let device = self.writer(flash, clock)?;
        let volumes = device.ubi().volumes();
        let found = volumes.iter().find(|volume| volume.record.name == self.volume.as_bytes());
        let number = found.map(|volume| volume.number).ok_or_else(|| {
            let names: Vec<&str> = volumes.iter().map(|volume| volume.file_name.as_str()).collect();
            let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            let detail = format!("the chip's UBI has no volume '{}'; volumes: {names}", self.volume);
            StackError::new("stack.fs.volume", detail)
        })?;
        Ok(WritableLebs::new(device, number))
    }

    /// UBI on a blank chip, with one volume over all of it and an empty UBIFS in that.
    fn made(&self, mut chip: WatchedFlash, seed: u64, clock: &Clock) -> Result<ChipLebs, StackError> {
        let of_chip = *chip.flash.geometry();
        let geometry = self.geometry(&of_chip, chip.partial_programs)?;
        let mut random = Random::new(seed, "ubifs-format");
        let image_sequence = random.next_u64() as u32;
        format_blocks(&mut chip.flash, &geometry, image_sequence, clock)?;
        let mut device = self.writer(chip.flash, clock)?;
        let volume = NewVolume {
            number: None,
            name: self.volume.clone().into_bytes(),
            volume_type: VolumeType::Dynamic,
            bytes: None,
            alignment: 1,
            flags: 0,
        };
        let number = device.create_volume(&volume).map_err(too_small)?;
        let mut lebs = WritableLebs::new(device, number);
        let mut options = self.build_options(&of_chip, lebs.leb_size(), lebs.leb_count());
        random.fill(&mut options.uuid);
        options.check().map_err(too_small)?;
        lebs.set_cause(Cause::Format);
        let empty = MemoryTree::from_builder(MemoryTree::builder());
        let mut sink = ChipSink { lebs: &mut lebs, unit: of_chip.write_unit };
        nandkit_ubifs::build(&empty, &options, &mut sink, &|_| {}).map_err(wrong)?;
        Ok(lebs)
    }

    /// The options of a volume with so many LEBs.
    fn build_options(&self, chip: &FlashGeometry, leb_size: u32, lebs: u32) -> BuildOptions {
        BuildOptions {
            min_io_size: min_io_size(chip),
            leb_size,
            leb_count_max: lebs,
            compression: self.compression(),
            fanout: self.fanout,
            journal_size: (self.journal_size > 0).then_some(self.journal_size),
            threads: 1,
            ..BuildOptions::default()
        }
    }

    /// Where headers and data lie in the blocks of a chip that allows so many programs per page.
    fn geometry(&self, of_chip: &FlashGeometry, partial_programs: u32) -> Result<Geometry, StackError> {
        let min_io = min_io_size(of_chip);
        let has_sub_pages = of_chip.kind == FlashKind::Nor || partial_programs >= 2;
        let unit = match self.sub_pages {
            0 if has_sub_pages => of_chip.write_unit,
            0 => of_chip.page_size,
            asked if asked > of_chip.page_size || !asked.is_multiple_of(of_chip.write_unit.max(1)) => {
                let (unit, page) = (of_chip.write_unit, of_chip.page_size);
                let detail = format!("{asked} bytes; the chip programs multiples of {unit} bytes of pages of {page}");
                return Err(StackError::new("stack.fs.sub_pages", detail));
            }
            asked if asked < of_chip.page_size && !has_sub_pages => {
                let detail = format!("{asked} bytes, and the chip allows one program per page; expected 0");
                return Err(StackError::new("stack.fs.sub_pages", detail));
            }
            asked => asked,
        };
        let vid_offset = unit.max(HEADER_SIZE as u32);
        let data_offset = vid_offset.saturating_mul(2).next_multiple_of(min_io);
        let peb_size = u32::try_from(of_chip.block_size()).unwrap_or(0);
        match data_offset < peb_size {
            true => Ok(Geometry { peb_size, vid_offset, data_offset }),
            false => {
                let detail = format!(
                    "blocks of {peb_size} bytes have no room behind UBI's headers; expected a chip with larger ones"
                );
                Err(StackError::new("stack.device", detail))
            }
        }
    }
}

/// LEBs of a volume over all of a chip with so many bad blocks.
fn lebs_on(chip: &FlashGeometry, bad: u32) -> u32 {
    let for_bad = match chip.kind {
        FlashKind::Nand => chip.blocks.saturating_mul(UbiOptions::default().bad_per_1024).div_ceil(1024),
        FlashKind::Nor => 0,
    };
    chip.blocks.saturating_sub(LAYOUT_LEBS + MOVING_PEBS + for_bad.max(bad))
}

/// UBIFS's smallest unit of output: a page of NAND, and what NOR programs at once.
fn min_io_size(chip: &FlashGeometry) -> u32 {
    match chip.kind {
        FlashKind::Nand => chip.page_size,
        FlashKind::Nor => chip.write_unit.max(8),
    }
}

/// Writes the header of an unworn block to each block of a blank chip, as ubiformat does. Blocks
/// that fail are marked bad.
fn format_blocks(flash: &mut Chip, geometry: &Geometry, image_sequence: u32, clock: &Clock) -> Result<(), StackError> {
    let Geometry { vid_offset, data_offset, .. } = *geometry;
    let mut header = EcHeader { erase_counter: 0, vid_offset, data_offset, image_sequence }.encode().to_vec();
    let unit = flash.geometry().write_unit.max(1) as usize;
    header.resize(header.len().next_multiple_of(unit), 0xFF);
    let page_size = flash.geometry().page_size.max(1) as usize;
    let blocks = flash.geometry().blocks;
    for block in (0..blocks).map(BlockIndex).filter(|block| !flash.is_bad(*block)).collect::<Vec<_>>() {
        for (page, piece) in (0..).zip(header.chunks(page_size)) {
            let context = Context { cause: Cause::Format, ..Context::at(clock.now()) };
            let failed = match flash.program(&context, block.page(page), PageProgram::bytes(0, piece)) {
                Ok(done) => {
                    clock.advance_to(done.completed);
                    continue;
                }
                Err(error) => error,
            };
            clock.advance_to(failed.completed.max(context.issued));
            if failed.kind != nandkit_flash::ErrorKind::ProgramFailed {
                return Err(unwritten(&failed));
            }
            let context = Context { issued: clock.now(), ..context };
            let done = flash.mark_bad(&context, block).map_err(|error| unwritten(&error))?;
            clock.advance_to(done.completed);
            break;
        }
    }
    Ok(())
}

fn unwritten(error: &FlashError) -> StackError {
    StackError::new("stack.fs", format!("cannot write the headers of UBI: {error}"))
}

/// The error if UBI or UBIFS finds no room on a chip.
fn too_small(error: FsError) -> StackError {
    StackError::new("stack.fs", format!("the chip is too small for ubifs, or an option does not fit: {}", error.detail))
}

/// The LEBs of a new volume.
struct ChipSink<'a> {
    lebs: &'a mut ChipLebs,
    unit: u32,
}

impl LebSink for ChipSink<'_> {
    fn put(&mut self, leb: u32, bytes: &[u8]) -> nandkit_vfs::Result<()> {
        let mut whole = bytes.to_vec();
        whole.resize(bytes.len().next_multiple_of(self.unit.max(1) as usize), 0xFF);
        self.lebs.write(leb, 0, &whole)
    }
}
