//! The queue of outstanding operations: when the next one is issued, and when each ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nandkit_block::BlockDevice;
use nandkit_units::{Context, Nanos, Pacing, Ticket};

use crate::operation::{BlockOperation, BlockOperationKind, OperationKind};
use crate::report::PhaseReport;

/// When an operation is issued, from when its latency counts, and how the device knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    pub at: Nanos,
    pub since: Nanos,
    pub ticket: Ticket,
}

impl Issue {
    #[inline(always)]
    pub fn context(&self) -> Context {
        Context { ticket: self.ticket, ..Context::at(self.at) }
    }
}

/// The operations outstanding in one phase.
pub(super) trait Queue {
    /// Lets time pass until an operation can be issued.
    fn issue<D: BlockDevice + ?Sized>(
        &mut self,
        operation: &BlockOperation,
        device: &mut D,
        report: &mut PhaseReport,
    ) -> Issue;

    /// Notes that the device has taken the operation, and the end that it told.
    fn complete(&mut self, operation: &BlockOperation, issue: Issue, told: Nanos, report: &mut PhaseReport);

    /// Notes that the device has refused the operation, of which a part may be under way.
    fn refuse(&mut self, operation: &BlockOperation, issue: Issue);

    /// Waits for all outstanding operations.
    fn finish<D: BlockDevice + ?Sized>(&mut self, device: &mut D, report: &mut PhaseReport);

    /// The issue of the latest operation.
    fn now(&self) -> Nanos;

    /// The latest end.
    fn ended(&self) -> Nanos;
}

/// The queue of a device that tells each end for good.
#[derive(Debug)]
pub(super) struct ToldQueue {
    pending: BinaryHeap<Reverse<Nanos>>,
    depth: usize,
    start: Nanos,
    now: Nanos,
    ended: Nanos,
}

impl ToldQueue {
    pub fn new(depth: usize, start: Nanos) -> Self {
        let pending = BinaryHeap::with_capacity(depth.min(1 << 16) + 1);
        Self { pending, depth, start, now: start, ended: start }
    }
}

impl Queue for ToldQueue {
    #[inline(always)]
    fn issue<D: BlockDevice + ?Sized>(&mut self, operation: &BlockOperation, _: &mut D, _: &mut PhaseReport) -> Issue {
        if let Some(arrival) = operation.arrival {
            let since = self.start + arrival;
            self.now = self.now.max(since);
            return Issue { at: self.now, since, ticket: Ticket::NONE };
        }
        if operation.kind == BlockOperationKind::Flush {
            self.now = self.now.max(self.ended);
            self.pending.clear();
        } else if self.depth == 1 {
            self.now = self.ended;
        } else if self.pending.len() >= self.depth
            && let Some(Reverse(first)) = self.pending.pop()
        {
            self.now = self.now.max(first);
        }
        Issue { at: self.now, since: self.now, ticket: Ticket::NONE }
    }

    #[inline(always)]
    fn complete(&mut self, operation: &BlockOperation, issue: Issue, told: Nanos, report: &mut PhaseReport) {
        report.record(operation.kind.counted(), told.since(issue.since));
        self.ended = self.ended.max(told);
        if operation.arrival.is_some() || self.depth == 1 {
            return;
        }
        if operation.kind == BlockOperationKind::Flush {
            self.now = self.ended;
        } else {
            self.pending.push(Reverse(told));
        }
    }

    fn refuse(&mut self, _: &BlockOperation, _: Issue) {}

    fn finish<D: BlockDevice + ?Sized>(&mut self, _: &mut D, _: &mut PhaseReport) {}

    fn now(&self) -> Nanos {
        self.now
    }

    fn ended(&self) -> Nanos {
        self.ended
    }
}

/// An operation whose end may still move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Outstanding {
    /// The end as far as known; it may still become later, never earlier.
    end: Nanos,
    ticket: Ticket,
    /// The end that the device told when it took the operation.
    told: Nanos,
    since: Nanos,
    kind: OperationKind,
}

/// Operations outstanding at the most, each with a ticket: as many as a queue of NVMe holds.
const OUTSTANDING_MAX: usize = u16::MAX as usize;

/// The queue of a device that is told the host's instants, and whose ends may move until the host's
/// instant reaches them.
///
/// An end that is told is the earliest one possible, and so the least of all told ends is asked for
/// again until it stays the least: nothing ends before. Once the host's instant has reached it, it
/// is final, and the latency is recorded. Where more operations arrive than there are tickets, they
/// wait in the host for the first end, as if its queue were full. An operation that ends when it is
/// issued is final at once.
#[derive(Debug)]
pub(super) struct PacedQueue {
    outstanding: BinaryHeap<Reverse<Outstanding>>,
    depth: usize,
    start: Nanos,
    now: Nanos,
    ended: Nanos,
    /// Tickets that were given back.
    free: Vec<Ticket>,
    /// The last one that was never given back.
    last: Ticket,
    /// A flush is outstanding for which everything waits.
    flushes: bool,
}

