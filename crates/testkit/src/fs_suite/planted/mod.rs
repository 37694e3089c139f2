//! File systems with one planted fault each, which the conformance suite and the comparison with
//! the model must find.

mod atomic;
mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result, Symlinks,
    Timestamp, VolumeStatus, Xattrs,
};

use crate::fs_suite::{FsMaker, ModelMaker, VolumeSize};

/// A fault of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FsFault {
    None,
    /// A file that is truncated and grown again shows its old bytes.
    CutBytesComeBack,
    /// The gap before a write behind the end holds rubbish.
    GapNotZero,
    /// A read past the end counts bytes that are not there.
    ReadPastEnd,
    /// A write across a boundary of 4096 bytes loses the first byte behind it.
    BoundaryByteLost,
    /// A rename leaves the old name too, as an empty file.
    RenameKeepsOldName,
    /// A directory with entries is replaced, with all that was in it.
    RenameOverFullDirectory,
    /// A directory is moved into itself: nothing happens, and no error.
    RenameIntoItself,
    NoReplaceReplaces,
    ExchangeReplaces,
    /// A directory with entries is removed.
    RemoveFullDirectory,
    /// Cookies are positions, which move when an entry before them goes.
    CookiesArePositions,
    ListsDot,
    /// The last release and the removal both free the inode.
    RetainForgotten,
    /// The bytes of a file after its last whole 512 bytes are lost in a remount.
    RemountLosesTail,
    /// Removed inodes can still be read.
    StaleInodesLive,
    /// Removed inodes keep their space.
    SpaceLeaks,
    LinksAlwaysOne,
    /// A write does not move the time of modification.
    ModifiedStands,
    /// A removal leaves its directory with the time that it had.
    DirectoryTimeStands,
    /// A write that runs out of space zeroes the file's beginning.
    NoSpaceDamages,
    /// Names over 200 bytes are shortened.
    LongNamesCut,
    CaseIgnored,
    XattrAppends,
    SlashBecomesUnderscore,
    ReadLinkOfFiles,
    /// Targets of links over 200 bytes are shortened.
    TargetsCut,
    /// Device numbers keep the low eight bits of the minor number.
    MinorNumbersCut,
    /// Only regular files get a second name.
    LinksOfFilesOnly,
    /// One name in two name spaces is one attribute.
    XattrSpacesMixed,
    /// Access control lists lose their last entry but one.
    ListEntryLost,
    /// The time of the last access is accepted and not stored.
    AccessedForgotten,
    /// Only attributes of regular files are changed.
    AttributesOfFilesOnly,
    /// Holes are filled.
    HolesFilled,
    /// An empty file has one byte.
    EmptyFilesHaveSize,
    /// Creating a name that exists replaces it.
    CreateReplaces,
    /// Blanks and dots at a name's end are left out, as Windows does.
    TrailingDotsCut,
    /// A lookup in something else than a directory is answered with `NotFound`.
    LookupInFilesFindsNothing,
    /// A write of more than 64 KiB leaves zeroes behind these.
    LongWritesCut,
    /// A write inside a file truncates it after the written bytes.
    OverwriteCutsFile,
    /// An append that begins on a boundary of 512 bytes loses its first byte.
    AppendLosesByte,
    /// Bytes from 4 MiB on are zeroes.
    FarBytesLost,
    /// Described content is taken for zeroes.
    DescribedAsZeroes,
    /// What no volume could hold is refused for lack of space.
    TooBigIsNoSpace,
    /// Space that is allocated behind the end belongs to the file.
    AllocateGrows,
    /// A directory that comes into another one loses its first entry.
    MovedDirectoryLosesEntry,
    /// A file that was replaced can still be asked for.
    ReplacedFileLives,
    /// A file over a directory, or the other way, is refused as a name that exists.
    KindMismatchExists,
    /// A rename to the same name removes the name.
    RenameToItselfRemoves,
    /// A rename of a missing name removes the target.
    RenameMissingRemovesTarget,
    /// A rename over another name of the same file removes the old one.
    RenameOverLinkRemoves,
    /// A name that does not exist can be removed.
    RemoveMissingSucceeds,
    /// A file that is replaced is freed, retained or not.
    ReplacedRetainedFreed,
    /// Only files can be retained.
    RetainRefusesDirectories,
    /// A listing that goes on shows the last entry again.
    CookieShowsEntryAgain,
    /// A listing ends after 512 entries.
    ListingEndsAt512,
    /// The bits above 0o777 of a mode are forgotten.
    SetUserForgotten,
    /// Ranges of data are said to begin one byte late.
    DataTakenForHole,
    /// A name that finds no space is refused as an invalid argument.
    FullIsInvalid,
    /// A file shows what was written to its draft.
    DraftShowsInFile,
    /// A commit leaves the file as long as it was.
    CommitLosesGrowth,
    /// An abort is a commit.
    AbortCommits,
    /// A second draft is the first one.
    SecondDraftBegins,
    /// A sync commits all drafts.
    SyncCommitsDrafts,
    PanicsOnStale,
}

