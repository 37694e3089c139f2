//! A device's time for requests of each size: P1's `Tread(n)` and `Twrite(n)`.

/// Times of requests of up to as many blocks as a segment has.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestTimes {
    read_ns: Vec<f64>,
    write_ns: Vec<f64>,
}

impl RequestTimes {
    /// Samples two functions for requests of 1 to `most` blocks. For writes P1 uses the times of
    /// *random* requests of that size (its figure 5). Cost: `2 * most` calls.
    pub fn new(most: u32, read_ns: impl Fn(u32) -> u64, write_ns: impl Fn(u32) -> u64) -> Self {
        // A request of no blocks takes no time.
        let curve = |time_ns: &dyn Fn(u32) -> u64| {
            std::iter::once(0.0).chain((1..=most.max(1)).map(|blocks| time_ns(blocks) as f64)).collect()
        };
        Self { read_ns: curve(&read_ns), write_ns: curve(&write_ns) }
    }

    /// `Tread(n)`; proportional beyond the largest size.
    #[inline]
    pub fn read(&self, blocks: u32) -> f64 {
        at(&self.read_ns, blocks)
    }

    /// `Twrite(n)`; proportional beyond the largest size.
    #[inline]
    pub fn write(&self, blocks: u32) -> f64 {
        at(&self.write_ns, blocks)
    }

    /// The time to write one block with requests of `mean` blocks, `Twrite(H) / H`, interpolated
    /// between whole numbers. Means below one block count as one.
    #[inline]
    pub fn write_per_block(&self, mean: f64) -> f64 {
        let mean = if mean.is_finite() { mean.max(1.0) } else { 1.0 };
        let (below, part) = (mean.floor(), mean.fract());
        let (less, more) = (self.write(below as u32), self.write(below as u32 + 1));
        (less + (more - less) * part) / mean
    }
}

#[inline]
fn at(curve: &[f64], blocks: u32) -> f64 {
    match curve.get(blocks as usize) {
        Some(time_ns) => *time_ns,
        None => {
            let most = (curve.len() - 1) as f64;
            curve.last().copied().unwrap_or(0.0) * f64::from(blocks) / most
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_and_beyond_the_sizes_follow_the_curve() {
        let times = RequestTimes::new(8, |blocks| 10 + u64::from(blocks), |blocks| 100 + 10 * u64::from(blocks));
        assert_eq!((times.read(0), times.read(1), times.read(8)), (0.0, 11.0, 18.0));
        assert_eq!((times.write(8), times.write(16)), (180.0, 360.0));
        assert_eq!(times.write_per_block(2.5), 125.0 / 2.5);
        assert_eq!(times.write_per_block(0.0), 110.0);
        assert_eq!(times.write_per_block(f64::NAN), 110.0);
    }
}
