//! Tests that the program accepts every command line in the documentation.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use crate::args::Arguments;

/// The arguments in a line that shows a command, without redirections and remarks: `nandkit info
/// card.nand > out a remark`.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ").trim_start_matches("# ").trim_start();
    let rest = line.strip_prefix("nandkit ")?;
    // A remark follows after a wide gap or a #.
    let end =
        ["   ", " #", " > ", " >> ", " < ", " | ", " &", "\t", " 2>"].iter().filter_map(|mark| rest.find(mark)).min();
    let rest = rest.get(..end.unwrap_or(rest.len()))?;
    let words = rest.split_whitespace().map(|word| word.trim_matches(['\'', '"']).to_string());
    Some(std::iter::once("nandkit".to_string()).chain(words).collect())
}

fn check(text: &str, place: &str) -> usize {
    let mut seen = 0;
    for arguments in text.lines().filter_map(command) {
        if let Err(error) = Arguments::try_parse_from(&arguments) {
            use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
            assert!(matches!(error.kind(), DisplayHelp | DisplayVersion), "{place}: {arguments:?}: {error}");
        }
        seen += 1;
    }
    seen
}

/// The lines of a page inside fenced blocks.
fn fenced(text: &str) -> String {
    text.split("```").skip(1).step_by(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_pages_show_commands_that_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = guide.chain([root.join("README.md")]).collect();
    let mut seen = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        seen += check(&fenced(&fs::read_to_string(page).unwrap()), &page.display().to_string());
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn the_help_shows_commands_that_parse() {
    for command in Arguments::command().get_subcommands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(check(&help, command.get_name()) >= 1, "{}: {help}", command.get_name());
    }
}

#[test]
fn a_wrong_command_is_noticed() {
    let words = command("nandkit compare --workload fax   a remark").unwrap();
    assert_eq!(words, ["nandkit", "compare", "--workload", "fax"]);
    assert_eq!(command("nandkit compare --workload fax &").unwrap(), words);
    assert_eq!(command("cargo run"), None);
    assert!(std::panic::catch_unwind(|| check("nandkit compare --polisy merge", "here")).is_err());
}
