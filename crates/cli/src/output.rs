//! Standard output and error: terminal capabilities, closed pipes, and escaping.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write};

use clap::ColorChoice;
use nandkit_report::Style;

use crate::failure::Failure;

/// Writes to standard output. If the reader closed the pipe (`| head`), the command ends quietly.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Input(format!("cannot write to standard output: {error}")),
    })
}

/// Writes a text to standard output.
pub fn text(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes())
}

/// Writes a JSON value and a line feed to standard output.
pub fn json(value: &serde_json::Value) -> Result<(), Failure> {
    text(&format!("{value:#}\n"))
}

/// Writes a message to standard error. Errors are ignored: if standard error is closed (`2>&1 |
/// head`), nothing can be reported.
///
/// Messages quote names and lines of files, so that terminal control characters and text direction
/// marks are escaped. Line feeds and tabs are kept, since messages of nandkit and of the TOML
/// parser have them; a name with a line feed makes two lines.
pub fn message(text: &str) {
    let _ = writeln!(io::stderr().lock(), "nandkit: {}", harmless(text));
}

fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(character.escape_unicode())
            }
            _ if character.is_control() => shown.extend(character.escape_debug()),
            _ => shown.push(character),
        }
    }
    shown
}

/// The style for standard output: Unicode bars on a UTF-8 terminal, and emphasis unless it is
/// disabled. Files and pipes get plain ASCII.
pub fn style() -> Style {
    if !io::stdout().is_terminal() || !is_emphasis_wanted() {
        return Style::PLAIN;
    }
    let locale = variable("LC_ALL").or_else(|| variable("LC_CTYPE")).or_else(|| variable("LANG")).unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    Style { unicode: locale.contains("utf-8") || locale.contains("utf8"), colour: true, markdown: false }
}

/// Whether clap may emphasize help texts and errors. Clap alone would also do so on a dumb terminal
/// if `CI` is set.
pub fn emphasis_of_help() -> ColorChoice {
    if is_emphasis_wanted() { ColorChoice::Auto } else { ColorChoice::Never }
}

/// Whether emphasis is allowed: not with `NO_COLOR` (no-color.org) or on a dumb terminal.
fn is_emphasis_wanted() -> bool {
    variable("NO_COLOR").is_none() && variable("TERM").is_none_or(|term| term != "dumb")
}

/// An environment variable; `None` if it is empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
