//! Writes blocks: requests are submitted without waiting for their completion, except where the
//! order on the medium matters.
//!
//! The clock does not advance while requests are submitted, until the queue is full;
//! [`WritableBlocks::drain`] waits for all of them. A checkpoint's last block follows a flush of
//! everything before it ([`WritableBlocks::commit`]): a durable write makes nothing but itself
//! durable.

mod remap;

pub use remap::{Pair, RemapUnits, RemapsSeen};

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use nandkit_block::{BlockDevice, BlockError};
use nandkit_units::{
    Area, Assembly, Cause, Content, Context, Done, Lba, Nanos, Payload, Pieces, Priority, Stream, Ticket,
};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::{DeviceBlocks, ends_before};
use crate::blocks::{Blocks, Piece};
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::{BlockAddress, Log};
use crate::layout::Geometry;

/// The default limit of requests in flight.
const DEPTH: usize = 32;
/// The smallest sector size with which a block of 4 KiB is never torn by a power cut.
const BLOCK_SECTOR: u32 = 4096;

/// Whether a power cut may tear blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// Devices must write blocks atomically: sectors of 4096 bytes, or larger ones that divide a
    /// block.
    Required,
    /// Smaller sectors are accepted, with a note about what a power cut may do.
    Told,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Why the request was made.
    pub cause: Cause,
    /// The log, reported to the device as a stream; `None` for metadata areas.
    pub log: Option<Log>,
    /// The priority of the request.
    pub priority: Priority,
}

impl Submission {
    /// A request of a log.
    pub const fn of(cause: Cause, log: Log) -> Self {
        Self { cause, log: Some(log), priority: Priority::Normal }
    }

    /// A request of a metadata area.
    pub const fn metadata(cause: Cause) -> Self {
        Self { cause, log: None, priority: Priority::Normal }
    }

    fn context(self, issued: Nanos, area: Area) -> Context {
        let stream = Stream(self.log.map_or(0, |log| log.index() as u8 + 1));
        let context = Context { stream, priority: self.priority, ..Context::at(issued) };
        context.for_cause(self.cause).in_area(area)
    }
}

/// The most request times kept; older ones are dropped.
const SEEN_MOST: usize = 4096;

/// The time of a request while it had the device to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// Whether it was a write.
    pub is_write: bool,
    /// Its size in blocks.
    pub blocks: u32,
    /// Its duration, from the completion of the request before.
    pub time: Nanos,
}

/// A submitted request that was not waited for.
#[derive(Clone, Copy, Debug)]
struct Pending {
    part: usize,
    ticket: Ticket,
    told: Nanos,
}

/// The writable blocks of a volume.
#[derive(Debug)]
pub struct WritableBlocks<D> {
    blocks: DeviceBlocks<D>,
    pending: VecDeque<Pending>,
    depth: usize,
    tickets: u16,
    /// Per device: whether it was written since its last flush.
    unflushed: Vec<bool>,
    /// When the last submitted request completes, and the total time in which requests had the
    /// device to themselves.
    busy: (Nanos, Nanos),
    /// The times of the last requests, if wanted.
    seen: Option<Mutex<VecDeque<SeenRequest>>>,
    remaps: RemapsSeen,
}

impl<D: BlockDevice> WritableBlocks<D> {
    /// Makes the blocks of an arranged volume writable. Errors: `NotSupported` (a device's sectors
    /// may tear blocks, and `atomicity` forbids it); `Corrupt` (the devices end before the volume).
    pub fn new(blocks: DeviceBlocks<D>, atomicity: Atomicity, findings: Defects<'_>) -> Result<Self> {
        let block_size = blocks.geometry.block_size();
        for (number, part) in blocks.devices.parts.iter().enumerate() {
            let geometry = part.device.geometry();
            let sector = geometry.sector_size;
            if !block_size.is_multiple_of(sector as usize)
                || (sector < BLOCK_SECTOR && atomicity == Atomicity::Required)
            {
                let detail = format!(
                    "device {number} has sectors of {sector} bytes; writing F2FS needs sectors of {BLOCK_SECTOR} bytes, or larger ones that divide a block of {block_size}: \
                     a power cut may tear a block of smaller ones, which nothing on the volume would tell"
                );
                return Err(FsError::new(ErrorKind::NotSupported, detail));
            }
            if sector < BLOCK_SECTOR {
                let detail = format!(
                    "device {number} has sectors of {sector} bytes: a power cut may tear blocks of {block_size}"
                );
                findings(Defect::new(FindingKind::Note, detail));
            }
            let end = blocks.geometry.main_end() * block_size as u64;
            let used = end.saturating_sub(part.start).min(part.bytes);
            if geometry.capacity() < used {
                return Err(ends_before(part.start + geometry.capacity()));
            }
        }
        let unflushed = vec![false; blocks.devices.parts.len()];
        let (pending, busy) = (VecDeque::new(), Default::default());
        Ok(Self {
            blocks,
            pending,
            depth: DEPTH,
            tickets: 0,
            unflushed,
            busy,
            seen: None,
            remaps: RemapsSeen::default(),
        })
    }

