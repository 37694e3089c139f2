//! The checker: reports what is wrong with a volume, and changes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use nandkit_block::BlockDevice;
use nandkit_codec::code_page::CodePage;
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::Result;
use nandkit_vfs::check::{Finding, Findings, Kind, Report};

use crate::inode::ROOT;
use crate::layout::case;
use crate::mount::read_geometry;
use crate::options::MountOptions;
use crate::survey::{Survey, Taken};
use crate::table::{Link, scan};
use crate::volume::MountedVolume;

/// What can be wrong with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// The volume was not unmounted: the next mount will repair it.
    NotUnmounted,
    /// A further FAT differs from the one that is used.
    FatCopiesDiffer,
    /// A chain leads outside the volume, into a free or bad cluster, into another file, or into a
    /// loop.
    BrokenChain,
    /// Two entries share clusters.
    SharedClusters,
    /// Clusters in use that belong to no file.
    LostClusters,
    /// A file has fewer or more clusters than its size needs.
    SizeMismatch,
    /// Two entries of a directory have the same name.
    DuplicateName,
    /// Long-name slots without an entry, or used slots after the end of a directory.
    OrphanSlots,
    /// The ".." entry is missing or refers to another directory.
    WrongDots,
    /// An entry has the mark of an unfinished rename.
    UnfinishedRename,
    /// FSInfo and the FAT disagree on the number of free clusters; it is only a hint, but fsck.vfat
    /// reports it.
    FreeCountWrong,
}

impl Kind for FindingKind {
    fn name(self) -> &'static str {
        match self {
            Self::NotUnmounted => "NotUnmounted",
            Self::FatCopiesDiffer => "FatCopiesDiffer",
            Self::BrokenChain => "BrokenChain",
            Self::SharedClusters => "SharedClusters",
            Self::LostClusters => "LostClusters",
            Self::SizeMismatch => "SizeMismatch",
            Self::DuplicateName => "DuplicateName",
            Self::OrphanSlots => "OrphanSlots",
            Self::WrongDots => "WrongDots",
            Self::UnfinishedRename => "UnfinishedRename",
            Self::FreeCountWrong => "FreeCountWrong",
        }
    }
}

/// A report under construction.
#[derive(Debug, Default)]
struct Draft {
    findings: Findings,
    files: u64,
    /// Number of directories, including the root.
    directories: u64,
    /// Clusters of files and directories.
    clusters_used: u32,
    clusters_free: u32,
    clusters_bad: u32,
}

/// Most slots of a directory that a finding lists.
const SLOTS_LISTED: usize = 8;

impl Draft {
    /// Records a finding. The text is built only if the finding will be listed.
    fn found(&mut self, kind: FindingKind, detail: impl FnOnce() -> String) {
        self.findings.add_with(kind.name(), kind.severity(), || Finding::new(kind, detail()));
    }

    fn finish(self) -> Report {
        let counts = vec![
            ("files", self.files),
            ("directories", self.directories),
            ("clusters_used", self.clusters_used.into()),
            ("clusters_free", self.clusters_free.into()),
            ("clusters_bad", self.clusters_bad.into()),
        ];
        Report { findings: self.findings.into_list(), counts, notes: Vec::new() }
    }
}

/// Checks a volume: chains, cross links, lost clusters, copies of the FAT, entries, long names,
/// FSInfo. Only reads. Short names are decoded with this code page.
///
/// The findings are in the order of the check. Counts: `files`, `directories` (including the root),
/// `clusters_used`, `clusters_free`, `clusters_bad`.
///
/// Errors: `Corrupt` for a boot sector that yields no layout, has no signature, or describes a
/// volume longer than the device, and for a root directory without clusters; `Device`. Cost: reads
/// all FATs and directories once.
pub fn check<D: BlockDevice>(device: &mut D, clock: &Clock, code_page: CodePage) -> Result<Report> {
    // A missing part cannot be sound, although the rest is readable.
    read_geometry(&device, clock)?;
    let options = MountOptions { read_only: true, code_page, ..MountOptions::default() };
    let (mut volume, _) = MountedVolume::mount(device, clock.clone(), options)?;
    let mut report = Draft::default();
    if volume.is_dirty()? {
        let detail = || "the boot sector or FAT entry 1 says that the volume is in use".to_string();
        report.found(FindingKind::NotUnmounted, detail);
    }
    volume.check_copies(&mut report)?;
    volume.open_root();
    let mut survey = volume.survey()?;
    volume.check_directories(&survey, &mut report)?;
    let mut taken = std::mem::take(&mut survey.taken);
    volume.check_files(&survey, &mut taken, &mut report)?;
    volume.check_table(&taken, &mut report)?;
    Ok(report.finish())
}

