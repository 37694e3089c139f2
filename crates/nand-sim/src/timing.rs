//! Start and end of every operation: one queue per die and per channel.

use std::sync::Arc;

use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Nanos, PageAddress, Ticket};

use crate::die_queues::{DieQueues, Task, Work, is_awaited};
use crate::spec::{ChipSpec, PageTimes, TimingSpec};
use crate::statistics::QueueStatistics;

/// The times of one chip in nanoseconds, precomputed.
#[derive(Clone, Debug)]
pub struct Times {
    read: ByPage,
    program: ByPage,
    /// The block erase.
    pub erase: u64,
    copy: u64,
    bus_ps_per_byte: u64,
    command: u64,
    /// For NOR: the time of a program of one byte, and the time of each further byte.
    by_byte: Option<(u64, u64)>,
}

/// A time that may depend on the page type.
#[derive(Clone, Debug)]
enum ByPage {
    /// One time for all pages.
    Same(u64),
    /// Times of the page types, which alternate.
    ByType(Box<[u64]>),
}

impl ByPage {
    fn new(times: &PageTimes) -> Self {
        match times.as_slice() {
            [] => Self::Same(0),
            [time] => Self::Same(*time),
            times => Self::ByType(times.into()),
        }
    }

    #[inline]
    fn of(&self, page: u32) -> u64 {
        match self {
            Self::Same(time) => *time,
            Self::ByType(times) => times[page as usize % times.len()],
        }
    }
}

impl Times {
    /// The times of a checked spec.
    pub fn new(spec: &ChipSpec) -> Self {
        let timing = &spec.timing;
        Self {
            read: ByPage::new(&timing.read_ns),
            program: ByPage::new(&timing.program_ns),
            erase: timing.erase_ns,
            copy: timing.copy_ns,
            bus_ps_per_byte: timing.bus_ps_per_byte,
            command: timing.command_ns,
            by_byte: spec.nor.as_ref().map(|nor| (nor.first_byte_ns, nor.next_byte_ns)),
        }
    }

    /// The time from array to page register.
    #[inline]
    pub fn read(&self, page: u32) -> u64 {
        self.read.of(page)
    }

    /// The time from page register to array.
    #[inline]
    pub fn program(&self, page: u32) -> u64 {
        self.program.of(page)
    }

    /// Time of programming `bytes` bytes from the page register to the array: a NOR part takes less
    /// time for few bytes.
    #[inline]
    pub fn program_part(&self, page: u32, bytes: usize) -> u64 {
        let whole = self.program(page);
        self.by_byte.map_or(whole, |(first, next)| {
            let further = (bytes as u64).saturating_sub(1);
            further.saturating_mul(next).saturating_add(first).min(whole)
        })
    }

    /// A whole copyback.
    #[inline]
    pub fn copy(&self, from: u32, to: u32) -> u64 {
        if self.copy == 0 { self.read(from) + self.program(to) } else { self.copy }
    }

    /// The time of a copyback if it is the same for all pages.
    #[inline]
    fn any_copy(&self) -> Option<u64> {
        match (self.copy, &self.read, &self.program) {
            (0, ByPage::Same(read), ByPage::Same(program)) => Some(read + program),
            (0, ..) => None,
            (copy, ..) => Some(copy),
        }
    }

    /// The bus-transfer time of this many bytes, rounded up to whole nanoseconds.
    #[inline]
    pub fn transfer(&self, bytes: usize) -> u64 {
        if self.bus_ps_per_byte == 0 { 0 } else { (bytes as u64).saturating_mul(self.bus_ps_per_byte).div_ceil(1000) }
    }
}

/// The time at which each die and channel becomes free.
///
/// The command overhead and the array time occupy the die. A transfer occupies the channel and the
/// die, whose register it fills or empties. [`Done::busy`] is overhead, transfer and array time,
/// without the wait for a die or a channel.
#[derive(Clone, Debug)]
pub struct Schedule {
    die_free: Vec<u64>,
    channel_free: Vec<u64>,
    planes: u32,
    /// The queues, if scheduled operations may be moved.
    queues: Option<Box<DieQueues>>,
}

/// The indexes of a die and its channel in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    die: usize,
    channel: usize,
}

/// Makes an operation for the queues.
fn task(times: &Times, context: &Context, (work, page): (Work, PageAddress), (transfer, array): (u64, u64)) -> Task {
    // Only operations that the host itself waits for have an end that is queried again.
    let ticket = if context.device_cause.is_none() { context.ticket } else { Ticket::NONE };
    Task { work, issued: context.issued.0, command: times.command, transfer, array, page, ticket }
}

