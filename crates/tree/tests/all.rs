//! Trees in and out, with GNU tar, getfattr, getfacl and mkfs.jffs2 as judges. All tests of the
//! crate are in one program; `cargo test -p nandkit-tree --test all archive::` runs those of one
//! file.

mod common;
mod planted;

mod archive;
mod damage;
mod deep;
mod device_table;
mod directory;
mod extract;
mod hostile;
mod lists;
mod ordered;
mod random;
