//! Replays a trace on blocks and on files.

use nandkit_block::BlockGeometry;
use nandkit_units::{Description, Generator, Lba, Nanos};

use super::fit::{Ground, Layout, beyond};
use super::reader::{TraceOperation, TraceReader, TraceSummary};
use super::{Timing, Trace};
use crate::error::{Result, SpecError, WorkloadError};
use crate::inputs::Inputs;
use crate::operation::{
    BlockOperation, BlockOperationKind, BlockWorkload, FileData, FileOperation, FileSlot, FileWorkload, Phase,
};

/// Bytes of each write of the fill.
const FILL_PIECE: u64 = 64 << 10;

fn open(spec: &Trace, inputs: &dyn Inputs) -> Result<TraceReader> {
    let input = inputs.open(&spec.file).map_err(|source| WorkloadError::Input {
        path: spec.file.clone(),
        detail: format!("cannot be opened: {source}"),
        source: Some(source),
    })?;
    TraceReader::new(spec, input)
}

/// A trace that was read through, laid out, and opened again.
struct Prepared {
    reader: TraceReader,
    layout: Layout,
    operations: u64,
}

fn prepare(spec: &Trace, inputs: &dyn Inputs, ground: Ground, available: u64) -> Result<Prepared> {
    spec.check()?;
    let summary = TraceSummary::of(spec, open(spec, inputs)?, &|| inputs.is_stopped())?;
    match Layout::new(spec.fit, &summary, available) {
        Ok(layout) => Ok(Prepared { reader: open(spec, inputs)?, layout, operations: summary.operations }),
        Err(too_large) => {
            Err(beyond(spec, &summary, open(spec, inputs)?, (ground, available), &too_large, &|| inputs.is_stopped()))
        }
    }
}

impl Prepared {
    fn next(&mut self, left: &mut u64) -> Result<Option<TraceOperation>> {
        if *left == 0 {
            return Ok(None);
        }
        *left -= 1;
        self.reader.next_operation()
    }
}

/// A trace on a block device.
pub struct TraceBlocks {
    spec: Trace,
    prepared: Prepared,
    geometry: BlockGeometry,
    phase: Phase,
    /// Operations still to come in the phase.
    left: u64,
    filled: u64,
    fill_end: u64,
}

impl TraceBlocks {
    /// Reads the trace through and lays it out on the device.
    pub fn new(spec: Trace, inputs: &dyn Inputs, geometry: &BlockGeometry) -> Result<Self> {
        let prepared = prepare(&spec, inputs, Ground::Blocks, geometry.capacity())?;
        let fill_end = prepared.layout.regions.last().map_or(0, |region| region.base + region.size);
        Ok(Self { spec, prepared, geometry: *geometry, phase: Phase::Fill, left: 0, filled: 0, fill_end })
    }

    fn next_fill(&mut self) -> Option<BlockOperation> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let at = self.filled;
        self.filled = (at + FILL_PIECE).min(self.fill_end);
        self.operation(BlockOperationKind::Write, at, self.filled - at, None)
    }

    /// The operation extended to whole sectors.
    fn operation(
        &self,
        kind: BlockOperationKind,
        at: u64,
        length: u64,
        arrival: Option<Nanos>,
    ) -> Option<BlockOperation> {
        let sector_size = u64::from(self.geometry.sector_size.max(1));
        let first = at / sector_size;
        let end = at.saturating_add(length).div_ceil(sector_size).min(self.geometry.sectors);
        let sectors = u32::try_from(end.saturating_sub(first)).ok()?;
        // The bytes that the trace asks for, shortened where the operation was.
        let bytes = length.min(u64::from(sectors) * sector_size);
        Some(BlockOperation { kind, at: Lba(first), sectors, bytes, arrival })
    }
}

/// The instant divided by the speed.
fn faster(instant: Nanos, speed: f64) -> Nanos {
    if speed == 1.0 { instant } else { Nanos((instant.0 as f64 / speed) as u64) }
}

impl BlockWorkload for TraceBlocks {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        self.filled = 0;
        self.left = match phase {
            Phase::Fill if self.spec.fill => self.fill_end.div_ceil(FILL_PIECE),
            Phase::Fill | Phase::Age => 0,
            Phase::Measure => self.prepared.operations,
        };
        Some(self.left)
    }

    fn next_operation(&mut self) -> Result<Option<BlockOperation>> {
        if self.phase != Phase::Measure {
            return Ok(self.next_fill());
        }
        while let Some(traced) = self.prepared.next(&mut self.left)? {
            let arrival = (self.spec.timing == Timing::Recorded).then(|| faster(traced.time, self.spec.speed));
            if traced.kind == BlockOperationKind::Flush {
                return Ok(Some(BlockOperation { kind: traced.kind, at: Lba(0), sectors: 0, bytes: 0, arrival }));
            }
            let Some((region, offset, length)) = self.prepared.layout.place(traced.name, traced.offset, traced.length)
            else {
                continue;
            };
            if length > 0
                && let Some(operation) = self.operation(traced.kind, region.base + offset, length, arrival)
            {
                return Ok(Some(operation));
            }
        }
        Ok(None)
    }

    fn queue_depth(&self) -> u32 {
        self.spec.queue_depth as u32
    }
}

