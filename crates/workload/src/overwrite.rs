//! `overwrite`: files filled in order, then records overwritten by a fixed sequence.
//!
//! The sequence is the one with which the Linux kernel's file systems were measured, so that
//! figures can be compared one to one. With N = files * (file_size / record) records and R records
//! per file, record i is in file i/R ("f%04d") at (i%R)*record; `next()` is xorshift64 (13, 7, 17).
//!
//! | pattern | record |
//! | --- | --- |
//! | seq | k mod N for the k-th write |
//! | rnd | next() mod N |
//! | hcf | u = next() mod 100; c = 0 if u < 60 else 1; j = next() mod (N/8); (8*(j/R)+c)*R + j%R: whole files are hot |
//! | hcc | c*(N/8) + j: one contiguous eighth is hot |
//! | hci | j*8 + c: every eighth record is hot |
//!
//! The content is record i, version v, v counting the writes of the record from 0 (the fill).
//!
//! With `stale` the volume is a used one when the sequence begins: between the fill and the
//! sequence so many records of every `stale_span` bytes of data are written once more, in ascending
//! order, evenly spaced from the first one on. The sequence itself stays the same.

use nandkit_block::BlockGeometry;
use nandkit_units::random::hash;
use nandkit_units::{Description, Generator, Lba};

use crate::error::{Result, SpecError, WorkloadError};
use crate::operation::{
    BlockOperation, BlockOperationKind, BlockWorkload, FileData, FileOperation, FileSlot, FileWorkload, Phase,
};
use crate::parameters::{choices, parameters};

/// The generator's start value: Marsaglia's example for xorshift64 (2003), with which the kernel
/// was measured.
pub const START: u64 = 88_172_645_463_325_252;

choices! {
    /// Which records are overwritten.
    pub enum Pattern {
        /// In order.
        Seq = "seq",
        /// Uniformly at random.
        Rnd = "rnd",
        /// 60 % of the writes on one eighth of the data, 40 % on another; the hot data are whole
        /// files.
        Hcf = "hcf",
        /// As hcf, but the hot data are contiguous.
        Hcc = "hcc",
        /// As hcf, but the hot data are every eighth record.
        Hci = "hci",
    }
}

parameters! {
    /// Parameters of `overwrite`. The defaults are those of the measurement of Linux' JFFS2 on a 32
    /// MiB nandsim chip.
    pub struct Overwrite as "overwrite" {
        /// Which records are overwritten: in order, uniformly, or hot and cold by whole files,
        /// contiguously, or interleaved.
        pattern: Pattern = Pattern::Hcf, ();
        /// Number of files.
        files: u64 = 104, 1..=10_000_000;
        /// Bytes of each file.
        file_size: u64 = 256 << 10, 512..=1 << 40;
        /// Bytes of each write; divides file_size.
        record: u64 = 4096, 1..=64 << 10;
        /// Overwrites after the fill.
        operations: u64 = 65_536, 0..=1 << 40;
        /// Overwrites between two syncs of the volume (on blocks: flushes); 0: none.
        sync_every: u64 = 0, 0..=1 << 40;
        /// Start value of the xorshift generator; 0: drawn from the run's seed.
        start: u64 = START, 0..=u64::MAX;
        /// Records of every stale_span bytes of data that are overwritten once before the sequence,
        /// so that blocks hold stale data as on a used device; 0: none.
        stale: u64 = 0, 0..=1 << 20;
        /// Bytes of data in which stale records are counted: about what an erase block holds. The
        /// default is what JFFS2 puts in 128 KiB.
        stale_span: u64 = 124 << 10, 512..=1 << 30;
    }
}

