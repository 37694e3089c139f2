//! Dead mounts of nandkit, whose process was killed. Their requests are not answered, and nothing
//! else can be mounted there.
//!
//! A mount's source names its process: `nandkit:PID:STARTED`, with a number for each further mount.
//! `STARTED` is when the process began, in ticks after boot (proc_pid_stat(5), `starttime`): a
//! process of that number that began at another time is a different one.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::mount::{self, mounts};
use crate::outcome::Listener;

/// A mount without a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadMount {
    /// Where it is.
    pub point: PathBuf,
    /// The process that no longer exists.
    pub process: u32,
}

impl DeadMount {
    /// Unmounts it. Errors: missing rights, or missing fusermount3.
    pub fn clean(&self) -> io::Result<()> {
        mount::unmount(&self.point, true)
    }
}

/// A mount of nandkit whose process may be alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveMount {
    point: PathBuf,
    source: String,
    process: u32,
}

impl LiveMount {
    /// The mount at a path without links; `None` if nothing is mounted there, or something else.
    pub fn at(point: &Path) -> Option<Self> {
        let mut found = None;
        mounts(|at, source| {
            if at == point.as_os_str().as_bytes() {
                let source = std::str::from_utf8(source).ok();
                found = source.and_then(|source| Some((source.to_owned(), process_of(source)?.id)));
            }
        });
        found.map(|(source, process)| Self { point: point.to_owned(), source, process })
    }

    /// The process that serves it.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Asks the process to report its end; `None` if it cannot be reached, for example in a
    /// container.
    pub fn listen(&self) -> Option<Listener> {
        Listener::connect(&self.source).ok()
    }

    /// Unmounts it. Errors: it is in use (not with `detach`), missing rights, or missing
    /// fusermount3.
    pub fn unmount(&self, detach: bool) -> io::Result<()> {
        mount::unmount(&self.point, detach)
    }
}

/// All dead mounts visible to this process. Mounts with a live process are not accessed: if one is
/// stuck, accessing it would block.
pub fn dead_mounts() -> Vec<DeadMount> {
    let mut dead = Vec::new();
    mounts(|point, source| {
        let process = std::str::from_utf8(source).ok().and_then(process_of);
        let point = Path::new(OsStr::from_bytes(point));
        if let Some(Process { id, started }) = process
            && started_of(&id.to_string()) != Some(started)
            && is_unanswered(point)
        {
            dead.push(DeadMount { point: point.to_owned(), process: id });
        }
    });
    dead
}

/// The source of a mount of this process.
pub(crate) fn source(number: u64) -> String {
    let more = if number == 0 { String::new() } else { format!(":{number}") };
    format!("nandkit:{}:{}{more}", std::process::id(), started_of("self").unwrap_or_default())
}

/// A process that mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    started: u64,
}

/// Parses the process in a mount's source.
fn process_of(source: &str) -> Option<Process> {
    let mut parts = source.split(':');
    let ours = parts.next() == Some("nandkit");
    let id = parts.next()?.parse().ok()?;
    let started = parts.next()?.parse().ok()?;
    ours.then_some(Process { id, started })
}

/// The start time of a process; `None` if it does not exist.
fn started_of(process: &str) -> Option<u64> {
    started_in(&std::fs::read(format!("/proc/{process}/stat")).ok()?)
}

/// Parses the 22nd field; the second one is a name in brackets with arbitrary characters. `None`
/// for a zombie (Z, X), which has ended.
fn started_in(status: &[u8]) -> Option<u64> {
    let name_ends = status.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(status.get(name_ends + 1..)?).ok()?;
    let mut fields = fields.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    let started = fields.nth(18)?.parse().ok()?;
    (!has_ended).then_some(started)
}

/// Whether the kernel reports a closed connection. Attributes may be cached, so that another
/// request is used.
pub(crate) fn is_unanswered(point: &Path) -> bool {
    rustix::fs::statfs(point).is_err_and(|error| error == rustix::io::Errno::NOTCONN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_sources_are_ours() {
        let process = Some(Process { id: 12, started: 1_700_000_000 });
        assert_eq!(process_of("nandkit:12:1700000000"), process);
        assert_eq!(process_of("nandkit:12:1700000000:3"), process);
        for other in ["", "nandkit", "nandkit:12", "nandkit:x:1", "nandkit:12:y", "sshfs:12:1700000000", "/dev/sda1"] {
            assert_eq!(process_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_beginning() {
        let ours = process_of(&source(3)).expect("a source");
        assert_eq!((ours.id, Some(ours.started)), (std::process::id(), started_of("self")));
        assert_eq!(started_of(&ours.id.to_string()), Some(ours.started));
        assert!(started_of("1").is_some_and(|first| first < ours.started), "the first process is older");
        let status = b"7 (a) b (c) R 1 7 7 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 4711 8192 1";
        assert_eq!((started_in(status), started_in(b"7 (a"), started_in(b"7 (a) R 1")), (Some(4711), None, None));
        let ended = b"7 (a) b (c) Z 1 7 7 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 4711 8192 1";
        assert_eq!(started_in(ended), None, "a zombie answers no mount");
    }
}
