//! `cargo xtask programs`: other people's programs on every stack, through the FUSE door. What each
//! found last is in docs/design/soaks.md.

mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::judges;
use crate::kernel::Nandkit;
use crate::options::{Options, Unusable};
use crate::process;
use table::{PROGRAMS, Program, STACKS, Stack, Verdict};

/// Runs them; false where one found something that is not known and explained.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options =
        Options::parse(arguments, &[], &["--stack", "--operations", "--seconds", "--nandkit"], PROGRAMS.len())?;
    let stacks = chosen(&STACKS, |stack| stack.name, options.text("--stack").into_iter(), "--stack")?;
    let programs = chosen(&PROGRAMS, |program| program.name, options.words().iter().map(String::as_str), "programs")?;
    let needed: Vec<_> = programs.iter().flat_map(|program| program.judges).copied().collect();
    judges::provide_all(&needed)?;
    let crates = provide_crates(&programs)?;
    let nandkit = Nandkit::find(&options)?;
    let size = table::Size {
        operations: options.number("--operations", 1_000_000)?,
        seconds: options.number("--seconds", 0)?,
    };
    let mut all_well = true;
    for program in &programs {
        for stack in &stacks {
            let start = Instant::now();
            let verdict = one(program, stack, &nandkit, &crates, size)?;
            let (mark, told) = match verdict {
                Verdict::Fine(told) => ("passed", told),
                Verdict::Known(told) => ("passed, with what is known", told),
                Verdict::Wrong(told) => {
                    all_well = false;
                    ("FAILED", told)
                }
            };
            println!("{} on {}: {mark}, {:.0} s: {told}", program.name, stack.name, start.elapsed().as_secs_f64());
        }
    }
    Ok(all_well)
}

/// The rows with these names, or all.
fn chosen<'a, T>(
    rows: &'a [T],
    name: impl Fn(&T) -> &'static str,
    wanted: impl Iterator<Item = &'a str>,
    what: &str,
) -> Result<Vec<&'a T>> {
    let mut found = Vec::new();
    for wanted in wanted {
        let Some(row) = rows.iter().find(|row| name(row) == wanted) else {
            let known: Vec<_> = rows.iter().map(name).collect();
            bail!(Unusable(format!("{what}: nothing is called '{wanted}'; there are: {}", known.join(", "))));
        };
        found.push(row);
    }
    Ok(if found.is_empty() { rows.iter().collect() } else { found })
}

/// Installs the programs that are crates, where they are not yet; the directory that they are in.
fn provide_crates(programs: &[&Program]) -> Result<PathBuf> {
    let root = process::target_directory()?.join("judges");
    for (name, version) in programs.iter().filter_map(|program| program.from_crate) {
        if root.join("bin").join(name).is_file() {
            continue;
        }
        let mut install = process::cargo(&["install", "--quiet", "--locked", name, "--version", version, "--root"]);
        // Built as its authors say, not by the workspace's own settings.
        ensure!(process::succeeds(install.arg(&root).current_dir("/"))?, "cargo could not install {name} {version}");
    }
    Ok(root.join("bin"))
}

/// One program on one stack: in parts, each on a fresh stack.
fn one(program: &Program, stack: &Stack, nandkit: &Nandkit, crates: &Path, size: table::Size) -> Result<Verdict> {
    let mut output = String::new();
    let mut all_ended_well = true;
    let path = format!("{}:{}", crates.display(), process::path_with_system_tools()?.to_string_lossy());
    for part in (program.parts)(size) {
        let mut command: Command = nandkit.command();
        command.arg("exec").args(stack.options).args(["--", "sh", "-c", &part]).env("PATH", &path);
        let done = command.output()?;
        all_ended_well &= done.status.success();
        output += &String::from_utf8_lossy(&done.stdout);
        output += &String::from_utf8_lossy(&done.stderr);
    }
    let log = process::target_directory()?.join("judges").join(format!("{}-{}.log", program.name, stack.name));
    std::fs::create_dir_all(log.parent().unwrap_or(Path::new(".")))?;
    std::fs::write(&log, &output)?;
    Ok(match (program.judge)(stack, all_ended_well, &output) {
        Verdict::Wrong(told) => Verdict::Wrong(format!("{told}; all that it said is in {}", log.display())),
        verdict => verdict,
    })
}
