//! Atomic writes of files: F2FS's requests for them (uapi/linux/f2fs.h), and the drafts that stand
//! behind.
//!
//! While a file has a draft everybody reads and writes the draft, as the kernel keeps one set of
//! pages for each file; Linux's F2FS does the same.

use fuser::{Errno, FileHandle, INodeNo};
use nandkit_vfs::{AtomicWrites, Changes, InodeNumber};

use crate::Operation;
use crate::answer::{Answer, FaultResult};
use crate::asker::Asker;
use crate::drafts::Draft;
use crate::served_volume::{ServedVolume, Volume};

/// F2FS_IOC_START_ATOMIC_WRITE.
const START: u32 = 0xF501;
/// F2FS_IOC_COMMIT_ATOMIC_WRITE.
const COMMIT: u32 = 0xF502;
/// F2FS_IOC_ABORT_ATOMIC_WRITE, which was F2FS_IOC_ABORT_VOLATILE_WRITE.
const ABORT: u32 = 0xF505;
/// F2FS_IOC_GET_FEATURES.
const FEATURES: u32 = 0x8004_F50C;
/// F2FS_FEATURE_ATOMIC_WRITE, in what FEATURES answers; SQLite asks for this bit. Linux adds it to
/// the bits of the superblock, of which a door knows nothing.
const ATOMIC_WRITE: u32 = 4;
/// The bit of a handle's number that says that it may write.
const WRITES: u64 = 1;

/// Requests about a file's draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Begin,
    Commit,
    Abort,
}

/// What a request of ioctl(2) is about.
pub(crate) enum Asked {
    /// Which of these there are; the answer.
    Features([u8; 4]),
    /// A draft.
    Draft(About),
}

/// Who asks for something, and through which open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Through {
    pub user: u32,
    /// As the kernel numbers it; 0 in another name space.
    pub thread: u32,
    pub inode: INodeNo,
    pub handle: FileHandle,
}

/// The volume's side of it. Errors: it has none, as Linux's drivers say it of a request that they
/// do not know.
fn side(changes: &mut dyn Changes) -> FaultResult<&mut dyn AtomicWrites> {
    Ok(changes.atomic_writes().ok_or(Errno::ENOTTY)?)
}

impl<V: Volume> ServedVolume<V> {
    /// Where a file's content is. Asked under the volume's lock.
    pub(crate) fn content(&self, file: InodeNumber) -> InodeNumber {
        self.drafts().content(file)
    }

    /// What is asked for. Errors: ENOTTY (an unknown request, or a volume without drafts), EBADF (a
    /// file that may not be written).
    pub(crate) fn asked(&self, handle: FileHandle, command: u32) -> Answer<Asked> {
        let about = match command {
            START => About::Begin,
            COMMIT => About::Commit,
            ABORT => About::Abort,
            FEATURES => {
                let has = self.change(Operation::Atomic, |changes| Ok(changes.atomic_writes().is_some()))?;
                return if has { Ok(Asked::Features(ATOMIC_WRITE.to_le_bytes())) } else { Err(Errno::ENOTTY) };
            }
            _ => return Err(Errno::ENOTTY),
        };
        if handle.0 & WRITES == 0 {
            return Err(Errno::EBADF);
        }
        Ok(Asked::Draft(about))
    }

    /// Does it. `read_again`: has the kernel write what it keeps of the file and was written
    /// through a mapping, and forget it; with `false` forget its attributes alone. Blocks until
    /// reads and writes of that kind are answered: not to be called by a thread that answers
    /// requests. Errors: EACCES (somebody else's file: as Linux asks it of all three), EBUSY (a
    /// draft that another open file began), the volume's.
    pub(crate) fn about_draft(&self, about: About, through: Through, read_again: impl Fn(bool)) -> Answer<()> {
        let file = self.inside(through.inode);
        self.expect_owner(through.user, file)?;
        match about {
            About::Begin => {
                // What was written through a mapping before is the file's.
                read_again(true);
                self.begin(file, through)
            }
            About::Commit => {
                // What was written through a mapping is a part of it.
                read_again(true);
                let done = self.commit_draft(file);
                // Times and blocks were the file's until now. What is in the kernel's pages is the
                // draft's still where the draft is gone.
                read_again(done.is_err() && self.content(file) == file);
                done
            }
            About::Abort => {
                // What comes of mappings now is the draft's still, and what is read meanwhile, too.
                read_again(true);
                let was = self.abort(file, None)?;
                if was {
                    read_again(true);
                }
                Ok(())
            }
        }
    }

