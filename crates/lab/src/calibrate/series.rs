//! The times of requests of one size and kind.

use nandkit_units::Nanos;
use serde::Serialize;

use super::{Direction, Placing, Run};
use crate::LabError;

/// The time of requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestTime {
    /// Bytes of each.
    pub bytes: u64,
    /// Number of requests that were measured.
    pub requests: usize,
    /// The mean of their times, in nanoseconds: what a cost model adds up.
    pub mean_ns: u64,
    /// The time that half of them stay below.
    pub median_ns: u64,
    /// The first quartile.
    pub q1_ns: u64,
    /// The third quartile.
    pub q3_ns: u64,
}

impl RequestTime {
    /// The figures of these times; `None` for an empty slice. A quartile is the time at its rank,
    /// rounded down.
    pub(super) fn of(bytes: u64, times: &[Nanos]) -> Option<Self> {
        let mut sorted: Vec<u64> = times.iter().map(|time| time.0).collect();
        sorted.sort_unstable();
        let rank = |quarter: usize| sorted.get((sorted.len().checked_sub(1)?) * quarter / 4).copied();
        let sum: u128 = sorted.iter().map(|time| u128::from(*time)).sum();
        Some(Self {
            bytes,
            requests: sorted.len(),
            mean_ns: u64::try_from(sum / sorted.len().max(1) as u128).unwrap_or(u64::MAX),
            median_ns: rank(2)?,
            q1_ns: rank(1)?,
            q3_ns: rank(3)?,
        })
    }

    /// Bytes per second at the mean time.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.mean_ns.max(1) as f64
    }
}

/// Times by size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Reads or writes.
    pub direction: Direction,
    /// Which offsets the requests address.
    pub placing: Placing,
    /// The times by ascending size.
    pub points: Vec<RequestTime>,
}

/// The series to measure, in their order: reads of the present content, then writes if `writes`
/// allows them.
pub(super) fn kinds(writes: bool) -> Vec<(Direction, Placing)> {
    let placings = [Placing::Sequential, Placing::InUnit, Placing::Spread];
    let directions = [Direction::Read, Direction::Write];
    let wanted = directions.into_iter().take(1 + usize::from(writes));
    wanted.flat_map(|direction| placings.map(|placing| (direction, placing))).collect()
}

/// Measures requests of one size; `None` for requests inside a unit that is smaller than them.
pub(super) fn measure(
    run: &mut Run<'_>,
    direction: Direction,
    placing: Placing,
    bytes: u64,
) -> Result<Option<RequestTime>, LabError> {
    if placing == Placing::InUnit && bytes > run.unit {
        return Ok(None);
    }
    let mut place = begin(run, direction, placing, bytes)?;
    let (mut times, mut sum) = (Vec::new(), Nanos::ZERO);
    let effort = run.effort;
    // The bound also ends the loop on a device that is so small that no request counts.
    for _ in 0..2 * effort.requests_max {
        let known = times.len() >= effort.requests_min && sum >= effort.budget;
        if known || times.len() >= effort.requests_max {
            break;
        }
        let (at, counts) = place.next(run, direction, bytes);
        let time = run.request(direction, at, bytes)?;
        if counts {
            times.push(time);
            sum += time;
        }
    }
    Ok(RequestTime::of(bytes, &times))
}

/// The rule by which the places of a series follow one another.
enum Place {
    Sequential,
    InUnit { start: u64, last_end: u64 },
    Spread { last_end: u64 },
}

/// Begins a series with requests that are not counted: they bear the cost of the state that the
/// series before left.
fn begin(run: &mut Run<'_>, direction: Direction, placing: Placing, bytes: u64) -> Result<Place, LabError> {
    match placing {
        Placing::Sequential => {
            run.places.begin_sequential();
            let (at, _) = run.places.next_sequential(bytes);
            run.request(direction, at, bytes)?;
            Ok(Place::Sequential)
        }
        Placing::InUnit => {
            let (start, sector) = (run.places.next_unit(), u64::from(run.target.shape().sector_size));
            let (at, length) = match direction {
                Direction::Read => (start, bytes),
                // Not at the start of the unit, so that it never counts as written in order.
                Direction::Write => (start + (run.unit / 2).next_multiple_of(sector), sector),
            };
            run.request(direction, at, length)?;
            Ok(Place::InUnit { start, last_end: at + length })
        }
        Placing::Spread => {
            if direction == Direction::Write {
                for _ in 0..run.priming.min(run.places.walk_units()) {
                    let at = run.places.in_another_unit(bytes);
                    run.request(direction, at, bytes)?;
                }
            }
            Ok(Place::Spread { last_end: u64::MAX })
        }
    }
}

impl Place {
    /// The next place, and whether the time of a request there counts.
    fn next(&mut self, run: &mut Run<'_>, direction: Direction, bytes: u64) -> (u64, bool) {
        match self {
            Self::Sequential => run.places.next_sequential(bytes),
            Self::InUnit { start, last_end } => {
                let at = run.places.inside(*start, bytes, *last_end);
                // If there is only one place, a read there continues the last one and does not
                // count.
                let counts = at != *last_end;
                *last_end = at + bytes;
                (at, counts)
            }
            Self::Spread { .. } if direction == Direction::Write => (run.places.in_another_unit(bytes), true),
            Self::Spread { last_end } => {
                let at = run.places.anywhere(bytes, *last_end);
                *last_end = at + bytes;
                (at, true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_times_at_their_ranks() {
        let times = |values: &[u64]| values.iter().map(|value| Nanos(*value)).collect::<Vec<_>>();
        let time = RequestTime::of(4096, &times(&[50, 10, 30, 20, 40])).unwrap();
        assert_eq!((time.q1_ns, time.median_ns, time.q3_ns, time.mean_ns, time.requests), (20, 30, 40, 30, 5));
        let single = RequestTime::of(512, &times(&[7])).unwrap();
        assert_eq!((single.q1_ns, single.median_ns, single.q3_ns, single.mean_ns), (7, 7, 7, 7));
        assert_eq!(RequestTime::of(512, &[]), None);
        assert_eq!(RequestTime::of(512, &times(&[512])).unwrap().bytes_per_s(), 1e9);
    }
}
