//! What the host tells of a thread that asks for something (proc(5)). Of one that it cannot see, or
//! in another name space, nothing is known.
//!
//! Only `/proc/N/status` may be read: a thread that closes files as it becomes another program
//! holds locks until it is answered, for which a look at `/proc/N/stat` or `cmdline` waits.

use std::fs;

/// A thread that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub process: u32,
    /// It ends, and closes its files as it does.
    pub is_exiting: bool,
}

impl Asker {
    /// `thread`: as the kernel numbers it.
    pub(crate) fn of(thread: u32) -> Option<Self> {
        parse(&fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
    }
}

/// A thread that ends gives its memory back before its files (`do_exit`, kernel/exit.c): then there
/// are no lines about memory.
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
