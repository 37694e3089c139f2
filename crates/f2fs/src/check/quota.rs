//! Quota files: what they say that each owner uses, held against what was met (f2fs-mkfs.md, "Quota file"; fs/quota/quota_tree.c, version 2 revision 1).

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;

use super::Check;
use super::batch::{self, BATCH};
use super::inodes::state;
use super::report::of;
use crate::findings::FindingKind;
use crate::ids::{BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::checkpoint::flag;
use crate::layout::{Superblock, word};
use crate::mkfs::quota::{BLOCK, MAGICS, RECORD, RECORDS, RECORDS_HEAD, Usage, Usages, VERSION};

/// Levels of references above the records.
const DEPTH: usize = 4;
/// Larger quota files are not looked at: they would be those of a million owners.
const FILE_MAX: u64 = 64 << 20;
const KINDS: [&str; 3] = ["user", "group", "project"];
/// Where a record has its inodes and its bytes.
const INODES_AT: usize = 24;
const BYTES_AT: usize = 48;

/// A quota file's content is here.
#[derive(Debug)]
pub(super) struct QuotaPages {
    pub nid: NodeId,
    pub size: u64,
    pub pages: Vec<(u32, BlockAddress)>,
}

/// What is gathered for the quotas, where the volume has any.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    /// By kind, as the superblock has its inodes.
    pub usages: [Usages; 3],
    pub files: Vec<QuotaPages>,
    pub wanted: bool,
}

impl Check<'_> {
    /// Counts an inode for its owners. Quota files themselves count for nobody.
    pub fn count_usage(&mut self, inode: &Inode) {
        if !self.quotas.wanted || self.inodes.get(inode.nid).has(state::QUOTA) {
            return;
        }
        let head = &inode.head;
        let project = inode.extra.and_then(|extra| extra.project_id(self.geometry.features)).unwrap_or(0);
        let owners = [head.uid.get(), head.gid.get(), project];
        let bytes = head.blocks.get().saturating_sub(1).saturating_mul(self.geometry.block_size() as u64);
        for (usages, owner) in self.quotas.usages.iter_mut().zip(owners) {
            let usage: &mut Usage = usages.entry(owner).or_default();
            usage.inodes += 1;
            usage.bytes = usage.bytes.saturating_add(bytes);
        }
    }

    /// Holds each quota file against what was counted.
    pub fn check_quotas(&mut self, superblock: &Superblock) {
        for file in std::mem::take(&mut self.quotas.files) {
            let kind = superblock.quota_inodes.iter().position(|field| field.get() == file.nid.0).unwrap_or(0);
            let said = match self.quota_bytes(&file).and_then(|bytes| records(kind, &bytes)) {
                Ok(said) => said,
                Err(detail) => {
                    self.report
                        .fault(FindingKind::Quota, of(file.nid), || format!("the quotas of {}s: {detail}", name(kind)));
                    continue;
                }
            };
            let counted = self.quotas.usages.get_mut(kind).map(std::mem::take).unwrap_or_default();
            // Linux says itself where they are not to be trusted; and where not all was met, nothing follows.
            let trusted = self.whole && !self.state.head.has(flag::QUOTA_NEEDS_FSCK);
            let owners: BTreeSet<u32> = said.keys().chain(counted.keys()).copied().collect();
            for owner in owners {
                let zero = Usage::default();
                let (have, want) = (said.get(&owner).unwrap_or(&zero), counted.get(&owner).unwrap_or(&zero));
                if have == want {
                    continue;
                }
                let detail = || {
                    let (have_bytes, want_bytes) = (have.bytes, want.bytes);
                    format!(
                        "{} {owner}: {} inodes and {have_bytes} bytes by the quota file; expected {} and {want_bytes}",
                        name(kind),
                        have.inodes,
                        want.inodes
                    )
                };
                match trusted {
                    true => self.report.fault(FindingKind::Quota, of(file.nid), detail),
                    false => self.report.harmless(FindingKind::Quota, of(file.nid), detail),
                }
            }
        }
    }

    fn quota_bytes(&mut self, file: &QuotaPages) -> Result<Vec<u8>, String> {
        let size = self.geometry.block_size();
        if file.size > FILE_MAX {
            return Err(format!("{} bytes; up to {FILE_MAX} are looked at", file.size));
        }
        let mut bytes = vec![0; file.size as usize];
        for pages in file.pages.chunks(BATCH) {
            let wanted = pages.iter().map(|(page, at)| (*at, *page)).collect();
            for had in batch::read(self.blocks, Cause::Metadata, wanted) {
                let block = had.block.map_err(|error| error.to_string())?;
                let start = had.tag as usize * size;
                let place = bytes.get_mut(start..).unwrap_or_default();
                let length = place.len().min(size);
                place.get_mut(..length).unwrap_or_default().copy_from_slice(block.get(..length).unwrap_or_default());
            }
        }
        Ok(bytes)
    }
}

