//! The regions of a whole-device dump: from partition tables, `mtdparts`, and recognizable formats.
//!
//! Offsets and sizes are in data bytes of the device: without OOB, including bad and missing
//! blocks.

mod mtdparts;
mod signatures;
mod tables;

use std::fmt;

use nandkit_units::suggest::nearest;

use nandkit_flash::Look as _;

use crate::dump::DumpFlash;
use crate::error::{ImageError, ImageErrorKind, Result};

pub use mtdparts::{MtdPartition, parse_mtdparts};
pub use signatures::{PROBE_BYTES, Signature, SignatureProbe, Stranger, stranger};

/// How a region was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionSource {
    /// The partition table in the first sector.
    Mbr,
    /// The GUID partition table.
    Gpt,
    /// The partition table of an ESP32.
    Esp32,
    /// An `mtdparts=` text: the flash it describes (`spi0.0`), its position in the dump, and
    /// whether it is in a U-Boot environment with a valid CRC.
    MtdParts {
        /// The `mtd-id` before the colon.
        mtd_id: String,
        /// Offset of the text in data bytes.
        at: u64,
        /// Whether it is in an environment with a valid checksum, rather than in any text.
        in_environment: bool,
    },
    /// The content: a magic number, verified as far as the format allows.
    Signature,
}

impl fmt::Display for RegionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mbr => f.write_str("MBR"),
            Self::Gpt => f.write_str("GPT"),
            Self::Esp32 => f.write_str("partition table of ESP32"),
            Self::MtdParts { mtd_id, at, in_environment } => {
                let place = if *in_environment { "U-Boot environment" } else { "text" };
                write!(f, "mtdparts of {mtd_id}, {place} at {at}")
            }
            Self::Signature => f.write_str("signature"),
        }
    }
}

/// A part of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Offset in data bytes.
    pub offset: u64,
    /// Size in data bytes; never past the end of the device.
    pub size: u64,
    /// Its name, from the source if it has one, else derived from kind and number.
    pub name: String,
    /// Its content, as far as the source tells: `jffs2, little-endian`, `MBR type 0x83`.
    pub kind: String,
    /// How it was found.
    pub source: RegionSource,
    /// Doubts about the region: one sentence each.
    pub notes: Vec<String>,
    /// Unproven facts about its ends: one sentence each.
    pub doubts: Vec<String>,
}

/// All regions of a dump from all sources: first partition tables, then `mtdparts`, then
/// signatures, each by offset.
///
/// `probes` recognize the file systems; formats without a crate of their own (SquashFS, U-Boot
/// images) are recognized here. `volumes` are ranges found otherwise, each with its size. Cost: one
/// pass over all data bytes, at memory speed.
pub fn regions(device: &DumpFlash, probes: &[SignatureProbe], volumes: Vec<(u64, Signature)>) -> Vec<Region> {
    let mut found = named(device);
    found.extend(signatures::find(device, probes, volumes));
    found
}

/// The regions named by partition tables and `mtdparts`, whatever their content. Cost: one pass
/// over all data bytes.
pub fn named(device: &DumpFlash) -> Vec<Region> {
    let mut found = tables::find(device);
    found.extend(mtdparts::find(device));
    found
}

/// The regions of a partition table (MBR, GPT) only. Cost: a few sectors.
pub fn partitions(device: &DumpFlash) -> Vec<Region> {
    tables::find(device)
}

/// The requested region: by name, or by its number in the list from 0. A name takes precedence over
/// a number. Errors: `NoSuchRegion`, with the existing names, and the nearest one.
pub fn select<'a>(regions: &'a [Region], wanted: &str) -> Result<&'a Region> {
    let by_number = || wanted.parse::<usize>().ok().and_then(|number| regions.get(number));
    regions.iter().find(|region| region.name == wanted).or_else(by_number).ok_or_else(|| {
        let names: Vec<&str> = regions.iter().map(|region| region.name.as_str()).collect();
        let detail = match names.is_empty() {
            true => format!("no region '{wanted}': the dump has none that is known; say offset and size"),
            false => {
                let near = nearest(wanted, names.iter().copied());
                let near = near.map_or_else(String::new, |near| format!(" (did you mean '{near}'?)"));
                format!("no region '{wanted}'{near}: expected 0 to {} or one of {}", names.len() - 1, names.join(", "))
            }
        };
        ImageError::new(ImageErrorKind::NoSuchRegion, detail)
    })
}

/// Bytes per read in a pass over a dump.
const CHUNK: usize = 1 << 20;

/// Calls `look` with consecutive pieces of the data: the piece's offset, its bytes, and how many of
/// them are new (matches must begin there; the rest, at most `overlap` bytes, is only for looking
/// ahead).
fn scan(device: &DumpFlash, overlap: usize, mut look: impl FnMut(u64, &[u8], usize)) {
    let capacity = data_bytes(device);
    let mut buffer = vec![0; CHUNK + overlap];
    let mut at = 0;
    while at < capacity {
        let length = (capacity - at).min(buffer.len() as u64) as usize;
        let Some(piece) = buffer.get_mut(..length) else { return };
        device.look_at(at, piece);
        look(at, piece, length.min(CHUNK));
        at += CHUNK as u64;
    }
}

fn data_bytes(device: &DumpFlash) -> u64 {
    nandkit_flash::Flash::geometry(device).capacity()
}

/// Little- and big-endian numbers at an offset of a buffer; `None` past its end.
mod number {
    pub fn le16(bytes: &[u8], at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
    }

    pub fn le32(bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
    }

    pub fn le64(bytes: &[u8], at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
    }

    pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
    }
}
