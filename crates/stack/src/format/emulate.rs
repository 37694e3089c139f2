//! Formats on emulated devices: their options in specs, and their mounts.

use std::any::Any;
use std::fmt;

use nandkit_block::BlockDevice;
use nandkit_flash::{ErrorKind, Flash, PageRead};
use nandkit_flash_image::detect::ByteOrder;
use nandkit_units::{BlockIndex, Clock, Context, Lba, ReadInto, StatisticDefinition};
use nandkit_vfs::{Changes, FsError};
use serde::Serialize;
use toml::Table;

use super::Format;
use crate::SpecError;
use crate::StackError;
use crate::frame::Frame;
use crate::in_directory::for_next_run;
use crate::mounted::MountedFileSystem;
use crate::{DeviceSpec, FtlSpec};

/// The operations of a format for stacks on emulated devices.
pub trait EmulateFormat: Sync {
    /// Reads the format's options from a spec's table without its key `kind`. Errors: an unknown
    /// key or an invalid value, with what was expected.
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, SpecError>;

    /// Whether file names are more restricted than in POSIX, by case or characters.
    fn restricts_names(&self) -> bool {
        false
    }

    /// Definitions of the statistics of its volumes ([`nandkit_units::Statistics::definitions`]);
    /// empty if their names suffice.
    fn statistics(&self) -> Vec<StatisticDefinition> {
        Vec::new()
    }
}

/// The options of one format in the spec of a stack.
pub trait FormatSpec: SpecValue + fmt::Debug + Send + Sync {
    /// The format of these options.
    fn format(&self) -> &'static dyn Format;

    /// A short text, its parts joined by ` | `.
    fn title(&self) -> String;

    /// Refuses a device or layer that conflicts with these options, and unusable files named by
    /// them. Nothing is built.
    fn check_device(&self, _device: &DeviceSpec, _ftl: &FtlSpec) -> Result<(), StackError> {
        Ok(())
    }

    /// Sets the byte order to that of an image, if the image shows one.
    fn set_byte_order(&mut self, _order: Option<ByteOrder>) {}

    /// Makes the volume on a block device, or mounts the existing one; the counters go to `frame`.
    /// `seed` seeds the random choices of the file system. Errors: another volume than the
    /// requested one, a device that is too small, an error of the device.
    fn mount_on_blocks(
        &self,
        _device: WatchedBlocks,
        _seed: u64,
        _frame: &mut Frame,
    ) -> Result<Box<dyn MountedFileSystem>, StackError> {
        Err(StackError::new("stack.device", "this file system works on bare flash; expected a chip"))
    }

    /// Makes the volume on flash, or mounts the existing one; otherwise like
    /// [`FormatSpec::mount_on_blocks`].
    fn mount_on_flash(
        &self,
        _flash: WatchedFlash,
        _seed: u64,
        _frame: &mut Frame,
    ) -> Result<Box<dyn MountedFileSystem>, StackError> {
        Err(StackError::new("stack.ftl", "this file system works on block devices; expected a translation layer"))
    }
}

/// A block device below a file system, with counters. It is a trait object, so that each file
/// system is compiled only once.
pub type WatchedBlocks = Box<dyn BlockDevice>;

/// A chip below a file system.
pub struct WatchedFlash {
    /// The chip, with counters.
    pub flash: Box<dyn Flash>,
    /// Programs that the chip allows per page between two erases.
    pub partial_programs: u32,
}

impl WatchedFlash {
    /// Whether the first page of every block is erased, OOB included. Other data on the chip may be
    /// of value. Errors: the chip cannot be read.
    pub(crate) fn is_blank(&self, clock: &Clock) -> Result<bool, StackError> {
        let flash = &self.flash;
        let geometry = *flash.geometry();
        let (mut page, mut oob) = (vec![0; geometry.page_size as usize], vec![0; geometry.oob_size as usize]);
        for block in (0..geometry.blocks).map(BlockIndex).filter(|block| !flash.is_bad(*block)) {
            let read = PageRead { oob: &mut oob, ..PageRead::bytes(0, &mut page) };
            match flash.read(&Context::at(clock.now()), block.page(0), read) {
                Ok(done) => clock.advance_to(done.completed),
                // An unreadable page was written.
                Err(error) if error.kind == ErrorKind::Uncorrectable => return Ok(false),
                Err(error) => {
                    return Err(StackError::new("stack.fs", format!("cannot read the first pages: {error}")));
                }
            }
            if page.iter().chain(&oob).any(|byte| *byte != 0xFF) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Value operations of a [`FormatSpec`]: copy, comparison, serialization.
pub trait SpecValue: Any {
    /// A copy.
    fn boxed(&self) -> Box<dyn FormatSpec>;

    /// Whether `other` has this type and equal values.
    fn equals(&self, other: &dyn FormatSpec) -> bool;

    /// All options, in the order of their definition.
    fn table(&self) -> Result<Table, toml::ser::Error>;
}

impl<S: FormatSpec + Clone + PartialEq + Serialize> SpecValue for S {
    fn boxed(&self) -> Box<dyn FormatSpec> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn FormatSpec) -> bool {
        (other as &dyn Any).downcast_ref::<S>() == Some(self)
    }

    fn table(&self) -> Result<Table, toml::ser::Error> {
        Table::try_from(self)
    }
}

impl Clone for Box<dyn FormatSpec> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl PartialEq for dyn FormatSpec {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

/// The error of making or mounting a file system.
pub(crate) fn wrong(error: FsError) -> StackError {
    StackError::new("stack.fs", error.to_string())
}

impl Frame {
    /// Whether a block device holds a volume: for a device in a file, any written byte among the
    /// first `bytes` counts. Unknown data may be of value, so that they count as a volume and are
    /// not formatted over. Errors: the device fails; the volume is unexpected or missing.
    pub(crate) fn finds_volume(&self, device: &WatchedBlocks, bytes: u32) -> Result<bool, StackError> {
        let is_there = self.keeping.is_some() && !is_blank(device, bytes, &self.clock)?;
        self.expect(is_there)?;
        Ok(is_there)
    }

    /// The top of a stack with this file system. A further run on an existing volume works in a
    /// separate directory, since workloads expect an empty one.
    pub(crate) fn top<F>(&self, fs: F, was_there: bool) -> Result<Box<dyn MountedFileSystem>, StackError>
    where
        F: MountedFileSystem + Changes + 'static,
    {
        let at_root = self.expected.is_some();
        if was_there && !at_root { for_next_run(fs).map_err(wrong) } else { Ok(Box::new(fs)) }
    }
}

/// Whether the first sectors were never written.
fn is_blank(device: &WatchedBlocks, bytes: u32, clock: &Clock) -> Result<bool, StackError> {
    let sector_size = device.geometry().sector_size;
    let mut first = vec![0; bytes.next_multiple_of(sector_size) as usize];
    let done = device.read(&Context::at(clock.now()), Lba(0), ReadInto::Bytes(&mut first)).map_err(|error| {
        let sectors = if bytes <= sector_size { "sector" } else { "sectors" };
        StackError::new("stack.fs", format!("cannot read the first {sectors}: {error}"))
    })?;
    clock.advance_to(done.completed);
    Ok(nandkit_units::is_zeroed(&first))
}
