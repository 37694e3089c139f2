//! The time of a request as a function of its size, from measured points.

use nandkit_units::Nanos;
use serde::{Deserialize, Serialize};

/// A curve of request time over request size: measured points joined by straight lines.
///
/// * At a point: its time. Between two points: on the line through them, rounded down to the
///   nanosecond.
/// * Below the first point: the time of the first point. A card programs and reads whole pages, so
///   smaller requests are not faster.
/// * Past the last point: on the line through the last two, that is, at the rate of the largest
///   measured requests.
///
/// In TOML it is a list of pairs of bytes and nanoseconds: `[[4096, 1_200_000], [131_072,
/// 9_800_000]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Points")]
pub struct Curve(Vec<(u64, u64)>);

/// The form in a spec; an enumeration, because only those can state what they expect.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of pairs of bytes and nanoseconds, as [[4096, 1000000], [131072, 9000000]]"
)]
enum Points {
    List(Vec<(u64, u64)>),
}

impl From<Points> for Curve {
    fn from(Points::List(points): Points) -> Self {
        Self(points)
    }
}

impl Curve {
    /// A curve through points of bytes and nanoseconds. It is not checked; use [`Curve::fault`].
    pub const fn new(points: Vec<(u64, u64)>) -> Self {
        Self(points)
    }

    /// The non-decreasing curve nearest to measured points in least squares, and the number of
    /// points that had to be moved. Points followed by a smaller time get the mean of both times,
    /// repeatedly until none decreases (Ayer, Brunk, Ewing, Reid, Silverman, Ann. Math. Statist.
    /// 26, 1955), rounded down. Points must be sorted by size; those with size or time 0 stay as
    /// they are, for [`Curve::fault`]. Cost: linear.
    pub fn monotone(points: &[(u64, u64)]) -> (Self, usize) {
        // Each pool: the sum of its times, and its number of points.
        let mut pools: Vec<(u128, u128)> = Vec::new();
        for &(_, time_ns) in points {
            let mut pool = (u128::from(time_ns), 1);
            while let Some(&before) = pools.last()
                && before.0 * pool.1 > pool.0 * before.1
            {
                pools.pop();
                pool = (pool.0 + before.0, pool.1 + before.1);
            }
            pools.push(pool);
        }
        let means = pools.into_iter().flat_map(|(sum, count)| {
            let mean = u64::try_from(sum / count).unwrap_or(u64::MAX);
            std::iter::repeat_n(mean, usize::try_from(count).unwrap_or(0))
        });
        let smooth: Vec<_> = points.iter().zip(means).map(|(&(bytes, _), mean)| (bytes, mean)).collect();
        let moved = smooth.iter().zip(points).filter(|(smooth, point)| smooth != point).count();
        (Self(smooth), moved)
    }

