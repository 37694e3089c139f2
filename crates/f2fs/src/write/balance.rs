//! Between operations: writes back pages, makes checkpoints and collects sections before their room
//! runs out (segment.c, `f2fs_balance_fs`, `f2fs_balance_fs_bg`).

use std::fmt;
use std::sync::{Mutex, PoisonError};

use nandkit_block::BlockDevice;
use nandkit_units::Nanos;
use nandkit_vfs::Result;

use super::WritableVolume;
use super::back::Why;
use crate::blocks::Blocks;
use crate::clean::balance::{Foreground, Need, is_short, most_needed};
use crate::clean::collect::{CollectedSection, collect};
use crate::clean::mover::{BlockMover, CopyMover};
use crate::clean::review::{Measured, NoReview, ReuseReview};
use crate::clean::section_search::SectionSearch;
use crate::clean::{Collection, VictimSearch, reuse};
use crate::counters::Reason;
use crate::ids::{BlockAddress, Log, NodeId, SegmentIndex};
use crate::segments::Segments;

/// A checkpoint is made when this many nodes or directory pages wait: eight segments (segment.c,
/// `f2fs_balance_fs_bg`; node.h).
const MOST_WAITING: u64 = 8 * 512;
/// The most segments that may wait for a checkpoint to become free (segment.h,
/// DEF_MAX_RECLAIM_PREFREE_SEGMENTS); [`PREFREE_PERCENT`] bounds them on a small volume.
const MOST_PREFREE: u32 = 4096;
const PREFREE_PERCENT: u32 = 5;

/// The policies that choose sections, move their blocks and review segments before their gaps are
/// filled.
pub struct Cleaners {
    search: Mutex<Box<dyn VictimSearch>>,
    mover: Mutex<Box<dyn BlockMover>>,
    review: Mutex<Box<dyn ReuseReview>>,
    /// Whether the review wants to be asked.
    pub(super) reviews: bool,
    /// Per data log: the segment and the checkpoint version for which the review was last asked.
    asked: [Option<(SegmentIndex, u64)>; 3],
    /// Segments that logs had taken when the remaining room was last checked.
    taken: u64,
}

/// The data logs, whose segments are reviewed.
const REVIEWED: [Log; 3] = [Log::HotData, Log::WarmData, Log::ColdData];

impl Cleaners {
    /// The policies of Linux.
    pub(crate) fn linux(segments: &Segments, now: u64) -> Self {
        Self {
            search: Mutex::new(Box::new(SectionSearch::new(segments, now))),
            mover: Mutex::new(Box::new(CopyMover)),
            review: Mutex::new(Box::new(NoReview)),
            reviews: false,
            asked: [None; 3],
            taken: 0,
        }
    }
}

impl fmt::Debug for Cleaners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cleaners")
    }
}

