//! The queues of dies whose reads may go before programs and erases: operations are scheduled when
//! issued, and moved when another goes before them.

use std::collections::VecDeque;

use nandkit_units::{Cause, Context, Done, Nanos, PageAddress, Priority, Ticket};

use crate::channel_bookings::Channel;
use crate::spec::{DieOrder, TimingSpec};
use crate::statistics::{QueueCounts, count};

/// Most pending operations of a die. Beyond it, the older half counts as ended; that happens only
/// on a device that sees neither a read nor a host time.
const AHEAD_MAX: usize = 8192;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A read that blocks its requester, or a read of cleaning.
    Read {
        is_awaited: bool,
    },
    Program,
    Erase,
    /// A copy within the die.
    Copy,
    /// A copy between dies: it occupies both at once, and is never moved.
    CopyBetween,
}

/// An operation to be scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub work: Work,
    /// The earliest start.
    pub issued: u64,
    pub command: u64,
    pub transfer: u64,
    pub array: u64,
    /// The page read or programmed; the block's first page for an erase.
    pub page: PageAddress,
    pub ticket: Ticket,
}

/// A task with its scheduled times.
#[derive(Clone, Copy, Debug)]
struct Placed {
    task: Task,
    start: u64,
    end: u64,
    /// Start of the transfer on the channel.
    transfer_from: u64,
}

impl Placed {
    /// When the array starts: after the command, or after the transfer to the die.
    const fn array_from(&self) -> u64 {
        match self.task.work {
            Work::Read { .. } => self.start.saturating_add(self.task.command),
            _ => self.end.saturating_sub(self.task.array),
        }
    }
}

/// The queues of all dies, and the bookings of all channels.
#[derive(Clone, Debug)]
pub(crate) struct DieQueues {
    order: DieOrder,
    erase_suspend: Option<u64>,
    program_suspend: Option<u64>,
    dies: Vec<VecDeque<Placed>>,
    channels: Vec<Channel>,
    /// Operations that ended by this time are forgotten: no read will be issued before it.
    horizon: u64,
    /// The latest end for each ticket.
    ends: Vec<u64>,
    pub counts: QueueCounts,
}

/// Whether the requester waits for a read: the host itself, or the device's map before it can
/// continue.
pub(crate) fn is_awaited(context: &Context) -> bool {
    let own = matches!(context.counted_cause(), Cause::Cleaning | Cause::WearLevelling | Cause::Checkpoint);
    !own && context.priority != Priority::Background
}

impl DieQueues {
    /// Idle queues; `None` if every die works in request order.
    pub fn new(timing: &TimingSpec, dies: usize, channels: usize) -> Option<Box<Self>> {
        (timing.order != DieOrder::Asked).then(|| {
            Box::new(Self {
                order: timing.order,
                erase_suspend: timing.erase_suspend_ns,
                program_suspend: timing.program_suspend_ns,
                dies: vec![VecDeque::new(); dies],
                channels: vec![Channel::default(); channels],
                horizon: 0,
                ends: Vec::new(),
                counts: QueueCounts::default(),
            })
        })
    }

    /// Makes every die and channel idle.
    pub fn reset(&mut self) {
        self.dies.iter_mut().for_each(VecDeque::clear);
        self.channels.iter_mut().for_each(Channel::clear);
        self.horizon = 0;
        self.ends.fill(0);
    }

    /// Declares that no read will be issued before `instant`.
    pub fn quiet_until(&mut self, instant: u64) {
        self.horizon = self.horizon.max(instant);
    }

    /// The latest known end for a ticket.
    pub fn end_of(&self, ticket: Ticket, told: u64) -> u64 {
        self.ends.get(usize::from(ticket.0)).copied().unwrap_or(0).max(told)
    }

    /// Schedules a task on a die and its channel.
    pub fn place(&mut self, die: usize, channel: usize, task: Task) -> Done {
        let busy = task.command + task.transfer + task.array;
        if let Work::Read { is_awaited: true } = task.work {
            self.horizon = self.horizon.max(task.issued);
        }
        self.forget(die, channel);
        if matches!(task.work, Work::Read { .. }) && self.is_in_flight(die, &task) {
            count(&self.counts.0.reads_in_flight, 1);
            return Done { completed: Nanos(task.issued), busy: Nanos::ZERO, corrected_bits: 0 };
        }
        let at = match task.work {
            Work::Read { .. } => self.place_of_read(die, channel, &task),
            _ => self.dies.get(die).map_or(0, VecDeque::len),
        };
        if matches!(task.work, Work::Read { .. }) && self.dies.get(die).is_some_and(|queue| at < queue.len()) {
            count(&self.counts.0.reads_ahead, 1);
        }
        let end = self.insert(die, channel, at, task);
        self.push_back(die, channel, at + 1);
        Done { completed: Nanos(end), busy: Nanos(busy), corrected_bits: 0 }
    }

