//! The repair's view of the tree: reads every directory once, and decides which of several entries
//! stays.
//!
//! An interrupted rename leaves two entries. If they share their first cluster, that identifies
//! them; an empty file has none, so its old entry is marked with the position of the new one (see
//! `rename.rs`). A file that was removed and created again in one batch leaves two entries with one
//! name.

use std::collections::HashMap;

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::FromBytes;

use crate::inode::{Inode, ROOT};
use crate::layout::{LongEntry, SLOT_END, SLOT_FREE, SLOT_SIZE, SLOTS_MAX, ShortEntry, case};
use crate::names::{self, LongNameReader};
use crate::rename::MoveMark;
use crate::volume::MountedVolume;

/// The clusters with an owner.
#[derive(Debug, Default)]
pub struct Taken(Vec<u64>);

impl Taken {
    /// An empty set for `clusters` clusters.
    pub fn new(clusters: u32) -> Self {
        Self(vec![0; (clusters as usize + 2).div_ceil(64)])
    }

    /// Whether a cluster has an owner.
    pub fn has(&self, cluster: u32) -> bool {
        self.0.get(cluster as usize / 64).is_some_and(|word| word >> (cluster % 64) & 1 == 1)
    }

    /// Records that a cluster has an owner.
    pub fn take(&mut self, cluster: u32) {
        if let Some(word) = self.0.get_mut(cluster as usize / 64) {
            *word |= 1 << (cluster % 64);
        }
    }
}

/// A directory found by the survey.
#[derive(Debug)]
pub struct FoundDirectory {
    /// Its inode number during the repair.
    pub inode: u64,
    /// The directory in which it was first found, as an index.
    pub parent: usize,
    /// The first entry that refers to it, as an index. `None` for the root.
    named_by: Option<usize>,
    /// Whether its chain ended properly.
    pub whole: bool,
    /// Slots to erase: parts of long names without an entry, and everything after the end.
    pub orphans: Vec<u32>,
    /// Its ".." entry, if any.
    pub dot_dot: Option<(u32, ShortEntry)>,
    /// Its entries, as indexes.
    pub entries: Vec<usize>,
}

/// An entry found by the survey.
#[derive(Debug)]
pub struct SurveyedEntry {
    /// The directory that contains it, as an index.
    pub directory: usize,
    /// Slot of the short entry.
    pub slot: u32,
    /// The first of its slots.
    pub first: u32,
    /// The entry.
    pub raw: ShortEntry,
    /// The key for lookups.
    key: String,
    /// Sector and byte offset of the slot.
    at: (u64, u32),
    /// The subdirectory that it refers to, as an index.
    pub below: Option<usize>,
    /// The target, if it is marked as a moving empty file.
    pub moved_to: Option<MoveMark>,
    /// Whether it will be removed.
    pub gone: bool,
}

impl SurveyedEntry {
    /// The name in the form used for comparison.
    pub fn key(&self) -> &str {
        &self.key
    }

    fn marked(&self) -> bool {
        self.raw.case_flags & case::MOVING != 0
    }
}

/// The tree as on the medium.
#[derive(Debug)]
pub struct Survey {
    /// All directories, the root first.
    pub directories: Vec<FoundDirectory>,
    /// All entries.
    pub entries: Vec<SurveyedEntry>,
    /// Clusters with an owner: those of directories.
    pub taken: Taken,
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Reads every directory once.
    pub fn survey(&mut self) -> Result<Survey> {
        let mut survey =
            Survey { directories: Vec::new(), entries: Vec::new(), taken: Taken::new(self.geometry.clusters) };
        let mut starts: HashMap<u32, usize> = HashMap::new();
        let whole = match self.geometry.root_cluster {
            0 => true,
            cluster => self
                .adopt_chain(&mut survey, ROOT, cluster)?
                .ok_or_else(|| FsError::new(ErrorKind::Corrupt, "the root directory's first cluster is not in use"))?,
        };
        survey.directories.push(FoundDirectory::new(ROOT, 0, None, whole));
        let mut at = 0;
        while at < survey.directories.len() {
            self.read_slots(&mut survey, at)?;
            let entries = survey.directories.get(at).map(|directory| directory.entries.clone()).unwrap_or_default();
            for index in entries {
                self.open_below(&mut survey, &mut starts, at, index)?;
            }
            at += 1;
        }
        self.follow_marks(&mut survey)?;
        Ok(survey)
    }

    fn adopt_chain(&mut self, survey: &mut Survey, number: u64, first: u32) -> Result<Option<bool>> {
        let most = SLOTS_MAX / (self.geometry.cluster_size() / SLOT_SIZE);
        let (chain, whole) = self.take_chain(&mut survey.taken, first, most.max(1))?;
        if chain.len() == 0 {
            return Ok(None);
        }
        self.inode_mut(number)?.chain = Some(chain);
        Ok(Some(whole))
    }

