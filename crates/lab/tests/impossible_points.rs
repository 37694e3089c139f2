//! A point of a grid that cannot be is told before any other runs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_lab::{Experiment, LabError, Options, Progress};

fn run(grid: &str, directory: Option<PathBuf>) -> (Result<usize, LabError>, bool) {
    let spec = format!(
        "workload = \"random:operations=500\"\n[stack]\ndevice = \"nandsim-32m-128k\"\nfs = \"none\"\n[grid]\n{grid}\n"
    );
    let experiment = Experiment::parse(&spec, "spec", &[], None).unwrap();
    let has_run = AtomicBool::new(false);
    let progress = |_: &Progress| has_run.store(true, Ordering::Relaxed);
    let options = Options { jobs: 2, directory, progress: &progress, ..Options::default() };
    let outcome = experiment.run(&options).map(|records| records.len());
    (outcome, has_run.into_inner())
}

#[test]
fn the_last_point_is_tried_before_the_first_one_runs() {
    for (grid, told) in
        [("stack.ftl.log_blocks = [4, 8, 300]", "300"), ("workload.footprint_size = [\"1M\", \"64M\"]", "67108864")]
    {
        let directory = tempfile::tempdir().unwrap();
        let results = directory.path().join("results");
        let (outcome, has_run) = run(grid, Some(results.clone()));
        let error = outcome.unwrap_err();
        assert!(error.is_input() && error.to_string().contains(told), "{grid}: {error}");
        assert!(!has_run, "{grid}");
        assert!(!results.exists(), "nothing was made, so nothing is left");
    }
    let (outcome, has_run) = run("stack.ftl.log_blocks = [4, 8]", None);
    assert_eq!((outcome.unwrap(), has_run), (2, true));
}