impl Overwrite {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        let conflict = |detail: String| Err(SpecError::Conflict { workload: "overwrite", detail });
        if !self.file_size.is_multiple_of(self.record) {
            return conflict(format!("file_size ({}) must be a multiple of record ({})", self.file_size, self.record));
        }
        if self.pattern == Pattern::Hcf && !self.files.is_multiple_of(8) {
            return conflict(format!("pattern hcf needs files to be a multiple of 8, not {}", self.files));
        }
        let records = u128::from(self.files) * u128::from(self.file_size / self.record);
        if records > u128::from(u32::MAX) {
            return conflict(format!("{records} records are too many: at most {}", u32::MAX));
        }
        let span = self.stale_span / self.record.max(1);
        if self.stale > 0 && (!self.stale_span.is_multiple_of(self.record) || self.stale > span) {
            return conflict(format!(
                "stale ({}) must be at most the records of stale_span ({}), a multiple of record ({})",
                self.stale, self.stale_span, self.record
            ));
        }
        if matches!(self.pattern, Pattern::Hcc | Pattern::Hci) && records < 8 {
            return conflict(format!("patterns hcc and hci need at least 8 records, not {records}"));
        }
        Ok(())
    }

    /// What the user can change so that the workload fits into the available bytes.
    fn advice(&self, available: u64) -> String {
        match available / self.file_size.max(1) / 8 * 8 {
            0 => "use a smaller file_size".to_string(),
            files => format!("use files={files} or fewer"),
        }
    }

    fn stale_records(&self) -> StaleRecords {
        let records = self.files * (self.file_size / self.record.max(1));
        StaleRecords { span: (self.stale_span / self.record.max(1)).max(1), each: self.stale, records }
    }

    fn needed_bytes(&self) -> u64 {
        self.files.saturating_mul(self.file_size)
    }
}

/// The sequence of records.
#[derive(Clone, Debug)]
pub struct Sequence {
    pattern: Pattern,
    records: u64,
    records_per_file: u64,
    state: u64,
    drawn: u64,
}

impl Sequence {
    /// The sequence of a checked spec.
    pub fn new(spec: &Overwrite, seed: u64) -> Self {
        let records_per_file = (spec.file_size / spec.record.max(1)).max(1);
        let state = if spec.start == 0 { hash(seed, 0, 0).max(1) } else { spec.start };
        Self { pattern: spec.pattern, records: spec.files * records_per_file, records_per_file, state, drawn: 0 }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// The next record to overwrite.
    #[inline]
    pub fn next_record(&mut self) -> u64 {
        let k = self.drawn;
        self.drawn += 1;
        match self.pattern {
            Pattern::Seq => return k % self.records,
            Pattern::Rnd => return self.next() % self.records,
            Pattern::Hcf | Pattern::Hcc | Pattern::Hci => {}
        }
        let c = u64::from(self.next() % 100 >= 60);
        let eighth = self.records / 8;
        let j = self.next() % eighth.max(1);
        match self.pattern {
            Pattern::Hcf => (8 * (j / self.records_per_file) + c) * self.records_per_file + j % self.records_per_file,
            Pattern::Hcc => c * eighth + j,
            _ => j * 8 + c,
        }
    }
}

/// The records that are overwritten once before the sequence.
#[derive(Clone, Copy, Debug)]
struct StaleRecords {
    /// Records of a span.
    span: u64,
    /// How many of them are overwritten.
    each: u64,
    records: u64,
}

impl StaleRecords {
    /// How many there are.
    fn count(self) -> u64 {
        let whole = self.records / self.span * self.each;
        whole + (0..self.each).filter(|number| self.offset(*number) < self.records % self.span).count() as u64
    }

    /// The record with this number; `None` behind the last one.
    fn get(self, number: u64) -> Option<u64> {
        let span = number.checked_div(self.each)?;
        let record = span * self.span + self.offset(number % self.each);
        (record < self.records).then_some(record)
    }

    /// Where in a span its stale records are.
    fn offset(self, number: u64) -> u64 {
        number * self.span / self.each.max(1)
    }
}

/// Whether the next step is a write or the sync after some.
#[derive(Clone, Copy, Debug, Default)]
struct SyncCounter {
    every: u64,
    since: u64,
}

impl SyncCounter {
    /// Whether a sync is due before the next write.
    #[inline]
    fn due(&mut self) -> bool {
        if self.every == 0 || self.since < self.every {
            return false;
        }
        self.since = 0;
        true
    }
}

/// `overwrite` on files.
#[derive(Debug)]
pub struct OverwriteFiles {
    spec: Overwrite,
    sequence: Sequence,
    versions: Vec<u32>,
    phase: Phase,
    /// Steps done in the phase.
    done: u64,
    syncs: SyncCounter,
}

impl OverwriteFiles {
    /// The stream of a checked spec.
    pub fn new(spec: Overwrite, seed: u64, free_bytes: u64) -> Result<Self> {
        spec.check()?;
        let needed = spec.needed_bytes();
        if needed > free_bytes {
            let advice = spec.advice(free_bytes);
            return Err(WorkloadError::DoesNotFit { workload: "overwrite", needed, available: free_bytes, advice });
        }
        let sequence = Sequence::new(&spec, seed);
        let versions = vec![0; usize::try_from(sequence.records).unwrap_or(0)];
        Ok(Self { spec, sequence, versions, phase: Phase::Fill, done: 0, syncs: SyncCounter::default() })
    }

