//! What F2FS counts is in records, defined, bounded, and the same every time; every policy of
//! `cleaning` is really asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::record_of;
use nandkit_cleaning::victim;
use nandkit_record::{LayerValue, RunRecord};
use nandkit_stack::format;

/// Files that fill most of a card of 96 MiB, hot and cold, overwritten with a sync now and then.
fn run(fs: &str, workload: &str) -> RunRecord {
    let text = format!(
        "workload = 'overwrite:pattern=hcf,files=136,file_size=256K,operations=8000,sync_every=256{workload}'\n\
         [stack]\nfs = {{ kind = 'f2fs', {fs} }}\n\
         device = {{ preset = 'sd-pny-10', geometry = {{ capacity = 100663296 }} }}\n"
    );
    record_of(&text).unwrap_or_else(|error| panic!("{fs}: {error}"))
}

fn value(record: &RunRecord, name: &str) -> f64 {
    record.layers["fs"][name].as_f64().unwrap_or_else(|| panic!("no {name}"))
}

fn series(record: &RunRecord, name: &str) -> Vec<f64> {
    match &record.layers["fs"][name] {
        LayerValue::Series(values) => values.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_value_of_f2fs_has_a_definition_and_every_definition_a_value() {
    let record = run("mode = 'lfs'", "");
    let counted: BTreeSet<&String> = record.layers["fs"].keys().collect();
    let definitions = format::named("f2fs").and_then(|f2fs| f2fs.emulate()).unwrap().statistics();
    let defined: BTreeSet<&String> = definitions.iter().map(|definition| &definition.name).collect();
    assert_eq!(counted, defined);
    assert_eq!(run("mode = 'lfs'", "").to_line(), record.to_line(), "determinism");
}

#[test]
fn segments_and_blocks_over_time_add_up_at_every_instant() {
    let record = run("mode = 'lfs'", "");
    let times = series(&record, "over_time_ns");
    assert!((16..=257).contains(&times.len()), "{}", times.len());
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    let states =
        ["free", "prefree", "dirty", "full"].map(|state| series(&record, &format!("{state}_segments_over_time")));
    let sums: BTreeSet<u64> = (0..times.len()).map(|at| states.iter().map(|values| values[at] as u64).sum()).collect();
    assert_eq!(sums.len(), 1, "free, prefree, dirty and full ones are always all that no log has: {sums:?}");
    let valid = series(&record, "valid_blocks_over_time");
    assert_eq!(valid.len(), times.len());
    // The fill: 136 files of 64 blocks each, an inode and no other node. The root is one more
    // inode. The first sample is of the checkpoint before the first change; the others are behind
    // the fill, and overwrites add nothing.
    let now = value(&record, "valid_blocks");
    assert!(valid[0] < 10.0 && now >= 136.0 * 65.0 && valid[1..].iter().all(|&then| then == now), "{now}: {valid:?}");
}

#[test]
fn blocks_by_log_and_way_are_what_the_device_got_in_each_area() {
    for (fs, ways) in [("mode = 'lfs'", ["lfs"].as_slice()), ("ipu_policy = 0", &["lfs", "ssr"]), ("", &["in_place"])] {
        let record = run(fs, "");
        let of_way = |way: &str| -> f64 {
            let names = ["hot_data", "warm_data", "cold_data", "hot_node", "warm_node", "cold_node"];
            names.iter().map(|log| value(&record, &format!("{log}_{way}_blocks"))).sum()
        };
        for way in ["lfs", "ssr", "in_place"] {
            assert!(of_way(way) > 0.0 || !ways.contains(&way), "{fs}: nothing by {way}");
        }
        assert_eq!(of_way("ssr") > 0.0, ways.contains(&"ssr"), "{fs}");
        let main = value(&record, "main_area_blocks");
        assert_eq!(main, ["lfs", "ssr", "in_place", "claimed"].map(of_way).iter().sum::<f64>());
        let metadata = value(&record, "metadata_area_blocks");
        let tables = ["sit", "nat", "ssa", "pack"].map(|of| value(&record, &format!("{of}_blocks")));
        assert_eq!(metadata, tables.iter().sum::<f64>());
        // The card counts by itself what it was handed.
        let is_written = |name: &str| name.starts_with("device_written_") && name.ends_with("_bytes");
        let written = record.layers["block"].iter().filter(|(name, _)| is_written(name));
        let bytes: f64 = written.filter_map(|(_, value)| value.as_f64()).sum();
        assert_eq!(bytes, (main + metadata) * 4096.0, "{fs}");
    }
}

/// Victims of the whole run, by policy: moved blocks of data and nodes.
fn moved(fs: &str) -> (RunRecord, f64) {
    let record = run(fs, "");
    assert_eq!(record.layers["workload"]["verified_at_end"].as_f64(), Some(136.0), "{fs}");
    assert!(value(&record, "foreground_sections") > 50.0, "{fs}: {}", value(&record, "foreground_sections"));
    let moved = value(&record, "foreground_moved_data_blocks") + value(&record, "foreground_moved_node_blocks");
    (record, moved)
}

#[test]
fn every_victim_policy_of_cleaning_collects_and_chooses_its_own_way() {
    let mut by_policy: BTreeMap<&str, f64> = BTreeMap::new();
    for name in victim::names() {
        by_policy.insert(name, moved(&format!("mode = 'lfs', victim = '{name}'")).1);
    }
    println!("{by_policy:?}");
    let different: BTreeSet<u64> = by_policy.values().map(|moved| *moved as u64).collect();
    assert!(different.len() + 3 >= by_policy.len(), "policies that choose alike: {by_policy:?}");
    // Fewest valid blocks first moves less than a draw, than first come, and than the least worn.
    for other in ["random", "random", "p2-baseline"] {
        assert!(by_policy["greedy"] < by_policy[other], "{other}: {by_policy:?}");
    }
    // Ten draws come near to greedy, one is the draw.
    assert!(by_policy["d-choices"] < by_policy["random"], "{by_policy:?}");
}

/// Overwrites, two minutes in which nobody asks for anything, and one more write: in between
/// sections are collected, by the policy for such times.
#[test]
fn sections_are_collected_in_the_idle_times_of_a_trace() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("pause.iolog");
    let mut lines = String::from("fio version 3 iolog\n1 /dev/a add\n1 /dev/a open\n");
    for number in 0_u64..3000 {
        let at = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53;
        lines += &format!("{} /dev/a write {} 4096\n", 2 + number, at * 4096);
    }
    let then_us = 130 * 1_000_000_u64;
    lines += &format!("{then_us} /dev/a write 0 4096\n{} /dev/a close\n", then_us + 1);
    std::fs::write(&path, lines).expect("a trace");
    let run = |fs: &str| {
        record_of(&format!(
            "workload = 'trace:{},timing=recorded'\n[stack]\nfs = {{ kind = 'f2fs', mode = 'lfs', dirty_pages = 64{fs} }}\n\
             device = {{ preset = 'sd-pny-10', geometry = {{ capacity = 100663296 }} }}\n",
            path.display()
        ))
        .unwrap_or_else(|error| panic!("{fs}: {error}"))
    };
    let moved = |record: &RunRecord| value(record, "background_moved_data_blocks");
    let [greedy, random] = [", background_victim = 'greedy'", ", background_victim = 'random'"].map(run);
    for record in [&greedy, &random] {
        let sections = [value(record, "background_sections"), value(record, "foreground_sections")];
        assert!(sections[0] >= 2.0 && sections[1] == 0.0, "{sections:?}");
    }
    assert!(moved(&greedy) < moved(&random), "{} and {}", moved(&greedy), moved(&random));
    assert_eq!(run(", background_victim = 'random'").to_line(), random.to_line(), "determinism");
}