impl FsFault {
    /// All faults, each with the check of the conformance suite that must find it.
    pub const ALL: &'static [(Self, &'static str)] = &[
        (Self::CutBytesComeBack, "truncate"),
        (Self::GapNotZero, "gap_reads_zero"),
        (Self::ReadPastEnd, "read_at_the_end"),
        (Self::BoundaryByteLost, "boundaries"),
        (Self::RenameKeepsOldName, "rename_moves"),
        (Self::RenameOverFullDirectory, "rename_over_directory"),
        (Self::RenameIntoItself, "rename_into_itself"),
        (Self::NoReplaceReplaces, "rename_no_replace"),
        (Self::ExchangeReplaces, "rename_exchange"),
        (Self::RemoveFullDirectory, "remove_directory"),
        (Self::CookiesArePositions, "cookies_while_changing"),
        (Self::ListsDot, "listing"),
        (Self::RetainForgotten, "retained_file"),
        (Self::RemountLosesTail, "remount"),
        (Self::StaleInodesLive, "stale_inodes"),
        (Self::SpaceLeaks, "space_comes_back"),
        (Self::LinksAlwaysOne, "hard_links"),
        (Self::ModifiedStands, "times_move"),
        (Self::DirectoryTimeStands, "directory_times_move"),
        (Self::NoSpaceDamages, "full_volume"),
        (Self::LongNamesCut, "names_long"),
        (Self::CaseIgnored, "names_case"),
        (Self::XattrAppends, "xattrs"),
        (Self::SlashBecomesUnderscore, "names_refused"),
        (Self::ReadLinkOfFiles, "content_of_other_kinds"),
        (Self::TargetsCut, "symlinks"),
        (Self::MinorNumbersCut, "kinds"),
        (Self::LinksOfFilesOnly, "hard_links_of_other_kinds"),
        (Self::XattrSpacesMixed, "xattr_name_spaces"),
        (Self::ListEntryLost, "access_control_lists"),
        (Self::AccessedForgotten, "times"),
        (Self::AttributesOfFilesOnly, "attributes_of_all_kinds"),
        (Self::HolesFilled, "sparse"),
        (Self::EmptyFilesHaveSize, "create_and_lookup"),
        (Self::CreateReplaces, "create_refuses_existing"),
        (Self::TrailingDotsCut, "names_odd"),
        (Self::LookupInFilesFindsNothing, "lookup_in_a_file"),
        (Self::LongWritesCut, "write_and_read"),
        (Self::OverwriteCutsFile, "overwrite_inside"),
        (Self::AppendLosesByte, "append"),
        (Self::FarBytesLost, "big_file"),
        (Self::DescribedAsZeroes, "described_content"),
        (Self::TooBigIsNoSpace, "file_too_big"),
        (Self::AllocateGrows, "allocation"),
        (Self::MovedDirectoryLosesEntry, "rename_directory"),
        (Self::ReplacedFileLives, "rename_over_file"),
        (Self::KindMismatchExists, "rename_kind_mismatch"),
        (Self::RenameToItselfRemoves, "rename_same_name"),
        (Self::RenameMissingRemovesTarget, "rename_missing"),
        (Self::RenameOverLinkRemoves, "rename_over_link"),
        (Self::RemoveMissingSucceeds, "remove"),
        (Self::ReplacedRetainedFreed, "retained_replaced"),
        (Self::RetainRefusesDirectories, "retained_directory"),
        (Self::CookieShowsEntryAgain, "cookies"),
        (Self::ListingEndsAt512, "many_entries"),
        (Self::SetUserForgotten, "modes_and_owners"),
        (Self::DataTakenForHole, "data_ranges"),
        (Self::FullIsInvalid, "full_of_names"),
        (Self::DraftShowsInFile, "drafts_apart"),
        (Self::CommitLosesGrowth, "drafts_committed"),
        (Self::AbortCommits, "drafts_aborted"),
        (Self::SecondDraftBegins, "drafts_refused"),
        (Self::SyncCommitsDrafts, "drafts_mounted_again"),
        (Self::PanicsOnStale, crate::violation::NO_PANIC),
    ];
}

/// The model with a fault.
#[derive(Clone, Debug)]
pub struct PlantedFs {
    pub(crate) model: ModelFileSystem,
    fault: FsFault,
    /// Bytes that were cut off, by inode: where, and which.
    cut: BTreeMap<InodeNumber, (u64, Vec<u8>)>,
    /// Removed inodes that leak.
    leaked: BTreeSet<InodeNumber>,
    /// The draft that was begun last, with its file; all that were begun.
    drafted: Option<(InodeNumber, InodeNumber)>,
    drafts: Vec<InodeNumber>,
}

