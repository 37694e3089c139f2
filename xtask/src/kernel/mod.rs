//! `cargo xtask kernel`: real Linux, booted under QEMU, as a judge of images.

mod build;
mod guest;
mod jffs2;
mod manifest;
mod ours;
mod test;
mod wear;

use anyhow::{Result, bail};

use crate::options::{Options, Unusable};
use build::Kernel;
use guest::Guest;

const COMMANDS: &str = "build, boot, test, wear";

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
        "test" => test::run(rest),
        "wear" => wear::run(rest),
        other => bail!(Unusable(format!("kernel: no command is called '{other}'; there are: {COMMANDS}"))),
    }
}

/// Boots once and says what the guest is; the harness itself is held to a script that fails and a kernel that breaks.
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