/// Describes a directory's orphaned slots, listing the first ones.
fn slots_told(path: &str, slots: &[u32]) -> String {
    let listed = slots.get(..SLOTS_LISTED).unwrap_or(slots);
    match slots.len() - listed.len() {
        0 => format!("directory {path}: slots {listed:?}"),
        more => format!("directory {path}: slots {listed:?} and {more} more"),
    }
}

impl<D: BlockDevice> MountedVolume<D> {
    fn check_copies(&mut self, report: &mut Draft) -> Result<()> {
        let mut differing: BTreeMap<u32, u64> = BTreeMap::new();
        self.differing_fat_sectors(|_, copy, _, _| {
            *differing.entry(copy).or_default() += 1;
            Ok(())
        })?;
        for (copy, sectors) in differing {
            report.found(FindingKind::FatCopiesDiffer, || {
                format!("FAT {} differs from FAT 1 in {sectors} sectors", copy + 1)
            });
        }
        Ok(())
    }

    fn check_directories(&mut self, survey: &Survey, report: &mut Draft) -> Result<()> {
        report.directories = survey.directories.len() as u64;
        for (at, directory) in survey.directories.iter().enumerate() {
            let path = || survey.path(at);
            if !directory.whole {
                report.found(FindingKind::BrokenChain, || format!("directory {}: its chain has no proper end", path()));
            }
            if !directory.orphans.is_empty() {
                report.found(FindingKind::OrphanSlots, || slots_told(&path(), &directory.orphans));
            }
            if directory.inode != ROOT {
                let parent = survey.directories.get(directory.parent).map_or(ROOT, |parent| parent.inode);
                let right = self.parent_cluster(parent)?;
                match directory.dot_dot {
                    Some((_, raw)) if raw.cluster() == right => {}
                    _ => report.found(FindingKind::WrongDots, || {
                        format!("directory {}: \"..\" is not cluster {right}", path())
                    }),
                }
            }
            let mut names = HashSet::new();
            for found in directory.entries.iter().filter_map(|&index| survey.entries.get(index)) {
                if !names.insert(found.key()) {
                    report
                        .found(FindingKind::DuplicateName, || format!("directory {}: {:?} twice", path(), found.key()));
                }
                if found.raw.case_flags & case::MOVING != 0 {
                    report.found(FindingKind::UnfinishedRename, || format!("directory {}: {:?}", path(), found.key()));
                }
            }
        }
        Ok(())
    }

    fn check_files(&mut self, survey: &Survey, taken: &mut Taken, report: &mut Draft) -> Result<()> {
        let cluster_size = u64::from(self.geometry.cluster_size());
        let mut directories: HashMap<usize, usize> = HashMap::new();
        for (index, found) in survey.entries.iter().enumerate() {
            let name = || format!("{}{:?}", survey.path(found.directory), found.key());
            if found.raw.is_directory() {
                match found.below {
                    None => report
                        .found(FindingKind::BrokenChain, || format!("directory {}: no cluster of its own", name())),
                    Some(below) if directories.insert(below, index).is_some() => {
                        report.found(FindingKind::SharedClusters, || format!("directory {} has two entries", name()));
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
                    report.found(FindingKind::SizeMismatch, || format!("{}: {size} bytes without a cluster", name()));
                }
                continue;
            }
            if taken.has(first) {
                report.found(FindingKind::SharedClusters, || {
                    format!("{}: cluster {first} belongs to another entry", name())
                });
                continue;
            }
            let (chain, whole) = self.take_chain(taken, first, u32::MAX)?;
            if !whole {
                let at = chain.last().unwrap_or(first);
                report.found(FindingKind::BrokenChain, || format!("{}: no proper end after cluster {at}", name()));
            } else if u64::from(chain.len()) != u64::from(size).div_ceil(cluster_size) {
                let detail = || format!("{}: {size} bytes in {} clusters of {cluster_size}", name(), chain.len());
                report.found(FindingKind::SizeMismatch, detail);
            }
        }
        Ok(())
    }

    fn check_table(&mut self, taken: &Taken, report: &mut Draft) -> Result<()> {
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
            report.found(FindingKind::LostClusters, || format!("{lost} clusters, the first is {first}"));
        }
        if let Some(info) = self.read_fs_info()? {
            let said = info.free.get();
            if said != u32::MAX && said != report.clusters_free {
                let free = report.clusters_free;
                report
                    .found(FindingKind::FreeCountWrong, || format!("FSInfo says {said} free clusters, the FAT {free}"));
            }
        }
        Ok(())
    }
}
