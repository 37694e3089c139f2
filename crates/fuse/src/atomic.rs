//! Atomic writes of files: F2FS's ioctls (uapi/linux/f2fs.h), and the drafts behind them.
//!
//! While a file has a draft, all reads and writes use the draft, since the kernel has one set of
//! pages per file; Linux's F2FS does the same.

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
/// F2FS_FEATURE_ATOMIC_WRITE in the answer to FEATURES; SQLite checks this bit. Linux adds it to
/// the bits of the superblock, which are not known here.
const ATOMIC_WRITE: u32 = 4;
/// The bit of a handle's number that marks it as writable.
const WRITES: u64 = 1;

/// Requests about a file's draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Begin,
    Commit,
    Abort,
}

/// A decoded ioctl(2) request.
pub(crate) enum Asked {
    /// The query of features, with its answer.
    Features([u8; 4]),
    /// A request about a draft.
    Draft(About),
}

/// The caller of a request, and its open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Through {
    pub user: u32,
    /// The kernel's thread number; 0 in another PID namespace.
    pub thread: u32,
    pub inode: INodeNo,
    pub handle: FileHandle,
}

/// The volume's atomic-write interface. Error: it has none (the error of an unknown ioctl in
/// Linux's drivers).
fn side(changes: &mut dyn Changes) -> FaultResult<&mut dyn AtomicWrites> {
    Ok(changes.atomic_writes().ok_or(Errno::ENOTTY)?)
}

impl<V: Volume> ServedVolume<V> {
    /// The inode that holds a file's content. Called under the volume's lock.
    pub(crate) fn content(&self, file: InodeNumber) -> InodeNumber {
        self.drafts().content(file)
    }

    /// Decodes a request. Errors: ENOTTY (an unknown request, or a volume without drafts), EBADF (a
    /// file that is not open for writing).
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

    /// Executes a request about a draft. `read_again(true)` makes the kernel write pages changed
    /// through a mapping and forget all pages; `read_again(false)` makes it forget only attributes.
    /// This blocks until such reads and writes are answered, so that threads that answer requests
    /// must not call it. Errors: EACCES (a file of another user, as in Linux), EBUSY (a draft of
    /// another open file), those of the volume.
    pub(crate) fn about_draft(&self, about: About, through: Through, read_again: impl Fn(bool)) -> Answer<()> {
        let file = self.inside(through.inode);
        self.expect_owner(through.user, file)?;
        match about {
            About::Begin => {
                // Earlier writes through a mapping belong to the file.
                read_again(true);
                self.begin(file, through)
            }
            About::Commit => {
                // Writes through a mapping belong to the draft.
                read_again(true);
                let done = self.commit_draft(file);
                // Times and blocks were the file's until now. If the draft is gone, the kernel's
                // pages still hold its content.
                read_again(done.is_err() && self.content(file) == file);
                done
            }
            About::Abort => {
                // Writes through mappings and reads until now still belong to the draft.
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
        // Run as a read: freeing space must not be refused while syncs fail.
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

    /// Commits a draft; without one it is an fsync, as in Linux.
    fn commit_draft(&self, file: InodeNumber) -> Answer<()> {
        let begun = self.change(Operation::Atomic, |changes| {
            side(changes)?;
            let Some(draft) = self.drafts().of.get(&file).copied() else { return Ok(false) };
            let done = side(changes)?.commit_atomic(draft.inode);
            // Once it is gone its number may be reused.
            if done.is_ok() || changes.stat(draft.inode).is_err() {
                self.drafts().of.remove(&file);
            }
            done?;
            Ok(true)
        })?;
        if begun { Ok(()) } else { self.sync(Some(file)) }
    }

    /// Drops a file's draft, with `only` just that of one open file; returns whether there was one.
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

    /// Whether an open file began a draft that still exists.
    pub(crate) fn began(&self, inode: INodeNo, handle: FileHandle) -> bool {
        let file = self.inside(inode);
        self.drafts().of.get(&file).is_some_and(|draft| draft.handle == handle)
    }

    /// Whether the process that closes an open file began a draft through it and is exiting. Linux
    /// then drops the draft before it releases locks (file.c, `f2fs_file_flush`).
    pub(crate) fn dies(&self, through: Through) -> bool {
        let file = self.inside(through.inode);
        let draft = self.drafts().of.get(&file).copied().filter(|draft| draft.handle == through.handle);
        let Some(process) = draft.and_then(|draft| draft.process) else { return false };
        Asker::of(through.thread) == Some(Asker { process, is_exiting: true })
    }

    /// Drops the draft of an open file that is closed. Blocks like [`ServedVolume::about_draft`].
    pub(crate) fn closed(&self, inode: INodeNo, handle: FileHandle, read_again: impl Fn(bool)) {
        read_again(true);
        if let Err(errno) = self.abort(self.inside(inode), Some(handle)) {
            let what = "an atomic write that was not committed could not be dropped: error";
            self.remember(format!("{what} {}", errno.code()));
        }
        read_again(true);
    }

    /// Drops all drafts at the end of the mount.
    pub(crate) fn abort_all(&self) {
        let files: Vec<InodeNumber> = self.drafts().of.keys().copied().collect();
        for file in files {
            let _ = self.abort(file, None);
        }
    }
}
