//! Formats on emulated devices: their options in specs, and their mounts.

use std::any::Any;
use std::fmt;

use nandkit_block::BlockDevice;
use nandkit_flash::Flash;
use nandkit_flash_image::detect::ByteOrder;
use nandkit_units::{Clock, Context, Lba, ReadInto, StatisticDefinition};
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

/// What a format has for stacks on emulated devices.
pub trait EmulateFormat: Sync {
    /// Reads the format's options: the table of a spec without its key `kind`.
    /// Errors: an unknown key, or a value that cannot be, with what would be right.
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, SpecError>;

    /// Whether names are bound more than POSIX binds them: by case, by characters.
    fn restricts_names(&self) -> bool {
        false
    }

    /// What the values mean that its volumes count ([`nandkit_units::Statistics::definitions`]);
    /// none where their names alone say it.
    fn statistics(&self) -> Vec<StatisticDefinition> {
        Vec::new()
    }
}

/// The options of one format in the spec of a stack.
pub trait FormatSpec: SpecValue + fmt::Debug + Send + Sync {
    /// The format whose options they are.
    fn format(&self) -> &'static dyn Format;

    /// In few words, for people; the parts joined by ` | `.
    fn title(&self) -> String;

    /// Refuses a device, or its layer, that these options cannot go with, and files that they name
    /// and that cannot be used. Nothing is made.
    fn check_device(&self, _device: &DeviceSpec, _ftl: &FtlSpec) -> Result<(), StackError> {
        Ok(())
    }

    /// Takes over the byte order of an image's numbers, where it shows one.
    fn set_byte_order(&mut self, _order: Option<ByteOrder>) {}

    /// Makes the volume on a block device, or mounts the one that is there; the counters go to
    /// `frame`. `seed` decides what the file system draws. Errors: a volume that is not the one
    /// asked for, a device that is too small, what the device fails with.
    fn mount_on_blocks(
        &self,
        _device: WatchedBlocks,
        _seed: u64,
        _frame: &mut Frame,
    ) -> Result<Box<dyn MountedFileSystem>, StackError> {
        Err(StackError::new("stack.device", "this file system works on flash; expected a chip"))
    }

    /// Makes the volume on flash, or mounts the one that is there; otherwise as
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

/// A block device below a file system, with counters. It is of no type that is known, so that each
/// file system is compiled once for all devices.
pub type WatchedBlocks = Box<dyn BlockDevice>;

/// A chip below a file system.
pub struct WatchedFlash {
    /// The chip, with counters.
    pub flash: Box<dyn Flash>,
    /// How many programs the part allows for a page between two erases.
    pub partial_programs: u32,
}

/// What each [`FormatSpec`] does as a value.
pub trait SpecValue: Any {
    /// A copy.
    fn boxed(&self) -> Box<dyn FormatSpec>;

    /// Whether the other are options of this type, with equal values.
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

/// An error of a file system that is made or mounted.
pub(crate) fn wrong(error: FsError) -> StackError {
    StackError::new("stack.fs", error.to_string())
}

impl Frame {
    /// Whether there is a volume on a block device: in a file, any of its first `bytes` is written.
    /// Data that are no volume of the format may be somebody's: they count as one, and no format is
    /// made over them. Errors: the device fails; a volume where none is expected, or none where one
    /// is.
    pub(crate) fn finds_volume(&self, device: &WatchedBlocks, bytes: u32) -> Result<bool, StackError> {
        let is_there = self.keeping.is_some() && !is_blank(device, bytes, &self.clock)?;
        self.expect(is_there)?;
        Ok(is_there)
    }

    /// The top of a stack with this file system. A further run on a volume works in a directory of
    /// its own, since workloads expect an empty one.
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
