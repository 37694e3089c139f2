//! Quota files of a new volume (f2fs-mkfs.md, "Quota file"; the tree of blocks is that of Linux's fs/quota/quota_tree.c, version 2 revision 1).

use std::collections::BTreeMap;

use crate::encode::put;

/// Bytes of a block of the tree.
pub(crate) const BLOCK: usize = 1024;
pub(crate) const MAGICS: [u32; 3] = [0xD9C0_1F11, 0xD9C0_1927, 0xD9C0_3F14];
pub(crate) const VERSION: u32 = 1;
/// Seconds of grace: a week.
const GRACE: u32 = 604_800;
/// Levels of references above the blocks of records, eight bits of the id each.
const DEPTH: usize = 4;
/// Bytes of a record, and of the head of a block of them.
pub(crate) const RECORD: usize = 72;
pub(crate) const RECORDS_HEAD: usize = 16;
/// Records of a block.
pub(crate) const RECORDS: usize = (BLOCK - RECORDS_HEAD) / RECORD;
/// Where the number of records stands in the head.
const RECORDS_COUNT: usize = 8;

/// What an id uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Inodes.
    pub inodes: u64,
    /// Bytes of blocks, the inodes' own not counted.
    pub bytes: u64,
}

/// Usage by id.
pub type Usages = BTreeMap<u32, Usage>;

/// The blocks of a file while records are put into it.
struct Tree {
    bytes: Vec<u8>,
    /// Block with room for records, and how many it has.
    open: Option<(u32, usize)>,
}

/// The quota file of a kind (0 user, 1 group, 2 project). Cost: linear in the ids; as many blocks of 1 KiB as the ids' tree has.
pub fn file(kind: usize, usages: &Usages) -> Vec<u8> {
    let mut tree = Tree { bytes: vec![0; 2 * BLOCK], open: None };
    for (id, usage) in usages {
        tree.add(*id, usage);
    }
    let Tree { mut bytes, open } = tree;
    let blocks = (bytes.len() / BLOCK) as u32;
    let free_entry = open.filter(|(_, count)| *count < RECORDS).map_or(0, |(block, _)| block);
    let head = [MAGICS.get(kind).copied().unwrap_or(0), VERSION, GRACE, GRACE, 0, blocks, 0, free_entry];
    put(&mut bytes, 0, &head.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    bytes
}

impl Tree {
    fn block(&mut self) -> u32 {
        let number = (self.bytes.len() / BLOCK) as u32;
        self.bytes.resize(self.bytes.len() + BLOCK, 0);
        number
    }

    fn word(&self, at: usize) -> u32 {
        crate::layout::word(&self.bytes, at).unwrap_or(0)
    }

    fn add(&mut self, id: u32, usage: &Usage) {
        // Block 1 is the tree's root; the last level refers to the block of the record.
        let mut above = 1;
        for byte in id.to_be_bytes().into_iter().take(DEPTH - 1) {
            let at = above as usize * BLOCK + usize::from(byte) * 4;
            above = match self.word(at) {
                0 => {
                    let block = self.block();
                    put(&mut self.bytes, at, &block.to_le_bytes());
                    block
                }
                block => block,
            };
        }
        let (block, count) = match self.open {
            Some((block, count)) if count < RECORDS => (block, count),
            _ => (self.block(), 0),
        };
        let at = above as usize * BLOCK + usize::from(id as u8) * 4;
        put(&mut self.bytes, at, &block.to_le_bytes());
        self.open = Some((block, count + 1));
        let start = block as usize * BLOCK;
        put(&mut self.bytes, start + RECORDS_COUNT, &(count as u16 + 1).to_le_bytes());
        let fields = [u64::from(id), 0, 0, usage.inodes, 0, 0, usage.bytes, 0, 0];
        let record: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        put(&mut self.bytes, start + RECORDS_HEAD + count * RECORD, &record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_empty_volume_is_that_of_mkfs() {
        let bytes = file(0, &Usages::from([(0, Usage { inodes: 1, bytes: 4096 })]));
        let word = |at| crate::layout::word(&bytes, at).unwrap();
        assert_eq!(bytes.len(), 6144);
        assert_eq!([0, 4, 8, 12, 16, 20, 24, 28].map(word), [0xD9C0_1F11, 1, 604_800, 604_800, 0, 6, 0, 5]);
        assert_eq!([1024, 2048, 3072, 4096, 5128, 5136, 5160, 5184].map(word), [2, 3, 4, 5, 1, 0, 1, 4096]);
    }

    #[test]
    fn many_ids_share_blocks() {
        let usages: Usages = (0..40).map(|id| (id * 1000, Usage { inodes: 1, bytes: 0 })).collect();
        let bytes = file(2, &usages);
        let blocks = bytes.len() / BLOCK;
        assert_eq!(crate::layout::word(&bytes, 20).unwrap() as usize, blocks);
        // Ids 0, 1000, ... 39000 in blocks of 14; a reference for each of the 153 values of the third byte that occur, but no more than ids.
        let full = bytes.chunks(BLOCK).skip(2).filter(|block| block[8] == RECORDS as u8 && block[9..16] == [0; 7]);
        assert_eq!(full.count(), 2);
    }
}
