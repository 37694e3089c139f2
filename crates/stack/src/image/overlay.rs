//! Applying and discarding overlays.

use std::path::Path;

use crate::StackError;
use crate::format::wrong;

/// Writes the changes of an overlay into its image, all or none, and removes the overlay; returns
/// the number of changed bytes. Errors: a file is not of its kind or is in use, or the two do not
/// belong together.
pub fn apply_overlay(image: &Path, overlay: &Path) -> Result<u64, StackError> {
    nandkit_flash_image::apply_overlay(image, overlay).map_err(|error| wrong(image, error))
}

/// Removes an overlay without changes that no other process has open; returns whether it did.
pub fn discard_unused_overlay(image: &Path, overlay: &Path) -> bool {
    let bytes = std::fs::metadata(image).map(|found| found.len());
    bytes.is_ok_and(|bytes| nandkit_flash_image::discard_unused_overlay(overlay, bytes))
}

/// Removes an overlay with its changes. Errors: the file is not an overlay, or is in use.
pub fn discard_overlay(overlay: &Path) -> Result<(), StackError> {
    nandkit_flash_image::discard_overlay(overlay).map_err(|error| wrong(overlay, error))
}
