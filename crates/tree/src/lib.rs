//! Trees of files on their way into or out of an image.
//!
//! Sources: a host directory ([`HostDirectory`], [`OrderedDirectory`]), a tar archive
//! ([`TarArchive`]) or a mounted file system ([`MountedTree`]) as a
//! [`SourceTree`](nandkit_vfs::source::SourceTree), changed by [`Adjustments`], a [`DeviceTable`]
//! and [`AndroidFiles`] ([`AdjustedTree`]). Targets: a directory ([`extract`](extract::extract)) or
//! a tar archive ([`pack`](pack::pack)). Changes by path inside a file system: [`Editor`].
//! Differences between two trees: [`compare`](compare::compare).
//!
//! The same tree always has the same order and attributes. Images and archives are treated as
//! hostile: none of their names and links reaches anything outside the target directory, and the
//! report lists everything that was left out.

mod adjust;
pub mod android;
pub mod archive;
pub mod compare;
pub mod device_table;
pub mod directory;
pub mod edit;
mod error;
pub mod extract;
mod host;
mod inward;
pub mod large;
pub mod mounted;
mod ordered;
pub mod pack;
mod salvage;

pub use adjust::{AdjustedTree, Adjustments};
pub use android::{AndroidFiles, AndroidText, FileContexts, FsConfig};
pub use archive::{ArchiveOptions, TarArchive};
pub use device_table::DeviceTable;
pub use directory::{DirectoryOptions, HostDirectory};
pub use edit::{Edit, Editor, HostFile, ModeChange, OwnerChange, host_file};
pub use error::{Result, TreeError, show};
pub use extract::{ExtractOptions, ExtractReport, Note, Progress};
pub use mounted::{MountLimits, MountedTree};
pub use ordered::{HostClock, OrderedDirectory, OrderedOptions};