    /// Sets whether the times of the last 4096 requests are kept for [`WritableBlocks::take_seen`].
    pub fn keep_seen(&mut self, keeps: bool) {
        self.seen = keeps.then(Mutex::default);
    }

    /// Returns the reads and writes since the last call, oldest first.
    pub fn take_seen(&mut self) -> VecDeque<SeenRequest> {
        let seen = self.seen.as_mut().map(|seen| seen.get_mut().unwrap_or_else(PoisonError::into_inner));
        seen.map(std::mem::take).unwrap_or_default()
    }

    fn see(&self, is_write: bool, blocks: u32, time: Nanos) {
        let Some(seen) = &self.seen else { return };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= SEEN_MOST {
            seen.pop_front();
        }
        seen.push_back(SeenRequest { is_write, blocks, time });
    }

    /// Limits the requests in flight; 1 waits for each.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth.clamp(1, usize::from(u16::MAX) - 1);
        self
    }

    /// Waits for all requests and returns the devices and the geometry.
    pub fn into_inner(mut self) -> DeviceBlocks<D> {
        self.drain();
        self.blocks
    }

    /// The number of requests in flight.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.pending.len()
    }

    /// The calendar time in nanoseconds since 1970.
    pub fn unix_ns(&self) -> u64 {
        self.blocks.devices.clock.unix_ns()
    }

    /// The total time of submitted requests, each counted from the completion of the one before.
    pub const fn busy(&self) -> Nanos {
        self.busy.1
    }

    /// The current time.
    pub fn now(&self) -> Nanos {
        self.blocks.devices.clock.now()
    }

    /// The location of a run of blocks: device, sector, and how many of the blocks are on that
    /// device.
    fn place(&self, at: BlockAddress, blocks: u64) -> Result<(usize, Lba, u64)> {
        let byte = u64::from(at.0) << self.blocks.geometry.log_block_size();
        let parts = &self.blocks.devices.parts;
        let number = parts.iter().position(|part| byte >= part.start && byte - part.start < part.bytes);
        let Some((number, part)) = number.and_then(|number| Some((number, parts.get(number)?))) else {
            return Err(ends_before(byte));
        };
        let within = byte - part.start;
        let here = (part.bytes - within) >> self.blocks.geometry.log_block_size();
        let sector = within / u64::from(part.device.geometry().sector_size);
        Ok((number, Lba(sector), here.min(blocks)))
    }

    fn area(&self, at: BlockAddress) -> Area {
        if at < self.blocks.geometry.main_address() { Area::Metadata } else { Area::Main }
    }

    /// Waits for one request: advances the clock to its completion, which the device may have moved
    /// meanwhile.
    fn wait(&mut self, pending: Pending) {
        let devices = &mut self.blocks.devices;
        devices.clock.advance_to(pending.told);
        let Some(part) = devices.parts.get_mut(pending.part) else { return };
        let Some(pacing) = part.device.pacing() else { return };
        loop {
            let end = pacing.end_of(pending.ticket, pending.told);
            if end <= devices.clock.now() {
                return;
            }
            devices.clock.advance_to(end);
        }
    }

    /// Makes room in the queue: removes completed requests and, if it is full, advances the clock
    /// to the first completion.
    fn make_room(&mut self) {
        let now = self.now();
        if self.blocks.devices.parts.iter_mut().all(|part| part.device.pacing().is_none()) {
            self.pending.retain(|pending| pending.told > now);
        }
        while self.pending.len() >= self.depth {
            let first = self.pending.iter().enumerate().min_by_key(|(number, pending)| (pending.told, *number));
            let Some(pending) = first.map(|(number, _)| number).and_then(|number| self.pending.remove(number)) else {
                return;
            };
            self.wait(pending);
        }
    }

    fn submit(
        &mut self,
        part: usize,
        context: impl FnOnce(Nanos) -> Context,
        request: impl FnOnce(&mut D, &Context) -> nandkit_block::Result<Done>,
    ) -> Result<Done> {
        self.try_submit(part, context, request)?.map_err(failed)
    }

    /// Like `submit`, but returns the device's own error.
    fn try_submit(
        &mut self,
        part: usize,
        context: impl FnOnce(Nanos) -> Context,
        request: impl FnOnce(&mut D, &Context) -> nandkit_block::Result<Done>,
    ) -> Result<nandkit_block::Result<Done>> {
        self.make_room();
        self.tickets = self.tickets % (u16::MAX - 1) + 1;
        let ticket = Ticket(self.tickets);
        let context = Context { ticket, ..context(self.now()) };
        let Some(place) = self.blocks.devices.parts.get_mut(part) else { return Err(ends_before(0)) };
        let done = match request(&mut place.device, &context) {
            Ok(done) => done,
            Err(error) => return Ok(Err(error)),
        };
        let (end, time) = self.busy;
        self.busy = (end.max(done.completed), time + done.completed.since(end.max(context.issued)));
        self.pending.push_back(Pending { part, ticket, told: done.completed });
        Ok(Ok(done))
    }

    /// Writes adjacent blocks, in one request per device. Each part is whole blocks. Does not wait
    /// for completion; errors are those of the submission. Errors: `Device`, `Corrupt` (outside the
    /// devices), `InvalidArgument` (not whole blocks).
    pub fn write(&mut self, what: Submission, at: BlockAddress, parts: &[Payload<'_>]) -> Result<()> {
        let (block_size, area) = (self.blocks.geometry.block_size(), self.area(at));
        if parts.iter().any(|part| !part.len().is_multiple_of(block_size)) {
            let detail = format!("a write at {at} of parts that are not whole blocks of {block_size} bytes");
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        let mut left = (Pieces::total(parts) / block_size) as u64;
        let (number, sector, here) = self.place(at, left)?;
        if here == left {
            self.set_unflushed(number);
            let (context, before) = (|issued| what.context(issued, area), self.busy());
            self.submit(number, context, |device, context| device.write_parts(context, sector, parts))?;
            self.see(true, left as u32, self.busy().since(before));
            return Ok(());
        }
        // The run crosses a device border.
        let (mut pieces, mut at) = (Pieces::new(parts), at);
        while left > 0 {
            let (number, sector, here) = self.place(at, left)?;
            let length = here as usize * block_size;
            let (before, mut buffer) = (pieces, Assembly::new());
            let parts = match pieces.split(length) {
                Some(parts) => parts,
                None => {
                    pieces = before;
                    pieces.next(length, &mut buffer).into_iter().collect()
                }
            };
            self.set_unflushed(number);
            let context = |issued| what.context(issued, area);
            self.submit(number, context, |device, context| device.write_parts(context, sector, &parts))?;
            at = BlockAddress(at.0.saturating_add(here as u32));
            left -= here;
        }
        Ok(())
    }

    fn set_unflushed(&mut self, number: usize) {
        if let Some(unflushed) = self.unflushed.get_mut(number) {
            *unflushed = true;
        }
    }

    /// Reads one [`Content`] per block from `at` on, in the form in which the device stores it, and
    /// waits. Errors: `Device`, `Corrupt` (outside the devices).
    pub fn read_contents(&self, cause: Cause, at: BlockAddress, mut into: &mut [Content]) -> Result<()> {
        let (mut at, block_size) = (at, self.blocks.geometry.block_size() as u32);
        while !into.is_empty() {
            let (number, sector, here) = self.place(at, into.len() as u64)?;
            let Some(part) = self.blocks.devices.parts.get(number) else { break };
            let context = Context::at(self.now()).for_cause(cause).in_area(self.area(at));
            let (now, later) = into.split_at_mut((here as usize).max(1).min(into.len()));
            let done = part.device.read_parts(&context, sector, block_size, now).map_err(failed)?;
            self.see(false, now.len() as u32, done.completed.since(self.busy.0.max(context.issued)));
            self.blocks.devices.clock.advance_to(done.completed);
            at = BlockAddress(at.0.saturating_add(here as u32));
            into = later;
        }
        Ok(())
    }

    /// Waits for all submitted requests.
    pub fn drain(&mut self) {
        while let Some(pending) = self.pending.pop_front() {
            self.wait(pending);
        }
    }

    /// Makes everything written durable: waits, then flushes each written device, the first one
    /// last, each starting when the writes are done. Errors: `Device`.
    pub fn flush(&mut self, cause: Cause) -> Result<()> {
        self.drain();
        for number in (0..self.unflushed.len()).rev() {
            if self.unflushed.get(number) == Some(&true) {
                self.flush_part(cause, number)?;
            }
        }
        Ok(())
    }

    fn flush_part(&mut self, cause: Cause, number: usize) -> Result<()> {
        let context = Context::at(self.now()).for_cause(cause);
        let Some(part) = self.blocks.devices.parts.get_mut(number) else { return Ok(()) };
        let done = part.device.flush(&context).map_err(failed)?;
        self.blocks.devices.clock.advance_to(done.completed);
        if let Some(unflushed) = self.unflushed.get_mut(number) {
            *unflushed = false;
        }
        Ok(())
    }

    /// Writes a block that commits a state: first makes everything before it durable, including a
    /// flush of its own device even if that was not written, then the block. Errors: `Device`,
    /// `Corrupt` (outside the devices).
    pub fn commit(&mut self, what: Submission, at: BlockAddress, block: &[u8]) -> Result<()> {
        let (number, sector, _) = self.place(at, 1)?;
        self.set_unflushed(number);
        self.flush(what.cause)?;
        let context = what.context(self.now(), self.area(at));
        let Some(part) = self.blocks.devices.parts.get_mut(number) else { return Err(ends_before(0)) };
        let done = part.device.write_durable(&context, sector, Payload::Bytes(block)).map_err(failed)?;
        self.blocks.devices.clock.advance_to(done.completed);
        Ok(())
    }

    /// Whether all devices accept discards.
    pub fn takes_discards(&mut self) -> bool {
        self.blocks.devices.parts.iter_mut().all(|part| part.device.trim().is_some())
    }

    /// Tells the devices that blocks are unused; skips devices without discards. Does not wait.
    /// Errors: `Device`.
    pub fn discard(&mut self, cause: Cause, range: std::ops::Range<u32>) -> Result<()> {
        let (mut at, mut left) = (BlockAddress(range.start), u64::from(range.end.saturating_sub(range.start)));
        while left > 0 {
            let (number, sector, here) = self.place(at, left)?;
            let area = self.area(at);
            let what = Submission { cause, log: None, priority: Priority::Background };
            let log_block = self.blocks.geometry.log_block_size();
            self.submit(
                number,
                |issued| what.context(issued, area),
                |device, context| {
                    let sectors = (here << log_block) / u64::from(device.geometry().sector_size);
                    match device.trim() {
                        Some(trim) => trim.trim(context, sector, sectors),
                        None => Ok(Done::immediately(context)),
                    }
                },
            )?;
            at = BlockAddress(at.0.saturating_add(here as u32));
            left -= here;
        }
        Ok(())
    }
}

impl<D: BlockDevice> Blocks for WritableBlocks<D> {
    fn geometry(&self) -> &Geometry {
        &self.blocks.geometry
    }

    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        let begun = self.busy.0.max(self.now());
        self.blocks.read(cause, at, into)?;
        let blocks = into.len() / self.blocks.geometry.block_size();
        self.see(false, blocks as u32, self.now().since(begun));
        Ok(())
    }

    fn read_together(&self, cause: Cause, pieces: &mut [Piece<'_>]) -> Result<()> {
        // Only a single request shows how long its size takes.
        match pieces {
            [(at, into)] => self.read(cause, *at, into),
            several => self.blocks.read_together(cause, several),
        }
    }
}

#[cold]
fn failed(error: BlockError) -> FsError {
    FsError::device("a request to the device failed", error)
}

#[cfg(test)]
mod tests;
