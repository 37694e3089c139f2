//! A volume behind its lock, and the state that all requests share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, INodeNo, Notifier};
use nandkit_units::Nanos;
use nandkit_vfs::{Changes, Features, FileSystem, InodeNumber};

use crate::answer::{Answer, Fault, FaultResult};
use crate::drafts::Drafts;
use crate::errno::errno;
use crate::nodes::Nodes;
use crate::options::{Options, Timing};
use crate::{Operation, translate};

/// What a session serves.
pub trait Volume: Send + Sync + 'static {
    /// The file system.
    fn fs(&self) -> &dyn FileSystem;

    /// Its writing side; none where it was mounted for reading.
    fn changes(&mut self) -> Option<&mut dyn Changes>;
}

/// A volume behind its lock, with the state that all requests share.
pub(crate) struct ServedVolume<V> {
    volume: RwLock<V>,
    nodes: Mutex<Nodes>,
    drafts: Mutex<Drafts>,
    /// What tells the kernel, once it is mounted, that it is to ask for a file again.
    notifier: OnceLock<Notifier>,
    pub(crate) options: Options,
    pub(crate) features: Features,
    block_size: u32,
    started: Instant,
    /// The first thing that nobody could be told of, or that went wrong with making things durable.
    trouble: Mutex<Option<String>>,
    /// A request panicked: nothing is changed any more.
    broken: AtomicBool,
    /// Bytes that were written since the last sync, and one for each other change.
    unsynced: AtomicU64,
    /// When a sync failed that has not been made good since, and with what.
    stalled: Mutex<Option<(Instant, Errno)>>,
}

/// After a sync that failed, the next change tries it again, but not sooner than this.
const STALLED_FOR: Duration = Duration::from_secs(1);

impl<V: Volume> ServedVolume<V> {
    pub(crate) fn new(volume: V, options: Options) -> nandkit_vfs::Result<Self> {
        let status = volume.fs().volume()?;
        let nodes = Mutex::new(Nodes::new(volume.fs().root()));
        Ok(Self {
            volume: RwLock::new(volume),
            nodes,
            drafts: Mutex::default(),
            notifier: OnceLock::new(),
            options,
            features: status.features,
            block_size: status.block_size,
            started: Instant::now(),
            trouble: Mutex::new(None),
            broken: AtomicBool::new(false),
            unsynced: AtomicU64::new(0),
            stalled: Mutex::new(None),
        })
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held for a moment, and never while the volume is waited for.
    pub(crate) fn drafts(&self) -> MutexGuard<'_, Drafts> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the kernel is told things that it did not ask for.
    pub(crate) const fn notifier(&self) -> &OnceLock<Notifier> {
        &self.notifier
    }

    /// Has the kernel forget a file's attributes and, with `pages`, its pages; those that were
    /// changed through a mapping are written first. A kernel that has forgotten the file already is
    /// done.
    pub(crate) fn read_again(&self, inode: INodeNo, pages: bool) {
        if let Some(notifier) = self.notifier.get() {
            let _ = notifier.inval_inode(inode, if pages { 0 } else { -1 }, 0);
        }
    }

    fn for_reading(&self) -> RwLockReadGuard<'_, V> {
        self.volume.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, V> {
        self.volume.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file system's number of an inode.
    pub(crate) fn inside(&self, inode: INodeNo) -> InodeNumber {
        self.nodes().inside(inode)
    }

    /// The kernel's number of an inode. Errors: EIO for one that it has no number for.
    pub(crate) fn outside(&self, inode: InodeNumber) -> FaultResult<INodeNo> {
        self.nodes().outside(inode).ok_or(Fault::Door(Errno::EIO))
    }

    /// An inode's attributes as the kernel is told them.
    pub(crate) fn attributes(&self, fs: &dyn FileSystem, inode: InodeNumber) -> FaultResult<FileAttr> {
        let mut found = fs.stat(inode)?;
        let content = self.content(inode);
        if content != inode {
            found.size = fs.stat(content)?.size;
        }
        translate::attributes(self.outside(inode)?, &found, self.block_size, self.options.owner)
    }

    /// An inode's attributes for an answer that makes the kernel hold it. Called under the lock, so
    /// that nobody takes its last name meanwhile.
    pub(crate) fn tell(&self, fs: &dyn FileSystem, inode: InodeNumber, parent: InodeNumber) -> FaultResult<FileAttr> {
        let attributes = self.attributes(fs, inode)?;
        self.nodes().told(inode, parent);
        Ok(attributes)
    }

    /// Remembers the first thing that went wrong.
    pub(crate) fn remember(&self, what: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }

    pub(crate) fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// When a request arrived, in simulated time.
    fn arrival(&self) -> Nanos {
        match &self.options.timing {
            Timing::Arrivals { from, .. } => {
                *from + Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
            }
            Timing::None | Timing::Calendar(_) => Nanos::ZERO,
        }
    }

    /// Sets the clocks for a request, whose turn has come; returns its issue.
    fn issue(&self, arrival: Nanos) -> Nanos {
        let clock = match &self.options.timing {
            Timing::None => return Nanos::ZERO,
            Timing::Calendar(clock) => clock,
            Timing::Arrivals { clock, .. } => {
                if let Some(observer) = &self.options.observer {
                    observer.arrived(arrival);
                }
                clock.advance_to(arrival);
                clock
            }
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        clock.set_unix_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        clock.now()
    }

    fn ended(&self, operation: Operation, bytes: u64, issued: Nanos) {
        let Some(observer) = &self.options.observer else { return };
        let now = match &self.options.timing {
            Timing::None => Nanos::ZERO,
            Timing::Calendar(clock) | Timing::Arrivals { clock, .. } => clock.now(),
        };
        observer.done(operation, bytes, now.since(issued));
    }

    /// Does work that must not take the process along, whatever happens in it.
    fn caught<T>(&self, operation: Operation, work: impl FnOnce() -> FaultResult<T>) -> Answer<T> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(Fault::Door(errno))) => Err(errno),
            Ok(Err(Fault::FileSystem(error))) => Err(errno(operation, error.kind)),
            Err(_) => {
                self.broken.store(true, Ordering::Release);
                self.remember(format!(
                    "an error in the program itself, in {operation:?}; nothing was changed from then on"
                ));
                Err(Errno::EIO)
            }
        }
    }

