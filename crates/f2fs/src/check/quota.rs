//! Checks the usage in quota files against what was counted (f2fs.md, "Quota files").

use std::collections::BTreeSet;

use nandkit_units::Cause;

use super::Check;
use super::batch::{self, BATCH};
use super::inodes::state;
use super::report::of;
use crate::findings::FindingKind;
use crate::ids::{BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::Superblock;
use crate::layout::checkpoint::flag;
use crate::quota::{QuotaKind, Share, Usage, Usages, file, tree};

/// Larger quota files are skipped: they would hold a million owners.
const FILE_MAX: u64 = 64 << 20;

/// A quota file whose content can be read.
#[derive(Debug)]
pub(super) struct QuotaPages {
    pub nid: NodeId,
    pub size: u64,
    pub pages: Vec<(u32, BlockAddress)>,
}

impl QuotaPages {
    /// The kind of quota, according to the superblock.
    pub fn kind(&self, superblock: &Superblock) -> QuotaKind {
        let is_it =
            |kind: &QuotaKind| superblock.quota_inodes.get(kind.index()).is_some_and(|field| field.get() == self.nid.0);
        QuotaKind::ALL.into_iter().find(is_it).unwrap_or(QuotaKind::User)
    }
}

/// Usage counted for quotas, if the volume has any.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    /// By kind, in the order of the superblock's quota inodes.
    pub usages: [Usages; 3],
    pub files: Vec<QuotaPages>,
    pub wanted: bool,
    /// Whether a file differs, or could not be compared.
    pub differ: bool,
}

impl Check<'_> {
    /// Counts an inode for its owners. Quota files count for no owner.
    pub fn count_usage(&mut self, inode: &Inode) {
        if !self.quotas.wanted || self.inodes.get(inode.nid).has(state::QUOTA) {
            return;
        }
        let Some(share) = Share::of_block(&inode.block, self.geometry.features) else { return };
        for (usages, owner) in self.quotas.usages.iter_mut().zip(share.owners) {
            let usage: &mut Usage = usages.entry(owner).or_default();
            usage.inodes += 1;
            usage.bytes = usage.bytes.saturating_add(share.usage.bytes);
        }
    }

    /// Compares each quota file with the counts.
    pub fn check_quotas(&mut self, superblock: &Superblock) {
        let files = superblock.quota_inodes.iter().filter(|field| field.get() != 0).count();
        self.quotas.differ = !self.whole || self.quotas.files.len() != files;
        for pages in std::mem::take(&mut self.quotas.files) {
            let kind = pages.kind(superblock);
            let records = self.quota_bytes(&pages);
            let records = records.and_then(|bytes| file::records(kind, bytes).map_err(|error| error.detail));
            let said = match records {
                Ok(records) => tree::usages(&records),
                Err(detail) => {
                    self.quotas.differ = true;
                    self.report.fault(FindingKind::Quota, of(pages.nid), || {
                        format!("the quotas of {}s: {detail}", kind.name())
                    });
                    continue;
                }
            };
            let counted = self.quotas.usages.get_mut(kind.index()).map(std::mem::take).unwrap_or_default();
            // Not if Linux marked them as untrusted, or if not everything could be counted.
            let trusted = self.whole && !self.state.head.has(flag::QUOTA_NEEDS_FSCK);
            let owners: BTreeSet<u32> = said.keys().chain(counted.keys()).copied().collect();
            for owner in owners {
                let zero = Usage::default();
                let (have, want) = (said.get(&owner).unwrap_or(&zero), counted.get(&owner).unwrap_or(&zero));
                if have == want {
                    continue;
                }
                self.quotas.differ = true;
                let detail = || {
                    let (have_bytes, want_bytes) = (have.bytes, want.bytes);
                    format!(
                        "{} {owner}: {} inodes and {have_bytes} bytes by the quota file; expected {} and {want_bytes}",
                        kind.name(),
                        have.inodes,
                        want.inodes
                    )
                };
                match trusted {
                    true => self.report.fault(FindingKind::Quota, of(pages.nid), detail),
                    false => self.report.harmless(FindingKind::Quota, of(pages.nid), detail),
                }
            }
        }
    }

    pub(super) fn quota_bytes(&mut self, file: &QuotaPages) -> Result<Vec<u8>, String> {
        let size = self.geometry.block_size();
        if file.size > FILE_MAX {
            return Err(format!("{} bytes; files up to {FILE_MAX} are checked", file.size));
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
