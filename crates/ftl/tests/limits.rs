//! Devices that the layers refuse: their tables would not fit into memory, or the journal does not
//! fit the chip.

use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions, PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, ShadowChip};
use nandkit_units::{BlockIndex, Context, Payload};

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

/// An intact journal on a chip that it cannot belong to: the error says why, and the chip is not
/// taken for another layer's.
#[test]
fn a_journal_that_does_not_fit_its_chip_is_told_from_none() {
    let mut spec = ChipSpec::default();
    (spec.geometry.page_size, spec.geometry.write_unit, spec.geometry.oob_size) = (512, 512, 16);
    (spec.geometry.pages_per_block, spec.geometry.blocks) = (16, 64);
    let (whole, context) = (ContentChip::new(&spec, 1).unwrap(), Context::default());
    assert!(!PageMapFtl::has_journal(&whole, &context));
    let options = PageMapOptions {
        sector_size: 512,
        spare: Spare::Ratio(0.3),
        journal: Some(JournalOptions::default()),
        ..Default::default()
    };
    let whole = PageMapFtl::format(whole, options).unwrap().into_flash();
    assert!(PageMapFtl::has_journal(&whole, &context));
    spec.geometry.oob_size = 8;
    let mut narrow = ContentChip::new(&spec, 1).unwrap();
    let mut bytes = vec![0; 512];
    for page in (0..64).flat_map(|block| (0..16).map(move |page| BlockIndex(block).page(page))) {
        whole.read(&context, page, PageRead::bytes(0, &mut bytes)).unwrap();
        if bytes.iter().any(|byte| *byte != 0xFF) {
            narrow.program(&context, page, PageProgram::new(Payload::Bytes(&bytes), &[])).unwrap();
        }
    }
    assert!(PageMapFtl::has_journal(&narrow, &context));
    let why = refusal(PageMapFtl::attach(narrow, PageMapOptions::default()));
    assert!(why.contains("do not fit into their OOB"), "{why}");
}
