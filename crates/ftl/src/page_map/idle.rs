//! Idle-time work: after a while without requests, the layer cleans until enough superblocks are
//! free, and refreshes and levels data. See `docs/design/09-requests-in-time.md`.

use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_flash::Flash;
use nandkit_units::{Context, Nanos, Pacing, Priority, Ticket};

use super::stalls::Waits;
use super::user::Room;
use super::{PageMapFtl, PageMapOptions, unfit};
use crate::failure::{Failure, LayerResult};

/// When idle work starts, and what it did so far.
#[derive(Debug)]
pub(crate) struct Idle {
    /// The time without requests after which idle work starts.
    after: Nanos,
    /// The number of free superblocks at which cleaning stops.
    enough: usize,
    /// The most valid slots of a victim worth cleaning.
    most_valid: u32,
    /// The last known host activity: start times of its requests, and end times of its reads, which
    /// change nothing else.
    active: AtomicU64,
    /// The end of the layer's last idle work.
    end: Nanos,
    /// Nothing more can be gained until the host writes again.
    is_done: bool,
    /// A failure of idle work, not reported yet.
    failed: Option<Failure>,
    counters: IdleCounters,
}

/// Counters of idle-time work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleCounters {
    /// Superblocks cleaned to gain space.
    pub cleanings: u64,
    /// Superblocks moved for their data: refreshed or levelled.
    pub moves: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Total time of the idle work.
    pub worked: Nanos,
    /// Idle work that started before the host's next request and ended after it: how long it may
    /// have delayed the host.
    pub overruns: Waits,
}

impl IdleCounters {
    /// The difference from an earlier snapshot of the counters.
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            cleanings: self.cleanings - earlier.cleanings,
            moves: self.moves - earlier.moves,
            checkpoints: self.checkpoints - earlier.checkpoints,
            worked: Nanos(self.worked.0 - earlier.worked.0),
            overruns: self.overruns.since(&earlier.overruns),
        }
    }
}

/// What may still be done before the host's next request or a change of time.
struct Limits {
    /// Superblocks that may be moved: moving reads map pages, which may make others due.
    moves: u32,
    /// A checkpoint is not followed by another one.
    may_checkpoint: bool,
}

impl Limits {
    const fn new(superblocks: u32) -> Self {
        Self { moves: superblocks, may_checkpoint: true }
    }
}

impl Idle {
    /// `None` if the layer does no idle work. Errors: `Unfit` if that many superblocks are never
    /// free, or always.
    pub fn new(options: &PageMapOptions, room: &Room, superblocks: (u32, u32)) -> LayerResult<Option<Self>> {
        if options.idle_after == Nanos::ZERO {
            return match (options.idle_free, options.idle_gain > 0.0) {
                (0, false) => Ok(None),
                _ => unfit(
                    "idle_free or idle_gain without idle_after: expected both 0, or the time after which idle work begins"
                        .into(),
                ),
            };
        }
        let (count, slots) = superblocks;
        let held = room.user + room.map_pages;
        let most = u64::from(count).saturating_sub(room.open + held.div_ceil(u64::from(slots)));
        let least = room.free_min as u64 + 1;
        let enough = match u64::from(options.idle_free) {
            0 => room.free_min as u64 + most.saturating_sub(least - 1).div_ceil(4),
            enough if enough >= least && enough <= most => enough,
            enough if most < least => {
                return unfit(format!(
                    "idle_free {enough}: at most {most} superblocks can be free when the host has filled the device, and the layer keeps {} free anyway; expected 0, or more spare",
                    least - 1
                ));
            }
            enough => {
                return unfit(format!(
                    "idle_free {enough}: expected {least} to {most} superblocks, or 0; the layer keeps {} free anyway, and no more than {most} can be when the host has filled the device",
                    least - 1
                ));
            }
        };
        let gain = match options.idle_gain {
            0.0 => 1.0 - held as f64 / (f64::from(count) * f64::from(slots)),
            gain if gain > 0.0 && gain <= 1.0 => gain,
            gain => {
                return unfit(format!(
                    "idle_gain {gain}: expected a share of a superblock's pages, above 0 and up to 1, or 0"
                ));
            }
        };
        let won = (gain * f64::from(slots)).ceil() as u32;
        Ok(Some(Self {
            after: options.idle_after,
            enough: enough as usize,
            most_valid: slots.saturating_sub(won).min(room.most_valid),
            active: AtomicU64::new(0),
            end: Nanos::ZERO,
            is_done: false,
            failed: None,
            counters: IdleCounters::default(),
        }))
    }

    /// Records host activity until the given time.
    pub fn note_active(&self, until: Nanos) {
        self.active.fetch_max(until.0, Ordering::Relaxed);
    }

    /// The time at which idle work may start.
    fn begins(&mut self) -> Nanos {
        (Nanos(*self.active.get_mut()) + self.after).max(self.end)
    }
}

impl<F> PageMapFtl<F> {
    /// The counters of idle work; `None` if the layer does none.
    pub fn idle_counters(&self) -> Option<IdleCounters> {
        Some(self.idle.as_ref()?.counters)
    }

