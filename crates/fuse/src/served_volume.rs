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

/// A volume that a session can serve.
pub trait Volume: Send + Sync + 'static {
    /// The file system.
    fn fs(&self) -> &dyn FileSystem;

    /// Its write interface; `None` if it was mounted for reading.
    fn changes(&mut self) -> Option<&mut dyn Changes>;
}

/// A volume behind its lock, with the state that all requests share.
pub(crate) struct ServedVolume<V> {
    volume: RwLock<V>,
    nodes: Mutex<Nodes>,
    drafts: Mutex<Drafts>,
    /// Invalidates the kernel's cache of a file, once the volume is mounted.
    notifier: OnceLock<Notifier>,
    pub(crate) options: Options,
    pub(crate) features: Features,
    block_size: u32,
    started: Instant,
    /// The first failure that could not be reported to a program, or of a sync.
    trouble: Mutex<Option<String>>,
    /// Whether a request panicked; changes are refused from then on.
    broken: AtomicBool,
    /// Bytes written since the last sync, plus one for each other change.
    unsynced: AtomicU64,
    /// The instant and error of a failed sync, until a later one succeeds.
    stalled: Mutex<Option<(Instant, Errno)>>,
}

/// Shortest time after a failed sync before a change tries again.
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

    /// The drafts. The lock is held briefly, and never while waiting for the volume.
    pub(crate) fn drafts(&self) -> MutexGuard<'_, Drafts> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel for notifications to the kernel.
    pub(crate) const fn notifier(&self) -> &OnceLock<Notifier> {
        &self.notifier
    }

    /// Makes the kernel forget a file's attributes and, with `pages`, its pages; pages changed
    /// through a mapping are written first. It is no error if the kernel has forgotten the file
    /// already.
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

    /// The kernel's number of an inode. Error: EIO if the kernel has no number for it.
    pub(crate) fn outside(&self, inode: InodeNumber) -> FaultResult<INodeNo> {
        self.nodes().outside(inode).ok_or(Fault::Door(Errno::EIO))
    }

    /// An inode's attributes in the kernel's form.
    pub(crate) fn attributes(&self, fs: &dyn FileSystem, inode: InodeNumber) -> FaultResult<FileAttr> {
        let mut found = fs.stat(inode)?;
        let content = self.content(inode);
        if content != inode {
            found.size = fs.stat(content)?.size;
        }
        translate::attributes(self.outside(inode)?, &found, self.block_size, self.options.owner)
    }

    /// An inode's attributes for an answer after which the kernel holds the inode. Called under the
    /// lock, so that no other request removes its last name meanwhile.
    pub(crate) fn tell(&self, fs: &dyn FileSystem, inode: InodeNumber, parent: InodeNumber) -> FaultResult<FileAttr> {
        let attributes = self.attributes(fs, inode)?;
        self.nodes().told(inode, parent);
        Ok(attributes)
    }

    /// Records the first failure.
    pub(crate) fn remember(&self, what: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }

    pub(crate) fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The simulated instant at which a request arrived.
    fn arrival(&self) -> Nanos {
        match &self.options.timing {
            Timing::Arrivals { from, .. } => {
                *from + Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
            }
            Timing::None | Timing::Calendar(_) => Nanos::ZERO,
        }
    }

    /// Sets the clocks for the request that is processed next; returns its instant of issue.
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

    /// Runs `work` and catches panics.
    fn caught<T>(&self, operation: Operation, work: impl FnOnce() -> FaultResult<T>) -> Answer<T> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(Fault::Door(errno))) => Err(errno),
            Ok(Err(Fault::FileSystem(error))) => Err(errno(operation, error.kind)),
            Err(_) => {
                self.broken.store(true, Ordering::Release);
                self.remember(format!("an internal error in {operation:?}; nothing was changed from then on"));
                Err(Errno::EIO)
            }
        }
    }

    /// Runs a request that changes nothing.
    pub(crate) fn read<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&dyn FileSystem) -> FaultResult<T>,
    ) -> Answer<T> {
        self.read_counted(operation, |_| 0, work)
    }

    /// Runs a request that changes nothing and returns bytes.
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

    /// Runs a request that makes changes.
    pub(crate) fn change<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut dyn Changes) -> FaultResult<T>,
    ) -> Answer<T> {
        self.change_counted(operation, |_| 0, work)
    }

    /// Runs a request that makes changes and takes bytes.
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
        // Do not build upon a half-finished change of an earlier request.
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

    /// Refuses changes after a failed sync: without durability they would fill the memory without
    /// limit. Error: that of the failed sync.
    fn refuse_while_stalled(&self, changes: &mut dyn Changes) -> Answer<()> {
        let stalled = *self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        match stalled {
            Some((since, errno)) if since.elapsed() < STALLED_FOR => Err(errno),
            Some(_) => self.sync_now(changes, None).map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// Syncs under the lock, and records a failure.
    fn sync_now(&self, changes: &mut dyn Changes, inode: Option<InodeNumber>) -> Option<Errno> {
        // Checked under the lock: a change half-finished by a panic is not written.
        if self.is_broken() {
            return Some(Errno::EIO);
        }
        let done = self.caught(Operation::Sync, || {
            changes.sync(inode).map_err(|error| {
                self.remember(format!("some changes could not be made durable: {error}"));
                Fault::from(error)
            })
        });
        if done.is_ok() && inode.is_none() {
            self.unsynced.store(0, Ordering::Relaxed);
        }
        // If only programs request syncs, the volume itself limits its memory.
        let stalled = done.err().filter(|_| self.options.commit.is_some()).map(|errno| (Instant::now(), errno));
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = stalled;
        done.err()
    }

    /// Runs a sync requested by a program; a failure is reported here and at the end.
    pub(crate) fn sync(&self, inode: Option<InodeNumber>) -> Answer<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.change(Operation::Sync, |changes| self.sync_now(changes, inode).map_or(Ok(()), |errno| Err(errno.into())))
    }

    /// Runs a periodic sync.
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

    /// Releases inodes without a name.
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
                    self.remember(format!("the space of an unlinked file could not be freed: {error}"));
                }
            }
            Ok(())
        });
        self.unsynced.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the session: releases unlinked files, and makes everything durable.
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

    /// Whether a request panicked. The state in memory may be half changed, and is not written any
    /// more.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn into_volume(self) -> V {
        self.volume.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
