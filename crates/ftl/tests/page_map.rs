//! The page-mapped layer beside a model: content, counters, refusals, blocks that fail.

use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_cleaning::separation::{self, Separation};
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_flash::Flash;
use nandkit_flash::wrap::{FaultFlash, StatsFlash};
use nandkit_ftl::page_map::Spare;
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, FailureScript, NandChip, Store};
use nandkit_units::random::Random;
use nandkit_units::{Assembly, BlockIndex, Cause, Context, Lba, Nanos, Payload, ReadInto};

const PAGE: usize = 512;

/// Options of a device without a journal.
fn in_memory() -> PageMapOptions {
    PageMapOptions { journal: None, ..PageMapOptions::default() }
}

fn chip<S: Store>(blocks: u32, pages_per_block: u32, dies: u32) -> NandChip<S> {
    chip_of_parts(blocks, pages_per_block, dies, 1)
}

/// A chip whose pages hold `parts` logical pages of 512 bytes each.
fn chip_of_parts<S: Store>(blocks: u32, pages_per_block: u32, dies: u32, parts: u32) -> NandChip<S> {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    let size = PAGE as u32 * parts;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (size, size, 16 * parts);
    (geometry.blocks, geometry.pages_per_block, geometry.dies) = (blocks, pages_per_block, dies);
    geometry.channels = dies.min(2);
    NandChip::new(&spec, 1).unwrap()
}

fn content(page: u64, version: u64) -> Vec<u8> {
    (0..PAGE as u64 / 8).flat_map(|word| (page << 32 | version << 8 | word).to_le_bytes()).collect()
}

/// Random writes of one to four pages, trims and reads, compared with a model.
fn agrees_with_a_model<F: Flash>(flash: F, options: PageMapOptions, rounds: u32, seed: u64) -> PageMapFtl<F> {
    let mut device = PageMapFtl::format(flash, options).unwrap();
    let sectors = device.geometry().sectors;
    let mut model: Vec<Option<u64>> = vec![None; sectors as usize];
    let mut random = Random::new(seed, "page map");
    let mut now = Nanos::ZERO;
    for round in 0..u64::from(rounds) {
        let first = random.below(sectors);
        let count = random.between(1, 4.min(sectors - first));
        let pages = first..first + count;
        let context = Context::at(now);
        match random.below(10) {
            0 => {
                let done = device.trim().unwrap().trim(&context, Lba(first), count).unwrap();
                assert!(done.completed >= now);
                pages.for_each(|page| model[page as usize] = None);
            }
            1 | 2 => {
                let mut found = vec![0xEE; count as usize * PAGE];
                device.read(&context, Lba(first), ReadInto::Bytes(&mut found)).unwrap();
                for (page, found) in pages.zip(found.chunks(PAGE)) {
                    let expected = model[page as usize].map_or(vec![0; PAGE], |version| content(page, version));
                    assert!(found == expected, "page {page} in round {round} of seed {seed}");
                }
            }
            _ => {
                let data: Vec<u8> = pages.clone().flat_map(|page| content(page, round)).collect();
                let done = device.write(&context, Lba(first), Payload::Bytes(&data)).unwrap_or_else(|error| {
                    panic!("{error} in round {round} of seed {seed}: {:?}, {:?}", device.counters(), device.check())
                });
                now = Nanos(now.0.max(done.completed.0.saturating_sub(random.below(400_000))));
                pages.for_each(|page| model[page as usize] = Some(round));
            }
        }
        if round % 500 == 0 {
            device.check().unwrap_or_else(|what| panic!("{what} in round {round} of seed {seed}"));
        }
    }
    for page in 0..sectors {
        let mut found = vec![0xEE; PAGE];
        device.read(&Context::at(now), Lba(page), ReadInto::Bytes(&mut found)).unwrap();
        let expected = model[page as usize].map_or(vec![0; PAGE], |version| content(page, version));
        assert!(found == expected, "page {page} at the end of seed {seed}");
    }
    device.check().unwrap();
    device
}

