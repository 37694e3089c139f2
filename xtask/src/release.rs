//! `cargo xtask release`: the program as it is shipped, and its symbols in a file of their own.

use std::process::Command;

use anyhow::{Result, bail};

use crate::options::Options;
use crate::process;

/// Builds the profile `symbols` and parts the program from its symbols, which debuggers and
/// profilers find by the name that the program keeps. Prints both with their sizes.
pub fn run(arguments: &[String]) -> Result<bool> {
    Options::parse(arguments, &[], &[], 0)?;
    let Some(objcopy) = process::find("objcopy") else {
        bail!("objcopy is missing. Install it: Debian package binutils");
    };
    if !process::succeeds(&mut process::cargo(&["build", "--locked", "--profile", "symbols"]))? {
        return Ok(false);
    }
    let directory = process::target_directory()?.join("symbols");
    let part = |arguments: &[&str]| process::succeeds(Command::new(&objcopy).args(arguments).current_dir(&directory));
    // The link holds a checksum of the symbols, so they are there first.
    let passed = part(&["--only-keep-debug", "nandkit", "nandkit.debug"])?
        && part(&["--strip-all", "--add-gnu-debuglink=nandkit.debug", "nandkit", "nandkit-stripped"])?;
    if passed {
        std::fs::rename(directory.join("nandkit-stripped"), directory.join("nandkit"))?;
        for name in ["nandkit", "nandkit.debug"] {
            let path = directory.join(name);
            println!("{}  {:.1} MB", path.display(), std::fs::metadata(&path)?.len() as f64 / 1e6);
        }
    }
    Ok(passed)
}
