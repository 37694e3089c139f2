//! The format of a journalled file, version 1. All numbers are little-endian.
//!
//! ```text
//! 0              header (4096 bytes, most of them zero)
//! 4096           the sectors, in order
//! 4096+capacity  the journal: frames, ended by a commit frame; empty between flushes
//! ```
//!
//! | header | bytes | frame | bytes |
//! | --- | --- | --- | --- |
//! | magic `NANDKJRN` | 0..8 | magic `NKFR` | 0..4 |
//! | version | 8..12 | kind: 1 data, 2 zeroes, 3 commit | 4..8 |
//! | sector size | 12..16 | sequence number of the flush | 8..16 |
//! | sectors | 16..24 | first sector; commit: number of frames before | 16..24 |
//! | preferred size | 24..28 | sectors; commit: 0 | 24..32 |
//! | 0 | 28..32 | CRC-32 of the payload; commit: of all frame headers before | 32..36 |
//! | recycling size | 32..40 | CRC-32 of bytes 0..36 | 36..40 |
//! | CRC-32 of bytes 0..40 | 40..44 | data frames: the sectors follow | 40.. |

use crate::BlockGeometry;
use crate::check::geometry_fault;

pub const HEADER_SIZE: u64 = 4096;
pub const VERSION: u32 = 1;
pub const FRAME_SIZE: usize = 40;
/// The largest payload of a frame in bytes: a reader of the journal needs this much memory.
pub const PAYLOAD_MAX: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"NANDKJRN";
const FRAME_MAGIC: [u8; 4] = *b"NKFR";
const HEADER_USED: usize = 44;

/// Offset of the journal in bytes.
pub const fn journal_start(geometry: &BlockGeometry) -> u64 {
    HEADER_SIZE.saturating_add(geometry.capacity())
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|field| field.try_into().ok()).unwrap_or([0; N])
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(into) = bytes.get_mut(at..at + field.len()) {
        into.copy_from_slice(field);
    }
}

pub fn encode_header(geometry: &BlockGeometry) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE as usize];
    put(&mut bytes, 0, &MAGIC);
    put(&mut bytes, 8, &VERSION.to_le_bytes());
    put(&mut bytes, 12, &geometry.sector_size.to_le_bytes());
    put(&mut bytes, 16, &geometry.sectors.to_le_bytes());
    put(&mut bytes, 24, &geometry.preferred_size.to_le_bytes());
    put(&mut bytes, 32, &geometry.recycling_size.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..40]);
    put(&mut bytes, 40, &crc.to_le_bytes());
    bytes
}

/// Decodes a header; the error says what is wrong.
pub fn decode_header(bytes: &[u8]) -> Result<BlockGeometry, String> {
    if bytes.len() < HEADER_USED || field::<8>(bytes, 0) != MAGIC {
        return Err("this is no nandkit device file: it does not begin with NANDKJRN".to_string());
    }
    let version = u32::from_le_bytes(field(bytes, 8));
    if version != VERSION {
        return Err(format!("the device file is of version {version}, expected version {VERSION}"));
    }
    let (found, expected) = (u32::from_le_bytes(field(bytes, 40)), crc32fast::hash(&bytes[..40]));
    if found != expected {
        return Err(format!("the header's checksum is {found:#010x}, expected {expected:#010x}"));
    }
    let geometry = BlockGeometry {
        sector_size: u32::from_le_bytes(field(bytes, 12)),
        sectors: u64::from_le_bytes(field(bytes, 16)),
        preferred_size: u32::from_le_bytes(field(bytes, 24)),
        recycling_size: u64::from_le_bytes(field(bytes, 32)),
    };
    match geometry_fault(&geometry) {
        None => Ok(geometry),
        Some(fault) => Err(format!("the header's {fault}")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Data,
    Zero,
    Commit,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub sequence: u64,
    pub at: u64,
    pub sectors: u64,
    pub payload_crc: u32,
}

impl Frame {
    pub fn encode(&self) -> [u8; FRAME_SIZE] {
        let kind: u32 = match self.kind {
            FrameKind::Data => 1,
            FrameKind::Zero => 2,
            FrameKind::Commit => 3,
        };
        let mut bytes = [0; FRAME_SIZE];
        put(&mut bytes, 0, &FRAME_MAGIC);
        put(&mut bytes, 4, &kind.to_le_bytes());
        put(&mut bytes, 8, &self.sequence.to_le_bytes());
        put(&mut bytes, 16, &self.at.to_le_bytes());
        put(&mut bytes, 24, &self.sectors.to_le_bytes());
        put(&mut bytes, 32, &self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..36]);
        put(&mut bytes, 36, &crc.to_le_bytes());
        bytes
    }

    /// Decodes a frame; `None` if the bytes are not one.
    pub fn decode(bytes: &[u8; FRAME_SIZE]) -> Option<Self> {
        let intact = field::<4>(bytes, 0) == FRAME_MAGIC
            && u32::from_le_bytes(field(bytes, 36)) == crc32fast::hash(&bytes[..36]);
        let kind = match u32::from_le_bytes(field(bytes, 4)) {
            1 => FrameKind::Data,
            2 => FrameKind::Zero,
            3 => FrameKind::Commit,
            _ => return None,
        };
        intact.then(|| Self {
            kind,
            sequence: u64::from_le_bytes(field(bytes, 8)),
            at: u64::from_le_bytes(field(bytes, 16)),
            sectors: u64::from_le_bytes(field(bytes, 24)),
            payload_crc: u32::from_le_bytes(field(bytes, 32)),
        })
    }
}
