//! Drafts of the planted file systems.

use nandkit_vfs::{AtomicWrites, AttributeChange, Changes, ErrorKind, FileSystem, FsError, InodeNumber, Result};

use super::{FsFault, PlantedFs};

fn gone() -> FsError {
    FsError::new(ErrorKind::NotSupported, "no atomic writes")
}

impl PlantedFs {
    fn drafts(&mut self) -> Result<&mut dyn AtomicWrites> {
        self.model.atomic_writes().ok_or_else(gone)
    }

    /// Commits everything, as only the faulty system does.
    pub(super) fn commit_all(&mut self) -> Result<()> {
        for draft in std::mem::take(&mut self.drafts) {
            // It may be gone with its file.
            drop(self.drafts()?.commit_atomic(draft));
        }
        Ok(())
    }

    /// Where the faulty system reads a file that has a draft.
    pub(super) fn read_instead(&self, inode: InodeNumber) -> InodeNumber {
        let shows = self.fault == FsFault::DraftShowsInFile;
        let draft = self.drafted.filter(|(file, draft)| shows && *file == inode && self.model.stat(*draft).is_ok());
        draft.map_or(inode, |(_, draft)| draft)
    }
}

impl AtomicWrites for PlantedFs {
    fn begin_atomic(&mut self, inode: InodeNumber) -> Result<InodeNumber> {
        let begun = self.drafts()?.begin_atomic(inode);
        let draft = match (begun, self.drafted) {
            (Err(error), Some((file, draft)))
                if self.fault == FsFault::SecondDraftBegins
                    && error.kind == ErrorKind::InvalidArgument
                    && file == inode =>
            {
                draft
            }
            (begun, _) => begun?,
        };
        self.drafted = Some((inode, draft));
        self.drafts.push(draft);
        Ok(draft)
    }

    fn commit_atomic(&mut self, draft: InodeNumber) -> Result<()> {
        let before = self.drafted.and_then(|(file, _)| Some((file, self.model.stat(file).ok()?.size)));
        self.drafts()?.commit_atomic(draft)?;
        match before {
            Some((file, size)) if self.fault == FsFault::CommitLosesGrowth => {
                self.model.set_attributes(file, &AttributeChange { size: Some(size), ..Default::default() }).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn abort_atomic(&mut self, draft: InodeNumber) -> Result<()> {
        match self.fault {
            FsFault::AbortCommits => self.drafts()?.commit_atomic(draft),
            _ => self.drafts()?.abort_atomic(draft),
        }
    }
}
