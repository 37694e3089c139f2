//! Every unusable input ends with exit status 2 and a message that says what, where and what would be right; nothing is left behind.

use std::fs;
use std::path::Path;

use crate::common::nandkit;

struct Case {
    /// Files that stand in the directory before.
    files: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
    /// Parts of the message.
    expected: &'static [&'static str],
}

fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("the directory reads")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn check(cases: &[Case]) {
    for case in cases {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in case.files {
            fs::write(directory.path().join(name), text).expect("a file");
        }
        let before = entries(directory.path());
        let outcome = nandkit(directory.path(), case.arguments);
        let what = format!("{:?}: {}{}", case.arguments, outcome.stdout, outcome.stderr);
        assert_eq!(outcome.status, Some(2), "{what}");
        assert_eq!(outcome.stdout, "", "{what}");
        assert!(!outcome.stderr.contains("panicked"), "{what}");
        for expected in case.expected {
            assert!(outcome.stderr.contains(expected), "{expected:?} is not in {what}");
        }
        assert_eq!(entries(directory.path()), before, "{what}");
    }
}

#[test]
fn names_that_do_not_exist_get_the_nearest_right_one() {
    check(&[
        Case {
            files: &[("s.toml", "")],
            arguments: &["run", "s.toml", "--metrics", "waf,write_mb_per_ss"],
            expected: &["--metrics", "write_mb_per_ss", "did you mean \"write_mb_per_s\""],
        },
        Case { files: &[], arguments: &["run", "/dev/zero"], expected: &["/dev/zero", "more than 16777216 bytes"] },
        Case {
            files: &[],
            arguments: &["compare", "--fs", "vfat"],
            expected: &["--fs", "vfat", "did you mean \"fat\""],
        },
        Case {
            files: &[],
            arguments: &["compare", "--ftl", "blockmap"],
            expected: &["--ftl", "did you mean \"block-map\""],
        },
        Case {
            files: &[],
            arguments: &["compare", "--policy", "mereg"],
            expected: &["--policy", "did you mean \"merge\""],
        },
        Case {
            files: &[],
            arguments: &["compare", "--device", "k9l8g08u0n"],
            expected: &["--device", "did you mean \"k9l8g08u0m\""],
        },
        Case {
            files: &[],
            arguments: &["compare", "--workload", "faxx"],
            expected: &["--workload", "faxx", "\"fax\""],
        },
        Case {
            files: &[],
            arguments: &["compare", "--workload", "fax:faxs=3"],
            expected: &["--workload", "faxs", "\"faxes\""],
        },
        Case { files: &[], arguments: &["devices", "slc256"], expected: &["slc256", "slc-256m"] },
        Case { files: &[], arguments: &["workloads", "postmarc"], expected: &["postmarc", "postmark"] },
        Case { files: &[], arguments: &["reproduce", "P99"], expected: &["unknown paper or claim \"P99\""] },
        Case { files: &[], arguments: &["comapre"], expected: &["comapre", "compare"] },
        Case { files: &[], arguments: &["compare", "--polisy", "merge"], expected: &["--polisy", "--policy"] },
    ]);
}

#[test]
fn values_that_cannot_be_are_refused() {
    check(&[
        Case { files: &[], arguments: &["compare", "--seeds", "0"], expected: &["--seeds", "1..=10000"] },
        Case {
            files: &[],
            arguments: &["compare", "--log-blocks", "0"],
            expected: &["log_blocks is 0", "expected 1 to 4096"],
        },
        Case {
            files: &[],
            arguments: &["compare", "--workload", "fax:faxes=many"],
            expected: &["faxes", "many", "expected"],
        },
        Case {
            files: &[],
            arguments: &["compare", "--fs", "none", "--workload", "fax"],
            expected: &["fax does not run on blocks", "expected"],
        },
        Case {
            files: &[],
            arguments: &["compare", "--device", "ram", "--policy", "merge", "--ftl", "none"],
            expected: &["--policy", "block-map"],
        },
        Case { files: &[], arguments: &["compare", "--json", "--csv"], expected: &["--json", "--csv"] },
        Case {
            files: &[],
            arguments: &["compare", "--device", "missing.toml"],
            expected: &["missing.toml", "expected a chip's spec"],
        },
        Case {
            files: &[("chip.toml", "[geometry]\npage_size = 1000\n")],
            arguments: &["compare", "--device", "chip.toml"],
            expected: &["chip.toml", "page_size is 1000", "expected"],
        },
        Case {
            files: &[("chip.toml", "[timing]\nread_us = 3\n")],
            arguments: &["compare", "--device", "chip.toml"],
            expected: &["chip.toml", "timing.read_us", "timing.read_ns"],
        },
    ]);
}

