//! The journal's pages: header, lines, snapshot. All numbers are little-endian. The rules are in
//! `docs/design/06-page-map-on-flash.md`.

use nandkit_codec::checksum::crc32;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The magic number of each page: "nkPJ".
const MAGIC: u32 = u32::from_le_bytes(*b"nkPJ");
/// Version 2: lost pages are recorded in the map pages instead of a list in the snapshot.
const VERSION: u8 = 2;

/// The kind of a group of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Snapshot = 1,
    /// Follows a snapshot and marks it as complete.
    Seal = 2,
    Lines = 3,
}

/// The header of a page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PageHeader {
    magic: U32,
    version: u8,
    kind: u8,
    reserved: [u8; 2],
    /// How often the journal has switched halves.
    generation: U64,
    /// The number of the group in its half.
    group: U32,
    /// The number of the page in its group, and the group's page count.
    index: U32,
    count: U32,
    /// Bytes after the header that belong to the group.
    used: U32,
    /// CRC-32 over the header, with this field 0, and the used bytes.
    check: U32,
}

pub(crate) const HEADER_BYTES: usize = size_of::<PageHeader>();
const _: () = assert!(HEADER_BYTES == 36);

/// The position of a page in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PagePlace {
    pub kind: Kind,
    pub generation: u64,
    pub group: u32,
    pub index: u32,
    pub count: u32,
}

/// Builds a page from its header and as much of `bytes` as fits, padded with zeroes.
pub(crate) fn page(place: PagePlace, bytes: &[u8], page_size: usize) -> Vec<u8> {
    let mut header = PageHeader {
        magic: MAGIC.into(),
        version: VERSION,
        kind: place.kind as u8,
        reserved: [0; 2],
        generation: place.generation.into(),
        group: place.group.into(),
        index: place.index.into(),
        count: place.count.into(),
        used: (bytes.len() as u32).into(),
        check: U32::ZERO,
    };
    header.check = checked(&header, bytes).into();
    let mut page = Vec::with_capacity(page_size);
    page.extend_from_slice(header.as_bytes());
    page.extend_from_slice(bytes);
    page.resize(page_size, 0);
    page
}

fn checked(header: &PageHeader, bytes: &[u8]) -> u32 {
    let header = PageHeader { check: U32::ZERO, ..*header };
    let mut all = header.as_bytes().to_vec();
    all.extend_from_slice(bytes);
    crc32(&all)
}

/// Decodes a page; `None` if it is no journal page, or damaged.
pub(crate) fn read_page(page: &[u8]) -> Option<(PagePlace, &[u8])> {
    let (header, rest) = PageHeader::ref_from_prefix(page).ok()?;
    let bytes = rest.get(..header.used.get() as usize)?;
    if header.magic.get() != MAGIC || header.version != VERSION || header.check.get() != checked(header, bytes) {
        return None;
    }
    let kind = match header.kind {
        1 => Kind::Snapshot,
        2 => Kind::Seal,
        3 => Kind::Lines,
        _ => return None,
    };
    let (generation, group) = (header.generation.get(), header.group.get());
    Some((PagePlace { kind, generation, group, index: header.index.get(), count: header.count.get() }, bytes))
}

/// A change of the map that no page's tag records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Logical pages lose their content.
    Trim { first: u32, count: u32 },
    /// A logical page points at a slot whose tag names another page.
    Point { page: u32, slot: u32 },
    /// The content of a page was unreadable when it was to be moved.
    Lost { page: u32 },
    /// A block becomes a member of a superblock; the largest block number means none.
    Member { superblock: u32, lane: u32, block: u32 },
    /// Tags with stamps in this range do not count: copies of an interrupted cleaning.
    Void { first: u64, last: u64 },
}

/// A change with its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub stamp: u64,
    pub change: Change,
}

pub(crate) const LINE_BYTES: usize = 24;

