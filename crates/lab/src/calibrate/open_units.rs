//! How many units a device keeps open, found by a step in the time of writes.

use nandkit_units::Nanos;
use serde::Serialize;

use super::{Direction, RequestTime, Run};
use crate::LabError;

/// Sizes of the writes of the streams, in the order in which they are tried: cards whose random and
/// sequential writes of one size take the same time show no step there.
const PIECES: [u64; 4] = [16 << 10, 64 << 10, 4 << 10, 256 << 10];
/// Rounds of writes that are measured, at least and at most.
const ROUNDS: (u64, u64) = (3, 12);
/// A smaller relative change in time is not a step, however steady the times are.
const STEP_MIN: f64 = 0.02;
/// A change of fewer interquartile ranges than this is chance.
const RANGES: u64 = 3;

/// The time of a write while a number of streams write in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StreamTime {
    /// Streams, each in a unit of its own.
    pub streams: u64,
    /// The median of its writes, in nanoseconds.
    pub median_ns: u64,
}

/// How many units are open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MeasuredOpenUnits {
    /// The number of open units.
    pub count: u64,
    /// Whether a step was seen after `count`; if not, the number may be higher.
    pub is_exact: bool,
    /// Bytes of the writes that showed the number.
    pub piece: u64,
    /// The time by number of streams, for writes of `piece` bytes.
    pub times: Vec<StreamTime>,
}

/// Finds the number of open units. Each stream writes one piece after the other in a unit of its
/// own. Up to the number of open units, all streams continue in their open unit; with one more
/// stream each write has to open its unit anew. Cost: writes of about six times the number that is
/// found, for each size that has to be tried.
pub(super) fn measure(run: &mut Run<'_>) -> Result<MeasuredOpenUnits, LabError> {
    let most = run.effort.streams_max.min(run.places.walk_units());
    let sector = u64::from(run.target.shape().sector_size);
    let fits = |piece: u64| piece.is_multiple_of(sector) && run.unit / piece > ROUNDS.0;
    let mut last = MeasuredOpenUnits { count: most, is_exact: false, piece: sector, times: Vec::new() };
    for piece in PIECES.into_iter().filter(|piece| fits(*piece)).collect::<Vec<_>>() {
        last = search(run, piece, most)?;
        if last.is_exact {
            break;
        }
    }
    Ok(last)
}

/// Doubles the streams until the time steps, then halves the distance.
fn search(run: &mut Run<'_>, piece: u64, most: u64) -> Result<MeasuredOpenUnits, LabError> {
    let alone = streams(run, piece, 1)?;
    let mut times = vec![StreamTime { streams: 1, median_ns: alone.median_ns }];
    let (mut open, mut too_many) = (1, None);
    while too_many.is_none_or(|too_many| too_many - open > 1) {
        let next = match too_many {
            Some(too_many) => open + (too_many - open) / 2,
            None if open >= most => break,
            None => (open * 2).min(most),
        };
        let time = streams(run, piece, next)?;
        times.push(StreamTime { streams: next, median_ns: time.median_ns });
        match is_step(&alone, &time) && is_seen_again(run, piece, next, &alone, &time)? {
            true => too_many = Some(next),
            false => open = next,
        }
    }
    times.sort_by_key(|time| time.streams);
    Ok(MeasuredOpenUnits { count: open, is_exact: too_many.is_some(), piece, times })
}

/// Whether a step shows again in a second measurement: a busy host makes some by chance.
fn is_seen_again(
    run: &mut Run<'_>,
    piece: u64,
    count: u64,
    alone: &RequestTime,
    time: &RequestTime,
) -> Result<bool, LabError> {
    let (alone_again, time_again) = (streams(run, piece, 1)?, streams(run, piece, count)?);
    let is_slower = |alone: &RequestTime, time: &RequestTime| time.median_ns > alone.median_ns;
    let same_way = is_slower(alone, time) == is_slower(&alone_again, &time_again);
    Ok(is_step(&alone_again, &time_again) && same_way)
}

/// Whether the times of writes differ by more than chance, in either direction: with more streams
/// than open units some cards are even faster, as their random writes are.
fn is_step(alone: &RequestTime, time: &RequestTime) -> bool {
    let difference = alone.median_ns.abs_diff(time.median_ns);
    let range = (alone.q3_ns - alone.q1_ns).max(time.q3_ns - time.q1_ns);
    difference as f64 > alone.median_ns as f64 * STEP_MIN && difference > RANGES * range
}

/// The times of the writes of `count` streams, without the first write of each stream.
fn streams(run: &mut Run<'_>, piece: u64, count: u64) -> Result<RequestTime, LabError> {
    let units: Vec<u64> = (0..count).map(|_| run.places.next_unit()).collect();
    let rounds = (ROUNDS.1 / count).max(ROUNDS.0).min(run.unit / piece - 2);
    let mut times: Vec<Nanos> = Vec::new();
    for round in 0..=rounds {
        for unit in &units {
            let time = run.request(Direction::Write, unit + round * piece, piece)?;
            if round > 0 {
                times.push(time);
            }
        }
    }
    RequestTime::of(piece, &times).ok_or_else(|| LabError::Failed("no stream has written".to_string()))
}
