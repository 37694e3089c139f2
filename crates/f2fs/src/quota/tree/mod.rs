//! The tree of a quota file: four levels of references by the bytes of an id, with blocks of
//! records below (f2fs.md, "Quota files"; fs/quota/quota_tree.c).
//!
//! Unused blocks form a list, and blocks with room for records form a doubly linked one. Every
//! block number read from the file is checked before it is followed.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::{FromBytes, IntoBytes};

use super::layout::{BLOCK, DEPTH, Header, MAGICS, RECORDS, ROOT, Record, RecordsHead, VERSION, record_at};
use super::{QuotaKind, Usage};
use crate::encode::put;
use crate::layout::{set_word, word};

/// A block of the file.
pub type QuotaBlock = [u8; BLOCK];

/// Access to the blocks of a quota file.
pub trait QuotaBlocks {
    /// Size of the file in bytes.
    fn size(&mut self) -> Result<u64>;

    /// Reads a block.
    fn read_block(&mut self, number: u32) -> Result<QuotaBlock>;

    /// Changes a block or appends one.
    fn write_block(&mut self, number: u32, block: &QuotaBlock) -> Result<()>;

    /// Makes sure that blocks past the last one can be written. Errors: `NoSpace`; then nothing has
    /// changed.
    fn make_room(&mut self, first: u32, count: u32) -> Result<()>;
}

/// The location of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// The block.
    block: u32,
    /// The index among its records.
    place: usize,
}

/// A quota file's tree. Errors of all methods: `Corrupt` (the file is inconsistent; earlier changes
/// stay), and those of its blocks.
#[derive(Debug)]
pub struct QuotaTree<'a, B: ?Sized> {
    blocks: &'a mut B,
    header: Header,
}

/// The path to an id.
struct Way {
    /// Blocks of references, starting with the root.
    above: [u32; DEPTH],
    /// The number of these blocks that exist.
    levels: usize,
    /// The block of the record, if the path is complete and its last block refers to one.
    records: Option<u32>,
}

fn corrupt<T>(detail: String) -> Result<T> {
    Err(FsError::new(ErrorKind::Corrupt, detail))
}

/// The offset of an id's reference in a block of a level.
fn reference_at(id: u32, level: usize) -> usize {
    id.to_be_bytes().get(level).map_or(0, |&byte| usize::from(byte) * 4)
}

fn head_of(block: &QuotaBlock) -> RecordsHead {
    RecordsHead::read_from_prefix(block).map(|(head, _)| head).unwrap_or_default()
}

fn set_head(block: &mut QuotaBlock, head: &RecordsHead) {
    put(block, 0, head.as_bytes());
}

impl<'a, B: QuotaBlocks + ?Sized> QuotaTree<'a, B> {
    /// Opens a file by its first block. Errors: `Corrupt` (not a quota file of this kind, or block
    /// numbers past its end).
    pub fn open(blocks: &'a mut B, kind: QuotaKind) -> Result<Self> {
        let (size, first) = (blocks.size()?, blocks.read_block(0)?);
        let Ok((header, _)) = Header::read_from_prefix(&first) else { return corrupt("no header".into()) };
        let (magic, version) = (header.magic.get(), header.version.get());
        if Some(&magic) != MAGICS.get(kind.index()) || version != VERSION {
            return corrupt(format!("magic {magic:#010x}, version {version}"));
        }
        let count = header.blocks.get();
        if count <= ROOT || u64::from(count) * BLOCK as u64 > size {
            return corrupt(format!("{count} blocks of {BLOCK} bytes in a file of {size} bytes"));
        }
        for (what, first) in [("of unused", header.free_block), ("with room", header.free_entry)] {
            if first.get() >= count || first.get() == ROOT {
                return corrupt(format!("the list of blocks {what} begins with block {first} of {count}"));
            }
        }
        Ok(Self { blocks, header })
    }

    /// The header in the file's first block.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Checks a reference: it must be to a block that can be referred to.
    fn expect_block(&self, number: u32) -> Result<u32> {
        let count = self.header.blocks.get();
        if number <= ROOT || number >= count {
            return corrupt(format!("a reference to block {number} of {count}"));
        }
        Ok(number)
    }

