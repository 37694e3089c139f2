//! What fsync and roll-forward carry over: all of a file, over long chains, with and without content in the inode, attributes, names that were another file's; orphans; and reading without writing.

mod common;
mod made;
mod writing;

use std::collections::BTreeMap;

use made::{alone, clock, complaints};
use nandkit_block::RamDevice;
use nandkit_block::wrap::OverlayDevice;
use nandkit_f2fs::checkpoint::Reason;
use nandkit_f2fs::recover::recovered;
use nandkit_f2fs::{F2fs, Log, MountOptions, NodeId, Volume, WriteOptions};
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, FileSystem, InodeNumber, Links, NewNode, OpenFiles, ReadWhole,
};
use writing::oracle::{BLOCK, SECTORS, device_of, empty_image, image_of};
use writing::{findings, unmount};
