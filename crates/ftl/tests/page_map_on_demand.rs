//! The page-mapped layer with its map on demand: the misses of lookups agree with the expected
//! ones, and the cache does not change content.

use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::page_map::{JournalOptions, MappingCounters, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, ContentStore, NandChip};
use nandkit_units::random::Random;
use nandkit_units::{Cause, Context, Done, Lba, Nanos, Payload, ReadInto};

const PAGE: usize = 512;
/// Entries of a map page.
const ENTRIES: u64 = PAGE as u64 / 4;
const MAP_PAGES: u64 = 100;

type Device = PageMapFtl<StatsFlash<ContentChip>>;

fn chip(blocks: u32, dies: u32) -> NandChip<ContentStore> {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (PAGE as u32, PAGE as u32, 16);
    (geometry.blocks, geometry.pages_per_block, geometry.dies) = (blocks, 32, dies);
    geometry.channels = dies.min(2);
    NandChip::new(&spec, 1).unwrap()
}

/// A device of [`MAP_PAGES`] map pages, of which `cached` are in its memory; 0: all of them.
fn device(cached: u64) -> Device {
    let mapping_cache = if cached == 0 { 0 } else { 4 * MAP_PAGES + PAGE as u64 * cached };
    let options = PageMapOptions {
        spare: Spare::Capacity(MAP_PAGES * ENTRIES * PAGE as u64),
        mapping_cache,
        // Checkpoints, which evict nothing from the cache, play no part in what is written.
        journal: Some(JournalOptions { checkpoint_every: 1 << 40, aliases: 0 }),
        ..PageMapOptions::default()
    };
    PageMapFtl::format(StatsFlash::new(chip(640, 1)), options).unwrap()
}

fn write(device: &mut Device, at: Nanos, page: u64) -> Done {
    device.write(&Context::at(at), Lba(page), Payload::Bytes(&[page as u8; PAGE])).unwrap()
}

fn since(device: &Device, before: MappingCounters) -> MappingCounters {
    let now = device.mapping_counters().unwrap();
    MappingCounters {
        hits: now.hits - before.hits,
        misses: now.misses - before.misses,
        evictions_clean: now.evictions_clean - before.evictions_clean,
        evictions_dirty: now.evictions_dirty - before.evictions_dirty,
        pages_read: now.pages_read - before.pages_read,
        pages_read_for_cleaning: now.pages_read_for_cleaning - before.pages_read_for_cleaning,
        pages_written: now.pages_written - before.pages_written,
        unreadable: now.unreadable - before.unreadable,
    }
}

/// With independent references to equally likely map pages, the hit rate is the share of map pages
/// in the cache, whatever they are (the independent reference model; King, IFIP 1971).
#[test]
fn uniform_lookups_miss_by_the_share_that_is_not_cached() {
    const LOOKUPS: u64 = 20_000;
    for (cached, reads) in [(10, false), (50, false), (90, false), (10, true), (50, true)] {
        let mut device = device(cached);
        let mut random = Random::new(cached, "uniform");
        (0..MAP_PAGES * ENTRIES).for_each(|page| {
            write(&mut device, Nanos::ZERO, page);
        });
        let mut look = |device: &mut Device| {
            let page = random.below(MAP_PAGES * ENTRIES);
            match reads {
                true => device.read(&Context::default(), Lba(page), ReadInto::Nothing { length: 512 }).unwrap(),
                false => write(device, Nanos::ZERO, page),
            };
        };
        (0..10 * MAP_PAGES).for_each(|_| look(&mut device));
        // The dirty map pages that reads evicted are written now.
        write(&mut device, Nanos::ZERO, 0);
        let (before, flash) = (device.mapping_counters().unwrap(), device.flash().snapshot());
        (0..LOOKUPS).for_each(|_| look(&mut device));
        let counted = since(&device, before);
        let expected = 1.0 - cached as f64 / MAP_PAGES as f64;
        let found = counted.misses as f64 / LOOKUPS as f64;
        let deviation = (expected * (1.0 - expected) / LOOKUPS as f64).sqrt();
        println!("{cached} of {MAP_PAGES} map pages, reads {reads}: misses {found:.4} of {expected:.4}; {counted:?}");
        assert!((found - expected).abs() < 4.0 * deviation, "{cached}, {reads}: {found} of {expected}: {counted:?}");
        assert_eq!(counted.hits + counted.misses, LOOKUPS);
        assert_eq!(counted.pages_read, counted.misses);
        assert_eq!(counted.evictions_clean + counted.evictions_dirty, counted.misses);
        // The flash counted the same pages with the map's cause.
        let after = device.flash().snapshot();
        let of_map = |flash: &nandkit_flash::wrap::FlashSnapshot| flash.cause(Cause::Mapping);
        let read = of_map(&after).reads - of_map(&flash).reads;
        assert_eq!(read, counted.pages_read + counted.pages_read_for_cleaning);
        assert_eq!(of_map(&after).programs - of_map(&flash).programs, counted.pages_written);
        device.check().unwrap();
    }
}

