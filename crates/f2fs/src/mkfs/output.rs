//! Writes blocks to the device: those of logs collected into large writes, all others directly.

use nandkit_block::BlockDevice;
use nandkit_units::{Area, Cause, Clock, Context, Described, Description, Lba, Payload};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::logs::LogSegments;
use crate::checkpoint_state::SummaryBlock;
use crate::ids::{Block, BlockAddress, Log, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, Features, Geometry, SummaryEntry};

const BLOCK_SIZE: usize = 4096;
/// Blocks per write.
const GATHERED: usize = 256;

/// The device being written.
pub struct Output<'a> {
    device: &'a mut dyn BlockDevice,
    clock: &'a Clock,
    sectors_per_block: u64,
}

impl<'a> Output<'a> {
    /// Starts writing to a device. Errors: `InvalidArgument` (the sectors are larger than a block).
    pub fn new(device: &'a mut dyn BlockDevice, clock: &'a Clock) -> Result<Self> {
        let sector = u64::from(device.geometry().sector_size);
        match (BLOCK_SIZE as u64).is_multiple_of(sector) {
            true => Ok(Self { device, clock, sectors_per_block: BLOCK_SIZE as u64 / sector }),
            false => {
                let detail = format!("a device with sectors of {sector} bytes; F2FS takes up to {BLOCK_SIZE}");
                Err(FsError::new(ErrorKind::InvalidArgument, detail))
            }
        }
    }

    fn context(&self, area: Area) -> Context {
        Context::at(self.clock.now()).for_cause(Cause::Format).in_area(area)
    }

    fn lba(&self, at: BlockAddress) -> Lba {
        Lba(u64::from(at.0) * self.sectors_per_block)
    }