    fn way(&mut self, id: u32) -> Result<Way> {
        let mut way = Way { above: [ROOT, 0, 0, 0], levels: 1, records: None };
        let mut at = ROOT;
        for level in 0..DEPTH {
            let block = self.blocks.read_block(at)?;
            let below = word(&block, reference_at(id, level)).unwrap_or(0);
            if below == 0 {
                break;
            }
            at = self.expect_block(below)?;
            match way.above.get_mut(level + 1) {
                Some(place) => (*place, way.levels) = (at, level + 2),
                None => way.records = Some(at),
            }
        }
        Ok(way)
    }

    /// Finds the record of an id. Cost: five blocks.
    pub fn find(&mut self, id: u32) -> Result<Option<(RecordPlace, Record)>> {
        let Some(block) = self.way(id)?.records else { return Ok(None) };
        let bytes = self.blocks.read_block(block)?;
        match record_in(&bytes, id) {
            Some((place, record)) => Ok(Some((RecordPlace { block, place }, record))),
            None => corrupt(format!("no record of owner {id} in block {block}")),
        }
    }

    /// Changes a record in place.
    pub fn update(&mut self, at: RecordPlace, record: &Record) -> Result<()> {
        let mut bytes = self.blocks.read_block(at.block)?;
        put(&mut bytes, record_at(at.place), &record.encode());
        self.blocks.write_block(at.block, &bytes)
    }

    /// Adds a record for an id that the file does not have. Errors: also `NoSpace`; then nothing
    /// has changed. Cost: at most eleven blocks written; if blocks are needed, each unused block is
    /// read.
    pub fn insert(&mut self, record: &Record) -> Result<RecordPlace> {
        let way = self.way(record.id)?;
        if way.records.is_some() {
            return corrupt(format!("owner {} has a record already", record.id));
        }
        self.make_room_for(DEPTH - way.levels + usize::from(self.header.free_entry.get() == 0))?;
        let at = self.take_place(record)?;
        let mut below = at.block;
        for level in (way.levels..DEPTH).rev() {
            let number = self.take_block(&way)?;
            let mut block = [0; BLOCK];
            set_word(&mut block, reference_at(record.id, level), below);
            self.blocks.write_block(number, &block)?;
            below = number;
        }
        let last = way.levels - 1;
        let above = way.above.get(last).copied().unwrap_or(ROOT);
        let mut block = self.blocks.read_block(above)?;
        set_word(&mut block, reference_at(record.id, last), below);
        self.blocks.write_block(above, &block)?;
        self.write_header()?;
        Ok(at)
    }

    /// Removes the record of an id, if there is one. Cost: as [`QuotaTree::insert`].
    pub fn remove(&mut self, id: u32) -> Result<()> {
        let way = self.way(id)?;
        let Some(number) = way.records else { return Ok(()) };
        let mut bytes = self.blocks.read_block(number)?;
        let Some((place, _)) = record_in(&bytes, id) else {
            return corrupt(format!("no record of owner {id} in block {number}"));
        };
        put(&mut bytes, record_at(place), &[0; super::layout::RECORD]);
        let head = head_of(&bytes);
        let left = head.records.get().saturating_sub(1);
        set_head(&mut bytes, &RecordsHead { records: left.into(), ..head });
        if left == 0 {
            self.leave_room_list(number, &mut bytes)?;
            self.give_block(number)?;
        } else if usize::from(left) + 1 == RECORDS {
            self.enter_room_list(number, &mut bytes)?;
        } else {
            self.blocks.write_block(number, &bytes)?;
        }
        for level in (0..DEPTH).rev() {
            let above = way.above.get(level).copied().unwrap_or(ROOT);
            let mut block = self.blocks.read_block(above)?;
            set_word(&mut block, reference_at(id, level), 0);
            if above != ROOT && nandkit_units::is_zeroed(&block) {
                self.give_block(above)?;
                continue;
            }
            self.blocks.write_block(above, &block)?;
            break;
        }
        self.write_header()
    }

