//! Drives a block device with a stream of block operations.

use std::ops::ControlFlow;

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation};
use nandkit_units::{Clock, Content, Context, Described, Done, Lba, Payload, ReadInto};

use super::ahead::Ahead;
use super::explain;
use super::ledger::{Expectation, Ledger, NoLedger, SectorLedger, UnitLedger};
use super::queue::{PacedQueue, Queue, ToldQueue};
use crate::error::{Result, WorkloadError};
use crate::operation::{BlockOperation, BlockOperationKind, BlockWorkload, Phase};
use crate::report::{DriverReport, PhaseReport, Progress, ProgressSink, Windows};

/// A request larger than this goes to the device in pieces that are issued together, as an
/// operating system's block layer does. The size also bounds the cost of making a page's bytes from
/// the description of its request.
pub const PIECE_BYTES_MAX: u32 = 64 << 10;

/// How many operations pass between two calls of the progress sink.
const BATCH: u32 = 4096;

#[derive(Debug)]
enum AnyLedger {
    /// Before the first phase.
    Undecided,
    Nothing(NoLedger),
    Units(UnitLedger),
    Sectors(SectorLedger),
}

/// Applies block operations to a device, measures them in simulated time, and compares what it
/// reads with what was written.
///
/// A closed loop of depth n keeps n operations outstanding; a flush waits for all of them, and they
/// for it. Operations that arrive at stated instants (open loop) are issued then, however many are
/// outstanding, and their latency counts from their arrival.
///
/// A device that has [`Pacing`](nandkit_units::Pacing) is told the instant of each operation before
/// it, and asked for the ends of those that are outstanding until they are final; latencies are
/// those of final ends. An error drops the phase's report, and with it the latencies of what is
/// outstanding; the clock goes on to where that has ended.
#[derive(Debug)]
pub struct BlockDriver {
    clock: Clock,
    verify: bool,
    ledger: AnyLedger,
    core: Core,
}

/// The driver without the ledger, so that the loop can be compiled for each kind of ledger.
#[derive(Debug)]
struct Core {
    geometry: BlockGeometry,
    piece_sectors: u32,
    report: DriverReport,
    operations: u64,
    found: Content,
    wanted: Vec<u8>,
}

impl BlockDriver {
    /// A driver for devices of this geometry, starting at the clock's instant. With `verify` reads
    /// are compared as they happen, and [`BlockDriver::verify_all`] compares every written sector
    /// at the end.
    pub fn new(geometry: BlockGeometry, clock: Clock, verify: bool) -> Self {
        let core = Core {
            geometry,
            piece_sectors: (PIECE_BYTES_MAX / geometry.sector_size.max(1)).max(1),
            report: DriverReport::default(),
            operations: 0,
            found: Content::new(),
            wanted: Vec::new(),
        };
        Self { clock, verify, ledger: AnyLedger::Undecided, core }
    }

    /// The counts so far.
    pub const fn report(&self) -> &DriverReport {
        &self.core.report
    }

    /// Applies one phase of the workload, whose unit must not change between phases, and waits for
    /// the last completion. The clock goes on at least every few thousand operations. Phases
    /// without operations leave no report.
    pub fn run_phase<W: BlockWorkload + ?Sized, D: BlockDevice + ?Sized>(
        &mut self,
        phase: Phase,
        workload: &mut W,
        device: &mut D,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        self.run(phase, workload, device, None, progress)
    }

    /// Applies a phase like [`Self::run_phase`], with the operations that the workload has for
    /// [`Phase::Measure`], whatever phase they are reported as. The phase is divided into windows,
    /// and ends when the operations do or when `windows` stops it.
    pub fn run_windows<W: BlockWorkload + ?Sized, D: BlockDevice + ?Sized>(
        &mut self,
        phase: Phase,
        workload: &mut W,
        device: &mut D,
        windows: Windows<'_>,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        self.run(phase, workload, device, Some(windows), progress)
    }

