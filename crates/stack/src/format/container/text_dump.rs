//! Text dumps of nanddump, as they come out of a terminal.

use std::path::Path;

use nandkit_flash_image::{Image, text};

use super::Container;
use crate::StackError;
use crate::format::{OpenOptions, wrong};

/// Text dumps.
pub(super) struct TextDump;

impl Container for TextDump {
    fn holds(&self, outer: &Image) -> bool {
        text::is_text_dump(outer.bytes())
    }

    fn only_read(&self) -> &'static str {
        "this is a text dump of nanddump's, which is only read; expected a dump in bytes"
    }

    fn unwrap(&self, path: &Path, outer: Image, _options: &OpenOptions) -> Result<(Image, Vec<String>), StackError> {
        let dump = text::parse_text_dump(outer.bytes()).map_err(|error| wrong(path, error))?;
        let mut notes = vec![format!("a text dump of nanddump's, {} bytes", dump.bytes.len())];
        if !dump.gaps.is_empty() {
            let gaps = dump.gaps.len();
            notes.push(format!(
                "it leaves out {gaps} stretches, bad blocks perhaps; what follows is taken to follow directly"
            ));
        }
        let image = Image::from_bytes(dump.bytes, None).map_err(|error| wrong(path, error))?;
        Ok((image, notes))
    }
}
