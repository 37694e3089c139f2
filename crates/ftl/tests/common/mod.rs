//! What the tests of the translation layers share: small chips, a model of the device, seeded
//! operations, and runs with power cuts.
#![allow(dead_code, reason = "each test uses its part")]

pub mod cuts;
pub mod model;
pub mod page_causes;
pub mod page_model;
pub mod page_recovery;
pub mod page_runs;
pub mod spy;

use nandkit_block::{BlockDevice, BlockError};
use nandkit_flash::Flash;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, PageOrder, PageTimes};

/// A translation layer under test.
pub trait Layer {
    type Device<F: Flash>: BlockDevice;
    type Options: Clone + std::fmt::Debug;

    fn attach<F: Flash>(flash: F, options: &Self::Options) -> Result<Self::Device<F>, BlockError>;
    fn close<F: Flash>(device: Self::Device<F>) -> Result<F, BlockError>;
    fn into_flash<F: Flash>(device: Self::Device<F>) -> F;
}

pub struct BlockMap;

impl Layer for BlockMap {
    type Device<F: Flash> = BlockMapFtl<F>;
    type Options = BlockMapOptions;

    fn attach<F: Flash>(flash: F, options: &BlockMapOptions) -> Result<BlockMapFtl<F>, BlockError> {
        BlockMapFtl::attach(flash, options.clone())
    }
    fn close<F: Flash>(device: BlockMapFtl<F>) -> Result<F, BlockError> {
        device.close(&Default::default()).map(|(flash, _)| flash)
    }
    fn into_flash<F: Flash>(device: BlockMapFtl<F>) -> F {
        device.into_flash()
    }
}

pub struct Fast;

impl Layer for Fast {
    type Device<F: Flash> = FastFtl<F>;
    type Options = FastOptions;

    fn attach<F: Flash>(flash: F, options: &FastOptions) -> Result<FastFtl<F>, BlockError> {
        FastFtl::attach(flash, options.clone())
    }
    fn close<F: Flash>(device: FastFtl<F>) -> Result<F, BlockError> {
        device.close(&Default::default()).map(|(flash, _)| flash)
    }
    fn into_flash<F: Flash>(device: FastFtl<F>) -> F {
        device.into_flash()
    }
}

/// Page size, OOB size, pages per block, blocks.
pub type ChipShape = (u32, u32, u32, u32);

/// A chip without faults, with the strictest page order.
pub fn spec(page_size: u32, oob_size: u32, pages_per_block: u32, blocks: u32) -> ChipSpec {
    let mut spec = ChipSpec::default();
    spec.geometry.page_size = page_size;
    spec.geometry.oob_size = oob_size;
    spec.geometry.pages_per_block = pages_per_block;
    spec.geometry.blocks = blocks;
    spec.rules.order = PageOrder::Consecutive;
    spec
}

/// P4's chip (table 1): 128 pages of 2 KiB per block, no bus time, one thing after another.
pub fn p4_spec(blocks: u32) -> ChipSpec {
    let mut spec = spec(2048, 64, 128, blocks);
    spec.timing.read_ns = PageTimes::All(113_000);
    spec.timing.program_ns = PageTimes::All(1_013_000);
    spec.timing.copy_ns = 1_128_000;
    spec.timing.erase_ns = 1_500_000;
    spec.timing.bus_ps_per_byte = 0;
    spec.timing.overlap = false;
    spec
}

pub fn chip(spec: &ChipSpec, seed: u64) -> ContentChip {
    ContentChip::new(spec, seed).unwrap()
}
