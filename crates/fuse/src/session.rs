//! From a volume and a directory to a mount, and to its orderly end.

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

/// How long a mount that is in use is asked again before its name alone is taken away.
const PATIENCE: Duration = Duration::from_secs(5);
/// To so many places a mount may be bound.
const PLACES_MAX: u32 = 1000;
/// Between two attempts.
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
    /// The kernel's number of it, once it is mounted.
    connection: Option<u32>,
}

/// A volume after its session.
pub struct Ended<V> {
    /// The volume; none where a thread of the session is stuck in it.
    pub volume: Option<V>,
    /// The first thing that went wrong and that programs were not told of, or not all: what could
    /// not be made durable, a panic, a broken connection.
    pub trouble: Option<String>,
    /// A request panicked: the volume may be half changed in memory, and is to be dropped as it is.
    pub broken: bool,
}

/// Mounts of this process, for their names.
static MOUNTS: AtomicU64 = AtomicU64::new(0);

impl<V: Volume> Session<V> {
    /// Mounts. From here on programs may ask; they are answered once [`Session::run`] is called.
    /// `point` comes from [`crate::check_mount_point`].
    ///
    /// Errors: no device, a mount point that is none, a refusal of the kernel's, a file system that
    /// does not tell its status.
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
        // Mounted by somebody else, the kernel lets nobody else in, unless asked to.
        let allowed = if allow_other || mount::is_root() { SessionACL::All } else { SessionACL::Owner };
        config.acl = allowed;
        let kernel = fuser::Session::from_fd(door, device, allowed, config).map_err(|error| {
            let _ = mount::unmount(point, true);
            mount::refused(point, &error)
        })?;
        let _ = served.notifier().set(kernel.notifier());
        // Without it the mount is as good, and its end is told to nobody but its process's parent.
        unmounter.connection = mount::connection_of(&unmounter.source);
        let teller = Teller::listen(&unmounter.source).ok();
        Ok(Self { teller, kernel, served, unmounter })
    }

    /// What tells others how the mount ended. Whoever took it tells, when everything is kept.
    pub fn take_teller(&mut self) -> Option<Teller> {
        self.teller.take()
    }

    /// What ends the mount.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Answers requests until the mount has ended and its last user has gone; then lets go what is
    /// unlinked, and makes everything durable.
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
        // A connection that broke leaves its mount behind, which nobody would answer.
        let _ = unmounter.detach();
        served.finish();
        let (trouble, broken) = (served.take_trouble(), served.is_broken());
        Ended { volume: alone(served).map(ServedVolume::into_volume), trouble, broken }
    }
}

/// The volume, once the last thread that works on a draft has let it go; none where one is stuck.
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

/// A mount that ends while a request is being handed over (a file's last release arrives in the
/// background) is told as an aborted connection instead of a missing device (`fuse_dev_do_read`,
/// fs/fuse/dev.c). Nothing is lost by it: nobody waits for such a request.
fn ended_by_unmounting(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted
}

impl Unmounter {
    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Unmounts: at once, or as soon as nobody uses it, or after 5 seconds by name alone, when the
    /// session goes on until its last user has gone. True where it ended at once or in that time.
    pub fn unmount(&self) -> io::Result<bool> {
        let end = Instant::now() + PATIENCE;
        loop {
            // Somebody may have unmounted it already, and mounted something else, or moved it.
            let Some(point) = mount::place_of(&self.source) else { return Ok(true) };
            match mount::unmount(&point, false) {
                // It may be bound to further places.
                Ok(()) => {}
                Err(_) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(_) => return self.detach().map(|()| false),
            }
        }
    }

    /// Takes the mount's name away at once, wherever it is by now; whoever uses it goes on. Errors:
    /// those of unmounting.
    pub fn detach(&self) -> io::Result<()> {
        for _ in 0..PLACES_MAX {
            let Some(point) = mount::place_of(&self.source) else { break };
            mount::unmount(&point, true)?;
        }
        Ok(())
    }

    /// Unmounts; whoever uses it after `patience` still, is cut off as by [`Unmounter::abort`].
    /// Errors: those of unmounting.
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

    /// Ends the mount whoever uses it: all requests fail from now on, those that wait for their
    /// answer too. Errors: those of unmounting.
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