    fn run<W: BlockWorkload + ?Sized, D: BlockDevice + ?Sized>(
        &mut self,
        phase: Phase,
        workload: &mut W,
        device: &mut D,
        windows: Option<Windows<'_>>,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        if matches!(self.ledger, AnyLedger::Undecided) {
            self.ledger = match workload.unit_sectors() {
                _ if !self.verify => AnyLedger::Nothing(NoLedger::default()),
                Some(unit) if unit <= self.core.piece_sectors => AnyLedger::Units(UnitLedger::new(unit)),
                _ => AnyLedger::Sectors(SectorLedger::new(self.core.geometry.sector_size)),
            };
        }
        // Pieces must not straddle units.
        if let AnyLedger::Units(_) = self.ledger
            && let Some(unit) = workload.unit_sectors()
        {
            self.core.piece_sectors = unit;
        }
        let (core, clock) = (&mut self.core, &self.clock);
        match &mut self.ledger {
            AnyLedger::Undecided => Ok(()),
            AnyLedger::Nothing(ledger) => core.run_phase(phase, workload, device, (ledger, windows), clock, progress),
            AnyLedger::Units(ledger) => core.run_phase(phase, workload, device, (ledger, windows), clock, progress),
            AnyLedger::Sectors(ledger) => core.run_phase(phase, workload, device, (ledger, windows), clock, progress),
        }
    }

    /// Reads every sector back that the workload wrote or trimmed, and compares. Does nothing where
    /// the driver does not verify. Takes simulated time, which no phase counts.
    pub fn verify_all<D: BlockDevice + ?Sized>(&mut self, device: &mut D, progress: ProgressSink<'_>) -> Result<()> {
        let (core, clock) = (&mut self.core, &self.clock);
        match &self.ledger {
            AnyLedger::Undecided | AnyLedger::Nothing(_) => Ok(()),
            AnyLedger::Units(ledger) => core.verify_all(device, ledger, clock, progress),
            AnyLedger::Sectors(ledger) => core.verify_all(device, ledger, clock, progress),
        }
    }
}