impl Line {
    pub fn put(&self, into: &mut Vec<u8>) {
        let (kind, numbers) = match self.change {
            Change::Trim { first, count } => (1u32, [first, count, 0]),
            Change::Point { page, slot } => (2, [page, slot, 0]),
            Change::Lost { page } => (3, [page, 0, 0]),
            Change::Member { superblock, lane, block } => (4, [superblock, lane, block]),
            // Stamps have 48 bits: their upper halves share a number.
            Change::Void { first, last } => {
                (5, [first as u32, (first >> 32) as u32 & 0xFFFF | (last >> 32 << 16) as u32, last as u32])
            }
        };
        into.extend_from_slice(&kind.to_le_bytes());
        numbers.iter().for_each(|number| into.extend_from_slice(&number.to_le_bytes()));
        into.extend_from_slice(&self.stamp.to_le_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Option<Self> {
        let (kind, a, b, c) = (reader.number()?, reader.number()?, reader.number()?, reader.number()?);
        let stamp = reader.long()?;
        // Fields that a line does not use are 0.
        let change = match (kind, b, c) {
            (1, count, 0) => Change::Trim { first: a, count },
            (2, slot, 0) => Change::Point { page: a, slot },
            (3, 0, 0) => Change::Lost { page: a },
            (4, ..) => Change::Member { superblock: a, lane: b, block: c },
            (5, ..) => Change::Void {
                first: u64::from(b & 0xFFFF) << 32 | u64::from(a),
                last: u64::from(b >> 16) << 32 | u64::from(c),
            },
            _ => return None,
        };
        Some(Self { stamp, change })
    }

    /// Decodes the lines of a group; `None` if it is damaged in a way that the checksum missed.
    pub fn all(bytes: &[u8]) -> Option<Vec<Self>> {
        let mut reader = Reader(bytes);
        let mut lines = Vec::with_capacity(bytes.len() / LINE_BYTES);
        while !reader.0.is_empty() {
            lines.push(Self::take(&mut reader)?);
        }
        Some(lines)
    }
}

/// The state when the journal switched halves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Everything up to this stamp is in the map pages.
    pub base: u64,
    /// The next stamp at the time of writing.
    pub next: u64,
    /// The number of block rows of the journal, followed by other choices made at format time.
    pub rows: u32,
    pub sector_size: u32,
    pub stripe: u32,
    pub user: u32,
    pub aliases_max: u32,
    /// Superblocks that were open at the base, and their page counts.
    pub fills: Vec<[u32; 2]>,
    /// The blocks of the superblocks, `stripe` for each.
    pub members: Vec<u32>,
    pub erases: Vec<u32>,
    /// The slot of each map page.
    pub directory: Vec<u32>,
    /// Logical pages that differ from the page in their slot's tag.
    pub aliases: Vec<u32>,
    pub lines: Vec<Line>,
}

/// Bytes of a snapshot before its lists.
const SNAPSHOT_BYTES: usize = 2 * 8 + 5 * 4 + 6 * 4;

impl Snapshot {
    /// Bytes of a snapshot with lists of these lengths.
    pub const fn bytes(fills: usize, members: usize, erases: usize, numbers: usize, lines: usize) -> usize {
        SNAPSHOT_BYTES + 8 * fills + 4 * (members + erases + numbers) + LINE_BYTES * lines
    }

    pub fn put(&self) -> Vec<u8> {
        let numbers = self.directory.len() + self.aliases.len();
        let (fills, lines) = (self.fills.len(), self.lines.len());
        let mut into = Vec::with_capacity(Self::bytes(fills, self.members.len(), self.erases.len(), numbers, lines));
        into.extend_from_slice(&self.base.to_le_bytes());
        into.extend_from_slice(&self.next.to_le_bytes());
        let lists = [&self.members, &self.erases, &self.directory, &self.aliases];
        let fixed = [self.rows, self.sector_size, self.stripe, self.user, self.aliases_max, fills as u32, lines as u32];
        let counts = lists.iter().map(|list| list.len() as u32);
        let flat = self.fills.iter().flatten().copied();
        let all = fixed.into_iter().chain(counts).chain(flat).chain(lists.into_iter().flatten().copied());
        all.for_each(|number| into.extend_from_slice(&number.to_le_bytes()));
        self.lines.iter().for_each(|line| line.put(&mut into));
        into
    }