fn own<T: ?Sized>(held: &mut Mutex<Box<T>>) -> &mut Box<T> {
    held.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Replaces the search for sections to collect.
    pub fn set_search(&mut self, search: Box<dyn VictimSearch>) {
        *own(&mut self.writer.cleaners.search) = search;
    }

    /// Replaces the way blocks are moved.
    pub fn set_mover(&mut self, mover: Box<dyn BlockMover>) {
        *own(&mut self.writer.cleaners.mover) = mover;
    }

    /// Replaces the review of segments before their gaps are filled.
    pub fn set_review(&mut self, review: Box<dyn ReuseReview>) {
        self.writer.cleaners.reviews = review.wants();
        if review.wants_pages() {
            self.count_reads();
        }
        self.device.keep_seen(review.learns());
        *own(&mut self.writer.cleaners.review) = review;
        self.writer.cleaners.asked = [None; 3];
    }

    /// Makes room for the next operation. Methods that change content call it themselves; code that
    /// changes only inodes or directory pages calls it first, never in the middle of an atomic
    /// change. Errors: `ReadOnly` (the volume stopped), `NoSpace`, `Device`, `Corrupt`. Cost: reads
    /// counters; at times write-backs, a checkpoint, collections.
    pub fn balance(&mut self) -> Result<()> {
        self.expect_running()?;
        if self.writer.recovering {
            return Ok(());
        }
        self.begin_anew()?;
        self.writer.idle.operation = self.device.now();
        self.write_back_over_limit()?;
        self.tell_pages();
        if self.wants_checkpoint() {
            self.checkpoint(Reason::Sync)?;
            self.tell_pages();
        }
        self.prepare_gaps()?;
        self.collect_in_foreground()
    }

    /// Makes a checkpoint before the first change of a mount; it writes no node. An earlier mount
    /// may have left nodes after the warm-node log, from a chain whose beginning a power cut lost.
    /// They carry the last checkpoint's version, so a new chain would run into them.
    pub(super) fn begin_anew(&mut self) -> Result<()> {
        if self.writer.has_checkpoint { Ok(()) } else { self.checkpoint(Reason::Forced) }
    }

    fn tell_pages(&mut self) {
        let (nodes, quotas) = (self.nodes.waiting() as u64, self.quota_pages());
        let pages = self.writer.pages.get_mut().unwrap_or_else(PoisonError::into_inner);
        pages.tell(&mut self.writer.segments.pages);
        self.writer.segments.pages.nodes = nodes;
        // Written with the checkpoint, each owner in at most one page.
        self.writer.segments.pages.dentries += quotas;
    }

    /// Writes back pages beyond the limit, inodes in the order in which they became dirty. A page
    /// that the device refuses is reported by its file's fsync, and by every operation once twice
    /// the limit is dirty.
    fn write_back_over_limit(&mut self) -> Result<()> {
        if !self.writer.pages().is_over_limit() {
            return Ok(());
        }
        let most = self.writer.options.pages.dirty / 2;
        loop {
            let before = self.writer.pages().counts().1;
            if before <= most {
                return Ok(());
            }
            let inodes: Vec<NodeId> = self.writer.pages().dirty_inodes().take(64).collect();
            match self.write_back(&inodes, Why { prepares_gaps: true, ..Why::BACKGROUND }) {
                Ok(()) if self.writer.pages().counts().1 == before => return Ok(()),
                Ok(()) => {}
                Err(error) if self.goes_on_behind(&error) => {
                    let left = self.writer.pages().counts().1;
                    if left >= before {
                        return if left > 2 * self.writer.options.pages.dirty { Err(error) } else { Ok(()) };
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn wants_checkpoint(&self) -> bool {
        let (pages, segments) = (&self.writer.segments.pages, self.writer.segments.sit().segments());
        let prefree = self.writer.segments.dirty().prefree().count();
        let most_prefree = (u64::from(segments) * u64::from(PREFREE_PERCENT) / 100).clamp(8, MOST_PREFREE.into());
        pages.nodes > MOST_WAITING
            || pages.dentries > MOST_WAITING
            || self.nat.waiting() as u64 > (self.geometry().nid_end() / 10).max(1000)
            || u64::from(prefree) > most_prefree
    }

    /// Whether a data log moved to another segment since its next one was reviewed. Cost: a few
    /// comparisons.
    pub(super) fn gaps_are_due(&self) -> bool {
        let version = self.state.head.version.get();
        let asked = |log: Log| Some((self.writer.segments.current(log), version));
        self.writer.cleaners.reviews
            && !self.writer.recovering
            && REVIEWED.into_iter().zip(self.writer.cleaners.asked).any(|(log, last)| last != asked(log))
            && self.writer.segments.needs_ssr()
    }

    /// Reviews the segments whose gaps the data logs will fill next.
    pub(super) fn prepare_gaps(&mut self) -> Result<()> {
        if !self.gaps_are_due() {
            return Ok(());
        }
        let mut review = std::mem::replace(own(&mut self.writer.cleaners.review), Box::new(NoReview));
        let mut mover = std::mem::replace(own(&mut self.writer.cleaners.mover), Box::new(CopyMover));
        self.device.take_seen().into_iter().for_each(|seen| review.measured(Measured::Request(seen)));
        let mut done = Ok(());
        for (number, log) in REVIEWED.into_iter().enumerate() {
            let asked = (self.writer.segments.current(log), self.state.head.version.get());
            if self.writer.cleaners.asked.get_mut(number).is_some_and(|last| last.replace(asked) == Some(asked)) {
                continue;
            }
            done = self.prepare_log(log, review.as_mut(), mover.as_mut());
            if done.is_err() {
                break;
            }
        }
        *own(&mut self.writer.cleaners.review) = review;
        *own(&mut self.writer.cleaners.mover) = mover;
        self.or_stop(done)
    }

    /// Treats the segments that a log will fill next as its review says, and makes the checkpoint
    /// that they wait for.
    fn prepare_log(&mut self, log: Log, review: &mut dyn ReuseReview, mover: &mut dyn BlockMover) -> Result<()> {
        let most = review.segments_per_checkpoint();
        let mut treated = 0;
        for _ in 0..most.max(1) {
            self.device.drain();
            let before = self.device.now();
            let reuse = reuse::prepare(self, log, review, mover)?;
            self.writer.counters.treated(&reuse);
            self.writer.mapped.extend(&reuse.mapped);
            let Some(segment) = reuse.treated else { break };
            treated += 1;
            self.device.drain();
            review.measured(Measured::Treated(segment, self.device.now().since(before)));
        }
        if most > 0 && treated > 0 {
            let before = self.device.now();
            self.checkpoint(Reason::Forced)?;
            self.tell_pages();
            review.measured(Measured::Checkpoint(self.device.now().since(before)));
        }
        Ok(())
    }

    /// Tells the review how long it took to write blocks into the gaps of a segment.
    pub(super) fn tell_filled(&mut self, at: BlockAddress, blocks: u32, time: Nanos) {
        if let Some((segment, _)) = self.device.geometry().main(at) {
            own(&mut self.writer.cleaners.review).measured(Measured::Filled(segment, blocks, time));
        }
    }

    /// Whether there are too few free sections for the dirty pages.
    pub(super) fn is_short(&mut self) -> bool {
        self.tell_pages();
        is_short(&self.writer.segments, 0)
    }

    /// Whether there may be too few, during a write-back: pages being written still count as dirty,
    /// and their nodes do not count yet.
    pub(super) fn may_be_short(&mut self) -> bool {
        self.tell_pages();
        let free = u64::from(self.writer.segments.free_map().sections());
        free <= most_needed(&self.writer.segments) + 1
    }

    /// Whether logs took segments since the last call and free sections may now be too few. A
    /// write-back fills many segments, and what it frees is no gap before the next checkpoint;
    /// Linux balances after each page (data.c, `f2fs_write_single_data_page`). Cost: reads
    /// counters.
    pub(super) fn room_is_due(&mut self) -> bool {
        let taken = self.writer.segments.usage().segments_taken();
        std::mem::replace(&mut self.writer.cleaners.taken, taken) != taken
            && !self.writer.recovering
            && self.may_be_short()
    }

    pub(super) fn collect_in_foreground(&mut self) -> Result<()> {
        let mut course = Foreground::default();
        // Each round empties a section or ends in a checkpoint; if nearly all sections are full,
        // more rounds gain nothing.
        for _ in 0..2 * self.writer.segments.sit().sections() {
            match course.need(&self.writer.segments) {
                Need::Nothing => return Ok(()),
                Need::Checkpoint => {
                    self.checkpoint(Reason::Forced)?;
                    course.checkpointed();
                }
                Need::Collect => match self.collect_one(Collection::Foreground)? {
                    Some(outcome) => course.collected(outcome.emptied),
                    None => break,
                },
            }
            self.tell_pages();
        }
        // A checkpoint frees the emptied segments when no other section is worth collecting.
        if self.writer.segments.dirty().prefree().count() > 0 { self.checkpoint(Reason::Forced) } else { Ok(()) }
    }

    /// Collects one section; `None` if no section is worth it. Errors: as
    /// [`WritableVolume::balance`]. Cost: reads and writes its live blocks.
    pub fn collect_one(&mut self, why: Collection) -> Result<Option<CollectedSection>> {
        self.expect_running()?;
        if !self.writer.recovering {
            self.begin_anew()?;
        }
        let now = Nanos::from_secs(self.elapsed_seconds());
        let Some(section) = own(&mut self.writer.cleaners.search).choose(&mut self.writer.segments, why, now) else {
            return Ok(None);
        };
        let mut mover = std::mem::replace(own(&mut self.writer.cleaners.mover), Box::new(CopyMover));
        let outcome = collect(self, section, mover.as_mut());
        *own(&mut self.writer.cleaners.mover) = mover;
        let outcome = self.or_stop(outcome)?;
        self.writer.mapped.extend(&outcome.mapped);
        self.writer.counters.collected(why, &outcome);
        Ok(Some(outcome))
    }
}
