//! Finishing an overlay: applying its changes to the image, or discarding them.

use std::path::Path;

use nandkit_block::Access;

use crate::error::{ImageError, Result};
use crate::options::DumpOptions;
use crate::overlay::Overlay;
use crate::pieces::{Piece, PieceContent};
use crate::store::{self, OpenedFiles};

/// Applies the changes of an overlay to its image, atomically even across crashes, and removes the
/// overlay; returns the number of changed bytes. If a crash happens between the two steps, the next
/// call finds the changes applied, and only removes the overlay. Errors: `Io`, `InUse` (the image
/// or the overlay is open elsewhere), `Corrupt` (no overlay, or that of another image).
pub fn apply_overlay(image: &Path, overlay: &Path) -> Result<u64> {
    let OpenedFiles { bytes, mut store, .. } = store::open(image, &DumpOptions::read_write())?;
    let bytes = bytes.as_slice();
    let mut changes = Overlay::open(overlay, Access::ReadWrite, &[bytes.len() as u64])?;
    let failed = |what| move |error| ImageError::io(what, image, error);
    let is_applied = changes.is_applied_to(bytes);
    if !is_applied {
        changes.expect_base(bytes)?;
    }
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    changes.for_each(|offset, bytes| runs.push((offset, bytes.to_vec()))).map_err(failed("read the overlay of"))?;
    if !is_applied {
        let pieces: Vec<Piece<'_>> = runs
            .iter()
            .map(|(offset, run)| Piece { file: 0, offset: *offset, content: PieceContent::Bytes(run) })
            .collect();
        changes.begin_applying(checksum(bytes, &runs, changes.length())).map_err(failed("begin to change"))?;
        store.write_journal(&pieces, [bytes, &[]]).map_err(failed("change"))?;
        store.apply(&pieces).map_err(failed("change"))?;
    }
    // Under both locks: no process can start to use a file whose name is about to be removed.
    remove(overlay)?;
    drop(changes);
    Ok(runs.iter().map(|(_, run)| run.len() as u64).sum())
}

/// The CRC-32 of an image with changes applied in ascending order; gaps between added bytes are
/// zeroes, as in the file.
fn checksum(image: &[u8], runs: &[(u64, Vec<u8>)], length: u64) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    let mut at = 0_u64;
    let image_part = |from: u64, to: u64| {
        let end = image.len() as u64;
        let index = |at: u64| usize::try_from(at.min(end)).unwrap_or(image.len());
        (image.get(index(from)..index(to)).unwrap_or_default(), to.saturating_sub(from.max(end)))
    };
    let plain = |sum: &mut crc32fast::Hasher, from: u64, to: u64| {
        let (part, mut zeroes) = image_part(from, to);
        sum.update(part);
        while zeroes > 0 {
            let count = zeroes.min(ZEROES.len() as u64);
            sum.update(ZEROES.get(..count as usize).unwrap_or_default());
            zeroes -= count;
        }
    };
    for (offset, run) in runs {
        plain(&mut sum, at, *offset);
        sum.update(run);
        at = offset.saturating_add(run.len() as u64);
    }
    plain(&mut sum, at, length.max(at));
    sum.finalize()
}

const ZEROES: [u8; 4096] = [0; 4096];

/// Removes an overlay with its changes. Errors: `Io`, `InUse` (it is open elsewhere), `Corrupt` (it
/// is no overlay).
pub fn discard_overlay(overlay: &Path) -> Result<()> {
    let changes = Overlay::open(overlay, Access::ReadWrite, &[])?;
    remove(overlay)?;
    drop(changes);
    Ok(())
}

/// Removes an unused overlay of an image with `image_bytes` bytes, left by a command that made it
/// and then failed. Returns whether it did; overlays with changes, and those open elsewhere, stay.
pub fn discard_unused_overlay(overlay: &Path, image_bytes: u64) -> bool {
    let Ok(changes) = Overlay::open(overlay, Access::ReadWrite, &[image_bytes]) else { return false };
    changes.is_unused() && remove(overlay).is_ok()
}

fn remove(overlay: &Path) -> Result<()> {
    std::fs::remove_file(overlay).map_err(|error| ImageError::io("remove", overlay, error))
}
