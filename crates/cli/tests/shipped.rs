//! The experiments that ship, and the inputs of one's own that the README names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{exits, nandkit, succeeds};
use nandkit_lab::Experiment;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_shipped_experiment_is_one() {
    let mut seen = 0;
    for entry in fs::read_dir(root().join("specs/experiments")).expect("reads") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // The baseline of `reproduce` is no experiment.
        if !name.ends_with(".toml") || name == "claims.toml" {
            continue;
        }
        let text = fs::read_to_string(&path).expect("reads");
        let experiment = Experiment::parse(&text, &name, &[], None).unwrap_or_else(|error| panic!("{error}"));
        assert!(!experiment.name.is_empty() && !experiment.runs().is_empty(), "{name}");
        seen += 1;
    }
    assert!(seen >= 6, "{seen}");
}

#[test]
fn the_shipped_trace_and_tree_run() {
    let trace = json(&succeeds(&root(), &["run", "specs/experiments/trace.toml", "--json"]));
    let stacks: Vec<&str> = trace.as_array().expect("a list").iter().filter_map(|r| r["stack"].as_str()).collect();
    assert_eq!(stacks.len(), 2);
    assert!(stacks[0].starts_with("block-map") && stacks[1].starts_with("fast"), "{stacks:?}");
    assert!(trace[0]["layers"]["workload"]["verified_bytes"].as_u64() > Some(100_000), "{trace}");
    let tree = json(&succeeds(&root(), &["run", "specs/experiments/tree.toml", "--json"]));
    assert!(tree[0]["layers"]["workload"]["verified_bytes"].as_u64() > Some(10_000), "{tree}");
}

#[test]
fn fat_on_the_page_mapped_layer_is_compared() {
    let arguments = ["compare", "--ftl", "block-map,page-map", "--policy", "merge", "--device", "nandsim-32m-128k"];
    let short = ["--workload", "overwrite:files=64,operations=4096", "--seeds", "1", "--host", "none", "--json"];
    let compared = json(&succeeds(&root(), &[&arguments[..], &short].concat()));
    let records = compared["records"].as_array().expect("a list");
    let stacks: Vec<&str> = records.iter().filter_map(|record| record["stack"].as_str()).collect();
    assert!(stacks.len() == 2 && stacks[1].starts_with("fat | page-map | greedy | spare 0.07"), "{stacks:?}");
    let layer = &records[1]["layers"]["ftl"];
    let figure = |name: &str| layer[name].as_f64().unwrap_or_else(|| panic!("no {name}: {layer}"));
    assert!(figure("ftl_host_page_writes") >= 4096.0 && figure("ftl_pages_copied") > 0.0, "{layer}");
    assert!(figure("ftl_physical_pages") > figure("ftl_user_pages") + figure("ftl_reserved_pages"), "{layer}");
    assert!(records[1]["layers"]["workload"]["verified_at_end"] == 64, "{}", records[1]["layers"]["workload"]);
}

#[test]
fn fat_on_the_papers_drive_is_compared_without_another_word() {
    let short = ["compare", "--device", "p3-ssd", "--workload", "fax", "--seeds", "1", "--json"];
    let compared = json(&succeeds(&root(), &short));
    let records = compared["records"].as_array().expect("a list");
    assert_eq!(records.len(), 1, "one stack: FAT on the drive's own layer");
    let stack = records[0]["stack"].as_str().expect("a title");
    assert!(stack.starts_with("fat | page-map | greedy | spare 0.111") && stack.contains("p3-ssd"), "{stack}");
    assert!(records[0]["layers"]["interface"]["interface_commands"].as_u64() > Some(100), "{}", records[0]["layers"]);
    let refused = nandkit(&root(), &["compare", "--device", "p3-ssd", "--fs", "jffs2"]);
    assert!(refused.status == Some(2) && refused.stderr.contains("shows its host none"), "{}", refused.stderr);
}

#[test]
fn worn_blocks_fail_and_wear_levelling_puts_it_off() {
    let fewer = ["--set", "grid.stack.ftl.allocation=[\"least-erased\"]"];
    let run = ["run", "specs/experiments/wear.toml", "--json", "--set", "stack.device.failures.enabled=true"];
    let records = json(&succeeds(&root(), &[&run[..], &fewer].concat()));
    let retired = |run: usize| records[run]["layers"]["ftl"]["ftl_retired_blocks"].as_u64().expect("a count");
    let (without, with) = (retired(0), retired(1));
    assert!(without > 10 && with < without, "{without} blocks without wear levelling, {with} with it");
}

