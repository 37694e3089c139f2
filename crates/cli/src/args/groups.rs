//! The commands of `nandkit help`, in four groups.

use std::fmt::Write;

use clap::builder::Styles;
use clap::{Command, CommandFactory};

use super::Arguments;

/// Each group's heading and its commands, in the order in which the help lists them.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Images",
        &[
            "info", "ls", "cat", "extract", "get", "check", "rescue", "mkfs", "put", "rm", "mv", "mkdir", "ln",
            "chmod", "chown", "getfattr", "setfattr", "resize", "ubi", "export", "mount", "umount", "overlay", "qtar",
        ],
    ),
    ("Emulated devices", &["exec", "serve", "devices"]),
    ("Measuring", &["compare", "run", "workloads", "policies", "calibrate", "reproduce", "report"]),
    ("This program", &["doctor", "completions", "man", "help"]),
];

/// Width of the column of command names in the list, gap included.
const NAME_COLUMNS: usize = 13;

/// The command line, with a help that lists the commands by group. clap has headings only for
/// options, so that the list is part of the template.
pub fn command() -> Command {
    let command = Arguments::command();
    let styles = Styles::default();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut list = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(list, "{header}{heading}:{header:#}");
        for name in names {
            let about = about(&command, name);
            let gap = " ".repeat(NAME_COLUMNS.saturating_sub(name.len()));
            let _ = writeln!(list, "  {literal}{name}{literal:#}{gap}{about}");
        }
        list.push('\n');
    }
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    ))
}

/// What a command does, in one line. `help` is clap's own and not yet in the list of commands.
fn about(command: &Command, name: &str) -> String {
    match command.find_subcommand(name).and_then(Command::get_about) {
        Some(about) => about.to_string(),
        None => "Print this list, or the help of a command with examples".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let known = Arguments::command();
        let mut known: Vec<&str> = known.get_subcommands().map(Command::get_name).chain(["help"]).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn the_list_fits_a_terminal_of_80_columns() {
        let help = command().term_width(80).render_help().to_string();
        for (heading, _) in GROUPS {
            assert!(help.lines().any(|line| line == format!("{heading}:")), "{heading}: {help}");
        }
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
