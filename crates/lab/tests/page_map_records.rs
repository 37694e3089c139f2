//! What the page-mapped layer counts is in records: the traffic of a map on demand, refresh, wear
//! levelling.

use crate::common::record_of;
use nandkit_lab::LabError;
use nandkit_record::{LayerValue, RunRecord};

fn run(layer: &str) -> Result<RunRecord, LabError> {
    run_with(layer, "")
}

/// Runs `random` on a page-mapped layer with the options `layer`, and with further parameters of
/// the workload.
fn run_with(layer: &str, more: &str) -> Result<RunRecord, LabError> {
    let text = format!(
        "precondition = 'fill'\nverify = false\nworkload = 'random:footprint=1,block_size=512,operations=20000,reads=0.3{more}'\n[stack]\nfs = 'none'\nftl = {{ kind = 'page-map', spare = 0.4, {layer} }}\ndevice = {{ preset = 'nandsim-32m-16k', blocks = 512, store = 'address' }}"
    );
    record_of(&text)
}

fn value(record: &RunRecord, name: &str) -> f64 {
    record.layers["ftl"][name].as_f64().unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_map_on_demand_is_in_the_record_and_costs_what_its_misses_cost() {
    let whole = run("mapping_cache = 0").unwrap();
    assert!(!whole.layers["ftl"].contains_key("ftl_mapping_misses"));
    // 11,702 pages of 512 bytes are 92 map pages.
    let some = run("mapping_cache = '23K'").unwrap();
    let cached = value(&some, "ftl_mapping_cached_pages_max");
    let (hits, misses) = (value(&some, "ftl_mapping_hits"), value(&some, "ftl_mapping_misses"));
    let share = 1.0 - cached / 92.0;
    assert!((hits + misses - 20_000.0).abs() < 1.0, "{hits} {misses}");
    assert!((misses / 20_000.0 - share).abs() < 4.0 * (share * (1.0 - share) / 20_000.0).sqrt(), "{misses}, {share}");
    assert!(value(&some, "ftl_mapping_pages_written") > 0.5 * misses);
    assert!(some.figures.waf > whole.figures.waf);
    assert_eq!(run("mapping_cache = '23K'").unwrap().to_line(), some.to_line(), "determinism");
}

#[test]
fn a_cache_below_its_directory_is_refused_before_the_run() {
    let error = run("mapping_cache = 1000").unwrap_err().to_string();
    assert!(error.contains("mapping_cache is 1000") && error.contains("expected at least"), "{error}");
}

#[test]
fn refresh_and_levelling_are_in_the_record() {
    let record = run("read_refresh = 4, leveling_threshold = 1").unwrap();
    assert!(value(&record, "ftl_refreshed_by_reads") > 0.0);
    assert_eq!(value(&record, "ftl_refreshed_by_age"), 0.0);
    assert!(record.layers["ftl"].contains_key("ftl_leveled_superblocks"));
}

#[test]
fn stalls_and_what_idle_times_were_used_for_are_in_the_record() {
    // Bursts of 200 operations with pauses of 100 ms between them.
    let bursts = ",rate=2000,burst=200,pause_ms=100";
    let busy = run_with("victim = 'greedy'", bursts).unwrap();
    let (by_cleaning, by_erases) = (value(&busy, "ftl_stalls_by_cleaning"), value(&busy, "ftl_stalls_by_erases"));
    assert!(by_cleaning > 0.0 && value(&busy, "ftl_stalls_by_cleaning_ns") > 0.0);
    let total = value(&busy, "ftl_stalls_by_cleaning_ns") + value(&busy, "ftl_stalls_by_erases_ns");
    assert!(value(&busy, "ftl_stalled_ns") <= total);
    let LayerValue::Series(lengths) = &busy.layers["ftl"]["ftl_stalls_by_log2_us"] else { panic!("a series") };
    let lengths: f64 = lengths.iter().sum();
    assert!((lengths - by_cleaning - by_erases).abs() < 0.5);
    assert!(value(&busy, "ftl_checkpoint_stall_longest_since_format_ns") > 0.0);
    assert!(!busy.layers["ftl"].contains_key("ftl_idle_cleanings"));
    let idle = run_with("idle_after_ms = 2", bursts).unwrap();
    assert!(value(&idle, "ftl_idle_cleanings") > 10.0);
    assert!(value(&idle, "ftl_stalls_by_cleaning") < by_cleaning, "{}", value(&idle, "ftl_stalls_by_cleaning"));
    assert_eq!(run_with("idle_after_ms = 2", bursts).unwrap().to_line(), idle.to_line(), "determinism");
}

#[test]
fn more_free_superblocks_than_there_can_be_are_refused_before_the_run() {
    let error = run("idle_after_ms = 2, idle_free = 100000").unwrap_err().to_string();
    assert!(error.contains("idle_free 100000: expected ") && error.contains(" superblocks, or 0"), "{error}");
}

/// Shares of pages: what they and their log cost, and that every page reads as it must, while
/// cleaning moves what is shared.
#[test]
fn remaps_and_their_log_are_in_the_record_and_every_page_is_verified() {
    let shared = |layer: &str, more: &str| {
        record_of(&format!(
            "workload = 'random:block_size=1024,footprint=1,operations=20000,reads=0.2{more}'\n[stack]\nfs = 'none'\nftl = {{ kind = 'page-map', spare = 0.4, {layer} }}\ndevice = {{ preset = 'nandsim-32m-16k', blocks = 512, store = 'described' }}"
        ))
    };
    let record = shared("aliases = 6000", ",shares=0.3").unwrap();
    let (commands, pages) = (value(&record, "ftl_remaps"), value(&record, "ftl_remapped_pages"));
    assert!(
        (commands - 6000.0).abs() < 4.0 * (20_000.0f64 * 0.3 * 0.7).sqrt() && pages == 2.0 * commands,
        "{commands}"
    );
    assert_eq!(record.figures.latency_ns["remap"].count as f64, commands);
    assert!(value(&record, "ftl_remap_aliases") > 1000.0 && value(&record, "ftl_remap_aliases_max") == 6000.0);
    assert!(value(&record, "ftl_journal_pages_written") >= commands, "a page of the journal for each command");
    assert!(value(&record, "ftl_remap_ns") >= commands * 200_000.0 && value(&record, "ftl_pages_copied") > 0.0);
    assert_eq!(record.layers["workload"]["verified_at_end"].as_f64(), Some(11_702.0));
    assert_eq!(value(&record, "ftl_remap_fold_ns"), 0.0);
    // A smaller log is cleaned for room: the same content, dearer commands.
    let small = |aliases: u32| shared(&format!("aliases = {aliases}"), ",shares=0.02").unwrap();
    let roomy = small(6000);
    let most = (value(&roomy, "ftl_remap_aliases") * 0.95) as u32;
    let tight = small(most);
    assert!(value(&tight, "ftl_remap_aliases") <= f64::from(most) && value(&tight, "ftl_remap_fold_ns") > 0.0);
    assert!(value(&tight, "ftl_remap_ns") > value(&roomy, "ftl_remap_ns"));
    assert_eq!(value(&tight, "ftl_remaps"), value(&roomy, "ftl_remaps"));
    for (layer, more, expected) in [
        ("aliases = 900", ",shares=0.3", "at most 900 logical pages may share"),
        ("journal = false", ",shares=0.3", "the device remaps nothing"),
        ("aliases = 900", ",shares=0.3,trims=0.1", "shares need blocks that hold something"),
    ] {
        let error = shared(layer, more).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
