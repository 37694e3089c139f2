//! Motorola headers in front of phone images.
//!
//! Sources: the public descriptions of `SINGLE_N_LONELY` (HemanthJabalpuri, `star.sh` and
//! `star.ksy`, CC0) and of `MOT_PIV_FULL256` (LineageOS, `extract_utils`, Apache-2.0). A
//! "singleimage" file starts with 256 bytes beginning with `SINGLE_N_LONELY`. For each file follow
//! 248 bytes of name, 8 bytes of length (little-endian), and its bytes, padded to 4096; the last
//! name is `LONELY_N_SINGLE`. A signed partition starts with `MOTO`, four bytes and
//! `MOT_PIV_FULL256`; on most phones this header takes 128 KiB. Some tools put only the first magic
//! number in front of a sparse image.

use std::ops::Range;

use crate::android_sparse;
use crate::error::{ImageError, ImageErrorKind, Result};

const SINGLE: &[u8] = b"SINGLE_N_LONELY";
const END: &[u8] = b"LONELY_N_SINGLE";
const PIV: &[u8] = b"MOT_PIV_FULL256";
/// Possible offsets of the second magic number.
const PIV_PLACES: [usize; 2] = [0, 8];
/// Size of a header and of an entry's header, and the unit to which files are padded.
const HEADER: usize = 256;
const NAME: usize = 248;
const UNIT: usize = 4096;
/// Header size of a signed partition in bytes.
const PIV_BYTES: u64 = 128 << 10;
/// Most files in a table.
const FILES_MAX: usize = 64;

/// The image after a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The magic number of the header.
    pub kind: &'static str,
    /// The byte range of the image; of the longest one if there are several.
    pub range: Range<u64>,
    /// The names of the other files.
    pub others: Vec<String>,
}

/// Whether bytes begin with one of the headers.
pub fn is_wrapped(beginning: &[u8]) -> bool {
    beginning.starts_with(SINGLE) || is_signed(beginning)
}

fn is_signed(bytes: &[u8]) -> bool {
    PIV_PLACES.iter().any(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(PIV)))
}

fn corrupt(detail: &str) -> ImageError {
    ImageError::new(ImageErrorKind::Corrupt, format!("header of Motorola's: {detail}"))
}

/// The image after the header of a file. Errors: `Corrupt` if the file ends too early, or nothing
/// follows the header.
pub fn inside(file: &[u8]) -> Result<Inside> {
    let length = file.len() as u64;
    if is_signed(file) {
        let range = PIV_BYTES..length;
        if range.is_empty() {
            return Err(corrupt("the file ends within it; expected an image from byte 131072 on"));
        }
        return Ok(Inside { kind: "MOT_PIV_FULL256", range, others: Vec::new() });
    }
    if !file.starts_with(SINGLE) {
        return Err(corrupt("it is not there"));
    }
    let bare = file.get(UNIT..).is_some_and(android_sparse::is_sparse);
    let named = file.get(HEADER).is_some_and(|byte| *byte != 0);
    if bare || !named {
        let range = UNIT as u64..length;
        return match range.is_empty() {
            true => Err(corrupt("the file ends within it; expected an image from byte 4096 on")),
            false => Ok(Inside { kind: "SINGLE_N_LONELY", range, others: Vec::new() }),
        };
    }
    files(file)
}

/// Reads the files of a table; the longest one is the image.
fn files(file: &[u8]) -> Result<Inside> {
    let mut found: Vec<(String, Range<u64>)> = Vec::new();
    let mut at = HEADER;
    loop {
        let name = file.get(at..).and_then(|rest| rest.get(..NAME)).ok_or_else(|| corrupt("the table has no end"))?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        if name == END {
            break;
        }
        let length = file.get(at + NAME..).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_le_bytes(*bytes));
        let start = at + HEADER;
        let end = length.and_then(|length| usize::try_from(length).ok()?.checked_add(start));
        let Some(end) = end.filter(|end| *end <= file.len() && !name.is_empty()) else {
            return Err(corrupt("the table names bytes that the file does not have"));
        };
        if found.len() == FILES_MAX {
            return Err(corrupt("the table is longer than 64 files"));
        }
        found.push((name.escape_ascii().to_string(), start as u64..end as u64));
        at = start + (end - start).next_multiple_of(UNIT);
    }
    let longest = found.iter().enumerate().max_by_key(|(_, (_, range))| range.end - range.start).map(|(at, _)| at);
    let Some(longest) = longest else { return Err(corrupt("the table names no file")) };
    let (_, range) = found.remove(longest);
    if range.is_empty() {
        return Err(corrupt("the table names no bytes"));
    }
    Ok(Inside { kind: "SINGLE_N_LONELY", range, others: found.into_iter().map(|(name, _)| name).collect() })
}
