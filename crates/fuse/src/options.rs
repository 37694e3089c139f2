//! How a volume is served: what a mount is asked for.

use std::sync::Arc;
use std::time::Duration;

use nandkit_units::{Clock, Nanos};

use crate::operation::Observer;

/// The owner that every file is shown with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user that everything seems to belong to; `None` shows the file system's own.
    pub uid: Option<u32>,
    /// The group, in the same way.
    pub gid: Option<u32>,
}

/// The time at which requests are issued and stamped.
#[derive(Clone, Debug, Default)]
pub enum Timing {
    /// None: nothing is ever changed.
    #[default]
    None,
    /// Changes are stamped with the host's time, to which this clock is set. Devices take no
    /// simulated time, so reads may go in parallel.
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

/// When changes are made durable although no program asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLimit {
    /// After so many bytes.
    pub bytes: u64,
    /// After this time.
    pub every: Duration,
}

/// How a volume is served.
#[derive(Default)]
pub struct Options {
    /// Nothing is changed.
    pub read_only: bool,
    /// The owner that files are shown with, in place of the file system's. Owners cannot be changed
    /// then, and a new file belongs to the owner of its directory.
    pub owner: Option<Owner>,
    /// Users other than the one who mounts are let in, by the files' own permissions. Root's mounts
    /// are so in any case; others need `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// The time at which requests are issued and stamped.
    pub timing: Timing,
    /// When changes are made durable although no program asked for it; `None` waits for a sync or
    /// for the end of the mount.
    pub commit: Option<CommitLimit>,
    /// Who hears of requests.
    pub observer: Option<Arc<dyn Observer>>,
    /// Threads that answer requests; 0 stands for one. With several, reads go in parallel (not with
    /// [`Timing::Arrivals`]), and changes one at a time.
    ///
    /// Answers may then overtake each other. The kernel drops attributes that were asked for before
    /// a change and arrive after it (`attr_version`, fs/fuse/inode.c). It holds a directory's lock
    /// while a name in it is looked up or changed, and a page's while the page is read. It forgets
    /// only what it was told in answers that it has.
    pub threads: usize,
}
