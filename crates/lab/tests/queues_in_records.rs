//! What reads moved on the dies is in records where reads go before other operations, and what it
//! cost them in the latencies, behind an interface as without one.

use crate::common::record_of;
use nandkit_record::{RunRecord, read_path};

/// Half reads, eight outstanding, on two dies.
fn run(device: &str) -> RunRecord {
    let text = format!(
        "verify = false\nworkload = 'random:block_size=512,operations=4000,reads=0.5,queue_depth=8'\n[stack]\nfs = 'none'\nftl = 'fast'\ndevice = {{ preset = 'nandsim-32m-16k', blocks = 512, geometry.dies = 2, {device} }}"
    );
    record_of(&text).unwrap()
}

fn value(record: &RunRecord, path: &str) -> f64 {
    read_path(record, path).as_f64().unwrap_or_else(|| panic!("no {path}: {:?}", record.layers))
}

#[test]
fn what_reads_moved_is_told_where_they_move_anything() {
    let asked = run("geometry.channels = 1");
    assert!(!asked.layers.contains_key("dies"), "{:?}", asked.layers.keys());
    let first = run("timing.order = 'reads-first', timing.program_suspend_ns = 1000, timing.erase_suspend_ns = 1000");
    for key in ["die_reads_ahead", "die_reads_in_flight", "die_suspensions", "die_postponements", "die_postponed_ns"] {
        assert!(value(&first, &format!("layers.dies.{key}")) > 0.0, "{key}");
    }
    let reads = value(&first, "latency_ns.read.count");
    assert!(value(&first, "layers.dies.die_reads_ahead") < reads, "of the measured phase alone, and not for each read");
    let p50 = |record: &RunRecord| value(record, "latency_ns.read.p50");
    assert!(p50(&first) < 0.8 * p50(&asked), "{} {}", p50(&first), p50(&asked));
    assert_eq!(first.figures.bytes_programmed, asked.figures.bytes_programmed);
}

/// An interface that takes no time changes no latency: ends that move come through it.
#[test]
fn moved_ends_come_through_the_interface() {
    let order = "timing.order = 'reads-first'";
    let (plain, drive) = (run(order), run(&format!("{order}, interface.queue_depth = 32")));
    assert_eq!(value(&drive, "layers.interface.interface_commands_held_back"), 0.0);
    assert!(value(&plain, "layers.dies.die_postponements") > 100.0);
    assert_eq!(plain.figures, drive.figures);
    assert_eq!(plain.layers["dies"], drive.layers["dies"]);
}
