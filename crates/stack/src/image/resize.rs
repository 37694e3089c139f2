//! Volumes in images whose size is changed where they are: old or new, whatever happens meanwhile.
//!
//! To grow, the file is made longer first, which changes nothing of the volume; to shrink, it is
//! made shorter last. Between the two all changes go to the file at once, through its journal.

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

/// Bytes behind a volume that may be anything: less than the unit in which volumes are counted.
const TAIL_MAX: u64 = 2 << 20;
/// Bytes that are compared at once.
const PIECE: u64 = 4096;

/// What a change of size came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resized {
    /// The format: `f2fs`.
    pub format: &'static str,
    /// Bytes of the volume as it was.
    pub bytes_before: u64,
    /// Bytes of the volume as it is now.
    pub bytes: u64,
    /// Bytes of files and of what describes them that were moved.
    pub bytes_moved: u64,
    /// Bytes of the file that were changed.
    pub bytes_changed: u64,
    /// Bytes of the file now.
    pub file_bytes: u64,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
}

/// An image that is open for a change of size, and what is to be changed.
struct Opened {
    image: Image,
    found: DetectedFormat,
    plan: ResizePlan,
    notes: Vec<String>,
}

/// Changes the size of the volume in an image, and where the volume is the whole image that of the
/// file. Errors: those of opening an image for changes; a format without this; a size that does not
/// do, with the least that does; a part of an image that has no room. Nothing is changed then.
pub fn resize(path: &Path, bytes: u64, options: &OpenOptions) -> Result<Resized, StackError> {
    refuse_chips(path, options)?;
    if options.overlay.is_some() {
        return Err(wrong(path, "`overlay`: a size is changed in the image itself; expected no overlay"));
    }
    let mut opened = planned(path, bytes, options)?;
    let length = opened.image.bytes().len() as u64;
    let is_whole = opened.found.layout.offset == 0 && opened.found.layout.size.is_none();
    expect_room(path, &opened, length, bytes, is_whole)?;
    let grows = is_whole && bytes > length;
    if grows {
        // The journal holds a file of the length that it had.
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
        let detail = format!("this is {}, whose size stays; expected an image of {expected}", found.format.name());
        return Err(wrong(path, detail));
    };
    let plan = resizing.plan(&image, &found, bytes).map_err(|error| error.of(path))?;
    Ok(Opened { image, found, plan, notes })
}

/// Refuses a part that is too short, and an image in which something else stands behind the volume.
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
            "behind the volume, which ends at byte {}, stands something else; expected `size` of the part that is the volume's",
            layout.offset.saturating_add(plan.bytes_before)
        );
        return Err(wrong(path, detail));
    }
    Ok(())
}

/// Brings all changes to the file, all or none. How many bytes there were.
fn apply(path: &Path, image: Image, found: &DetectedFormat, plan: &ResizePlan) -> Result<u64, StackError> {
    let failed = |error: nandkit_block::BlockError| wrong(path, error.detail);
    let tail = tail(&image, found, plan);
    let dump = DumpFlash::new(image, found.layout.clone()).map_err(|error| wrong(path, error))?;
    let mut sectors = DumpSectors::new(dump);
    // No part of the changes reaches the file without the others.
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

/// Pieces behind the volume as it was that are to be zeroes, since the plan takes them for such.
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

/// Makes the file so long, by a hole where it was shorter.
fn set_length(path: &Path, bytes: u64) -> Result<(), StackError> {
    let file = FileOptions::new().write(true).open(path);
    let set = file.and_then(|file| file.set_len(bytes).and_then(|()| file.sync_all()));
    set.map_err(|error| wrong(path, format!("the file's length cannot be changed: {error}")))
}
