//! The layout of a saved chip, format version 2. All numbers are little-endian; offsets are in
//! bytes from the start of the device.
//!
//! | offset | length | what |
//! | --- | --- | --- |
//! | 0 | 65,536 | header: see [`Header`] |
//! | 65,536 | 32 per block | block records: see [`BlockRecord`] |
//! | after it, on a multiple of 4,096 | per page 64 + OOB + data | page records: see [`PageRecord`] |
//!
//! A page record counts only if its generation equals its block's erase count, so an erase need not
//! touch page records. Block and page records count only with the chip's number, so a new chip need
//! not wipe an old one. A device that never held a chip must hold zeroes.
//!
//! Records that do not count look absent. To detect records that vanish, each block record counts
//! its page records, and the header counts the block records and sums up their block numbers, which
//! identifies a single missing one. Version 1 had no such counts.

use nandkit_units::{Described, Description, FlashGeometry, Generator};

use super::error::ImageError;
use crate::flaws::Flaw;
use crate::store::{SavedPage, StoreKind};

/// Format version.
pub const VERSION: u32 = 2;
/// The magic number at the start of every saved chip.
pub const MAGIC: [u8; 8] = *b"NANDKIT\0";
/// Size of the header in bytes.
pub const HEADER_BYTES: usize = 65_536;
/// Size of a block record in bytes.
pub const BLOCK_BYTES: usize = 32;
/// Size of a page record's header in bytes, before OOB and data.
pub const PAGE_HEADER_BYTES: usize = 64;
const FIXED_HEADER_BYTES: usize = 64;
/// The number of flag bits in a block record's third word; the other bits hold the number of
/// recorded pages.
const FLAG_BITS: u32 = 8;
/// The modulus of the number of recorded pages in a block record.
pub const RECORDED_PAGES: u32 = 1 << (32 - FLAG_BITS);

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The offsets and sizes of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    blocks: u64,
    pages_per_block: u64,
    /// OOB bytes that fit in a page record.
    pub oob_bytes: usize,
    /// Data bytes that fit in a page record.
    pub data_bytes: usize,
}

impl Layout {
    /// The layout for a geometry and a store.
    pub fn new(geometry: &FlashGeometry, kind: StoreKind) -> Self {
        let (oob, data) = match kind {
            // The tag is in the record's header, and 16 OOB bytes are kept.
            StoreKind::Shadow => (16, 0),
            StoreKind::Content | StoreKind::Described | StoreKind::Address => (geometry.oob_size, geometry.page_size),
        };
        Self {
            blocks: u64::from(geometry.blocks),
            pages_per_block: u64::from(geometry.pages_per_block),
            oob_bytes: oob as usize,
            data_bytes: data as usize,
        }
    }

    /// Size of a page record in bytes.
    pub const fn page_bytes(&self) -> usize {
        PAGE_HEADER_BYTES + self.oob_bytes + self.data_bytes
    }

    /// Offset of a block record.
    pub const fn block_at(&self, block: u32) -> u64 {
        HEADER_BYTES as u64 + block as u64 * BLOCK_BYTES as u64
    }

    /// Offset of a page record.
    pub const fn page_at(&self, block: u32, page: u32) -> u64 {
        let start = (HEADER_BYTES as u64 + self.blocks * BLOCK_BYTES as u64).next_multiple_of(4096);
        start + (block as u64 * self.pages_per_block + page as u64) * self.page_bytes() as u64
    }

    /// Size of the whole image in bytes.
    pub const fn bytes(&self) -> u64 {
        self.page_at(self.blocks as u32, 0)
    }
}

/// The header: magic 0..8, version 8..12, CRC-32 12..16 over the other bytes up to the spec's end,
/// spec length 16..20, store kind 20..24, seed 24..32, last time 32..40, reads 40..48, chip number
/// 48..52, number of block records 52..56, sum of their block numbers 56..64, then the spec as
/// TOML.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The chip's spec as TOML.
    pub spec: String,
    /// The chip's seed.
    pub seed: u64,
    /// The kind of store.
    pub kind: StoreKind,
    /// Simulated time in nanoseconds at which the last operation before the last flush ended.
    pub last_instant: u64,
    /// Reads over the device's whole life.
    pub read_number: u64,
    /// Distinguishes this chip's records from those of an older chip on the same device.
    pub chip: u32,
    /// The number of blocks with a record, and the sum of their block numbers.
    pub recorded_blocks: (u32, u64),
}

const fn kind_number(kind: StoreKind) -> u32 {
    match kind {
        StoreKind::Content => 1,
        StoreKind::Described => 2,
        StoreKind::Shadow => 3,
        StoreKind::Address => 4,
    }
}