/// Occupies the channel for a transfer that can start at `ready`; returns its end.
#[inline]
fn occupy(channel_free: &mut [u64], unit: Unit, ready: u64, time: u64) -> u64 {
    match channel_free.get_mut(unit.channel) {
        Some(free) => {
            let end = ready.max(*free).saturating_add(time);
            *free = end;
            end
        }
        None => ready,
    }
}

impl Schedule {
    /// An idle schedule. Without overlap, the device is one die on one channel.
    pub fn new(geometry: &FlashGeometry, timing: &TimingSpec) -> Self {
        let (dies, channels) = if timing.overlap { (geometry.dies, geometry.channels) } else { (1, 1) };
        let (dies, channels) = (dies as usize, channels as usize);
        let queues = DieQueues::new(timing, dies, channels);
        Self { die_free: vec![0; dies], channel_free: vec![0; channels], planes: geometry.planes, queues }
    }

    /// The queues, if scheduled operations may be moved.
    pub fn queues(&mut self) -> Option<&mut DieQueues> {
        self.queues.as_deref_mut()
    }

    /// The counts of moved operations.
    pub fn queue_statistics(&self) -> Option<Arc<QueueStatistics>> {
        self.queues.as_ref().map(|queues| Arc::clone(&queues.counts.0))
    }

    /// Makes every die and channel idle.
    pub fn reset(&mut self) {
        self.die_free.fill(0);
        self.channel_free.fill(0);
        self.queues.iter_mut().for_each(|queues| queues.reset());
    }

    /// The die and channel of a block, by [`FlashGeometry::die_of`] and
    /// [`FlashGeometry::channel_of`].
    #[inline(always)]
    pub fn unit(&self, block: BlockIndex) -> Unit {
        let dies = self.die_free.len();
        if dies == 1 {
            return Unit { die: 0, channel: 0 };
        }
        let die = (block.0 / self.planes) as usize % dies;
        Unit { die, channel: die % self.channel_free.len() }
    }

    #[inline]
    fn end(&mut self, unit: Unit, end: u64) {
        if let Some(free) = self.die_free.get_mut(unit.die) {
            *free = end;
        }
    }

    #[inline]
    fn die_start(&self, unit: Unit, context: &Context) -> u64 {
        self.die_free.get(unit.die).copied().unwrap_or(0).max(context.issued.0)
    }

    /// Schedules a transfer to the die, then array time: a program, or an erase without transfer.
    #[inline]
    pub fn write(
        &mut self,
        times: &Times,
        unit: Unit,
        context: &Context,
        (work, page): (Work, PageAddress),
        (transfer, array): (u64, u64),
    ) -> Done {
        if let Some(queues) = &mut self.queues {
            return queues.place(unit.die, unit.channel, task(times, context, (work, page), (transfer, array)));
        }
        // Times and transfers of a checked spec are far below the limit of 64 bits.
        let busy = times.command + transfer + array;
        let Self { die_free, channel_free, .. } = self;
        let mut end = context.issued.0;
        if let Some(free) = die_free.get_mut(unit.die) {
            let start = end.max(*free);
            end = start.saturating_add(busy);
            if transfer != 0 {
                let ready = start.saturating_add(times.command);
                end = occupy(channel_free, unit, ready, transfer).saturating_add(array);
            }
            *free = end;
        }
        Done { completed: Nanos(end), busy: Nanos(busy), corrected_bits: 0 }
    }

    /// Schedules array time, then a transfer from the die.
    #[inline]
    pub fn read(
        &mut self,
        times: &Times,
        unit: Unit,
        context: &Context,
        page: PageAddress,
        (array, transfer): (u64, u64),
    ) -> Done {
        if let Some(queues) = &mut self.queues {
            let work = Work::Read { is_awaited: is_awaited(context) };
            return queues.place(unit.die, unit.channel, task(times, context, (work, page), (transfer, array)));
        }
        let ready = self.die_start(unit, context).saturating_add(times.command).saturating_add(array);
        let end = if transfer == 0 { ready } else { occupy(&mut self.channel_free, unit, ready, transfer) };
        self.end(unit, end);
        Done { completed: Nanos(end), busy: Nanos(times.command + transfer + array), corrected_bits: 0 }
    }