/// With lookups in order, each map page is missed once and written once, when it is evicted.
#[test]
fn lookups_in_order_miss_once_a_map_page() {
    let mut device = device(10);
    let sectors = MAP_PAGES * ENTRIES;
    (0..sectors).for_each(|page| {
        write(&mut device, Nanos::ZERO, page);
    });
    let counters = device.mapping_counters().unwrap();
    // No map page was on flash to be read.
    assert_eq!((counters.misses, counters.hits, counters.pages_read), (MAP_PAGES, sectors - MAP_PAGES, 0));
    assert_eq!((counters.evictions_dirty, counters.evictions_clean), (MAP_PAGES - 10, 0));
    assert_eq!(counters.pages_written, MAP_PAGES - 10);
    // Several pages of a request are one lookup each, and together one miss.
    let before = counters;
    for first in (0..sectors).step_by(8) {
        device.read(&Context::default(), Lba(first), ReadInto::Nothing { length: 8 * PAGE as u32 }).unwrap();
    }
    // The last ten map pages are dirty: reads evict them, and the next change of the device writes
    // them. A map page read again before that counts as evicted, and is read from flash only if it
    // was ever written there.
    let counters = since(&device, before);
    assert_eq!((counters.misses, counters.hits, counters.pages_read), (MAP_PAGES, sectors - MAP_PAGES, 90));
    assert_eq!((counters.evictions_dirty, counters.evictions_clean), (10, 90));
    write(&mut device, Nanos::ZERO, sectors - 1);
    assert_eq!(device.mapping_counters().unwrap().pages_written, MAP_PAGES);
}

/// A miss takes the time of one more read, a hit none. A second request waits for the map page that
/// the first one fetches.
#[test]
fn a_miss_delays_its_request_by_a_read() {
    let mut device = device(10);
    let sectors = MAP_PAGES * ENTRIES;
    let mut now = Nanos::ZERO;
    (0..sectors).for_each(|page| now = write(&mut device, now, page).completed);
    device.flush(&Context::at(now)).unwrap();
    let length = PAGE as u32;
    let read = |at: Nanos, page: u64| {
        let done = device.read(&Context::at(at), Lba(page), ReadInto::Nothing { length }).unwrap();
        done.completed.0 - at.0
    };
    let late = Nanos(now.0 + 1_000_000_000);
    let (miss, hit) = (read(late, 0), read(Nanos(late.0 + 10_000_000), 1));
    assert!(hit > 0 && miss == 2 * hit, "{miss} ns after a miss, {hit} ns after a hit");
    let (first, second) = (read(Nanos(late.0 + 20_000_000), ENTRIES), read(Nanos(late.0 + 20_000_000), ENTRIES + 1));
    assert!(first == 2 * hit && second == 3 * hit, "{first} ns, {second} ns");
}

