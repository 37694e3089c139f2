//! Times of requests learned while a device is used, for who has no card file.

use super::RequestTimes;

/// Requests of a class behind which what was seen before counts half.
pub const HALF_LIFE: f64 = 64.0;
/// Classes of sizes: one each up to 8 blocks, then four for each doubling.
const CLASSES: usize = 48;

/// What was seen of requests of about one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Class {
    /// Requests, the older ones counted less.
    weight: f64,
    /// Their mean size.
    blocks: f64,
    /// Their mean time.
    time_ns: f64,
}

/// The times of requests as they were seen.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedTimes {
    /// What of a class is left behind one more request of it.
    kept: f64,
    read: [Class; CLASSES],
    write: [Class; CLASSES],
}

impl Default for LearnedTimes {
    /// With the usual half-life.
    fn default() -> Self {
        Self::new(HALF_LIFE)
    }
}

impl LearnedTimes {
    /// Nothing is known. What was seen of a class counts half behind so many requests of it; less
    /// than one counts as one.
    pub fn new(half_life: f64) -> Self {
        let kept = 0.5_f64.powf(1.0 / if half_life >= 1.0 { half_life } else { 1.0 });
        Self { kept, read: [Class::default(); CLASSES], write: [Class::default(); CLASSES] }
    }

    /// A read of so many blocks took so long. One of none is passed over.
    #[inline]
    pub fn read(&mut self, blocks: u32, time_ns: u64) {
        see(&mut self.read, self.kept, blocks, time_ns);
    }

    /// The same for a write.
    #[inline]
    pub fn wrote(&mut self, blocks: u32, time_ns: u64) {
        see(&mut self.write, self.kept, blocks, time_ns);
    }

    /// The times of requests of 1 to `most` blocks: between two classes that were seen in
    /// proportion, below the first as that one, above the last by its time for a block. `None`
    /// until a read and a write were seen. Cost: a few steps for each size.
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

/// Sizes that were seen, ascending.
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
        // The first ones count alike.
        let mut learned = LearnedTimes::new(1e9);
        learned.read(1, 1);
        [100, 200, 600].into_iter().for_each(|time_ns| learned.wrote(5, time_ns));
        assert_eq!(learned.times(8).unwrap().write(5), 300.0);
    }
}