    /// Schedules a copy between two dies after all their pending operations; its transfer uses the
    /// target's channel.
    pub fn place_between(&mut self, from: usize, to: (usize, usize), mut task: Task) -> Done {
        let last = |queue: Option<&VecDeque<Placed>>| queue.and_then(VecDeque::back).map_or(0, |placed| placed.end);
        task.issued = task.issued.max(last(self.dies.get(from))).max(last(self.dies.get(to.0)));
        task.work = Work::CopyBetween;
        let done = self.place(to.0, to.1, task);
        let held = Placed { task, start: task.issued, end: done.completed.0, transfer_from: 0 };
        if let Some(queue) = self.dies.get_mut(from) {
            queue.push_back(held);
        }
        done
    }

    /// Drops operations that have ended for good.
    fn forget(&mut self, die: usize, channel: usize) {
        let horizon = self.horizon;
        if let Some(queue) = self.dies.get_mut(die) {
            while queue.len() > 1 && queue.front().is_some_and(|placed| placed.end <= horizon) {
                queue.pop_front();
            }
            if queue.len() > AHEAD_MAX {
                queue.drain(..AHEAD_MAX / 2);
            }
        }
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.forget(horizon);
        }
    }

    /// Whether the page's program has not ended when the read is issued: its bytes are still in the
    /// controller's memory, which delivers them at once.
    fn is_in_flight(&self, die: usize, read: &Task) -> bool {
        let is_it = |placed: &Placed| {
            matches!(placed.task.work, Work::Program | Work::Copy | Work::CopyBetween)
                && placed.task.page == read.page
                && placed.end > read.issued
        };
        self.dies.get(die).is_some_and(|queue| queue.iter().rev().any(is_it))
    }

    /// The queue position of a read. Suspends the running operation if that helps.
    fn place_of_read(&mut self, die: usize, channel: usize, read: &Task) -> usize {
        let Some(queue) = self.dies.get(die) else { return 0 };
        let goes_before = |placed: &Placed| match (self.order, placed.task.work) {
            (_, Work::CopyBetween | Work::Read { is_awaited: true }) => false,
            (DieOrder::ReadsFirst, _) => matches!(read.work, Work::Read { is_awaited: true }),
            _ => placed.task.issued > read.issued,
        };
        let behind =
            queue.iter().rposition(|placed| placed.start <= read.issued || !goes_before(placed)).map_or(0, |at| at + 1);
        match behind.checked_sub(1).and_then(|at| queue.get(at)) {
            Some(running) if goes_before(running) && self.suspension(running, read).is_some() => {
                self.suspend(die, channel, behind - 1, read.issued);
                behind
            }
            _ => behind,
        }
    }

    /// The time until the running operation releases the die, if it can be suspended and the read
    /// would otherwise wait longer.
    fn suspension(&self, running: &Placed, read: &Task) -> Option<u64> {
        let time = match running.task.work {
            Work::Erase => self.erase_suspend,
            Work::Program => self.program_suspend,
            _ => None,
        }?;
        let is_at_work = running.array_from() <= read.issued && read.issued < running.end;
        let helps = running.end > read.issued.saturating_add(time);
        (self.order == DieOrder::ReadsFirst && is_at_work && helps).then_some(time)
    }

    /// Splits the running operation in two: the part until now plus the suspend time, and the
    /// waiting rest.
    fn suspend(&mut self, die: usize, channel: usize, at: usize, now: u64) {
        let Some(queue) = self.dies.get_mut(die) else { return };
        let Some(running) = queue.get_mut(at) else { return };
        let time = match running.task.work {
            Work::Erase => self.erase_suspend,
            _ => self.program_suspend,
        };
        let mut rest = *running;
        (rest.task.issued, rest.task.command, rest.task.transfer) = (now, 0, 0);
        rest.task.array = running.end - now;
        running.task.array = running.task.array.saturating_sub(rest.task.array);
        running.end = now.saturating_add(time.unwrap_or(0));
        // The ticket's end is that of the second part.
        running.task.ticket = Ticket::NONE;
        (rest.start, rest.transfer_from) = (running.end, running.end);
        rest.end = rest.start.saturating_add(rest.task.array);
        queue.insert(at + 1, rest);
        count(&self.counts.0.suspensions, 1);
        count(&self.counts.0.postponed_ns, time.unwrap_or(0));
        self.note_end(&rest);
        // The following operations move back by the suspend time.
        self.push_back(die, channel, at + 2);
    }

    /// Inserts a task into a queue, after its predecessor.
    fn insert(&mut self, die: usize, channel: usize, at: usize, task: Task) -> u64 {
        let Some(queue) = self.dies.get_mut(die) else { return task.issued };
        let before = at.checked_sub(1).and_then(|at| queue.get(at)).map_or(0, |placed| placed.end);
        let placed = timed(task, before, self.channels.get_mut(channel));
        queue.insert(at, placed);
        self.note_end(&placed);
        placed.end
    }

    /// Moves the following operations back as far as their predecessors require.
    fn push_back(&mut self, die: usize, channel: usize, from: usize) {
        let Self { dies, channels, counts: QueueCounts(counts), ends, .. } = self;
        let Some(queue) = dies.get_mut(die) else { return };
        for at in from..queue.len() {
            let before = at.checked_sub(1).and_then(|at| queue.get(at)).map_or(0, |placed| placed.end);
            let Some(placed) = queue.get_mut(at) else { return };
            if before <= placed.start {
                return;
            }
            let (old, mut channel) = (placed.end, channels.get_mut(channel));
            if let Some(channel) = &mut channel {
                channel.release(placed.transfer_from, placed.task.transfer);
            }
            *placed = timed(placed.task, before, channel);
            count(&counts.postponements, 1);
            count(&counts.postponed_ns, placed.end.saturating_sub(old));
            note_end(ends, placed);
        }
    }

    fn note_end(&mut self, placed: &Placed) {
        note_end(&mut self.ends, placed);
    }
}