    fn put(&mut self, area: Area, at: BlockAddress, payload: Payload<'_>) -> Result<()> {
        let (context, lba) = (self.context(area), self.lba(at));
        let done = self.device.write(&context, lba, payload);
        let done = done.map_err(|error| FsError::device(format!("writing {at}"), error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }

    /// Writes blocks of the metadata areas.
    pub fn metadata(&mut self, at: BlockAddress, bytes: &[u8]) -> Result<()> {
        self.put(Area::Metadata, at, Payload::Bytes(bytes))
    }

    /// Writes single metadata blocks.
    pub fn blocks(&mut self, blocks: &[(BlockAddress, Block)]) -> Result<()> {
        blocks.iter().try_for_each(|(at, block)| self.metadata(*at, block))
    }

    /// Makes everything durable.
    pub fn flush(&mut self) -> Result<()> {
        let context = self.context(Area::Metadata);
        let done = self.device.flush(&context).map_err(|error| FsError::device("flushing a new volume", error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }

    /// Discards the whole device if it supports that; returns whether it reads as zeroes now.
    pub fn discard(&mut self) -> Result<bool> {
        let (context, sectors) = (self.context(Area::Main), self.device.geometry().sectors);
        let Some(trim) = self.device.trim() else { return Ok(false) };
        let done = trim.trim(&context, Lba(0), sectors).map_err(|error| FsError::device("discarding", error))?;
        self.clock.advance_to(done.completed);
        Ok(true)
    }

    /// Writes zeroes, unless the device is known to read as zeroes there.
    pub fn zero(&mut self, at: BlockAddress, blocks: u32) -> Result<()> {
        let (mut lba, end) = (self.lba(at).0, self.lba(at).0 + u64::from(blocks) * self.sectors_per_block);
        let sector = BLOCK_SIZE as u64 / self.sectors_per_block;
        while lba < end {
            let extent = self.device.extent(Lba(lba), end - lba);
            let sectors = extent.sectors.clamp(1, (1 << 20) / sector);
            if extent.holds {
                let length = (sectors.min(end - lba) * sector) as u32;
                let context = self.context(Area::Metadata);
                let zeroes = Payload::Described(Described { description: Description::default(), length });
                let done = self.device.write(&context, Lba(lba), zeroes);
                let done = done.map_err(|error| FsError::device(format!("writing zeroes at {at}"), error))?;
                self.clock.advance_to(done.completed);
                lba += sectors.min(end - lba);
            } else {
                lba += extent.sectors.max(1);
            }
        }
        Ok(())
    }
}

/// One log while it is being filled.
#[derive(Debug, Default)]
struct LogState {
    /// The number of blocks so far.
    next: u32,
    /// Blocks not yet written.
    gathered: Vec<u8>,
    /// The address of the first of them.
    start: u32,
    /// The owners of the current segment's blocks.
    summary: Vec<SummaryEntry>,
}

/// The logs of a new volume.
pub struct LogWriter<'a> {
    output: Output<'a>,
    segments: LogSegments,
    geometry: Geometry,
    states: [LogState; Log::COUNT],
}

/// The final position of a log.
#[derive(Clone, Debug)]
pub struct LogEnd {
    /// The segments that it filled.
    pub full: Vec<SegmentIndex>,
    /// The segment being filled.
    pub segment: SegmentIndex,
    /// The next block in it.
    pub next: u16,
    /// The owners of its blocks.
    pub summary: SummaryBlock,
}

impl<'a> LogWriter<'a> {
    /// Starts all logs empty.
    pub fn new(output: Output<'a>, segments: LogSegments, geometry: Geometry) -> Self {
        Self { output, segments, geometry, states: Default::default() }
    }

    /// The address of a log's block after the next one, which the next node's footer names.
    pub fn after_next(&self, log: Log) -> BlockAddress {
        let next = self.states.get(log.index()).map_or(0, |state| state.next);
        self.segments.address(log, next + 1)
    }

    /// Takes up to `most` adjacent blocks of a log and lets `fill` fill their bytes, which start as
    /// zero. `entries` gives their owners. Returns the first address and the number of blocks.
    pub fn append(
        &mut self,
        log: Log,
        most: u32,
        entry: &mut dyn FnMut(u32) -> SummaryEntry,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<(BlockAddress, u32)> {
        let Some(state) = self.states.get_mut(log.index()) else { return Ok((BlockAddress(0), 0)) };
        let address = self.segments.address(log, state.next);
        let gathered = state.gathered.len() / BLOCK_SIZE;
        if gathered > 0 && (gathered >= GATHERED || state.start + gathered as u32 != address.0) {
            self.output.put(Area::Main, BlockAddress(state.start), Payload::Bytes(&state.gathered))?;
            state.gathered.clear();
        }
        let before = state.gathered.len();
        if before == 0 {
            state.start = address.0;
        }
        let room = (GATHERED - before / BLOCK_SIZE) as u32;
        let count = most.min(BLOCKS_PER_SEGMENT - state.next % BLOCKS_PER_SEGMENT).min(room);
        state.gathered.resize(before + count as usize * BLOCK_SIZE, 0);
        fill(state.gathered.get_mut(before..).unwrap_or(&mut []))?;
        state.summary.extend((0..count).map(entry));
        let segment = state.next / BLOCKS_PER_SEGMENT;
        state.next += count;
        if state.next / BLOCKS_PER_SEGMENT != segment {
            self.close_segment(log, address)?;
        }
        Ok((address, count))
    }

    /// Writes the summary of a full segment to the SSA; read-only volumes have none.
    fn close_segment(&mut self, log: Log, within: BlockAddress) -> Result<()> {
        let Some(state) = self.states.get_mut(log.index()) else { return Ok(()) };
        let summary = SummaryBlock { entries: std::mem::take(&mut state.summary) };
        if self.geometry.features.has(Features::READ_ONLY) {
            return Ok(());
        }
        let Some((segment, _)) = self.geometry.main(within) else { return Ok(()) };
        self.output.metadata(self.geometry.ssa(segment), &summary.to_bytes(log.is_node(), BLOCK_SIZE))
    }

    /// Writes the collected blocks. Returns the position of each log, by [`Log::index`], and the
    /// device.
    pub fn finish(mut self) -> Result<([LogEnd; Log::COUNT], Output<'a>)> {
        let mut ends = Vec::new();
        for (log, state) in Log::ALL.into_iter().zip(&mut self.states) {
            if !state.gathered.is_empty() {
                self.output.put(Area::Main, BlockAddress(state.start), Payload::Bytes(&state.gathered))?;
            }
            let mut full: Vec<SegmentIndex> = self.segments.of(log).collect();
            let segment = full.pop().unwrap_or(SegmentIndex(0));
            let mut summary = SummaryBlock { entries: std::mem::take(&mut state.summary) };
            summary.entries.resize(BLOCKS_PER_SEGMENT as usize, SummaryEntry::default());
            ends.push(LogEnd { full, segment, next: (state.next % BLOCKS_PER_SEGMENT) as u16, summary });
        }
        let ends = ends.try_into().map_err(|_| FsError::new(ErrorKind::InvalidArgument, "a log is missing"))?;
        Ok((ends, self.output))
    }
}