impl Core {
    fn run_phase<W: BlockWorkload + ?Sized, D: BlockDevice + ?Sized, L: Ledger>(
        &mut self,
        phase: Phase,
        workload: &mut W,
        device: &mut D,
        (ledger, windows): (&mut L, Option<Windows<'_>>),
        clock: &Clock,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        let total = match &windows {
            None => workload.begin(phase),
            // How long it goes on is not known.
            Some(_) => workload.begin(Phase::Measure).and(None),
        };
        let (start, depth) = (clock.now(), workload.queue_depth().max(1) as usize);
        let mut report = PhaseReport::new(phase, start);
        if device.pacing().is_none() {
            let mut queue = ToldQueue::new(depth, start);
            let parts = (ledger, windows, total);
            let done = self.run_queue(workload, device, parts, (&mut queue, &mut report), clock, progress)?;
            self.end_phase(report, &queue, done, clock, progress);
            return Ok(());
        }
        // The calls that ask for ends are not inlined anyway, so one loop serves all devices.
        let mut device = device;
        let device: &mut dyn BlockDevice = &mut device;
        let mut queue = PacedQueue::new(depth, start);
        let parts = (ledger, windows, total);
        let done = self.run_queue(workload, device, parts, (&mut queue, &mut report), clock, progress);
        // After an error, too, the clock goes on until nothing is outstanding.
        queue.finish(device, &mut report);
        clock.advance_to(queue.ended());
        self.end_phase(report, &queue, done?, clock, progress);
        Ok(())
    }

    /// Waits for the last completion and files the report.
    fn end_phase(
        &mut self,
        mut report: PhaseReport,
        queue: &impl Queue,
        done: u64,
        clock: &Clock,
        progress: ProgressSink<'_>,
    ) {
        clock.advance_to(queue.ended());
        report.ended = queue.ended().max(queue.now());
        if done > 0 {
            let _ = progress(report.progress(done, Some(done), report.ended));
            self.report.phases.push(report);
        }
    }

    /// Applies the operations of a phase; returns how many there were.
    fn run_queue<W: BlockWorkload + ?Sized, D: BlockDevice + ?Sized, L: Ledger, Q: Queue>(
        &mut self,
        workload: &mut W,
        device: &mut D,
        (ledger, mut windows, total): (&mut L, Option<Windows<'_>>, Option<u64>),
        (queue, report): (&mut Q, &mut PhaseReport),
        clock: &Clock,
        progress: ProgressSink<'_>,
    ) -> Result<u64> {
        let unit = u64::from(workload.unit_sectors().unwrap_or(1)) * u64::from(self.geometry.sector_size.max(1));
        let mut window_ends = windows.as_ref().map_or(u64::MAX, |windows| windows.bytes.max(1));
        let mut done = 0;
        loop {
            // No operation writes less than a unit, so that no window goes on for long behind its
            // end.
            let to_end = (window_ends - report.user_bytes_written).div_ceil(unit);
            let most = u32::try_from(to_end).unwrap_or(BATCH).min(BATCH);
            let count = self.run_batch(most, workload, device, ledger, queue, report)?;
            done += u64::from(count);
            clock.advance_to(queue.now());
            if count < most {
                return Ok(done);
            }
            if let Some(windows) = &mut windows
                && report.user_bytes_written >= window_ends
            {
                window_ends = report.user_bytes_written.saturating_add(windows.bytes.max(1));
                if (windows.ended)(report) == ControlFlow::Break(()) {
                    return Ok(done);
                }
            }
            let step = report.progress(done, total, queue.now());
            if progress(step) == ControlFlow::Break(()) {
                return Err(WorkloadError::Cancelled { operations: self.operations });
            }
        }
    }

    /// Applies up to `most` operations; fewer only at the end of the phase.
    #[inline]
    fn run_batch<W: BlockWorkload + ?Sized, D: BlockDevice + ?Sized, L: Ledger, Q: Queue>(
        &mut self,
        most: u32,
        workload: &mut W,
        device: &mut D,
        ledger: &mut L,
        queue: &mut Q,
        report: &mut PhaseReport,
    ) -> Result<u32> {
        let mut ahead = Ahead::new(most);
        for count in 0..most {
            let Some(operation) = ahead.next(workload, device)? else { return Ok(count) };
            let issue = queue.issue(&operation, device, report);
            let context = issue.context();
            let bytes = operation.bytes;
            let done = match operation.kind {
                BlockOperationKind::Write => {
                    report.user_bytes_written += bytes;
                    self.write(&context, &operation, device, ledger)
                }
                BlockOperationKind::Read => {
                    report.user_bytes_read += bytes;
                    self.read::<D, L>(&context, &operation, device, ledger)
                }
                BlockOperationKind::Flush => device.flush(&context).map_err(|source| self.failed(&operation, source)),
                BlockOperationKind::Trim => self.trim(&context, &operation, device, ledger),
                BlockOperationKind::Share { source } => self.share(&context, (&operation, source), device, ledger),
            };
            let done = match done {
                Ok(done) => done,
                Err(error) => {
                    queue.refuse(&operation, issue);
                    return Err(error);
                }
            };
            queue.complete(&operation, issue, done.completed, report);
            self.operations += 1;
        }
        Ok(most)
    }

    #[cold]
    fn failed(&self, operation: &BlockOperation, source: BlockError) -> WorkloadError {
        let operation = format!("{:?} of {} sectors at {}", operation.kind, operation.sectors, operation.at);
        WorkloadError::Block { index: self.operations, operation, source }
    }

    #[inline(always)]
    fn write<D: BlockDevice + ?Sized, L: Ledger>(
        &self,
        context: &Context,
        operation: &BlockOperation,
        device: &mut D,
        ledger: &mut L,
    ) -> Result<Done> {
        let mut done = Done::immediately(context);
        let (mut at, mut left) = (operation.at, operation.sectors);
        // Refused before the ledger grows to an address that no device has.
        self.check_range(operation)?;
        while left > 0 {
            let sectors = left.min(self.piece_sectors);
            let length = sectors * self.geometry.sector_size;
            let description = ledger.write(at.0, sectors);
            let piece = device
                .write(context, at, Payload::Described(Described { description, length }))
                .map_err(|source| self.failed(operation, source))?;
            done = done.and(piece);
            at = at.plus(u64::from(sectors));
            left -= sectors;
        }
        Ok(done)
    }

    #[inline]
    fn check_range(&self, operation: &BlockOperation) -> Result<()> {
        let end = operation.at.0.checked_add(u64::from(operation.sectors));
        if end.is_some_and(|end| end <= self.geometry.sectors) {
            return Ok(());
        }
        let of = match operation.kind {
            BlockOperationKind::Trim => Operation::Trim,
            BlockOperationKind::Read => Operation::Read,
            BlockOperationKind::Share { .. } => Operation::Remap,
            _ => Operation::Write,
        };
        let detail = format!("the device has {} sectors", self.geometry.sectors);
        Err(self.failed(operation, BlockError::new(ErrorKind::OutOfRange, of, operation.at, detail)))
    }

    #[inline]
    fn read<D: BlockDevice + ?Sized, L: Ledger>(
        &mut self,
        context: &Context,
        operation: &BlockOperation,
        device: &D,
        ledger: &L,
    ) -> Result<Done> {
        self.check_range(operation)?;
        let mut done = Done::immediately(context);
        let (mut at, mut left) = (operation.at, operation.sectors);
        while left > 0 {
            let sectors = left.min(self.piece_sectors);
            let length = sectors * self.geometry.sector_size;
            let into = if L::REMEMBERS {
                ReadInto::Content { content: &mut self.found, length }
            } else {
                ReadInto::Nothing { length }
            };
            let piece = device.read(context, at, into).map_err(|source| self.failed(operation, source))?;
            if L::REMEMBERS {
                self.compare(at, sectors, ledger)?;
            }
            done = done.and(piece);
            at = at.plus(u64::from(sectors));
            left -= sectors;
        }
        Ok(done)
    }

    fn trim<D: BlockDevice + ?Sized, L: Ledger>(
        &self,
        context: &Context,
        operation: &BlockOperation,
        device: &mut D,
        ledger: &mut L,
    ) -> Result<Done> {
        self.check_range(operation)?;
        // A device without trim keeps its content, as a disk does, so nothing is expected to
        // change.
        let Some(trim) = device.trim() else { return Ok(Done::immediately(context)) };
        let sectors = u64::from(operation.sectors);
        let done = trim.trim(context, operation.at, sectors).map_err(|source| self.failed(operation, source))?;
        ledger.trim(operation.at.0, sectors);
        Ok(done)
    }

    /// Issues one command with a pair for each unit that the device remaps.
    #[cold]
    fn share<D: BlockDevice + ?Sized, L: Ledger>(
        &self,
        context: &Context,
        (operation, source): (&BlockOperation, Lba),
        device: &mut D,
        ledger: &mut L,
    ) -> Result<Done> {
        self.check_range(operation)?;
        let refused =
            |kind, detail: String| self.failed(operation, BlockError::new(kind, Operation::Remap, source, detail));
        let Some(remap) = device.remap() else {
            let detail =
                "the device remaps nothing; expected one that does, as the page-mapped layer with journal = true";
            return Err(refused(ErrorKind::Unfit, detail.to_string()));
        };
        let unit = remap.unit() / self.geometry.sector_size.max(1);
        if unit == 0 || !operation.sectors.is_multiple_of(unit) {
            let detail =
                format!("the device remaps units of {} bytes; expected blocks of a multiple of it", remap.unit());
            return Err(refused(ErrorKind::Unfit, detail));
        }
        let steps = (0..u64::from(operation.sectors)).step_by(unit as usize);
        let pairs: Vec<(Lba, Lba)> = steps.map(|step| (source.plus(step), operation.at.plus(step))).collect();
        let done = remap.share(context, &pairs).map_err(|source| self.failed(operation, source))?;
        ledger.share(operation.at.0, source.0);
        Ok(done)
    }

    /// Compares what was read (`self.found`) of the sectors from `at` on with what must be there.
    #[inline]
    fn compare<L: Ledger>(&mut self, at: Lba, sectors: u32, ledger: &L) -> Result<()> {
        let length = sectors * self.geometry.sector_size;
        if let (Expectation::Written(description), run) = ledger.expectation(at.0, sectors)
            && run == sectors
            && self.found.described() == Some(Described { description, length })
        {
            self.report.verified_bytes += u64::from(length);
            return Ok(());
        }
        self.compare_bytes(at, sectors, ledger)
    }

    #[cold]
    fn compare_bytes<L: Ledger>(&mut self, at: Lba, sectors: u32, ledger: &L) -> Result<()> {
        let sector_size = self.geometry.sector_size as usize;
        let found = self.found.to_bytes();
        if found.len() != sectors as usize * sector_size {
            let detail = format!("{} bytes were read, expected {}", found.len(), sectors as usize * sector_size);
            return Err(WorkloadError::Mismatch { place: at.to_string(), detail });
        }
        let mut sector = 0;
        while sector < sectors {
            let (expectation, run) = ledger.expectation(at.0 + u64::from(sector), sectors - sector);
            let bytes = run as usize * sector_size;
            let part = found.get(sector as usize * sector_size..).and_then(|rest| rest.get(..bytes)).unwrap_or(&[]);
            self.wanted.resize(bytes, 0);
            match expectation {
                Expectation::Unknown => {
                    sector += run;
                    continue;
                }
                Expectation::Zeroes => self.wanted.fill(0),
                Expectation::Written(description) => description.generate(&mut self.wanted),
            }
            let differs = part.chunks(sector_size).zip(self.wanted.chunks(sector_size)).position(|(a, b)| a != b);
            if let Some(differs) = differs {
                let detail = match expectation {
                    Expectation::Written(description) => explain(Described { description, length: bytes as u32 }, part),
                    _ => "expected zeroes after a trim".to_string(),
                };
                let place = at.plus(u64::from(sector) + differs as u64).to_string();
                return Err(WorkloadError::Mismatch { place, detail });
            }
            self.report.verified_bytes += bytes as u64;
            sector += run;
        }
        Ok(())
    }

    fn verify_all<D: BlockDevice + ?Sized, L: Ledger>(
        &mut self,
        device: &mut D,
        ledger: &L,
        clock: &Clock,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        let sectors_in_all = self.geometry.sectors;
        let (mut at, mut checked, mut reads) = (0, 0, 0u32);
        while let Some(next) = ledger.next_known(at) {
            if next >= sectors_in_all {
                break;
            }
            let most = u64::from(self.piece_sectors).min(sectors_in_all - next) as u32;
            let (expectation, run) = ledger.expectation(next, most);
            at = next + u64::from(run);
            if expectation == Expectation::Unknown {
                continue;
            }
            let operation =
                BlockOperation { kind: BlockOperationKind::Read, at: Lba(next), sectors: run, bytes: 0, arrival: None };
            let done = self.read::<D, L>(&Context::at(clock.now()), &operation, device, ledger)?;
            clock.advance_to(done.completed);
            checked += u64::from(run);
            reads += 1;
            if reads.is_multiple_of(BATCH) {
                let step = Progress::apart(None, at, sectors_in_all, clock.now());
                if progress(step) == ControlFlow::Break(()) {
                    return Err(WorkloadError::Cancelled { operations: self.operations });
                }
            }
        }
        self.report.verified_at_end = Some(checked);
        Ok(())
    }
}
