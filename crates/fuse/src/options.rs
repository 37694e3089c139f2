//! Options of a mount.

use std::sync::Arc;
use std::time::Duration;

use nandkit_units::{Clock, Nanos};

use crate::operation::Observer;

/// A fixed owner shown for every file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user shown as owner; `None` shows the stored one.
    pub uid: Option<u32>,
    /// The group shown; `None` shows the stored one.
    pub gid: Option<u32>,
}

/// The time at which requests are issued and stamped.
#[derive(Clone, Debug, Default)]
pub enum Timing {
    /// No time: the mount is read-only.
    #[default]
    None,
    /// Changes are stamped with the host's time, to which this clock is set. Devices take no
    /// simulated time, so reads may run in parallel.
    Calendar(Clock),
    /// Changes are stamped with the host's time, and a request is issued when it arrives: at `from`
    /// plus the host's time since the mount, or later while the device is busy. Requests are
    /// answered one at a time.
    Arrivals {
        /// The stack's clock.
        clock: Clock,
        /// The simulated instant of the mount.
        from: Nanos,
    },
}

/// When changes are synced without a request by a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLimit {
    /// After this many bytes.
    pub bytes: u64,
    /// After this time.
    pub every: Duration,
}

/// Options of a session.
#[derive(Default)]
pub struct Options {
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// A fixed owner to show for all files. Owners then cannot be changed, and a new file gets the
    /// stored owner of its directory.
    pub owner: Option<Owner>,
    /// Whether other users get access, by the permissions of the files. Mounts by root always allow
    /// it; others need `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// The time at which requests are issued and stamped.
    pub timing: Timing,
    /// When changes are synced without a request by a program; `None` waits for a sync or for the
    /// end of the mount.
    pub commit: Option<CommitLimit>,
    /// The observer of requests.
    pub observer: Option<Arc<dyn Observer>>,
    /// Threads that answer requests; 0 stands for one. With several, reads run in parallel (not
    /// with [`Timing::Arrivals`]), and changes one at a time.
    ///
    /// Answers may then overtake each other. The kernel drops attributes that were requested before
    /// a change and arrive after it (`attr_version`, fs/fuse/inode.c). It holds a directory's lock
    /// while a name in it is looked up or changed, and a page's lock while the page is read. It
    /// forgets only references from answers that it has received.
    pub threads: usize,
}