    /// Records a host read at or until the given time: the device is not idle.
    #[inline]
    pub(super) fn note_active(&self, until: Nanos) {
        if let Some(idle) = &self.idle {
            idle.note_active(until);
        }
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Handles a host change: does the idle work due before it, and makes cleaning worthwhile
    /// again.
    pub(super) fn end_idle(&mut self, context: &Context) -> LayerResult<()> {
        if let Some(failed) = self.idle.as_mut().and_then(|idle| idle.failed.take()) {
            return Err(failed);
        }
        self.work_until(context.issued)?;
        if let Some(idle) = &mut self.idle {
            idle.note_active(context.issued);
            idle.is_done = false;
        }
        Ok(())
    }

    /// Does idle work, one superblock at a time, until the given time. The last one may end later.
    fn work_until(&mut self, instant: Nanos) -> LayerResult<()> {
        let Some(idle) = &mut self.idle else { return Ok(()) };
        if self.halted.is_some() {
            return Ok(());
        }
        if self.last_change > idle.end {
            idle.note_active(self.last_change);
        }
        let mut at = idle.begins();
        let (mut works, mut limits) = (false, Limits::new(self.superblocks.count()));
        while at < instant {
            let context = Context { priority: Priority::Background, ..Context::at(at) };
            let worked = match self.work_once(&context, &mut limits) {
                // There is no room: the host gets an error if it needs some.
                Err(Failure::Full) => false,
                other => other?,
            };
            if !worked {
                // Nothing is due until then.
                let due = self.refresh.as_mut().and_then(|refresh| refresh.next_by_age());
                let Some(due) = due.filter(|due| *due > at && limits.moves > 0) else { break };
                (at, limits) = (due, Limits::new(self.superblocks.count()));
                continue;
            }
            works = true;
            let end = self.last_change.max(at);
            let Some(idle) = &mut self.idle else { return Ok(()) };
            idle.end = end;
            idle.counters.worked += end.since(at);
            at = end;
        }
        if let Some(idle) = self.idle.as_mut().filter(|idle| works && idle.end > instant) {
            idle.counters.overruns.add(idle.end.since(instant));
        }
        Ok(())
    }

    /// Does the next piece of work, if any: a due checkpoint goes before a superblock.
    fn work_once(&mut self, context: &Context, limits: &mut Limits) -> LayerResult<bool> {
        let before = self.counters.checkpoints;
        if std::mem::take(&mut limits.may_checkpoint) {
            self.checkpoint_if_due(context)?;
        }
        let checkpoints = self.counters.checkpoints - before;
        let moves = checkpoints == 0
            && limits.moves > 0
            && (self.refresh_one(context)? || self.level_due(context)?)
            && self.write_owed(context).map(|()| true)?;
        let cleanings = checkpoints == 0 && !moves && self.clean_one(context)?;
        if moves || cleanings {
            limits.may_checkpoint = true;
            limits.moves -= u32::from(moves);
        }
        if let Some(idle) = &mut self.idle {
            idle.counters.checkpoints += checkpoints;
            idle.counters.moves += u64::from(moves);
            idle.counters.cleanings += u64::from(cleanings);
        }
        Ok(checkpoints > 0 || moves || cleanings)
    }

    /// Cleans one superblock if too few are free and the gain is worth it, or if one has a failed
    /// block. Returns whether it did.
    fn clean_one(&mut self, context: &Context) -> LayerResult<bool> {
        let Some((enough, most_valid)) =
            self.idle.as_ref().filter(|idle| !idle.is_done).map(|idle| (idle.enough, idle.most_valid))
        else {
            return Ok(false);
        };
        let is_failing = self.failing.is_waiting();
        if self.free_count() >= enough && !is_failing {
            return Ok(false);
        }
        let before = self.room_left();
        let cleaned = if is_failing {
            self.clean(context)
        } else {
            let victim = self.chosen(context.issued).filter(|victim| self.index.valid(*victim) <= most_valid);
            victim.ok_or(Failure::Full).and_then(|victim| self.clean_superblock(context, victim))
        };
        let cleaned = cleaned.and_then(|()| self.write_owed(context));
        // If map pages took up the gain, this would go on for ever.
        let is_won = self.room_left() > before || is_failing && cleaned.is_ok();
        if let Some(idle) = self.idle.as_mut().filter(|_| !is_won) {
            idle.is_done = true;
        }
        match cleaned {
            Ok(()) => Ok(true),
            Err(Failure::Full) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Slots that can be programmed before another superblock must be cleaned.
    fn room_left(&self) -> u64 {
        let open = self.streams.frontiers.iter().filter(|frontier| !Self::is_closed(frontier));
        let pages: u64 = open.map(|frontier| u64::from(self.superblocks.pages().saturating_sub(frontier.next))).sum();
        self.free_count() as u64 * u64::from(self.superblocks.slots())
            + pages * u64::from(self.superblocks.slots_per_page())
    }
}

impl<F: Flash> Pacing for PageMapFtl<F> {
    fn quiet_until(&mut self, instant: Nanos) {
        // Before the flash advances: operations issued here start earlier.
        if let Err(failure) = self.work_until(instant)
            && let Some(idle) = &mut self.idle
        {
            idle.failed = Some(failure);
        }
        if let Some(pacing) = self.flash.pacing() {
            pacing.quiet_until(instant);
        }
    }

    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos {
        self.flash.pacing().map_or(told, |pacing| pacing.end_of(ticket, told))
    }
}