#[test]
fn every_rule_frontier_and_stripe_keeps_what_was_written() {
    let rules = ["greedy", "fifo", "random", "d-choices:d=3"];
    let mut seed = 0;
    for victim in rules.map(|name| name.parse::<VictimPolicy>().unwrap()) {
        for separation in [Separation::UserMoved, Separation::None] {
            for (blocks, pages, dies, stripe) in [(24, 8, 1, 1), (64, 4, 4, 0), (72, 7, 3, 2), (160, 4, 8, 4)] {
                seed += 1;
                let spare = Spare::Ratio(0.4);
                let options = PageMapOptions { spare, victim, separation, stripe, seed, ..in_memory() };
                let flash = StatsFlash::new(chip::<nandkit_nand_sim::ContentStore>(blocks, pages, dies));
                let device = agrees_with_a_model(flash, options, 3000, seed);
                let (counters, flash) = (*device.counters(), device.flash().snapshot());
                let programs = |cause: Cause| flash.cause(cause).programs;
                assert_eq!(programs(Cause::UserData), counters.host_page_writes);
                assert_eq!(programs(Cause::Cleaning), counters.copied_pages);
                assert_eq!(
                    flash.total().erases,
                    counters.erases + device.physical_and_user_pages().0 / u64::from(pages)
                );
                assert!(counters.cleanings > 50, "{victim:?}: {counters:?}");
            }
        }
    }
}

/// With two to eight logical pages in a page of the chip, all that is programmed is the host's
/// data, copies and fill.
#[test]
fn pages_of_several_logical_pages_keep_what_was_written() {
    let schemes = ["user-moved", "none", "chain", "sepbit"].map(|name| name.parse::<Separation>().unwrap());
    for (seed, separation) in (0..).zip(schemes) {
        for (parts, blocks, pages, dies) in [(2, 96, 8, 1), (4, 96, 8, 2), (8, 128, 8, 4)] {
            let options = PageMapOptions {
                spare: Spare::Ratio(1.2),
                separation,
                sector_size: PAGE as u32,
                stripe: 2.min(dies),
                ..in_memory()
            };
            let flash = StatsFlash::new(chip_of_parts::<nandkit_nand_sim::ContentStore>(blocks, pages, dies, parts));
            let device = agrees_with_a_model(flash, options, 4000, seed);
            assert_eq!(device.geometry().preferred_size, PAGE as u32 * parts);
            let (counters, flash) = (*device.counters(), device.flash().snapshot());
            let programmed = counters.host_page_writes + counters.copied_pages + counters.filled_pages;
            assert_eq!(flash.total().programs * u64::from(parts), programmed, "{separation}, {parts} parts");
            assert!(counters.copied_pages > 100 && counters.filled_pages > 100, "{separation}: {counters:?}");
        }
    }
}

/// Logical pages that lie one after another in a page of the chip are read together; scattered
/// ones, and ones never written, are not.
#[test]
fn logical_pages_that_lie_together_are_one_read() {
    let flash = StatsFlash::new(chip_of_parts::<nandkit_nand_sim::ContentStore>(32, 8, 1, 4));
    let options = PageMapOptions { sector_size: PAGE as u32, spare: Spare::Ratio(1.0), ..in_memory() };
    let mut device = PageMapFtl::format(flash, options).unwrap();
    let data: Vec<u8> = (0..8).flat_map(|page| content(page, 1)).collect();
    device.write(&Context::default(), Lba(0), Payload::Bytes(&data)).unwrap();
    device.write(&Context::default(), Lba(2), Payload::Bytes(&content(2, 2))).unwrap();
    let reads_of = |at: u64, pages: u64| {
        let before = device.flash().snapshot().total().reads;
        let mut found = vec![0xEE; pages as usize * PAGE];
        device.read(&Context::at(Nanos(1 << 40)), Lba(at), ReadInto::Bytes(&mut found)).unwrap();
        for (page, found) in (at..at + pages).zip(found.chunks(PAGE)) {
            let expected = match page {
                2 => content(2, 2),
                0..8 => content(page, 1),
                _ => vec![0; PAGE],
            };
            assert!(found == expected, "page {page} of {pages} at {at}");
        }
        device.flash().snapshot().total().reads - before
    };
    assert_eq!(reads_of(4, 4), 1);
    assert_eq!(reads_of(0, 4), 3, "the third lies elsewhere");
    assert_eq!(reads_of(1, 1), 1);
    assert_eq!(reads_of(3, 7), 2, "two have no place");
}

