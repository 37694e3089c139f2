//! Calibration: measures a device's times by request size and how many units it keeps open, and
//! makes a card of these figures.
//!
//! The caller passes a [`Target`], which answers each request with the time that it took: the
//! simulated time of a stack ([`EmulatedTarget`]), or real time, which only a door can measure.
//! `docs/design/15-cards.md` describes the steps and what could go wrong with them.

mod card;
mod open_units;
mod places;
mod series;
mod target;

use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_units::{Nanos, format_bytes};
use serde::Serialize;

pub use card::CalibratedCard;
pub use open_units::{MeasuredOpenUnits, StreamTime};
pub use series::{RequestTime, Series};
pub use target::{EmulatedTarget, Target, TargetShape};

use crate::LabError;
use places::Places;

/// The largest request that is measured.
const LARGEST: u64 = 16 << 20;
/// The smallest request that is measured.
const SMALLEST: u64 = 512;
/// Size of a unit if neither the device nor the caller tells it: the largest of an SD card up to 32
/// GB (SD Physical Layer Simplified Specification 4.10, table 4-47).
pub const UNIT_ASSUMED: u64 = 4 << 20;
/// Least number of units on a device: with fewer, nothing shows how many are open.
const UNITS_MIN: u64 = 8;

/// Whether a request reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// Where the requests of a series lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placing {
    /// Each begins where the last one ended.
    Sequential,
    /// Anywhere in one unit, which is open.
    InUnit,
    /// Anywhere on the device; each small write goes to a unit that is not open.
    Spread,
}

/// What is measured, and how thoroughly.
pub struct CalibrateOptions<'a> {
    /// Whether the calibration may write; what the device holds is then lost.
    pub writes: bool,
    /// Whether the whole device is written once before, as layers above flash are faster when they
    /// are new.
    pub fill: bool,
    /// Whether to measure fewer sizes with fewer requests.
    pub quick: bool,
    /// Bytes of a unit, where the caller knows them better than the device.
    pub unit: Option<u64>,
    /// Seed of the places that requests go to.
    pub seed: u64,
    /// Called with the number of steps done and the number of all steps.
    pub progress: &'a dyn Fn(usize, usize),
    /// Set to end the calibration with [`LabError::Stopped`].
    pub stop: &'a AtomicBool,
}

/// The limits of a calibration's effort.
#[derive(Clone, Copy, Debug)]
struct Effort {
    requests_min: usize,
    requests_max: usize,
    /// Device time after which enough requests of a size were measured.
    budget: Nanos,
    /// Streams that are tried at most.
    streams_max: u64,
    /// The ratio of each size to the size before it.
    step: u64,
}

impl Effort {
    const THOROUGH: Self =
        Self { requests_min: 16, requests_max: 256, budget: Nanos(2_000_000_000), streams_max: 256, step: 2 };
    const QUICK: Self =
        Self { requests_min: 6, requests_max: 32, budget: Nanos(250_000_000), streams_max: 32, step: 4 };
}

/// The unit that a calibration counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// Bytes of the unit.
    pub bytes: u64,
    /// Whether the device or the caller told the size of the unit; otherwise it is
    /// [`UNIT_ASSUMED`].
    pub is_told: bool,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// The device's sizes.
    pub shape: TargetShape,
    /// The unit.
    pub unit: Unit,
    /// Number of units that the device keeps open; `None` if nothing was written.
    pub open_units: Option<MeasuredOpenUnits>,
    /// What closing a whole unit takes, in nanoseconds; 0 where nothing was written.
    pub merge_ns: u64,
    /// The times by size.
    pub series: Vec<Series>,
}

impl Calibration {
    /// The series of this direction and placing, if it was measured.
    pub fn series(&self, direction: Direction, placing: Placing) -> Option<&Series> {
        self.series.iter().find(|series| (series.direction, series.placing) == (direction, placing))
    }
}

/// A measurement that is under way.
struct Run<'a> {
    target: &'a mut dyn Target,
    options: &'a CalibrateOptions<'a>,
    effort: Effort,
    places: Places,
    unit: u64,
    /// Number of writes after which no unit that was open before is still open.
    priming: u64,
    done: usize,
    steps: usize,
}

