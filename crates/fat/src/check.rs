//! The checker: says what is wrong with a volume, and changes nothing.

use std::collections::{HashMap, HashSet};
use std::fmt;

use nandkit_block::BlockDevice;
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::Result;

use crate::inode::Inode;
use crate::layout::{ShortEntry, attribute, case};
use crate::options::MountOptions;
use crate::survey::{Survey, Taken};
use crate::table::{Link, scan};
use crate::volume::{ROOT, Volume};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// The volume was not unmounted: the next mount repairs it.
    NotUnmounted,
    /// A further FAT differs from the one that is read.
    FatCopiesDiffer,
    /// A chain leads outside the volume, into a free or bad cluster, into another file, or in a circle.
    BrokenChain,
    /// Two entries have clusters in common.
    SharedClusters,
    /// Clusters in use that belong to no file.
    LostClusters,
    /// A file has fewer or more clusters than its size needs.
    SizeMismatch,
    /// Two entries of a directory have the same name.
    DuplicateName,
    /// Long-name slots without an entry, or used slots behind the end of a directory.
    OrphanSlots,
    /// The ".." entry is missing or names another directory.
    WrongDots,
    /// An entry has the mark of an unfinished rename.
    UnfinishedRename,
    /// FSInfo's number of free clusters is not what the FAT says. A hint only, but fsck.vfat reports it.
    FreeCountWrong,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// Where, in words.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.detail)
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Everything that is wrong, in the order of the check.
    pub findings: Vec<Finding>,
    /// Files.
    pub files: u64,
    /// Directories, the root included.
    pub directories: u64,
    /// Clusters of files and directories.
    pub clusters_used: u32,
    /// Free clusters.
    pub clusters_free: u32,
    /// Clusters marked bad.
    pub clusters_bad: u32,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn found(&mut self, kind: FindingKind, detail: impl Into<String>) {
        self.findings.push(Finding { kind, detail: detail.into() });
    }
}

/// Checks a volume: chains, cross links, lost clusters, copies of the FAT, entries, long names, FSInfo. Reads only.
///
/// Errors: a boot sector of which no layout can be made (`Corrupt`), a root directory without clusters, `Device`. Cost: reads all FATs and directories once.
pub fn check<D: BlockDevice>(device: &mut D, clock: &Clock) -> Result<CheckReport> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let (mut volume, _) = Volume::mount(device, clock.clone(), options)?;
    let mut report = CheckReport::default();
    if volume.is_dirty()? {
        report.found(FindingKind::NotUnmounted, "the boot sector or FAT entry 1 says that the volume is in use");
    }
    volume.check_copies(&mut report)?;
    let mut root = ShortEntry { attributes: attribute::DIRECTORY, ..ShortEntry::default() };
    root.set_cluster(volume.geometry.root_cluster);
    volume.inodes.insert(ROOT, Inode::new(ROOT, 0, root, None));
    let mut survey = volume.survey()?;
    volume.check_directories(&survey, &mut report)?;
    let mut taken = std::mem::take(&mut survey.taken);
    volume.check_files(&survey, &mut taken, &mut report)?;
    volume.check_table(&taken, &mut report)?;
    Ok(report)
}

impl<D: BlockDevice> Volume<D> {
    fn check_copies(&mut self, report: &mut CheckReport) -> Result<()> {
        if self.geometry.active_fat.is_some() {
            return Ok(());
        }
        let size = u64::from(self.sectors.size());
        let sectors = self.geometry.fat_bytes() / size;
        for copy in 1..self.geometry.fats {
            let mut at = 0;
            let mut differing = 0u64;
            while at < sectors {
                let count = (sectors - at).min(128);
                let mut main = vec![0; (count * size) as usize];
                let mut other = main.clone();
                self.sectors.read_device(self.geometry.fat_start(0) / size + at, false, ReadInto::Bytes(&mut main))?;
                let lba = self.geometry.fat_start(copy) / size + at;
                self.sectors.read_device(lba, false, ReadInto::Bytes(&mut other))?;
                let pairs = main.chunks(size as usize).zip(other.chunks(size as usize));
                differing += pairs.filter(|(left, right)| left != right).count() as u64;
                at += count;
            }
            if differing > 0 {
                report.found(
                    FindingKind::FatCopiesDiffer,
                    format!("FAT {} differs from FAT 1 in {differing} sectors", copy + 1),
                );
            }
        }
        Ok(())
    }

