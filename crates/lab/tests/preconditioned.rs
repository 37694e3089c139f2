//! Devices that are filled, or brought to their steady state, before they are measured.

use crate::common::record_of;
use nandkit_record::{LayerValue, RunRecord};

fn run(spec: &str) -> RunRecord {
    record_of(spec).unwrap()
}

fn spec(precondition: &str, workload: &str, store: &str) -> String {
    format!(
        "precondition = {precondition}\nworkload = \"{workload}\"\nverify = {}\n[stack]\nfs = \"none\"\nftl = {{ kind = \"page-map\", spare = 0.28, victim = \"d-choices:d=5\", separation = \"none\", journal = false }}\ndevice = {{ preset = \"nandsim-32m-16k\", blocks = 1024, store = \"{store}\" }}",
        store == "described",
    )
}

fn value(record: &RunRecord, name: &str) -> f64 {
    record.layers["steady"][name].as_f64().unwrap_or_else(|| panic!("no {name}"))
}

fn series<'a>(record: &'a RunRecord, name: &str) -> &'a [f64] {
    match &record.layers["steady"][name] {
        LayerValue::Series(series) => series,
        other => panic!("{name} is {other:?}"),
    }
}

const UNIFORM: &str = "random:footprint=1,block_size=512,fill=false,operations=10";

#[test]
fn a_steady_run_ends_when_its_figure_is_known() {
    let text = spec("'steady'", UNIFORM, "address");
    let record = run(&text);
    assert_eq!(value(&record, "steady_settled"), 1.0);
    let (mean, half_width) = (value(&record, "steady_waf_mean"), value(&record, "steady_waf_half_width_95"));
    assert!(half_width > 0.0 && half_width <= 0.005 * mean, "{mean} {half_width}");
    // Five choices at a spare of 0.28 and 32 pages a block; the reserve of three blocks of a
    // thousand is 2 % of the spare.
    assert!((2.4..2.7).contains(&mean), "{mean}");
    let (before, measured) = (series(&record, "steady_windows_before"), series(&record, "steady_windows_measured"));
    assert!(before.len() >= 8 && measured.len() >= 8, "{before:?} {measured:?}");
    // The first windows fall on a device on which nothing has been overwritten.
    assert!(before[0] < 0.9 * mean, "{before:?}");
    let whole = record.figures.waf.unwrap();
    assert!((whole / mean - 1.0).abs() < 1e-3, "{whole} {mean}");
    let written = value(&record, "steady_window_bytes") * measured.len() as f64;
    assert!((record.figures.user_bytes_written as f64 / written - 1.0).abs() < 1e-3);
    let filled = &record.phases["precondition"];
    let user_pages = record.layers["ftl"]["ftl_user_pages"].as_f64().unwrap();
    assert_eq!(filled.bytes_programmed as f64, user_pages * 512.0);
    assert_eq!(run(&text).to_line(), record.to_line(), "determinism");
}

/// Verified: what filling wrote is nobody's, what the workload wrote afterwards is there.
#[test]
fn filled_and_steady_devices_hold_what_the_workload_wrote() {
    let fill = run(&spec("'fill'", "random:footprint=0.5,block_size=1024,operations=20000,reads=0.2", "described"));
    assert!(fill.phases.contains_key("precondition") && !fill.layers.contains_key("steady"));
    assert_eq!(fill.figures.latency_ns.values().map(|latency| latency.count).sum::<u64>(), 20_000);
    let steady = "{ kind = 'steady', tolerance = 0.05, windows = 4 }";
    let steady = run(&spec(steady, "overwrite:files=16,file_size=256K,record=512,pattern=hcf", "described"));
    for record in [&fill, &steady] {
        assert!(
            record.layers["workload"]["verified_at_end"].as_f64() > Some(1000.0),
            "{:?}",
            record.layers["workload"]
        );
    }
    assert_eq!(value(&steady, "steady_settled"), 1.0);
}

#[test]
fn a_device_that_does_not_settle_says_so() {
    let record = run(&spec("{ tolerance = 1e-6, limit = 2.0 }", UNIFORM, "address"));
    assert_eq!(value(&record, "steady_settled"), 0.0);
    assert_eq!((series(&record, "steady_windows_before").len(), value(&record, "steady_turnovers_before")), (16, 2.0));
    assert_eq!(series(&record, "steady_windows_measured").len(), 16);
}
