//! Atomic writes of files: F2FS's requests for them (uapi/linux/f2fs.h), and the drafts that stand behind.
//!
//! While a file has a draft everybody reads and writes the draft, as the kernel keeps one set of pages for each file; Linux's F2FS does the same.

use std::collections::BTreeMap;

use fuser::{Errno, FileHandle, INodeNo, Request};
use nandkit_vfs::{AtomicWrites, Changes, ErrorKind, FsError, InodeNumber};

use crate::answer::{Answer, Outcome};
use crate::shared::Shared;
use crate::{Operation, Volume};

/// F2FS_IOC_START_ATOMIC_WRITE.
const START: u32 = 0xF501;
/// F2FS_IOC_COMMIT_ATOMIC_WRITE.
const COMMIT: u32 = 0xF502;
/// F2FS_IOC_ABORT_ATOMIC_WRITE, which was F2FS_IOC_ABORT_VOLATILE_WRITE.
const ABORT: u32 = 0xF505;
/// F2FS_IOC_GET_FEATURES.
const FEATURES: u32 = 0x8004_F50C;
/// F2FS_FEATURE_ATOMIC_WRITE, in what FEATURES answers; SQLite asks for this bit. Linux adds it to the bits of the superblock, of which a door knows nothing.
const ATOMIC_WRITE: u32 = 4;
/// The bit of a handle's number that says that it may write.
const WRITES: u64 = 1;

/// What a request comes to.
pub(crate) enum Asked {
    /// Done; these bytes are the answer.
    Done(Vec<u8>),
    /// Done, and the file is no longer as the kernel has it in memory.
    Changed,
}

/// Drafts by their files.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    of: BTreeMap<InodeNumber, Draft>,
    handles: u64,
}

#[derive(Clone, Copy, Debug)]
struct Draft {
    inode: InodeNumber,
    /// Who began it: its end is the draft's.
    handle: FileHandle,
}

impl Drafts {
    /// The number of a file that is opened now.
    pub(crate) const fn handle(&mut self, writes: bool) -> FileHandle {
        self.handles = self.handles.wrapping_add(2);
        FileHandle(self.handles | writes as u64)
    }

    /// Where a file's content is.
    pub(crate) fn content(&self, file: InodeNumber) -> InodeNumber {
        self.of.get(&file).map_or(file, |draft| draft.inode)
    }

    /// Nobody holds this inode any more.
    pub(crate) fn forget(&mut self, file: InodeNumber) {
        self.of.remove(&file);
    }
}

/// The volume's side of it. Errors: it has none, as Linux's drivers say it of a request that they do not know.
fn side(changes: &mut dyn Changes) -> Outcome<&mut dyn AtomicWrites> {
    Ok(changes.atomic_writes().ok_or(Errno::ENOTTY)?)
}

impl<V: Volume> Shared<V> {
    /// Where a file's content is. Asked under the volume's lock.
    pub(crate) fn content(&self, file: InodeNumber) -> InodeNumber {
        self.drafts().content(file)
    }

    /// A request of ioctl(2) about a file. Errors: ENOTTY (an unknown one, or a volume without drafts), EBADF (a file that may not be written), EACCES (somebody else's file), EBUSY (a draft that another open file began).
    pub(crate) fn control(&self, request: &Request, inode: INodeNo, handle: FileHandle, asked: u32) -> Answer<Asked> {
        let file = self.inside(inode);
        if ![START, COMMIT, ABORT, FEATURES].contains(&asked) {
            return Err(Errno::ENOTTY);
        }
        if asked == FEATURES {
            let has = self.change(Operation::Atomic, |changes| Ok(changes.atomic_writes().is_some()))?;
            return if has { Ok(Asked::Done(ATOMIC_WRITE.to_le_bytes().into())) } else { Err(Errno::ENOTTY) };
        }
        if handle.0 & WRITES == 0 {
            return Err(Errno::EBADF);
        }
        match asked {
            START => self.begin(request, file, handle).map(|()| Asked::Done(Vec::new())),
            COMMIT => self.commit_draft(file).map(|()| Asked::Done(Vec::new())),
            _ => self.abort(file, None).map(|was| if was { Asked::Changed } else { Asked::Done(Vec::new()) }),
        }
    }

    fn begin(&self, request: &Request, file: InodeNumber, handle: FileHandle) -> Answer<()> {
        self.change(Operation::Atomic, |changes| {
            side(changes)?;
            let owner = changes.stat(file)?.uid;
            if self.options.owner.is_none() && self.features.owners && ![0, owner].contains(&request.uid()) {
                return Err(Errno::EACCES.into());
            }
            let known = self.drafts().of.get(&file).copied();
            match known {
                Some(known) if known.handle == handle => return Ok(()),
                Some(_) => return Err(Errno::EBUSY.into()),
                None => {}
            }
            let inode = side(changes)?.begin_atomic(file)?;
            self.drafts().of.insert(file, Draft { inode, handle });
            Ok(())
        })
    }

    /// Without a draft it is an fsync, as Linux has it.
    fn commit_draft(&self, file: InodeNumber) -> Answer<()> {
        let begun = self.change(Operation::Atomic, |changes| {
            side(changes)?;
            let Some(draft) = self.drafts().of.get(&file).copied() else { return Ok(false) };
            let done = side(changes)?.commit_atomic(draft.inode);
            if done.is_ok() || is_gone(&done) {
                self.drafts().of.remove(&file);
            }
            done?;
            Ok(true)
        })?;
        if begun { Ok(()) } else { self.sync(Some(file)) }
    }

    /// Drops a file's draft, with `only` that of one open file; whether there was one.
    fn abort(&self, file: InodeNumber, only: Option<FileHandle>) -> Answer<bool> {
        self.change(Operation::Atomic, |changes| {
            side(changes)?;
            let draft = self.drafts().of.get(&file).copied();
            let Some(draft) = draft.filter(|draft| only.is_none_or(|only| only == draft.handle)) else {
                return Ok(false);
            };
            let done = side(changes)?.abort_atomic(draft.inode);
            if done.is_ok() || is_gone(&done) {
                self.drafts().of.remove(&file);
            }
            done?;
            Ok(true)
        })
    }

    /// An open file ends, and the draft that it began with it; whether there was one.
    pub(crate) fn closed(&self, inode: INodeNo, handle: FileHandle) -> bool {
        let file = self.inside(inode);
        let is_its = self.drafts().of.get(&file).is_some_and(|draft| draft.handle == handle);
        is_its
            && self.abort(file, Some(handle)).unwrap_or_else(|errno| {
                self.remember(format!(
                    "an atomic write that was not committed could not be dropped: error {}",
                    errno.code()
                ));
                false
            })
    }

    /// The end of the mount is that of all drafts.
    pub(crate) fn abort_all(&self) {
        let files: Vec<InodeNumber> = self.drafts().of.keys().copied().collect();
        for file in files {
            let _ = self.abort(file, None);
        }
    }
}

fn is_gone(done: &Result<(), FsError>) -> bool {
    done.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound)
}
