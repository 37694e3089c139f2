//! JFFS2, the journalling flash file system of Linux, over any [`nandkit_flash::Flash`]: mounted, read, written, collected, checked and built.
//!
//! The design in one screen: `docs/design/03-jffs2.md`. The format in words, with sources: `docs/formats/jffs2.md`.

mod address;
pub mod catalogue;
pub mod encode;
pub mod fragments;
pub mod inode;
pub mod layout;
pub mod medium;

pub use address::NodeAddress;
