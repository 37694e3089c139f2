//! Motorola headers before phone images.

use std::path::Path;

use nandkit_flash_image::{Image, motorola};

use super::{Container, Inside};
use crate::StackError;
use crate::format::{OpenOptions, wrong};

/// Files with one of these headers.
pub(super) struct Motorola;

impl Container for Motorola {
    fn holds(&self, outer: &Image) -> bool {
        motorola::is_wrapped(outer.bytes())
    }

    fn only_read(&self, _path: &Path) -> String {
        "this is an image with a Motorola header, which can only be read; expected the image without the header"
            .to_owned()
    }

    fn unwrap(&self, path: &Path, outer: &Image, options: &OpenOptions) -> Result<Option<Inside>, StackError> {
        let failed = |error| wrong(path, error);
        let inside = motorola::inside(outer.bytes()).map_err(failed)?;
        let image = outer.part(inside.range.clone(), options.resident_max).map_err(failed)?;
        let mut notes = vec![format!(
            "the image begins at byte {1}, after a Motorola header ({0})",
            inside.kind, inside.range.start
        )];
        if !inside.others.is_empty() {
            notes.push(format!("the file also holds {}", inside.others.join(", ")));
        }
        Ok(Some((image, notes)))
    }
}
