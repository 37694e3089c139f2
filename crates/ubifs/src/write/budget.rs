//! Budgets: whether a change fits before anything of it is written.
//!
//! Source of the formulas: Linux `fs/ubifs/budget.c`.

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::buffers::HEADS;
use super::collect::Collected;
use crate::layout::{BLOCK_SIZE, HEADER_SIZE};
use crate::mount::Ubifs;

/// The fewest LEBs for the index.
const INDEX_LEBS_MIN: u64 = 6;
/// Bytes of an inode's node that is held back.
const INODE_BYTES: u64 = 160;
/// Bytes of a data node with a block that is not compressed.
pub(super) const DATA_NODE_MAX: u32 = BLOCK_SIZE + 48;
/// Commits that a search for space makes before a change is refused.
const COMMITS_MAX: u32 = 16;

/// How much a change may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What remains for files.
    Growth,
    /// What is kept for deletions too.
    Deletion,
}

impl Ubifs {
    /// Bytes of the largest index node.
    fn index_node_max(&self) -> u64 {
        (HEADER_SIZE as u64 + 4 + 20 * u64::from(self.superblock.fanout.get())).next_multiple_of(8)
    }

    /// The LEBs that the index may need: three times its bytes, since it is written anew beside
    /// itself, and its LEBs have gaps (Linux `ubifs_calc_min_idx_lebs`).
    fn index_lebs_min(&self, growth: u64) -> u64 {
        let leb_size = u64::from(self.superblock.leb_size.get());
        // The end of a LEB may hold no node.
        let held = leb_size.saturating_sub(self.index_node_max()).max(1);
        (((self.tree.size() + growth) * 3).div_ceil(held) + 1).max(INDEX_LEBS_MIN)
    }

    /// Empty LEBs that the index may still need.
    pub(super) fn reserved_for_index(&self) -> u32 {
        let has = self.writer.as_deref().map_or(0, |writer| writer.space.sums().index_lebs);
        u32::try_from(self.index_lebs_min(0)).unwrap_or(u32::MAX).saturating_sub(has)
    }

    /// Bytes that files can take (Linux `ubifs_calc_available`): what is not in use, without what
    /// the index, the collector, the heads and a deletion need, and without pieces that may hold
    /// no node.
    fn available(&self, growth: u64) -> u64 {
        let Some(writer) = self.writer.as_deref() else { return 0 };
        let (sums, limits) = (writer.space.sums(), writer.space.limits());
        let leb_size = u64::from(limits.leb_size);
        let index = self.index_lebs_min(growth);
        let lebs = index + 1 + (HEADS as u64 - 1) + 1;
        let more = u64::from(sums.index_lebs).saturating_sub(index);
        let pages = self.pages.len() * u64::from(DATA_NODE_MAX);
        let pending = self.pending.len() as u64 * INODE_BYTES + pages;
        let taken = sums.used + lebs * leb_size + sums.dead + sums.dark + more * u64::from(limits.dark) + pending;
        writer.space.bytes().saturating_sub(taken)
    }

    /// Makes sure that a change of so many bytes and index entries fits. Errors: `NoSpace`, with
    /// nothing changed.
    pub(super) fn budget(&mut self, bytes: u64, entries: u64, purpose: Purpose) -> Result<()> {
        let growth = |fs: &Self| (entries + fs.pages.new_blocks()) * fs.index_node_max();
        let deletion = match purpose {
            Purpose::Deletion => 2 * u64::from(self.superblock.leb_size.get()),
            Purpose::Growth => 0,
        };
        let reserved = self.superblock.reserved_size.get();
        let fits = |fs: &Self| {
            let needed = bytes.saturating_add(if purpose == Purpose::Growth { reserved } else { 0 });
            let growth = growth(fs);
            fs.available(growth) + deletion >= needed && fs.index_fits(growth)
        };
        let full = || Err(FsError::new(ErrorKind::NoSpace, "the volume is full"));
        // Each collection makes less dirty: the search ends.
        let searches = 2 * self.writer()?.areas.leb_count;
        let mut commits = 0;
        for _ in 0..searches {
            if fits(self) || purpose == Purpose::Deletion {
                return Ok(());
            }
            if self.writer()?.is_full {
                return full();
            }
            // What waits may take less than its budget (Linux `shrink_liability`).
            if self.pages.len() > 0 {
                self.flush_all_pages()?;
                continue;
            }
            // Pieces are gathered first; a commit frees what the index had (Linux
            // `make_free_space`).
            let is_commit = !self.has_room_to_collect()?
                || match self.collect(true)? {
                    Collected::Nothing if commits > 0 => break,
                    Collected::Nothing | Collected::Index => true,
                    Collected::Freed(_) | Collected::Moved => false,
                };
            if is_commit {
                commits += 1;
                if commits > COMMITS_MAX {
                    break;
                }
                self.commit()?;
            }
        }
        if fits(self) {
            return Ok(());
        }
        self.writer()?.is_full = true;
        full()
    }

    /// Whether the log has room for what a collection writes.
    fn has_room_to_collect(&mut self) -> Result<bool> {
        Ok(!self.writer()?.log.is_full(4))
    }

    /// Whether the LEBs that the index may still need are there (Linux `do_budget_space`).
    fn index_fits(&self, growth: u64) -> bool {
        let Some(writer) = self.writer.as_deref() else { return false };
        let sums = writer.space.sums();
        let wanted = self.index_lebs_min(growth).saturating_sub(sums.index_lebs.into());
        wanted <= u64::from(writer.space.empty_left()) + u64::from(writer.space.freeable_count())
    }

    /// Bytes of files that fit, as statfs tells them: each block takes a node of its own, and the
    /// index grows with it (Linux `ubifs_reported_space`).
    pub(crate) fn reported_free(&self) -> u64 {
        let fanout = u64::from(self.superblock.fanout.get());
        let half = if fanout > 3 { fanout / 2 } else { 2 };
        let cost = u64::from(DATA_NODE_MAX) + self.index_node_max() * 3 / half.saturating_sub(1).max(1);
        let growth = self.pages.new_blocks() * self.index_node_max();
        self.available(growth).saturating_sub(self.superblock.reserved_size.get()) / cost * u64::from(BLOCK_SIZE)
    }
}
