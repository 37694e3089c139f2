//! What the commands print.

mod common;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use common::{nandkit, succeeds};
use serde_json::Value;

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_command_has_help_with_an_example() {
    let directory = here();
    let overview = succeeds(directory.path(), &["--help"]);
    for command in [
        "compare",
        "run",
        "devices",
        "reproduce",
        "workloads",
        "info",
        "ls",
        "cat",
        "extract",
        "check",
        "mkfs",
        "policies",
        "completions",
        "man",
    ] {
        assert!(overview.contains(command), "{overview}");
        let help = succeeds(directory.path(), &[command, "--help"]);
        assert!(help.contains("Usage: nandkit") && help.contains("Example"), "{help}");
    }
    assert_eq!(nandkit(directory.path(), &[]).status, Some(2));
}

#[test]
fn lists_are_text_or_json() {
    let directory = here();
    for (arguments, expected) in [
        (vec!["devices"], "k9l8g08u0m"),
        (vec!["devices", "k9l8g08u0m"], "timing.read_ns"),
        (vec!["workloads"], "event-recorder"),
        (vec!["workloads", "fax"], "faxes"),
        (vec!["policies"], "macroscopic"),
    ] {
        assert!(succeeds(directory.path(), &arguments).contains(expected), "{arguments:?}");
        let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let value = json(&succeeds(directory.path(), &with_json));
        assert!(value.to_string().contains(expected), "{with_json:?}: {value}");
    }
}

#[test]
fn completions_and_man_page_are_made() {
    let directory = here();
    assert!(succeeds(directory.path(), &["completions", "bash"]).contains("_nandkit"));
    assert!(succeeds(directory.path(), &["man"]).contains(".TH nandkit"));
}

#[test]
fn json_is_all_that_is_printed_and_csv_has_a_line_per_run() {
    let directory = here();
    let base = ["compare", "--fs", "model", "--workload", "phone:days=2", "--workload", "fax:faxes=2", "--seeds", "2"];
    let with = |format| base.iter().copied().chain([format]).collect::<Vec<_>>();
    let value = json(&succeeds(directory.path(), &with("--json")));
    assert_eq!(value["records"].as_array().map(Vec::len), Some(4));
    assert!(value["metrics"].to_string().contains("write_mb_per_s"));
    let csv = succeeds(directory.path(), &with("--csv"));
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(csv.starts_with("nandkit,seed,stack,workload,"));
    assert!(fs::read_dir(directory.path()).expect("reads").next().is_none());
}

#[test]
fn a_run_keeps_its_records_and_does_not_run_them_again() {
    let directory = here();
    let spec = "workload = \"phone:days=2\"\nseeds = 3\nstack.fs = \"model\"\n[grid]\nworkload.messages_in = [1, 2]\n";
    fs::write(directory.path().join("s.toml"), spec).expect("a file");
    let first = succeeds(directory.path(), &["run", "s.toml", "--out", "out", "--json"]);
    assert_eq!(json(&first).as_array().map(Vec::len), Some(6));
    // Records of the second call are those of the first, host figures included: nothing was run again.
    assert_eq!(succeeds(directory.path(), &["run", "s.toml", "--out", "out", "--json"]), first);
    let path = directory.path().join("out/runs.jsonl");
    let lines = fs::read_to_string(&path).expect("reads");
    assert_eq!(lines.lines().count(), 6);
    // Stopped in the middle of the fourth line.
    let cut = lines.lines().take(3).map(|line| line.len() + 1).sum::<usize>() + 40;
    fs::write(&path, &lines[..cut]).expect("writes");
    let resumed = json(&succeeds(directory.path(), &["run", "s.toml", "--out", "out", "--json"]));
    let strip = |value: &Value| {
        let mut value = value.clone();
        for record in value.as_array_mut().expect("a list") {
            record["host_time_ns"] = 0.into();
            record["host_peak_bytes"] = 0.into();
        }
        value
    };
    assert_eq!(strip(&resumed), strip(&json(&first)));
    assert_eq!(resumed[2], json(&first)[2]);
}

