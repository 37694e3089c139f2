//! Names of a volume that writes: what entries, inodes and attributes become by each change.
//!
//! Pure changes of bytes: [`area`] (entries), [`new_inode`], [`xattrs`]. Operations: [`links`],
//! [`rename`], [`attributes`], over an [`store::InodeStore`].

pub mod area;
pub mod attributes;
pub mod entries;
pub mod links;
pub mod new_inode;
pub mod rename;
pub mod store;
pub mod temperature;
pub mod xattrs;