#[test]
fn specs_that_are_wrong_are_refused_with_their_place() {
    check(&[
        Case {
            files: &[],
            arguments: &["run", "missing.toml"],
            expected: &["missing.toml", "expected an experiment in TOML"],
        },
        Case { files: &[("s.toml", "workload = \n")], arguments: &["run", "s.toml"], expected: &["s.toml, line 1"] },
        Case {
            files: &[("s.toml", "workload = \"fax\"\n[stak]\n")],
            arguments: &["run", "s.toml"],
            expected: &["s.toml", "\"stak\"", "did you mean \"stack\""],
        },
        Case {
            files: &[("s.toml", "workload = \"fax\"\n[stack]\nftl = \"block-map\"\nfss = \"fat\"\n")],
            arguments: &["run", "s.toml"],
            expected: &["s.toml, line 4", "fss", "did you mean `fs`"],
        },
        Case {
            files: &[("s.toml", "workload = \"fax\"\n[stack.ftl]\npolcy = \"limit\"\n")],
            arguments: &["run", "s.toml"],
            expected: &["s.toml, line ", "polcy", "did you mean `policy`"],
        },
        Case {
            files: &[("s.toml", "[workload]\nkind = \"fax\"\nfaxs = 3\n")],
            arguments: &["run", "s.toml"],
            expected: &["s.toml, line 1", "faxs", "\"faxes\""],
        },
        Case {
            files: &[("s.toml", "workload = \"fax\"\nseeds = 0\n")],
            arguments: &["run", "s.toml"],
            expected: &["s.toml", "seeds is 0", "expected"],
        },
        Case { files: &[("s.toml", "seeds = 1\n")], arguments: &["run", "s.toml"], expected: &["workload", "missing"] },
        Case {
            files: &[("s.toml", "workload = \"fax\"\n[grid]\nstack.ftl.policy = [\"limit\", \"limt\"]\n")],
            arguments: &["run", "s.toml"],
            expected: &["s.toml", "limt", "did you mean `limit`"],
        },
        Case {
            files: &[("s.toml", "workload = \"fax\"\n[grid]\nstack.ftl.log_blocks = [8, 8]\n")],
            arguments: &["run", "s.toml"],
            expected: &["s.toml", "grid", "are the same"],
        },
        Case {
            files: &[("s.toml", "workload = \"fax\"\n")],
            arguments: &["run", "s.toml", "--set", "stack.ftl"],
            expected: &["--set", "expected KEY=VALUE"],
        },
        Case {
            files: &[("s.toml", "workload = \"fax\"\n")],
            arguments: &["run", "s.toml", "--set", "stack.ftl.policy=limt"],
            expected: &["stack", "limt", "did you mean `limit`"],
        },
        Case {
            files: &[(
                "s.toml",
                "workload = \"random\"\nstack = { fs = \"none\", device = { preset = \"k9l8g08u0m\", store = \"shadow\" } }\n",
            )],
            arguments: &["run", "s.toml"],
            expected: &["verify", "shadow", "expected"],
        },
    ]);
}

