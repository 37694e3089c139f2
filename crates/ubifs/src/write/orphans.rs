//! Inodes without a name that are open, as the orphan area lists them after a commit.
//!
//! Source of the layout: Linux `fs/ubifs/orphan.c`.

use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::encode::{node, pad};
use crate::layout::{HEADER_SIZE, ORPHANS_LAST, node_type};
use crate::mount::Ubifs;

impl Ubifs {
    /// Most inodes that the orphan area lists.
    pub(super) fn orphans_max(&self) -> usize {
        let per_leb = (self.superblock.leb_size.get() as usize - HEADER_SIZE - 8) / 8;
        per_leb * self.superblock.orphan_lebs.get() as usize
    }

    /// Lists the orphans of the commit that is being made, each LEB as a whole. Those of the last
    /// commit that are gone since are known by the journal.
    pub(super) fn write_orphans(&mut self, commit: u64) -> Result<()> {
        let per_leb = (self.superblock.leb_size.get() as usize - HEADER_SIZE - 8) / 8;
        let writer = self.writer()?;
        if writer.orphans.is_empty() {
            return Ok(());
        }
        let orphans: Vec<u64> = writer.orphans.iter().copied().map(u64::from).collect();
        let (first, unit) = (writer.areas.orphans_first, writer.unit as usize);
        let count = orphans.chunks(per_leb).count() as u32;
        for (index, part) in (0..count).zip(orphans.chunks(per_leb)) {
            let number = if index + 1 == count { commit | ORPHANS_LAST } else { commit };
            let body: Vec<u8> =
                std::iter::once(number).chain(part.iter().copied()).flat_map(u64::to_le_bytes).collect();
            let mut bytes = Vec::new();
            let sequence = self.writer()?.next_sequence();
            node(node_type::ORPHANS, sequence, &[&body], &mut bytes);
            let end = bytes.len().next_multiple_of(unit);
            pad(&mut bytes, end);
            self.lebs.writer_for(Cause::Checkpoint)?.change(first + index, &bytes)?;
        }
        self.writer()?.has_orphan_nodes = true;
        Ok(())
    }

    /// Unmaps the orphan area once a commit without orphans is complete.
    pub(super) fn clear_orphans(&mut self) -> Result<()> {
        let writer = self.writer()?;
        if !writer.orphans.is_empty() || !writer.has_orphan_nodes {
            return Ok(());
        }
        writer.has_orphan_nodes = false;
        for leb in writer.areas.orphans_first..writer.areas.main_first {
            self.lebs.writer()?.unmap(leb)?;
        }
        Ok(())
    }
}
