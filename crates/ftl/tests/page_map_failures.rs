//! Failing blocks of the page-mapped layer, and starts after failures.

use nandkit_block::BlockDevice;
use nandkit_flash::Flash;
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, FailureScript};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Lba, Payload, ReadInto};

const SECTOR: usize = 512;

/// Two dies, the second with `fewer` good blocks less.
fn chip(blocks: u32, fewer: usize) -> ContentChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (SECTOR as u32, SECTOR as u32, 16);
    (geometry.blocks, geometry.pages_per_block) = (blocks, 8);
    (geometry.dies, geometry.channels) = (2, 2);
    let mut chip = ContentChip::new(&spec, 1).unwrap();
    for block in of_die(&chip, 1).into_iter().rev().take(fewer) {
        chip.mark_bad(&Context::default(), block).unwrap();
    }
    chip
}

fn of_die(chip: &ContentChip, die: u32) -> Vec<BlockIndex> {
    let geometry = *chip.geometry();
    (0..geometry.blocks).map(BlockIndex).filter(|block| geometry.die_of(*block) == die).collect()
}

fn options() -> PageMapOptions {
    PageMapOptions {
        spare: Spare::Capacity(100 * SECTOR as u64),
        stripe: 2,
        // Changes of members are in lines only: no snapshot records them.
        journal: Some(JournalOptions { checkpoint_every: 1 << 30, aliases: 16 }),
        ..PageMapOptions::default()
    }
}

fn content(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(SECTOR / 8)
}

/// The content last written to each sector.
struct Held {
    versions: Vec<u64>,
    random: Random,
}

impl Held {
    fn new(sectors: u64) -> Self {
        Self { versions: vec![0; sectors as usize], random: Random::new(1, "failures") }
    }

    fn write(&mut self, device: &mut PageMapFtl<ContentChip>, count: u32) {
        for _ in 0..count {
            let sector = self.random.below(self.versions.len() as u64);
            let version = self.random.below(1 << 40);
            device.write(&Context::default(), Lba(sector), Payload::Bytes(&content(version))).unwrap();
            self.versions[sector as usize] = version;
        }
    }

    fn check(&self, device: &PageMapFtl<ContentChip>) {
        for (sector, version) in (0..).zip(&self.versions) {
            let mut found = vec![0; SECTOR];
            device.read(&Context::default(), Lba(sector), ReadInto::Bytes(&mut found)).unwrap();
            assert!(found == content(*version), "sector {sector} holds something else than what was written last");
        }
    }
}

/// Makes one program fail on the next block of a die that is programmed.
fn fail_once(chip: &mut ContentChip, blocks: &[BlockIndex]) {
    let pages = blocks.iter().map(|block| block.page(3)).collect();
    chip.script_failures(FailureScript { pages, ..FailureScript::default() });
}

/// A block that replaced another is no longer a spare, also after a start; otherwise two
/// superblocks would use it.
#[test]
fn a_block_that_replaced_another_is_not_taken_twice_after_a_start() {
    let chip = chip(64, 3);
    let of_first = of_die(&chip, 0);
    let mut device = PageMapFtl::format(chip, options()).unwrap();
    let mut held = Held::new(device.geometry().sectors);
    held.write(&mut device, 200);
    for round in 0..3usize {
        device.flush(&Context::default()).unwrap();
        let mut chip = device.into_flash();
        fail_once(&mut chip, &of_first[10 + 4 * round..12 + 4 * round]);
        device = PageMapFtl::attach(chip, options()).unwrap();
        device.check().unwrap();
        held.check(&device);
        let before = device.counters().retired_blocks;
        while device.counters().retired_blocks == before {
            held.write(&mut device, 1);
        }
        // The line about the replacement goes to flash, and the replacement is in use.
        held.write(&mut device, 40);
        device.flush(&Context::default()).unwrap();
        device.check().unwrap();
        held.check(&device);
    }
}
