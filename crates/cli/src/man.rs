//! `nandkit man`: prints or writes man pages.

use std::path::Path;

use clap::Command;

use crate::args::{ManArguments, command};
use crate::failure::Failure;
use crate::output;

/// Prints a page, or writes all pages into a directory.
pub fn man(arguments: &ManArguments) -> Result<(), Failure> {
    match &arguments.dir {
        Some(folder) => write_all(folder),
        None => print(&arguments.command),
    }
}

fn write_all(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::Input(format!("{}: cannot write the man pages there: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command(), folder).map_err(failed)
}

fn print(words: &[String]) -> Result<(), Failure> {
    let mut whole = command().disable_help_subcommand(true);
    // This gives subcommands their full names.
    whole.build();
    let mut command = &whole;
    for word in words {
        command = command.find_subcommand(word).ok_or_else(|| unknown(command, word))?;
    }
    let mut page = Vec::new();
    let made = clap_mangen::Man::new(command.clone()).render(&mut page);
    made.map_err(|error| Failure::Input(format!("cannot make the man page: {error}")))?;
    output::bytes(&page)
}

fn unknown(command: &Command, word: &str) -> Failure {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let expected = match known.is_empty() {
        true => "no further word".to_owned(),
        false => format!("one of {}", known.join(", ")),
    };
    Failure::Input(format!("COMMAND: {name} has no command {word:?}; expected {expected}"))
}