fn header_crc(bytes: &[u8], end: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes.get(..12).unwrap_or_default());
    hasher.update(bytes.get(16..end).unwrap_or_default());
    hasher.finalize()
}

impl Header {
    /// Encodes the header into [`HEADER_BYTES`] bytes.
    pub fn encode(&self) -> Result<Vec<u8>, ImageError> {
        let end = FIXED_HEADER_BYTES + self.spec.len();
        if end > HEADER_BYTES {
            let most = HEADER_BYTES - FIXED_HEADER_BYTES;
            return Err(ImageError::damaged(
                "the chip's spec",
                format!("{} bytes long", self.spec.len()),
                format!("at most {most} bytes"),
            ));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(self.spec.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&kind_number(self.kind).to_le_bytes());
        bytes.extend_from_slice(&self.seed.to_le_bytes());
        bytes.extend_from_slice(&self.last_instant.to_le_bytes());
        bytes.extend_from_slice(&self.read_number.to_le_bytes());
        bytes.extend_from_slice(&self.chip.to_le_bytes());
        bytes.extend_from_slice(&self.recorded_blocks.0.to_le_bytes());
        bytes.extend_from_slice(&self.recorded_blocks.1.to_le_bytes());
        bytes.extend_from_slice(self.spec.as_bytes());
        let crc = header_crc(&bytes, end);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        Ok(bytes)
    }

    /// The number for a new chip on a device that starts with `bytes`: differs from that of a chip
    /// already there.
    pub fn next_chip(bytes: &[u8]) -> u32 {
        if bytes.starts_with(&MAGIC) { u32_at(bytes, 48).wrapping_add(1).max(1) } else { 1 }
    }

    /// Decodes a header of [`HEADER_BYTES`] bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, ImageError> {
        let found: [u8; 8] = bytes.first_chunk().copied().unwrap_or_default();
        if found != MAGIC {
            return Err(ImageError::NoImage { found });
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(ImageError::Version { found: version, expected: VERSION });
        }
        let end = FIXED_HEADER_BYTES + u32_at(bytes, 16) as usize;
        let Some(spec) = bytes.get(FIXED_HEADER_BYTES..end) else {
            return Err(ImageError::damaged("the spec's length", end - FIXED_HEADER_BYTES, "at most 65472"));
        };
        let (found, expected) = (u32_at(bytes, 12), header_crc(bytes, end));
        if found != expected {
            return Err(ImageError::damaged(
                "the header's checksum",
                format!("{found:#010x}"),
                format!("{expected:#010x}"),
            ));
        }
        let spec = std::str::from_utf8(spec)
            .map_err(|error| ImageError::damaged("the spec's text", error, "UTF-8"))?
            .to_string();
        let kind = [StoreKind::Content, StoreKind::Described, StoreKind::Shadow, StoreKind::Address]
            .into_iter()
            .find(|kind| kind_number(*kind) == u32_at(bytes, 20))
            .ok_or_else(|| ImageError::damaged("the store's kind", u32_at(bytes, 20), "1 to 4"))?;
        Ok(Self {
            spec,
            seed: u64_at(bytes, 24),
            kind,
            last_instant: u64_at(bytes, 32),
            read_number: u64_at(bytes, 40),
            chip: u32_at(bytes, 48),
            recorded_blocks: (u32_at(bytes, 52), u64_at(bytes, 56)),
        })
    }
}

/// A block record: erases 0..4, next page 4..8, flags 8, number of page records of this generation
/// below the next page 9..12, reads since the erase 12..16, time of the first program 16..24, chip
/// number 24..28, CRC-32 of the 28 bytes before it 28..32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRecord {
    /// The number of erases.
    pub erases: u32,
    /// One past the highest programmed page.
    pub next_page: u32,
    /// The block's flags; see `blocks::flag`.
    pub flags: u32,
    /// The number of pages below `next_page` with a record of this generation, modulo
    /// [`RECORDED_PAGES`].
    pub recorded_pages: u32,
    /// Reads since the erase.
    pub reads: u32,
    /// Time of the first program since the erase, in simulated nanoseconds.
    pub programmed_at: u64,
    /// The chip's number.
    pub chip: u32,
}

