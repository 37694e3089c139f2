//! The served device: a block device behind a lock, addressed in bytes, with a clock of simulated
//! time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use nandkit_block::{BlockDevice, BlockError, ErrorKind, Operation, Result};
use nandkit_units::{Context, Described, Description, Done, Generator, Lba, Nanos, Payload, ReadInto};

use crate::observer::{Observer, RequestKind};
use crate::pace::Latency;
use crate::protocol::{error, transmission_flag};

/// A device shared by all clients: a flush by one client makes the acknowledged writes of all
/// clients durable.
///
/// Requests need not be whole sectors: partial sectors at their ends are read, changed and written
/// back.
pub struct Export {
    device: RwLock<Box<dyn BlockDevice>>,
    name: String,
    description: String,
    sector: u64,
    size: u64,
    preferred: u32,
    trims: bool,
    read_only: bool,
    /// Simulated time, if requests are not delayed.
    now: AtomicU64,
    /// Host time at which simulated time was 0, if requests are delayed by the simulated time.
    began: Option<Instant>,
    observer: Option<Arc<dyn Observer>>,
    /// Whether a request was interrupted: the state of the device is unknown, and it is not used
    /// any more.
    is_broken: AtomicBool,
}

/// Largest number of parts in one answer.
const EXTENTS_MAX: usize = 1024;
/// Bytes trimmed at once, during which other clients wait.
const TRIM_PIECE: u64 = 16 << 20;

impl Export {
    /// Exports `device` under `name`; clients may also request the export without a name.
    pub fn new(mut device: Box<dyn BlockDevice>, name: &str, description: &str) -> Self {
        let geometry = *device.geometry();
        Self {
            name: name.to_string(),
            description: description.to_string(),
            sector: u64::from(geometry.sector_size),
            size: geometry.capacity(),
            preferred: geometry.preferred_size.max(geometry.sector_size).max(4096),
            trims: device.trim().is_some(),
            device: RwLock::new(device),
            read_only: false,
            now: AtomicU64::new(0),
            began: None,
            observer: None,
            is_broken: AtomicBool::new(false),
        }
    }

