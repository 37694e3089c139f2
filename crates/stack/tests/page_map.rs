//! The page-mapped layer in a stack.

use nandkit_block::BlockDevice;
use nandkit_stack::crash::{CrashChip, Existing};
use nandkit_stack::{Mounted, Stack, StackSpec};
use nandkit_units::{Context, Described, Lba, Payload, ReadInto, StatisticValue};
use nandkit_vfs::NewNode;

fn read(text: &str) -> StackSpec {
    toml::from_str(text).unwrap()
}

fn level(stack: &Stack, wanted: &str) -> f64 {
    let mut found = None;
    let (_, statistics) = stack.watched.layers.iter().find(|(name, _)| name == "ftl").unwrap();
    statistics.collect(&mut |name, value| match value {
        StatisticValue::Level(level) if name == wanted => found = Some(level),
        StatisticValue::Count(count) if name == wanted => found = Some(count as f64),
        _ => {}
    });
    found.unwrap_or_else(|| panic!("no {wanted}"))
}

/// Overwrites one page in three, as often as there are pages; returns how many writes that was.
fn overwrite(device: &mut dyn BlockDevice) -> u64 {
    let (sectors, length) = (device.geometry().sectors, device.geometry().sector_size);
    let data = Payload::Described(Described { length, ..Described::default() });
    let mut write = |at: u64| device.write(&Context::default(), Lba(at), data).map(|_| ()).unwrap();
    (0..sectors).for_each(&mut write);
    (0..sectors).for_each(|step| write(step * 3 % sectors));
    2 * sectors
}

#[test]
fn every_layer_runs_on_every_store_in_memory() {
    for ftl in ["'block-map'", "'fast'", "{ kind = 'page-map', spare = 0.2 }"] {
        for store in ["content", "described", "shadow", "address"] {
            let text = format!(
                "fs = 'none'\nftl = {ftl}\ndevice = {{ preset = 'nandsim-32m-16k', blocks = 128, store = '{store}' }}"
            );
            let mut stack = Stack::build(&read(&text), 1).unwrap_or_else(|error| panic!("{text}: {error}"));
            let Mounted::Blocks(blocks) = &mut stack.mounted else { panic!("blocks") };
            let writes = blocks.locked(overwrite);
            assert_eq!(level(&stack, "ftl_host_page_writes") as u64, writes, "{text}");
        }
    }
}

#[test]
fn the_spare_is_the_ratio_asked_for_and_what_is_reserved_is_told() {
    let spec = read(
        "fs = 'none'\nftl = { kind = 'page-map', spare = 0.28, victim = 'd-choices:d=5', separation = 'none', journal = false }\ndevice = { preset = 'nandsim-32m-16k', store = 'address' }",
    );
    let mut stack = Stack::build(&spec, 7).unwrap();
    let (physical, user) = (level(&stack, "ftl_physical_pages"), level(&stack, "ftl_user_pages"));
    assert!(user == (physical / 1.28).floor() && (level(&stack, "ftl_spare") - 0.28).abs() < 1e-4, "{user}");
    assert_eq!(level(&stack, "ftl_reserved_pages"), 3.0 * level(&stack, "ftl_superblock_pages"));
    let Mounted::Blocks(blocks) = &mut stack.mounted else { panic!("blocks") };
    assert_eq!(blocks.geometry().sectors as f64, user);
    blocks.locked(overwrite);
    let copied = level(&stack, "ftl_pages_copied");
    assert!(copied > 0.0);
    let flash = stack.watched.flash.as_ref().unwrap().snapshot();
    let programmed = flash.total().bytes_programmed as f64 / 512.0;
    assert_eq!(programmed, level(&stack, "ftl_host_page_writes") + copied);
}

#[test]
fn a_capacity_is_what_the_host_sees() {
    let spec = read("fs = 'none'\nftl = { kind = 'page-map', capacity = '24M' }\ndevice = 'nandsim-32m-16k'");
    let stack = Stack::build(&spec, 1).unwrap();
    let Mounted::Blocks(blocks) = &stack.mounted else { panic!("blocks") };
    assert_eq!(blocks.geometry().capacity(), 24 << 20);
    let too_much = read("fs = 'none'\nftl = { kind = 'page-map', capacity = '32M' }\ndevice = 'nandsim-32m-16k'");
    let error = Stack::build(&too_much, 1).err().unwrap();
    assert!(error.at == "stack.ftl" && error.detail.contains("a spare of"), "{error}");
}

