//! Chooses the region for new and moved data, each with its own open block, so that data that dies
//! together is stored together.
//!
//! A [`Separation`] is the plain description of a scheme, a [`Separator`] the running scheme. The
//! owner asks it for every version that the user writes or cleaning moves, keeps the [`Datum`] it
//! returns with the version, and passes it back with the next question.
//!
//! ```
//! use nandkit_cleaning::separation::{DatumKey, Separation, Separator};
//! use nandkit_units::Nanos;
//!
//! let scheme: Separation = "dac:regions=3,promote-below=10s,demote-above=60s".parse().unwrap();
//! let mut separator = Separator::new(scheme);
//! let first = separator.on_write(DatumKey(7), None, Nanos::from_secs(1));
//! let second = separator.on_write(DatumKey(7), Some(first), Nanos::from_secs(2));
//! assert_eq!((first.region, second.region), (0, 1));
//! ```

mod flows;
mod frequency;
mod name;
mod sepbit;
#[cfg(test)]
mod tests;

use nandkit_units::Nanos;

pub use flows::{Event, Flows};
pub use frequency::FrequencyParameters;
pub use name::{SchemeInfo, SeparationError, info, names};

use frequency::Frequencies;
use sepbit::SepBit;

/// The most regions of a scheme.
pub const MAX_REGIONS: u8 = 16;

/// The identity of a datum across rewrites: a logical page, or a file and an offset in it, hashed
/// to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatumKey(pub u64);

/// A time on the scale of a scheme's [`Base`]. `Stamp(0)` also means unknown, and counts as long
/// ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

/// The unit of ages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Base {
    /// Nanoseconds of the injected clock. The default.
    #[default]
    Time,
    /// User writes seen by the separator, so that nothing ages in pauses.
    Writes,
}

/// What the owner keeps with a version, stored or in memory: 9 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Datum {
    /// The region where the version was written.
    pub region: u8,
    /// When the user wrote it; cleaning changes the region only.
    pub stamp: Stamp,
}

/// A scheme. Data of which nothing is known goes to region 0, unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Separation {
    /// A single region. The default.
    #[default]
    None,
    /// Region 0 for user writes, 1 for data that cleaning moves.
    UserMoved,
    /// Knowledge of the owner: region 0 for keys below this one, region 1 for all others, new or
    /// moved. For experiments: the best possible result if the hot data is known.
    Known {
        /// The first key of region 1.
        below: u64,
    },
    /// P2's dynamic data clustering, after Chiang, Lee and Chang (Software: Practice and Experience
    /// 29(3), 1999): region 0 is the bottom, the coldest. A first write goes to the bottom. An
    /// update of a version that lived shorter than `promote_below` goes one region up; one that
    /// lived longer stays in its region (P2 does not say; only cleaning moves down). Cleaning moves
    /// what is older than `demote_above` one region down and what is younger one up (P2); exactly
    /// as old, it stays. The age of a moved version counts from the user's write.
    Dac {
        /// Regions, 1 to [`MAX_REGIONS`].
        regions: u8,
        /// The unit of the thresholds.
        base: Base,
        /// The threshold of updates.
        promote_below: u64,
        /// The threshold of cleaning.
        demote_above: u64,
        /// Whether cleaning moves young data up (P2), or leaves them in their region.
        clean_promotes: bool,
    },
    /// By the last interval between two writes: region 0 holds intervals under `first`, each
    /// further region intervals `factor` times as long, the last region all longer ones and first
    /// writes. Cleaning moves a version on as soon as its age shows that its interval was
    /// underestimated.
    Interval {
        /// Regions, 1 to [`MAX_REGIONS`].
        regions: u8,
        /// The unit of `first`.
        base: Base,
        /// The exclusive upper bound of region 0.
        first: u64,
        /// The ratio between neighbouring regions, at least 2.
        factor: u32,
    },
    /// By update frequency: see [`FrequencyParameters`].
    Frequency(FrequencyParameters),
    /// A chain of groups: the user writes to group 0, and each time cleaning moves a version it
    /// goes one group further, up to the last, so that groups sort versions by age. This is the
    /// arrangement of MiDAS (Oh et al., FAST 2024) without its adaptation: its hot group, and the
    /// number and size of its groups by update-interval distribution and Markov chain.
    Chain {
        /// Groups, 1 to [`MAX_REGIONS`].
        groups: u8,
    },
    /// SepBIT (Wang et al., FAST 2022), six regions, ages in user writes. `l` is the mean lifespan
    /// of the last 16 blocks cleaned in region 0, from opening to cleaning; infinite until there
    /// were 16. User writes go to region 0 if they replace a version that lived shorter than `l`,
    /// else to 1. Cleaning moves versions from region 0 to 2, and from all others to 3, 4 or 5 by
    /// age since the user's write: under `4 l`, under `16 l`, more. The authors' classes 1 to 6 are
    /// regions 0 to 5. They look up the lifespans of replaced versions in a queue of recent writes
    /// of about `l` entries; here the owner knows them exactly, as in their Algorithm 1.
    SepBit,
}

impl Separation {
    /// The number of regions, 1 to [`MAX_REGIONS`].
    pub fn regions(&self) -> u8 {
        let regions = match *self {
            Self::None => 1,
            Self::UserMoved | Self::Known { .. } => 2,
            Self::Dac { regions, .. } | Self::Interval { regions, .. } | Self::Chain { groups: regions } => regions,
            Self::Frequency(parameters) => parameters.regions,
            Self::SepBit => 6,
        };
        regions.clamp(1, MAX_REGIONS)
    }

