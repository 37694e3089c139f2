//! Sessions: mounting a volume on a directory, serving it, and ending the mount.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fuser::{Config, SessionACL};

use crate::dead;
use crate::door::Door;
use crate::mount::{self, MountError};
use crate::options::Options;
use crate::outcome::Teller;
use crate::served_volume::{ServedVolume, Volume};

/// How long unmounting a busy mount is retried before it is detached.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest number of bind mounts of a mount that are removed.
const PLACES_MAX: u32 = 1000;
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// A mounted volume.
pub struct Session<V: Volume> {
    teller: Option<Teller>,
    kernel: fuser::Session<Door<V>>,
    served: Arc<ServedVolume<V>>,
    unmounter: Unmounter,
}

/// Ends a mount from another thread.
#[derive(Clone, Debug)]
pub struct Unmounter {
    point: PathBuf,
    source: String,
    /// The kernel's connection number, once it is mounted.
    connection: Option<u32>,
}

/// The result of a session.
pub struct Ended<V> {
    /// The volume; `None` if a thread of the session is stuck in it.
    pub volume: Option<V>,
    /// The first failure that was not reported to all affected programs: a failed sync, a panic, a
    /// broken connection.
    pub trouble: Option<String>,
    /// Whether a request panicked: the volume may be half changed in memory, and must be dropped
    /// without writing.
    pub broken: bool,
}

/// Counter of this process's mounts, for their names.
static MOUNTS: AtomicU64 = AtomicU64::new(0);

impl<V: Volume> Session<V> {
    /// Mounts a volume. From then on programs may send requests; they are answered once
    /// [`Session::run`] is called. `point` comes from [`crate::check_mount_point`].
    ///
    /// Errors: no device; an unusable mount point; a refusal by the kernel; the file system cannot
    /// report its status.
    pub fn mount(volume: V, point: &Path, options: Options) -> Result<Self, MountError> {
        let refused =
            |what: &dyn std::fmt::Display| MountError::Refused(format!("cannot mount on {}: {what}", point.display()));
        crate::check_device()?;
        let source = dead::source(MOUNTS.fetch_add(1, Ordering::Relaxed));
        let (read_only, threads, allow_other) = (options.read_only, options.threads.max(1), options.allow_other);
        let served = Arc::new(ServedVolume::new(volume, options).map_err(|error| refused(&error))?);
        let door = Door::new(Arc::clone(&served));
        let mut config = Config::default();
        config.n_threads = Some(threads);
        let mut unmounter = Unmounter { point: point.to_owned(), source, connection: None };
        let device = mount::mount(point, &unmounter.source, read_only, allow_other)?;
        // For users other than root, the kernel denies access to others unless requested.
        let allowed = if allow_other || mount::is_root() { SessionACL::All } else { SessionACL::Owner };
        config.acl = allowed;
        let kernel = fuser::Session::from_fd(door, device, allowed, config).map_err(|error| {
            let _ = mount::unmount(point, true);
            mount::refused(point, &error)
        })?;
        let _ = served.notifier().set(kernel.notifier());
        // Without a teller the mount works too, but its end is only visible to the parent process.
        unmounter.connection = mount::connection_of(&unmounter.source);
        let teller = Teller::listen(&unmounter.source).ok();
        Ok(Self { teller, kernel, served, unmounter })
    }

    /// Takes the teller, with which the caller reports the end of the mount once everything is
    /// written.
    pub fn take_teller(&mut self) -> Option<Teller> {
        self.teller.take()
    }

    /// A handle that ends the mount from another thread.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Answers requests until the mount has ended and its last user is done; then releases unlinked
    /// files and makes everything durable.
    pub fn run(self) -> Ended<V> {
        let Self { kernel, served, unmounter, .. } = self;
        let ended = match served.options.commit {
            None => kernel.run(),
            Some(limit) => std::thread::scope(|scope| {
                let (stop, stopped) = channel::<()>();
                let timed = &served;
                scope.spawn(move || {
                    while stopped.recv_timeout(limit.every) == Err(RecvTimeoutError::Timeout) {
                        timed.commit();
                    }
                });
                let ended = kernel.run();
                drop(stop);
                ended
            }),
        };
        if let Err(error) = ended
            && !ended_by_unmounting(&error)
        {
            served.remember(format!("the connection to the kernel broke: {error}"));
        }
        // A broken connection would leave a dead mount behind.
        let _ = unmounter.detach();
        served.finish();
        let (trouble, broken) = (served.take_trouble(), served.is_broken());
        Ended { volume: alone(served).map(ServedVolume::into_volume), trouble, broken }
    }
}

/// Waits until the last thread that works on a draft is done, and returns the volume; `None` if one
/// is stuck.
fn alone<V: Volume>(mut served: Arc<ServedVolume<V>>) -> Option<ServedVolume<V>> {
    let end = Instant::now() + PATIENCE;
    loop {
        served = match Arc::try_unwrap(served) {
            Ok(alone) => return Some(alone),
            Err(_) if Instant::now() >= end => return None,
            Err(served) => served,
        };
        std::thread::sleep(PAUSE);
    }
}

/// Whether an error is the normal end of the mount. If the mount ends while a request is delivered
/// (a file's last release is asynchronous), the kernel reports an aborted connection instead of a
/// missing device (`fuse_dev_do_read`, fs/fuse/dev.c). Nothing is lost, since no program waits for
/// such a request.
fn ended_by_unmounting(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted
}

impl Unmounter {
    /// The directory on which the file system is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Unmounts, at once or as soon as the mount is unused; after 5 seconds it is detached, and the
    /// session continues until its last user is done. Returns true if it ended without detaching.
    pub fn unmount(&self) -> io::Result<bool> {
        let end = Instant::now() + PATIENCE;
        loop {
            // The mount may have been unmounted, covered or moved by another process.
            let Some(point) = mount::place_of(&self.source) else { return Ok(true) };
            match mount::unmount(&point, false) {
                // It may have bind mounts elsewhere.
                Ok(()) => {}
                Err(_) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(_) => return self.detach().map(|()| false),
            }
        }
    }

    /// Detaches the mount at once, wherever it is now; current users continue. Errors: those of
    /// unmounting.
    pub fn detach(&self) -> io::Result<()> {
        for _ in 0..PLACES_MAX {
            let Some(point) = mount::place_of(&self.source) else { break };
            mount::unmount(&point, true)?;
        }
        Ok(())
    }

    /// Unmounts; after `patience`, remaining users are cut off as by [`Unmounter::abort`]. Errors:
    /// those of unmounting.
    pub fn unmount_or_abort(&self, patience: Duration) -> io::Result<()> {
        let end = Instant::now() + patience;
        while let Some(point) = mount::place_of(&self.source) {
            match mount::unmount(&point, false) {
                Ok(()) => {}
                Err(_) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(_) => return self.abort(),
            }
        }
        Ok(())
    }

    /// Ends the mount even if it is in use: all requests fail from now on, including pending ones.
    /// Errors: those of unmounting.
    pub fn abort(&self) -> io::Result<()> {
        self.connection.iter().for_each(|connection| mount::abort(*connection));
        for _ in 0..PLACES_MAX {
            let Some(point) = mount::place_of(&self.source) else { break };
            mount::unmount_by_force(&point)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborted_connection_is_an_end_and_a_failed_device_is_none() {
        assert!(ended_by_unmounting(&io::Error::from_raw_os_error(103)));
        assert!(!ended_by_unmounting(&io::Error::from_raw_os_error(5)));
    }
}