#[cfg(unix)]
#[test]
fn another_build_or_another_trace_does_not_reuse_records() {
    let directory = here();
    let path = directory.path();
    let trace = |sectors: u32| {
        let text = format!("fio version 2 iolog\na add\na open\na write 0 {}\na close\n", sectors * 2048);
        fs::write(path.join("t.iolog"), text).expect("a file");
    };
    trace(1);
    let spec = "workload = \"trace:t.iolog\"\nstack = { fs = \"none\", ftl = \"none\", device = \"ram\" }\n";
    fs::write(path.join("s.toml"), spec).expect("a file");
    let run = |program: &std::path::Path| {
        let arguments = ["run", "s.toml", "--out", "out", "--json"];
        let output = Command::new(program).args(arguments).current_dir(path).output().expect("runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        (json(&String::from_utf8_lossy(&output.stdout))[0].clone(), stderr)
    };
    let program = std::path::PathBuf::from(env!("CARGO_BIN_EXE_nandkit"));
    let (first, told) = run(&program);
    assert_eq!(told, "");
    assert_eq!(run(&program), (first.clone(), String::new()), "the record is reused");
    trace(2);
    let (second, told) = run(&program);
    assert!(told.contains("1 record made from a trace or directory that has changed"), "{told}");
    assert_eq!((&first["user_bytes_written"], &second["user_bytes_written"]), (&2048.into(), &4096.into()));
    // The same program with one more byte in its file: what a linker puts at the end of a program does not matter to it.
    let other = path.join("nandkit");
    fs::copy(&program, &other).expect("copies");
    let mut file = fs::OpenOptions::new().append(true).open(&other).expect("opens");
    std::io::Write::write_all(&mut file, b"x").expect("writes");
    drop(file);
    let (_, told) = run(&other);
    assert!(told.contains("1 record made by another build of nandkit"), "{told}");
    let lines = |name: &str| fs::read_to_string(path.join("out").join(name)).expect("reads").lines().count();
    assert_eq!((lines("runs.jsonl"), lines("runs-old.jsonl")), (1, 2));
}

#[test]
fn a_seed_and_settings_of_the_command_line_win() {
    let directory = here();
    fs::write(directory.path().join("s.toml"), "workload = \"phone:days=2\"\nseeds = 3\nstack.fs = \"model\"\n")
        .expect("a file");
    let arguments = ["run", "s.toml", "--seed", "9", "--set", "workload.days=1", "--set", "verify=false", "--json"];
    let value = json(&succeeds(directory.path(), &arguments));
    assert_eq!(value.as_array().map(Vec::len), Some(1));
    assert_eq!(value[0]["seed"], 9);
    assert_eq!(value[0]["spec"]["workload"]["days"], 1);
    assert_eq!(value[0]["spec"]["verify"], false);
}

#[test]
fn a_comparison_on_fat_covers_every_policy_and_both_layers() {
    let directory = here();
    let workloads = ["--workload", "postmark-small:transactions=3", "--workload", "fax:faxes=1", "--seeds", "1"];
    let arguments = [&["compare", "--fs", "fat", "--device", "nandsim-32m-128k", "--json"], &workloads[..]].concat();
    let value = json(&succeeds(directory.path(), &arguments));
    let records = value["records"].as_array().expect("a list");
    assert_eq!(records.len(), 10, "four policies and FAST, on two workloads");
    let stacks: std::collections::BTreeSet<&str> = records.iter().filter_map(|r| r["stack"].as_str()).collect();
    for part in ["merge ", "merge+migration ", "limit ", "macroscopic ", "fast "] {
        assert!(stacks.iter().any(|stack| stack.starts_with("fat") && stack.contains(part)), "{part}: {stacks:?}");
    }
    for record in records {
        let bytes = |path: &str| record.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}"));
        assert!(bytes("/layers/workload/verified_bytes") > 0, "{record}");
        let areas = bytes("/bytes_programmed_by_area/main") + bytes("/bytes_programmed_by_area/metadata");
        assert_eq!(areas, bytes("/bytes_programmed"));
        assert!(bytes("/bytes_programmed_by_area/metadata") > 0, "FAT writes its FATs: {record}");
    }
    // Each workload has a verdict among the stacks, and the table for people names them all.
    assert!(value["verdicts"].as_array().is_some_and(|verdicts| verdicts.len() >= 2), "{value}");
    let text = succeeds(directory.path(), &[&["compare", "--device", "nandsim-32m-128k"], &workloads[..]].concat());
    for part in ["merge+migration", "macroscopic", "fast", "postmark-small", "fax"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_real_directory_is_a_workload() {
    let directory = here();
    fs::create_dir(directory.path().join("tree")).expect("a directory");
    fs::write(directory.path().join("tree/a"), vec![7; 5000]).expect("a file");
    fs::write(directory.path().join("tree/b"), "hello").expect("a file");
    let arguments = ["compare", "--fs", "model", "--workload", "tree:tree", "--seeds", "1", "--json"];
    let value = json(&succeeds(directory.path(), &arguments));
    assert!(value["records"][0]["layers"]["workload"]["verified_bytes"].as_u64() >= Some(5005), "{value}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let directory = here();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nandkit"))
        .args(["workloads", "phone"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("reads");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert_eq!(stderr, "");
}

#[test]
fn a_full_standard_output_is_an_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = Command::new(env!("CARGO_BIN_EXE_nandkit")).arg("policies").stdout(full).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}
