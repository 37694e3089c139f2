//! A file system behind [`nandkit_vfs`] as a mount of Linux, over FUSE.
//!
//! It knows no format, reads the wall clock for time stamps, and passes every request to the file
//! system under one lock. `docs/design/04-doors.md` has the rules.

mod access;
mod answer;
mod asker;
mod atomic;
mod background;
mod create;
mod dead;
mod door;
mod drafts;
mod errno;
mod fusermount;
mod listing;
mod mount;
mod nodes;
mod operation;
mod options;
mod outcome;
mod point;
mod served_volume;
mod session;
mod translate;
mod write;

pub use background::{leave_terminal, let_go, send_signal};
pub use dead::{DeadMount, LiveMount, dead_mounts};
pub use fusermount::{find_fusermount, find_program};
pub use mount::MountError;
pub use operation::{Observer, Operation};
pub use options::{CommitLimit, Options, Owner, Timing};
pub use outcome::{Teller, Told};
pub use point::{Mounter, check_device, check_mount_point};
pub use served_volume::Volume;
pub use session::{Ended, Session, Unmounter};
