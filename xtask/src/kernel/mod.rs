//! `cargo xtask kernel`: real Linux, booted under QEMU, as a judge of images.

mod build;
mod compare_wear;
mod cuts;
mod ecc;
mod f2fs;
mod f2fs_made;
mod f2fs_overwrite;
mod f2fs_recover;
mod f2fs_tools;
mod f2fs_turns;
mod guest;
mod jffs2;
mod manifest;
mod ours;
mod served;
pub mod test;
mod third_leg;
mod trial;
mod ubi;
mod ubifs;
mod ubifs_recover;
mod ubifs_turns;
mod wear;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::options::{Options, Unusable};
use build::Kernel;
use guest::Guest;
pub use ours::Nandkit;

const COMMANDS: &str = "build, boot, run, test, cuts, ecc, serve, f2fs, f2fs-made, f2fs-recover, f2fs-overwrite, f2fs-turns, ubi, ubifs, ubifs-recover, ubifs-turns, wear, compare-wear";

/// Unpacks the kernel and compiles what a guest boots with, where that is not there yet.
pub fn prepare() -> Result<()> {
    build::build().map(drop)
}

/// The task.
pub fn run(arguments: &[String]) -> Result<bool> {
    let Some((command, rest)) = arguments.split_first() else {
        bail!(Unusable(format!("kernel: name a command: {COMMANDS}")));
    };
    match command.as_str() {
        "build" => {
            Options::parse(rest, &[], &[], 0)?;
            let kernel = build::build()?;
            println!("kernel {}: {}", kernel.version, kernel.directory.display());
            Ok(true)
        }
        "boot" => {
            Options::parse(rest, &[], &[], 0)?;
            boot(&build::build()?)
        }
        "run" => script(rest),
        "test" => test::run(rest),
        "cuts" => cuts::run(rest),
        "ecc" => ecc::run(rest),
        "serve" => served::run(rest),
        "f2fs" => f2fs::run(rest),
        "f2fs-made" => f2fs_made::run(rest),
        "f2fs-recover" => f2fs_recover::run(rest),
        "f2fs-turns" => f2fs_turns::run(rest),
        "f2fs-overwrite" => f2fs_overwrite::run(rest),
        "ubi" => ubi::run(rest),
        "ubifs" => ubifs::run(rest),
        "ubifs-recover" => ubifs_recover::run(rest),
        "ubifs-turns" => ubifs_turns::run(rest),
        "wear" => wear::run(rest),
        "compare-wear" => compare_wear::run(rest),
        other => bail!(Unusable(format!("kernel: no command is called '{other}'; there are: {COMMANDS}"))),
    }
}

/// Runs a script of the user's in the guest and prints what it printed.
fn script(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &["--log"], &["--modules", "--disks", "--share", "--timeout"], 1)?;
    let Some(path) = options.words().first() else {
        bail!(Unusable("kernel run: name a file with a script for the guest's shell".into()));
    };
    let script = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let kernel = build::build()?;
    let mut guest = Guest::new(&kernel, "run").timeout(Duration::from_secs(options.number("--timeout", 120)?));
    let listed = |name: &str| options.text(name).unwrap_or_default().split(',').filter(|part| !part.is_empty());
    for module in listed("--modules") {
        guest = guest.module(module);
    }
    for disk in listed("--disks") {
        guest = guest.disk(disk);
    }
    if let Some(share) = options.text("--share") {
        guest = guest.share(&std::fs::canonicalize(share).with_context(|| format!("--share {share}"))?);
    }
    let outcome = guest.run(&script)?;
    print!("{}", outcome.output);
    if options.flag("--log") {
        print!("{}", outcome.log);
    }
    println!("status {}, {:.1} s", outcome.status, outcome.took.as_secs_f64());
    Ok(outcome.status == 0)
}

/// Boots once and says what the guest is; the harness itself is held to a script that fails and a
/// kernel that breaks.
fn boot(kernel: &Kernel) -> Result<bool> {
    let outcome =
        Guest::new(kernel, "boot").module("jffs2").run("uname -r\ngrep -w jffs2 /proc/filesystems\n")?.success()?;
    print!("{}", outcome.output);
    println!("boot, script and end took {:.1} s", outcome.took.as_secs_f64());
    if !outcome.output.starts_with(&kernel.version) {
        bail!("the guest runs another kernel than {}", kernel.version);
    }
    let failed = Guest::new(kernel, "boot-status").run("exit 7\n")?;
    if failed.status != 7 {
        bail!("a script that exits with 7 is reported as {}", failed.status);
    }
    let broken = Guest::new(kernel, "boot-panic").run("echo c >/proc/sysrq-trigger\nsleep 60\n");
    match broken {
        Ok(_) => bail!("a kernel panic is not noticed"),
        Err(error) => println!("a planted panic is noticed: {}", error.root_cause()),
    }
    Ok(true)
}
