//! Information about the calling thread from /proc (proc(5)). Nothing is known about an invisible
//! thread or one in another namespace.
//!
//! Only `/proc/N/status` may be read: a thread that closes files during exec holds locks until it
//! is answered, and reading `/proc/N/stat` or `cmdline` would wait for these locks.

use std::fs;

/// The thread that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub process: u32,
    /// Whether it is exiting and closing its files.
    pub is_exiting: bool,
}

impl Asker {
    /// Reads the status of a thread by the kernel's number.
    pub(crate) fn of(thread: u32) -> Option<Self> {
        parse(&fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
    }
}

/// Parses a status. An exiting thread frees its memory before its files (`do_exit`, kernel/exit.c),
/// so that the lines about memory are missing.
fn parse(status: &str) -> Option<Asker> {
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    Some(Asker { process, is_exiting: !status.lines().any(|line| line.starts_with("VmSize:")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_memory_ends() {
        assert_eq!(parse("Name:\ta\nTgid:\t7\nPid:\t8\nThreads:\t1\n"), Some(Asker { process: 7, is_exiting: true }));
        assert_eq!(parse("Name:\ta\n"), None);
        let own = std::process::id();
        assert_eq!(Asker::of(own), Some(Asker { process: own, is_exiting: false }));
        assert_eq!(Asker::of(0), None);
    }
}