/// Makes planted file systems.
#[derive(Clone, Copy, Debug)]
pub struct PlantedMaker(
    /// Options of the models.
    pub ModelOptions,
    /// The planted fault.
    pub FsFault,
);

impl FsMaker for PlantedMaker {
    type Fs = PlantedFs;

    fn make(&self, volume: VolumeSize) -> PlantedFs {
        let model = ModelMaker(self.0).make(volume);
        let (cut, leaked) = (BTreeMap::new(), BTreeSet::new());
        PlantedFs { model, fault: self.1, cut, leaked, drafted: None, drafts: Vec::new() }
    }

    fn remount(&self, mut fs: PlantedFs) -> PlantedFs {
        if fs.fault == FsFault::RemountLosesTail {
            fs.lose_tails();
        }
        fs.model.remount();
        fs
    }

    fn clock(&self, fs: &PlantedFs) -> Clock {
        fs.model.clock().clone()
    }
}

impl FileSystem for PlantedFs {
    fn root(&self) -> InodeNumber {
        self.model.root()
    }

    fn volume(&self) -> Result<VolumeStatus> {
        self.model.volume()
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let found = self.model.lookup(directory, &self.name(name));
        match found {
            Err(error)
                if error.kind == ErrorKind::NotADirectory && self.fault == FsFault::LookupInFilesFindsNothing =>
            {
                Err(FsError::new(ErrorKind::NotFound, "nothing of this name"))
            }
            Err(error) if error.kind == ErrorKind::NotFound && self.fault == FsFault::CaseIgnored => {
                let mut found = Err(error);
                self.model.read_dir(directory, 0, &mut |entry| {
                    if entry.name.eq_ignore_ascii_case(name) {
                        found = Ok(entry.inode);
                    }
                    ControlFlow::Continue(())
                })?;
                found
            }
            found => found,
        }
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        if self.leaked.contains(&inode) && self.fault == FsFault::SpaceLeaks {
            return Err(FsError::new(ErrorKind::NotFound, "removed"));
        }
        let found = self.model.stat(inode);
        assert!(found.is_ok() || self.fault != FsFault::PanicsOnStale, "stat of inode {}", inode.0);
        let mut attributes = found?;
        match self.fault {
            FsFault::LinksAlwaysOne => attributes.links = 1,
            FsFault::EmptyFilesHaveSize if attributes.kind == FileKind::Regular => {
                attributes.size = attributes.size.max(1);
            }
            _ => {}
        }
        Ok(attributes)
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.fault == FsFault::ListsDot && cookie == 0 {
            let dot = DirectoryEntry { name: b".", inode: directory, kind: FileKind::Directory, cookie: 0 };
            if sink(dot).is_break() {
                return Ok(());
            }
        }
        let mut position = 0;
        match self.fault {
            FsFault::CookieShowsEntryAgain => self.model.read_dir(directory, cookie.saturating_sub(1), sink),
            FsFault::ListingEndsAt512 => self.model.read_dir(directory, cookie, &mut |entry| {
                position += 1;
                if position > 512 { ControlFlow::Break(()) } else { sink(entry) }
            }),
            FsFault::CookiesArePositions => self.model.read_dir(directory, 0, &mut |entry| {
                position += 1;
                if position <= cookie {
                    ControlFlow::Continue(())
                } else {
                    sink(DirectoryEntry { cookie: position, ..entry })
                }
            }),
            _ => self.model.read_dir(directory, cookie, sink),
        }
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        let wanted = into.len();
        let count = self.model.read(self.read_instead(inode), offset, into)?;
        Ok(if self.fault == FsFault::ReadPastEnd { wanted } else { count })
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        let data = self.model.data_after(inode, offset)?;
        let late = data.clone().filter(|data| self.fault == FsFault::DataTakenForHole && data.start > offset);
        Ok(late.map(|data| data.start + 1..data.end).or(data))
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        Some(self)
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        self.model.symlinks().is_some().then_some(self as &dyn Symlinks)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.model.xattrs()
    }
}

impl Symlinks for PlantedFs {
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        match Symlinks::read_link(&self.model, inode) {
            Err(_) if self.fault == FsFault::ReadLinkOfFiles => Ok(Vec::new()),
            found => found,
        }
    }
}

