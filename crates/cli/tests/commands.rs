//! What the commands print.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{nandkit, succeeds, tells};
use serde_json::Value;

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The words of all commands and of those within them, as the program's own help lists them.
fn commands(directory: &Path) -> Vec<Vec<String>> {
    let (mut found, mut ahead) = (Vec::new(), vec![Vec::<String>::new()]);
    while let Some(words) = ahead.pop() {
        let call: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = succeeds(directory, &call);
        // The program's own list is in groups, each with its heading; that of a command is below
        // one.
        let headings = ["Images:", "Emulated devices:", "Measuring:", "This program:", "Commands:"];
        let listed = help.split("\n\n").filter(|part| headings.iter().any(|heading| part.starts_with(heading)));
        // What a text goes on with stands further to the right.
        for name in listed.flat_map(str::lines).filter_map(|line| line.strip_prefix("  ")) {
            if name.starts_with(' ') {
                continue;
            }
            let name = name.split_whitespace().next().expect("a name").to_string();
            if name != "help" {
                ahead.push(words.iter().cloned().chain([name]).collect());
            }
        }
        found.push(words);
    }
    found.sort();
    found
}

/// The long options in a command's help.
fn options(help: &str) -> Vec<String> {
    // What a text goes on with stands further to the right.
    let lines = help.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --"));
    let lines = lines.map(str::trim_start);
    let words = lines.flat_map(|line| line.split([' ', '=', ',', '[']).take(3)).filter(|word| word.starts_with("--"));
    words.map(str::to_string).collect()
}

#[test]
fn every_command_has_help_with_an_example() {
    let directory = here();
    let commands = commands(directory.path());
    let names: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
    for some in ["compare", "mount", "exec", "serve", "mkfs jffs2", "overlay apply", "man"] {
        assert!(names.iter().any(|name| name == some), "{some}: {names:?}");
    }
    assert!(commands.len() > 30, "{names:?}");
    for words in commands.iter().filter(|words| !words.is_empty()) {
        let call: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = succeeds(directory.path(), &call);
        assert!(help.contains(&format!("Usage: nandkit {}", words.join(" "))), "{help}");
        assert!(help.contains("\nExample:\n") || help.contains("\nExamples:\n"), "no example: {help}");
    }
    assert_eq!(nandkit(directory.path(), &[]).status, Some(2));
}

#[test]
fn every_command_has_a_man_page_with_its_options() {
    let directory = here();
    let path = directory.path();
    succeeds(path, &["man", "--dir", "new/man1"]);
    let commands = commands(path);
    for words in &commands {
        let call: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = [&["nandkit"], &call[..]].concat().join("-");
        let page =
            fs::read_to_string(path.join(format!("new/man1/{name}.1"))).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(page.contains(&format!(".TH {name} 1")) && page.contains(".SH SYNOPSIS"), "{name}: {page}");
        assert_eq!(succeeds(path, &[&["man"], &call[..]].concat()), page, "{name}");
        let page = page.replace("\\-", "-");
        for option in options(&succeeds(path, &[&call[..], &["--help"]].concat())) {
            assert!(page.contains(&option), "{name}: {option}: {page}");
        }
        let examples = page.contains("Example:") || page.contains("Examples:");
        assert!(words.is_empty() || examples, "{name}: {page}");
    }
    assert_eq!(fs::read_dir(path.join("new/man1")).expect("a listing").count(), commands.len());
    for (arguments, expected) in [
        (&["man", "moun"][..], "has no command \"moun\"; expected one of compare, "),
        (&["man", "overlay", "x"], "nandkit overlay has no command \"x\"; expected one of apply, "),
        (&["man", "ls", "x"], "expected no further word"),
        (&["man", "--dir", "new/man1/nandkit.1"], "cannot write the man pages there"),
        (&["man", "ls", "--dir", "x"], "cannot be used with"),
    ] {
        tells(path, arguments, 2, expected);
    }
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
fn shells_complete_every_command() {
    let directory = here();
    let commands = commands(directory.path());
    for (shell, mark) in
        [("bash", "complete -F _nandkit"), ("zsh", "#compdef nandkit"), ("fish", "complete -c nandkit")]
    {
        let script = succeeds(directory.path(), &["completions", shell]);
        assert!(script.contains(mark), "{shell}");
        for word in commands.iter().flatten().map(String::as_str).chain(["--rw", "--even-if-damaged"]) {
            // fish has long options without their dashes.
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "{shell}: {word}");
        }
        fs::write(directory.path().join(shell), script).expect("written");
        // The shell itself, where it is there; bash always is.
        let read = Command::new(shell).args(["-n", shell]).current_dir(directory.path()).output();
        match read {
            Ok(output) => assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => assert!(shell != "bash", "{error}"),
        }
    }
    let asked =
        ". ./bash; COMP_WORDS=(nandkit mou); COMP_CWORD=1; _nandkit nandkit mou nandkit; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", asked]).current_dir(directory.path()).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mount\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(nandkit(directory.path(), &["completions", "tcsh"]).status, Some(2));
}

/// What a command prints on a terminal.
fn on_terminal(directory: &Path, arguments: &str, variables: &[(&str, &str)]) -> String {
    let call = format!("{} {arguments}", env!("CARGO_BIN_EXE_nandkit"));
    let mut command = Command::new("script");
    command.args(["-qec", &call, "/dev/null"]).current_dir(directory).stdin(Stdio::null());
    // What this test's own surroundings say (a CI machine's do) is not what is asked.
    for variable in ["NO_COLOR", "CI", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    let output = command.env("TERM", "xterm").envs(variables.iter().copied()).output().expect("script runs");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_terminal_gets_emphasis_unless_it_is_not_wanted() {
    let directory = here();
    let compare = "compare --fs model --workload phone:days=2 --workload fax:faxes=2 --seeds 1";
    for arguments in ["--help", "mount --help", compare] {
        let shown = |variables: &[(&str, &str)]| on_terminal(directory.path(), arguments, variables);
        // Of what is shown while it runs nothing is left; emphasis is a number and an m.
        let is_emphasized = |text: &str| {
            text.split("\u{1b}[")
                .skip(1)
                .any(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('m'))
        };
        assert!(is_emphasized(&shown(&[])), "{arguments}: {:?}", shown(&[]));
        assert!(is_emphasized(&shown(&[("NO_COLOR", "")])), "{arguments}: an empty value says nothing");
        let unwanted: [&[(&str, &str)]; 3] =
            [&[("NO_COLOR", "1")], &[("TERM", "dumb")], &[("TERM", "dumb"), ("CI", "true")]];
        for variables in unwanted {
            assert!(!is_emphasized(&shown(variables)), "{arguments}, {variables:?}: {:?}", shown(variables));
        }
    }
    // Elsewhere there is none in any case.
    assert!(!succeeds(directory.path(), &["--help"]).contains('\u{1b}'));
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
    // Records of the second call are those of the first, host figures included: nothing was run
    // again.
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
    let run = |program: &Path| {
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
    // The same program with one more byte in its file: what a linker puts at the end of a program
    // does not matter to it. Another process writes it: a child that some other test starts
    // meanwhile would hold this one's descriptor for a moment, and a file that is open for writing
    // cannot be run.
    let other = path.join("nandkit");
    let mut maker = Command::new("sh");
    maker.args(["-c", "cp \"$0\" nandkit && printf x >> nandkit"]).arg(&program).current_dir(path);
    assert!(maker.status().expect("sh runs").success());
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