    fn check_directories(&mut self, survey: &Survey, report: &mut CheckReport) -> Result<()> {
        report.directories = survey.directories.len() as u64;
        for (at, directory) in survey.directories.iter().enumerate() {
            let path = || survey.path(at);
            if !directory.whole {
                report.found(FindingKind::BrokenChain, format!("directory {}: its chain has no proper end", path()));
            }
            if !directory.orphans.is_empty() {
                report.found(FindingKind::OrphanSlots, format!("directory {}: slots {:?}", path(), directory.orphans));
            }
            if directory.inode != ROOT {
                let parent = survey.directories.get(directory.parent).map_or(ROOT, |parent| parent.inode);
                let right = self.parent_cluster(parent)?;
                match directory.dot_dot {
                    Some((_, raw)) if raw.cluster() == right => {}
                    _ => report
                        .found(FindingKind::WrongDots, format!("directory {}: \"..\" is not cluster {right}", path())),
                }
            }
            let mut names = HashSet::new();
            for found in directory.entries.iter().filter_map(|&index| survey.entries.get(index)) {
                if !names.insert(found.key()) {
                    report.found(FindingKind::DuplicateName, format!("directory {}: {:?} twice", path(), found.key()));
                }
                if found.raw.case_flags & case::MOVING != 0 {
                    report.found(FindingKind::UnfinishedRename, format!("directory {}: {:?}", path(), found.key()));
                }
            }
        }
        Ok(())
    }

    fn check_files(&mut self, survey: &Survey, taken: &mut Taken, report: &mut CheckReport) -> Result<()> {
        let cluster_size = u64::from(self.geometry.cluster_size());
        let mut directories: HashMap<usize, usize> = HashMap::new();
        for (index, found) in survey.entries.iter().enumerate() {
            let name = || format!("{}{:?}", survey.path(found.directory), found.key());
            if found.raw.is_directory() {
                match found.below {
                    None => {
                        report.found(FindingKind::BrokenChain, format!("directory {}: no cluster of its own", name()))
                    }
                    Some(below) if directories.insert(below, index).is_some() => {
                        report.found(FindingKind::SharedClusters, format!("directory {} has two entries", name()));
                    }
                    Some(_) => {}
                }
                continue;
            }
            report.files += 1;
            let size = found.raw.size.get();
            let first = found.raw.cluster();
            if first == 0 {
                if size != 0 {
                    report.found(FindingKind::SizeMismatch, format!("{}: {size} bytes without a cluster", name()));
                }
                continue;
            }
            if taken.has(first) {
                report.found(
                    FindingKind::SharedClusters,
                    format!("{}: cluster {first} belongs to another entry", name()),
                );
                continue;
            }
            let (chain, whole) = self.take_chain(taken, first, u32::MAX)?;
            if !whole {
                let at = chain.last().unwrap_or(first);
                report.found(FindingKind::BrokenChain, format!("{}: no proper end after cluster {at}", name()));
            } else if u64::from(chain.len()) != u64::from(size).div_ceil(cluster_size) {
                let detail = format!("{}: {size} bytes in {} clusters of {cluster_size}", name(), chain.len());
                report.found(FindingKind::SizeMismatch, detail);
            }
        }
        Ok(())
    }

    fn check_table(&mut self, taken: &Taken, report: &mut CheckReport) -> Result<()> {
        let copy = self.geometry.active_fat.unwrap_or(0);
        let (mut lost, mut first_lost) = (0u32, None);
        let sectors = &self.sectors;
        let read = |lba, into: ReadInto<'_>| sectors.read_device(lba, false, into);
        scan(&self.geometry, copy, sectors.size(), &read, &mut |cluster, link| match link {
            Link::Free => report.clusters_free += 1,
            Link::Bad => report.clusters_bad += 1,
            _ if taken.has(cluster) => report.clusters_used += 1,
            _ => {
                lost += 1;
                first_lost.get_or_insert(cluster);
            }
        })?;
        if let Some(first) = first_lost {
            report.found(FindingKind::LostClusters, format!("{lost} clusters, the first is {first}"));
        }
        if let Some(info) = self.read_fs_info()? {
            let said = info.free.get();
            if said != u32::MAX && said != report.clusters_free {
                let detail = format!("FSInfo says {said} free clusters, the FAT {}", report.clusters_free);
                report.found(FindingKind::FreeCountWrong, detail);
            }
        }
        Ok(())
    }
}
