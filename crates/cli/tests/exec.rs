//! `nandkit exec`: exit statuses, and figures that add up.

use std::process::{Command, Stdio};

use crate::common::{json, nandkit, tells};
use serde_json::Value;

/// Stacks of 32 MiB.
const STACKS: [&[&str]; 4] = [
    &["--fs", "jffs2", "--device", "nandsim-32m-16k"],
    &["--fs", "fat", "--device", "nandsim-32m-16k"],
    &["--fs", "fat", "--device", "nandsim-32m-128k", "--ftl", "fast"],
    &["--fs", "model"],
];

#[test]
fn the_record_of_a_command_adds_up() {
    let directory = tempfile::tempdir().expect("a directory");
    // 3,000,000 bytes through the cache into the stack, and the commands' standard output
    // elsewhere.
    let script = "mkdir d && head -c 3000000 $NOISE > d/f && sync d/f && cp d/f d/g && cmp d/f d/g && rm d/g && echo noise && ls d";
    for stack in STACKS {
        let arguments = [&["exec"], stack, &["--host", "none", "--json", "--", "sh", "-c", script]].concat();
        let record = json(directory.path(), &arguments);
        let number =
            |path: &str| record.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {record}"));
        assert_eq!(number("/user_bytes_written"), 6_000_000, "{stack:?}");
        assert!(number("/latency_ns/write/count") > 0 && number("/latency_ns/sync/count") == 1, "{stack:?}");
        assert_eq!(record["spec"]["workload"]["command"][0], "sh");
        if stack[1] == "model" {
            continue;
        }
        let causes = record["bytes_programmed_by_cause"].as_object().expect("causes");
        let sum: u64 = causes.values().filter_map(Value::as_u64).sum();
        assert_eq!(sum, number("/bytes_programmed"), "{stack:?}");
        assert!(sum > 6_000_000 && number("/device_time_ns") > 0, "{stack:?}: {sum}");
        assert!(number("/elapsed_ns") >= number("/latency_ns/write/max"), "{stack:?}");
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    let directory = tempfile::tempdir().expect("a directory");
    for (command, expected) in [
        (&["sh", "-c", "exit 0"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["no-such-command"], 127),
        (&["/"], 126),
        // It runs in the volume, and knows where it was called from.
        (&["sh", "-c", "test \"$(ls -A)\" = '' && cd - > /dev/null && test \"$PWD\" = \"$0\"", "PLACE"], 0),
    ] {
        let place = directory.path().canonicalize().expect("a path").display().to_string();
        let words: Vec<&str> = command.iter().map(|word| if *word == "PLACE" { &*place } else { word }).collect();
        let outcome = nandkit(directory.path(), &[&["exec", "--device", "ram", "--"], &words[..]].concat());
        assert_eq!(outcome.status, Some(expected), "{command:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{command:?}");
    }
}

#[test]
fn the_summary_tells_what_it_cost() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [&["exec"], STACKS[0], &["--", "sh", "-c", "echo hello > f; cat f"]].concat();
    let outcome = nandkit(directory.path(), &arguments);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(0), "hello\n"), "{}", outcome.stderr);
    for part in ["jffs2", "device time", "WAF", "erases", "p99", "free of"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    for (arguments, expected) in [
        (&["exec", "--fs", "none", "--", "true"][..], "none cannot be mounted"),
        (&["exec", "--fs", "fatt", "--", "true"], "did you mean \"fat\""),
        (&["exec", "--fs", "jffs2", "--ftl", "fast", "--", "true"], "stack.ftl"),
    ] {
        tells(directory.path(), arguments, 2, expected);
    }
}

#[test]
fn the_exit_status_is_the_commands_where_nobody_reads_the_record() {
    let directory = tempfile::tempdir().expect("a directory");
    let exec = |stdout: Stdio, script: &str, recording: &str| {
        let words = ["exec", "--json", "--record", recording, "--device", "ram", "--", "sh", "-c", script];
        let mut child = Command::new(env!("CARGO_BIN_EXE_nandkit"))
            .args(words)
            .current_dir(directory.path())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // What was recorded is kept whoever reads.
        let kept = std::fs::metadata(directory.path().join(recording)).expect("a recording");
        assert!(kept.len() > 0, "{told}");
        (output.status.code(), told)
    };
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    assert_eq!(exec(Stdio::piped(), "echo a > f; exit 7", "a").0, Some(7));
    assert_eq!(exec(Stdio::piped(), "echo a > f", "b").0, Some(0));
    for (script, recording, expected) in [("echo a > f; exit 7", "c", 7), ("echo a > f", "d", 2)] {
        let (status, told) = exec(full().into(), script, recording);
        assert_eq!(status, Some(expected), "{told}");
        assert!(told.contains("cannot write to standard output"), "{told}");
    }
}