/// Every separation scheme of `cleaning`, with victim rules that look at all superblocks, and wear
/// levelling.
#[test]
fn every_scheme_and_every_other_rule_keeps_what_was_written() {
    let policies = ["cost-benefit", "cat", "age-threshold", "wear-aware", "f2fs-cost-benefit", "windowed-greedy"];
    for (seed, scheme) in (0..).zip(separation::names()) {
        let scheme = if scheme == "known" { "known:below=40".parse() } else { scheme.parse() };
        let policy = policies[seed as usize % policies.len()];
        let options = PageMapOptions {
            spare: Spare::Ratio(0.7),
            victim: policy.parse().unwrap_or_else(|error| panic!("{error}")),
            separation: scheme.unwrap(),
            ..in_memory()
        };
        let device = agrees_with_a_model(chip::<nandkit_nand_sim::ContentStore>(96, 8, 1), options, 5000, seed);
        assert!(device.counters().cleanings > 50, "{policy}: {:?}", device.counters());
    }
}

/// A capacity one page above what the options allow is refused, and the largest allowed capacity
/// works.
#[test]
fn the_least_spare_runs_and_less_is_refused() {
    for (separation, parts, reserved) in [
        (Separation::UserMoved, 1, 4 * 8 + 1),
        (Separation::None, 1, 3 * 8 + 1),
        // Each closed superblock may waste three slots of its last page of copies, and cleaning
        // must gain a page.
        (Separation::UserMoved, 4, 4 * 32 + 20 * (3 + 4 - 1) + 1),
    ] {
        let spare = |pages: u64| Spare::Capacity(pages * PAGE as u64);
        let physical = 24 * 8 * u64::from(parts);
        let sector_size = PAGE as u32;
        let options =
            PageMapOptions { spare: spare(physical - reserved), separation, stripe: 1, sector_size, ..in_memory() };
        let chip = || chip_of_parts::<nandkit_nand_sim::ContentStore>(24, 8, 1, parts);
        agrees_with_a_model(chip(), options, 4000, 9);
        let less = PageMapOptions { spare: spare(physical - reserved + 1), ..options };
        let error = PageMapFtl::format(chip(), less).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unfit);
        assert!(error.to_string().contains("expected 1 to"), "{error}");
    }
}

/// A chip that relocates pages gives the same content, counts and times as one on which they are
/// moved one by one.
#[test]
fn pages_moved_singly_or_together_make_the_same_device() {
    for dies in [1, 4] {
        let parts = dies;
        let options = PageMapOptions { spare: Spare::Ratio(0.9), sector_size: PAGE as u32, stripe: 1, ..in_memory() };
        let chip = || chip_of_parts::<nandkit_nand_sim::ContentStore>(64, 8, dies, parts);
        let together = agrees_with_a_model(chip(), options, 4000, 5);
        let mut whole = FaultFlash::new(chip(), []);
        assert!(whole.relocation().is_none(), "this wrapper was to hide relocation");
        let singly = agrees_with_a_model(whole, options, 4000, 5);
        assert_eq!(together.counters(), singly.counters());
        let end =
            |device: &dyn BlockDevice| device.read(&Context::default(), Lba(0), ReadInto::Nothing { length: 512 });
        assert_eq!(end(&together).unwrap(), end(&singly).unwrap(), "the dies are free at another time");
    }
}

#[test]
fn options_and_chips_that_do_not_fit_are_refused_with_what_would() {
    let options = in_memory();
    let refused = |chip: ContentChip, options: PageMapOptions, expected: &str| {
        let error = PageMapFtl::format(chip, options).unwrap_err();
        assert!(error.kind == ErrorKind::Unfit && error.to_string().contains(expected), "{error}");
    };
    for ratio in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        refused(chip(64, 8, 1), PageMapOptions { spare: Spare::Ratio(ratio), ..options }, "expected a ratio above 0");
    }
    for journal in [None, Some(nandkit_ftl::page_map::JournalOptions::default())] {
        for bytes in [0, u64::MAX] {
            refused(
                chip(64, 8, 1),
                PageMapOptions { spare: Spare::Capacity(bytes), journal, ..options },
                "expected 1 to",
            );
        }
    }
    refused(chip(2, 8, 1), options, "are open");
    let sector_size = PAGE as u32;
    for write_buffer in [1, u64::from(sector_size) - 1, 1 << 40] {
        refused(chip(64, 8, 1), PageMapOptions { write_buffer, sector_size, ..options }, "expected 0, none, or");
    }
    let striped = PageMapOptions { stripe: 4, ..options };
    refused(chip(12, 8, 4), striped, "leave nothing for the host; expected at least 5, by a stripe of fewer blocks");
    refused(chip(64, 8, 4), PageMapOptions { stripe: 3, ..options }, "expected a power of two up to the 4 dies");
    refused(chip(64, 8, 4), PageMapOptions { stripe: 8, ..options }, "expected a power of two");
    refused(chip(64, 1, 1), options, "expected 2 to");
    for sector_size in [256, 300, 1024] {
        refused(chip(64, 8, 1), PageMapOptions { sector_size, ..options }, "expected a power of two from 512 to");
    }
    let mut spec = ChipSpec::default();
    spec.geometry.oob_size = 8;
    refused(ContentChip::new(&spec, 1).unwrap(), options, "expected at least 16");
}

