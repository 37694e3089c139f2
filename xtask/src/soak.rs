//! `cargo xtask soak`: long runs of power cuts, whose last result is recorded in
//! docs/design/soaks.md.

use std::process::Command;

use anyhow::{Result, bail};

use crate::options::{Options, Unusable};
use crate::process;

/// A soak's program: an example that counts cuts by cause and fails if a cause got too few.
#[derive(Clone, Copy)]
struct Program {
    /// The name of the soak.
    name: &'static str,
    package: &'static str,
    example: &'static str,
    /// The options that it takes besides `--cuts`, `--seed` and `--replay`.
    words: &'static str,
}

const fn program(name: &'static str, package: &'static str, example: &'static str, words: &'static str) -> Program {
    Program { name, package, example, words }
}

const SOAKS: [Program; 8] = [
    program("block-map", "nandkit-ftl", "soak_block_map", "--layer block-map "),
    program("fast", "nandkit-ftl", "soak_block_map", "--layer fast "),
    program("page-map", "nandkit-ftl", "soak_page_map", ""),
    program("fat", "nandkit-stack", "soak_fat", ""),
    program("jffs2", "nandkit-jffs2", "soak", ""),
    program("f2fs", "nandkit-f2fs", "soak_f2fs", ""),
    program("f2fs-reuse", "nandkit-f2fs", "soak_f2fs", "--reuse all "),
    program("ubifs", "nandkit-ubifs", "soak_ubifs", ""),
];

/// The number of cuts that the project's bar asks for.
const CUTS: u64 = 35_000;

/// The plan of a soak: the words for cargo that build the program, and the words that run it.
#[derive(Debug, PartialEq)]
struct Plan {
    build: Vec<String>,
    run: Vec<String>,
    /// The run as one types it.
    typed: String,
}

/// Builds and runs the soak, and says how to record what it printed.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[], &["--cuts", "--seed", "--replay"], 1)?;
    let names = SOAKS.map(|soak| soak.name).join(", ");
    let Some(name) = options.words().first() else {
        bail!(Unusable(format!("name a soak: {names}")));
    };
    let Some(program) = SOAKS.iter().find(|soak| soak.name == *name) else {
        bail!(Unusable(format!("no soak is called '{name}'; there are: {names}")));
    };
    let plan = plan(program, &options)?;
    if !process::succeeds(&mut command(&plan.build))? {
        bail!("soak {name} does not compile");
    }
    let before = children_cpu_seconds();
    let passed = process::succeeds(&mut command(&plan.run))?;
    let cpu = match (before, children_cpu_seconds()) {
        (Some(before), Some(after)) => format!("{:.1} s of CPU time", after - before),
        _ => "CPU time not known on this system".into(),
    };
    println!("{cpu}");
    println!();
    if !passed {
        println!("soak {name}: FAILED. What is printed above repeats it: cargo xtask soak {name} --replay STRING.");
    } else if options.text("--replay").is_some() {
        println!("soak {name}: the replayed run passes");
    } else {
        println!("Record it in docs/design/soaks.md: the lines above, under a heading and a line of this form:");
        println!("## {name}: {}", commit());
        println!("`{}`", plan.typed);
    }
    Ok(passed)
}

/// Makes the plan of a soak from the command line.
fn plan(program: &Program, options: &Options) -> Result<Plan> {
    let Program { name, package, example, words: more } = program;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let cuts = options.number("--cuts", CUTS)?;
    let seed = options.number("--seed", 1)?;
    let what = format!("--release --locked --package {package} --example {example}");
    let mut run = words(&format!("run --quiet {what} -- {more}--cuts {cuts} --seed {seed}"));
    if let Some(replay) = options.text("--replay") {
        run.extend(["--replay".to_owned(), replay.to_owned()]);
    }
    let typed = format!("cargo xtask soak {name} --cuts {cuts} --seed {seed}");
    Ok(Plan { build: words(&format!("build {what}")), run, typed })
}

fn command(words: &[String]) -> Command {
    process::cargo(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The CPU time of the finished children of this process and of theirs, which Linux counts in
/// hundredths of a second (proc(5): fields 16 and 17 of `stat`, in clock ticks of `USER_HZ`, 100 on
/// every architecture that Rust's standard library knows).
fn children_cpu_seconds() -> Option<f64> {
    children_ticks(&std::fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| ticks as f64 / 100.0)
}

fn children_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, and may hold anything; the third
    // follows the last one.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    field(16)?.checked_add(field(17)?)
}

/// Date and short hash of the commit, and whether the tree differs from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        process::output(command.args(arguments).current_dir(process::root()))
    };
    let Ok(head) = git(&["log", "-1", "--format=%cs, commit %h"]) else {
        return "commit unknown".into();
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_ok_and(|status| !status.trim().is_empty());
    format!("{}{}", head.trim(), if changed { " with changes" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(line: &str) -> Result<Plan> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let options = Options::parse(&arguments, &[], &["--cuts", "--seed", "--replay"], 1)?;
        plan(SOAKS.iter().find(|soak| soak.name == options.words()[0]).unwrap(), &options)
    }

    #[test]
    fn an_unknown_soak_is_refused_with_the_known_ones() {
        let error = run(&["yaffs9".to_owned()]).unwrap_err();
        assert!(error.is::<Unusable>());
        assert!(error.to_string().contains("block-map, fast, page-map, fat, jffs2, f2fs, f2fs-reuse"), "{error}");
        assert!(run(&[]).unwrap_err().is::<Unusable>());
    }

    #[test]
    fn a_layers_soak_hands_its_options_on() {
        let plan = planned("fast --cuts 70 --seed 3 --replay seed:9/1+2").unwrap();
        let line = plan.run.join(" ");
        assert!(line.ends_with("-- --layer fast --cuts 70 --seed 3 --replay seed:9/1+2"), "{line}");
        assert_eq!(planned("block-map").unwrap().typed, "cargo xtask soak block-map --cuts 35000 --seed 1");
        let line = planned("jffs2 --replay seed:9").unwrap().run.join(" ");
        assert!(line.ends_with("--example soak -- --cuts 35000 --seed 1 --replay seed:9"), "{line}");
    }

    #[test]
    fn the_fat_soak_takes_the_same_options() {
        let line = planned("fat").unwrap().run.join(" ");
        assert!(line.ends_with("--package nandkit-stack --example soak_fat -- --cuts 35000 --seed 1"), "{line}");
        let line = planned("fat --replay seed:9").unwrap().run.join(" ");
        assert!(line.ends_with("--cuts 35000 --seed 1 --replay seed:9"), "{line}");
    }

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "17 (a) b) 3) S 1 17 17 0 -1 4194304 1 2 3 4 50 60 700 80 20 0 1 0";
        assert_eq!(children_ticks(stat), Some(780));
        assert_eq!(children_ticks("17 (a"), None);
        assert_eq!(children_ticks("17 (a) S 1"), None);
    }
}
