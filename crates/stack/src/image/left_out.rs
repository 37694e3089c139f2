//! Content of a volume that is missing from the file because it is in another part of a split
//! sparse image.

use std::ops::Range;

use nandkit_flash_image::Image;
use nandkit_vfs::check::Finding;
use nandkit_vfs::path::{Next, Step, walk};
use nandkit_vfs::{FileKind, InodeNumber};

use crate::format::{OpenOptions, OpenVolume};

/// The kind of finding about content in a missing part of the image.
const ELSEWHERE: &str = "missing part";

/// The byte ranges of an image, counted from the beginning of the opened part, that may be in other
/// parts of a split sparse image.
///
/// For a single file only gaps at its beginning and end count: gaps between chunks are unused or
/// zero.
pub(super) fn stretches(image: &Image, offset: u64, options: &OpenOptions) -> Vec<Range<u64>> {
    let (length, joined) = (image.bytes().len() as u64, !options.join.is_empty());
    let counts = |gap: &&Range<u64>| joined || gap.start == 0 || gap.end == length;
    let moved = |gap: &Range<u64>| gap.start.saturating_sub(offset)..gap.end.saturating_sub(offset);
    image.left_out().iter().filter(counts).map(moved).filter(|gap| !gap.is_empty()).collect()
}

/// The files of a volume with content in these ranges. Cost: a walk over all files, unless there
/// are no ranges.
pub(super) fn files(volume: &dyn OpenVolume, stretches: &[Range<u64>]) -> Vec<(Option<InodeNumber>, Finding)> {
    let mut found = Vec::new();
    if stretches.is_empty() {
        return found;
    }
    let fs = volume.fs();
    // The volume itself reports unreadable directories as damage.
    let _ = walk(fs, fs.root(), &mut |step| {
        if let Step::Entry { path, attributes } = step
            && attributes.kind == FileKind::Regular
        {
            let extents = volume.extents(attributes.inode).and_then(Result::ok).unwrap_or_default();
            let missing = |range: &Range<u64>| -> u64 {
                let shared = |gap: &Range<u64>| gap.end.min(range.end).saturating_sub(gap.start.max(range.start));
                stretches.iter().map(shared).sum()
            };
            let places = extents.iter().filter_map(|placed| {
                let start = placed.extent.address?;
                Some(start..start.saturating_add(placed.extent.length))
            });
            let bytes: u64 = places.map(|place| missing(&place)).sum();
            if bytes > 0 {
                let detail = format!(
                    "{bytes} bytes of the content are in another part of the split sparse image and read as zeroes; expected all parts together"
                );
                let finding = Finding::new(ELSEWHERE, detail).of(attributes.inode);
                found.push((Some(attributes.inode), Finding { paths: vec![path.to_vec()], ..finding }));
            }
        }
        Ok(Next::Enter)
    });
    found
}