impl BlockRecord {
    /// Encodes the record.
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        bytes[0..4].copy_from_slice(&self.erases.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.next_page.to_le_bytes());
        let flags = (self.flags % (1 << FLAG_BITS)) | (self.recorded_pages << FLAG_BITS);
        bytes[8..12].copy_from_slice(&flags.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.reads.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.programmed_at.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.chip.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a record; `None` for a block that this chip never touched.
    pub fn decode(
        block: u32,
        bytes: &[u8; BLOCK_BYTES],
        geometry: &FlashGeometry,
        chip: u32,
    ) -> Result<Option<Self>, ImageError> {
        if u32_at(bytes, 24) != chip {
            return Ok(None);
        }
        let (found, expected) = (u32_at(bytes, 28), crc32fast::hash(&bytes[..28]));
        if found != expected {
            let what = format!("the checksum of block {block}");
            return Err(ImageError::damaged(what, format!("{found:#010x}"), format!("{expected:#010x}")));
        }
        let record = Self {
            erases: u32_at(bytes, 0),
            next_page: u32_at(bytes, 4),
            flags: u32_at(bytes, 8) % (1 << FLAG_BITS),
            recorded_pages: u32_at(bytes, 8) >> FLAG_BITS,
            reads: u32_at(bytes, 12),
            programmed_at: u64_at(bytes, 16),
            chip,
        };
        if record.next_page > geometry.pages_per_block {
            let what = format!("the next page of block {block}");
            return Err(ImageError::damaged(what, record.next_page, format!("at most {}", geometry.pages_per_block)));
        }
        Ok(Some(record))
    }
}

/// A page record: kind 0 (0 nothing, 1 bytes, 2 description, 3 tag), flaw 1, the flaw's bits 2..4,
/// generation 4..8, rules' word 8..16, data length 16..20, OOB length 20..24, column of a
/// description 24..28, CRC-32 over everything else 28..32, record number or tag 32..40, version
/// 40..44, offset 44..48, generator 48, described length 52..56, chip number 56..60, zero to 64;
/// then space for the OOB, then for the data.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRecord {
    /// The chip's number.
    pub chip: u32,
    /// The block's erase count when the record was written.
    pub generation: u32,
    /// The rules' word of the page.
    pub rules_word: u64,
    /// The page's flaw, if any.
    pub flaw: Option<Flaw>,
    /// The content kept by the store.
    pub kept: SavedPage,
}

fn page_crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes.get(..28).unwrap_or_default());
    hasher.update(bytes.get(32..).unwrap_or_default());
    hasher.finalize()
}

