//! The location of an entry's content, and the maps of sparse files (GNU tar manual, "Storing
//! Sparse Files").

use std::fs::File;

use nandkit_vfs::{ErrorKind, FsError};

use crate::host;

/// A run of a file's bytes stored in the archive; the rest of the file is holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub at: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset in the archive.
    pub archive_at: u64,
}

/// Most runs per file.
pub const EXTENTS_MAX: usize = 1 << 20;

/// Converts the numbers of a map, pairs of offset and length, to extents whose bytes are
/// consecutive in the archive from `archive_at` on. The error is a message.
pub fn extents(map: &[u64], size: u64, archive_at: u64) -> Result<Vec<Extent>, String> {
    let mut extents = Vec::with_capacity(map.len() / 2);
    let (mut end, mut archive_at) = (0, archive_at);
    for pair in map.chunks_exact(2) {
        let [at, length] = [pair.first().copied().unwrap_or(0), pair.last().copied().unwrap_or(0)];
        let next = at.checked_add(length).filter(|next| at >= end && *next <= size);
        let Some(next) = next else {
            return Err(format!(
                "expected runs of a sparse file in order within its {size} bytes, found {length} at {at}"
            ));
        };
        if length > 0 {
            extents.push(Extent { at, length, archive_at });
        }
        end = next;
        archive_at = archive_at.checked_add(length).ok_or("a sparse file ends behind the last byte there can be")?;
    }
    Ok(extents)
}

/// Parses a map of decimal numbers with separators.
pub fn numbers(text: &[u8], separator: u8) -> Result<Vec<u64>, String> {
    let wrong = || "expected decimal numbers in the map of a sparse file".to_owned();
    let parts: Vec<&[u8]> = text.split(|byte| *byte == separator).filter(|part| !part.is_empty()).collect();
    if parts.len() > 2 * EXTENTS_MAX {
        return Err(format!("expected at most {EXTENTS_MAX} runs in a sparse file"));
    }
    let number = |part: &[u8]| std::str::from_utf8(part).ok().and_then(|text| text.parse().ok()).ok_or_else(wrong);
    parts.into_iter().map(number).collect()
}

/// Reads the map at the start of an entry's data (version 1.0 of GNU's PAX sparse files): a line
/// with the number of runs, then a line for each offset and each length, padded to whole blocks.
/// Returns the numbers and the map's length in bytes.
pub fn map_in_data(file: &File, at: u64, length: u64) -> Result<(Vec<u64>, u64), String> {
    let (mut text, mut complete, mut told) = (Vec::new(), 0, None);
    loop {
        let mut block = [0; 512];
        let used = text.len() as u64;
        let count = host::read_at(file, &mut block, at.saturating_add(used)).map_err(|error| error.to_string())?;
        if count < block.len() || used + 512 > length || text.len() > EXTENTS_MAX * 40 {
            return Err("expected the map of a sparse file, found its end".to_owned());
        }
        text.extend_from_slice(&block);
        // Counts only the new block, and parses the first line once: a map may have many blocks.
        complete += block.iter().filter(|byte| **byte == b'\n').count();
        let runs = match told {
            Some(runs) => runs,
            None if complete == 0 => continue,
            None => {
                let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let runs = numbers(first, b'\n')?.first().copied().unwrap_or(0);
                let runs = usize::try_from(runs).ok().filter(|runs| *runs <= EXTENTS_MAX);
                runs.ok_or_else(|| format!("expected at most {EXTENTS_MAX} runs in a sparse file"))?
            }
        };
        told = Some(runs);
        if complete > 2 * runs {
            let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').skip(1).take(2 * runs).collect();
            return Ok((numbers(&lines.join(&b'\n'), b'\n')?, text.len() as u64));
        }
    }
}

/// Reads from a file stored in the archive as `extents`.
pub fn read(file: &File, extents: &[Extent], size: u64, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
    let wanted = size.saturating_sub(offset).min(into.len() as u64);
    let into = into.get_mut(..wanted as usize).unwrap_or_default();
    let end = offset.saturating_add(wanted);
    let first = extents.partition_point(|extent| extent.at.saturating_add(extent.length) <= offset);
    let mut filled = offset;
    let place = |from: u64, to: u64| (from - offset) as usize..(to - offset) as usize;
    for extent in extents.get(first..).unwrap_or_default() {
        let from = extent.at.max(offset);
        let to = extent.at.saturating_add(extent.length).min(end);
        if from >= to {
            break;
        }
        into.get_mut(place(filled, from)).unwrap_or_default().fill(0);
        let part = into.get_mut(place(from, to)).unwrap_or_default();
        let archive_at = extent.archive_at.saturating_add(from - extent.at);
        let count = host::read_at(file, part, archive_at)
            .map_err(|error| FsError::device(format!("archive: reading at {archive_at}"), error))?;
        if count < part.len() {
            let detail = format!("the archive ends at {}, within a file", archive_at.saturating_add(count as u64));
            return Err(FsError::new(ErrorKind::Corrupt, detail));
        }
        filled = to;
    }
    into.get_mut(place(filled, end)).unwrap_or_default().fill(0);
    Ok(wanted as usize)
}