#[test]
fn inputs_from_outside_that_are_wrong_are_refused_with_their_place() {
    check(&[
        Case {
            files: &[],
            arguments: &["compare", "--fs", "model", "--workload", "tree:nowhere"],
            expected: &["nowhere"],
        },
        Case {
            files: &[],
            arguments: &["compare", "--fs", "none", "--device", "ram", "--workload", "trace:nowhere.log"],
            expected: &["nowhere.log"],
        },
        Case {
            files: &[("t.csv", "128166372003061629,src1,0,Write,4096,512,1\nrubbish,src1,0,Write,1,1,1\n")],
            arguments: &["compare", "--fs", "none", "--device", "ram", "--workload", "trace:t.csv"],
            expected: &["t.csv, line 2", "expected"],
        },
        Case {
            files: &[("t.csv", "128166372003061629,src1,0,Write,99999999999,512,1\n")],
            arguments: &["compare", "--fs", "none", "--device", "ram", "--workload", "trace:t.csv"],
            expected: &["t.csv, line 1", "expected"],
        },
    ]);
}

#[test]
fn what_does_not_fit_the_device_is_refused() {
    check(&[
        Case {
            files: &[("chip.toml", "[geometry]\nblocks = 4\n")],
            arguments: &["compare", "--device", "chip.toml", "--ftl", "block-map"],
            expected: &["stack.ftl", "chip of 4", "expected"],
        },
        Case {
            files: &[(
                "s.toml",
                "workload = \"fax\"\nstack.device = { preset = \"ram\", size = 1024 }\nstack.ftl = \"none\"\n",
            )],
            arguments: &["run", "s.toml"],
            expected: &["stack.fs", "a device of 1 KiB", "expected"],
        },
        Case {
            files: &[],
            arguments: &[
                "compare",
                "--device",
                "nandsim-32m-128k",
                "--ftl",
                "block-map",
                "--workload",
                "overwrite:files=1000",
            ],
            expected: &["overwrite", "does not fit", "there are", "or fewer"],
        },
        Case {
            files: &[(
                "x.toml",
                "workload = \"fax\"\nstack = { fs = \"none\", ftl = \"page-map\", device = { preset = \"k9l8g08u0m\", store = \"shadow\", file = \"card.nand\" } }\n",
            )],
            arguments: &["run", "x.toml"],
            expected: &["stack.device.store", "the store shadow keeps no bytes", "card.nand", "expected store"],
        },
        Case {
            files: &[(
                "x.toml",
                "workload = \"fax\"\nstack = { ftl = { kind = \"page-map\", journal = false }, device = { preset = \"k9l8g08u0m\", file = \"card.nand\" } }\n",
            )],
            arguments: &["run", "x.toml"],
            expected: &["stack.ftl", "page-map without its journal", "card.nand", "expected journal = true"],
        },
        Case {
            files: &[],
            arguments: &["compare", "--ftl", "page-map", "--log-blocks", "4"],
            expected: &["--log-blocks", "page-map has no log blocks", "add block-map or fast"],
        },
        Case {
            files: &[(
                "s.toml",
                "workload = \"fax\"\nstack = { ftl = \"page-map\", device = { preset = \"k9l8g08u0m\", store = \"address\" } }\n",
            )],
            arguments: &["run", "s.toml"],
            expected: &["stack.device.store", "\"address\" keeps no content", "expected content or described"],
        },
        Case {
            files: &[(
                "s.toml",
                "workload = \"fax\"\nstack.ftl = { kind = \"page-map\", spare = 0.0001 }\nstack.device = \"nandsim-32m-16k\"\n",
            )],
            arguments: &["run", "s.toml"],
            expected: &["stack.ftl", "a spare of", "superblocks are open", "expected"],
        },
        Case {
            files: &[],
            arguments: &["compare", "--ftl", "page-map", "--precondition", "steady"],
            expected: &["precondition", "steady is for workloads on blocks", "expected stack.fs = \"none\""],
        },
        Case {
            files: &[],
            arguments: &["compare", "--fs", "none", "--precondition", "stedy", "--workload", "random"],
            expected: &["--precondition", "did you mean \"steady\""],
        },
        Case {
            files: &[("t.iolog", "fio version 2 iolog\nx add\nx open\nx write 0 4096\nx close\n")],
            arguments: &["compare", "--fs", "none", "--precondition", "steady", "--workload", "trace:t.iolog"],
            expected: &["precondition", "trace ends by itself", "expected overwrite"],
        },
        Case {
            files: &[("s.toml", "workload = \"random\"\nprecondition = { tolerance = 2 }\nstack.fs = \"none\"\n")],
            arguments: &["run", "s.toml"],
            expected: &["precondition", "tolerance is 2", "expected 0.000001 to 0.5"],
        },
        Case {
            files: &[],
            arguments: &["compare", "--device", "ram", "--ftl", "block-map"],
            expected: &["stack.ftl", "expected ftl = \"none\""],
        },
        Case {
            files: &[("big", "0123456789abcdef")],
            arguments: &["compare", "--fs", "none", "--workload", "tree:."],
            expected: &["tree does not run on blocks", "expected"],
        },
        Case {
            files: &[(
                "t.iolog",
                "fio version 2 iolog\nx add\nx open\nx write 0 4096\nx write 99999995904 4096\nx close\n",
            )],
            arguments: &["compare", "--fs", "none", "--workload", "trace:t.iolog"],
            expected: &["t.iolog, line 5", "expected operations within it", "fit=wrap"],
        },
    ]);
}

