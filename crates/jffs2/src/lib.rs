//! JFFS2, the journalling flash file system of Linux, over any [`nandkit_flash::Flash`]: mounting,
//! reading, writing, garbage collection, checking and building images.
//!
//! Design overview: `docs/design/03-jffs2.md`. Description of the format, with sources:
//! `docs/formats/jffs2.md`.

mod acl;
mod address;
mod byte_order;
mod catalogue;
mod check;
mod clean;
mod damage;
mod encode;
mod fragments;
#[cfg(test)]
mod hostile;
mod inode;
pub mod layout;
mod load;
pub mod medium;
mod memory;
pub mod mkfs;
mod mount;
pub mod probe;
mod read;
mod scan;
mod stored_data;
#[doc(hidden)]
pub mod testing;
mod torn;
pub mod versions;
mod volume;
mod witness;
mod work;
pub mod write;
mod xattr;

pub use address::{Ino, NodeAddress};
pub use damage::DamageKind;
pub use volume::{Jffs2, MountOptions};