    /// Schedules a copy, which occupies the dies of source and target until it ends; the OOB that
    /// replaces the source's uses the target's channel.
    #[inline]
    pub fn copy(
        &mut self,
        times: &Times,
        (from, to): (Unit, Unit),
        context: &Context,
        page: PageAddress,
        (transfer, array): (u64, u64),
    ) -> Done {
        if let Some(queues) = &mut self.queues {
            let task = task(times, context, (Work::Copy, page), (transfer, array));
            return match from.die == to.die {
                true => queues.place(to.die, to.channel, task),
                false => queues.place_between(from.die, (to.die, to.channel), task),
            };
        }
        if from.die != to.die {
            let start = self.die_start(from, context);
            let free = self.die_start(to, context).max(start);
            self.end(to, free);
        }
        let done = self.write(times, to, context, (Work::Copy, page), (transfer, array));
        self.end(from, done.completed.0);
        done
    }

    /// Schedules copies to the pages of a block from `to_page` on, each issued when its predecessor
    /// has ended: equivalent to [`Schedule::copy`] for each. After the first one nothing can
    /// interfere, because the run occupies both dies and the channel.
    #[inline]
    pub fn copies(
        &mut self,
        times: &Times,
        (from_unit, to_unit): (Unit, Unit),
        context: &Context,
        transfer: u64,
        (from, to): (&[PageAddress], PageAddress),
    ) -> Done {
        let Some((first, rest)) = from.split_first() else { return Done::immediately(context) };
        let to_page = to.page;
        let mut done = self.copy(times, (from_unit, to_unit), context, to, (transfer, times.copy(first.page, to_page)));
        let Some(last) = rest.last() else { return done };
        if self.queues.is_some() {
            for (from, page) in rest.iter().zip(to_page + 1..) {
                let context = Context { issued: done.completed, ..*context };
                let parts = (transfer, times.copy(from.page, page));
                done = done.and(self.copy(times, (from_unit, to_unit), &context, to.block.page(page), parts));
            }
            return done;
        }
        let last_page = to_page + rest.len() as u32;
        let arrays = match times.any_copy() {
            Some(copy) => copy * rest.len() as u64,
            None => rest.iter().zip(to_page + 1..).map(|(from, to)| times.copy(from.page, to)).sum(),
        };
        let busy = (times.command + transfer) * rest.len() as u64 + arrays;
        done.busy += Nanos(busy);
        done.completed = Nanos(done.completed.0.saturating_add(busy));
        self.end(to_unit, done.completed.0);
        self.end(from_unit, done.completed.0);
        if transfer != 0
            && let Some(free) = self.channel_free.get_mut(to_unit.channel)
        {
            *free = done.completed.0.saturating_sub(times.copy(last.page, last_page));
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageAddress = BlockIndex(0).page(0);
    const PROGRAM: (Work, PageAddress) = (Work::Program, PAGE);

    fn overlapping(overlap: bool) -> TimingSpec {
        TimingSpec { overlap, ..TimingSpec::default() }
    }

    fn spec(bus_ps_per_byte: u64, command_ns: u64) -> ChipSpec {
        let mut spec = ChipSpec::default();
        spec.timing.bus_ps_per_byte = bus_ps_per_byte;
        spec.timing.command_ns = command_ns;
        spec
    }

    fn at(instant: u64) -> Context {
        Context::at(Nanos(instant))
    }

    #[test]
    fn two_dies_share_a_channel_and_overlap_in_the_array() {
        let geometry = FlashGeometry { dies: 2, ..FlashGeometry::default() };
        let times = Times::new(&spec(1000, 10));
        let mut schedule = Schedule::new(&geometry, &overlapping(true));
        let (a, b) = (schedule.unit(BlockIndex(0)), schedule.unit(BlockIndex(1)));
        let first = schedule.write(&times, a, &at(0), PROGRAM, (100, 1000));
        let second = schedule.write(&times, b, &at(0), PROGRAM, (100, 1000));
        assert_eq!((first.completed.0, first.busy.0), (1110, 1110));
        assert_eq!((second.completed.0, second.busy.0), (1210, 1110));
        let read = schedule.read(&times, a, &at(0), PAGE, (50, 100));
        assert_eq!((read.completed.0, read.busy.0), (1110 + 10 + 50 + 100, 160));
        let waits = schedule.read(&times, b, &at(0), PAGE, (10, 100));
        assert_eq!((waits.completed.0, waits.busy.0), (1370, 120), "the channel is taken until 1270");
    }

    #[test]
    fn without_overlap_everything_queues() {
        let geometry = FlashGeometry { dies: 4, channels: 2, ..FlashGeometry::default() };
        let times = Times::new(&spec(0, 0));
        let mut schedule = Schedule::new(&geometry, &overlapping(false));
        let ends: Vec<u64> = (0..4)
            .map(|block| {
                let unit = schedule.unit(BlockIndex(block));
                schedule.write(&times, unit, &at(0), PROGRAM, (0, 10)).completed.0
            })
            .collect();
        assert_eq!(ends, [10, 20, 30, 40]);
        schedule.reset();
        assert_eq!(schedule.write(&times, schedule.unit(BlockIndex(0)), &at(7), PROGRAM, (0, 10)).completed.0, 17);
    }

    #[test]
    fn a_copy_between_dies_occupies_both() {
        let geometry = FlashGeometry { dies: 2, ..FlashGeometry::default() };
        let times = Times::new(&spec(0, 0));
        let mut schedule = Schedule::new(&geometry, &overlapping(true));
        let (a, b) = (schedule.unit(BlockIndex(0)), schedule.unit(BlockIndex(1)));
        schedule.write(&times, a, &at(0), PROGRAM, (0, 30));
        let done = schedule.copy(&times, (a, b), &at(0), PAGE, (0, 100));
        assert_eq!((done.completed.0, done.busy.0), (130, 100));
        assert_eq!(schedule.write(&times, a, &at(0), PROGRAM, (0, 1)).completed.0, 131);
        assert_eq!(schedule.write(&times, b, &at(0), PROGRAM, (0, 1)).completed.0, 131);
    }

    /// Times of a whole copy, of reads and programs, and of programs by page type; with and without
    /// command overhead.
    fn copy_times() -> Vec<Times> {
        let mut all = Vec::new();
        for command_ns in [0, 7] {
            for copy_ns in [0, 500] {
                for by_type in [vec![], vec![10, 20, 40]] {
                    let mut spec = spec(1000, command_ns);
                    spec.timing.copy_ns = copy_ns;
                    if !by_type.is_empty() {
                        spec.timing.program_ns = PageTimes::ByType(by_type.clone());
                        all.push(Times::new(&spec));
                        spec.timing.read_ns = PageTimes::ByType(by_type);
                    }
                    all.push(Times::new(&spec));
                }
            }
        }
        all
    }

    /// Within a die, and between dies of one channel and of two; with and without a transfer; with
    /// idle and busy units; with and without overlap.
    #[test]
    fn a_run_of_copies_takes_the_time_of_its_copies() {
        let geometry = FlashGeometry { dies: 4, channels: 2, ..FlashGeometry::default() };
        let from: Vec<PageAddress> = [3, 9, 4, 0, 6].map(|page| BlockIndex(0).page(page)).to_vec();
        let mut cases = 0;
        for (times, target, transfer) in copy_times()
            .iter()
            .flat_map(|times| (0..4).flat_map(move |target| [0, 16, 48].map(|transfer| (times, target, transfer))))
        {
            for (overlap, busy) in [(true, 0), (true, 400), (false, 0), (false, 400)] {
                let mut one = Schedule::new(&geometry, &overlapping(overlap));
                let units = (one.unit(BlockIndex(0)), one.unit(BlockIndex(target)));
                one.write(times, units.1, &at(5), PROGRAM, (busy, 300));
                one.read(times, one.unit(BlockIndex(2)), &at(busy * 3), PAGE, (90, 1000));
                let mut other = one.clone();
                for length in 0..=from.len() {
                    let (from, start) = (&from[..length], at(u64::from(target) * 600));
                    let run = one.copies(times, units, &start, transfer, (from, PAGE.block.page(2)));
                    let mut each = Done::immediately(&start);
                    for (source, page) in from.iter().zip(2..) {
                        let array = times.copy(source.page, page);
                        each = each.and(other.copy(times, units, &at(each.completed.0), PAGE, (transfer, array)));
                    }
                    let what = format!("{times:?}, to {target}, transfer {transfer}, {busy}, {length} copies");
                    assert_eq!(run, each, "{what}");
                    assert_eq!((&one.die_free, &one.channel_free), (&other.die_free, &other.channel_free), "{what}");
                    cases += 1;
                }
            }
        }
        assert_eq!(cases, 12 * 4 * 3 * 4 * 6);
    }

    #[test]
    fn transfers_round_up_and_page_types_repeat() {
        let mut spec = spec(1, 0);
        spec.timing.program_ns = PageTimes::ByType(vec![1, 2, 3]);
        let times = Times::new(&spec);
        assert_eq!((times.transfer(0), times.transfer(1), times.transfer(1000), times.transfer(1001)), (0, 1, 1, 2));
        assert_eq!((0..7).map(|page| times.program(page)).collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(times.copy(0, 4), 25_000 + 2);
    }
}
