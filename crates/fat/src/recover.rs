//! Repair at mount if the volume was not unmounted.
//!
//! A single walk over the tree decides what stays. Every change goes through the same phases as any
//! other batch, so a cut during the repair leaves a volume that the next repair can handle.
//! `docs/formats/fat.md` lists what a cut can leave. States that no cut can leave (a chain into a
//! free cluster, two joined chains) are repaired too, by shortening the later one, because other
//! systems leave them.

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Payload, ReadInto};
use nandkit_vfs::Result;
use zerocopy::little_endian::U32;

use crate::chain::Chain;
use crate::inode::ROOT;
use crate::layout::{SLOT_FREE, SLOT_SIZE, ShortEntry, case};
use crate::patch::{Patch, Phase};
use crate::survey::{Survey, Taken};
use crate::table::{Link, scan};
use crate::volume::MountedVolume;

/// The repairs made at mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Sectors of further FATs that differed from the first FAT and were overwritten with it.
    pub fat_sectors_copied: u32,
    /// Clusters that belonged to no file and were freed.
    pub lost_clusters: u32,
    /// The number of chains among them.
    pub lost_chains: u32,
    /// Files whose chain was longer than their size. The excess counts as lost clusters.
    pub chains_cut: u32,
    /// Files with fewer clusters than their size needs, which were truncated.
    pub shortened: u32,
    /// Removed entries: one of two that share their clusters, one of two with the same name, or a
    /// directory without a cluster.
    pub entries_removed: u32,
    /// Marks of unfinished renames that were removed.
    pub marks_cleared: u32,
    /// Long-name slots that belonged to no entry.
    pub orphan_slots: u32,
    /// ".." entries that referred to another directory.
    pub parents_corrected: u32,
}

impl RecoveryReport {
    /// The number of problems repaired; a lost chain counts once.
    pub const fn repairs(&self) -> u32 {
        self.fat_sectors_copied
            + self.lost_chains
            + self.chains_cut
            + self.shortened
            + self.entries_removed
            + self.marks_cleared
            + self.orphan_slots
            + self.parents_corrected
    }
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Repairs the volume and leaves it marked as in use.
    pub fn recover(&mut self) -> Result<RecoveryReport> {
        self.sectors.set_cause(Some(Cause::Recovery));
        self.marked_dirty = true;
        let mut report = RecoveryReport { fat_sectors_copied: self.copy_fats()?, ..RecoveryReport::default() };
        self.open_root();
        let mut survey = self.survey()?;
        survey.resolve();
        survey.taken = self.clusters_of_reachable(&survey)?;
        self.apply(&mut survey, &mut report)?;
        self.free_lost(&survey.taken, &mut report)?;
        self.commit()?;
        self.sectors.flush()?;
        self.sectors.set_cause(None);
        // The survey's inodes are no longer needed; a mount starts without any.
        self.inodes.clear();
        self.next_inode = ROOT + 1;
        Ok(report)
    }

    /// Overwrites every further FAT with the one that is used.
    fn copy_fats(&mut self) -> Result<u32> {
        let mut copied = 0;
        self.differing_fat_sectors(|volume, _, lba, right| {
            copied += 1;
            volume.sectors.write_device(lba, false, Payload::Bytes(right))
        })?;
        Ok(copied)
    }