    /// All records that the tree leads to. Cost: reads each block of references once, and each
    /// block of records once per record.
    pub fn records(&mut self) -> Result<BTreeMap<u32, Record>> {
        let mut found = BTreeMap::new();
        for (id, block) in self.references()? {
            let Some((_, record)) = record_in(&self.blocks.read_block(block)?, id) else {
                return corrupt(format!("no record of owner {id} in block {block}"));
            };
            found.insert(id, record);
        }
        Ok(found)
    }

    /// Describes what the blocks of records contain beyond the records that the tree leads to, or a
    /// wrong count of records; `None` if there is nothing. Linux and fsck.f2fs follow the tree in
    /// some places, and in others take every nonzero place for a record (quota_tree.c,
    /// `find_free_dqentry`; quotaio_tree.c, `report_block`). Cost: as [`QuotaTree::records`], once
    /// per block.
    pub fn stray(&mut self) -> Result<Option<String>> {
        let mut led_to = BTreeMap::<u32, usize>::new();
        for (_, block) in self.references()? {
            *led_to.entry(block).or_default() += 1;
        }
        for (block, led_to) in led_to {
            let bytes = self.blocks.read_block(block)?;
            let taken = (0..RECORDS).filter(|&place| record_of(&bytes, place).is_some()).count();
            let counted = usize::from(head_of(&bytes).records.get());
            if taken != led_to || counted != led_to {
                return Ok(Some(format!(
                    "block {block} has {taken} records and counts {counted}; expected the {led_to} that the tree leads to"
                )));
            }
        }
        Ok(None)
    }

    /// All ids that the tree leads to, with their blocks; checks that no block has more ids than
    /// room.
    fn references(&mut self) -> Result<Vec<(u32, u32)>> {
        let mut seen = BTreeSet::from([ROOT]);
        let mut stack = vec![(ROOT, 0_u32, 0_usize)];
        let (mut found, mut ids) = (Vec::new(), BTreeMap::<u32, usize>::new());
        while let Some((number, prefix, level)) = stack.pop() {
            let block = self.blocks.read_block(number)?;
            for index in 0..BLOCK as u32 / 4 {
                let below = word(&block, index as usize * 4).unwrap_or(0);
                if below == 0 {
                    continue;
                }
                let (id, below) = (prefix << 8 | index, self.expect_block(below)?);
                if level + 1 == DEPTH {
                    let ids = ids.entry(below).or_default();
                    *ids += 1;
                    if *ids > RECORDS {
                        return corrupt(format!("more than {RECORDS} ids lead to block {below}"));
                    }
                    found.push((id, below));
                    continue;
                }
                if !seen.insert(below) {
                    return corrupt(format!("block {below} is referred to twice"));
                }
                stack.push((below, id, level + 1));
            }
        }
        Ok(found)
    }

    /// Makes sure that `wanted` unused blocks are available, from the list or past the end. Errors:
    /// `NoSpace`; `Corrupt` (the list is a cycle).
    fn make_room_for(&mut self, wanted: usize) -> Result<()> {
        // Follow the list to its end, however few blocks are needed: a cycle would hand out a block
        // twice.
        let (mut free, mut seen) = (self.header.free_block.get(), BTreeSet::new());
        while free != 0 && wanted > 0 {
            free = self.expect_block(free)?;
            if !seen.insert(free) {
                return corrupt(format!("the list of blocks without use comes back to block {free}"));
            }
            free = head_of(&self.blocks.read_block(free)?).next_free.get();
        }
        let (first, count) = (self.header.blocks.get(), wanted.saturating_sub(seen.len()) as u32);
        if count == 0 {
            return Ok(());
        }
        if first.checked_add(count).is_none() {
            return Err(FsError::new(ErrorKind::NoSpace, "a quota file of 2^32 blocks"));
        }
        self.blocks.make_room(first, count)
    }

    /// Takes an unused block; the caller writes its content.
    fn take_block(&mut self, way: &Way) -> Result<u32> {
        let number = self.header.free_block.get();
        if number == 0 {
            let number = self.header.blocks.get();
            self.header.blocks = number.saturating_add(1).into();
            return Ok(number);
        }
        let number = self.expect_block(number)?;
        if way.above.contains(&number) {
            return corrupt(format!("block {number} has references, and is in the list of blocks without use"));
        }
        self.header.free_block = head_of(&self.blocks.read_block(number)?).next_free;
        Ok(number)
    }