/// Records that a task's ticket ends with the task, or later.
fn note_end(ends: &mut Vec<u64>, placed: &Placed) {
    let ticket = usize::from(placed.task.ticket.0);
    if ticket == 0 {
        return;
    }
    if ends.len() <= ticket {
        ends.resize(ticket + 1, 0);
    }
    if let Some(end) = ends.get_mut(ticket) {
        *end = placed.end.max(*end);
    }
}

/// Schedules a task after `behind`, with its transfer in the channel's first gap.
fn timed(task: Task, behind: u64, channel: Option<&mut Channel>) -> Placed {
    let start = task.issued.max(behind);
    let ready = match task.work {
        Work::Read { .. } => start.saturating_add(task.command + task.array),
        _ => start.saturating_add(task.command),
    };
    let transfer_from = match channel {
        Some(channel) if task.transfer > 0 => channel.book(ready, task.transfer),
        _ => ready,
    };
    let end = match task.work {
        Work::Read { .. } => transfer_from.saturating_add(task.transfer),
        _ => transfer_from.saturating_add(task.transfer + task.array),
    };
    Placed { task, start, end, transfer_from }
}

#[cfg(test)]
mod tests {
    use nandkit_units::BlockIndex;
    use nandkit_units::random::Random;

    use super::*;

    fn queues(order: DieOrder, suspend: Option<u64>) -> DieQueues {
        let timing =
            TimingSpec { order, erase_suspend_ns: suspend, program_suspend_ns: suspend, ..TimingSpec::default() };
        *DieQueues::new(&timing, 2, 1).unwrap()
    }

    fn task(work: Work, issued: u64, (command, transfer, array): (u64, u64, u64), page: u32) -> Task {
        Task { work, issued, command, transfer, array, page: BlockIndex(0).page(page), ticket: Ticket::NONE }
    }

    const READ: Work = Work::Read { is_awaited: true };

    /// Checks that no die and no channel does two things at once, nothing starts before it was
    /// issued, transfers lie between command and array time, and no time is wasted.
    fn check(queues: &DieQueues) {
        for queue in &queues.dies {
            for (placed, next) in queue.iter().zip(queue.iter().skip(1)) {
                assert!(placed.end <= next.start, "{placed:?} {next:?}");
            }
            for placed in queue {
                let Task { work, issued, command, transfer, array, .. } = placed.task;
                assert!(placed.start >= issued, "{placed:?}");
                let is_cut =
                    !matches!(work, Work::Read { .. }) && placed.end < placed.start + command + transfer + array;
                assert!(!is_cut, "{placed:?}");
                let is_booked = transfer == 0
                    || placed.transfer_from + transfer <= queues.horizon
                    || queues.channels[0].holds(placed.transfer_from, transfer);
                assert!(is_booked, "{placed:?}");
            }
        }
        queues.channels[0].check();
        let placed = queues.dies.iter().flatten().filter(|placed| placed.task.transfer > 0);
        let booked = placed.filter(|placed| queues.channels[0].holds(placed.transfer_from, placed.task.transfer));
        assert!(queues.channels[0].len() <= booked.count(), "transfers of nobody");
    }