    /// The unit of its stamps.
    pub const fn base(&self) -> Base {
        match self {
            Self::Dac { base, .. } | Self::Interval { base, .. } => *base,
            Self::SepBit => Base::Writes,
            Self::None | Self::UserMoved | Self::Known { .. } | Self::Frequency(_) | Self::Chain { .. } => Base::Time,
        }
    }
}

/// A running scheme. Its memory is bounded: a few words, and the counters of
/// [`Separation::Frequency`].
#[derive(Clone, Debug)]
pub struct Separator {
    scheme: Separation,
    writes: u64,
    sepbit: SepBit,
    frequencies: Frequencies,
    flows: Flows,
}

impl Separator {
    /// A scheme that has seen nothing yet.
    pub fn new(scheme: Separation) -> Self {
        let frequencies = match scheme {
            Separation::Frequency(parameters) => Frequencies::new(parameters),
            _ => Frequencies::default(),
        };
        Self { scheme, writes: 0, sepbit: SepBit::default(), frequencies, flows: Flows::new(scheme.regions()) }
    }

    /// The scheme.
    pub const fn scheme(&self) -> Separation {
        self.scheme
    }

    /// The number of regions; every answer is below it.
    pub fn regions(&self) -> u8 {
        self.scheme.regions()
    }

    /// The moves between regions so far.
    pub const fn flows(&self) -> &Flows {
        &self.flows
    }

    /// The current time in the scheme's unit. The owner stores it for each block that it opens, and
    /// passes it to [`Separator::on_victim`].
    pub const fn stamp(&self, now: Nanos) -> Stamp {
        match self.scheme.base() {
            Base::Time => Stamp(now.get()),
            Base::Writes => Stamp(self.writes),
        }
    }

    /// The region for a version that the user writes now. `previous` is the datum of the version
    /// that it replaces; `None` for a first write.
    pub fn on_write(&mut self, key: DatumKey, previous: Option<Datum>, now: Nanos) -> Datum {
        let stamp = self.stamp(now);
        let previous = previous.map(|datum| self.bounded(datum));
        let lifespan = previous.map(|datum| stamp.0.saturating_sub(datum.stamp.0));
        let region = match self.scheme {
            Separation::None | Separation::UserMoved | Separation::Chain { .. } => 0,
            Separation::Known { below } => u8::from(key.0 >= below),
            Separation::Dac { promote_below, .. } => {
                let up = lifespan.is_some_and(|lifespan| lifespan < promote_below);
                previous.map_or(0, |datum| datum.region.saturating_add(u8::from(up)))
            }
            Separation::Interval { first, factor, .. } => {
                lifespan.map_or(u8::MAX, |lifespan| interval_region(lifespan, first, factor))
            }
            Separation::Frequency(_) => self.frequencies.on_write(key.0),
            Separation::SepBit => self.sepbit.on_write(lifespan),
        };
        self.writes = self.writes.saturating_add(1);
        let datum = self.bounded(Datum { region, stamp });
        self.flows.count(Event::Write, previous.map(|datum| datum.region), datum.region);
        datum
    }

    /// The region to which cleaning moves a version with this datum.
    pub fn on_clean(&mut self, key: DatumKey, datum: Datum, now: Nanos) -> Datum {
        let datum = self.bounded(datum);
        let (from, age) = (datum.region, self.stamp(now).0.saturating_sub(datum.stamp.0));
        let region = match self.scheme {
            Separation::None => 0,
            Separation::UserMoved => 1,
            Separation::Known { below } => u8::from(key.0 >= below),
            Separation::Chain { .. } => from.saturating_add(1),
            Separation::Dac { demote_above, clean_promotes, .. } => {
                if age > demote_above {
                    from.saturating_sub(1)
                } else {
                    from.saturating_add(u8::from(clean_promotes && age < demote_above))
                }
            }
            Separation::Interval { first, factor, .. } => from.max(interval_region(age, first, factor)),
            Separation::Frequency(_) => self.frequencies.region(key.0),
            Separation::SepBit => self.sepbit.on_clean(from, age),
        };
        let moved = self.bounded(Datum { region, ..datum });
        self.flows.count(Event::Clean, Some(from), moved.region);
        moved
    }

    /// Notes that a block is about to be cleaned: its region, and the stamp of its opening. Called
    /// once per victim, before its data is moved.
    pub fn on_victim(&mut self, region: u8, opened: Stamp, now: Nanos) {
        let lifespan = self.stamp(now).0.saturating_sub(opened.0);
        if self.scheme == Separation::SepBit {
            self.sepbit.on_victim(region, lifespan);
        }
    }

    /// Limits the region of a datum, which may come from another scheme or a damaged image.
    fn bounded(&self, datum: Datum) -> Datum {
        Datum { region: datum.region.min(self.regions() - 1), ..datum }
    }
}

/// The region of an interval: 0 below `first`, one more per `factor`.
fn interval_region(interval: u64, first: u64, factor: u32) -> u8 {
    let (mut limit, mut region) = (first.max(1), 0);
    while interval >= limit && region < MAX_REGIONS {
        limit = limit.saturating_mul(u64::from(factor.max(2)));
        region += 1;
        if limit == u64::MAX {
            break;
        }
    }
    region
}
