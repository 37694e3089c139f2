//! Modes of treating used segments before their gaps are filled, by their names in specs.

#![allow(dead_code, reason = "each user takes its part")]

use std::sync::Arc;

use nandkit_block::BlockDevice;
use nandkit_cleaning::partial::{LearnedTimes, Method, RequestTimes};
use nandkit_cleaning::search::AgedGaps;
use nandkit_f2fs::clean::partial::PartialCollection;
use nandkit_f2fs::clean::partial_counters::Published;
use nandkit_f2fs::clean::policy::PolicySearch;
use nandkit_f2fs::{WritableVolume, WriteOptions};

/// A mode.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub name: &'static str,
    /// `None`: segments are filled as they are.
    method: Option<Method>,
    /// Moved blocks always fill holes.
    plugs_holes: bool,
    /// Logs never fill holes.
    lfs: bool,
    /// The collector chooses by age, and so does the choice of holes that it fills.
    by_age: bool,
    /// The device's times are learned.
    learns: bool,
}

const PLAIN: Mode = Mode { name: "ssr", method: None, plugs_holes: false, lfs: false, by_age: false, learns: false };

pub const MODES: [Mode; 8] = [
    PLAIN,
    Mode { name: "gc", method: Some(Method::Everything), ..PLAIN },
    Mode { name: "pgc", method: Some(Method::RunByRun), ..PLAIN },
    Mode { name: "pgc-optimal", method: Some(Method::Optimal), ..PLAIN },
    Mode { name: "hole-plugging", method: Some(Method::Everything), plugs_holes: true, ..PLAIN },
    Mode { name: "zoned", lfs: true, ..PLAIN },
    Mode { name: "atgc", by_age: true, ..PLAIN },
    Mode { name: "pgc-learned", method: Some(Method::RunByRun), learns: true, ..PLAIN },
];

impl Mode {
    /// Whether the mode moves runs of valid blocks.
    pub const fn treats(&self) -> bool {
        self.method.is_some()
    }

    /// Whether it also does so on a device that takes no time, from which nothing can be learned.
    pub const fn treats_without_time(&self) -> bool {
        self.method.is_some() && !self.learns
    }

    /// Whether logs fill holes.
    pub const fn fills(&self) -> bool {
        !self.lfs
    }

    /// Whether the collector and its targets are chosen by age.
    pub const fn goes_by_age(&self) -> bool {
        self.by_age
    }

    pub fn options(&self, options: WriteOptions) -> WriteOptions {
        let aged_gaps = self.by_age.then_some(AgedGaps::LINUX);
        WriteOptions { plugs_holes: self.plugs_holes, lfs: self.lfs, aged_gaps, ..options }
    }

    /// Sets up a mounted volume for the mode; returns its counters, if it has any.
    pub fn begin<D: BlockDevice>(&self, volume: &mut WritableVolume<D>, times: RequestTimes) -> Option<Arc<Published>> {
        self.begin_with(volume, times, 1)
    }

    /// Like [`Mode::begin`], with this many segments treated before a checkpoint.
    pub fn begin_with<D: BlockDevice>(
        &self,
        volume: &mut WritableVolume<D>,
        times: RequestTimes,
        segments: u32,
    ) -> Option<Arc<Published>> {
        if self.by_age {
            volume.set_search(Box::new(PolicySearch::new("age-threshold".parse().unwrap(), 1)));
        }
        let review = match self.learns {
            true => PartialCollection::learning(LearnedTimes::default(), self.method?, segments),
            false => PartialCollection::new(times, self.method?, segments),
        };
        let statistics = review.statistics();
        volume.set_review(Box::new(review));
        Some(statistics)
    }
}

/// The times of a device on which joining two requests always pays off.
pub fn slow_requests() -> RequestTimes {
    RequestTimes::new(512, |blocks| 100_000 + u64::from(blocks), |blocks| 10_000_000 + 1_000 * u64::from(blocks))
}
