//! Every unusable input ends with exit status 2 and a message that says what, where and what would
//! be right; nothing is left behind.

use std::fs;

use crate::common::{names, nandkit};

struct Case {
    /// Files that stand in the directory before.
    files: Vec<(&'static str, &'static str)>,
    arguments: Words,
    /// Parts of the message.
    expected: Words,
}

type Words = &'static [&'static str];

fn with(files: &[(&'static str, &'static str)], arguments: Words, expected: Words) -> Case {
    Case { files: files.to_vec(), arguments, expected }
}

fn plain(arguments: Words, expected: Words) -> Case {
    with(&[], arguments, expected)
}

/// An experiment in `s.toml` that is to be run.
fn spec(text: &'static str, expected: Words) -> Case {
    with(&[("s.toml", text)], &["run", "s.toml"], expected)
}

fn check(cases: &[Case]) {
    for case in cases {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in &case.files {
            fs::write(directory.path().join(name), text).expect("a file");
        }
        let before = names(directory.path());
        let outcome = nandkit(directory.path(), case.arguments);
        let what = format!("{:?}: {}{}", case.arguments, outcome.stdout, outcome.stderr);
        assert_eq!(outcome.status, Some(2), "{what}");
        assert_eq!(outcome.stdout, "", "{what}");
        assert!(!outcome.stderr.contains("panicked"), "{what}");
        for expected in case.expected {
            assert!(outcome.stderr.contains(expected), "{expected:?} is not in {what}");
        }
        assert_eq!(names(directory.path()), before, "{what}");
    }
}

#[test]
fn names_that_do_not_exist_get_the_nearest_right_one() {
    check(&[
        with(
            &[("s.toml", "")],
            &["run", "s.toml", "--metrics", "waf,write_mb_per_ss"],
            &["--metrics", "write_mb_per_ss", "did you mean \"write_mb_per_s\""],
        ),
        plain(&["run", "/dev/zero"], &["/dev/zero", "more than 16777216 bytes"]),
        plain(&["compare", "--fs", "vfat"], &["--fs", "vfat", "did you mean \"fat\""]),
        plain(&["compare", "--ftl", "blockmap"], &["--ftl", "did you mean \"block-map\""]),
        plain(&["compare", "--policy", "mereg"], &["--policy", "did you mean \"merge\""]),
        plain(&["compare", "--device", "k9l8g08u0n"], &["--device", "did you mean \"k9l8g08u0m\""]),
        plain(&["compare", "--workload", "faxx"], &["--workload", "faxx", "\"fax\""]),
        plain(&["compare", "--workload", "fax:faxs=3"], &["--workload", "faxs", "\"faxes\""]),
        plain(&["devices", "slc256"], &["slc256", "slc-256m"]),
        plain(&["workloads", "postmarc"], &["postmarc", "postmark"]),
        plain(&["reproduce", "P99"], &["unknown paper or claim \"P99\""]),
        plain(&["reproduce", "P4", "--dir", "/"], &["--dir: P4 reads no directories; P3.2 does"]),
        plain(&["reproduce", "P3", "--quick", "--dir", "/nowhere"], &["--dir: /nowhere", "cannot be read"]),
        plain(&["comapre"], &["comapre", "compare"]),
        plain(&["compare", "--polisy", "merge"], &["--polisy", "--policy"]),
    ]);
}

#[test]
fn values_that_cannot_be_are_refused() {
    check(&[
        plain(&["compare", "--seeds", "0"], &["--seeds", "1..=10000"]),
        plain(&["compare", "--log-blocks", "0"], &["log_blocks is 0", "expected 1 to 4096"]),
        plain(&["compare", "--workload", "fax:faxes=many"], &["faxes", "many", "expected"]),
        plain(&["compare", "--fs", "none", "--workload", "fax"], &["fax does not run on blocks", "expected"]),
        plain(&["compare", "--device", "ram", "--policy", "merge", "--ftl", "none"], &["--policy", "block-map"]),
        plain(&["compare", "--json", "--csv"], &["--json", "--csv"]),
        plain(&["compare", "--device", "missing.toml"], &["missing.toml", "expected a chip's spec"]),
        with(
            &[("chip.toml", "[geometry]\npage_size = 1000\n")],
            &["compare", "--device", "chip.toml"],
            &["chip.toml", "page_size is 1000", "expected"],
        ),
        with(
            &[("chip.toml", "[timing]\nread_us = 3\n")],
            &["compare", "--device", "chip.toml"],
            &["chip.toml", "timing.read_us", "timing.read_ns"],
        ),
    ]);
}