#[test]
fn results_that_cannot_be_kept_are_told() {
    check(&[
        Case {
            files: &[("s.toml", "workload = \"phone:days=1\"\nstack.fs = \"model\"\n"), ("out", "a file")],
            arguments: &["run", "s.toml", "--out", "out"],
            expected: &["out"],
        },
        Case {
            files: &[("s.toml", "workload = \"phone:days=1\"\nstack.fs = \"model\"\n"), ("runs.jsonl", "my notes\n")],
            arguments: &["run", "s.toml", "--out", "."],
            expected: &["runs.jsonl", "line 1", "name another directory"],
        },
    ]);
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_told_and_what_was_finished_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let spec = "workload = \"phone:days=1\"\nstack.fs = \"model\"\nseeds = 9\n";
    fs::write(directory.path().join("s.toml"), spec).expect("a file");
    // A limit on the size of files (in KiB) stands in for a full disk: a write beyond it takes a part and then fails.
    let script =
        format!("trap '' XFSZ; ulimit -f 8; exec '{}' run s.toml --out out --jobs 1", env!("CARGO_BIN_EXE_nandkit"));
    let output = std::process::Command::new("bash").args(["-c", &script]).current_dir(directory.path()).output();
    let output = output.expect("bash runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("no room is left") && message.contains("runs.jsonl"), "{message}");
    assert_eq!(entries(&directory.path().join("out")), ["runs.jsonl", "runs.origin"]);
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
    let mkfs = |case: &'static [&'static str], expected: &'static [&'static str]| Case {
        files: &[
            ("t.tar", ""),
            ("there", "something"),
            ("noise.bin", "neither chip nor dump"),
            ("table", "/x q 1 0 0\n"),
        ],
        arguments: case,
        expected,
    };
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
        mkfs(&["ls", "noise.bin"], &["noise.bin", "begins with \"neither", "expected a chip", "JFFS2"]),
        mkfs(&["ls", "noise.bin", "--offset", "1M"], &["--offset 1048576", "21 bytes", "inside"]),
        mkfs(&["ls", "noise.bin", "--region", "rootfs"], &["--region", "rootfs"]),
        mkfs(&["ls", "noise.bin", "--erase-size", "x"], &["--erase-size", "x"]),
        mkfs(&["cat", "missing", "a"], &["missing", "cannot read"]),
        mkfs(&["extract", "noise.bin"], &["DIR"]),
        mkfs(&["extract", "noise.bin", "--to-tar", "-", "--json"], &["--json", "standard output"]),
        mkfs(&["check", ".", "--repair", "x"], &["no plain file"]),
    ]);
}