    fn write(&mut self, record: u64, version: u32) -> FileOperation {
        let per_file = self.sequence.records_per_file;
        FileOperation::Write {
            slot: FileSlot((record / per_file) as u32 + 1),
            offset: record % per_file * self.spec.record,
            length: self.spec.record as u32,
            data: FileData::Described(Description { record, version, offset: 0, generator: Generator::Record }),
        }
    }

    /// The fill: for each file a create and its records in order, then one sync.
    fn next_fill(&mut self) -> Option<FileOperation> {
        let steps_per_file = self.sequence.records_per_file + 1;
        let step = self.done;
        self.done += 1;
        let file = step / steps_per_file;
        if file >= self.spec.files {
            return (step == self.spec.files * steps_per_file).then_some(FileOperation::Sync { slot: None });
        }
        if step.is_multiple_of(steps_per_file) {
            let name = format!("f{file:04}").into_bytes();
            return Some(FileOperation::Create { slot: FileSlot(file as u32 + 1), parent: FileSlot::ROOT, name });
        }
        Some(self.write(file * self.sequence.records_per_file + step % steps_per_file - 1, 0))
    }

    /// The stale records are overwritten, then one sync.
    fn next_stale(&mut self) -> Option<FileOperation> {
        let step = self.done;
        self.done += 1;
        let stale = self.spec.stale_records();
        match stale.get(step) {
            Some(record) => self.overwrite(record),
            None => (step > 0 && step == stale.count()).then_some(FileOperation::Sync { slot: None }),
        }
    }

    fn next_overwrite(&mut self) -> Option<FileOperation> {
        if self.syncs.due() {
            return Some(FileOperation::Sync { slot: None });
        }
        if self.done >= self.spec.operations {
            return None;
        }
        self.done += 1;
        self.syncs.since += 1;
        let record = self.sequence.next_record();
        self.overwrite(record)
    }

    fn overwrite(&mut self, record: u64) -> Option<FileOperation> {
        let version = self.versions.get_mut(record as usize)?;
        *version = version.wrapping_add(1);
        let version = *version;
        Some(self.write(record, version))
    }
}

impl FileWorkload for OverwriteFiles {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        self.done = 0;
        self.syncs = SyncCounter { every: self.spec.sync_every, since: 0 };
        Some(match phase {
            Phase::Fill => self.spec.files * (self.sequence.records_per_file + 1) + 1,
            Phase::Age => match self.spec.stale_records().count() {
                0 => 0,
                stale => stale + 1,
            },
            Phase::Measure => {
                self.spec.operations + self.spec.operations.checked_div(self.spec.sync_every).unwrap_or(0)
            }
        })
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        Ok(match self.phase {
            Phase::Fill => self.next_fill(),
            Phase::Age => self.next_stale(),
            Phase::Measure => self.next_overwrite(),
        })
    }
}

/// `overwrite` on blocks: record i at byte i*record of the device.
#[derive(Debug)]
pub struct OverwriteBlocks {
    spec: Overwrite,
    sequence: Sequence,
    stale: StaleRecords,
    record_sectors: u32,
    phase: Phase,
    done: u64,
    syncs: SyncCounter,
}

impl OverwriteBlocks {
    /// The stream of a checked spec.
    pub fn new(spec: Overwrite, seed: u64, geometry: &BlockGeometry) -> Result<Self> {
        spec.check()?;
        let sector_size = u64::from(geometry.sector_size);
        if !spec.record.is_multiple_of(sector_size) {
            let detail = format!("record ({}) must be a multiple of the sector size ({sector_size})", spec.record);
            return Err(SpecError::Conflict { workload: "overwrite", detail }.into());
        }
        let (needed, available) = (spec.needed_bytes(), geometry.capacity());
        if needed > available {
            let advice = spec.advice(available);
            return Err(WorkloadError::DoesNotFit { workload: "overwrite", needed, available, advice });
        }
        let sequence = Sequence::new(&spec, seed);
        let record_sectors = (spec.record / sector_size) as u32;
        let (stale, phase, syncs) = (spec.stale_records(), Phase::Fill, SyncCounter::default());
        Ok(Self { spec, sequence, stale, record_sectors, phase, done: 0, syncs })
    }
}

