//! The same experiment gives the same records, whatever the threads.

use nandkit_lab::{Experiment, Options};
use nandkit_record::RunRecord;
use nandkit_workload::HostInputs;

const SPEC: &str = r#"
seeds = 2
[stack]
fs = "model"
[workload]
kind = "phone"
days = 3
[grid]
workload.messages_in = [1, 2, 3]
verify = [true, false]
"#;

const REAL: &str = r#"
seeds = 2
workload = "phone:days=2"
[stack]
device = { preset = "nandsim-32m-128k", bad_blocks.enabled = true }
[grid]
stack.ftl.policy = ["merge", "macroscopic"]
stack.fs = ["fat", { kind = "fat", cache_sectors = 16, write_back = "back" }]
"#;

const BLOCKS: &str = r#"
verify = false
workload = "random:operations=5000"
[stack]
device = { preset = "nandsim-32m-128k", store = "shadow" }
fs = "none"
[grid]
stack.ftl.policy = ["merge", "limit"]
"#;

/// Both sorts of collection, with summaries and without; with data separated by age, the logs of
/// several regions.
const JFFS2: &str = r#"
seeds = 2
workload = "overwrite:files=8,file_size=128K,operations=3000"
[stack]
device = { preset = "nandsim-32m-16k", blocks = 256, bad_blocks.enabled = true }
[grid]
stack.fs = [
    { kind = "jffs2", summaries = true },
    { kind = "jffs2", summaries = false, victim = "cat", separation = "dac:regions=3" },
    { kind = "jffs2", summaries = true, compression = "priority", separation = "dac:regions=3", background_ms = 0 },
]
"#;

/// Overwritten until it collects; with few erases between levelled blocks.
const UBIFS: &str = r#"
seeds = 2
workload = "overwrite:files=8,file_size=128K,operations=3000,sync_every=64"
[stack]
device = { preset = "nandsim-32m-16k", blocks = 256, bad_blocks.enabled = true }
[grid]
stack.fs = ["ubifs", { kind = "ubifs", compression = "lzo", journal_size = "256K", wear_threshold = 8 }]
"#;

const FAST: &str = r#"
seeds = 2
workload = "phone:days=2"
[stack]
device = { preset = "nandsim-32m-128k", bad_blocks.enabled = true }
fs = "fat"
[grid]
stack.ftl = ["fast", { kind = "fast", log_blocks = 3 }]
"#;

/// A directory of the project itself, as it stands while the test runs.
const TREE: &str = r#"
seeds = 2
workload = "tree:../../specs/devices,names=portable"
[stack]
device = "nandsim-32m-128k"
[grid]
stack.fs = ["fat", "jffs2"]
"#;

const TRACE: &str = r#"
verify = false
[workload]
kind = "trace"
file = "../../specs/experiments/small.iolog"
[stack]
device = "nandsim-32m-128k"
fs = "none"
[grid]
stack.ftl = ["block-map", "fast"]
"#;

/// Each specification with the number of its runs.
const ALL: [(&str, usize); 8] =
    [(SPEC, 12), (REAL, 8), (BLOCKS, 2), (JFFS2, 6), (UBIFS, 4), (FAST, 4), (TREE, 4), (TRACE, 2)];

fn run(spec: &str, jobs: usize) -> Vec<RunRecord> {
    let experiment = Experiment::parse(spec, "spec", &[], None).unwrap();
    let options = Options { jobs, program: Some("test"), inputs: &HostInputs, ..Options::default() };
    experiment.run(&options).unwrap()
}

fn lines(records: &[RunRecord]) -> Vec<String> {
    records.iter().map(|record| record.without_host().to_line()).collect()
}

#[test]
fn records_do_not_depend_on_the_number_of_threads() {
    for (spec, runs) in ALL {
        let one = lines(&run(spec, 1));
        assert_eq!(one.len(), runs, "{spec}");
        assert_eq!(lines(&run(spec, 3)), one);
    }
}

#[test]
fn the_sums_over_causes_are_the_totals() {
    for record in [REAL, BLOCKS, JFFS2, UBIFS, FAST, TRACE].iter().flat_map(|spec| run(spec, 2)) {
        let figures = &record.figures;
        assert!(figures.user_bytes_written > 0 && figures.erases_per_block.max > 0, "{}", record.stack);
        for figures in record.phases.values().chain([figures]) {
            assert_eq!(figures.bytes_programmed_by_cause.total(), figures.bytes_programmed);
            assert_eq!(figures.device_time_ns_by_cause.total(), figures.device_time_ns);
            // One die does one thing at a time, and each operation waits for the one before it.
            assert!(figures.device_time_ns <= figures.elapsed_ns, "{}", record.stack);
        }
    }
}

#[test]
fn a_record_alone_is_enough_to_run_it_again() {
    let records = ALL.map(|(spec, _)| run(spec, 2));
    for record in records.iter().flat_map(|records| records.iter().take(2)) {
        let spec = toml::to_string(&record.spec).unwrap();
        let experiment = Experiment::parse(&spec, "record", &[], Some(&[record.seed])).unwrap();
        let options = Options { jobs: 1, program: Some("test"), inputs: &HostInputs, ..Options::default() };
        let again = experiment.run(&options).unwrap();
        assert_eq!(lines(&again), lines(std::slice::from_ref(record)));
    }
}
