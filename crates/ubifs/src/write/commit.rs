//! The commit: what the journal holds becomes part of the index on flash.
//!
//! Until the master nodes are written, the flash has all that the last commit and the journal since
//! need (Linux `fs/ubifs/commit.c`).

use nandkit_units::Cause;
use nandkit_vfs::Result;

use super::buffers::HEADS;
use crate::mount::Ubifs;

impl Ubifs {
    /// Makes the index on flash that in memory. Errors: `NoSpace`, `Device`: nothing can be written
    /// afterwards, and what was synced is in the journal.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.flush_inodes(false)?;
        let done = self.commit_steps();
        self.or_broken(done)
    }

    fn commit_steps(&mut self) -> Result<()> {
        self.flush_heads()?;
        let old_buds: Vec<u32> = self.writer()?.log.buds.keys().copied().collect();
        let tail = {
            let Self { lebs, writer: Some(writer), .. } = self else { return Ok(()) };
            writer.start_commit(lebs)?
        };
        let commit = self.writer()?.commit.saturating_add(1);
        self.count_obsolete_index()?;
        self.write_index()?;
        let unused = self.drop_unused_index()?;
        let unused_lpt = self.write_properties()?;
        self.write_orphans(commit)?;
        self.writer()?.commit = commit;
        self.update_master(tail)?;
        self.write_master(true)?;
        // The new index counts: what the old one needed is free.
        let log = self.writer()?.log.lebs_before(tail);
        for leb in log.into_iter().chain(unused).chain(unused_lpt) {
            self.lebs.writer()?.unmap(leb)?;
        }
        let heads: [Option<u32>; HEADS] = std::array::from_fn(|head| self.lebs.head(head).leb);
        let writer = self.writer()?;
        writer.log.tail = tail;
        for leb in old_buds.into_iter().filter(|leb| !heads.contains(&Some(*leb))) {
            writer.space.take(leb, false);
        }
        writer.old_index.clear();
        writer.is_changed = false;
        writer.wants_commit = false;
        writer.counters.commits += 1;
        self.clear_orphans()
    }

    /// LEBs of the index with nothing in use: the new properties say that they are empty, and they
    /// are unmapped once the commit is complete.
    fn drop_unused_index(&mut self) -> Result<Vec<u32>> {
        let writer = self.writer()?;
        let unused = writer.space.freeable(true);
        unused.iter().for_each(|leb| writer.space.set_empty(*leb));
        Ok(unused)
    }

    fn write_properties(&mut self) -> Result<Vec<u32>> {
        let count = self.superblock.lsave_count.get() as usize;
        let Self { lebs, writer: Some(writer), .. } = self else { return Ok(Vec::new()) };
        // Linux starts with LEBs that it may want soon; any of the main area will do.
        let saved = vec![writer.areas.main_first; count];
        writer.lpt.commit(&mut writer.space, &saved, lebs.writer_for(Cause::Checkpoint)?)
    }
}