    /// Opens the directory of an entry, unless it was found before or has no cluster.
    fn open_below(
        &mut self,
        survey: &mut Survey,
        starts: &mut HashMap<u32, usize>,
        at: usize,
        index: usize,
    ) -> Result<()> {
        let Some(found) = survey.entries.get(index).filter(|found| found.raw.is_directory()) else { return Ok(()) };
        let raw = found.raw;
        let known = starts.get(&raw.cluster()).copied();
        let below = match known {
            Some(below) => Some(below),
            None => {
                let parent = survey.directories.get(at).map_or(ROOT, |directory| directory.inode);
                let number = self.add_inode(Inode::new(parent, 0, raw, None));
                match self.adopt_chain(survey, number, raw.cluster())? {
                    Some(whole) => {
                        survey.directories.push(FoundDirectory::new(number, at, Some(index), whole));
                        let below = survey.directories.len() - 1;
                        starts.insert(raw.cluster(), below);
                        Some(below)
                    }
                    None => None,
                }
            }
        };
        if let Some(found) = survey.entries.get_mut(index) {
            found.below = below;
        }
        Ok(())
    }

    fn read_slots(&mut self, survey: &mut Survey, at: usize) -> Result<()> {
        let number = survey.directories.get(at).map_or(ROOT, |directory| directory.inode);
        let slots = if number == ROOT && self.geometry.root_entries > 0 {
            self.geometry.root_entries
        } else {
            let clusters = self.inode(number)?.chain.as_ref().map_or(0, |chain| chain.len());
            (u64::from(clusters) * u64::from(self.geometry.cluster_size() / SLOT_SIZE)).min(u64::from(SLOTS_MAX)) as u32
        };
        let mut long = LongNameReader::default();
        let mut waiting: Vec<u32> = Vec::new();
        let mut orphans: Vec<u32> = Vec::new();
        let mut ended = false;
        for slot in 0..slots {
            let place = self.slot_position(number, slot)?;
            let mut bytes = [0; SLOT_SIZE as usize];
            self.sectors.read(place.0, place.1, &mut bytes)?;
            let Ok(raw) = ShortEntry::read_from_bytes(&bytes) else { continue };
            let unused = matches!(raw.name[0], SLOT_END | SLOT_FREE);
            ended |= raw.name[0] == SLOT_END;
            if ended || unused {
                orphans.append(&mut waiting);
                long.clear();
                if !unused {
                    orphans.push(slot);
                }
                continue;
            }
            if raw.is_long_name() {
                let Ok(entry) = LongEntry::read_from_bytes(&bytes) else { continue };
                if entry.order & LongEntry::LAST != 0 || !long.expects(&entry) {
                    orphans.append(&mut waiting);
                }
                if long.take(slot, &entry) {
                    waiting.push(slot)
                } else {
                    orphans.push(slot)
                }
                continue;
            }
            let name = long.finish(&raw.name);
            if name.is_none() {
                orphans.append(&mut waiting);
            }
            waiting.clear();
            let dots = raw.name == *b".          " || raw.name == *b"..         ";
            if raw.is_label() || dots {
                if let (true, Some(directory)) = (raw.name[1] == b'.', survey.directories.get_mut(at)) {
                    directory.dot_dot = Some((slot, raw));
                }
                continue;
            }
            let shown = name.and_then(|(units, first)| names::show_long(&units).map(|name| (name, first)));
            let (name, first) = shown.unwrap_or_else(|| (names::show_short(&raw, self.options.code_page), slot));
            let moved_to = MoveMark::of(&raw, self.sectors.size());
            let key = names::fold(&name);
            let found =
                SurveyedEntry { directory: at, slot, first, raw, key, at: place, below: None, moved_to, gone: false };
            survey.entries.push(found);
            if let Some(directory) = survey.directories.get_mut(at) {
                directory.entries.push(survey.entries.len() - 1);
            }
        }
        orphans.append(&mut waiting);
        if let Some(directory) = survey.directories.get_mut(at) {
            directory.orphans = orphans;
        }
        Ok(())
    }

    /// Drops the marks of empty files whose new entry was never written: the target's slot is then
    /// unchanged.
    fn follow_marks(&mut self, survey: &mut Survey) -> Result<()> {
        let limit = self.geometry.total_sectors
            * u64::from(self.geometry.sector_size / self.sectors.size().min(self.geometry.sector_size));
        for found in survey.entries.iter_mut().filter(|found| found.moved_to.is_some()) {
            let Some(mark) = found.moved_to else { continue };
            let mut bytes = [0; SLOT_SIZE as usize];
            if mark.lba < limit {
                self.sectors.read(mark.lba, mark.offset, &mut bytes)?;
            }
            let arrived = mark.lba < limit && MoveMark::digest(&bytes) != mark.digest;
            if !arrived {
                // Kept: `moved_to` still tells that the fields must be cleared, and no entry is at
                // this position.
                found.moved_to = Some(MoveMark { lba: u64::MAX, ..mark });
            }
        }
        Ok(())
    }
}

impl FoundDirectory {
    fn new(inode: u64, parent: usize, named_by: Option<usize>, whole: bool) -> Self {
        Self { inode, parent, named_by, whole, orphans: Vec::new(), dot_dot: None, entries: Vec::new() }
    }
}

