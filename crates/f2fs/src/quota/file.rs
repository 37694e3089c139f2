//! Builds whole quota files from records and reads them (f2fs-mkfs.md, "Quota file").

use std::collections::BTreeMap;

use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use super::layout::{BLOCK, DEPTH, GRACE, Header, MAGICS, RECORDS, ROOT, Record, RecordsHead, VERSION, record_at};
use super::tree::{QuotaBlock, QuotaBlocks, QuotaTree};
use super::{QuotaKind, Usages};
use crate::encode::put;
use crate::layout::{set_word, word};

/// The blocks of a file while records are added.
struct Tree {
    bytes: Vec<u8>,
    /// The block with room for records, and how many it has.
    open: Option<(u32, usize)>,
}

/// A quota file with this usage and no limits. Cost: as [`of_records`].
pub fn of_usages(kind: QuotaKind, usages: &Usages) -> Vec<u8> {
    of_records(kind, (GRACE, GRACE), usages.iter().map(|(&id, &usage)| Record { id, usage, ..Record::default() }))
}

/// A quota file with these records, with distinct ids, and grace times of bytes and inodes in
/// seconds. Cost: linear in the ids; as many 1 KiB blocks as the tree of ids has.
pub fn of_records(
    kind: QuotaKind,
    (bytes_grace, inodes_grace): (u32, u32),
    records: impl Iterator<Item = Record>,
) -> Vec<u8> {
    let mut tree = Tree { bytes: vec![0; 2 * BLOCK], open: None };
    records.for_each(|record| tree.add(&record));
    let Tree { mut bytes, open } = tree;
    let header = Header {
        magic: MAGICS.get(kind.index()).copied().unwrap_or(0).into(),
        version: VERSION.into(),
        bytes_grace: bytes_grace.into(),
        inodes_grace: inodes_grace.into(),
        flags: 0.into(),
        blocks: ((bytes.len() / BLOCK) as u32).into(),
        free_block: 0.into(),
        free_entry: open.filter(|(_, count)| *count < RECORDS).map_or(0, |(block, _)| block).into(),
    };
    put(&mut bytes, 0, header.as_bytes());
    bytes
}

impl Tree {
    fn block(&mut self) -> u32 {
        let number = (self.bytes.len() / BLOCK) as u32;
        self.bytes.resize(self.bytes.len() + BLOCK, 0);
        number
    }

    fn add(&mut self, record: &Record) {
        // The last level refers to the block of the record.
        let mut above = ROOT;
        for byte in record.id.to_be_bytes().into_iter().take(DEPTH - 1) {
            let at = above as usize * BLOCK + usize::from(byte) * 4;
            above = match word(&self.bytes, at).unwrap_or(0) {
                0 => {
                    let block = self.block();
                    set_word(&mut self.bytes, at, block);
                    block
                }
                block => block,
            };
        }
        let (block, count) = match self.open {
            Some((block, count)) if count < RECORDS => (block, count),
            _ => (self.block(), 0),
        };
        set_word(&mut self.bytes, above as usize * BLOCK + usize::from(record.id as u8) * 4, block);
        self.open = Some((block, count + 1));
        let start = block as usize * BLOCK;
        let head = RecordsHead { records: (count as u16 + 1).into(), ..RecordsHead::default() };
        put(&mut self.bytes, start, head.as_bytes());
        put(&mut self.bytes, start + record_at(count), &record.encode());
    }
}

/// The bytes of a quota file, for reading or changing. It grows without limit and reads as zeroes
/// past its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaBytes(pub Vec<u8>);

impl QuotaBlocks for QuotaBytes {
    fn size(&mut self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_block(&mut self, number: u32) -> Result<QuotaBlock> {
        let mut block = [0; BLOCK];
        let bytes = self.0.get(number as usize * BLOCK..).unwrap_or_default();
        block.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Ok(block)
    }

    fn write_block(&mut self, number: u32, block: &QuotaBlock) -> Result<()> {
        let start = number as usize * BLOCK;
        if self.0.len() < start + BLOCK {
            self.0.resize(start + BLOCK, 0);
        }
        put(&mut self.0, start, block);
        Ok(())
    }

    fn make_room(&mut self, first: u32, count: u32) -> Result<()> {
        match first.checked_add(count) {
            Some(_) => Ok(()),
            None => Err(FsError::new(ErrorKind::NoSpace, "a quota file of 2^32 blocks")),
        }
    }
}

/// All records of a quota file, which must contain nothing else. Errors: `Corrupt`. Cost: reads
/// each block of references twice.
pub fn records(kind: QuotaKind, bytes: Vec<u8>) -> Result<BTreeMap<u32, Record>> {
    let mut bytes = QuotaBytes(bytes);
    let mut tree = QuotaTree::open(&mut bytes, kind)?;
    let records = tree.records()?;
    match tree.stray()? {
        None => Ok(records),
        Some(detail) => Err(FsError::new(ErrorKind::Corrupt, detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Usage;
    use crate::quota::tree::usages as usages_of;

    #[test]
    fn the_file_of_an_empty_volume_is_that_of_mkfs() {
        let bytes = of_usages(QuotaKind::User, &Usages::from([(0, Usage { inodes: 1, bytes: 4096 })]));
        let word = |at| word(&bytes, at).unwrap();
        assert_eq!(bytes.len(), 6144);
        assert_eq!([0, 4, 8, 12, 16, 20, 24, 28].map(word), [0xD9C0_1F11, 1, 604_800, 604_800, 0, 6, 0, 5]);
        assert_eq!([1024, 2048, 3072, 4096, 5128, 5136, 5160, 5184].map(word), [2, 3, 4, 5, 1, 0, 1, 4096]);
    }

    #[test]
    fn many_ids_share_blocks() {
        let usages: Usages = (0..40).map(|id| (id * 1000, Usage { inodes: 1, bytes: 0 })).collect();
        let bytes = of_usages(QuotaKind::Project, &usages);
        let blocks = bytes.len() / BLOCK;
        assert_eq!(word(&bytes, 20).unwrap() as usize, blocks);
        // Ids 0, 1000, ... 39000 in blocks of 14; one reference per distinct value of the third
        // byte (153), but no more than ids.
        let full = bytes.chunks(BLOCK).skip(2).filter(|block| block[8] == RECORDS as u8 && block[9..16] == [0; 7]);
        assert_eq!(full.count(), 2);
    }

    #[test]
    fn records_are_those_that_were_written() {
        let usage = |id: u32| Usage { inodes: u64::from(id % 7 + 1), bytes: u64::from(id) * 4096 };
        let usages: Usages = (0..3000).map(|number| number * 7919).map(|id| (id, usage(id))).collect();
        let bytes = of_usages(QuotaKind::Group, &usages);
        let read = |kind, bytes: &[u8]| records(kind, bytes.to_vec()).map(|records| usages_of(&records));
        assert_eq!(read(QuotaKind::Group, &bytes).unwrap(), usages);
        assert!(read(QuotaKind::User, &bytes).unwrap_err().detail.contains("magic"));
        let mut looped = bytes.clone();
        let first = word(&looped, BLOCK).unwrap();
        set_word(&mut looped, BLOCK + 4, first);
        assert!(read(QuotaKind::Group, &looped).unwrap_err().detail.contains("twice"));
        assert!(read(QuotaKind::Group, &bytes[..5000]).is_err());
    }
}