    /// Decodes a snapshot; `None` if the bytes are not one.
    pub fn take(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (base, next) = (reader.long()?, reader.long()?);
        let mut number = || reader.number();
        let (rows, sector_size, stripe, user, aliases_max) = (number()?, number()?, number()?, number()?, number()?);
        let (fills, lines) = (number()?, number()?);
        let counts = [number()?, number()?, number()?, number()?];
        let fills = reader.list(fills.checked_mul(2)?)?;
        let mut lists = counts.into_iter().map(|count| reader.list(count));
        let (members, erases, directory, aliases) = (lists.next()??, lists.next()??, lists.next()??, lists.next()??);
        drop(lists);
        let rest = Line::all(reader.0)?;
        let fills = fills.as_chunks::<2>().0.to_vec();
        (rest.len() == lines as usize).then_some(Self {
            base,
            next,
            rows,
            sector_size,
            stripe,
            user,
            aliases_max,
            fills,
            members,
            erases,
            directory,
            aliases,
            lines: rest,
        })
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn long(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn list(&mut self, count: u32) -> Option<Vec<u32>> {
        let (bytes, rest) = self.0.split_at_checked((count as usize).checked_mul(4)?)?;
        self.0 = rest;
        Some(bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let line = |stamp, change| Line { stamp, change };
        Snapshot {
            base: 7,
            next: 1 << 40,
            rows: 1,
            sector_size: 512,
            stripe: 2,
            user: 99,
            aliases_max: 12,
            fills: vec![[3, 4], [5, 6]],
            members: vec![1, 2, 3, u32::MAX],
            erases: vec![9, 8],
            directory: vec![u32::MAX, 77],
            aliases: vec![5],
            lines: vec![
                line(1, Change::Trim { first: 1, count: 2 }),
                line(2, Change::Point { page: 3, slot: 4 }),
                line(3, Change::Lost { page: 5 }),
                line(4, Change::Void { first: 0x1234_5678_9ABC, last: 0xFFFF_EDCB_A987 }),
                line(u64::MAX, Change::Member { superblock: 6, lane: 7, block: 8 }),
            ],
        }
    }

    #[test]
    fn snapshots_come_back_and_cut_ones_are_none() {
        let bytes = snapshot().put();
        assert_eq!(bytes.len(), Snapshot::bytes(2, 4, 2, 3, 5));
        assert_eq!(Snapshot::take(&bytes), Some(snapshot()));
        for length in 0..bytes.len() {
            assert_eq!(Snapshot::take(&bytes[..length]), None, "{length} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            // Damage that the checksums miss leads to another snapshot or to none, and to nothing
            // worse.
            assert_ne!(Snapshot::take(&damaged), Some(snapshot()), "byte {at}");
        }
    }

    #[test]
    fn pages_come_back_and_damaged_ones_are_none() {
        let place = PagePlace { kind: Kind::Lines, generation: 5, group: 6, index: 1, count: 3 };
        let page = page(place, b"what a group says", 128);
        assert_eq!((page.len(), read_page(&page)), (128, Some((place, &b"what a group says"[..]))));
        for bit in 0..(HEADER_BYTES + 17) * 8 {
            let mut damaged = page.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_page(&damaged), None, "bit {bit}");
        }
        for length in 0..HEADER_BYTES + 17 {
            assert_eq!(read_page(&page[..length]), None, "{length} bytes");
        }
        assert_eq!(read_page(&[0xFF; 128]), None);
    }
}
