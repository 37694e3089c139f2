//! What the page-mapped layer does to keep its data readable: refresh after reads and after time,
//! and static wear levelling.

use crate::common::page_model::{Model, Script, check_all};
use crate::common::page_runs;
use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_cleaning::allocation::AllocationRule;
use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::page_map::Spare;
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, DescribedChip};
use nandkit_units::random::Random;
use nandkit_units::{Cause, Context, Described, Lba, Nanos, Payload, ReadInto};

const PAGE: u32 = 512;
const DAY: u64 = 86_400_000_000_000;

/// Eight bits can be corrected in a page of 512 bytes and 16 of OOB.
fn spec(blocks: u32) -> ChipSpec {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (PAGE, PAGE, 16);
    (geometry.blocks, geometry.pages_per_block) = (blocks, 16);
    (spec.ecc.code_word_bytes, spec.ecc.correctable_bits) = (PAGE, 8);
    let errors = &mut spec.bit_errors;
    errors.enabled = true;
    (errors.base, errors.wear, errors.retention, errors.disturb, errors.shape) = (0.0, 0.0, 0.0, 0.0, 0);
    spec
}

fn bytes(page: u64) -> Vec<u8> {
    (0..PAGE).map(|byte| (page as u32 * 31 + byte) as u8).collect()
}

fn write(device: &mut impl BlockDevice, now: Nanos, page: u64) {
    device.write(&Context::at(now), Lba(page), Payload::Bytes(&bytes(page))).unwrap();
}

/// Number of pages of the device that cannot be read.
fn unreadable(device: &impl BlockDevice, now: Nanos) -> usize {
    let read = |page: &u64| {
        let mut found = vec![0; PAGE as usize];
        match device.read(&Context::at(now), Lba(*page), ReadInto::Bytes(&mut found)) {
            Ok(_) => {
                assert!(found == bytes(*page), "page {page} is not as it was written");
                false
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Unreadable);
                true
            }
        }
    };
    (0..device.geometry().sectors).filter(read).count()
}

/// Reads of a superblock add one wrong bit to each page in 500 reads. After 4000 reads a page has
/// as many wrong bits as can be corrected, and the part is read 30,000 times.
#[test]
fn what_is_read_often_is_moved_before_it_is_damaged() {
    for (read_refresh, journal) in [(0, true), (400, true), (400, false)] {
        let mut spec = spec(96);
        (spec.bit_errors.disturb, spec.bit_errors.disturb_exponent) = (1.0 / (528.0 * 8.0 * 500.0), 0.0);
        let options = PageMapOptions {
            spare: Spare::Ratio(0.6),
            read_refresh,
            journal: PageMapOptions::default().journal.filter(|_| journal),
            ..PageMapOptions::default()
        };
        let chip = StatsFlash::new(ContentChip::new(&spec, 3).unwrap());
        let mut device = PageMapFtl::format(chip, options).unwrap();
        (0..device.geometry().sectors).for_each(|page| write(&mut device, Nanos::ZERO, page));
        let mut random = Random::new(1, "disturb");
        let mut failed = 0;
        for round in 0..30_000u32 {
            let page = random.below(12);
            let read = device.read(&Context::default(), Lba(page), ReadInto::Nothing { length: PAGE });
            failed += u32::from(read.is_err());
            if round % 50 == 0 {
                device.flush(&Context::default()).unwrap();
            }
        }
        let (by_reads, by_age) = device.refreshed_superblocks();
        let flash = device.flash().snapshot();
        let moved = flash.cause(Cause::WearLevelling);
        let lost = unreadable(&device, Nanos::ZERO);
        println!("limit {read_refresh}: {failed} reads failed, {lost} pages lost, {by_reads} refreshes, {moved:?}");
        if read_refresh == 0 {
            assert!(failed > 10_000 && lost >= 12, "{failed}, {lost}");
            assert_eq!((by_reads, by_age, moved.programs), (0, 0, 0));
        } else {
            assert_eq!((failed, lost, by_age), (0, 0, 0));
            // One refresh for each 400 reads, in up to two superblocks, and a few for what is read
            // along with it.
            assert!((50..=100).contains(&by_reads), "{by_reads}");
            assert!(moved.programs >= by_reads && moved.programs <= 16 * by_reads, "{moved:?}");
            device.check().unwrap();
        }
    }
}

