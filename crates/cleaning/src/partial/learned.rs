//! Learns request times while a device is used, when no card file gives them.

use super::RequestTimes;

/// The number of requests of a class after which older ones count half.
pub const HALF_LIFE: f64 = 64.0;
/// Size classes: one each up to 8 blocks, then four per doubling.
const CLASSES: usize = 48;

/// Statistics of requests of similar size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Class {
    /// The number of requests; older ones count less.
    weight: f64,
    /// Their mean size.
    blocks: f64,
    /// Their mean time.
    time_ns: f64,
}

/// Request times as measured.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedTimes {
    /// The factor by which each further request of a class reduces the weight of the older ones.
    kept: f64,
    read: [Class; CLASSES],
    write: [Class; CLASSES],
}

impl Default for LearnedTimes {
    /// The usual half-life.
    fn default() -> Self {
        Self::new(HALF_LIFE)
    }
}

impl LearnedTimes {
    /// No measurements yet. After `half_life` further requests of a class, older ones count half;
    /// values below 1 count as 1.
    pub fn new(half_life: f64) -> Self {
        let kept = 0.5_f64.powf(1.0 / if half_life >= 1.0 { half_life } else { 1.0 });
        Self { kept, read: [Class::default(); CLASSES], write: [Class::default(); CLASSES] }
    }

    /// Notes the time of a read. Ignores reads of no blocks.
    #[inline]
    pub fn read(&mut self, blocks: u32, time_ns: u64) {
        see(&mut self.read, self.kept, blocks, time_ns);
    }

    /// Notes the time of a write. Ignores writes of no blocks.
    #[inline]
    pub fn wrote(&mut self, blocks: u32, time_ns: u64) {
        see(&mut self.write, self.kept, blocks, time_ns);
    }

    /// How far the learned times of writes are from `others`, as a share of these: the mean over
    /// the sizes of which writes were measured. `None` before the first write.
    pub fn write_distance(&self, others: &RequestTimes) -> Option<f64> {
        let measured = points(&self.write);
        let distance = |(blocks, time_ns): &(f64, f64)| {
            // Means of sizes lie between whole numbers.
            let (below, above) = (others.write(blocks.floor() as u32), others.write(blocks.ceil() as u32));
            let other = below + (above - below) * blocks.fract();
            (other > 0.0).then(|| (time_ns / other - 1.0).abs())
        };
        let all: Vec<f64> = measured.iter().filter_map(distance).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The times of requests of 1 to `most` blocks: interpolated between measured classes; below
    /// the first class its time, above the last one its time per block. `None` until a read and a
    /// write were measured. Cost: a few steps per size.
    pub fn times(&self, most: u32) -> Option<RequestTimes> {
        let curves = [points(&self.read), points(&self.write)];
        if curves.iter().any(Vec::is_empty) {
            return None;
        }
        let [read, write] = curves;
        Some(RequestTimes::new(most, |blocks| at(&read, blocks), |blocks| at(&write, blocks)))
    }
}

fn class_of(blocks: u32) -> usize {
    let class = match blocks {
        0..8 => blocks,
        _ => 8 + 4 * (blocks.ilog2() - 3) + (blocks >> (blocks.ilog2() - 2) & 3),
    };
    (class as usize).min(CLASSES - 1)
}

fn see(classes: &mut [Class; CLASSES], kept: f64, blocks: u32, time_ns: u64) {
    let Some(class) = classes.get_mut(class_of(blocks)).filter(|_| blocks > 0) else { return };
    class.weight = class.weight * kept + 1.0;
    class.blocks += (f64::from(blocks) - class.blocks) / class.weight;
    class.time_ns += (time_ns as f64 - class.time_ns) / class.weight;
}

/// Measured sizes and times, ascending.
fn points(classes: &[Class]) -> Vec<(f64, f64)> {
    classes.iter().filter(|class| class.weight > 0.0).map(|class| (class.blocks, class.time_ns)).collect()
}

fn at(points: &[(f64, f64)], blocks: u32) -> u64 {
    let blocks = f64::from(blocks);
    let behind = points.partition_point(|(size, _)| *size < blocks);
    let before = behind.checked_sub(1).and_then(|place| points.get(place));
    let time_ns = match (before, points.get(behind)) {
        (Some((low, less)), Some((high, more))) => less + (more - less) * (blocks - low) / (high - low),
        (None, Some((_, first))) => *first,
        (Some((size, time_ns)), None) => time_ns / size * blocks,
        (None, None) => 0.0,
    };
    time_ns.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_a_mean_over_measured_sizes() {
        let others = RequestTimes::new(8, |_| 1, |blocks| u64::from(blocks) * 100);
        let mut learned = LearnedTimes::default();
        assert_eq!(learned.write_distance(&others), None);
        learned.wrote(2, 200);
        learned.wrote(4, 500);
        assert_eq!(learned.write_distance(&others), Some(0.125));
    }

    #[test]
    fn classes_follow_one_another() {
        let mut last = 0;
        for blocks in 1..=1 << 20 {
            let class = class_of(blocks);
            assert!(class == last || class == last + 1, "{blocks}: {class} behind {last}");
            assert!(blocks > 8 || class == blocks as usize, "{blocks}: {class}");
            last = class;
        }
        assert_eq!(last, CLASSES - 1);
    }

    #[test]
    fn one_that_was_not_seen_follows_its_neighbours() {
        let mut learned = LearnedTimes::default();
        learned.wrote(4, 1_000);
        assert_eq!(learned.times(512), None);
        learned.read(1, 50);
        learned.wrote(64, 7_000);
        learned.wrote(0, 1 << 40);
        let times = learned.times(512).unwrap();
        assert_eq!((times.read(1), times.read(10)), (50.0, 500.0));
        assert_eq!(
            [1, 4, 34, 64, 128].map(|blocks| times.write(blocks)),
            [1_000.0, 1_000.0, 4_000.0, 7_000.0, 14_000.0]
        );
    }

    #[test]
    fn half_is_forgotten_behind_the_half_life() {
        let mut learned = LearnedTimes::new(10.0);
        learned.read(1, 1);
        (0..1000).for_each(|_| learned.wrote(3, 1_000));
        (0..10).for_each(|_| learned.wrote(3, 3_000));
        assert_eq!(learned.times(8).unwrap().write(3), 2_000.0);
        // The first requests count equally.
        let mut learned = LearnedTimes::new(1e9);
        learned.read(1, 1);
        [100, 200, 600].into_iter().for_each(|time_ns| learned.wrote(5, time_ns));
        assert_eq!(learned.times(8).unwrap().write(5), 300.0);
    }
}
