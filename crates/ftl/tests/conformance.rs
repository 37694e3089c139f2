//! The conformance suite of block devices, for both layers.

use crate::common::{BlockMap, Fast, Layer, chip, spec};
use nandkit_block::{BlockDevice, BlockGeometry};
use nandkit_ftl::{BlockMapOptions, FastOptions, LogicalCapacity};
use nandkit_nand_sim::ContentChip;
use nandkit_testkit::block_suite::{self, BlockOptions, Reopen};

/// A chip on which a device of this shape fits, with pages of the preferred size.
fn chip_for(geometry: &BlockGeometry) -> ContentChip {
    let page = geometry.preferred_size.clamp(512, 16_384).max(geometry.sector_size);
    let block = u64::from(page) * 8;
    let blocks = geometry.capacity().div_ceil(block) + 9;
    chip(&spec(page, 64, 8, blocks as u32), 1)
}

fn block_map(geometry: &BlockGeometry) -> BlockMapOptions {
    BlockMapOptions {
        capacity: LogicalCapacity::Bytes(geometry.capacity()),
        sector_size: geometry.sector_size,
        log_blocks: 3,
        ..BlockMapOptions::default()
    }
}

fn fast(geometry: &BlockGeometry) -> FastOptions {
    FastOptions {
        capacity: LogicalCapacity::Bytes(geometry.capacity()),
        sector_size: geometry.sector_size,
        log_blocks: 3,
        ..FastOptions::default()
    }
}

struct Cut<L: Layer>(Option<L::Device<ContentChip>>, L::Options);

impl<L: Layer> Reopen for Cut<L> {
    fn device(&mut self) -> &mut dyn BlockDevice {
        self.0.as_mut().unwrap()
    }
    fn reopen(&mut self) {
        let flash = L::into_flash(self.0.take().unwrap());
        self.0 = Some(L::attach(flash, &self.1).unwrap());
    }
}

fn check<L: Layer + 'static>(options: fn(&BlockGeometry) -> L::Options) {
    let make = |geometry: &BlockGeometry| L::attach(chip_for(geometry), &options(geometry)).unwrap();
    for seed in 1..4 {
        let suite = BlockOptions { seed, ..BlockOptions::default() };
        block_suite::run(|geometry| Box::new(make(geometry)), &suite).unwrap();
    }
    for seed in 1..40 {
        let suite = BlockOptions { seed, ..BlockOptions::default() };
        block_suite::run_durability(|geometry| Box::new(Cut::<L>(Some(make(geometry)), options(geometry))), &suite)
            .unwrap();
    }
}

#[test]
fn the_block_mapped_layer_conforms() {
    check::<BlockMap>(block_map);
}

#[test]
fn fast_conforms() {
    check::<Fast>(fast);
}