/// A page gets a wrong bit in twelve days, so after a hundred days it has as many as can be
/// corrected. Four hundred days pass, with sixty writes a day to the same pages.
#[test]
fn what_rests_for_long_is_moved_before_it_fades() {
    for days in [0, 10] {
        let mut spec = spec(96);
        let errors = &mut spec.bit_errors;
        (errors.retention, errors.retention_wear_exponent, errors.retention_exponent) =
            (1.0 / (528.0 * 8.0 * 12.0), 0.0, 1.0);
        let options = PageMapOptions {
            spare: Spare::Ratio(0.6),
            retention_refresh: Nanos(days * DAY),
            ..PageMapOptions::default()
        };
        let chip = StatsFlash::new(ContentChip::new(&spec, 3).unwrap());
        let mut device = PageMapFtl::format(chip, options).unwrap();
        let sectors = device.geometry().sectors;
        (0..sectors).for_each(|page| write(&mut device, Nanos::ZERO, page));
        for day in 1..400 {
            let now = Nanos(day * DAY);
            (0..60).for_each(|page| write(&mut device, now, page));
            device.flush(&Context::at(now)).unwrap();
        }
        let lost = unreadable(&device, Nanos(400 * DAY));
        let (by_reads, by_age) = device.refreshed_superblocks();
        let moved = device.flash().snapshot().cause(Cause::WearLevelling).programs;
        println!("{days} days: {lost} of {sectors} pages lost, {by_age} refreshes, {moved} pages moved");
        if days == 0 {
            assert!(lost as u64 > sectors / 2 && by_age == 0);
        } else {
            // Each resting page is moved every eleven days: 36 times.
            assert_eq!((lost, by_reads, device.counters().lost_pages), (0, 0, 0));
            assert!(moved > 30 * sectors && moved < 40 * sectors, "{moved}");
            device.check().unwrap();
        }
    }
}

/// A tenth of the pages get all writes; the rest is written once. Returns the difference in erases
/// between the most and the least erased block, the WAF, the number of superblocks levelled, and
/// what that number would be if each cold superblock rested until the most worn block exceeded it
/// by the threshold.
fn hot_and_cold(options: PageMapOptions) -> (u32, f64, u64, u64) {
    let mut spec = spec(256);
    spec.bit_errors.enabled = false;
    let mut device = PageMapFtl::format(DescribedChip::new(&spec, 3).unwrap(), options).unwrap();
    let sectors = device.geometry().sectors;
    let data = Payload::Described(Described { length: PAGE, ..Described::default() });
    let write = |device: &mut PageMapFtl<DescribedChip>, page| {
        device.write(&Context::default(), Lba(page), data).unwrap();
    };
    (0..sectors).for_each(|page| write(&mut device, page));
    let mut random = Random::new(5, "hot and cold");
    (0..120 * sectors).for_each(|_| write(&mut device, random.below(sectors / 10)));
    device.check().unwrap();
    let erases: Vec<u32> = device.flash().erase_counts().collect();
    let (least, most) = (erases.iter().min().copied().unwrap(), erases.iter().max().copied().unwrap());
    let cold = sectors * 9 / 10 / 16;
    let rests = cold * u64::from(most) / u64::from(options.leveling_threshold.max(1));
    (most - least, device.counters().waf().unwrap(), device.leveled_superblocks(), rests)
}

