//! `nandkit resize`

use nandkit_stack::image;
use nandkit_units::format_bytes;
use serde_json::json;

use super::{input, tell_notes};
use crate::args::ResizeArguments;
use crate::failure::Failure;
use crate::output;

/// Changes the size of the volume in an image.
pub fn resize(arguments: &ResizeArguments) -> Result<(), Failure> {
    let options = arguments.image.options();
    let resized = image::resize(&arguments.image.image, arguments.bytes, &options).map_err(input)?;
    tell_notes(&arguments.image.image, &resized.notes);
    if arguments.json {
        return output::json(&json!({
            "format": resized.format,
            "bytes_before": resized.bytes_before,
            "bytes": resized.bytes,
            "bytes_moved": resized.bytes_moved,
            "bytes_changed": resized.bytes_changed,
            "file_bytes": resized.file_bytes,
        }));
    }
    let [before, now, moved, changed] =
        [resized.bytes_before, resized.bytes, resized.bytes_moved, resized.bytes_changed].map(format_bytes);
    output::text(&format!("{before} before, {now} now; {moved} moved, {changed} of the file changed\n"))
}