#[test]
fn specs_that_are_wrong_are_refused_with_their_place() {
    check(&[
        plain(&["run", "missing.toml"], &["missing.toml", "expected an experiment in TOML"]),
        spec("workload = \n", &["s.toml, line 1"]),
        spec("workload = \"fax\"\n[stak]\n", &["s.toml", "\"stak\"", "did you mean \"stack\""]),
        spec(
            "workload = \"fax\"\n[stack]\nftl = \"block-map\"\nfss = \"fat\"\n",
            &["s.toml, line 4", "fss", "did you mean `fs`"],
        ),
        spec(
            "workload = \"fax\"\n[stack.ftl]\npolcy = \"limit\"\n",
            &["s.toml, line ", "polcy", "did you mean `policy`"],
        ),
        spec("[workload]\nkind = \"fax\"\nfaxs = 3\n", &["s.toml, line 1", "faxs", "\"faxes\""]),
        spec("workload = \"fax\"\nseeds = 0\n", &["s.toml", "seeds is 0", "expected"]),
        spec("seeds = 1\n", &["workload", "missing"]),
        spec(
            "workload = \"fax\"\n[grid]\nstack.ftl.policy = [\"limit\", \"limt\"]\n",
            &["s.toml", "limt", "did you mean `limit`"],
        ),
        spec("workload = \"fax\"\n[grid]\nstack.ftl.log_blocks = [8, 8]\n", &["s.toml", "grid", "are the same"]),
        with(
            &[("s.toml", "workload = \"fax\"\n")],
            &["run", "s.toml", "--set", "stack.ftl"],
            &["--set", "expected KEY=VALUE"],
        ),
        with(
            &[("s.toml", "workload = \"fax\"\n")],
            &["run", "s.toml", "--set", "stack.ftl.policy=limt"],
            &["stack", "limt", "did you mean `limit`"],
        ),
        spec(
            "workload = \"random\"\nstack = { fs = \"none\", device = { preset = \"k9l8g08u0m\", store = \"shadow\" } }\n",
            &["verify", "shadow", "expected"],
        ),
    ]);
}

#[test]
fn inputs_from_outside_that_are_wrong_are_refused_with_their_place() {
    check(&[
        plain(&["compare", "--fs", "model", "--workload", "tree:nowhere"], &["nowhere"]),
        plain(&["compare", "--fs", "none", "--device", "ram", "--workload", "trace:nowhere.log"], &["nowhere.log"]),
        with(
            &[("t.csv", "128166372003061629,src1,0,Write,4096,512,1\nrubbish,src1,0,Write,1,1,1\n")],
            &["compare", "--fs", "none", "--device", "ram", "--workload", "trace:t.csv"],
            &["t.csv, line 2", "expected"],
        ),
        with(
            &[("t.csv", "128166372003061629,src1,0,Write,99999999999,512,1\n")],
            &["compare", "--fs", "none", "--device", "ram", "--workload", "trace:t.csv"],
            &["t.csv, line 1", "expected"],
        ),
        with(
            &[("c.load", "Mkdir \"\\a\" NT_STATUS_OK\nWritX 1 0 1 1 NT_STATUS_OK\n")],
            &["compare", "--fs", "model", "--workload", "dbench:c.load"],
            &["c.load, line 2", "WritX", "did you mean \"WriteX\""],
        ),
    ]);
}