impl PageRecord {
    /// Encodes the record into `into`, which has the length of a page record.
    pub fn encode(&self, layout: &Layout, into: &mut [u8]) {
        into.fill(0);
        let (kind, data, oob): (u8, &[u8], &[u8]) = match &self.kept {
            SavedPage::Erased => (1, &[], &[]),
            SavedPage::Bytes(data, oob) => (1, data, oob),
            SavedPage::Described(_, _, oob) => (2, &[], oob),
            SavedPage::Tag(_, oob) => (3, &[], oob),
        };
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(target) = into.get_mut(at..at + bytes.len()) {
                target.copy_from_slice(bytes);
            }
        };
        let (flaw, bits) = self.flaw.map_or((0, 0), Flaw::to_saved);
        put(0, &[kind, flaw]);
        put(2, &bits.to_le_bytes());
        put(4, &self.generation.to_le_bytes());
        put(8, &self.rules_word.to_le_bytes());
        put(16, &(data.len() as u32).to_le_bytes());
        put(20, &(oob.len() as u32).to_le_bytes());
        match &self.kept {
            SavedPage::Described(column, described, _) => {
                put(24, &column.to_le_bytes());
                put(32, &described.description.record.to_le_bytes());
                put(40, &described.description.version.to_le_bytes());
                put(44, &described.description.offset.to_le_bytes());
                put(48, &[described.description.generator as u8]);
                put(52, &described.length.to_le_bytes());
            }
            SavedPage::Tag(tag, _) => put(32, &tag.to_le_bytes()),
            SavedPage::Erased | SavedPage::Bytes(..) => {}
        }
        put(56, &self.chip.to_le_bytes());
        put(PAGE_HEADER_BYTES, oob);
        put(PAGE_HEADER_BYTES + layout.oob_bytes, data);
        let crc = page_crc(into);
        if let Some(target) = into.get_mut(28..32) {
            target.copy_from_slice(&crc.to_le_bytes());
        }
    }

    /// Decodes a record; `None` if there is none of this chip and generation.
    pub fn decode(
        place: &str,
        bytes: &[u8],
        layout: &Layout,
        page_size: u32,
        (chip, generation): (u32, u32),
    ) -> Result<Option<Self>, ImageError> {
        let kind = bytes.first().copied().unwrap_or(0);
        if kind == 0 || u32_at(bytes, 4) != generation || u32_at(bytes, 56) != chip {
            return Ok(None);
        }
        let (found, expected) = (u32_at(bytes, 28), page_crc(bytes));
        if found != expected {
            let what = format!("the checksum of {place}");
            return Err(ImageError::damaged(what, format!("{found:#010x}"), format!("{expected:#010x}")));
        }
        let (data_length, oob_length) = (u32_at(bytes, 16) as usize, u32_at(bytes, 20) as usize);
        if data_length > layout.data_bytes || oob_length > layout.oob_bytes {
            let what = format!("the lengths of {place}");
            let most = format!("at most {} and {}", layout.data_bytes, layout.oob_bytes);
            return Err(ImageError::damaged(what, format!("{data_length} and {oob_length}"), most));
        }
        let part = |at: usize, length: usize| bytes.get(at..at + length).unwrap_or_default().to_vec();
        let oob = part(PAGE_HEADER_BYTES, oob_length);
        let kept = match kind {
            // A page that was touched but holds nothing, as an interrupted erase leaves it.
            1 if data_length == 0 && oob_length == 0 => SavedPage::Erased,
            1 => SavedPage::Bytes(part(PAGE_HEADER_BYTES + layout.oob_bytes, data_length), oob),
            2 => {
                let (column, described) = Self::described(place, bytes, page_size)?;
                SavedPage::Described(column, described, oob)
            }
            3 => SavedPage::Tag(u64_at(bytes, 32), oob),
            other => return Err(ImageError::damaged(format!("the kind of {place}"), other, "0 to 3")),
        };
        let bits = u32_at(bytes, 0) >> 16;
        let flaw = Flaw::from_saved(bytes.get(1).copied().unwrap_or(0), bits as u16);
        Ok(Some(Self { chip, generation, rules_word: u64_at(bytes, 8), flaw, kept }))
    }

    fn described(place: &str, bytes: &[u8], page_size: u32) -> Result<(u32, Described), ImageError> {
        let (column, length) = (u32_at(bytes, 24), u32_at(bytes, 52));
        if u64::from(column) + u64::from(length) > u64::from(page_size) {
            let what = format!("the end of the description in {place}");
            return Err(ImageError::damaged(
                what,
                u64::from(column) + u64::from(length),
                format!("at most {page_size}"),
            ));
        }
        let generator = Generator::try_from(bytes.get(48).copied().unwrap_or(0))
            .map_err(|error| ImageError::damaged(format!("the generator of {place}"), error, "0 or 1"))?;
        let description =
            Description { record: u64_at(bytes, 32), version: u32_at(bytes, 40), offset: u32_at(bytes, 44), generator };
        Ok((column, Described { description, length }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_records_survive_and_damage_is_found() {
        let geometry = FlashGeometry::default();
        let layout = Layout::new(&geometry, StoreKind::Content);
        let description = Description { record: 1 << 40, version: 3, offset: 512, generator: Generator::Record };
        for kept in [
            SavedPage::Bytes(vec![7; 2048], vec![1; 64]),
            SavedPage::Bytes(vec![], vec![1; 3]),
            SavedPage::Described(512, Described { description, length: 1024 }, vec![]),
            SavedPage::Tag(u64::MAX, vec![3; 16]),
        ] {
            let record = PageRecord { chip: 2, generation: 9, rules_word: 5, flaw: Some(Flaw::Inherited(300)), kept };
            let mut bytes = vec![0xEE; layout.page_bytes()];
            record.encode(&layout, &mut bytes);
            let decode = |bytes: &[u8], generation| PageRecord::decode("here", bytes, &layout, 2048, (2, generation));
            assert_eq!(decode(&bytes, 9).unwrap(), Some(record));
            assert_eq!(decode(&bytes, 8).unwrap(), None, "another generation");
            for at in [0, 1, 8, 16, 29, 52, 64, 2000] {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x40;
                assert!(decode(&damaged, 9).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn nothing_overlaps() {
        let geometry = FlashGeometry::nand(512, 16, 3, 5);
        for kind in [StoreKind::Content, StoreKind::Described, StoreKind::Shadow, StoreKind::Address] {
            let layout = Layout::new(&geometry, kind);
            assert!(layout.page_at(0, 0) >= layout.block_at(5));
            assert_eq!(layout.page_at(1, 0), layout.page_at(0, 2) + layout.page_bytes() as u64);
            assert_eq!(layout.bytes(), layout.page_at(4, 2) + layout.page_bytes() as u64);
        }
    }
}