/// Without levelling, cold superblocks are never erased. With a threshold no difference is much
/// larger, at the cost of some copies. In memory, so that all blocks belong to superblocks.
#[test]
fn cold_data_rest_on_worn_blocks_and_all_blocks_wear() {
    let options = PageMapOptions { spare: Spare::Ratio(0.2), journal: None, ..PageMapOptions::default() };
    let (without, waf_without, moved, _) = hot_and_cold(options);
    println!("no levelling: difference {without}, WAF {waf_without:.3}");
    assert!(without > 400 && moved == 0, "{without}");
    for threshold in [20, 60] {
        let (difference, waf, moved, rests) = hot_and_cold(PageMapOptions { leveling_threshold: threshold, ..options });
        println!(
            "threshold {threshold}: difference {difference}, WAF {waf:.3}, {moved} superblocks moved, {rests} with perfect rest"
        );
        assert!(difference <= threshold + threshold / 2, "threshold {threshold}: {difference}");
        assert!(waf < 1.25 * waf_without, "threshold {threshold}: WAF {waf}");
        // The most worn free superblock is not the most worn of all: measured 1.4 and 1.6 times as
        // often. With the least worn free one it was 2.4 and 2.6 times.
        assert!(moved > rests / 2 && moved < 2 * rests, "threshold {threshold}: {moved} of {rests}");
    }
    // The victim policy's own levelling: its cold data go wherever copies go.
    let (_, waf_by_threshold, ..) = hot_and_cold(PageMapOptions { leveling_threshold: 60, ..options });
    for policy in ["greedy:level-gap=60", "d-choices:level-gap=60"] {
        let (difference, waf, ..) = hot_and_cold(PageMapOptions { victim: policy.parse().unwrap(), ..options });
        println!("{policy}: difference {difference}, WAF {waf:.3}");
        assert!(difference <= 90 && waf > waf_by_threshold, "{policy}: {difference}, {waf}");
    }
}

/// Dynamic levelling takes the least erased free superblock: uniform writes wear all blocks evenly,
/// also with a victim rule that by itself would not.
#[test]
fn dynamic_levelling_evens_out_what_all_take_part_in() {
    let differences = [AllocationRule::LeastErased, AllocationRule::Fifo].map(|allocation| {
        let mut spec = spec(128);
        spec.bit_errors.enabled = false;
        let options = PageMapOptions { spare: Spare::Ratio(0.4), journal: None, allocation, ..Default::default() };
        let mut device = PageMapFtl::format(DescribedChip::new(&spec, 3).unwrap(), options).unwrap();
        let sectors = device.geometry().sectors;
        let data = Payload::Described(Described { length: PAGE, ..Described::default() });
        let mut random = Random::new(5, "uniform");
        for _ in 0..100 * sectors {
            device.write(&Context::default(), Lba(random.below(sectors)), data).unwrap();
        }
        let erases: Vec<u32> = device.flash().erase_counts().collect();
        erases.iter().max().unwrap() - erases.iter().min().unwrap()
    });
    println!("least erased, fifo: differences {differences:?}");
    assert!(differences[0] <= differences[1], "{differences:?}");
}

/// The scripts of the cut tests do refresh and level.
#[test]
fn scripts_refresh_and_level() {
    for (seed, shape) in (0..).zip(page_runs::shapes().iter().filter(|shape| shape.care != page_runs::NONE)) {
        let options = page_runs::options(shape);
        let mut device = PageMapFtl::format(page_runs::chip(shape), options).unwrap();
        let mut model = Model::new(device.geometry().sectors, shape.buffer > 0);
        model.pauses = shape.idle.after_us > 0;
        let script = Script { seed, commands: 4000, restart_every: 0, durable_every: 5 };
        let mut random = Random::new(seed, "script");
        model.run(&mut device, &script, &mut random, &mut script.commands.clone()).unwrap();
        check_all(&device, &mut model).unwrap();
        device.check().unwrap();
        let (by_reads, by_age) = device.refreshed_superblocks();
        println!("{shape:?}: {by_reads} by reads, {by_age} by age, {} levelled", device.leveled_superblocks());
        let care = shape.care;
        for (is_on, count) in
            [(care.reads > 0, by_reads), (care.age_ms > 0, by_age), (care.difference > 0, device.leveled_superblocks())]
        {
            assert!(if is_on { count > 5 } else { count == 0 }, "{shape:?}");
        }
    }
}