    /// Calls back for each sector in which a further FAT differs from the one that is used, with
    /// the FAT's number (from 0), the sector's index, and the first FAT's content. Does nothing if
    /// only one FAT is in use.
    pub fn differing_fat_sectors(
        &mut self,
        mut visit: impl FnMut(&mut Self, u32, u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if self.geometry.active_fat.is_some() {
            return Ok(());
        }
        let size = u64::from(self.sectors.size());
        let sectors = self.geometry.fat_bytes() / size;
        for copy in 1..self.geometry.fats {
            let mut at = 0;
            while at < sectors {
                let count = (sectors - at).min(128);
                let mut main = vec![0; (count * size) as usize];
                let mut other = main.clone();
                let (from, to) = (self.geometry.fat_start(0) / size + at, self.geometry.fat_start(copy) / size + at);
                self.sectors.read_device(from, false, ReadInto::Bytes(&mut main))?;
                self.sectors.read_device(to, false, ReadInto::Bytes(&mut other))?;
                let pairs = main.chunks(size as usize).zip(other.chunks(size as usize));
                for (lba, (right, _)) in (to..).zip(pairs).filter(|(_, (right, wrong))| right != wrong) {
                    visit(self, copy, lba, right)?;
                }
                at += count;
            }
        }
        Ok(())
    }

    /// Follows a chain while it is valid and its clusters have no owner, and takes them. Returns
    /// it, and whether it ended properly.
    pub fn take_chain(&mut self, taken: &mut Taken, first: u32, most: u32) -> Result<(Chain, bool)> {
        let mut chain = Chain::default();
        let mut cluster = first;
        while self.geometry.holds(cluster) && chain.len() < most && !taken.has(cluster) {
            let link = self.link(cluster)?;
            if matches!(link, Link::Free | Link::Bad) {
                break;
            }
            taken.take(cluster);
            chain.push(cluster);
            match link {
                Link::Next(next) => cluster = next,
                _ => return Ok((chain, true)),
            }
        }
        Ok((chain, false))
    }

    /// The clusters of the directories that stay.
    fn clusters_of_reachable(&self, survey: &Survey) -> Result<Taken> {
        let mut taken = Taken::new(self.geometry.clusters);
        for (directory, _) in survey.directories.iter().zip(survey.reachable()).filter(|(_, reached)| *reached) {
            let chain = self.inode(directory.inode)?.chain.as_ref();
            chain.into_iter().flat_map(Chain::iter).for_each(|cluster| taken.take(cluster));
        }
        Ok(taken)
    }

    /// Adds the survey's decisions to the batch, directory by directory from the root.
    fn apply(&mut self, survey: &mut Survey, report: &mut RecoveryReport) -> Result<()> {
        let mut queue = vec![0];
        while let Some(at) = queue.pop() {
            let Some(directory) = survey.directories.get(at) else { continue };
            let (number, parent) = (directory.inode, directory.parent);
            let orphans = directory.orphans.clone();
            let (dot_dot, entries) = (directory.dot_dot, directory.entries.clone());
            report.orphan_slots += orphans.len() as u32;
            for slot in orphans {
                self.wipe(number, slot)?;
            }
            let parent_inode = survey.directories.get(parent).map_or(ROOT, |parent| parent.inode);
            self.correct_parent(number, parent_inode, dot_dot, report)?;
            if directory_cut(survey, at) {
                let last = self.inode(number)?.chain.as_ref().and_then(Chain::last);
                if let Some(last) = last {
                    self.set_link(last, Link::End)?;
                }
            }
            for index in entries {
                if let Some(below) = self.apply_entry(survey, number, index, report)? {
                    queue.push(below);
                }
            }
        }
        Ok(())
    }

    /// Repairs an entry; returns the subdirectory that it refers to.
    fn apply_entry(
        &mut self,
        survey: &mut Survey,
        directory: u64,
        index: usize,
        report: &mut RecoveryReport,
    ) -> Result<Option<usize>> {
        let Some(found) = survey.entries.get(index) else { return Ok(None) };
        let below = found.below;
        let without_cluster = found.raw.is_directory() && below.is_none();
        if found.gone || without_cluster {
            report.entries_removed += 1;
            let (first, slot) = (found.first, found.slot);
            for slot in first..=slot {
                self.wipe(directory, slot)?;
            }
            return Ok(None);
        }
        let (slot, old) = (found.slot, found.raw);
        let mut raw = old;
        if raw.case_flags & case::MOVING != 0 {
            report.marks_cleared += 1;
            raw.case_flags &= !case::MOVING_EMPTY;
            if found.moved_to.is_some() {
                // The fields that held the target of an empty file.
                raw.set_cluster(0);
                raw.size = U32::ZERO;
            }
        }
        if !raw.is_directory() {
            raw = self.fit_file(&mut survey.taken, raw, report)?;
        }
        if raw != old {
            let (lba, offset) = self.slot_position(directory, slot)?;
            self.sectors.patch(lba, Patch::new(offset, &raw.bytes(), Phase::Publish))?;
        }
        Ok(below)
    }

    /// Makes a file's size and chain agree: cuts a longer chain, and reduces a size that exceeds
    /// the chain.
    fn fit_file(&mut self, taken: &mut Taken, mut raw: ShortEntry, report: &mut RecoveryReport) -> Result<ShortEntry> {
        let cluster_size = u64::from(self.geometry.cluster_size());
        let needed = u64::from(raw.size.get()).div_ceil(cluster_size) as u32;
        let (chain, whole) = match raw.cluster() {
            0 => (Chain::default(), true),
            first => self.take_chain(taken, first, needed)?,
        };
        if chain.len() < needed {
            raw.size = U32::new((u64::from(chain.len()) * cluster_size) as u32);
            report.shortened += 1;
        }
        if chain.len() == 0 {
            raw.set_cluster(0);
        }
        if !whole && let Some(last) = chain.last() {
            // The rest has no owner, and is freed with the lost clusters.
            report.chains_cut += u32::from(chain.len() == needed);
            self.set_link(last, Link::End)?;
        }
        Ok(raw)
    }

    fn wipe(&mut self, directory: u64, slot: u32) -> Result<()> {
        let (lba, offset) = self.slot_position(directory, slot)?;
        let mut bytes = [0; SLOT_SIZE as usize];
        self.sectors.read(lba, offset, &mut bytes)?;
        bytes[0] = SLOT_FREE;
        self.sectors.patch(lba, Patch::new(offset, &bytes, Phase::Publish))
    }

    fn correct_parent(
        &mut self,
        directory: u64,
        parent: u64,
        dot_dot: Option<(u32, ShortEntry)>,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        let Some((slot, mut raw)) = dot_dot.filter(|_| directory != ROOT) else { return Ok(()) };
        let right = self.parent_cluster(parent)?;
        if raw.cluster() != right {
            raw.set_cluster(right);
            report.parents_corrected += 1;
            let (lba, offset) = self.slot_position(directory, slot)?;
            self.sectors.patch(lba, Patch::new(offset, &raw.bytes(), Phase::Publish))?;
        }
        Ok(())
    }

    /// Frees the clusters without an owner.
    fn free_lost(&mut self, taken: &Taken, report: &mut RecoveryReport) -> Result<()> {
        let copy = self.geometry.active_fat.unwrap_or(0);
        let mut lost = Vec::new();
        let mut followed = Taken::new(self.geometry.clusters);
        let sectors = &self.sectors;
        let geometry = &self.geometry;
        scan(
            geometry,
            copy,
            sectors.size(),
            &|lba, into| sectors.read_device(lba, false, into),
            &mut |cluster, link| {
                if matches!(link, Link::Next(_) | Link::End) && !taken.has(cluster) {
                    lost.push(cluster);
                    if let Link::Next(next) = link
                        && geometry.holds(next)
                    {
                        followed.take(next);
                    }
                }
            },
        )?;
        report.lost_clusters += lost.len() as u32;
        // A chain counts once: by the cluster that no lost cluster leads to.
        report.lost_chains += lost.iter().filter(|&&cluster| !followed.has(cluster)).count() as u32;
        for cluster in lost {
            self.set_link(cluster, Link::Free)?;
        }
        Ok(())
    }
}

/// Whether a directory's chain did not end properly.
fn directory_cut(survey: &Survey, at: usize) -> bool {
    survey.directories.get(at).is_some_and(|directory| !directory.whole)
}
