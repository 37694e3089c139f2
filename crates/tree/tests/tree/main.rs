//! Trees in and out, with GNU tar, getfattr, getfacl and mkfs.jffs2 as judges.

mod archive;
mod common;
mod damage;
mod deep;
mod device_table;
mod directory;
mod extract;
mod hostile;
mod lists;
mod planted;
mod random;