/// Stands for the pacing of a device that no longer has any: the ends that it told are final.
struct Unpaced;

impl Pacing for Unpaced {
    fn quiet_until(&mut self, _: Nanos) {}

    fn end_of(&mut self, _: Ticket, told: Nanos) -> Nanos {
        told
    }
}

impl PacedQueue {
    pub fn new(depth: usize, start: Nanos) -> Self {
        Self {
            outstanding: BinaryHeap::new(),
            depth: depth.min(OUTSTANDING_MAX),
            start,
            now: start,
            ended: start,
            free: Vec::new(),
            last: Ticket::NONE,
            flushes: false,
        }
    }

    /// The least end of all, as it is known by now.
    fn least(&mut self, pacing: &mut dyn Pacing) -> Option<Nanos> {
        loop {
            let mut first = self.outstanding.peek_mut()?;
            let end = pacing.end_of(first.0.ticket, first.0.told);
            if end <= first.0.end {
                return Some(first.0.end);
            }
            first.0.end = end;
        }
    }

    /// Records what has ended by now.
    fn settle(&mut self, pacing: &mut dyn Pacing, report: &mut PhaseReport) {
        let is_due = |queue: &Self| queue.outstanding.peek().is_some_and(|Reverse(first)| first.end <= queue.now);
        while is_due(self) && self.least(pacing).is_some_and(|end| end <= self.now) {
            if let Some(Reverse(Outstanding { end, ticket, since, kind, .. })) = self.outstanding.pop() {
                report.record(kind, end.since(since));
                self.ended = self.ended.max(end);
                self.free.push(ticket);
            }
        }
    }

    /// Lets time pass until at most this many are outstanding.
    fn wait(&mut self, most: usize, pacing: &mut dyn Pacing, report: &mut PhaseReport) {
        while self.outstanding.len() > most
            && let Some(end) = self.least(pacing)
        {
            self.now = self.now.max(end);
            // The device's own work until then can move the end once more.
            pacing.quiet_until(self.now);
            self.settle(pacing, report);
        }
    }

    fn issue_with(&mut self, operation: &BlockOperation, pacing: &mut dyn Pacing, report: &mut PhaseReport) -> Issue {
        let arrival = operation.arrival.map(|arrival| self.start + arrival);
        let most = match arrival {
            Some(arrival) => {
                self.now = self.now.max(arrival);
                OUTSTANDING_MAX - 1
            }
            None if self.flushes || operation.kind == BlockOperationKind::Flush => 0,
            None => self.depth.saturating_sub(1),
        };
        self.flushes = false;
        pacing.quiet_until(self.now);
        self.settle(pacing, report);
        self.wait(most, pacing, report);
        Issue { at: self.now, since: arrival.unwrap_or(self.now), ticket: self.ticket() }
    }

    fn ticket(&mut self) -> Ticket {
        self.free.pop().unwrap_or_else(|| {
            self.last = Ticket(self.last.0.saturating_add(1));
            self.last
        })
    }
}

impl Queue for PacedQueue {
    fn issue<D: BlockDevice + ?Sized>(
        &mut self,
        operation: &BlockOperation,
        device: &mut D,
        report: &mut PhaseReport,
    ) -> Issue {
        match device.pacing() {
            Some(pacing) => self.issue_with(operation, pacing, report),
            None => self.issue_with(operation, &mut Unpaced, report),
        }
    }

    fn complete(&mut self, operation: &BlockOperation, issue: Issue, told: Nanos, report: &mut PhaseReport) {
        let Issue { at, since, ticket } = issue;
        let kind = operation.kind.counted();
        if told <= at {
            report.record(kind, told.since(since));
            self.ended = self.ended.max(told);
            self.free.push(ticket);
            return;
        }
        self.flushes = operation.kind == BlockOperationKind::Flush && operation.arrival.is_none();
        self.outstanding.push(Reverse(Outstanding { end: told, ticket, told, since, kind }));
    }

    fn refuse(&mut self, operation: &BlockOperation, issue: Issue) {
        let Issue { at, since, ticket } = issue;
        self.outstanding.push(Reverse(Outstanding {
            end: at,
            ticket,
            told: at,
            since,
            kind: operation.kind.counted(),
        }));
    }

    fn finish<D: BlockDevice + ?Sized>(&mut self, device: &mut D, report: &mut PhaseReport) {
        match device.pacing() {
            Some(pacing) => self.wait(0, pacing, report),
            None => self.wait(0, &mut Unpaced, report),
        }
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn ended(&self) -> Nanos {
        self.ended
    }
}
