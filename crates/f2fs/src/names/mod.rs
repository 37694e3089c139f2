//! Naming operations of a writable volume: how each change affects entries, inodes and attributes.
//!
//! Pure changes of bytes: [`area`] (entries), [`new_inode`], [`xattrs`]. Operations on an
//! [`store::InodeStore`]: [`links`], [`rename`], [`attributes`].

pub mod area;
pub mod attributes;
pub mod entries;
pub mod links;
pub mod new_inode;
pub mod rename;
pub mod store;
pub mod temperature;
pub mod xattrs;
