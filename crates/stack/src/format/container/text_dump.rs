//! Dumps as text (hex dumps), as captured from a terminal.

use std::path::Path;

use nandkit_flash_image::Image;
use nandkit_flash_image::text::{self, TextDump as Parsed};

use super::{Container, Inside};
use crate::StackError;
use crate::format::{OpenOptions, wrong};

/// Text dumps.
pub(super) struct TextDump;

impl Container for TextDump {
    fn holds(&self, outer: &Image) -> bool {
        text::is_text_dump(outer.bytes())
    }

    fn only_read(&self, _path: &Path) -> String {
        "this is a dump as text, which can only be read; expected a binary dump, which `nandkit export` writes"
            .to_owned()
    }

    fn unwrap(&self, path: &Path, outer: &Image, _options: &OpenOptions) -> Result<Option<Inside>, StackError> {
        let dump = text::parse_text_dump(outer.bytes()).map_err(|error| wrong(path, error))?;
        let notes = notes(&dump);
        let image = Image::from_bytes(dump.bytes, None).map_err(|error| wrong(path, error))?;
        Ok(Some((image, notes)))
    }
}

fn notes(dump: &Parsed) -> Vec<String> {
    let mut notes = vec![format!("a text dump of {}, {} bytes", dump.kind, dump.bytes.len())];
    if !dump.gaps.is_empty() {
        let gaps = dump.gaps.len();
        notes.push(format!(
            "it leaves out {gaps} stretches, possibly bad blocks; the data after them are treated as contiguous"
        ));
    }
    if let Some((from, to)) = dump.filled.first() {
        let (count, bytes) = (dump.filled.len(), dump.filled.iter().map(|(from, to)| to - from).sum::<u64>());
        notes.push(format!(
            "lines are missing in {count} places, {bytes} bytes in all, which read as 0xFF; the first gap is from address {from:#x} to {to:#x}"
        ));
    }
    if let Some((count, first)) = dump.unreadable {
        notes.push(format!("{count} lines begin like data but cannot be parsed; the first is line {first}"));
    }
    if let Some((count, first)) = dump.contradictory {
        notes.push(format!(
            "in {count} lines the ASCII column differs from the digits; the digits were used; the first is line {first}"
        ));
    }
    notes
}
