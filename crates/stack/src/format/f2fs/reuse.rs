//! The option `reuse`: what happens to a used segment before its gaps are filled, such as
//! `pgc:segments=2`.

use std::path::Path;

use nandkit_block::RemapLimits;
use nandkit_block::card::CardSpec;
use nandkit_cleaning::gather::GatherCosts;
use nandkit_cleaning::partial::{LearnedTimes, Method};
use nandkit_f2fs::clean::partial::PartialCollection;

use super::costs::{self, Curve};
use crate::frame::Frame;
use crate::{DeviceSpec, FtlSpec, SpecError, StackError, suggest};

/// Largest number of segments treated per checkpoint.
const SEGMENTS_MOST: u32 = 8;

/// The meaning of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    name: &'static str,
    /// Treatment before gaps are filled; `None`: no treatment.
    pub method: Option<Method>,
    /// Whether moved blocks always go into gaps.
    pub plugs_holes: bool,
    /// Whether gaps are never filled.
    pub never_fills: bool,
    /// Whether the collector goes by age, and fills gaps of segments of similar age.
    pub goes_by_age: bool,
    /// Whether the costs of all methods, including remapping, are compared for each run.
    pub weighs_all: bool,
}

/// The value of the key `reuse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reuse {
    /// The method.
    pub way: Way,
    /// Segments treated per checkpoint.
    pub segments: u32,
    /// Which write times of the card are used.
    pub curve: Curve,
}

const fn way(name: &'static str, method: Option<Method>) -> Way {
    Way { name, method, plugs_holes: false, never_fills: false, goes_by_age: false, weighs_all: false }
}

/// All methods with their names.
const WAYS: [Way; 8] = [
    way("ssr", None),
    way("pgc", Some(Method::RunByRun)),
    way("pgc-optimal", Some(Method::Optimal)),
    way("gc", Some(Method::Everything)),
    Way { plugs_holes: true, ..way("hole-plugging", Some(Method::Everything)) },
    Way { never_fills: true, ..way("zoned", None) },
    Way { goes_by_age: true, ..way("atgc", None) },
    Way { weighs_all: true, ..way("unified", None) },
];

/// The victim policy of [`Way::goes_by_age`] in idle times.
pub(crate) const BY_AGE: &str = "age-threshold";

impl Reuse {
    /// Parses the value in a spec. Errors list the known names.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let known: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        let found = WAYS.iter().find(|way| way.name == name);
        let Some(way) = found.copied() else {
            return Err(SpecError::unknown(format!("reuse: {}", suggest::unknown("way", name, &known))));
        };
        let mut reuse = Self { way, segments: 1, curve: Curve::Spread };
        for option in options.split(',').filter(|option| !option.is_empty()) {
            if way.method.is_none() && !way.weighs_all {
                return Err(SpecError::form(format!("reuse: {option:?} of {name}; it has no options")));
            }
            reuse.set(option)?;
        }
        Ok(reuse)
    }

    /// Checks the method against `mode=lfs`. Error: the method fills gaps.
    pub fn check_lfs(&self) -> Result<(), SpecError> {
        let Way { name, method, goes_by_age, weighs_all, .. } = self.way;
        if method.is_some() || goes_by_age || weighs_all {
            return Err(SpecError::form(format!("reuse is {name}, but with mode=lfs gaps are never filled")));
        }
        Ok(())
    }

    fn set(&mut self, option: &str) -> Result<(), SpecError> {
        match option.split_once('=') {
            Some(("segments", count)) => {
                let found = count.parse().ok().filter(|count| (1..=SEGMENTS_MOST).contains(count));
                self.segments = found.ok_or_else(|| {
                    SpecError::range(format!("reuse: segments is {count}; expected 1 to {SEGMENTS_MOST}"))
                })?;
            }
            Some(("curve", "spread")) => self.curve = Curve::Spread,
            Some(("curve", "unit")) => self.curve = Curve::Unit,
            Some(("curve", "learned")) => self.curve = Curve::Learned,
            _ => {
                let detail =
                    format!("reuse: {option:?}; expected segments=N, curve=spread, curve=unit or curve=learned");
                return Err(SpecError::form(detail));
            }
        }
        Ok(())
    }

    /// The costs of requests and remaps if all methods are compared, from a card file or from the
    /// device itself. Errors: no such file; a device without figures.
    pub fn costs(
        &self,
        curve: &str,
        (device, ftl): (&DeviceSpec, &FtlSpec),
        limits: Option<RemapLimits>,
    ) -> Result<Option<GatherCosts>, StackError> {
        if !self.way.weighs_all {
            return Ok(None);
        }
        if self.curve == Curve::Learned {
            let detail = "reuse: unified uses the device's figures and cannot take curve=learned; expected curve=spread or curve=unit";
            return Err(StackError::new("stack.fs", SpecError::form(detail.to_string())));
        }
        if !curve.is_empty() {
            return card_of(Path::new(curve)).map(|card| Some(costs::of_card(&card, self.curve)));
        }
        let found = costs::costs_of(device, ftl, limits, self.curve);
        let detail = "reuse: unified needs the device's times; expected a drive or a card as device, or reuse_curve = 'FILE.toml' \
                      as `nandkit calibrate` writes it";
        found.map(Some).ok_or_else(|| StackError::new("stack.fs", SpecError::form(detail.to_string())))
    }

    /// The card whose request times are used: that of a card file, or that of the stack. `None` if
    /// gaps are filled without treatment, or times are learned. Errors: no card; an unreadable card
    /// file, or one that is not needed.
    pub fn card(&self, curve: &str, own: Option<&CardSpec>) -> Result<Option<CardSpec>, StackError> {
        if self.way.method.is_none() {
            return Ok(None);
        }
        if self.curve == Curve::Learned {
            if curve.is_empty() {
                return Ok(None);
            }
            let detail = format!("{curve}, but reuse says curve=learned; expected one of the two");
            return Err(StackError::new("stack.fs.reuse_curve", SpecError::form(detail)));
        }
        if !curve.is_empty() {
            return card_of(Path::new(curve)).map(Some);
        }
        let detail = "reuse: moving runs needs request times by size, which only cards have; expected a card \
                      as device, reuse_curve = 'FILE.toml' as `nandkit calibrate` writes it, or curve=learned";
        let own = own.cloned().ok_or_else(|| StackError::new("stack.fs", SpecError::form(detail.to_string())));
        own.map(Some)
    }

    /// The review of segments, by the times of [`Reuse::card`] or by measured times; `None` if gaps
    /// are filled without treatment.
    pub fn review(&self, curve: &str, frame: &Frame) -> Result<Option<PartialCollection>, StackError> {
        let Some(method) = self.way.method else { return Ok(None) };
        Ok(Some(match self.card(curve, frame.card.as_deref())? {
            Some(card) => PartialCollection::new(costs::times_of(&card, self.curve), method, self.segments),
            None => {
                let learning = PartialCollection::learning(LearnedTimes::default(), method, self.segments);
                match frame.card.as_deref() {
                    Some(card) => learning.beside(costs::times_of(card, self.curve)),
                    None => learning,
                }
            }
        }))
    }
}

fn card_of(path: &Path) -> Result<CardSpec, StackError> {
    let wrong = |detail: String| StackError::new("stack.fs.reuse_curve", format!("{}: {detail}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot read: {error}")))?;
    CardSpec::from_toml(&text).map_err(|error| wrong(error.to_string()))
}