#[test]
fn files_on_fat_read_as_written() {
    let spec = read("fs = 'fat'\nftl = 'page-map'\ndevice = 'nandsim-32m-128k'");
    let mut stack = Stack::build(&spec, 1).unwrap();
    let Mounted::Files(fs) = &mut stack.mounted else { panic!("files") };
    let root = fs.root();
    let bytes = |round: u32| -> Vec<u8> {
        (0..1_000_000u32).map(|n| ((n + round).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    };
    let changes = fs.changes().unwrap();
    let files: Vec<_> =
        (0..20).map(|file| changes.create(root, format!("f{file}").as_bytes(), &NewNode::FILE).unwrap()).collect();
    // Several times over, so that the layer has to clean.
    for round in 0..4 {
        for (file, inode) in (0..).zip(&files) {
            let content = bytes(round + 100 * file);
            assert_eq!(changes.write(*inode, 0, Payload::Bytes(&content)).unwrap(), content.len());
        }
    }
    for (file, inode) in (0..).zip(&files) {
        let mut found = vec![0; 1_000_000];
        assert_eq!(fs.read(*inode, 0, ReadInto::Bytes(&mut found)).unwrap(), found.len());
        assert!(found == bytes(3 + 100 * file), "f{file}");
    }
    assert!(level(&stack, "ftl_cleanings") > 0.0);
    stack.close().unwrap();
}

/// The map's traffic is in the statistics and on the flash as the map's, and a cache that cannot be
/// is refused before the run.
#[test]
fn a_map_on_demand_is_counted_and_one_that_cannot_be_is_refused() {
    let with = |more: &str| {
        read(&format!(
            "fs = 'none'\nftl = {{ kind = 'page-map', capacity = '16M', victim = 'greedy', {more} }}\ndevice = {{ preset = 'nandsim-32m-16k', store = 'address' }}"
        ))
    };
    // 32 Ki pages of 512 bytes are 256 map pages: a directory of 1024 bytes.
    let mut stack = Stack::build(&with("mapping_cache = '5K'"), 1).unwrap();
    let Mounted::Blocks(blocks) = &mut stack.mounted else { panic!("blocks") };
    blocks.locked(overwrite);
    assert_eq!(level(&stack, "ftl_mapping_cached_pages_max"), 8.0);
    // Filled in order: a miss for each map page; then one page in three, three times round.
    assert_eq!(level(&stack, "ftl_mapping_misses"), 4.0 * 256.0);
    let flash = stack.watched.flash.as_ref().unwrap().snapshot();
    let map = flash.cause(nandkit_units::Cause::Mapping);
    let read = level(&stack, "ftl_mapping_pages_read") + level(&stack, "ftl_mapping_pages_read_for_cleaning");
    assert!(read > 256.0 && map.reads as f64 == read, "{read} of {}", map.reads);
    let error = with("mapping_cache = 2047").check().unwrap_err().to_string();
    assert!(error.contains("expected at least 2048 bytes: the directory of 256 map pages takes 1024"), "{error}");
    for (more, expected) in [
        ("mapping_cache = '1M', journal = false", "expected journal = true"),
        ("mapping_cache = '1X'", "mapping_cache is \"1X\""),
        ("read_refresh = -1", "read_refresh is -1"),
        ("retention_refresh_s = 4000000000", "expected 0 (never) or up to 3153600000"),
        ("idle_after_ms = -1.0", "expected 0, never, or 0.001 to 86400000"),
        ("idle_free = 5", "idle_free is set but idle_after_ms is not"),
        ("idle_gain = 0.5", "idle_gain is set but idle_after_ms is not"),
        ("idle_after_ms = 10, idle_gain = 2", "idle_gain is 2; expected a share"),
        ("leveling_threshold = 'much'", "leveling_threshold is \"much\""),
    ] {
        let text = format!("fs = 'none'\nftl = {{ kind = 'page-map', {more} }}\ndevice = 'nandsim-32m-16k'");
        let error = toml::from_str::<StackSpec>(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Data moved by refresh and levelling are counted in the record, and on the flash under wear
/// levelling.
#[test]
fn refresh_and_levelling_are_counted() {
    for (more, counted) in [
        ("read_refresh = 100", "ftl_refreshed_by_reads"),
        ("retention_refresh_s = 1", "ftl_refreshed_by_age"),
        ("leveling_threshold = 2", "ftl_leveled_superblocks"),
    ] {
        let text = format!(
            "fs = 'none'\nftl = {{ kind = 'page-map', spare = 0.3, {more} }}\ndevice = {{ preset = 'nandsim-32m-16k', blocks = 128, store = 'address' }}"
        );
        let mut stack = Stack::build(&read(&text), 1).unwrap();
        let Mounted::Blocks(blocks) = &mut stack.mounted else { panic!("blocks") };
        blocks.locked(read_and_overwrite_few);
        assert!(level(&stack, counted) > 1.0, "{more}");
        let moved = stack.watched.flash.as_ref().unwrap().snapshot().cause(nandkit_units::Cause::WearLevelling);
        assert!(moved.programs > 0, "{more}: {moved:?}");
    }
}

/// Fills the device, then writes the first pages only, and reads a few others, a millisecond apart.
fn read_and_overwrite_few(device: &mut dyn BlockDevice) {
    let (sectors, length) = (device.geometry().sectors, device.geometry().sector_size);
    let data = Payload::Described(Described { length, ..Described::default() });
    for step in 0..40_000 {
        let context = Context::at(nandkit_units::Nanos(step * 1_000_000));
        let at = if step < sectors { step } else { step % 50 };
        device.write(&context, Lba(at), data).unwrap();
        device.read(&context, Lba(100 + step % 32), ReadInto::Nothing { length }).unwrap();
    }
}

/// On a chip whose power can go the device is found again; what else is on a chip stays.
#[test]
fn a_chip_that_outlives_the_stack_is_found_again_and_a_strange_one_is_refused() {
    let spec = read("fs = 'fat'\nftl = 'page-map'\ndevice = 'nandsim-32m-128k'");
    let chip = CrashChip::new(&spec, 1).unwrap();
    Stack::build_on(&spec, 1, chip.clone(), Existing::Nothing).unwrap().close().unwrap();
    Stack::build_on(&spec, 1, chip, Existing::Volume).unwrap().close().unwrap();
    let strange = CrashChip::new(&spec, 1).unwrap();
    let other = read("fs = 'fat'\nftl = 'block-map'\ndevice = 'nandsim-32m-128k'");
    Stack::build_on(&other, 1, strange.clone(), Existing::Nothing).unwrap().close().unwrap();
    let error = Stack::build_on(&spec, 1, strange, Existing::Nothing).err().unwrap();
    assert!(error.at == "stack.ftl" && error.detail.contains("without a page-mapped device"), "{error}");
}