#[test]
fn a_device_that_wears_out_ends_the_run_with_its_cause() {
    let short = [
        "--seed=1",
        "--set=stack.device.endurance.cycles=20",
        "--set=stack.device.failures.wear_probability=1e-3",
        "--set=grid.stack.ftl.allocation=[\"least-erased\"]",
        "--set=grid.stack.ftl.wear_threshold=[0]",
    ];
    let wear = ["run", "specs/experiments/wear.toml"];
    for (stack, name) in [("--set=stack.fs=none", "block-map"), ("--set=stack.fs=fat", "fat | block-map")] {
        let outcome = exits(&root(), &[&wear[..], &short[..], &[stack]].concat(), 1);
        assert_eq!(outcome.stdout, "");
        for part in ["overwrite:files=16", name, "seed 1", "no good free block is left", "gone bad"] {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
    }
}

#[test]
fn a_directory_runs_on_fat_whatever_its_names_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("Sub")).expect("a directory");
    for (name, content) in [("a:b?c", "1"), ("README", "2"), ("readme", "3"), ("Sub/x.txt", "4"), (".hidden", "5")] {
        fs::write(tree.join(name), content.repeat(3000)).expect("a file");
    }
    let compare = ["compare", "--device", "nandsim-32m-128k", "--seeds", "1", "--json", "--workload"];
    let value = json(&succeeds(directory.path(), &[&compare[..], &["tree:tree"]].concat()));
    let records = value["records"].as_array().expect("a list");
    assert_eq!(records.len(), 7, "four policies, FAST, JFFS2 and UBIFS");
    for record in records {
        assert!(record["layers"]["workload"]["verified_bytes"].as_u64() >= Some(15_000), "{record}");
        assert_eq!(record["spec"]["workload"]["names"], "portable");
    }
    // Asked for otherwise it is taken at its word: FAT holds one of README and readme.
    let outcome = nandkit(directory.path(), &[&compare[..], &["tree:tree,names=keep"]].concat());
    assert!(matches!(outcome.status, Some(1 | 2)), "{}", outcome.stderr);
    let big = fs::File::create(tree.join("big")).expect("a file");
    big.set_len(1 << 30).expect("a hole");
    let outcome = exits(directory.path(), &[&compare[..], &["tree:tree"]].concat(), 2);
    assert!(
        outcome.stderr.contains("does not fit") && outcome.stderr.contains("smaller directory"),
        "{}",
        outcome.stderr
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_told() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    fs::write(path.join("tree/secret"), "x").expect("a file");
    let mode = |name: &str, mode: u32| fs::set_permissions(path.join(name), fs::Permissions::from_mode(mode));
    mode("tree/secret", 0o000).expect("changes");
    mode("tree", 0o755).expect("changes");
    mode("", 0o755).expect("changes");
    // root reads everything, so the program runs as nobody then, and lies where nobody may go.
    let program = path.join("nandkit");
    // Another process writes it: see `another_build_or_another_trace_does_not_reuse_records`.
    let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_nandkit")).arg(&program).status();
    assert!(copied.expect("cp runs").success());
    mode("nandkit", 0o755).expect("changes");
    let mut command = std::process::Command::new(&program);
    command.args(["compare", "--fs", "model", "--workload", "tree:tree"]).current_dir(path);
    if fs::metadata(path).expect("metadata").uid() == 0 {
        command.uid(65_534);
    }
    let output = command.output().expect("runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("secret") && message.contains("cannot be opened"), "{message}");
}

#[test]
fn a_trace_runs_on_every_layer() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = "128166372003061629,src1,0,Write,0,8192,1\n128166372013061629,src1,0,Read,4096,512,1\n\
                 128166372023061629,src1,0,Write,1048576,4096,1\n";
    fs::write(directory.path().join("t.csv"), trace).expect("a file");
    let arguments = ["compare", "--fs", "none", "--workload", "trace:t.csv", "--seeds", "1", "--json"];
    let value = json(&succeeds(directory.path(), &arguments));
    assert_eq!(value["records"].as_array().map(Vec::len), Some(5));
    assert!(value["records"][4]["figures"].is_null() && value["records"][4]["user_bytes_written"] == 12_288, "{value}");
}
