//! What the page-mapped layer counts is in records: the traffic of a map on demand, refresh, wear levelling.

use std::sync::atomic::AtomicBool;

use nandkit_lab::{Experiment, LabError, Options, Unmeasured};
use nandkit_record::RunRecord;
use nandkit_workload::NoInputs;

fn run(layer: &str) -> Result<RunRecord, LabError> {
    let text = format!(
        "precondition = 'fill'\nverify = false\nworkload = 'random:footprint=1,block_size=512,operations=20000,reads=0.3'\n[stack]\nfs = 'none'\nftl = {{ kind = 'page-map', spare = 0.4, {layer} }}\ndevice = {{ preset = 'nandsim-32m-16k', blocks = 512, store = 'address' }}"
    );
    let options = Options {
        jobs: 1,
        directory: None,
        program: None,
        notice: &|_| (),
        inputs: &NoInputs,
        host: &Unmeasured,
        progress: &|_| (),
        stop: &AtomicBool::new(false),
    };
    Ok(Experiment::parse(&text, "spec", &[], None)?.run(&options)?.remove(0))
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
