//! The counters of a [`StatsFlash`](super::StatsFlash).

use std::cell::Cell;
use std::ops::Sub;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use nandkit_units::{Area, BlockIndex, Cause, Context, Done, StatisticValue, Statistics};

use crate::{ErrorKind, FlashError};

/// Number of blocks per chunk of erase counts; each chunk is allocated at its first erase, so that
/// a large empty device takes no memory.
const CHUNK: usize = 4096;
const AREAS: usize = 2;
/// A number that no thread has, not even one that was not numbered yet.
const NOBODY: u64 = u64::MAX;

/// Counters of one cause (and area), for successful operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseCounters {
    /// Number of page reads.
    pub reads: u64,
    /// Number of page programs.
    pub programs: u64,
    /// Number of copies within the chip.
    pub copies: u64,
    /// Number of block erases.
    pub erases: u64,
    /// Data bytes read, without OOB.
    pub bytes_read: u64,
    /// Data bytes programmed, without OOB; a copy counts the page size.
    pub bytes_programmed: u64,
    /// OOB bytes programmed; for a copy those that replaced the source's.
    pub oob_bytes_programmed: u64,
    /// Time that dies and channels were busy, in nanoseconds.
    pub busy_ns: u64,
}

impl CauseCounters {
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            reads: f(self.reads, other.reads),
            programs: f(self.programs, other.programs),
            copies: f(self.copies, other.copies),
            erases: f(self.erases, other.erases),
            bytes_read: f(self.bytes_read, other.bytes_read),
            bytes_programmed: f(self.bytes_programmed, other.bytes_programmed),
            oob_bytes_programmed: f(self.oob_bytes_programmed, other.oob_bytes_programmed),
            busy_ns: f(self.busy_ns, other.busy_ns),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }
}

impl Sub for CauseCounters {
    type Output = Self;
    /// The counts since `earlier`; saturates at zero.
    fn sub(self, earlier: Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }
}

/// [`CauseCounters`] as atomics, to be updated concurrently. One cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row {
    reads: AtomicU64,
    programs: AtomicU64,
    copies: AtomicU64,
    erases: AtomicU64,
    bytes_read: AtomicU64,
    bytes_programmed: AtomicU64,
    oob_bytes_programmed: AtomicU64,
    busy_ns: AtomicU64,
}

impl Row {
    fn load(&self) -> CauseCounters {
        CauseCounters {
            reads: self.reads.load(Relaxed),
            programs: self.programs.load(Relaxed),
            copies: self.copies.load(Relaxed),
            erases: self.erases.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_programmed: self.bytes_programmed.load(Relaxed),
            oob_bytes_programmed: self.oob_bytes_programmed.load(Relaxed),
            busy_ns: self.busy_ns.load(Relaxed),
        }
    }
}

/// Adds to a counter that only one thread changes: a load and a store, a fifth of the cost of a
/// locked addition.
#[inline]
fn add_alone(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(value), Relaxed);
}

thread_local! {
    /// The thread's number, see [`thread_number`]; 0 until it is assigned.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// The number of this thread; no other thread of the process ever has the same.
#[cold]
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Relaxed));
    }
    NUMBER.get()
}

/// The counters of one flash device, shared with its observers.
///
/// Counting must cost next to nothing, and reads may run in parallel. So counts are *biased*: the
/// thread that made the last exclusive operation (`&mut`) counts its reads with plain loads and
/// stores in `alone`; all other threads count reads in `shared` with atomic additions. The owner
/// changes only under `&mut`, when no read can be in progress. Hence each `FlashCounters` belongs
/// to exactly one device.
#[derive(Debug)]
pub struct FlashCounters {
    alone: [[Row; Cause::COUNT]; AREAS],
    shared: [[Row; Cause::COUNT]; AREAS],
    owner: AtomicU64,
    corrected_bits: AtomicU64,
    corrected_bits_max: AtomicU64,
    failures: [AtomicU64; ErrorKind::ALL.len()],
    failed_ns: AtomicU64,
    erases: Box<[OnceLock<Box<[AtomicU32]>>]>,
    blocks: u32,
}