#[test]
fn what_does_not_fit_the_device_is_refused() {
    check(&[
        with(
            &[("chip.toml", "[geometry]\nblocks = 4\n")],
            &["compare", "--device", "chip.toml", "--ftl", "block-map"],
            &["stack.ftl", "chip of 4", "expected"],
        ),
        spec(
            "workload = \"fax\"\nstack.device = { preset = \"ram\", size = 1024 }\nstack.ftl = \"none\"\n",
            &["stack.fs", "a device of 1 KiB", "expected"],
        ),
        plain(
            &["compare", "--device", "nandsim-32m-128k", "--ftl", "block-map", "--workload", "overwrite:files=1000"],
            &["overwrite", "does not fit", "there are", "or fewer"],
        ),
        spec(
            "workload = \"fax\"\nstack = { fs = \"none\", ftl = \"page-map\", device = { preset = \"k9l8g08u0m\", store = \"shadow\", file = \"card.nand\" } }\n",
            &["stack.device.store", "the store shadow keeps no bytes", "card.nand", "expected store"],
        ),
        spec(
            "workload = \"fax\"\nstack = { ftl = { kind = \"page-map\", journal = false }, device = { preset = \"k9l8g08u0m\", file = \"card.nand\" } }\n",
            &["stack.ftl", "page-map without its journal", "card.nand", "expected journal = true"],
        ),
        plain(
            &["compare", "--ftl", "page-map", "--log-blocks", "4"],
            &["--log-blocks", "page-map has no log blocks", "add block-map or fast"],
        ),
        spec(
            "workload = \"fax\"\nstack = { ftl = \"page-map\", device = { preset = \"k9l8g08u0m\", store = \"address\" } }\n",
            &["stack.device.store", "\"address\" keeps no content", "expected content or described"],
        ),
        spec(
            "workload = \"fax\"\nstack.ftl = { kind = \"page-map\", spare = 0.0001 }\nstack.device = \"nandsim-32m-16k\"\n",
            &["stack.ftl", "a spare of", "superblocks are open", "expected"],
        ),
        plain(
            &["compare", "--ftl", "page-map", "--precondition", "steady"],
            &["precondition", "steady is for workloads on blocks", "expected stack.fs = \"none\""],
        ),
        plain(
            &["compare", "--fs", "none", "--precondition", "stedy", "--workload", "random"],
            &["--precondition", "did you mean \"steady\""],
        ),
        with(
            &[("t.iolog", "fio version 2 iolog\nx add\nx open\nx write 0 4096\nx close\n")],
            &["compare", "--fs", "none", "--precondition", "steady", "--workload", "trace:t.iolog"],
            &["precondition", "trace ends by itself", "expected overwrite"],
        ),
        spec(
            "workload = \"random\"\nprecondition = { tolerance = 2 }\nstack.fs = \"none\"\n",
            &["precondition", "tolerance is 2", "expected 0.000001 to 0.5"],
        ),
        plain(&["compare", "--device", "ram", "--ftl", "block-map"], &["stack.ftl", "expected ftl = \"none\""]),
        with(
            &[("big", "0123456789abcdef")],
            &["compare", "--fs", "none", "--workload", "tree:."],
            &["tree does not run on blocks", "expected"],
        ),
        with(
            &[("t.iolog", "fio version 2 iolog\nx add\nx open\nx write 0 4096\nx write 99999995904 4096\nx close\n")],
            &["compare", "--fs", "none", "--workload", "trace:t.iolog"],
            &["t.iolog, line 5", "expected operations within it", "fit=wrap"],
        ),
    ]);
}

#[test]
fn results_that_cannot_be_kept_are_told() {
    check(&[
        with(
            &[("s.toml", "workload = \"phone:days=1\"\nstack.fs = \"model\"\n"), ("out", "a file")],
            &["run", "s.toml", "--out", "out"],
            &["out"],
        ),
        with(
            &[("s.toml", "workload = \"phone:days=1\"\nstack.fs = \"model\"\n"), ("runs.jsonl", "my notes\n")],
            &["run", "s.toml", "--out", "."],
            &["runs.jsonl", "line 1", "name another directory"],
        ),
    ]);
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_told_and_what_was_finished_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let spec = "workload = \"phone:days=1\"\nstack.fs = \"model\"\nseeds = 9\n";
    fs::write(directory.path().join("s.toml"), spec).expect("a file");
    // A limit on the size of files (in KiB) stands in for a full disk: a write beyond it takes a
    // part and then fails.
    let script =
        format!("trap '' XFSZ; ulimit -f 8; exec '{}' run s.toml --out out --jobs 1", env!("CARGO_BIN_EXE_nandkit"));
    let output = std::process::Command::new("bash").args(["-c", &script]).current_dir(directory.path()).output();
    let output = output.expect("bash runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("no room is left") && message.contains("runs.jsonl"), "{message}");
    assert_eq!(names(&directory.path().join("out")), ["runs.jsonl", "runs.origin"]);
    let kept = fs::read_to_string(directory.path().join("out/runs.jsonl")).expect("reads");
    assert!(kept.ends_with("}\n") && (1..9).contains(&kept.lines().count()), "{kept}");
    // With room the same command makes only the rest.
    let outcome = nandkit(directory.path(), &["run", "s.toml", "--out", "out", "--json"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let whole = fs::read_to_string(directory.path().join("out/runs.jsonl")).expect("reads");
    assert!(whole.starts_with(&kept) && whole.lines().count() == 9);
}

/// With --force a device once became a regular file.
#[test]
#[cfg(unix)]
fn what_is_no_file_is_not_replaced_by_one() {
    use std::os::unix::fs::FileTypeExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let made = std::process::Command::new("mkfifo").arg(path.join("pipe")).status().expect("mkfifo runs");
    assert!(made.success());
    fs::create_dir(path.join("tree")).expect("a directory");
    let outcome = nandkit(path, &["mkfs", "jffs2", "--from", "tree", "--force", "pipe"]);
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("expected the path of a regular file"), "{}", outcome.stderr);
    assert!(fs::metadata(path.join("pipe")).expect("still there").file_type().is_fifo());
}

/// What a message quotes of a name or of a line cannot steer the terminal.
#[test]
#[cfg(unix)]
fn control_characters_are_shown_escaped() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let name = "\u{1b}]0;mine\u{7}\r\u{9b}2J.toml";
    fs::write(path.join(name), "workload = 1\n").expect("a file");
    let line = "128166372003061629,src1,0,Write,4096,512,1\n\u{1b}[2J\u{7f},src1,0,Write,1,1,1\n";
    fs::write(path.join("t.csv"), line).expect("a file");
    let trace = ["compare", "--fs", "none", "--device", "ram", "--workload", "trace:t.csv"];
    for arguments in [&["run", name][..], &["info", name], &["ls", name], &trace] {
        let outcome = nandkit(path, arguments);
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
        let shown = outcome.stderr.trim_end_matches('\n');
        assert!(shown.chars().all(|character| character == '\n' || !character.is_control()), "{shown:?}");
        assert!(shown.contains("\\u{1b}"), "{arguments:?}: {shown:?}");
    }
}

/// The shell's `<(...)` is a pipe.
#[test]
#[cfg(unix)]
fn a_spec_may_come_through_a_pipe() {
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let writer = std::thread::spawn(move || fs::write(pipe, "workloud = 1\n"));
    let outcome = nandkit(directory.path(), &["run", "pipe"]);
    writer.join().expect("no panic").expect("the spec is written");
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("workloud"), "{}", outcome.stderr);
}