impl Run<'_> {
    fn request(&mut self, direction: Direction, at: u64, bytes: u64) -> Result<Nanos, LabError> {
        if self.options.stop.load(Ordering::Relaxed) {
            return Err(LabError::Stopped { finished: self.done, total: self.steps });
        }
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let done = match direction {
            Direction::Read => self.target.read(at, length),
            Direction::Write => self.target.write(at, length),
        };
        done.map_err(LabError::Failed)
    }

    fn step_done(&mut self) {
        self.done += 1;
        (self.options.progress)(self.done, self.steps);
    }

    /// Writes everything once.
    fn fill(&mut self) -> Result<(), LabError> {
        let (capacity, piece) = (self.places.capacity(), 1 << 20);
        let mut at = 0;
        while at < capacity {
            let bytes = piece.min(capacity - at);
            self.request(Direction::Write, at, bytes)?;
            at += bytes;
        }
        self.step_done();
        Ok(())
    }
}

/// The sizes that are measured: from a sector, or 512 bytes, to 16 MiB or an eighth of the device.
fn sizes(shape: &TargetShape, step: u64) -> Vec<u64> {
    let smallest = u64::from(shape.sector_size).max(if step > 2 { 4096 } else { SMALLEST });
    let largest = LARGEST.min(shape.capacity / 8);
    std::iter::successors(Some(smallest), |size| size.checked_mul(step)).take_while(|size| *size <= largest).collect()
}

/// Measures a target. Errors: [`LabError::Input`] for one that is too small, or for an impossible
/// unit; [`LabError::Failed`] where a request fails; [`LabError::Stopped`].
pub fn calibrate(target: &mut dyn Target, options: &CalibrateOptions<'_>) -> Result<Calibration, LabError> {
    let shape = target.shape();
    let effort = if options.quick { Effort::QUICK } else { Effort::THOROUGH };
    let unit = unit_of(&shape, options.unit)?;
    let units = shape.capacity / unit.bytes;
    let sizes = sizes(&shape, effort.step);
    if units < UNITS_MIN || sizes.len() < 2 {
        return Err(LabError::Input(format!(
            "too small to calibrate: {} are {units} units of {}; expected at least {UNITS_MIN} units",
            format_bytes(shape.capacity),
            format_bytes(unit.bytes)
        )));
    }
    let kinds = series::kinds(options.writes);
    let extra = if options.writes { 1 + usize::from(options.fill) } else { 0 };
    let steps = sizes.len() * kinds.len() + extra;
    let places = Places::new(&shape, unit.bytes, options.seed);
    let mut run = Run { target, options, effort, places, unit: unit.bytes, priming: 1, done: 0, steps };
    let mut open_units = None;
    if options.writes {
        if options.fill {
            run.fill()?;
        }
        let found = open_units::measure(&mut run)?;
        run.priming = found.count + 1;
        open_units = Some(found);
        run.step_done();
    }
    let mut measured = Vec::new();
    for (direction, placing) in kinds {
        let mut series = Series { direction, placing, points: Vec::new() };
        for &bytes in &sizes {
            series.points.extend(series::measure(&mut run, direction, placing, bytes)?);
            run.step_done();
        }
        measured.push(series);
    }
    let mut calibration = Calibration { shape, unit, open_units, merge_ns: 0, series: measured };
    calibration.merge_ns = card::merge_ns(&calibration);
    Ok(calibration)
}

fn unit_of(shape: &TargetShape, asked: Option<u64>) -> Result<Unit, LabError> {
    let sector = u64::from(shape.sector_size.max(1));
    let fits = |bytes: u64| (16 << 10..=1 << 30).contains(&bytes) && bytes.is_multiple_of(sector.max(4096));
    match asked {
        Some(bytes) if fits(bytes) => Ok(Unit { bytes, is_told: true }),
        Some(bytes) => Err(LabError::Input(format!(
            "a unit of {bytes} bytes; expected 16 KiB to 1 GiB, in whole sectors and whole pieces of 4 KiB"
        ))),
        None if fits(shape.unit) => Ok(Unit { bytes: shape.unit, is_told: true }),
        None => Ok(Unit { bytes: UNIT_ASSUMED, is_told: false }),
    }
}
