//! What a mount keeps in memory for each node.

mod common;

use common::{RamFlash, mount, plant, run};
use nandkit_jffs2::MountOptions;

#[test]
fn a_node_takes_less_than_120_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    // Most files of one or two pages: many inodes and names for few nodes. (With none longer than a page it would be about 125.)
    let table = plant(&root, 800, 5);
    let image = scratch.path().join("image");
    let (root, table, output) = (root.to_str().unwrap(), table.to_str().unwrap(), image.to_str().unwrap());
    run("mkfs.jffs2", &["-r", root, "-D", table, "-o", output, "-e", "131072", "-l", "-q", "--with-xattr"]);
    let volume = mount(RamFlash::nor(std::fs::read(&image).unwrap(), 128 << 10), MountOptions::default()).unwrap();
    let (bytes, nodes) = (volume.memory(), volume.node_count());
    println!("{bytes} bytes for {nodes} nodes: {} for each", bytes / nodes);
    assert!(nodes > 2000 && bytes / nodes < 120, "{bytes} bytes for {nodes} nodes");
    // Not less than what the nodes alone take.
    assert!(bytes / nodes > 28);
}