/// A trace on files: `trace0`, `trace1`, ... one for each of its names. Trims are left out: a file
/// has no such operation.
pub struct TraceFiles {
    spec: Trace,
    prepared: Prepared,
    phase: Phase,
    left: u64,
    /// The file being made, and how far it is filled; `None` before it is created.
    making: usize,
    filled: Option<u64>,
    records: u64,
    /// The operation that follows its arrival.
    pending: Option<FileOperation>,
    synced: bool,
}

/// Part of a volume's free space that a trace's files may take; the rest is for the file system's
/// metadata and cleaning.
const SHARE_OF_FREE: (u64, u64) = (4, 5);

impl TraceFiles {
    /// Reads the trace through and lays it out in files.
    pub fn new(spec: Trace, inputs: &dyn Inputs, free_bytes: u64) -> Result<Self> {
        if spec.queue_depth > 1 {
            let detail = "queue_depth above 1 is possible on a block device only: file systems answer one by one";
            return Err(SpecError::Conflict { workload: "trace", detail: detail.to_string() }.into());
        }
        let available = free_bytes / SHARE_OF_FREE.1 * SHARE_OF_FREE.0;
        let prepared = prepare(&spec, inputs, Ground::Files { free_bytes }, available)?;
        Ok(Self {
            spec,
            prepared,
            phase: Phase::Fill,
            left: 0,
            making: 0,
            filled: None,
            records: 0,
            pending: None,
            synced: false,
        })
    }

    fn write(&mut self, slot: FileSlot, offset: u64, length: u64) -> FileOperation {
        let record = self.records;
        self.records += 1;
        let data = FileData::Described(Description { record, version: 0, offset: 0, generator: Generator::Record });
        FileOperation::Write { slot, offset, length: length as u32, data }
    }

    fn next_fill(&mut self) -> Option<FileOperation> {
        while let Some(region) = self.prepared.layout.regions.get(self.making).copied() {
            let slot = FileSlot(self.making as u32 + 1);
            let Some(filled) = self.filled else {
                self.filled = Some(0);
                let name = format!("trace{}", self.making).into_bytes();
                return Some(FileOperation::Create { slot, parent: FileSlot::ROOT, name });
            };
            if self.spec.fill && filled < region.size {
                let length = FILL_PIECE.min(region.size - filled);
                self.filled = Some(filled + length);
                return Some(self.write(slot, filled, length));
            }
            self.making += 1;
            self.filled = None;
        }
        (!std::mem::replace(&mut self.synced, true)).then_some(FileOperation::Sync { slot: None })
    }

    fn operation(&mut self, traced: &TraceOperation) -> Option<FileOperation> {
        let slot = FileSlot(traced.name + 1);
        if traced.kind == BlockOperationKind::Flush {
            return Some(FileOperation::Sync { slot: Some(slot) });
        }
        let (_, offset, length) = self.prepared.layout.place(traced.name, traced.offset, traced.length)?;
        // One below 4 GiB: the greatest length that an operation on a file has.
        let length = length.min(u64::from(u32::MAX));
        match traced.kind {
            _ if length == 0 => None,
            BlockOperationKind::Write => Some(self.write(slot, offset, length)),
            BlockOperationKind::Read => Some(FileOperation::Read { slot, offset, length: length as u32 }),
            BlockOperationKind::Flush | BlockOperationKind::Trim | BlockOperationKind::Share { .. } => None,
        }
    }
}

impl FileWorkload for TraceFiles {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        self.left = self.prepared.operations;
        (phase == Phase::Measure).then_some(self.left)
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        match self.phase {
            Phase::Fill => return Ok(self.next_fill()),
            Phase::Age => return Ok(None),
            Phase::Measure => {}
        }
        if let Some(pending) = self.pending.take() {
            return Ok(Some(pending));
        }
        while let Some(traced) = self.prepared.next(&mut self.left)? {
            let Some(operation) = self.operation(&traced) else { continue };
            if self.spec.timing == Timing::Recorded {
                self.pending = Some(operation);
                return Ok(Some(FileOperation::Arrive { at: traced.time }));
            }
            return Ok(Some(operation));
        }
        Ok(None)
    }
}