fn name(kind: usize) -> &'static str {
    KINDS.get(kind).copied().unwrap_or("owner")
}

fn double(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(word(bytes, at)?) | u64::from(word(bytes, at + 4)?) << 32)
}

/// The records of a quota file, by the tree that leads to them. The error says what is wrong with it. Cost: each block of references is looked at once.
fn records(kind: usize, bytes: &[u8]) -> Result<Usages, String> {
    let (magic, version) = (word(bytes, 0).unwrap_or(0), word(bytes, 4).unwrap_or(0));
    if Some(&magic) != MAGICS.get(kind) || version != VERSION {
        return Err(format!("magic {magic:#010x}, version {version}"));
    }
    let blocks = bytes.len().div_ceil(BLOCK);
    let mut seen = BTreeSet::from([1]);
    let mut stack = vec![(1_usize, 0_u32, 0_usize)];
    let mut found = BTreeMap::new();
    while let Some((block, prefix, depth)) = stack.pop() {
        for index in 0..256_u32 {
            let below = word(bytes, block * BLOCK + index as usize * 4).unwrap_or(0) as usize;
            if below == 0 {
                continue;
            }
            let owner = prefix << 8 | index;
            if below >= blocks {
                return Err(format!("a reference to block {below} of {blocks}"));
            }
            if depth + 1 < DEPTH {
                if !seen.insert(below) {
                    return Err(format!("block {below} is referred to twice"));
                }
                stack.push((below, owner, depth + 1));
                continue;
            }
            let usage =
                record(bytes, below, owner).ok_or_else(|| format!("no record of owner {owner} in block {below}"))?;
            found.insert(owner, usage);
        }
    }
    Ok(found)
}

fn record(bytes: &[u8], block: usize, owner: u32) -> Option<Usage> {
    (0..RECORDS).find_map(|number| {
        let record = bytes.get(block * BLOCK + RECORDS_HEAD + number * RECORD..)?.get(..RECORD)?;
        // A place that is all zero is free, and not the record of owner 0, which uses something.
        let is_it = word(record, 0) == Some(owner) && record.iter().any(|&byte| byte != 0);
        is_it.then_some(Usage { inodes: double(record, INODES_AT)?, bytes: double(record, BYTES_AT)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_that_were_written() {
        let usage = |id: u32| Usage { inodes: u64::from(id % 7 + 1), bytes: u64::from(id) * 4096 };
        let usages: Usages = (0..3000).map(|number| number * 7919).map(|id| (id, usage(id))).collect();
        let bytes = crate::mkfs::quota::file(1, &usages);
        assert_eq!(records(1, &bytes), Ok(usages));
        assert!(records(0, &bytes).unwrap_err().contains("magic"));
        let mut looped = bytes.clone();
        looped[BLOCK..BLOCK + 4].copy_from_slice(&1_u32.to_le_bytes());
        assert!(records(1, &looped).unwrap_err().contains("twice"));
        assert!(records(1, &bytes[..5000]).is_err());
    }
}