#[test]
fn images_that_cannot_be_made_or_opened_are_refused() {
    let files = &[
        ("t.tar", ""),
        ("there", "something"),
        ("noise.bin", "neither chip nor dump"),
        (
            "table",
            "/x q 1 0 0
",
        ),
    ];
    let mkfs = |arguments, expected| with(files, arguments, expected);
    check(&[
        mkfs(&["mkfs", "jffs2", "--from", "t.tar", "there"], &["there", "exists", "--force"]),
        mkfs(&["mkfs", "jffs2", "--from", "missing", "i"], &["missing", "expected a directory or a tar archive"]),
        mkfs(&["mkfs", "jffs2", "--from", "noise.bin", "i"], &["noise.bin", "expected a directory or a tar archive"]),
        mkfs(&["mkfs", "jffs2", "--from", ".", "-e", "1000", "i"], &["erase size", "1000", "expected"]),
        mkfs(&["mkfs", "jffs2", "--from", ".", "-x", "zlibb", "i"], &["--compress", "zlibb", "\"zlib\""]),
        mkfs(&["mkfs", "jffs2", "--from", ".", "--device", "nandsim", "i"], &["--device", "nandsim"]),
        mkfs(&["mkfs", "jffs2", "--from", ".", "--size", "100000", "i"], &["100000", "multiple of the erase size"]),
        mkfs(&["mkfs", "jffs2", "--from", ".", "-D", "table", "i"], &["table", "line 1"]),
        mkfs(&["mkfs", "jffs2", "--from", ".", "--threads", "1000000", "i"], &["1000000", "expected 0 to 1024"]),
        mkfs(&["mkfs", "jffs2", "--from", ".", "no/such/i"], &["no/such/i"]),
        mkfs(&["mkfs", "jffs3", "--from", ".", "i"], &["jffs3", "jffs2"]),
        mkfs(&["ls", "noise.bin"], &["noise.bin", "begins with \"neither", "expected an emulated chip", "JFFS2"]),
        mkfs(&["ls", "noise.bin", "--offset", "1M"], &["--offset 1048576", "21 bytes", "inside"]),
        mkfs(&["ls", "noise.bin", "--region", "rootfs"], &["--region", "rootfs"]),
        mkfs(&["ls", "noise.bin", "--erase-size", "x"], &["--erase-size", "x"]),
        mkfs(&["cat", "missing", "a"], &["missing", "cannot read"]),
        mkfs(&["extract", "noise.bin"], &["DIR"]),
        mkfs(&["extract", "noise.bin", "--to-tar", "-", "--json"], &["--json", "standard output"]),
        mkfs(&["check", ".", "--repair", "x"], &["not a regular file"]),
    ]);
}
