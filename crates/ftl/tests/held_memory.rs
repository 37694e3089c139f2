//! The memory of the chip's store grows with the metadata, not with the traffic, whatever a page
//! consists of. It is counted in bytes of the store, so that neither the allocator nor another test
//! affects it.

use nandkit_block::BlockDevice;
use nandkit_flash::Flash;
use nandkit_ftl::page_map::Spare;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, DescribedChip};
use nandkit_units::random::Random;
use nandkit_units::{Content, Context, Described, Description, Generator, Lba, Nanos, Payload, ReadInto};

const UNIT: u32 = 4096;
/// Bytes of a page's slot in the store's table, and of what is stored beside it.
const PER_PAGE: u64 = 48 + 112;
/// The bound when some pages are the layer's own, such as its map and journal: a fortieth of what
/// storing all bytes would take.
const PER_PAGE_WITH_JOURNAL: u64 = 4 * UNIT as u64 / 40;

/// A chip whose pages hold four units.
fn chip() -> DescribedChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (4 * UNIT, 4 * UNIT, 512);
    (geometry.blocks, geometry.pages_per_block, geometry.dies, geometry.channels) = (64, 16, 2, 2);
    spec.bad_blocks.enabled = false;
    DescribedChip::new(&spec, 1).unwrap()
}

fn record(unit: u64, version: u32) -> Described {
    let description = Description { record: unit, version, offset: 0, generator: Generator::Record };
    Described { description, length: UNIT }
}

/// Writes single units at random, then reads each back as the same description.
fn traffic<B: BlockDevice>(device: &mut B, writes: u32) {
    let sectors = device.geometry().sectors;
    let sectors_per_unit = u64::from(UNIT / device.geometry().sector_size);
    let units = sectors / sectors_per_unit;
    let mut versions = vec![0; units as usize];
    let mut random = Random::new(3, "traffic");
    let mut now = Nanos::ZERO;
    for version in 1..=writes {
        let unit = random.below(units);
        versions[unit as usize] = version;
        let data = Payload::Described(record(unit, version));
        let done = device.write(&Context::at(now), Lba(unit * sectors_per_unit), data).unwrap();
        now = now.max(done.completed);
    }
    device.flush(&Context::at(now)).unwrap();
    for (unit, version) in (0..).zip(versions).filter(|(_, version)| *version > 0) {
        let mut content = Content::new();
        let into = ReadInto::Content { content: &mut content, length: UNIT };
        device.read(&Context::at(now), Lba(unit * sectors_per_unit), into).unwrap();
        assert_eq!(content.described(), Some(record(unit, version)), "unit {unit}");
    }
}

fn assert_small(what: &str, chip: &DescribedChip, per_page: u64) {
    let most = chip.geometry().pages() * per_page;
    let held = chip.store().held_bytes();
    assert!(held <= most, "{what}: the store holds {held} bytes, expected at most {most}");
}

#[test]
fn pages_of_several_units_keep_descriptions_through_buffer_journal_and_cleaning() {
    let plain = PageMapOptions { spare: Spare::Ratio(1.2), sector_size: UNIT, ..PageMapOptions::default() };
    let buffered = PageMapOptions { write_buffer: 256 << 10, ..plain };
    let in_memory = PageMapOptions { journal: None, ..plain };
    for (what, options) in [("a journal", plain), ("a write buffer", buffered), ("no journal", in_memory)] {
        let mut device = PageMapFtl::format(chip(), options).unwrap();
        traffic(&mut device, 12_000);
        assert!(device.counters().cleanings > 0, "{what}");
        let per_page = if options.journal.is_some() { PER_PAGE_WITH_JOURNAL } else { PER_PAGE };
        assert_small(what, device.flash(), per_page);
    }
}

#[test]
fn pages_that_are_read_and_changed_in_part_keep_descriptions() {
    let options = BlockMapOptions { sector_size: 512, ..BlockMapOptions::default() };
    let mut device = BlockMapFtl::format_at(chip(), options, &Context::default()).unwrap();
    traffic(&mut device, 6_000);
    assert!(device.counters().read_modify_writes > 0);
    assert_small("log blocks", device.flash(), PER_PAGE);
}
