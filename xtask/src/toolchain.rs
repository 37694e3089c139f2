//! The parts of the Rust toolchain that checks need beyond the compiler.

use anyhow::{Result, bail};

use crate::process;

/// A cargo subcommand and the rustup component that holds it.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// Sees to it that the formatter and the linter are there, or says how to get them.
pub fn check() -> Result<bool> {
    let missing = missing_components(|command| process::output(&mut process::cargo(&[command, "--version"])).is_ok());
    if !missing.is_empty() {
        let names = missing.join(" ");
        bail!(
            "the toolchain lacks {names}. With rustup: rustup component add {names}. Debian: the packages rustfmt, rust-clippy"
        );
    }
    Ok(true)
}

fn missing_components(works: impl Fn(&str) -> bool) -> Vec<&'static str> {
    COMPONENTS.iter().filter(|(command, _)| !works(command)).map(|(_, component)| *component).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_component_not_the_command() {
        assert_eq!(missing_components(|command| command == "clippy"), ["rustfmt"]);
        assert!(missing_components(|_| true).is_empty());
    }
}
