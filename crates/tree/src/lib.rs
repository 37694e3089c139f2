//! A tree of files on its way into an image or out of one.
//!
//! In: a host's directory ([`HostDirectory`], [`OrderedDirectory`]), a tar archive ([`TarArchive`])
//! or a mounted file system ([`MountedTree`]) as a [`SourceTree`](nandkit_vfs::source::SourceTree),
//! changed by [`Adjustments`], a [`DeviceTable`] and [`AndroidFiles`] ([`AdjustedTree`]). Out: into
//! a directory ([`extract`](extract::extract)) or a tar archive ([`pack`](pack::pack)). By path,
//! inside a file system: [`Editor`]. [`compare`](compare::compare) says where two trees differ.
//!
//! The same tree always comes in the same order with the same attributes. What comes from an image
//! or an archive is hostile: no name and no link of it reaches anything outside the target
//! directory, and what is left out is named in the report.

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
