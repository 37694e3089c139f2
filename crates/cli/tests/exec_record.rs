//! `nandkit exec --record`: what a program asked of a volume is asked again, at the same cost.

use std::path::Path;

use crate::common::{json, nandkit, succeeds};
use serde_json::Value;

/// All that formats have in common, with a directory that is listed in several parts.
const LOAD: &str = r#"mkdir -p a/b c && for i in 1 2 3 4 5 6 7 8 9; do dd if=$NOISE of=a/f$i bs=7000 skip=$i count=1 status=none; done
seq 300 | sed 's/.*/a file with a long name number &/' | (cd c && xargs -d '\n' touch) && ls c > list && sync list
cat a/f1 a/f2 > a/b/both; mv a/f3 c; mv a/b d; rm a/f4; truncate -s 100 a/f5; echo more >> a/f6; sync a/f6
cp -r a e; rm -r a; find . > names; cat names e/f6 > /dev/null; rm c/*9; ls -l c > list"#;

/// Names and modes that FAT does not have.
const UNIX_LOAD: &str =
    "echo x > f; ln f g; ln -s f s; chmod 600 f; mkfifo p; setfattr -n user.a -v b f; cat s; mv g h";

fn exec(directory: &Path, stack: &[&str], load: &str) -> Value {
    let arguments = [&["exec"], stack, &["--record", "r.calls", "--json", "--", "sh", "-c", load]].concat();
    serde_json::from_str(&succeeds(directory, &arguments)).expect("one record")
}

/// Replays `r.calls` on a stack that is given in TOML.
fn replay(directory: &Path, stack: &str, parameters: &str) -> Value {
    let text = format!("[stack]\n{stack}\n[workload]\nkind = \"trace\"\nfile = \"r.calls\"\n{parameters}");
    std::fs::write(directory.join("replay.toml"), text).expect("written");
    let records = json(directory, &["run", "replay.toml", "--json"]);
    records.get(0).cloned().expect("a record")
}

#[test]
fn a_recording_replays_with_equal_counters() {
    let stacks: [(&[&str], &str); 3] = [
        (&["--fs", "jffs2", "--device", "nandsim-32m-16k"], "fs = \"jffs2\"\ndevice = \"nandsim-32m-16k\""),
        (&["--fs", "fat", "--device", "nandsim-32m-16k"], "fs = \"fat\"\ndevice = \"nandsim-32m-16k\""),
        (
            &["--fs", "fat", "--device", "nandsim-32m-128k", "--ftl", "fast"],
            "fs = \"fat\"\ndevice = \"nandsim-32m-128k\"\nftl = \"fast\"",
        ),
    ];
    for (arguments, toml) in stacks {
        let directory = tempfile::tempdir().expect("a directory");
        let mut recorded = exec(directory.path(), arguments, LOAD);
        let mut replayed = replay(directory.path(), &format!("{toml}\nhost = {{ sync_ms = 0 }}"), "");
        assert_eq!(recorded["spec"]["stack"], replayed["spec"]["stack"], "{arguments:?}");
        assert!(recorded["user_bytes_written"].as_u64() > Some(100_000), "{recorded}");
        let workload = replayed["layers"].as_object_mut().and_then(|layers| layers.remove("workload"));
        assert_eq!(workload.expect("counts of the workload")["skipped_calls"], 0, "{arguments:?}");
        // What only runs of workloads have: samples over time, and the wear of the chip.
        for layer in ["timeline", "wear"] {
            replayed["layers"].as_object_mut().and_then(|layers| layers.remove(layer));
        }
        // Requests of the kernel are of other kinds than calls of the file system.
        for record in [&mut recorded, &mut replayed] {
            let record = record.as_object_mut().expect("a record");
            for key in ["latency_ns", "host_time_ns", "host_peak_bytes", "workload", "spec"] {
                record.remove(key);
            }
        }
        assert!(recorded == replayed, "{arguments:?}: {recorded}\n{replayed}");
    }
}

#[test]
fn another_stack_is_asked_the_same_and_what_it_cannot_do_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    exec(directory.path(), &["--fs", "jffs2", "--device", "nandsim-32m-16k"], UNIX_LOAD);
    let fat = "fs = \"fat\"\ndevice = \"nandsim-32m-16k\"";
    let replayed = replay(directory.path(), fat, "");
    assert!(replayed["layers"]["workload"]["skipped_calls"].as_u64() >= Some(4), "{}", replayed["layers"]);
    assert_eq!(replayed["user_bytes_written"], 2);
    // As soon as possible takes the device's own time, not that of the command.
    let soon = replay(directory.path(), fat, "timing = \"asap\"");
    assert!(soon["elapsed_ns"].as_u64() < replayed["elapsed_ns"].as_u64());
    let some = replay(directory.path(), "fs = \"jffs2\"\ndevice = \"slc-256m\"", "operations = 3");
    assert_eq!(some["user_bytes_written"], 0);
}

#[test]
fn what_is_no_such_recording_is_refused_with_its_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    exec(directory.path(), &["--fs", "jffs2", "--device", "nandsim-32m-16k"], "echo x > f");
    let recording = ["exec", "--record", "r.calls", "--", "true"];
    let outcome = nandkit(directory.path(), &recording);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("the file exists"), "{}", outcome.stderr);
    let outcome = nandkit(directory.path(), &["exec", "--record", "no/r.calls", "--", "true"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("no/r.calls"), "{}", outcome.stderr);

    let head = "{\"nandkit_calls\":1,\"root\":1}\n";
    let call = |rest: &str| format!("{{\"at\":0,\"unix\":0,{rest},\"came_to\":{{}}}}\n");
    for (text, expected) in [
        ("{\"nandkit_calls\":9,\"root\":1}\n".to_owned(), "line 1: version 9: expected version 1"),
        (format!("{head}oops\n"), "line 2: \"oops\""),
        (format!("{head}{}", call("\"call\":\"dance\"")), "unknown variant `dance`"),
        (format!("{head}{}", call("\"call\":\"stat\",\"inode\":7")), "line 2: inode 7"),
        (
            format!("{head}{}", call("\"call\":\"read\",\"inode\":1,\"offset\":0,\"length\":99999999999")),
            "a read of 99999999999",
        ),
        (format!("{head}{}", call("\"call\":\"lookup\",\"directory\":1,\"name\":\"%zz\"")), "no ASCII or %XX"),
    ] {
        std::fs::write(at("bad.calls"), &text).expect("written");
        let outcome = nandkit(directory.path(), &["compare", "--fs", "model", "--workload", "trace:bad.calls"]);
        assert_eq!(outcome.status, Some(2), "{text}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{text}: {}", outcome.stderr);
    }
    let outcome = nandkit(directory.path(), &["compare", "--fs", "none", "--workload", "trace:r.calls"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("calls of files"), "{}", outcome.stderr);
    // Cut off, it ends with an error and not as a shorter one.
    let whole = std::fs::read(at("r.calls")).expect("read");
    std::fs::write(at("cut.calls"), whole.get(..whole.len() - 5).expect("long enough")).expect("written");
    let outcome = nandkit(directory.path(), &["compare", "--fs", "model", "--workload", "trace:cut.calls"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("cut.calls"), "{}", outcome.stderr);
}