impl PlantedFs {
    /// The name under which the faulty system keeps this one.
    fn name(&self, name: &[u8]) -> Vec<u8> {
        match self.fault {
            FsFault::TrailingDotsCut => {
                let kept = name.iter().rposition(|byte| !b". ".contains(byte)).map_or(0, |last| last + 1);
                name[..kept].to_vec()
            }
            FsFault::LongNamesCut => name.get(..200).unwrap_or(name).to_vec(),
            FsFault::SlashBecomesUnderscore => name.iter().map(|b| if *b == b'/' { b'_' } else { *b }).collect(),
            _ => name.to_vec(),
        }
    }

    fn lose_tails(&mut self) {
        let mut files = Vec::new();
        let collected = nandkit_vfs::path::walk(&self.model, self.model.root(), &mut |step| {
            if let nandkit_vfs::path::Step::Entry { attributes, .. } = step
                && attributes.kind == FileKind::Regular
            {
                files.push((attributes.inode, attributes.size, attributes.modified));
            }
            Ok(nandkit_vfs::path::Next::Enter)
        });
        collected.expect("the model can be walked");
        for (inode, size, modified) in files {
            let kept = (Some(size - size % 512), Some(modified));
            let change = nandkit_vfs::AttributeChange { size: kept.0, modified: kept.1, ..Default::default() };
            self.model.set_attributes(inode, &change).expect("the model can cut a file");
        }
    }

    fn modified(&self, inode: InodeNumber) -> Option<Timestamp> {
        self.model.stat(inode).ok().map(|attributes| attributes.modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs_suite;
    use nandkit_vfs::wrap::{Hook, Wrapped};

    #[test]
    fn the_model_keeps_every_promise() {
        for options in [ModelOptions::POSIX, ModelOptions::FAT] {
            fs_suite::run(&ModelMaker(options)).unwrap();
            fs_suite::run(&PlantedMaker(options, FsFault::None)).unwrap();
        }
    }

    #[test]
    fn every_single_feature_can_be_missing() {
        let posix = ModelOptions::POSIX;
        let without = |change: fn(&mut ModelOptions)| {
            let mut options = posix;
            change(&mut options);
            options
        };
        for options in [
            without(|o| o.features.case_sensitive = false),
            without(|o| o.features.permissions = false),
            without(|o| o.features.owners = false),
            without(|o| o.features.hard_links = false),
            without(|o| o.features.symlinks = false),
            without(|o| o.features.device_nodes = false),
            without(|o| o.features.holes = false),
            without(|o| (o.features.xattrs, o.features.posix_acls) = (false, false)),
            without(|o| o.features.modified_step_ns = 1_000_000_000),
            without(|o| o.features.posix_acls = false),
            without(|o| o.features.exchange = false),
            without(|o| o.features.accessed_times = false),
            without(|o| o.allocation = false),
            without(|o| o.open_files = false),
            without(|o| o.features.atomic_writes = false),
            without(|o| o.name_max = 254),
        ] {
            fs_suite::run(&ModelMaker(options)).unwrap_or_else(|found| panic!("{options:?}: {found}"));
        }
    }

    struct Silent;

    impl Hook for Silent {}

    /// The wrapper of the contract changes nothing.
    struct WrappedMaker(ModelMaker);

    impl FsMaker for WrappedMaker {
        type Fs = Wrapped<ModelFileSystem, Silent>;

        fn make(&self, volume: VolumeSize) -> Self::Fs {
            Wrapped::new(self.0.make(volume), Silent)
        }

        fn remount(&self, fs: Self::Fs) -> Self::Fs {
            Wrapped::new(self.0.remount(fs.into_inner()), Silent)
        }

        fn clock(&self, fs: &Self::Fs) -> Clock {
            fs.inner().clock().clone()
        }
    }

    #[test]
    fn a_wrapped_model_keeps_every_promise() {
        for options in [ModelOptions::POSIX, ModelOptions::FAT] {
            fs_suite::run(&WrappedMaker(ModelMaker(options))).unwrap();
        }
    }

    /// Checks for which no fault is planted, each with the reason. This list only ever becomes
    /// shorter.
    const WITHOUT_FAULT: [&str; 0] = [];

    #[test]
    fn every_check_has_a_planted_fault() {
        assert_eq!(
            crate::violation::without_fault(fs_suite::check_names(), FsFault::ALL.iter().map(|fault| fault.1)),
            WITHOUT_FAULT
        );
    }

    #[test]
    fn every_planted_fault_is_found_by_its_check() {
        for (fault, check) in FsFault::ALL {
            let by = if *check == crate::violation::NO_PANIC { "stale_inodes" } else { check };
            match fs_suite::run_where(&PlantedMaker(ModelOptions::POSIX, *fault), |name| name == by) {
                Ok(()) => panic!("{fault:?} was not found"),
                Err(found) => assert!(found.has(check), "{fault:?} was not found by {check}, but: {found}"),
            }
        }
    }
}
