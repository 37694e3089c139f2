//! The devices that can be calibrated: the trait, and an emulated block device.

use nandkit_block::BlockDevice;
use nandkit_stack::{Below, DeviceHandle, Mounted, Stack, StackError, StackSpec};
use nandkit_units::{Context, Described, Description, Lba, Nanos, Payload, ReadInto};
use serde::Serialize;

/// The sizes of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TargetShape {
    /// Bytes of the target.
    pub capacity: u64,
    /// Bytes of a sector.
    pub sector_size: u32,
    /// Bytes of a page: the unit that the target writes without reading first.
    pub page_size: u32,
    /// Bytes of a unit in which the target recycles; 0 if it does not tell.
    pub unit: u64,
}

/// A device that answers a request with the time that it took. Requests are whole sectors inside
/// the device, and follow one another.
pub trait Target {
    /// The sizes of the target.
    fn shape(&self) -> TargetShape;

    /// Reads `bytes` bytes at byte `at`. Errors: a sentence for people.
    fn read(&mut self, at: u64, bytes: u32) -> Result<Nanos, String>;

    /// Writes `bytes` bytes of any content at byte `at`; done when they are safe. Errors: a
    /// sentence for people.
    fn write(&mut self, at: u64, bytes: u32) -> Result<Nanos, String>;
}

/// An emulated block device: times are simulated.
pub struct EmulatedTarget {
    device: DeviceHandle,
    below: Below,
    writes: u64,
}

impl EmulatedTarget {
    /// Builds a new device of this spec, whose top must be a block device. Errors: the errors of
    /// [`Stack::build`], and a spec with a file system.
    pub fn build(spec: &StackSpec, seed: u64) -> Result<Self, StackError> {
        let (mounted, below) = Stack::build(spec, seed)?.lift();
        match mounted {
            Mounted::Blocks(device) => Ok(Self { device, below, writes: 0 }),
            Mounted::Files(_) => Err(StackError::new("stack.fs", "a file system is no block device; expected none")),
        }
    }

    /// Whether there is flash below, whose times change once it has been written as a whole.
    pub const fn has_flash(&self) -> bool {
        self.below.watched.flash.is_some()
    }

    fn lba(&self, at: u64) -> Lba {
        Lba(at / u64::from(self.device.geometry().sector_size.max(1)))
    }

    /// The time until a request that was issued now has ended.
    fn pass(&self, completed: Nanos) -> Nanos {
        let issued = self.below.clock.now();
        self.below.clock.advance_to(completed);
        completed.since(issued)
    }
}

impl Target for EmulatedTarget {
    fn shape(&self) -> TargetShape {
        let geometry = self.device.geometry();
        TargetShape {
            capacity: geometry.capacity(),
            sector_size: geometry.sector_size,
            page_size: geometry.preferred_size,
            unit: geometry.recycling_size,
        }
    }

    fn read(&mut self, at: u64, bytes: u32) -> Result<Nanos, String> {
        let context = Context::at(self.below.clock.now());
        let done = self.device.read(&context, self.lba(at), ReadInto::Nothing { length: bytes });
        done.map(|done| self.pass(done.completed)).map_err(|error| format!("cannot read at byte {at}: {error}"))
    }

    fn write(&mut self, at: u64, bytes: u32) -> Result<Nanos, String> {
        self.writes += 1;
        let description = Description { record: self.writes, ..Description::default() };
        let payload = Payload::Described(Described { description, length: bytes });
        let (context, lba) = (Context::at(self.below.clock.now()), self.lba(at));
        let done = self.device.write(&context, lba, payload);
        done.map(|done| self.pass(done.completed)).map_err(|error| format!("cannot write at byte {at}: {error}"))
    }
}
