//! What a dump of a whole device is divided into: partition tables, `mtdparts`, and formats that
//! show themselves.
//!
//! Offsets and sizes are in data bytes of the device: OOB is not counted, bad and missing blocks
//! are.

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

/// Where the knowledge of a region comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionSource {
    /// The partition table in the first sector.
    Mbr,
    /// The GUID partition table.
    Gpt,
    /// The partition table of an ESP32.
    Esp32,
    /// An `mtdparts=` text: the flash that it is for (`spi0.0`), where in the dump it stands, and
    /// whether a U-Boot environment with a right CRC holds it.
    MtdParts {
        /// The `mtd-id` before the colon.
        mtd_id: String,
        /// First data byte of the text.
        at: u64,
        /// In an environment whose checksum holds, rather than in any text.
        in_environment: bool,
    },
    /// The content: a magic number, checked as far as the format allows.
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
    /// First data byte.
    pub offset: u64,
    /// Data bytes; never past the end of the device.
    pub size: u64,
    /// Its name, where the source has one; else made from kind and number.
    pub name: String,
    /// What it holds, as far as the source tells: `jffs2, little-endian`, `MBR type 0x83`.
    pub kind: String,
    /// How it is known.
    pub source: RegionSource,
    /// What is doubtful about it: one sentence each.
    pub notes: Vec<String>,
    /// What is not proven of its ends: one sentence each.
    pub doubts: Vec<String>,
}

/// All regions of a dump that any source knows: partition tables first, then `mtdparts`, then
/// signatures, each by offset.
///
/// `probes` recognise the file systems; what has no crate of its own (UBI, SquashFS, images of
/// U-Boot) is known here. `volumes` are stretches that were found otherwise, each with its size.
/// Cost: one pass over all data bytes, at memory speed.
pub fn regions(device: &DumpFlash, probes: &[SignatureProbe], volumes: Vec<(u64, Signature)>) -> Vec<Region> {
    let mut found = named(device);
    found.extend(signatures::find(device, probes, volumes));
    found
}

/// The regions that partition tables and `mtdparts` name, whatever they hold. Cost: one pass over
/// all data bytes.
pub fn named(device: &DumpFlash) -> Vec<Region> {
    let mut found = tables::find(device);
    found.extend(mtdparts::find(device));
    found
}

/// The regions of a partition table (MBR, GPT) alone. Cost: a few sectors.
pub fn partitions(device: &DumpFlash) -> Vec<Region> {
    tables::find(device)
}

/// The region that was asked for: by name, or by its number in the list from 0. A name wins over a
/// number. Errors: `NoSuchRegion`, with the names that there are, and the nearest one.
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

/// Bytes read at a time in a pass over a dump, and how far the next piece reaches back, so that
/// what lies across a border is seen whole.
const CHUNK: usize = 1 << 20;

/// Calls `look` with consecutive pieces of the data: where the piece begins, its bytes, and how
/// many of them are new ground (matches must begin there; the rest, at most `overlap` bytes, is
/// only for looking ahead).
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

/// Little- and big-endian numbers at a place of a buffer; `None` behind its end.
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