    /// A request that changes nothing.
    pub(crate) fn read<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&dyn FileSystem) -> FaultResult<T>,
    ) -> Answer<T> {
        self.read_counted(operation, |_| 0, work)
    }

    /// A request that changes nothing and delivers bytes.
    pub(crate) fn read_counted<T>(
        &self,
        operation: Operation,
        bytes: impl FnOnce(&T) -> u64,
        work: impl FnOnce(&dyn FileSystem) -> FaultResult<T>,
    ) -> Answer<T> {
        if !matches!(self.options.timing, Timing::Arrivals { .. }) {
            let volume = self.for_reading();
            let result = self.caught(operation, || work(volume.fs()))?;
            self.ended(operation, bytes(&result), Nanos::ZERO);
            return Ok(result);
        }
        let arrival = self.arrival();
        let volume = self.alone();
        let issued = self.issue(arrival);
        let result = self.caught(operation, || work(volume.fs()))?;
        self.ended(operation, bytes(&result), issued);
        Ok(result)
    }

    /// A request that changes something.
    pub(crate) fn change<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut dyn Changes) -> FaultResult<T>,
    ) -> Answer<T> {
        self.change_counted(operation, |_| 0, work)
    }

    /// A request that changes something and takes bytes.
    pub(crate) fn change_counted<T>(
        &self,
        operation: Operation,
        bytes: impl FnOnce(&T) -> u64,
        work: impl FnOnce(&mut dyn Changes) -> FaultResult<T>,
    ) -> Answer<T> {
        if self.options.read_only {
            return Err(Errno::EROFS);
        }
        if self.is_broken() {
            return Err(if operation == Operation::Sync { Errno::EIO } else { Errno::EROFS });
        }
        let arrival = self.arrival();
        let mut volume = self.alone();
        // What a request before this one left half changed is not built upon.
        if self.is_broken() {
            return Err(Errno::EIO);
        }
        let changes = volume.changes().ok_or(Errno::EROFS)?;
        if ![Operation::Sync, Operation::AtomicEnd].contains(&operation) {
            self.refuse_while_stalled(changes)?;
        }
        let issued = self.issue(arrival);
        let result = self.caught(operation, || work(changes));
        if operation == Operation::Sync {
            return result.inspect(|_| self.ended(operation, 0, issued));
        }
        let count = result.as_ref().map_or(0, bytes);
        let before = self.unsynced.fetch_add(count.saturating_add(1), Ordering::Relaxed);
        if result.is_ok() {
            self.ended(operation, count, issued);
        }
        if self.options.commit.is_some_and(|limit| before.saturating_add(count) >= limit.bytes) {
            self.sync_now(changes, None);
        }
        result
    }

    /// What cannot be made durable is not taken either: it would be held in memory without bound.
    /// Errors: that of the sync that failed.
    fn refuse_while_stalled(&self, changes: &mut dyn Changes) -> Answer<()> {
        let stalled = *self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        match stalled {
            Some((since, errno)) if since.elapsed() < STALLED_FOR => Err(errno),
            Some(_) => self.sync_now(changes, None).map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// Makes things durable under the lock, and remembers a failure.
    fn sync_now(&self, changes: &mut dyn Changes, inode: Option<InodeNumber>) -> Option<Errno> {
        // Asked under the lock: what a panic left half changed is not written.
        if self.is_broken() {
            return Some(Errno::EIO);
        }
        let done = self.caught(Operation::Sync, || {
            changes.sync(inode).map_err(|error| {
                self.remember(format!("what was changed could not all be made durable: {error}"));
                Fault::from(error)
            })
        });
        if done.is_ok() && inode.is_none() {
            self.unsynced.store(0, Ordering::Relaxed);
        }
        // Where nothing is synced but at the request of a program, its memory is the volume's own
        // affair.
        let stalled = done.err().filter(|_| self.options.commit.is_some()).map(|errno| (Instant::now(), errno));
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = stalled;
        done.err()
    }

    /// A sync that a program asked for; what could not be made durable is told here and at the end.
    pub(crate) fn sync(&self, inode: Option<InodeNumber>) -> Answer<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.change(Operation::Sync, |changes| self.sync_now(changes, inode).map_or(Ok(()), |errno| Err(errno.into())))
    }

    /// A sync because it is time for one.
    pub(crate) fn commit(&self) {
        if self.options.read_only || self.is_broken() || self.unsynced.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(changes) = self.alone().changes() {
            self.sync_now(changes, None);
        }
    }

    /// The kernel forgets an inode.
    pub(crate) fn forget(&self, inode: INodeNo, times: u64) {
        let inode = self.inside(inode);
        let released = self.nodes().forgotten(inode, times);
        if released {
            self.release(&[inode]);
            self.drafts().forget(inode);
        }
    }

    /// Lets inodes go that have no name.
    fn release(&self, inodes: &[InodeNumber]) {
        let arrival = self.arrival();
        let mut volume = self.alone();
        if self.is_broken() {
            return;
        }
        self.issue(arrival);
        let _ = self.caught(Operation::Remove, || {
            let Some(files) = volume.changes().and_then(|changes| changes.open_files()) else { return Ok(()) };
            for inode in inodes {
                if let Err(error) = files.release(*inode) {
                    self.remember(format!("an unlinked file could not be given back: {error}"));
                }
            }
            Ok(())
        });
        self.unsynced.fetch_add(1, Ordering::Relaxed);
    }

    /// The end: unlinked files go, and everything is made durable.
    pub(crate) fn finish(&self) {
        self.abort_all();
        let retained = self.nodes().take_retained();
        if !retained.is_empty() {
            self.release(&retained);
        }
        if !self.options.read_only && !self.is_broken() {
            let arrival = self.arrival();
            let mut volume = self.alone();
            self.issue(arrival);
            if let Some(changes) = volume.changes() {
                self.sync_now(changes, None);
            }
        }
    }

    /// Whether a request panicked: what is in memory may be half changed, and is not written any
    /// more.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn into_volume(self) -> V {
        self.volume.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
