//! Mounts of ours whose process has gone: killed, or lost with a power cut of a container. Nobody answers them, and nothing else can be mounted there.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::mount::{self, mounts};
use crate::outcome::Listener;

/// A mount that nobody answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadMount {
    /// Where it is.
    pub point: PathBuf,
    /// The process that has gone.
    pub process: u32,
}

impl DeadMount {
    /// Unmounts it. Errors: the rights for it are missing, or fusermount3 is.
    pub fn clean(&self) -> io::Result<()> {
        mount::unmount(&self.point, true)
    }
}

/// A mount of ours at some place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveMount {
    point: PathBuf,
    source: String,
    process: u32,
}

impl LiveMount {
    /// What is mounted at a path without links; none where nothing is, or something that is not ours.
    pub fn at(point: &Path) -> Option<Self> {
        let mut found = None;
        mounts(|at, source| {
            if at == point.as_os_str().as_bytes() {
                let source = std::str::from_utf8(source).ok();
                found = source.and_then(|source| Some((source.to_owned(), process_of(source)?)));
            }
        });
        found.map(|(source, process)| Self { point: point.to_owned(), source, process })
    }

    /// The process that answers.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Asks the process to tell how it ends; none where it cannot be reached, in a container perhaps.
    pub fn listen(&self) -> Option<Listener> {
        Listener::connect(&self.source).ok()
    }

    /// Unmounts it. Errors: it is in use (not where `detach` takes its name away only), the rights are missing, or fusermount3 is.
    pub fn unmount(&self, detach: bool) -> io::Result<()> {
        mount::unmount(&self.point, detach)
    }
}

/// All of them that this process can see. A mount whose process lives is not touched: it might be stuck, and so would be who asks it.
pub fn dead_mounts() -> Vec<DeadMount> {
    let mut dead = Vec::new();
    mounts(|point, source| {
        let process = std::str::from_utf8(source).ok().and_then(process_of);
        let point = Path::new(OsStr::from_bytes(point));
        if let Some(process) = process
            && !Path::new("/proc").join(process.to_string()).exists()
            && is_unanswered(point)
        {
            dead.push(DeadMount { point: point.to_owned(), process });
        }
    });
    dead
}

/// The process in a mount's source: `nandkit:PID:STARTED`, with a number for each further mount.
fn process_of(source: &str) -> Option<u32> {
    let mut parts = source.split(':');
    let ours = parts.next() == Some("nandkit");
    let process = parts.next()?.parse().ok()?;
    let started: Option<u64> = parts.next()?.parse().ok();
    (ours && started.is_some()).then_some(process)
}

/// Whether the kernel itself says that the other end is closed.
fn is_unanswered(point: &Path) -> bool {
    std::fs::symlink_metadata(point).is_err_and(|error| error.kind() == io::ErrorKind::NotConnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_sources_are_ours() {
        assert_eq!(process_of("nandkit:12:1700000000"), Some(12));
        assert_eq!(process_of("nandkit:12:1700000000:3"), Some(12));
        for other in ["", "nandkit", "nandkit:12", "nandkit:x:1", "nandkit:12:y", "sshfs:12:1700000000", "/dev/sda1"] {
            assert_eq!(process_of(other), None, "{other}");
        }
    }
}