impl FlashCounters {
    /// Counters for a device of `blocks` blocks, all zero. Memory: 16 bytes per 4096 blocks.
    pub fn new(blocks: u32) -> Self {
        let chunks = (blocks as usize).div_ceil(CHUNK);
        Self {
            alone: Default::default(),
            shared: Default::default(),
            owner: AtomicU64::new(NOBODY),
            corrected_bits: AtomicU64::new(0),
            corrected_bits_max: AtomicU64::new(0),
            failures: Default::default(),
            failed_ns: AtomicU64::new(0),
            erases: (0..chunks).map(|_| OnceLock::new()).collect(),
            blocks,
        }
    }

    #[inline]
    fn row(&self, context: &Context) -> &Row {
        &self.alone[context.area as usize][context.counted_cause().index()]
    }

    /// Whether this thread made the last exclusive operation. A thread without a number has not.
    #[inline]
    fn is_owner(&self) -> bool {
        self.owner.load(Relaxed) == NUMBER.get()
    }

    /// Makes this thread the owner. Call only under `&mut` of the device.
    #[inline]
    fn own(&self) {
        if !self.is_owner() {
            self.owner.store(thread_number(), Relaxed);
        }
    }

    #[inline]
    pub(super) fn count_read(&self, context: &Context, bytes: u64, done: &Done) {
        if self.is_owner() {
            let row = self.row(context);
            add_alone(&row.reads, 1);
            add_alone(&row.bytes_read, bytes);
            add_alone(&row.busy_ns, done.busy.0);
        } else {
            let row = &self.shared[context.area as usize][context.counted_cause().index()];
            row.reads.fetch_add(1, Relaxed);
            row.bytes_read.fetch_add(bytes, Relaxed);
            row.busy_ns.fetch_add(done.busy.0, Relaxed);
        }
        if done.corrected_bits != 0 {
            self.corrected_bits.fetch_add(u64::from(done.corrected_bits), Relaxed);
            self.corrected_bits_max.fetch_max(u64::from(done.corrected_bits), Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn count_program(&self, context: &Context, bytes: u64, oob_bytes: u64, busy_ns: u64) {
        self.count_programs(context, 1, bytes, oob_bytes, busy_ns);
    }

    /// Counts reads without corrected bits.
    #[inline]
    pub(super) fn count_reads(&self, context: &Context, reads: u64, bytes: u64, busy_ns: u64) {
        self.own();
        let row = self.row(context);
        add_alone(&row.reads, reads);
        add_alone(&row.bytes_read, bytes);
        add_alone(&row.busy_ns, busy_ns);
    }

    #[inline(always)]
    pub(super) fn count_programs(&self, context: &Context, programs: u64, bytes: u64, oob_bytes: u64, busy_ns: u64) {
        self.count_programmed(context, bytes, oob_bytes, busy_ns);
        add_alone(&self.row(context).programs, programs);
    }

    #[inline]
    pub(super) fn count_copies(&self, context: &Context, copies: u64, bytes: u64, oob_bytes: u64, busy_ns: u64) {
        self.count_programmed(context, bytes, oob_bytes, busy_ns);
        add_alone(&self.row(context).copies, copies);
    }

    /// Counts what programs and copies have in common.
    #[inline(always)]
    fn count_programmed(&self, context: &Context, bytes: u64, oob_bytes: u64, busy_ns: u64) {
        self.own();
        let row = self.row(context);
        add_alone(&row.bytes_programmed, bytes);
        add_alone(&row.oob_bytes_programmed, oob_bytes);
        add_alone(&row.busy_ns, busy_ns);
    }

    #[inline]
    pub(super) fn count_erase(&self, context: &Context, block: BlockIndex, busy_ns: u64) {
        self.own();
        let row = self.row(context);
        add_alone(&row.erases, 1);
        add_alone(&row.busy_ns, busy_ns);
        let Some(chunk) = self.erases.get(block.index() / CHUNK) else { return };
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU32::new(0)).collect());
        if let Some(count) = chunk.get(block.index() % CHUNK) {
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    /// Counts the time of any other operation.
    #[cold]
    pub(super) fn count_busy(&self, context: &Context, busy_ns: u64) {
        self.own();
        add_alone(&self.row(context).busy_ns, busy_ns);
    }

    #[cold]
    pub(super) fn count_failure(&self, error: &FlashError) {
        if let Some(count) = self.failures.get(error.kind as usize) {
            count.fetch_add(1, Relaxed);
        }
        self.failed_ns.fetch_add(error.busy.0, Relaxed);
    }

    /// The number of erases of each block. Cost: proportional to the number of blocks.
    pub fn erases_per_block(&self) -> Vec<u32> {
        let mut counts = vec![0; self.blocks as usize];
        for (counts, chunk) in counts.chunks_mut(CHUNK).zip(&self.erases) {
            if let Some(chunk) = chunk.get() {
                for (count, kept) in counts.iter_mut().zip(chunk.iter()) {
                    *count = kept.load(Relaxed);
                }
            }
        }
        counts
    }

    /// The current counters. While other threads use the device, an operation may be counted in
    /// part.
    pub fn snapshot(&self) -> FlashSnapshot {
        let mut by_area_and_cause = [[CauseCounters::default(); Cause::COUNT]; AREAS];
        for (into, (alone, shared)) in by_area_and_cause.iter_mut().zip(self.alone.iter().zip(&self.shared)) {
            for (into, (alone, shared)) in into.iter_mut().zip(alone.iter().zip(shared)) {
                *into = alone.load().plus(shared.load());
            }
        }
        let mut failures = [0; ErrorKind::ALL.len()];
        for (into, count) in failures.iter_mut().zip(&self.failures) {
            *into = count.load(Relaxed);
        }
        FlashSnapshot {
            by_area_and_cause,
            corrected_bits: self.corrected_bits.load(Relaxed),
            corrected_bits_max: Some(self.corrected_bits_max.load(Relaxed)),
            failures,
            failed_ns: self.failed_ns.load(Relaxed),
            erases_per_block: self.erases_per_block(),
        }
    }
}

/// The counters of a device at one time, or between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashSnapshot {
    by_area_and_cause: [[CauseCounters; Cause::COUNT]; AREAS],
    /// Sum over all reads of [`Done::corrected_bits`].
    pub corrected_bits: u64,
    /// The largest [`Done::corrected_bits`]. Between two snapshots `None` if an earlier read
    /// reached the same maximum: the maximum in between is then unknown.
    pub corrected_bits_max: Option<u64>,
    failures: [u64; ErrorKind::ALL.len()],
    /// Total busy time of failed operations, in nanoseconds.
    pub failed_ns: u64,
    /// The number of erases of each block.
    pub erases_per_block: Vec<u32>,
}

impl FlashSnapshot {
    /// The counters of one cause in one area.
    pub const fn of(&self, area: Area, cause: Cause) -> CauseCounters {
        self.by_area_and_cause[area as usize][cause.index()]
    }

    /// The counters of one cause, over all areas.
    pub fn cause(&self, cause: Cause) -> CauseCounters {
        self.of(Area::Main, cause).plus(self.of(Area::Metadata, cause))
    }

    /// The counters of one area, over all causes.
    pub fn area(&self, area: Area) -> CauseCounters {
        self.by_area_and_cause[area as usize].into_iter().fold(CauseCounters::default(), CauseCounters::plus)
    }

    /// The sum of all counters.
    pub fn total(&self) -> CauseCounters {
        self.area(Area::Main).plus(self.area(Area::Metadata))
    }

    /// The number of operations that failed with this kind.
    pub const fn failures(&self, kind: ErrorKind) -> u64 {
        self.failures[kind as usize]
    }

    /// The distribution of erases over the blocks.
    pub fn erase_distribution(&self) -> EraseDistribution {
        EraseDistribution::of(&self.erases_per_block)
    }
}

impl Sub for &FlashSnapshot {
    type Output = FlashSnapshot;
    /// The counts since `earlier`.
    fn sub(self, earlier: Self) -> FlashSnapshot {
        let mut difference = self.clone();
        for (areas, earlier) in difference.by_area_and_cause.iter_mut().zip(&earlier.by_area_and_cause) {
            for (counters, earlier) in areas.iter_mut().zip(earlier) {
                *counters = *counters - *earlier;
            }
        }
        difference.corrected_bits = self.corrected_bits.saturating_sub(earlier.corrected_bits);
        difference.corrected_bits_max = match difference.corrected_bits {
            0 => Some(0),
            _ => self.corrected_bits_max.filter(|max| earlier.corrected_bits_max.is_some_and(|earlier| *max > earlier)),
        };
        difference.failed_ns = self.failed_ns.saturating_sub(earlier.failed_ns);
        for (count, earlier) in difference.failures.iter_mut().zip(&earlier.failures) {
            *count = count.saturating_sub(*earlier);
        }
        for (count, earlier) in difference.erases_per_block.iter_mut().zip(&earlier.erases_per_block) {
            *count = count.saturating_sub(*earlier);
        }
        difference
    }
}

/// The distribution of erases over all blocks of a device. Percentiles by nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EraseDistribution {
    /// The fewest erases of any block.
    pub min: u32,
    /// A tenth of the blocks has at most this many.
    pub p10: u32,
    /// The median.
    pub p50: u32,
    /// Nine tenths have at most this many.
    pub p90: u32,
    /// The most erases of any block.
    pub max: u32,
    /// The number of blocks that were never erased.
    pub never: u32,
}

impl EraseDistribution {
    /// The distribution of these counts; all zero for an empty list.
    pub fn of(counts: &[u32]) -> Self {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        let rank = |tenths: usize| sorted.get((sorted.len() * tenths).div_ceil(10).saturating_sub(1)).copied();
        let value = |tenths| rank(tenths).unwrap_or(0);
        Self {
            min: sorted.first().copied().unwrap_or(0),
            p10: value(1),
            p50: value(5),
            p90: value(9),
            max: sorted.last().copied().unwrap_or(0),
            never: sorted.partition_point(|&count| count == 0) as u32,
        }
    }
}

/// The names of the counts of each cause, in the order of [`Cause::ALL`].
macro_rules! names {
    ($($cause:literal),*) => {
        [$([
            concat!("flash_reads_", $cause),
            concat!("flash_programs_", $cause),
            concat!("flash_copies_", $cause),
            concat!("flash_erases_", $cause),
            concat!("flash_read_", $cause, "_bytes"),
            concat!("flash_programmed_", $cause, "_bytes"),
            concat!("flash_programmed_oob_", $cause, "_bytes"),
            concat!("flash_busy_", $cause, "_ns"),
        ]),*]
    };
}

const NAMES: [[&str; 8]; Cause::COUNT] =
    names!("user_data", "metadata", "cleaning", "checkpoint", "wear_levelling", "mapping", "recovery", "format");

const FAILURE_NAMES: [&str; ErrorKind::ALL.len()] = [
    "flash_failures_misuse",
    "flash_failures_uncorrectable",
    "flash_failures_no_content",
    "flash_failures_program_failed",
    "flash_failures_erase_failed",
    "flash_failures_bad_block",
    "flash_failures_power_lost",
    "flash_failures_read_only",
    "flash_failures_io",
];

impl Statistics for FlashCounters {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.snapshot().collect(sink);
    }
}