    fn expect_owner(&self, user: u32, file: InodeNumber) -> Answer<()> {
        // Not a change: what gives back space is not refused while nothing can be made durable.
        self.read(Operation::Stat, |fs| {
            let owner = fs.stat(file)?.uid;
            let is_his = self.options.owner.is_some() || !self.features.owners || [0, owner].contains(&user);
            if is_his { Ok(()) } else { Err(Errno::EACCES.into()) }
        })
    }

    fn begin(&self, file: InodeNumber, Through { handle, thread, .. }: Through) -> Answer<()> {
        let process = Asker::of(thread).map(|asker| asker.process);
        self.change(Operation::Atomic, |changes| {
            let known = self.drafts().of.get(&file).copied();
            match known {
                Some(known) if known.handle == handle => return Ok(()),
                Some(_) => return Err(Errno::EBUSY.into()),
                None => {}
            }
            let inode = side(changes)?.begin_atomic(file)?;
            self.drafts().of.insert(file, Draft { inode, handle, process });
            Ok(())
        })
    }

    /// Without a draft it is an fsync, as Linux has it.
    fn commit_draft(&self, file: InodeNumber) -> Answer<()> {
        let begun = self.change(Operation::Atomic, |changes| {
            side(changes)?;
            let Some(draft) = self.drafts().of.get(&file).copied() else { return Ok(false) };
            let done = side(changes)?.commit_atomic(draft.inode);
            // Its number may be another inode's, once it is gone.
            if done.is_ok() || changes.stat(draft.inode).is_err() {
                self.drafts().of.remove(&file);
            }
            done?;
            Ok(true)
        })?;
        if begun { Ok(()) } else { self.sync(Some(file)) }
    }

    /// Drops a file's draft, with `only` that of one open file; whether there was one.
    fn abort(&self, file: InodeNumber, only: Option<FileHandle>) -> Answer<bool> {
        self.change(Operation::AtomicEnd, |changes| {
            side(changes)?;
            let draft = self.drafts().of.get(&file).copied();
            let Some(draft) = draft.filter(|draft| only.is_none_or(|only| only == draft.handle)) else {
                return Ok(false);
            };
            let done = side(changes)?.abort_atomic(draft.inode);
            if done.is_ok() || changes.stat(draft.inode).is_err() {
                self.drafts().of.remove(&file);
            }
            done?;
            Ok(true)
        })
    }

    /// Whether an open file began a draft that is there still.
    pub(crate) fn began(&self, inode: INodeNo, handle: FileHandle) -> bool {
        let file = self.inside(inode);
        self.drafts().of.get(&file).is_some_and(|draft| draft.handle == handle)
    }

    /// Whether whoever closes an open file is the process that began a draft through it, and dies:
    /// Linux drops the draft then, before locks go that others wait for (file.c,
    /// `f2fs_file_flush`).
    pub(crate) fn dies(&self, through: Through) -> bool {
        let file = self.inside(through.inode);
        let draft = self.drafts().of.get(&file).copied().filter(|draft| draft.handle == through.handle);
        let Some(process) = draft.and_then(|draft| draft.process) else { return false };
        Asker::of(through.thread) == Some(Asker { process, is_exiting: true })
    }

    /// The open file that began a draft ends, and the draft with it. Blocks as
    /// [`ServedVolume::about_draft`].
    pub(crate) fn closed(&self, inode: INodeNo, handle: FileHandle, read_again: impl Fn(bool)) {
        read_again(true);
        if let Err(errno) = self.abort(self.inside(inode), Some(handle)) {
            let what = "an atomic write that was not committed could not be dropped: error";
            self.remember(format!("{what} {}", errno.code()));
        }
        read_again(true);
    }

    /// The end of the mount is that of all drafts.
    pub(crate) fn abort_all(&self) {
        let files: Vec<InodeNumber> = self.drafts().of.keys().copied().collect();
        for file in files {
            let _ = self.abort(file, None);
        }
    }
}