/// Any cache gives the same content and the same copies of cleaning; only the traffic of the map
/// differs.
#[test]
fn the_cache_changes_no_content() {
    let mut images = Vec::new();
    for cached in [0, 2, 30, 100] {
        let mut device = device(cached);
        let sectors = device.geometry().sectors;
        let mut random = Random::new(4, "content");
        let mut now = Nanos::ZERO;
        for step in 0..30_000u64 {
            let first = random.below(sectors);
            let count = random.between(1, 4).min(sectors - first);
            let context = Context::at(now);
            if random.below(10) == 0 {
                device.trim().unwrap().trim(&context, Lba(first), count).unwrap();
            } else {
                let data: Vec<u8> = (0..count * PAGE as u64).map(|byte| (byte + step * 7) as u8).collect();
                now = device.write(&context, Lba(first), Payload::Bytes(&data)).unwrap().completed;
            }
            if step % 5000 == 0 {
                device.check().unwrap_or_else(|what| panic!("{what} at {step} with {cached}"));
            }
        }
        device.check().unwrap();
        let mut image = vec![0; sectors as usize * PAGE];
        device.read(&Context::at(now), Lba(0), ReadInto::Bytes(&mut image)).unwrap();
        let counters = device.mapping_counters();
        assert_eq!(counters.is_none(), cached == 0);
        println!("{cached}: WAF {:.3}, {counters:?}", device.counters().waf().unwrap());
        if let Some(counters) = counters {
            assert_eq!(cached == 100, counters.evictions_dirty == 0, "{cached}: {counters:?}");
            assert_eq!(cached == 100, counters.pages_read_for_cleaning == 0, "{cached}: {counters:?}");
        }
        // A device that is closed and attached again holds the same content.
        let (flash, _) = device.close(&Context::at(now)).unwrap();
        let options = PageMapOptions { mapping_cache: 4 * MAP_PAGES + 2 * PAGE as u64, ..PageMapOptions::default() };
        let found = PageMapFtl::attach(flash, options).unwrap();
        let mut again = vec![0; image.len()];
        found.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut again)).unwrap();
        assert!(image == again);
        images.push(image);
    }
    assert!(images.windows(2).all(|two| two[0] == two[1]));
}

/// One command that changes more map pages than the cache holds writes all of them at its end,
/// those that it replaces as a whole without reading them, and loses no change.
#[test]
fn a_trim_of_more_than_the_cache_holds_is_written_at_once() {
    let mut device = device(2);
    (0..MAP_PAGES * ENTRIES).for_each(|page| {
        write(&mut device, Nanos::ZERO, page);
    });
    // Two lookups evict the last two, which are dirty.
    for page in [0, ENTRIES] {
        write(&mut device, Nanos::ZERO, page);
    }
    let before = device.mapping_counters().unwrap();
    // Half of map page 10, all of 11 to 18, half of 19.
    let first = 10 * ENTRIES + ENTRIES / 2;
    device.trim().unwrap().trim(&Context::default(), Lba(first), 9 * ENTRIES).unwrap();
    device.check().unwrap();
    let counted = since(&device, before);
    assert_eq!((counted.misses, counted.pages_read), (10, 2));
    // The ones in the cache before, and eight of the ten.
    assert_eq!((counted.evictions_dirty, counted.evictions_clean, counted.pages_written), (2, 8, 10));
}

#[test]
fn caches_that_cannot_be_are_refused_with_what_would_do() {
    let options = PageMapOptions { spare: Spare::Capacity(MAP_PAGES * ENTRIES * PAGE as u64), ..Default::default() };
    for (options, expected) in [
        (PageMapOptions { mapping_cache: 100, ..options }, "expected at least 1424: the directory of 100 map pages"),
        (PageMapOptions { mapping_cache: 1 << 20, journal: None, ..options }, "without a journal; expected a journal"),
    ] {
        let error = PageMapFtl::format(chip(640, 1), options).unwrap_err();
        assert!(error.kind == ErrorKind::Unfit && error.to_string().contains(expected), "{error}");
    }
}