/// When programs and erases fail now and then, nothing is lost, blocks are retired, and superblocks
/// are replaced as long as there are enough.
#[test]
fn blocks_that_fail_lose_nothing() {
    for (dies, separation) in
        [(1, Separation::UserMoved), (4, Separation::UserMoved), (1, Separation::None), (4, Separation::None)]
    {
        let mut flash = chip::<nandkit_nand_sim::ContentStore>(96, 8, dies);
        // Failures start once the device is in use.
        let programs = (1..12u64).map(|failure| 900 + failure * 397).collect();
        let erases = (1..6u64).map(|failure| 150 + failure * 83).collect();
        flash.script_failures(FailureScript { programs, erases, ..FailureScript::default() });
        let options = PageMapOptions { spare: Spare::Ratio(2.5), separation, ..in_memory() };
        let device = agrees_with_a_model(flash, options, 4000, 3);
        let counters = device.counters();
        assert!(counters.program_failures >= 10 && counters.erase_failures >= 2, "{dies} dies: {counters:?}");
        device.check().unwrap();
        let bad = (0..96).filter(|block| device.flash().is_bad(BlockIndex(*block))).count() as u64;
        assert_eq!((bad, counters.lost_pages), (counters.retired_blocks, 0), "{dies} dies");
    }
}