impl Statistics for FlashSnapshot {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        for (cause, names) in Cause::ALL.into_iter().zip(NAMES) {
            let counters = self.cause(cause);
            let values = [
                counters.reads,
                counters.programs,
                counters.copies,
                counters.erases,
                counters.bytes_read,
                counters.bytes_programmed,
                counters.oob_bytes_programmed,
                counters.busy_ns,
            ];
            for (name, value) in names.into_iter().zip(values) {
                sink(name, StatisticValue::Count(value));
            }
        }
        let main_bytes = self.area(Area::Main).bytes_programmed;
        sink("flash_programmed_main_area_bytes", StatisticValue::Count(main_bytes));
        sink("flash_corrected_bits", StatisticValue::Count(self.corrected_bits));
        if let Some(max) = self.corrected_bits_max {
            sink("flash_corrected_bits_max", StatisticValue::Level(max as f64));
        }
        for (name, count) in FAILURE_NAMES.into_iter().zip(self.failures) {
            sink(name, StatisticValue::Count(count));
        }
        sink("flash_failed_ns", StatisticValue::Count(self.failed_ns));
        let spread = self.erase_distribution();
        sink("flash_erases_per_block_min", StatisticValue::Level(f64::from(spread.min)));
        sink("flash_erases_per_block_p10", StatisticValue::Level(f64::from(spread.p10)));
        sink("flash_erases_per_block_p50", StatisticValue::Level(f64::from(spread.p50)));
        sink("flash_erases_per_block_p90", StatisticValue::Level(f64::from(spread.p90)));
        sink("flash_erases_per_block_max", StatisticValue::Level(f64::from(spread.max)));
        sink("flash_blocks_never_erased", StatisticValue::Level(f64::from(spread.never)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_causes_and_the_kinds() {
        for (cause, names) in Cause::ALL.into_iter().zip(NAMES) {
            assert!(names.iter().all(|name| name.contains(cause.name())), "{cause:?} {names:?}");
        }
        for (kind, name) in ErrorKind::ALL.into_iter().zip(FAILURE_NAMES) {
            let plain = name.trim_start_matches("flash_failures_").replace('_', "");
            assert_eq!(plain, format!("{kind:?}").to_lowercase());
        }
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let counts: Vec<u32> = (0..100).rev().collect();
        let spread = EraseDistribution::of(&counts);
        assert_eq!(spread, EraseDistribution { min: 0, p10: 9, p50: 49, p90: 89, max: 99, never: 1 });
        assert_eq!(EraseDistribution::of(&[7]), EraseDistribution { min: 7, p10: 7, p50: 7, p90: 7, max: 7, never: 0 });
        assert_eq!(EraseDistribution::of(&[]), EraseDistribution::default());
    }

    #[test]
    fn reads_of_many_threads_are_all_counted() {
        let counters = FlashCounters::new(8);
        let context = Context::default();
        counters.count_program(&context, 512, 16, 5);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| counters.count_read(&context, 2, &Done::default())));
            }
            (0..10_000).for_each(|_| counters.count_read(&context, 2, &Done::default()));
        });
        let total = counters.snapshot().total();
        assert_eq!((total.reads, total.bytes_read, total.programs), (50_000, 100_000, 1));
    }

    #[test]
    fn an_empty_device_of_a_tebibyte_costs_next_to_nothing() {
        let counters = FlashCounters::new(8 << 20);
        counters.count_erase(&Context::default(), BlockIndex((8 << 20) - 1), 1);
        counters.count_erase(&Context::default(), BlockIndex(u32::MAX), 1);
        assert_eq!(counters.erases.iter().filter(|chunk| chunk.get().is_some()).count(), 1);
        assert_eq!(counters.erases_per_block().iter().map(|&count| u64::from(count)).sum::<u64>(), 1);
    }
}
