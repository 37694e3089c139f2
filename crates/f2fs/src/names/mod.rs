//! Names of a volume that writes: what entries, inodes and attributes become by each change.
//!
//! The files here change bytes that somebody else reads and writes: areas of entries, inodes' blocks, areas of attributes.

pub mod area;
pub mod new_inode;
pub mod temperature;
pub mod xattrs;