    /// Adds a block to the list of unused ones.
    fn give_block(&mut self, number: u32) -> Result<()> {
        let mut block = [0; BLOCK];
        set_head(&mut block, &RecordsHead { next_free: self.header.free_block, ..RecordsHead::default() });
        self.header.free_block = number.into();
        self.blocks.write_block(number, &block)
    }

    /// Puts a record into a block with room.
    fn take_place(&mut self, record: &Record) -> Result<RecordPlace> {
        let (number, mut bytes) = match self.header.free_entry.get() {
            0 => {
                let number = self.take_block(&Way { above: [ROOT, 0, 0, 0], levels: 1, records: None })?;
                self.header.free_entry = number.into();
                (number, [0; BLOCK])
            }
            number => {
                let number = self.expect_block(number)?;
                (number, self.blocks.read_block(number)?)
            }
        };
        let head = head_of(&bytes);
        let place = (0..RECORDS).find(|&place| record_of(&bytes, place).is_none());
        let Some(place) = place.filter(|_| usize::from(head.records.get()) < RECORDS) else {
            return corrupt(format!("block {number} is full, and in the list of blocks with room"));
        };
        let records = head.records.get() + 1;
        set_head(&mut bytes, &RecordsHead { records: records.into(), ..head });
        put(&mut bytes, record_at(place), &record.encode());
        match usize::from(records) {
            RECORDS => self.leave_room_list(number, &mut bytes)?,
            _ => self.blocks.write_block(number, &bytes)?,
        }
        Ok(RecordPlace { block: number, place })
    }

    /// Writes a block of records and removes it from the list of those with room.
    fn leave_room_list(&mut self, number: u32, bytes: &mut QuotaBlock) -> Result<()> {
        let head = head_of(bytes);
        let (next, previous) = (head.next_free.get(), head.previous_free.get());
        if next != 0 {
            self.change_head(next, |other| other.previous_free = previous.into())?;
        }
        match previous {
            0 if self.header.free_entry.get() == number => self.header.free_entry = next.into(),
            // A full block that loses its only record is in no list.
            0 => {}
            _ => self.change_head(previous, |other| other.next_free = next.into())?,
        }
        set_head(bytes, &RecordsHead { next_free: 0.into(), previous_free: 0.into(), ..head });
        self.blocks.write_block(number, bytes)
    }

    /// Writes a block of records and adds it to the front of the list of those with room.
    fn enter_room_list(&mut self, number: u32, bytes: &mut QuotaBlock) -> Result<()> {
        let first = self.header.free_entry;
        set_head(bytes, &RecordsHead { next_free: first, previous_free: 0.into(), ..head_of(bytes) });
        self.blocks.write_block(number, bytes)?;
        if first.get() != 0 {
            self.change_head(first.get(), |other| other.previous_free = number.into())?;
        }
        self.header.free_entry = number.into();
        Ok(())
    }

    fn change_head(&mut self, number: u32, change: impl FnOnce(&mut RecordsHead)) -> Result<()> {
        let number = self.expect_block(number)?;
        let mut bytes = self.blocks.read_block(number)?;
        let mut head = head_of(&bytes);
        change(&mut head);
        set_head(&mut bytes, &head);
        self.blocks.write_block(number, &bytes)
    }

    fn write_header(&mut self) -> Result<()> {
        let mut block = self.blocks.read_block(0)?;
        put(&mut block, 0, self.header.as_bytes());
        self.blocks.write_block(0, &block)
    }
}

fn record_of(block: &QuotaBlock, place: usize) -> Option<Record> {
    block.get(record_at(place)..).and_then(Record::decode)
}

fn record_in(block: &QuotaBlock, id: u32) -> Option<(usize, Record)> {
    (0..RECORDS).find_map(|place| Some((place, record_of(block, place).filter(|record| record.id == id)?)))
}

/// The usage of all ids.
pub fn usages(records: &BTreeMap<u32, Record>) -> BTreeMap<u32, Usage> {
    records.iter().map(|(&id, record)| (id, record.usage)).collect()
}

#[cfg(test)]
mod tests;
