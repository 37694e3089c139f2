//! The end of an overlay.

use std::path::Path;

use crate::StackError;
use crate::format::wrong;

/// Brings the changes of an overlay into its image, all or none, and removes it; returns how many
/// bytes these were. Errors: either is no such thing, is in use, or does not belong to the other.
pub fn apply_overlay(image: &Path, overlay: &Path) -> Result<u64, StackError> {
    nandkit_flash_image::apply_overlay(image, overlay).map_err(|error| wrong(image, error))
}

/// Removes an overlay in which nothing was changed yet, and that nobody else has open; whether it
/// did.
pub fn discard_unused_overlay(image: &Path, overlay: &Path) -> bool {
    let bytes = std::fs::metadata(image).map(|found| found.len());
    bytes.is_ok_and(|bytes| nandkit_flash_image::discard_unused_overlay(overlay, bytes))
}

/// Removes an overlay with its changes. Errors: it is no overlay, or in use.
pub fn discard_overlay(overlay: &Path) -> Result<(), StackError> {
    nandkit_flash_image::discard_overlay(overlay).map_err(|error| wrong(overlay, error))
}
