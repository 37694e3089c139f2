//! `cargo xtask soak`: long runs of power cuts, whose last result is recorded in docs/design/soaks.md.

use anyhow::{Result, bail};

use crate::options::{Options, Unusable};
use crate::process;

/// A soak: the name on the command line, the package and the example that does it.
const SOAKS: [(&str, &str, &str); 1] = [("block-map", "nandkit-ftl", "soak_block_map")];

/// The number of cuts that the project's bar asks for.
const CUTS: u64 = 35_000;

/// Builds and runs the soak, and says how to record what it printed.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[], &["--cuts", "--seed"], 1)?;
    let names = SOAKS.map(|(name, _, _)| name).join(", ");
    let Some(name) = options.words().first() else {
        bail!(Unusable(format!("name a soak: {names}")));
    };
    let Some((_, package, example)) = SOAKS.iter().find(|(soak, _, _)| soak == name) else {
        bail!(Unusable(format!("no soak is called '{name}'; there are: {names}")));
    };
    let cuts = options.number("--cuts", CUTS)?.to_string();
    let seed = options.number("--seed", 1)?.to_string();
    let mut command = process::cargo(&["run", "--release", "--locked", "--package", package, "--example", example]);
    let passed = process::succeeds(command.args(["--", "--cuts", &cuts, "--seed", &seed]))?;
    println!();
    if passed {
        println!("Record it in docs/design/soaks.md: the table above under a heading of this form:");
        println!("## {name}: {} cuts, seed {seed}, {}", cuts, commit());
    } else {
        println!("soak {name}: FAILED. The replay string above repeats the failing cut.");
    }
    Ok(passed)
}

/// Date and short hash of the commit, and whether the tree differs from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
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

    #[test]
    fn an_unknown_soak_is_refused_with_the_known_ones() {
        let error = run(&["yaffs9".to_owned()]).unwrap_err();
        assert!(error.is::<Unusable>());
        assert!(error.to_string().contains("block-map"), "{error}");
        assert!(run(&[]).unwrap_err().is::<Unusable>());
    }
}