impl Survey {
    /// A directory's path for messages, ending in a slash. Cost: that of the text, which has at
    /// most 256 names.
    pub fn path(&self, directory: usize) -> String {
        let mut names = Vec::new();
        let mut at = directory;
        while at != 0 && names.len() < 256 {
            let directory = self.directories.get(at);
            let entry = directory.and_then(|directory| self.entries.get(directory.named_by?));
            names.push(entry.map_or("?", |found| found.key()));
            at = directory.map_or(0, |directory| directory.parent);
        }
        names.reverse();
        if names.is_empty() { "/".into() } else { format!("/{}/", names.join("/")) }
    }

    /// Decides which entries go, and the parent of each directory that stays.
    pub fn resolve(&mut self) {
        let partners = self.partners();
        self.resolve_names(&partners);
        let reachable = self.reachable();
        self.resolve_pairs(&partners, &reachable);
        self.hang_directories();
    }

    /// Groups the entries of one file, by first cluster or by a mark. Returns the group of each
    /// entry as a list of indexes.
    fn partners(&self) -> Vec<Vec<usize>> {
        let mut groups: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut places: HashMap<(u64, u32), usize> = HashMap::new();
        for (index, found) in self.entries.iter().enumerate() {
            places.insert(found.at, index);
            if found.moved_to.is_none() && found.raw.cluster() != 0 {
                groups.entry(found.raw.cluster()).or_default().push(index);
            }
        }
        let mut lists: Vec<Vec<usize>> = groups.into_values().filter(|group| group.len() > 1).collect();
        for (index, found) in self.entries.iter().enumerate() {
            let target = found.moved_to.and_then(|mark| places.get(&(mark.lba, mark.offset)));
            lists.extend(target.map(|&target| vec![target, index]));
        }
        // The order of a hash map must not influence anything.
        lists.sort();
        lists
    }

    /// Of two entries with one name in a directory, removes the one whose file has another entry;
    /// else the later one.
    fn resolve_names(&mut self, partners: &[Vec<usize>]) {
        let mut group_of: HashMap<usize, usize> = HashMap::new();
        for (group, members) in partners.iter().enumerate() {
            group_of.extend(members.iter().map(|&member| (member, group)));
        }
        let mut left: Vec<usize> = partners.iter().map(Vec::len).collect();
        let mut names: HashMap<(usize, String), usize> = HashMap::new();
        for index in 0..self.entries.len() {
            let Some(found) = self.entries.get(index) else { continue };
            let name = (found.directory, found.key.clone());
            let Some(&earlier) = names.get(&name) else {
                names.insert(name, index);
                continue;
            };
            let spare = |index: usize| group_of.get(&index).and_then(|&group| left.get(group)).map(|&left| left > 1);
            let going = match (spare(index), spare(earlier)) {
                (Some(true), _) => index,
                (_, Some(true)) => earlier,
                (None, _) => index,
                (_, None) => earlier,
                _ => index,
            };
            if let Some(count) = group_of.get(&going).and_then(|&group| left.get_mut(group)) {
                *count = count.saturating_sub(1);
            }
            if going == earlier {
                names.insert(name, index);
            }
            if let Some(found) = self.entries.get_mut(going) {
                found.gone = true;
            }
        }
    }

    /// Which directories are reachable through entries that stay.
    pub fn reachable(&self) -> Vec<bool> {
        let mut reached = vec![false; self.directories.len()];
        let mut queue = vec![0];
        while let Some(at) = queue.pop() {
            match reached.get_mut(at) {
                Some(reached) if !*reached => *reached = true,
                _ => continue,
            }
            let entries = self.directories.get(at).map(|directory| directory.entries.as_slice()).unwrap_or_default();
            let staying = entries.iter().filter_map(|&index| self.entries.get(index)).filter(|found| !found.gone);
            queue.extend(staying.filter_map(|found| found.below));
        }
        reached
    }

    /// Keeps one entry of each file: an unmarked one, else the first.
    fn resolve_pairs(&mut self, partners: &[Vec<usize>], reachable: &[bool]) {
        for group in partners {
            let candidate = |index: &&usize| {
                self.entries
                    .get(**index)
                    .is_some_and(|found| !found.gone && reachable.get(found.directory) == Some(&true))
            };
            let staying: Vec<usize> = group.iter().filter(candidate).copied().collect();
            let unmarked = staying.iter().find(|&&index| self.entries.get(index).is_some_and(|found| !found.marked()));
            let Some(&kept) = unmarked.or(staying.first()) else { continue };
            for index in staying.into_iter().filter(|&index| index != kept) {
                if let Some(found) = self.entries.get_mut(index) {
                    found.gone = true;
                }
            }
        }
    }

    /// Makes the directory of the remaining entry the parent of each directory.
    fn hang_directories(&mut self) {
        for found in self.entries.iter().filter(|found| !found.gone) {
            if let Some(directory) = found.below.and_then(|below| self.directories.get_mut(below)) {
                directory.parent = found.directory;
            }
        }
    }
}
