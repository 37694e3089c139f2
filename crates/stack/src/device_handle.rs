//! Handles on one block device, shared by its stack, a file system and a driver.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nandkit_block::{
    BlockDevice, BlockError, BlockGeometry, ErrorKind, Extent, Operation, Placement, Remap, RemapLimits, Result, Trim,
};
use nandkit_units::{Content, Context, Done, Lba, Nanos, Pacing, Payload, ReadInto, Ticket};

/// A handle on a block device of any type. Clones are handles on the same device, and requests
/// through them are serialized. A stack can be closed when all handles are dropped. Cost of a
/// request: an uncontended lock and one dynamic call.
#[derive(Clone)]
pub struct DeviceHandle {
    geometry: BlockGeometry,
    trims: bool,
    is_paced: bool,
    /// A unit of 0 means that the device cannot remap.
    remap_limits: RemapLimits,
    device: Arc<Mutex<dyn BlockDevice>>,
}

/// Locks the device, also after a panic of another user.
pub(crate) fn lock<D: ?Sized>(device: &Mutex<D>) -> MutexGuard<'_, D> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceHandle {
    /// Makes a handle; the caller may keep the device for its counters or to close it.
    pub fn new<D: BlockDevice + 'static>(device: Arc<Mutex<D>>) -> Self {
        let device: Arc<Mutex<dyn BlockDevice>> = device;
        let (geometry, trims, is_paced, remap_limits) = {
            let mut device = lock(&device);
            let remap_limits = device.remap().map_or_else(RemapLimits::default, |remap| remap.limits());
            (*device.geometry(), device.trim().is_some(), device.pacing().is_some(), remap_limits)
        };
        Self { geometry, trims, is_paced, remap_limits, device }
    }

    /// Runs `work` on the locked device: one lock for any number of requests.
    pub fn locked<T>(&self, work: impl FnOnce(&mut dyn BlockDevice) -> T) -> T {
        work(&mut *lock(&self.device))
    }
}

impl fmt::Debug for DeviceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceHandle").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl BlockDevice for DeviceHandle {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        lock(&self.device).read(context, at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        lock(&self.device).write(context, at, data)
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        lock(&self.device).read_parts(context, at, unit, into)
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        lock(&self.device).write_parts(context, at, parts)
    }

    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        lock(&self.device).write_durable(context, at, data)
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        lock(&self.device).flush(context)
    }

    fn extent(&self, at: Lba, most: u64) -> Extent {
        lock(&self.device).extent(at, most)
    }

    fn placement(&self, at: Lba) -> Option<Placement> {
        lock(&self.device).placement(at)
    }

    fn expect_write(&mut self, at: Lba) {
        lock(&self.device).expect_write(at);
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        if self.trims { Some(self) } else { None }
    }

    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        if self.is_paced { Some(self) } else { None }
    }

    fn remap(&mut self) -> Option<&mut dyn Remap> {
        if self.remap_limits.unit > 0 { Some(self) } else { None }
    }
}

impl Trim for DeviceHandle {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        match lock(&self.device).trim() {
            Some(trim) => trim.trim(context, at, sectors),
            None => {
                let detail = "the device below no longer takes trims";
                Err(BlockError::new(ErrorKind::Io, Operation::Trim, at, detail))
            }
        }
    }
}

impl Pacing for DeviceHandle {
    fn quiet_until(&mut self, instant: Nanos) {
        if let Some(pacing) = lock(&self.device).pacing() {
            pacing.quiet_until(instant);
        }
    }

    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos {
        lock(&self.device).pacing().map_or(told, |pacing| pacing.end_of(ticket, told))
    }
}

impl Remap for DeviceHandle {
    fn limits(&self) -> RemapLimits {
        self.remap_limits
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        lock(&self.device).remap().map_or_else(|| Err(no_longer()), |remap| remap.share(context, pairs))
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        lock(&self.device).remap().map_or_else(|| Err(no_longer()), |remap| remap.remap_move(context, pairs))
    }
}

#[cold]
fn no_longer() -> BlockError {
    BlockError::new(ErrorKind::Io, Operation::Remap, Lba(0), "the device below no longer remaps")
}
