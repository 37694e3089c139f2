//! UBI, the layer of Linux below UBIFS, over any [`Flash`](nandkit_flash::Flash): volumes made of
//! logical erase blocks (LEBs), each of which stands in some physical erase block (PEB).
//!
//! [`Ubi::attach`] reads the headers of all PEBs, picks the newest copy of each LEB, and reads the
//! volume table. As a [`FileSystem`](nandkit_vfs::FileSystem) the device has one file per volume.
//! [`write::UbiWriter`] changes LEBs and volumes.
//!
//! Design: `docs/design/20-ubi.md`; facts of the format: `docs/formats/ubi.md`.

mod attach;
pub mod build;
mod check;
mod claims;
mod copies;
mod counts;
mod damage;
mod files;
pub mod layout;
mod medium;
pub mod probe;
mod scan;
mod table;
mod verified;
mod volume;
pub mod write;

pub use attach::Ubi;
pub use counts::PebCounts;
pub use damage::DamageKind;
pub use scan::Geometry;
pub use volume::Volume;

/// The number of a physical erase block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peb(pub u32);

/// The number of a logical erase block in its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leb(pub u32);
