//! Factory bad blocks, and the mark by which a driver recognizes them.
//!
//! Whether a block is bad is a function of the seed and the block, so that a device of millions of
//! blocks needs no list: the device is divided into as many stretches as there are bad blocks, and
//! each stretch has exactly one.

use nandkit_units::random::hash;
use nandkit_units::{BlockIndex, FlashGeometry};

use crate::spec::{BadBlockSpec, ChipSpec, MarkerPages};

const DRAW_COUNT: u64 = 0x0BAD_0001;
const DRAW_PLACE: u64 = 0x0BAD_0002;
const DRAW_MARK: u64 = 0x0BAD_0003;

/// The factory bad blocks of a device.
#[derive(Clone, Debug)]
pub struct BadBlocks {
    seed: u64,
    blocks: u64,
    count: u64,
    last_page: u32,
    spec: BadBlockSpec,
}

impl BadBlocks {
    /// Draws the number of bad blocks, from 0 to the manufacturer's limit.
    pub fn new(spec: &ChipSpec, geometry: &FlashGeometry, seed: u64) -> Self {
        let most = if spec.bad_blocks.enabled { u64::from(spec.bad_blocks.factory_max) } else { 0 };
        Self {
            seed,
            blocks: u64::from(geometry.blocks),
            count: hash(seed, DRAW_COUNT, 0) % (most + 1),
            last_page: geometry.pages_per_block.saturating_sub(1),
            spec: spec.bad_blocks.clone(),
        }
    }

    /// Whether the block is bad from the factory.
    #[inline]
    pub fn is_factory_bad(&self, block: BlockIndex) -> bool {
        self.count != 0 && self.is_drawn(u64::from(block.0))
    }

    fn is_drawn(&self, block: u64) -> bool {
        if block < u64::from(self.spec.good_at_start) || block >= self.blocks {
            return false;
        }
        // Stretch s covers the blocks from s * blocks / count on. There are fewer bad blocks than
        // blocks, so no stretch is empty.
        let start_of = |stretch: u64| (stretch * self.blocks).div_ceil(self.count);
        let stretch = block * self.count / self.blocks;
        let (start, end) = (start_of(stretch), start_of(stretch + 1));
        block == start + hash(self.seed, DRAW_PLACE, stretch) % (end - start).max(1)
    }

    /// Whether this page of a bad block carries the mark.
    pub fn is_marked_page(&self, block: BlockIndex, page: u32) -> bool {
        match self.spec.marker {
            MarkerPages::First => page == 0,
            MarkerPages::FirstOrSecond => {
                let second = hash(self.seed, DRAW_MARK, u64::from(block.0)) & 1 == 1 && self.last_page > 0;
                page == u32::from(second)
            }
            MarkerPages::Last => page == self.last_page,
            MarkerPages::FirstAndLast => page == 0 || page == self.last_page,
        }
    }

    /// Writes the mark into a marked page's OOB.
    pub fn mark(&self, oob: &mut [u8]) {
        if let Some(byte) = oob.get_mut(self.spec.marker_offset as usize) {
            *byte = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(factory_max: u32, blocks: u32, seed: u64) -> Vec<u32> {
        let mut spec = ChipSpec::default();
        spec.geometry.blocks = blocks;
        spec.bad_blocks.enabled = true;
        spec.bad_blocks.factory_max = factory_max;
        let bad = BadBlocks::new(&spec, &spec.geometry.build(), seed);
        (0..blocks).filter(|block| bad.is_factory_bad(BlockIndex(*block))).collect()
    }

    #[test]
    fn never_more_than_the_maker_allows_and_never_block_0() {
        let mut counts = Vec::new();
        for seed in 0..200 {
            let bad = drawn(40, 2048, seed);
            assert!(bad.len() <= 40 && !bad.contains(&0), "seed {seed}: {bad:?}");
            counts.push(bad.len());
        }
        let mean = counts.iter().sum::<usize>() as f64 / 200.0;
        assert!((mean - 20.0).abs() < 3.0, "mean {mean}");
        assert!(counts.iter().max() > Some(&36));
        assert_eq!(drawn(40, 2048, 5), drawn(40, 2048, 5));
        assert!(drawn(0, 2048, 5).is_empty());
        assert!((0..50).any(|seed| drawn(15, 16, seed).len() >= 14), "dense draws work too");
    }
}