    /// Sets an observer of the device's requests.
    #[must_use]
    pub fn observed(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Makes the export read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Sets the initial simulated time, and whether requests are delayed.
    #[must_use]
    pub fn from_time(mut self, now: Nanos, latency: Latency) -> Self {
        self.now = AtomicU64::new(now.0);
        let past = std::time::Duration::from_nanos(now.0);
        self.began = (latency == Latency::Real).then(|| Instant::now().checked_sub(past).unwrap_or_else(Instant::now));
        self
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// A description of the device.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether this name selects the export.
    pub fn is_called(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name()
    }

    /// Size in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Smallest request in bytes: 1, whatever the sector size.
    pub const fn smallest(&self) -> u32 {
        1
    }

    /// Preferred request size in bytes: a flash page, and at least 4 KiB.
    pub const fn preferred(&self) -> u32 {
        self.preferred
    }

    /// Whether changes are refused.
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The flags of the transmission phase.
    pub const fn flags(&self) -> u16 {
        use transmission_flag as flag;
        let always = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_DF
            | flag::CAN_MULTI_CONN
            | flag::SEND_CACHE;
        if self.read_only {
            return always | flag::READ_ONLY;
        }
        always | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO | if self.trims { flag::SEND_TRIM } else { 0 }
    }

    /// The simulated time of the latest completion.
    pub fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::Relaxed))
    }

    /// The host time of a simulated instant, if requests are delayed.
    pub fn host_time(&self, instant: Nanos) -> Option<Instant> {
        self.began?.checked_add(std::time::Duration::from_nanos(instant.0))
    }

    /// Returns the device.
    pub fn into_device(self) -> Box<dyn BlockDevice> {
        self.device.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops all use of the device after an interrupted request. Further requests and the last
    /// flush fail with `Io`.
    pub fn break_off(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    fn expect_whole(&self) -> Result<()> {
        if self.is_broken.load(Ordering::Acquire) {
            let detail = "a request was interrupted: the device is not used any more";
            return Err(BlockError::new(ErrorKind::Io, Operation::Open, Lba(0), detail));
        }
        Ok(())
    }

    fn reading(&self) -> Result<RwLockReadGuard<'_, Box<dyn BlockDevice>>> {
        let device = self.device.read();
        if device.is_err() {
            self.break_off();
        }
        self.expect_whole()?;
        Ok(device.unwrap_or_else(PoisonError::into_inner))
    }

    fn changing(&self) -> Result<RwLockWriteGuard<'_, Box<dyn BlockDevice>>> {
        let device = self.device.write();
        if device.is_err() {
            // Before the next request gets the lock.
            self.break_off();
        }
        self.expect_whole()?;
        Ok(device.unwrap_or_else(PoisonError::into_inner))
    }

    fn context(&self) -> Context {
        let instant = match self.began {
            Some(began) => u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            None => self.now.load(Ordering::Relaxed),
        };
        Context::at(Nanos(instant))
    }

    fn completed(&self, kind: RequestKind, bytes: u64, context: &Context, done: Done) -> Done {
        self.now.fetch_max(done.completed.0, Ordering::Relaxed);
        if let Some(observer) = &self.observer {
            observer.done(kind, bytes, done.completed.since(context.issued));
        }
        done
    }

    fn is_whole(&self, offset: u64, length: u64) -> bool {
        (offset | length) & (self.sector - 1) == 0
    }

    /// Reads bytes. Errors: the device's.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<Done> {
        let device = self.reading()?;
        let context = self.context();
        let first = offset / self.sector;
        if self.is_whole(offset, into.len() as u64) {
            let bytes = into.len() as u64;
            let done = device.read(&context, Lba(first), ReadInto::Bytes(into))?;
            return Ok(self.completed(RequestKind::Read, bytes, &context, done));
        }
        let skipped = (offset % self.sector) as usize;
        let sectors = (skipped as u64 + into.len() as u64).div_ceil(self.sector);
        let mut covering = vec![0; (sectors * self.sector) as usize];
        let done = device.read(&context, Lba(first), ReadInto::Bytes(&mut covering))?;
        let wanted = covering.get(skipped..).unwrap_or_default();
        into.iter_mut().zip(wanted).for_each(|(into, byte)| *into = *byte);
        Ok(self.completed(RequestKind::Read, into.len() as u64, &context, done))
    }

    /// Writes bytes. Errors: the device's.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<Done> {
        let mut device = self.changing()?;
        let context = self.context();
        let done = match self.is_whole(offset, data.len() as u64) {
            true => device.write(&context, Lba(offset / self.sector), Payload::Bytes(data))?,
            false => self.write_parts(&mut **device, context, offset, data)?,
        };
        Ok(self.completed(RequestKind::Write, data.len() as u64, &context, done))
    }

    /// Writes bytes that are durable on completion (FUA): by the device's durable write for whole
    /// sectors, otherwise by a write and a flush. Errors: the device's.
    pub fn write_durable(&self, offset: u64, data: &[u8]) -> Result<Done> {
        if !self.is_whole(offset, data.len() as u64) {
            let written = self.write(offset, data)?;
            return Ok(written.and(self.flush()?));
        }
        let mut device = self.changing()?;
        let context = self.context();
        let done = device.write_durable(&context, Lba(offset / self.sector), Payload::Bytes(data))?;
        Ok(self.completed(RequestKind::Write, data.len() as u64, &context, done))
    }

    /// Writes bytes that are not whole sectors: the sectors at the ends are read and changed, those
    /// between are written directly.
    fn write_parts(
        &self,
        device: &mut dyn BlockDevice,
        context: Context,
        mut offset: u64,
        mut data: &[u8],
    ) -> Result<Done> {
        let size = self.sector as usize;
        let mut done = Done::immediately(&context);
        while !data.is_empty() {
            let inside = (offset % self.sector) as usize;
            let whole = if inside == 0 { data.len() / size * size } else { 0 };
            let length = if whole > 0 { whole } else { data.len().min(size - inside) };
            let (part, rest) = data.split_at(length);
            let (at, now) = (Lba(offset / self.sector), context.issued_at(done.completed));
            if whole > 0 {
                done = done.and(device.write(&now, at, Payload::Bytes(part))?);
            } else {
                let mut sector = vec![0; size];
                let read = device.read(&now, at, ReadInto::Bytes(&mut sector))?;
                if let Some(changed) = sector.get_mut(inside..inside + length) {
                    changed.copy_from_slice(part);
                }
                let now = context.issued_at(read.completed);
                done = done.and(read).and(device.write(&now, at, Payload::Bytes(&sector))?);
            }
            (offset, data) = (offset + length as u64, rest);
        }
        Ok(done)
    }

    /// Makes all acknowledged writes durable. Errors: the device's.
    pub fn flush(&self) -> Result<Done> {
        if self.read_only {
            return Ok(Done::immediately(&self.context()));
        }
        let mut device = self.changing()?;
        let context = self.context();
        let done = device.flush(&context)?;
        Ok(self.completed(RequestKind::Flush, 0, &context, done))
    }

    /// Trims whole sectors; partial sectors are kept, as the protocol allows. Errors: the device's.
    pub fn trim(&self, offset: u64, length: u64) -> Result<Done> {
        let (mut first, end) = (offset.div_ceil(self.sector), (offset + length) / self.sector);
        let mut all = Done::immediately(&self.context());
        while first < end {
            let sectors = (end - first).min(TRIM_PIECE / self.sector);
            let mut device = self.changing()?;
            let context = self.context();
            let Some(trim) = device.trim() else { break };
            let done = trim.trim(&context, Lba(first), sectors)?;
            all = all.and(self.completed(RequestKind::Trim, sectors * self.sector, &context, done));
            first += sectors;
        }
        Ok(all)
    }

    /// Zeroes bytes, by trimming whole sectors if holes are allowed, otherwise by writing. `None`:
    /// a fast operation was requested and is not possible.
    pub fn write_zeroes(&self, offset: u64, length: u64, no_hole: bool, fast: bool) -> Result<Option<Done>> {
        let end = offset + length;
        let (inner, inner_end) = (offset.next_multiple_of(self.sector), end / self.sector * self.sector);
        if no_hole || !self.trims || inner >= inner_end {
            return if fast { Ok(None) } else { self.write_zero_bytes(offset, end).map(Some) };
        }
        let mut done = self.trim(inner, inner_end - inner)?;
        for (from, to) in [(offset, inner), (inner_end, end)] {
            if from < to {
                done = done.and(self.write_zero_bytes(from, to)?);
            }
        }
        Ok(Some(done))
    }

    fn write_zero_bytes(&self, mut from: u64, to: u64) -> Result<Done> {
        const PIECE: u64 = 1 << 20;
        let mut done = Done::immediately(&self.context());
        while from < to {
            let length = (PIECE - from % PIECE).min(to - from);
            done = if self.is_whole(from, length) {
                let description = Description { generator: Generator::Zero, ..Description::default() };
                let zeroes = Payload::Described(Described { description, length: length as u32 });
                let mut device = self.changing()?;
                let context = self.context();
                let written = device.write(&context, Lba(from / self.sector), zeroes)?;
                done.and(self.completed(RequestKind::WriteZeroes, length, &context, written))
            } else {
                done.and(self.write(from, &vec![0; length as usize])?)
            };
            from += length;
        }
        Ok(done)
    }

    /// Which parts hold data, each with its length; with `one` just the first part. At most
    /// `EXTENTS_MAX` parts are returned, as the protocol allows.
    ///
    /// Error: the device is not used any more.
    pub fn extents(&self, offset: u64, length: u32, one: bool) -> Result<Vec<(u32, bool)>> {
        let device = self.reading()?;
        let end = offset + u64::from(length);
        let mut extents: Vec<(u32, bool)> = Vec::new();
        let mut at = offset;
        while at < end {
            let first = at / self.sector;
            let extent = device.extent(Lba(first), end.div_ceil(self.sector) - first);
            let next = ((first + extent.sectors.max(1)) * self.sector).min(end);
            // At most the length of the request.
            let bytes = (next - at) as u32;
            let is_full = one || extents.len() >= EXTENTS_MAX;
            match extents.last_mut() {
                Some((length, holds)) if *holds == extent.holds => *length += bytes,
                Some(_) if is_full => break,
                _ => extents.push((bytes, extent.holds)),
            }
            at = next;
        }
        Ok(extents)
    }
}

/// The protocol's number for a device's error.
pub const fn error_number(error: &BlockError) -> u32 {
    match error.kind {
        ErrorKind::OutOfRange | ErrorKind::Unmapped | ErrorKind::Overlap | ErrorKind::Unfit => error::EINVAL,
        ErrorKind::Full => error::ENOSPC,
        ErrorKind::ReadOnly => error::EPERM,
        ErrorKind::Unreadable | ErrorKind::NoContent | ErrorKind::PowerLost | ErrorKind::Corrupt | ErrorKind::Io => {
            error::EIO
        }
    }
}
