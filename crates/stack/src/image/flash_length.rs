//! Images that are shorter than their flash, because the tool that made them ended them with the
//! last block in use: how long the flash is, and how they are lengthened.

use std::path::Path;

use nandkit_flash_image::Image;
use nandkit_units::Clock;

use crate::StackError;
use crate::format::detected::DetectedFormat;
use crate::format::{OpenOptions, wrong};

/// Largest flash to which an image is extended, in bytes: the 4 GiB that JFFS2 can address, with as
/// much OOB.
const SIZE_MAX: u64 = 8 << 30;

/// Who says that the flash is longer than the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlashLength {
    /// Nobody.
    Unknown,
    /// The option `size`.
    Asked,
    /// The content of the image, to which blocks were promised.
    Promised,
}

/// Lets the layout reach to the end of the flash: by the option `size`, or as far as blocks were
/// promised to the image's content. Errors: those of
/// [`Format::blocks_promised`](crate::format::Format::blocks_promised).
pub(super) fn flash_length(
    path: &Path,
    image: &Image,
    found: &mut DetectedFormat,
    options: &OpenOptions,
    clock: Clock,
) -> Result<FlashLength, StackError> {
    let layout = &mut found.layout;
    if let Some(size) = options.size {
        if options.region.is_some() {
            return Ok(FlashLength::Unknown);
        }
        let end = options.offset.unwrap_or(0).saturating_add(size) / u64::from(layout.block_size.max(1));
        let size = end.saturating_mul(layout.stored_block()).saturating_sub(layout.offset);
        layout.size = layout.size.map(|before| before.max(size));
        return Ok(FlashLength::Asked);
    }
    let length = image.bytes().len() as u64;
    if layout.size.is_some_and(|size| layout.offset.saturating_add(size) < length) {
        return Ok(FlashLength::Unknown);
    }
    let blocks = found.format.blocks_promised(image, found, clock).map_err(|error| error.of(path))?;
    let layout = &mut found.layout;
    let promised = u64::from(blocks).saturating_mul(layout.stored_block());
    if promised <= length.saturating_sub(layout.offset) {
        return Ok(FlashLength::Unknown);
    }
    layout.size = Some(promised);
    Ok(FlashLength::Promised)
}

/// Extends a copy of an image with erased bytes to the end of the flash. Returns the bytes of a
/// block in the file if nobody asked for that, so that erased blocks at the end are to be cut off.
pub(super) fn grow(
    path: &Path,
    copy: &mut Image,
    found: &DetectedFormat,
    length: FlashLength,
) -> Result<Option<u64>, StackError> {
    if length == FlashLength::Unknown {
        return Ok(None);
    }
    check_size(path, found)?;
    copy.lengthen(found.layout.offset.saturating_add(found.layout.size.unwrap_or(0)));
    Ok((length == FlashLength::Promised).then(|| found.layout.stored_block()))
}

/// Refuses a flash size over [`SIZE_MAX`].
pub(super) fn check_size(path: &Path, found: &DetectedFormat) -> Result<(), StackError> {
    let size = found.layout.size.unwrap_or(0);
    if size > SIZE_MAX {
        let detail = format!("`size`: {size} bytes including OOB; expected at most {SIZE_MAX}");
        return Err(wrong(path, detail));
    }
    Ok(())
}
