//! Blocks and records of a quota file: version 2, revision 1, of Linux's quota format (f2fs.md,
//! "Quota files"; fs/quota/quotaio_v2.h, quota_tree.h).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a quota file's block, independent of the volume's.
pub const BLOCK: usize = 1024;
/// The block of references where every search starts.
pub const ROOT: u32 = 1;
/// Levels of references above the blocks of records, each for eight bits of the id.
pub const DEPTH: usize = 4;
/// Size of a record in bytes.
pub const RECORD: usize = size_of::<RawRecord>();
/// Records per block.
pub const RECORDS: usize = (BLOCK - size_of::<RecordsHead>()) / RECORD;
/// The grace time in a new file, in seconds: a week.
pub const GRACE: u32 = 604_800;
/// Magic numbers of the files of users, groups and projects.
pub const MAGICS: [u32; 3] = [0xD9C0_1F11, 0xD9C0_1927, 0xD9C0_3F14];
/// The version with records of 72 bytes.
pub const VERSION: u32 = 1;

/// The start of block 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// One of [`MAGICS`].
    pub magic: U32,
    /// [`VERSION`].
    pub version: U32,
    /// Seconds that an id may exceed its soft limit of bytes.
    pub bytes_grace: U32,
    /// Seconds that an id may exceed its soft limit of inodes.
    pub inodes_grace: U32,
    /// Used by the quota tools.
    pub flags: U32,
    /// The number of blocks in the file.
    pub blocks: U32,
    /// The first of the list of unused blocks, linked by next_free of [`RecordsHead`]; 0 for none.
    pub free_block: U32,
    /// The first of the list of blocks with room for records; 0 for none.
    pub free_entry: U32,
}

impl Header {
    /// The grace times in seconds, for bytes and for inodes.
    pub const fn graces(&self) -> (u32, u32) {
        (self.bytes_grace.get(), self.inodes_grace.get())
    }
}

/// The head of a block of records, and of an unused block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RecordsHead {
    /// The next block in its list; 0 for none.
    pub next_free: U32,
    /// The previous block; 0 for none, and in the list of unused blocks.
    pub previous_free: U32,
    /// The number of records in use.
    pub records: U16,
    /// Unused.
    pub padding: U16,
    /// Unused.
    pub padding2: U32,
}

/// A record as stored in its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    id: U32,
    padding: U32,
    inodes_hard: U64,
    inodes_soft: U64,
    inodes: U64,
    bytes_hard: U64,
    bytes_soft: U64,
    bytes: U64,
    bytes_time: U64,
    inodes_time: U64,
}

/// A limit of one id for inodes or bytes; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The hard limit, never exceeded. A limit of bytes is in KiB.
    pub hard: u64,
    /// The soft limit, exceeded no longer than the grace time. A limit of bytes is in KiB.
    pub soft: u64,
    /// When the grace time ends, in seconds since 1970; 0 while usage is within the soft limit.
    pub until: u64,
}

/// The record of one id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The id.
    pub id: u32,
    /// The usage.
    pub usage: super::Usage,
    /// The limit of inodes.
    pub inodes: Limit,
    /// The limit of bytes.
    pub bytes: Limit,
}

impl Record {
    /// Whether the record is unnecessary: nothing is used or limited (dquot.c, `dquot_release`;
    /// quota_v2.c, `v2_release_dquot`).
    pub fn is_needless(&self) -> bool {
        *self == Self { id: self.id, ..Self::default() }
    }

    /// Encodes the record. An empty record of id 0 would look like a free place, so it gets a mark
    /// (quota_v2.c, `v2r1_mem2diskdqb`).
    pub fn encode(&self) -> [u8; RECORD] {
        let mut raw = RawRecord {
            id: self.id.into(),
            padding: 0.into(),
            inodes_hard: self.inodes.hard.into(),
            inodes_soft: self.inodes.soft.into(),
            inodes: self.usage.inodes.into(),
            bytes_hard: self.bytes.hard.into(),
            bytes_soft: self.bytes.soft.into(),
            bytes: self.usage.bytes.into(),
            bytes_time: self.bytes.until.into(),
            inodes_time: self.inodes.until.into(),
        };
        if raw == RawRecord::default() {
            raw.inodes_time = 1.into();
        }
        zerocopy::transmute!(raw)
    }

    /// Decodes a record; `None` for a free place, which is all zeroes, or too few bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawRecord::read_from_prefix(bytes).ok()?;
        if raw == RawRecord::default() {
            return None;
        }
        let empty_zero = RawRecord { inodes_time: 1.into(), ..RawRecord::default() };
        let inodes_time = if raw == empty_zero { 0 } else { raw.inodes_time.get() };
        let inodes = Limit { hard: raw.inodes_hard.get(), soft: raw.inodes_soft.get(), until: inodes_time };
        let bytes = Limit { hard: raw.bytes_hard.get(), soft: raw.bytes_soft.get(), until: raw.bytes_time.get() };
        let usage = super::Usage { inodes: raw.inodes.get(), bytes: raw.bytes.get() };
        Some(Self { id: raw.id.get(), usage, inodes, bytes })
    }
}

/// The offset of a record in a block of records.
pub const fn record_at(place: usize) -> usize {
    size_of::<RecordsHead>() + place * RECORD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Usage;

    #[test]
    fn sizes_are_those_of_the_format() {
        assert_eq!((size_of::<Header>(), size_of::<RecordsHead>(), RECORD, RECORDS), (32, 16, 72, 14));
    }

    #[test]
    fn records_come_back_and_that_of_id_0_is_no_free_place() {
        let limit = Limit { hard: 9, soft: 8, until: 7 };
        let full =
            Record { id: 5, usage: Usage { inodes: 3, bytes: 4096 }, inodes: limit, bytes: Limit { hard: 1, ..limit } };
        let zero = Record::default();
        let one = Record { inodes: Limit { until: 1, ..Limit::default() }, ..Record { id: 1, ..zero } };
        for record in [full, zero, one, Record { id: 9, ..zero }] {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
        assert_eq!(Record::decode(&[0; RECORD]), None);
        assert_eq!(Record::decode(&[1; RECORD - 1]), None);
        assert!(zero.is_needless() && Record { id: 9, ..zero }.is_needless() && !full.is_needless());
        // The offsets that quota tools expect: id, pad, limits and usage of inodes, limits and
        // usage of bytes, times.
        let bytes = full.encode();
        let at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!([0, 8, 16, 24, 32, 40, 48, 56, 64].map(at), [5, 9, 8, 3, 1, 8, 4096, 7, 7]);
    }
}