impl BlockWorkload for OverwriteBlocks {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        self.done = 0;
        let every = if phase == Phase::Measure { self.spec.sync_every } else { 0 };
        self.syncs = SyncCounter { every, since: 0 };
        Some(match phase {
            Phase::Fill => self.sequence.records,
            Phase::Age => self.stale.count(),
            Phase::Measure => {
                self.spec.operations + self.spec.operations.checked_div(self.spec.sync_every).unwrap_or(0)
            }
        })
    }

    #[inline(always)]
    fn next_operation(&mut self) -> Result<Option<BlockOperation>> {
        if self.syncs.due() {
            let kind = BlockOperationKind::Flush;
            return Ok(Some(BlockOperation { kind, at: Lba(0), sectors: 0, bytes: 0, arrival: None }));
        }
        let record = match self.phase {
            Phase::Fill if self.done < self.sequence.records => self.done,
            Phase::Measure if self.done < self.spec.operations => self.sequence.next_record(),
            Phase::Age => match self.stale.get(self.done) {
                Some(record) => record,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.done += 1;
        self.syncs.since += 1;
        let at = Lba(record * u64::from(self.record_sectors));
        let (kind, bytes) = (BlockOperationKind::Write, self.spec.record);
        Ok(Some(BlockOperation { kind, at, sectors: self.record_sectors, bytes, arrival: None }))
    }

    fn unit_sectors(&self) -> Option<u32> {
        Some(self.record_sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_records_are_the_measured_ones() {
        let cases = [
            (Pattern::Seq, [0, 1, 2, 3]),
            (Pattern::Rnd, [3504, 411, 6352, 4069]),
            (Pattern::Hcf, [3099, 5669, 573, 567]),
            (Pattern::Hci, [3288, 5928, 1000, 952]),
            (Pattern::Hcc, [411, 741, 125, 119]),
        ];
        for (pattern, expected) in cases {
            let mut sequence = Sequence::new(&Overwrite { pattern, ..Overwrite::default() }, 99);
            assert_eq!([(); 4].map(|()| sequence.next_record()), expected, "{pattern:?}");
        }
    }

    #[test]
    fn every_record_is_within_the_data() {
        for pattern in [Pattern::Seq, Pattern::Rnd, Pattern::Hcf, Pattern::Hcc, Pattern::Hci] {
            for (files, file_size) in [(8, 4096), (16, 12_288), (104, 262_144)] {
                let spec = Overwrite { pattern, files, file_size, ..Overwrite::default() };
                spec.check().unwrap();
                let mut sequence = Sequence::new(&spec, 1);
                assert!((0..10_000).all(|_| sequence.next_record() < files * file_size / 4096), "{spec:?}");
            }
        }
    }

    #[test]
    fn stale_records_are_so_many_of_each_span() {
        let spec =
            |stale| Overwrite { stale, files: 8, file_size: 40_960, stale_span: 16 << 10, ..Overwrite::default() };
        for (stale, expected) in
            [(0, vec![]), (1, vec![0, 4, 8, 12]), (3, vec![0, 1, 2, 4, 5, 6, 8]), (4, (0..7).collect())]
        {
            let records = spec(stale).stale_records();
            assert_eq!(records.records, 80);
            let all: Vec<u64> = (0..).map_while(|number| records.get(number)).collect();
            assert_eq!(all.len() as u64, records.count(), "{stale}");
            assert_eq!(all.len() as u64, stale * 20, "{stale}");
            assert_eq!(all[..expected.len()], expected, "{stale}");
        }
        // 79 records: the last span is short.
        let short = StaleRecords { span: 4, each: 4, records: 79 };
        assert_eq!((short.count(), short.get(78), short.get(79)), (79, Some(78), None));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = Overwrite::default();
        for bad in [
            Overwrite { record: 3000, ..good.clone() },
            Overwrite { files: 9, ..good.clone() },
            Overwrite { pattern: Pattern::Hcc, files: 1, file_size: 4096, ..good.clone() },
            Overwrite { stale: 1, stale_span: 5000, ..good.clone() },
            Overwrite { stale: 32, ..good.clone() },
            Overwrite { stale: 1, stale_span: 2048, ..good.clone() },
            Overwrite { files: 10_000_000, file_size: 1 << 40, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