    /// The points as pairs of bytes and nanoseconds.
    pub fn points(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// The time of a request of this many bytes. Cost: a binary search.
    pub fn time(&self, bytes: u64) -> Nanos {
        let behind = self.0.partition_point(|&(size, _)| size <= bytes);
        let first = behind.min(self.0.len().saturating_sub(1)).saturating_sub(1);
        match (self.0.get(first), self.0.get(first + 1)) {
            _ if behind == 0 => Nanos(self.0.first().map_or(0, |&(_, time_ns)| time_ns)),
            (Some(&from), Some(&to)) => Nanos(on_line(from, to, bytes)),
            (Some(&(_, time_ns)), None) => Nanos(time_ns),
            (None, _) => Nanos::ZERO,
        }
    }

    /// If the curve is invalid: what was found, and what was expected. `time_ns_max` bounds every
    /// time.
    pub fn fault(&self, time_ns_max: u64) -> Option<(String, String)> {
        let fault = |found: String, expected: &str| Some((found, expected.to_string()));
        if self.0.len() < 2 {
            let found = format!("a list of {}", self.0.len());
            return fault(found, "at least two points [bytes, ns]: the line through the last two goes on behind them");
        }
        for &(bytes, time_ns) in &self.0 {
            if bytes == 0 || time_ns == 0 {
                return fault(format!("[{bytes}, {time_ns}]"), "sizes and times above 0 in each point [bytes, ns]");
            }
            if time_ns > time_ns_max {
                return fault(format!("[{bytes}, {time_ns}]"), &format!("at most {time_ns_max} ns in a point"));
            }
        }
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        if let Some((from, to)) = pairs.into_iter().find(|(from, to)| from.0 >= to.0) {
            return fault(format!("[{}, ...] before [{}, ...]", from.0, to.0), "points by ascending size, each once");
        }
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.into_iter().find(|(from, to)| from.1 > to.1).and_then(|(from, to)| {
            fault(
                format!("[{}, {}] before [{}, {}]", from.0, from.1, to.0, to.1),
                "no request that takes less than a smaller one: give both points the mean of their times, or leave one out",
            )
        })
    }
}

/// The value at `bytes` of the line through two points of different sizes; at least 0.
fn on_line(from: (u64, u64), to: (u64, u64), bytes: u64) -> u64 {
    let [from_bytes, from_ns, to_bytes, to_ns, bytes] = [from.0, from.1, to.0, to.1, bytes].map(i128::from);
    let rise = (to_ns - from_ns).saturating_mul(bytes - from_bytes);
    let height = from_ns.saturating_add(rise.div_euclid((to_bytes - from_bytes).max(1)));
    u64::try_from(height.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    fn curve(points: &[(u64, u64)]) -> Curve {
        Curve::new(points.to_vec())
    }

    #[test]
    fn times_lie_on_the_points_between_them_and_behind_the_last_on_the_last_slope() {
        // A decreasing curve belongs to no card, but still yields times.
        let curve = curve(&[(4096, 1000), (8192, 3000), (16_384, 2000), (32_768, 10_000)]);
        for (bytes, time_ns) in [
            (0, 1000),
            (512, 1000),
            (4096, 1000),
            (4097, 1000),
            (6144, 2000),
            (8191, 2999),
            (8192, 3000),
            (12_288, 2500),
            (16_384, 2000),
            (24_576, 6000),
            (32_768, 10_000),
            (49_152, 18_000),
            (65_536, 26_000),
        ] {
            assert_eq!(curve.time(bytes), Nanos(time_ns), "{bytes} bytes");
        }
    }

    #[test]
    fn absurd_curves_and_sizes_saturate() {
        assert_eq!(curve(&[]).time(4096), Nanos::ZERO);
        assert_eq!(curve(&[(512, 7)]).time(u64::MAX), Nanos(7));
        assert_eq!(curve(&[(1, 0), (2, u64::MAX)]).time(u64::MAX), Nanos(u64::MAX));
        assert_eq!(curve(&[(1, 9), (2, 1)]).time(100), Nanos::ZERO);
        assert_eq!(curve(&[(5, 9), (5, 9)]).time(100), Nanos(9));
    }

    #[test]
    fn what_is_no_curve_is_told() {
        for (points, found) in [
            (&[][..], "a list of 0"),
            (&[(512, 7)], "a list of 1"),
            (&[(0, 7), (512, 7)], "[0, 7]"),
            (&[(512, 0), (1024, 7)], "[512, 0]"),
            (&[(512, 7), (1024, HOUR + 1)], "[1024, 3600000000001]"),
            (&[(512, 7), (512, 8)], "[512, ...] before [512, ...]"),
            (&[(512, 7), (1024, 9), (2048, 8)], "[1024, 9] before [2048, 8]"),
            (&[(512, 9), (1024, 8), (2048, 10)], "[512, 9] before [1024, 8]"),
        ] {
            assert_eq!(curve(points).fault(HOUR).map(|(found, _)| found).as_deref(), Some(found));
        }
        assert_eq!(curve(&[(512, 8), (1024, 8), (2048, 8)]).fault(HOUR), None, "one page for all");
    }

    /// Compares with the definition: the mean over a stretch, maximized over its left end and
    /// minimized over its right end (Barlow et al., Statistical Inference under Order Restrictions,
    /// 1972, theorem 1.4).
    #[test]
    fn measured_points_become_the_nearest_curve_that_never_falls() {
        let by_definition = |times: &[u64], at: usize| {
            let mean = |from: usize, to: usize| {
                let part = &times[from..=to];
                part.iter().sum::<u64>() as f64 / part.len() as f64
            };
            let lowest = |from: usize| (at..times.len()).map(|to| mean(from, to)).fold(f64::INFINITY, f64::min);
            (0..=at).map(lowest).fold(0.0, f64::max)
        };
        for times in [
            &[1_u64, 2, 3][..],
            &[3, 2, 1],
            &[5, 5, 1, 9, 8],
            &[512, 356, 287, 285, 290, 297, 309, 326, 235, 221, 280],
            &[10, 30, 20, 20, 60, 50, 70],
            &[7],
            &[],
        ] {
            let points: Vec<(u64, u64)> = times.iter().zip(1..).map(|(&time, size)| (size * 512, time)).collect();
            let (smooth, moved) = Curve::monotone(&points);
            let expected: Vec<(u64, u64)> =
                points.iter().enumerate().map(|(at, point)| (point.0, by_definition(times, at) as u64)).collect();
            assert_eq!(smooth.points(), expected, "{times:?}");
            let is_sorted = times.is_sorted();
            assert_eq!(moved == 0, is_sorted, "{times:?}: {moved} moved");
            assert!(smooth.points().len() < 2 || smooth.fault(HOUR).is_none(), "{times:?}");
        }
        let (smooth, moved) = Curve::monotone(&[(512, u64::MAX), (1024, u64::MAX - 2), (2048, 0)]);
        assert_eq!((moved, smooth.points().len()), (3, 3), "no sum overflows");
    }
}
