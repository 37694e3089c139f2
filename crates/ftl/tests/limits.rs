//! What the layers refuse to map: their tables would not fit into memory.

use nandkit_flash::Flash;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions};
use nandkit_nand_sim::{ChipSpec, ShadowChip};

fn chip(blocks: u32) -> ShadowChip {
    let mut spec = ChipSpec::default();
    (spec.geometry.page_size, spec.geometry.oob_size) = (512, 16);
    (spec.geometry.pages_per_block, spec.geometry.blocks) = (32_768, blocks);
    ShadowChip::new(&spec, 1).unwrap()
}

fn refusal<T>(result: nandkit_block::Result<T>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn tables_that_no_memory_holds_are_refused_by_name() {
    let block_map = refusal(BlockMapFtl::attach(chip(16_000_000), BlockMapOptions::default()));
    assert!(block_map.contains("at most 4294967295 pages"), "{block_map}");
    let fast = refusal(FastFtl::attach(chip(10_000), FastOptions::default()));
    assert!(fast.contains("at most 268435456 pages"), "{fast}");
    let logs = BlockMapOptions { log_blocks: 20_000, ..BlockMapOptions::default() };
    let logs = refusal(BlockMapFtl::attach(chip(40_000), logs));
    assert!(logs.contains("20000 log blocks of 32768 pages"), "{logs}");
    let small = BlockMapFtl::attach(chip(1_000), BlockMapOptions::default()).unwrap();
    assert_eq!(small.flash().geometry().blocks, 1_000);
}
