//! `cargo xtask soak`: long runs of power cuts, whose last result is recorded in docs/design/soaks.md.

use std::process::Command;

use anyhow::{Result, bail};

use crate::options::{Options, Unusable};
use crate::process;

/// What does a soak.
#[derive(Clone, Copy)]
enum Program {
    /// The example of the translation layers, with the name of the layer. It counts cuts by cause and fails where a cause got too few.
    Layer(&'static str),
    /// The test of FAT on the block-mapped layer: it cuts at each step of each round, and so takes no seed.
    Fat,
    /// The example of JFFS2, which does the same.
    Jffs2,
}

const SOAKS: [(&str, Program); 4] = [
    ("block-map", Program::Layer("block-map")),
    ("fast", Program::Layer("fast")),
    ("fat", Program::Fat),
    ("jffs2", Program::Jffs2),
];

/// The number of cuts that the project's bar asks for.
const CUTS: u64 = 35_000;

/// Rounds of the FAT test that make about as many cuts.
const FAT_ROUNDS: u64 = 40;

const FAT_ROUNDS_VARIABLE: &str = "NANDKIT_FAT_FTL_ROUNDS";

/// What is run: the words for cargo that build it, those that run it, and a variable of the environment.
#[derive(Debug, PartialEq)]
struct Plan {
    build: Vec<String>,
    run: Vec<String>,
    variable: Option<(&'static str, String)>,
    /// The run as one types it.
    typed: String,
}

/// Builds and runs the soak, and says how to record what it printed.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[], &["--cuts", "--seed", "--replay"], 1)?;
    let names = SOAKS.map(|(name, _)| name).join(", ");
    let Some(name) = options.words().first() else {
        bail!(Unusable(format!("name a soak: {names}")));
    };
    let Some((_, program)) = SOAKS.iter().find(|(soak, _)| soak == name) else {
        bail!(Unusable(format!("no soak is called '{name}'; there are: {names}")));
    };
    let plan = plan(name, *program, &options)?;
    if !process::succeeds(&mut command(&plan.build))? {
        bail!("soak {name} does not compile");
    }
    let before = children_cpu_seconds();
    let mut soak = command(&plan.run);
    let passed = process::succeeds(soak.envs(plan.variable.clone()))?;
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

/// What the command line asks of a soak.
fn plan(name: &str, program: Program, options: &Options) -> Result<Plan> {
    let cuts = options.number("--cuts", CUTS)?;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    match program {
        Program::Layer(layer) => {
            let package = "--release --locked --package nandkit-ftl --example soak_block_map";
            example(name, package, &format!("--layer {layer} --cuts {cuts}"), options)
        }
        Program::Fat => {
            if let Some(unknown) = ["--seed", "--replay"].into_iter().find(|option| options.text(option).is_some()) {
                bail!(Unusable(format!(
                    "{unknown}: the fat soak cuts at each step of fixed rounds and repeats itself; only --cuts is understood"
                )));
            }
            let rounds = cuts.saturating_mul(FAT_ROUNDS).div_ceil(CUTS).max(1);
            let test = "test --release --locked --package nandkit-stack --test fat_on_block_map";
            let one = "what_was_synced_is_there_after_each_cut";
            Ok(Plan {
                build: words(&format!("{test} --no-run")),
                run: words(&format!("{test} --quiet {one} -- --exact --nocapture")),
                variable: Some((FAT_ROUNDS_VARIABLE, rounds.to_string())),
                typed: format!("cargo xtask soak {name} --cuts {cuts}"),
            })
        }
        Program::Jffs2 => {
            let package = "--release --locked --package nandkit-jffs2 --example soak";
            example(name, package, &format!("--cuts {cuts}"), options)
        }
    }
}

/// An example that takes `--seed` and `--replay`, and more.
fn example(name: &str, package: &str, more: &str, options: &Options) -> Result<Plan> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let cuts = options.number("--cuts", CUTS)?;
    let seed = options.number("--seed", 1)?;
    let mut run = words(&format!("run --quiet {package} -- {more} --seed {seed}"));
    if let Some(replay) = options.text("--replay") {
        run.extend(["--replay".to_owned(), replay.to_owned()]);
    }
    let typed = format!("cargo xtask soak {name} --cuts {cuts} --seed {seed}");
    Ok(Plan { build: words(&format!("build {package}")), run, variable: None, typed })
}

fn command(words: &[String]) -> Command {
    process::cargo(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The CPU time of the finished children of this process and of theirs, which Linux counts in hundredths of a second (proc(5): fields 16 and 17
/// of `stat`, in clock ticks of `USER_HZ`, 100 on every architecture that Rust's standard library knows).
fn children_cpu_seconds() -> Option<f64> {
    children_ticks(&std::fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| ticks as f64 / 100.0)
}

fn children_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, and may hold anything; the third follows the last one.
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
        let (name, program) = SOAKS.iter().find(|(name, _)| *name == options.words()[0]).unwrap();
        plan(name, *program, &options)
    }

    #[test]
    fn an_unknown_soak_is_refused_with_the_known_ones() {
        let error = run(&["yaffs9".to_owned()]).unwrap_err();
        assert!(error.is::<Unusable>());
        assert!(error.to_string().contains("block-map, fast, fat, jffs2"), "{error}");
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
    fn the_fat_soak_is_counted_in_rounds() {
        assert_eq!(planned("fat").unwrap().variable, Some((FAT_ROUNDS_VARIABLE, "40".to_owned())));
        assert_eq!(planned("fat --cuts 1").unwrap().variable, Some((FAT_ROUNDS_VARIABLE, "1".to_owned())));
        assert!(planned("fat --replay seed:1").unwrap_err().is::<Unusable>());
        assert!(planned("fat --seed 1").unwrap_err().is::<Unusable>());
    }

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "17 (a) b) 3) S 1 17 17 0 -1 4194304 1 2 3 4 50 60 700 80 20 0 1 0";
        assert_eq!(children_ticks(stat), Some(780));
        assert_eq!(children_ticks("17 (a"), None);
        assert_eq!(children_ticks("17 (a) S 1"), None);
    }
}
