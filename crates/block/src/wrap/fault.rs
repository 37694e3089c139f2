//! Scripted failures.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nandkit_units::{Content, Context, Done, Lba, Payload, Pieces, ReadInto};

use super::{no_capability, offer_capabilities, remap_limits};
use crate::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Remap, RemapLimits, Result, Trim};

/// The requests of its kind that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFaultWhen {
    /// The n-th request of its kind, counted from 1.
    Nth(u64),
    /// Requests that touch this sector.
    Sector(Lba),
    /// Every matching request fails.
    Always,
}

/// One line of the script: requests of this kind fail with this error kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFault {
    /// The kind of request that it affects.
    pub operation: Operation,
    /// Which requests of that kind.
    pub when: DeviceFaultWhen,
    /// The kind of the error.
    pub kind: ErrorKind,
    /// Whether the device below still executes the request before the failure is reported.
    pub carried_out: bool,
    /// Most times it strikes.
    pub times: u64,
}

impl DeviceFault {
    /// A fault that fails requests before they reach the device, as often as `when` says.
    pub const fn new(operation: Operation, when: DeviceFaultWhen, kind: ErrorKind) -> Self {
        Self { operation, when, kind, carried_out: false, times: u64::MAX }
    }

    /// Limits the fault to `times` times.
    pub const fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// A block device that fails by script.
#[derive(Debug)]
pub struct FaultDevice<D> {
    inner: D,
    faults: Vec<(DeviceFault, AtomicU64)>,
    counts: [AtomicU64; 6],
    remap_limits: RemapLimits,
}

impl<D: BlockDevice> FaultDevice<D> {
    /// Wraps `inner` with these faults; if several apply, the first one strikes.
    pub fn new(mut inner: D, faults: impl IntoIterator<Item = DeviceFault>) -> Self {
        let remap_limits = remap_limits(&mut inner);
        let faults = faults.into_iter().map(|fault| (fault, AtomicU64::new(0))).collect();
        Self { inner, faults, counts: Default::default(), remap_limits }
    }

    /// How often each fault of the script has struck.
    pub fn struck(&self) -> Vec<u64> {
        self.faults.iter().map(|(_, struck)| struck.load(Relaxed)).collect()
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Unwraps the device below.
    pub fn into_inner(self) -> D {
        self.inner
    }

    fn sectors(&self, bytes: u64) -> u64 {
        bytes / u64::from(self.inner.geometry().sector_size.max(1))
    }

    fn failure(&self, operation: Operation, at: Lba, sectors: u64) -> Option<DeviceFault> {
        let number = self.counts[operation as usize].fetch_add(1, Relaxed) + 1;
        let (fault, _) = self.faults.iter().find(|(fault, struck)| {
            let strikes = fault.operation == operation
                && match fault.when {
                    DeviceFaultWhen::Nth(n) => n == number,
                    DeviceFaultWhen::Sector(sector) => at <= sector && sector < at.plus(sectors),
                    DeviceFaultWhen::Always => true,
                };
            let counted = |struck: u64| (struck < fault.times).then_some(struck + 1);
            strikes && struck.fetch_update(Relaxed, Relaxed, counted).is_ok()
        })?;
        Some(*fault)
    }

    fn fetch(&self, at: Lba, bytes: u64, operate: impl FnOnce(&D) -> Result<Done>) -> Result<Done> {
        match self.failure(Operation::Read, at, self.sectors(bytes)) {
            None => operate(&self.inner),
            Some(fault) => {
                if fault.carried_out {
                    operate(&self.inner)?;
                }
                Err(scripted(&fault, at))
            }
        }
    }

    fn change(
        &mut self,
        operation: Operation,
        at: Lba,
        sectors: u64,
        operate: impl FnOnce(&mut D) -> Result<Done>,
    ) -> Result<Done> {
        match self.failure(operation, at, sectors) {
            None => operate(&mut self.inner),
            Some(fault) => {
                if fault.carried_out {
                    operate(&mut self.inner)?;
                }
                Err(scripted(&fault, at))
            }
        }
    }
}

#[cold]
fn scripted(fault: &DeviceFault, at: Lba) -> BlockError {
    let at = if let DeviceFaultWhen::Sector(sector) = fault.when { sector } else { at };
    BlockError::new(fault.kind, fault.operation, at, "a scripted fault")
}

impl<D: BlockDevice> BlockDevice for FaultDevice<D> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.fetch(at, into.len() as u64, |inner| inner.read(context, at, into))
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        let bytes = u64::from(unit).saturating_mul(into.len() as u64);
        self.fetch(at, bytes, |inner| inner.read_parts(context, at, unit, into))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let sectors = self.sectors(data.len() as u64);
        self.change(Operation::Write, at, sectors, |inner| inner.write(context, at, data))
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        let sectors = self.sectors(Pieces::total(parts) as u64);
        self.change(Operation::Write, at, sectors, |inner| inner.write_parts(context, at, parts))
    }

    /// Counts as a write and a flush: either may fail.
    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let sectors = self.sectors(data.len() as u64);
        if let Some(fault) = self.failure(Operation::Write, at, sectors) {
            if fault.carried_out {
                self.inner.write(context, at, data)?;
            }
            return Err(scripted(&fault, at));
        }
        match self.failure(Operation::Flush, Lba(0), 0) {
            None => self.inner.write_durable(context, at, data),
            Some(fault) => {
                let done = self.inner.write(context, at, data)?;
                if fault.carried_out {
                    self.inner.flush(&Context { issued: done.completed, ..*context })?;
                }
                Err(scripted(&fault, at))
            }
        }
    }

    fn expect_write(&mut self, at: Lba) {
        self.inner.expect_write(at);
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.change(Operation::Flush, Lba(0), 0, |inner| inner.flush(context))
    }

    offer_capabilities!();
}

impl<D: BlockDevice> Trim for FaultDevice<D> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        self.change(Operation::Trim, at, sectors, |inner| match inner.trim() {
            Some(trim) => trim.trim(context, at, sectors),
            None => Err(no_capability(Operation::Trim)),
        })
    }
}

impl<D: BlockDevice> FaultDevice<D> {
    fn first(pairs: &[(Lba, Lba)]) -> Lba {
        pairs.first().map_or(Lba(0), |(_, to)| *to)
    }
}

impl<D: BlockDevice> Remap for FaultDevice<D> {
    fn limits(&self) -> RemapLimits {
        self.remap_limits
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.change(Operation::Remap, Self::first(pairs), 1, |inner| match inner.remap() {
            Some(remap) => remap.share(context, pairs),
            None => Err(no_capability(Operation::Remap)),
        })
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.change(Operation::Remap, Self::first(pairs), 1, |inner| match inner.remap() {
            Some(remap) => remap.remap_move(context, pairs),
            None => Err(no_capability(Operation::Remap)),
        })
    }
}
