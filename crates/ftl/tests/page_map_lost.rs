//! A device of the page-mapped layer that loses pages by the thousand because it rested for too
//! long, and that continues to work.

use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Nanos, Payload, ReadInto};

const SECTOR: usize = 512;
const TEN_YEARS: Nanos = Nanos(10 * 365 * 86_400_000_000_000);

/// A chip on which data programmed ten years ago have more wrong bits than the part corrects.
fn chip(pages: u32, parts: u32) -> ContentChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    let size = SECTOR as u32 * parts;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (size, size, 16 * parts);
    (geometry.blocks, geometry.pages_per_block) = (4096 / pages, pages);
    (spec.ecc.code_word_bytes, spec.ecc.correctable_bits) = (size, 8);
    let errors = &mut spec.bit_errors;
    errors.enabled = true;
    (errors.base, errors.wear, errors.disturb, errors.shape) = (0.0, 0.0, 0.0, 0);
    (errors.retention, errors.retention_exponent, errors.retention_wear_exponent) = (5e-6, 1.0, 0.0);
    ContentChip::new(&spec, 1).unwrap()
}

fn content(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(SECTOR / 8)
}

/// Asserts that each sector holds what was written lately, or is unreadable if it was written ten
/// years ago. Returns the number of unreadable sectors.
fn check(device: &PageMapFtl<ContentChip>, held: &[Option<u64>]) -> usize {
    let mut unreadable = 0;
    for (sector, version) in (0..).zip(held) {
        let mut found = vec![0; SECTOR];
        let read = device.read(&Context::at(TEN_YEARS), Lba(sector), ReadInto::Bytes(&mut found));
        match (read, version) {
            (Ok(_), Some(version)) => assert!(found == content(*version), "sector {sector} is not as it was written"),
            (Err(error), None) => {
                assert_eq!(error.kind, ErrorKind::Unreadable, "{error}");
                unreadable += 1;
            }
            (read, version) => panic!("sector {sector} of version {version:?}: {read:?}"),
        }
    }
    unreadable
}

#[test]
fn a_device_that_lost_nearly_all_of_its_pages_goes_on_and_knows_them_behind_a_start() {
    for (pages, parts, buffer) in [(8, 1, 0), (64, 1, 0), (16, 4, 0), (16, 4, 12), (32, 2, 0)] {
        let options = PageMapOptions {
            spare: Spare::Ratio(0.35),
            sector_size: SECTOR as u32,
            write_buffer: buffer * SECTOR as u64,
            journal: Some(JournalOptions { checkpoint_every: 0, aliases: 16 }),
            // The flush after the rest moves all data and loses them.
            retention_refresh: Nanos(TEN_YEARS.0 / 10),
            ..PageMapOptions::default()
        };
        let mut device = PageMapFtl::format(chip(pages, parts), options).unwrap();
        let sectors = device.geometry().sectors;
        for sector in 0..sectors {
            device.write(&Context::default(), Lba(sector), Payload::Bytes(&content(sector))).unwrap();
        }
        device.flush(&Context::default()).unwrap();
        let mut held = vec![None; sectors as usize];
        let (mut random, context) = (Random::new(1, "lost"), Context::at(TEN_YEARS));
        let what = format!("blocks of {pages} pages of {parts}, buffer {buffer}");
        // The chip counts the age of a block from its first program on, so open blocks are filled
        // first.
        let fill = u64::from(pages * parts) * 2;
        let writes = (0..2 * fill).map(|write| write % fill).chain((0..200).map(|_| random.below(sectors)));
        for (write, sector) in (0..).zip(writes) {
            device
                .write(&context, Lba(sector), Payload::Bytes(&content(write << 20)))
                .unwrap_or_else(|error| panic!("{what}, {} pages lost: {error}", device.counters().lost_pages));
            held[sector as usize] = Some(write << 20);
        }
        let flushed = device.flush(&context);
        flushed.unwrap_or_else(|error| panic!("{what}, {} pages lost: {error}", device.counters().lost_pages));
        let lost = device.counters().lost_pages;
        assert!(lost > sectors / 3, "{what}: {lost} pages of {sectors} lost");
        println!("{what}: {lost} pages of {sectors} lost");
        device.check().unwrap();
        let unreadable = check(&device, &held);
        // After a cut and after an orderly close.
        let mut device = PageMapFtl::attach_at(device.into_flash(), options, &context).unwrap();
        device.check().unwrap();
        assert_eq!(check(&device, &held), unreadable, "{what}");
        let again = held.iter().position(Option::is_none).unwrap();
        device.write(&context, Lba(again as u64), Payload::Bytes(&content(7))).unwrap();
        held[again] = Some(7);
        let (flash, _) = device.close(&context).unwrap();
        let device = PageMapFtl::attach_at(flash, options, &context).unwrap();
        assert_eq!(check(&device, &held), unreadable - 1, "{what}");
    }
}