/// A device with too many failed blocks reports that it is full; its content can still be read.
#[test]
fn a_device_without_good_blocks_refuses_writes_and_is_read() {
    let mut flash = chip::<nandkit_nand_sim::ContentStore>(24, 8, 1);
    flash.script_failures(FailureScript { programs: (400..100_000).step_by(7).collect(), ..FailureScript::default() });
    let options = PageMapOptions { spare: Spare::Ratio(0.5), ..in_memory() };
    let mut device = PageMapFtl::format(flash, options).unwrap();
    let sectors = device.geometry().sectors;
    let mut held = vec![None; sectors as usize];
    let mut random = Random::new(1, "full");
    let error = loop {
        let page = random.below(sectors);
        let version = random.below(1 << 20);
        match device.write(&Context::default(), Lba(page), Payload::Bytes(&content(page, version))) {
            Ok(_) => held[page as usize] = Some(version),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ErrorKind::Full, "{error}");
    device.check().unwrap();
    for (page, version) in held.iter().enumerate().filter_map(|(page, version)| Some((page as u64, (*version)?))) {
        let mut found = vec![0; PAGE];
        device.read(&Context::default(), Lba(page), ReadInto::Bytes(&mut found)).unwrap();
        assert!(found == content(page, version), "page {page}");
    }
}

/// A page that cannot be read when it is to be moved is lost. Reading it is an error until it is
/// written again, and no other page is lost with it.
#[test]
fn what_cannot_be_moved_is_told() {
    let mut spec = ChipSpec::default();
    (spec.geometry.page_size, spec.geometry.write_unit, spec.geometry.oob_size) = (512, 512, 16);
    (spec.geometry.blocks, spec.geometry.pages_per_block) = (32, 8);
    spec.bit_errors.enabled = true;
    // An error rate at which a minority of pages cannot be corrected.
    spec.bit_errors.base = 6e-4;
    spec.ecc.correctable_bits = 8;
    let options = PageMapOptions { spare: Spare::Ratio(0.5), ..in_memory() };
    let mut device = PageMapFtl::format(ContentChip::new(&spec, 5).unwrap(), options).unwrap();
    let sectors = device.geometry().sectors;
    let mut held = vec![None; sectors as usize];
    let mut random = Random::new(2, "lost");
    for version in 0..6000 {
        let page = random.below(sectors);
        device.write(&Context::default(), Lba(page), Payload::Bytes(&content(page, version))).unwrap();
        held[page as usize] = Some(version);
    }
    assert!(device.counters().lost_pages > 10, "{:?}", device.counters());
    device.check().unwrap();
    let mut unreadable = 0;
    for page in 0..sectors {
        let mut found = vec![0; PAGE];
        match (device.read(&Context::default(), Lba(page), ReadInto::Bytes(&mut found)), held[page as usize]) {
            (Ok(_), Some(version)) => assert!(found == content(page, version), "page {page}"),
            (Err(error), Some(_)) => {
                assert_eq!((error.kind, error.at), (ErrorKind::Unreadable, Lba(page)));
                unreadable += 1;
            }
            (read, None) => assert!(read.is_ok()),
        }
    }
    assert!(unreadable > 0 && unreadable < sectors / 4, "{unreadable} of {sectors}");
}

/// No superblock is forgotten when host and copies share one frontier and every fourth block fails,
/// so that copies open superblocks while others wait with a failed block.
#[test]
fn no_superblock_is_forgotten_where_copies_open_one_while_a_block_fails() {
    for seed in 0..12 {
        let mut flash = chip::<nandkit_nand_sim::ContentStore>(160, 8, 1);
        let mut random = Random::new(seed, "failures");
        let mut at = 1500;
        let programs = (0..40).map(|_| {
            at += random.between(20, 100);
            at
        });
        flash.script_failures(FailureScript { programs: programs.collect(), ..FailureScript::default() });
        let options = PageMapOptions { spare: Spare::Ratio(1.5), separation: Separation::None, ..in_memory() };
        let device = agrees_with_a_model(flash, options, 2500, seed);
        assert!(device.counters().retired_blocks > 20, "seed {seed}: {:?}", device.counters());
    }
}

/// A write buffer is seen by reads, absorbs overwrites, fills pages, and is empty after a flush.
/// With power-loss protection a flush need not wait, and nothing is lost.
#[test]
fn a_write_buffer_loses_nothing_and_fills_pages() {
    for (seed, (parts, buffer)) in (0..).zip([(1, 8), (4, 4), (4, 64), (8, 20)]) {
        let options = PageMapOptions {
            spare: Spare::Ratio(1.2),
            sector_size: PAGE as u32,
            stripe: 1,
            write_buffer: buffer * PAGE as u64,
            ..PageMapOptions::default()
        };
        let chip = || chip_of_parts::<nandkit_nand_sim::ContentStore>(128, 8, 2, parts);
        let without = agrees_with_a_model(chip(), PageMapOptions { write_buffer: 0, ..options }, 4000, seed);
        let device = agrees_with_a_model(chip(), options, 4000, seed);
        let (counters, before) = (*device.counters(), *without.counters());
        assert_eq!(counters.host_page_writes, before.host_page_writes);
        assert!(counters.absorbed_pages > 0 && counters.buffer_wait > Nanos::ZERO, "{counters:?}");
        // Cleaning fills up pages too.
        let filled = |counters: &nandkit_ftl::page_map::PageMapCounters| counters.filled_pages;
        assert!(
            parts == 1 || filled(&counters) < filled(&before) / 2,
            "{parts} parts: {counters:?}, without {before:?}"
        );
    }
}

#[test]
fn power_loss_protection_saves_what_was_written_and_trimmed() {
    let options = PageMapOptions {
        spare: Spare::Ratio(1.2),
        sector_size: PAGE as u32,
        write_buffer: 40 * PAGE as u64,
        power_loss_protection: true,
        ..PageMapOptions::default()
    };
    for (options, survives) in [(options, true), (PageMapOptions { power_loss_protection: false, ..options }, false)] {
        let chip = chip_of_parts::<nandkit_nand_sim::ContentStore>(128, 8, 2, 4);
        let mut device = PageMapFtl::format(chip, options).unwrap();
        let context = Context::default();
        for page in 0..30 {
            device.write(&context, Lba(page), Payload::Bytes(&content(page, 1))).unwrap();
        }
        device.flush(&context).unwrap();
        for page in 10..30 {
            device.write(&context, Lba(page), Payload::Bytes(&content(page, 2))).unwrap();
        }
        device.trim().unwrap().trim(&context, Lba(0), 5).unwrap();
        device.write_durable(&context, Lba(29), Payload::Bytes(&content(29, 3))).unwrap();
        device.on_last_power(&context).unwrap();
        let device = PageMapFtl::attach(device.into_flash(), options).unwrap();
        device.check().unwrap();
        for page in 0..30 {
            let mut found = vec![0; PAGE];
            device.read(&context, Lba(page), ReadInto::Bytes(&mut found)).unwrap();
            let expected = match (page, survives) {
                (0..5, true) => vec![0; PAGE],
                (29, _) => content(29, 3),
                (10.., true) => content(page, 2),
                _ => content(page, 1),
            };
            // What is in the buffer may have been programmed before the power cut.
            let may = !survives && page >= 10 && found == content(page, 2);
            assert!(found == expected || may, "page {page}, protected {survives}");
        }
    }
}

/// After a close, a start reads only the snapshot and one page of each superblock.
#[test]
fn a_closed_device_is_found_quickly() {
    let options = PageMapOptions { spare: Spare::Ratio(0.5), ..PageMapOptions::default() };
    let device = agrees_with_a_model(chip::<nandkit_nand_sim::ContentStore>(200, 16, 2), options, 3000, 1);
    let sectors = device.geometry().sectors;
    let read = |device: &PageMapFtl<ContentChip>, page| {
        let mut found = vec![0; PAGE];
        device.read(&Context::default(), Lba(page), ReadInto::Bytes(&mut found)).unwrap();
        found
    };
    let held: Vec<Vec<u8>> = (0..sectors).map(|page| read(&device, page)).collect();
    let cut = PageMapFtl::attach(device.into_flash(), options).unwrap();
    cut.check().unwrap();
    let cut_report = *cut.recovery();
    let (flash, _) = cut.close(&Context::default()).unwrap();
    let device = PageMapFtl::attach(flash, options).unwrap();
    let report = *device.recovery();
    // The pages of the map come on top of that.
    assert!(report.superblocks_read < cut_report.superblocks_read, "{report:?}, {cut_report:?}");
    assert!(report.pages_read < cut_report.pages_read && report.replayed < cut_report.replayed, "{report:?}");
    assert!((0..sectors).all(|page| read(&device, page) == held[page as usize]));
    device.check().unwrap();
}

/// On a chip that outlives its layer without the capacitors' last power, as an image in a file
/// does, the option for power-loss protection leaves nothing in the buffer after a flush or a write
/// that overflows it, and still takes no time.
#[test]
fn what_is_flushed_under_power_loss_protection_is_on_flash_where_nobody_tells_of_the_last_power() {
    let options = PageMapOptions {
        spare: Spare::Ratio(1.2),
        sector_size: PAGE as u32,
        write_buffer: 40 * PAGE as u64,
        power_loss_protection: true,
        saved_at_flush: true,
        ..PageMapOptions::default()
    };
    let chip = chip_of_parts::<nandkit_nand_sim::ContentStore>(128, 8, 2, 4);
    let mut device = PageMapFtl::format(chip, options).unwrap();
    let context = Context::at(device.opened());
    for page in 0..30 {
        device.write(&context, Lba(page), Payload::Bytes(&content(page, 1))).unwrap();
    }
    device.trim().unwrap().trim(&context, Lba(0), 5).unwrap();
    assert_eq!(device.flush(&context).unwrap().completed, context.issued);
    device.write_durable(&context, Lba(29), Payload::Bytes(&content(29, 3))).unwrap();
    let device = PageMapFtl::attach(device.into_flash(), options).unwrap();
    for page in 0..30 {
        let mut found = vec![0; PAGE];
        device.read(&context, Lba(page), ReadInto::Bytes(&mut found)).unwrap();
        let expected = match page {
            0..5 => vec![0; PAGE],
            29 => content(29, 3),
            _ => content(page, 1),
        };
        assert!(found == expected, "page {page}");
    }
}

/// A request written or read in parts has the same content, times and counts as the whole request,
/// with several parts to a page and with a write buffer.
#[test]
fn requests_in_parts_are_the_requests_that_they_make_together() {
    use nandkit_units::{Content, Described, Description, Generator};
    let whole = PageMapOptions { spare: Spare::Ratio(1.2), ..PageMapOptions::default() };
    let parts_of_pages = PageMapOptions { sector_size: PAGE as u32, ..whole };
    let buffered = PageMapOptions { write_buffer: 40 * PAGE as u64, ..parts_of_pages };
    for (options, parts_per_page) in [(whole, 1), (parts_of_pages, 4), (buffered, 4)] {
        let make =
            || PageMapFtl::format(chip_of_parts::<nandkit_nand_sim::ContentStore>(128, 8, 2, parts_per_page), options);
        let (mut one, mut other) = (make().unwrap(), make().unwrap());
        let sectors = one.geometry().sectors;
        let mut random = Random::new(11, "parts");
        let mut now = Nanos::ZERO;
        for round in 0..3000u32 {
            let count = random.between(1, 9);
            let at = Lba(random.below(sectors - count));
            let context = Context::at(now);
            if random.below(3) > 0 {
                let bytes: Vec<u8> = (0..count).flat_map(|page| content(at.0 + page, u64::from(round))).collect();
                let described = |page: u64| {
                    let description =
                        Description { record: page, version: round, offset: 0, generator: Generator::Record };
                    Payload::Described(Described { description, length: PAGE as u32 })
                };
                let parts: Vec<Payload<'_>> = (0..count)
                    .zip(bytes.chunks(PAGE))
                    .map(|(page, bytes)| if random.below(2) == 0 { Payload::Bytes(bytes) } else { described(page) })
                    .collect();
                let together = one.write(&context, at, Payload::joined(&parts, &mut Assembly::new())).unwrap();
                assert_eq!(other.write_parts(&context, at, &parts).unwrap(), together, "round {round}");
                now = together.completed;
            } else {
                let mut found = vec![0; count as usize * PAGE];
                let together = one.read(&context, at, ReadInto::Bytes(&mut found)).unwrap();
                let mut contents = vec![Content::new(); count as usize];
                let read = other.read_parts(&context, at, PAGE as u32, &mut contents).unwrap();
                assert_eq!(read, together, "round {round}");
                let same =
                    contents.iter_mut().zip(found.chunks(PAGE)).all(|(content, found)| content.to_bytes() == found);
                assert!(same, "round {round}");
                now = together.completed;
            }
        }
        assert_eq!(format!("{:?}", one.counters()), format!("{:?}", other.counters()));
    }
}

/// A description whose offset would overflow 32 bits within a request is stored as bytes, and what
/// follows is stored in the right place.
#[test]
fn descriptions_that_cannot_name_their_pages_are_written_as_bytes() {
    use nandkit_units::{Described, Description, Generator};
    let whole = PageMapOptions { spare: Spare::Ratio(1.2), sector_size: PAGE as u32, ..PageMapOptions::default() };
    for options in [whole, PageMapOptions { write_buffer: 40 * PAGE as u64, ..whole }] {
        let mut device =
            PageMapFtl::format(chip_of_parts::<nandkit_nand_sim::ContentStore>(128, 8, 2, 4), options).unwrap();
        let description = Description { record: 1, version: 0, offset: u32::MAX - 99, generator: Generator::Record };
        let last = content(3, 1);
        let parts = [Payload::Described(Described { description, length: 3 * PAGE as u32 }), Payload::Bytes(&last)];
        let mut expected = vec![0; 4 * PAGE];
        parts[0].copy_to(&mut expected[..3 * PAGE]);
        expected[3 * PAGE..].copy_from_slice(&last);
        let context = Context::default();
        device.write_parts(&context, Lba(5), &parts).unwrap();
        device.write(&context, Lba(20), parts[0]).unwrap();
        assert_eq!(device.counters().host_page_writes, 7);
        let mut found = vec![0; 4 * PAGE];
        device.read(&context, Lba(5), ReadInto::Bytes(&mut found)).unwrap();
        assert!(found == expected, "in parts");
        device.read(&context, Lba(20), ReadInto::Bytes(&mut found[..3 * PAGE])).unwrap();
        assert!(found[..3 * PAGE] == expected[..3 * PAGE], "alone");
    }
}
