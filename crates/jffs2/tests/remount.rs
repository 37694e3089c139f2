//! What a mount takes for obsolete is gone once the collector has erased it.

use crate::promise::formatted;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::{Clock, FlashGeometry, Payload};
use nandkit_vfs::{AttributeChange, Changes, FileSystem, NewNode};

const PAGE: usize = 4096;

/// Found by `NANDKIT_ROUNDS=6 cargo test -p nandkit-jffs2 --test all cuts::`. The node of a
/// truncation or a change of mode holds no byte of its file, so the next mount took it for
/// obsolete, the collector erased it, and after one more mount the old size and mode were back.
#[test]
fn a_truncation_and_a_mode_outlive_a_mount_and_the_collector() {
    let write = WriteOptions { compression: CompressionMode::None, ..WriteOptions::default() };
    let options = MountOptions { write, ..MountOptions::default() };
    let mut fs = formatted(FlashGeometry::nand(512, 16, 32, 26), &options);
    let root = fs.root();
    let short = fs.create(root, b"short", &NewNode::FILE).unwrap();
    fs.write(short, 0, Payload::Bytes(&[7; 5 * PAGE])).unwrap();
    let change = AttributeChange { size: Some(PAGE as u64), ..AttributeChange::default() };
    fs.set_attributes(short, &change).unwrap();
    fs.set_attributes(short, &AttributeChange { mode: Some(0o600), ..AttributeChange::default() }).unwrap();
    let churned = fs.create(root, b"churned", &NewNode::FILE).unwrap();
    fs.sync(None).unwrap();

    let mut fs = Jffs2::mount(fs.into_flash(), Clock::default(), options.clone()).unwrap();
    for round in 0..400_u32 {
        let bytes: Vec<u8> =
            (0..PAGE as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> (round % 13)) as u8).collect();
        fs.write(churned, u64::from(round % 30) * PAGE as u64, Payload::Bytes(&bytes)).unwrap();
    }
    fs.sync(None).unwrap();
    let erases = fs.counters().unwrap().erases;
    assert!(erases > 52, "each block was erased twice over: {erases}");

    let fs = Jffs2::mount(fs.into_flash(), Clock::default(), options).unwrap();
    let found = fs.stat(fs.lookup(fs.root(), b"short").unwrap()).unwrap();
    assert_eq!((found.size, found.mode), (PAGE as u64, 0o600));
}