    #[test]
    fn reads_go_before_what_has_not_begun_and_suspend_what_can_be() {
        let mut first = queues(DieOrder::ReadsFirst, None);
        let ends: Vec<u64> =
            (0..3).map(|page| first.place(0, 0, task(Work::Program, 0, (0, 0, 100), page)).completed.0).collect();
        assert_eq!(ends, [100, 200, 300]);
        assert_eq!(first.place(0, 0, task(READ, 110, (1, 2, 10), 9)).completed.0, 213, "behind what runs");
        assert_eq!(first.place(0, 0, task(READ, 111, (1, 2, 10), 9)).completed.0, 226, "behind the read before");
        assert_eq!(first.place(0, 0, task(Work::Program, 111, (0, 0, 100), 4)).completed.0, 426);
        let counters = first.counts.0.snapshot();
        assert_eq!((counters.reads_ahead, counters.postponements, counters.postponed_ns), (2, 2, 26));
        assert_eq!(first.place(0, 0, task(READ, 112, (1, 2, 10), 2)).completed.0, 112, "its program has not ended");
        let mut suspended = queues(DieOrder::ReadsFirst, Some(5));
        assert_eq!(
            suspended.place(0, 0, Task { ticket: Ticket(7), ..task(Work::Erase, 0, (0, 0, 1000), 0) }).completed.0,
            1000
        );
        assert_eq!(suspended.place(0, 0, task(READ, 100, (0, 0, 10), 9)).completed.0, 115);
        assert_eq!(suspended.place(0, 0, task(READ, 101, (0, 0, 10), 9)).completed.0, 125, "it stops once for both");
        assert_eq!(suspended.end_of(Ticket(7), 1000), 1025);
        let counters = suspended.counts.0.snapshot();
        assert_eq!((counters.suspensions, counters.reads_ahead), (1, 2));
        assert_eq!(suspended.place(0, 0, task(READ, 1024, (0, 0, 10), 9)).completed.0, 1035, "not worth a stop");
        let mut by_time = queues(DieOrder::ByTime, None);
        by_time.place(0, 0, task(Work::Program, 0, (0, 0, 100), 0));
        by_time.place(0, 0, task(Work::Program, 50, (0, 0, 100), 1));
        by_time.place(0, 0, task(Work::Copy, 500, (0, 0, 100), 2));
        assert_eq!(by_time.place(0, 0, task(READ, 60, (0, 0, 10), 9)).completed.0, 210, "before what is issued later");
        assert_eq!(by_time.place(0, 0, task(Work::Program, 0, (0, 0, 100), 3)).completed.0, 700);
    }

    #[test]
    fn instants_at_the_end_of_time_are_taken() {
        let mut queues = queues(DieOrder::ReadsFirst, Some(5));
        for work in [Work::Program, READ, Work::Erase, READ, Work::Copy] {
            assert_eq!(queues.place(0, 0, task(work, u64::MAX - 1, (3, 4, 5), 1)).completed.0 | 1, u64::MAX);
        }
        queues.place_between(0, (1, 0), task(Work::Copy, u64::MAX, (3, 4, 5), 1));
    }

    #[test]
    fn whatever_is_asked_for_no_die_and_no_channel_does_two_things_at_once() {
        for (order, suspend) in
            [(DieOrder::ByTime, None), (DieOrder::ReadsFirst, None), (DieOrder::ReadsFirst, Some(3))]
        {
            let mut random = Random::new(3, "queues");
            let mut queues = queues(order, suspend);
            let (mut now, mut reads) = (0, 0);
            for page in 0..6000 {
                now += random.below(90);
                let issued = now + if random.chance(0.2) { random.below(300) } else { 0 };
                let die = random.below(2) as usize;
                let mut parts = (random.below(3), random.below(20), random.below(100));
                let work = match random.below(10) {
                    0..5 => Work::Program,
                    5 => Work::Erase,
                    6 => Work::Read { is_awaited: false },
                    7 if random.chance(0.3) => {
                        queues.place_between(1 - die, (die, 0), task(Work::Copy, issued, parts, page));
                        check(&queues);
                        continue;
                    }
                    _ => READ,
                };
                if work == Work::Erase {
                    parts.1 = 0;
                }
                let issued = if work == READ { now } else { issued };
                let done = queues.place(die, 0, task(work, issued, parts, page));
                reads += u64::from(work == READ);
                assert!(done.completed.0 >= issued);
                check(&queues);
            }
            let counters = queues.counts.0.snapshot();
            assert!(reads > 1000 && counters.postponements > 100, "{counters:?}");
        }
    }
}
