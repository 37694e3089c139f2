//! Resizing of volumes in place. After a crash the volume has its old or its new size.
//!
//! To grow, the file is extended first, which does not change the volume; to shrink, it is
//! truncated last. All other changes reach the file at once, through its journal.

use std::fs::OpenOptions as FileOptions;
use std::path::Path;
use std::sync::atomic::Ordering;

use nandkit_block::BlockDevice;
use nandkit_flash_image::{DumpFlash, DumpOptions, Image};
use nandkit_units::{Context, Lba, Payload, is_zeroed};

use super::change::{Changeable, changeable, refuse_chips};
use crate::StackError;
use crate::format::detected::DetectedFormat;
use crate::format::resize::ResizePlan;
use crate::format::sectors::DumpSectors;
use crate::format::{ChangeOptions, OpenOptions, named, titles, wrong};

/// Bytes after a volume with unimportant content: less than the unit of volume sizes.
const TAIL_MAX: u64 = 2 << 20;
/// Bytes compared at once.
const PIECE: u64 = 4096;

/// The result of a resize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resized {
    /// The format: `f2fs`.
    pub format: &'static str,
    /// Old size of the volume in bytes.
    pub bytes_before: u64,
    /// New size of the volume in bytes.
    pub bytes: u64,
    /// Bytes of data and metadata that moved.
    pub bytes_moved: u64,
    /// Bytes of the file that were changed.
    pub bytes_changed: u64,
    /// New size of the file in bytes.
    pub file_bytes: u64,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

/// An image open for resizing, with the planned changes.
struct Opened {
    image: Image,
    found: DetectedFormat,
    plan: ResizePlan,
    notes: Vec<String>,
}

/// Resizes the volume in an image and, if the volume fills the whole image, the file. Errors, after
/// which nothing is changed: those of opening an image for changes; the format does not support it;
/// the size is too small (the error names the smallest possible one); the part of the image is too
/// small.
pub fn resize(path: &Path, bytes: u64, options: &OpenOptions) -> Result<Resized, StackError> {
    refuse_chips(path, options)?;
    if options.overlay.is_some() {
        return Err(wrong(path, "`overlay`: a resize changes the image itself; expected no overlay"));
    }
    let mut opened = planned(path, bytes, options)?;
    let length = opened.image.bytes().len() as u64;
    let is_whole = opened.found.layout.offset == 0 && opened.found.layout.size.is_none();
    expect_room(path, &opened, length, bytes, is_whole)?;
    let grows = is_whole && bytes > length;
    if grows {
        // The journal has the file open with its old length.
        drop(opened.image);
        set_length(path, bytes)?;
        opened = match planned(path, bytes, options) {
            Ok(opened) => opened,
            Err(error) => {
                set_length(path, length)?;
                return Err(error);
            }
        };
    }
    let Opened { image, found, plan, notes } = opened;
    let bytes_changed = apply(path, image, &found, &plan)?;
    if is_whole && bytes < length {
        set_length(path, bytes)?;
    }
    Ok(Resized {
        format: found.format.name(),
        bytes_before: plan.bytes_before,
        bytes: plan.bytes,
        bytes_moved: plan.bytes_moved,
        bytes_changed,
        file_bytes: if is_whole { bytes } else { length },
        notes,
    })
}

/// Opens and locks an image, and plans the change.
fn planned(path: &Path, bytes: u64, options: &OpenOptions) -> Result<Opened, StackError> {
    let how = DumpOptions { resident_max: options.resident_max, ..DumpOptions::read_write() };
    let image = Image::open(path, &how).map_err(|error| wrong(path, error))?;
    image.check_journal().map_err(|error| wrong(path, error))?;
    let Changeable { found, notes, .. } = changeable(path, &image, options, &ChangeOptions::default())?;
    let Some(resizing) = named(found.format.name()).and_then(|format| format.resize()) else {
        let expected = titles(|format| format.resize().is_some());
        let detail =
            format!("this is {}, which nandkit cannot resize; expected an image of {expected}", found.format.name());
        return Err(wrong(path, detail));
    };
    let plan = resizing.plan(&image, &found, bytes).map_err(|error| error.of(path))?;
    Ok(Opened { image, found, plan, notes })
}

/// Refuses a part that is too small, and an image with other data after the volume.
fn expect_room(path: &Path, opened: &Opened, length: u64, bytes: u64, is_whole: bool) -> Result<(), StackError> {
    let Opened { image, found, plan, .. } = opened;
    let layout = &found.layout;
    let part = layout.size.unwrap_or(u64::MAX).min(length.saturating_sub(layout.offset));
    if !is_whole && plan.bytes > part {
        let detail = format!("the part of the image that holds the volume has {part} bytes; expected no more");
        return Err(wrong(path, detail));
    }
    let start = layout.offset.saturating_add(plan.bytes_before).saturating_add(TAIL_MAX);
    let end = if is_whole { length } else { layout.offset.saturating_add(plan.bytes).min(length) };
    let range = usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
    if (bytes != length || !is_whole) && image.bytes().get(range).is_some_and(|rest| !is_zeroed(rest)) {
        let detail = format!(
            "other data follows the volume, which ends at byte {}; expected `size` of the volume's part",
            layout.offset.saturating_add(plan.bytes_before)
        );
        return Err(wrong(path, detail));
    }
    Ok(())
}

/// Writes the changes to the file, all or none; returns the number of changed bytes.
fn apply(path: &Path, image: Image, found: &DetectedFormat, plan: &ResizePlan) -> Result<u64, StackError> {
    let failed = |error: nandkit_block::BlockError| wrong(path, error.detail);
    let tail = tail(&image, found, plan);
    let dump = DumpFlash::new(image, found.layout.clone()).map_err(|error| wrong(path, error))?;
    let mut sectors = DumpSectors::new(dump);
    // Hold back flushes, so that all changes reach the file together.
    let held = sectors.hold();
    let (context, size) = (Context::default(), u64::from(sectors.geometry().sector_size));
    let zeroes = vec![0; PIECE as usize];
    for at in &tail {
        sectors.write(&context, Lba(at / size), Payload::Bytes(&zeroes)).map_err(failed)?;
    }
    for (at, bytes) in &plan.patches {
        sectors.write(&context, Lba(at / size), Payload::Bytes(bytes)).map_err(failed)?;
    }
    held.store(false, Ordering::Release);
    sectors.flush(&context).map_err(failed)?;
    Ok(plan.patches.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>() + tail.len() as u64 * PIECE)
}

/// Offsets of pieces after the old end of the volume that must be zeroed, since the plan assumes
/// zeroes there.
fn tail(image: &Image, found: &DetectedFormat, plan: &ResizePlan) -> Vec<u64> {
    let end = plan.bytes.min(plan.bytes_before.saturating_add(TAIL_MAX));
    let pieces = (plan.bytes_before..end).step_by(PIECE as usize);
    let holds = |at: &u64| {
        let start = usize::try_from(found.layout.offset.saturating_add(*at)).unwrap_or(usize::MAX);
        let piece = image.bytes().get(start..).and_then(|rest| rest.get(..PIECE as usize));
        piece.is_some_and(|piece| !is_zeroed(piece))
    };
    pieces.filter(holds).collect()
}

/// Sets the length of the file; it is extended with a hole.
fn set_length(path: &Path, bytes: u64) -> Result<(), StackError> {
    let file = FileOptions::new().write(true).open(path);
    let set = file.and_then(|file| file.set_len(bytes).and_then(|()| file.sync_all()));
    set.map_err(|error| wrong(path, format!("the file's length cannot be changed: {error}")))
}
