//! The memory that a mount keeps for each node.

use crate::common::{mount, run};
use nandkit_jffs2::MountOptions;
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::trees;

/// Bytes of memory and number of nodes of a mounted image that mkfs.jffs2 makes of a tree; also
/// printed.
fn measured(arguments: &[&str], image: &std::path::Path) -> (usize, usize) {
    run(
        "mkfs.jffs2",
        &[arguments, &["-o", image.to_str().unwrap(), "-e", "131072", "-l", "-q", "--with-xattr"]].concat(),
    );
    let volume = mount(RamFlash::nor(std::fs::read(image).unwrap(), 128 << 10), MountOptions::default()).unwrap();
    let (bytes, nodes) = (volume.memory(), volume.node_count());
    println!("{bytes} bytes for {nodes} nodes: {:.1} for each", bytes as f64 / nodes as f64);
    assert!(bytes / nodes > 28, "not less than what the nodes alone take");
    (bytes, nodes)
}

#[test]
fn a_node_takes_less_than_120_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, image) = (scratch.path().join("root"), scratch.path().join("image"));
    // Most files have one or two pages, so that there are many inodes and names for few nodes.
    let table = trees::plant_all_kinds(&root, 800, 5, 1);
    let (bytes, nodes) = measured(&["-r", root.to_str().unwrap(), "-D", table.to_str().unwrap()], &image);
    assert!(nodes > 2000 && bytes < 120 * nodes, "{bytes} bytes for {nodes} nodes");
}

/// The worst case: a name and an inode for each data node.
#[test]
fn a_node_takes_no_more_where_no_file_is_longer_than_a_page() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, image) = (scratch.path().join("root"), scratch.path().join("image"));
    for number in 0..3000 {
        let directory = root.join(format!("directory-{}", number % 100));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("file-{number}.c")), vec![number as u8; number % 4096 + 1]).unwrap();
    }
    let (bytes, nodes) = measured(&["-r", root.to_str().unwrap()], &image);
    assert!(nodes >= 6000 && bytes < 120 * nodes, "{bytes} bytes for {nodes} nodes");
}
