//! The project's own tasks; `cargo xtask help` lists them.

mod bench;
mod docs;
mod door_speed;
mod fuzz;
mod judges;
mod kernel;
mod options;
mod process;
mod programs;
mod release;
mod soak;
mod test;
mod tidy;
mod toolchain;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
The project's own tasks.

  cargo xtask test [--quick] [--only STEP]               everything that must hold before a commit; --quick: tidy, format, lints, unit tests; --only: one step that compiles
  cargo xtask docs [--nandkit FILE]                      runs the commands that README.md, docs/guide and the help show
  cargo xtask tidy                                       the rules that the compiler does not know
  cargo xtask soak NAME [--cuts N] [--seed S]            power cuts under block-map, fast, page-map (translation layers), fat, jffs2, f2fs or f2fs-reuse; --replay STRING repeats a failure
  cargo xtask bench [--filter NAME]                      the criterion benches, and their table for docs/guide/speed.md
  cargo xtask fuzz [TARGET] [--seconds N]                the fuzz targets, through cargo-fuzz
  cargo xtask kernel COMMAND                             real Linux under QEMU as a judge: build, boot, run, test, cuts, serve, f2fs, f2fs-made, f2fs-recover, ubi, ubifs, ubifs-recover, ubifs-turns, wear, compare-wear
  cargo xtask programs [NAME ...] [--stack NAME]         fsx, pjdfstest, dbench, postmark, stress-ng on mounted stacks
  cargo xtask release                                    the program as it is shipped, and its symbols in a file of their own
  cargo xtask door-speed nbd|idle                        NBD beside nbdkit under fio; what an idle mount takes

Exit status: 0 done, 1 a check failed, 2 a command line that cannot be understood.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if error.is::<options::Unusable>() => {
            eprintln!("xtask: {error}\n\n{HELP}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// Whether all that was asked for succeeded.
fn run(arguments: &[String]) -> Result<bool> {
    let Some((task, rest)) = arguments.split_first() else {
        bail!(options::Unusable("name a task".into()));
    };
    match task.as_str() {
        "test" => test::run(rest),
        "docs" => docs::run(rest),
        "tidy" => tidy::run(rest),
        "soak" => soak::run(rest),
        "bench" => bench::run(rest),
        "fuzz" => fuzz::run(rest),
        "kernel" => kernel::run(rest),
        "door-speed" => door_speed::run(rest),
        "programs" => programs::run(rest),
        "release" => release::run(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => bail!(options::Unusable(format!("no task is called '{other}'"))),
    }
}
