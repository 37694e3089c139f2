//! Volumes made from trees: fsck.f2fs has no complaints, and everything reads back.

use crate::made;

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::made::{clock, complaints, everything, new_image, open_image};
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions, MkfsReport, features_named};
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_testkit::trees::built;
use nandkit_units::ReadInto;
use nandkit_vfs::source::{MemoryTree, SourceNode, SourceTree};
use nandkit_vfs::{ErrorKind, FileKind, FileSystem};

/// Makes a volume of the tree, with `bytes` or as small as possible.
fn make(path: &Path, tree: &dyn SourceTree, bytes: Option<u64>, options: &MkfsOptions) -> MkfsReport {
    let mkfs = Mkfs::new(tree, options.clone()).unwrap();
    let bytes = bytes.unwrap_or_else(|| mkfs.smallest_size().unwrap());
    mkfs.write(&mut new_image(path, bytes), &clock(), &|_| {}).unwrap()
}

/// Opens an image with the reader and compares it with the tree.
fn must_hold(path: &Path, tree: &dyn SourceTree, context: &str) {
    let volume = F2fs::mount(open_image(path), clock(), MountOptions::default()).unwrap();
    built::must_hold(&volume, tree, &[b"lost+found"], context);
}

fn image(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("image")
}

#[test]
fn trees_with_everything_are_sound_and_whole() {
    let tree = everything();
    let feature = |names: &str| MkfsOptions { features: features_named(names).unwrap(), ..MkfsOptions::default() };
    for (name, options, bytes) in [
        ("default", MkfsOptions::default(), None),
        ("1 GiB", MkfsOptions::default(), Some(1 << 30)),
        ("extra", feature("extra_attr,inode_checksum,inode_crtime,sb_checksum,lost_found"), None),
        ("flexible", feature("extra_attr,flexible_inline_xattr,inode_checksum,compression"), None),
        ("quota", feature("extra_attr,quota,project_quota,lost_found,verity,encrypt"), None),
        ("sections", MkfsOptions { segments_per_section: 4, sections_per_zone: 2, ..MkfsOptions::default() }, None),
        ("heap", MkfsOptions { heap: true, extended_node_bitmap: true, ..MkfsOptions::default() }, Some(700 << 20)),
        ("read-only", feature("ro"), None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = image(&directory);
        let report = make(&path, &tree, bytes, &options);
        assert_eq!(complaints(&path), Vec::<String>::new(), "{name}: {report:?}");
        must_hold(&path, &tree, name);
        assert_eq!(
            report.content_bytes,
            tree.nodes()
                .iter()
                .filter(|n| n.hard_link_of.is_none() && n.kind == FileKind::Regular)
                .map(|n| n.size)
                .sum::<u64>()
        );
    }
}

/// Files of holes and some data, whose content is computed.
struct Sparse {
    nodes: Vec<SourceNode>,
    data: Vec<Vec<Range<u64>>>,
}

impl Sparse {
    fn new(files: Vec<(u64, Vec<Range<u64>>)>) -> Self {
        let mut nodes = vec![SourceNode::new(FileKind::Directory, 0o755)];
        let mut data = vec![Vec::new()];
        for (number, (size, ranges)) in files.into_iter().enumerate() {
            let name = format!("{number:03}").into_bytes();
            nodes.push(SourceNode { name, size, ..SourceNode::new(FileKind::Regular, 0o644) });
            data.push(ranges);
        }
        Self { nodes, data }
    }
}

impl SourceTree for Sparse {
    fn nodes(&self) -> &[SourceNode] {
        &self.nodes
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
        let count = (self.nodes[node].size - offset).min(into.len() as u64);
        let ranges = &self.data[node];
        into.fill(0);
        for range in ranges {
            for at in range.start.max(offset)..range.end.min(offset + count) {
                into[(at - offset) as usize] = (at / 4096 * 7 + at % 251 + node as u64) as u8;
            }
        }
        Ok(count as usize)
    }

    fn data_after(&self, node: usize, offset: u64) -> nandkit_vfs::Result<Option<Range<u64>>> {
        let next = self.data[node].iter().find(|range| range.end > offset);
        Ok(next.map(|range| range.start.max(offset)..range.end))
    }
}

/// A range of `pages` pages, as bytes.
const fn at(number: u64, pages: u64) -> Range<u64> {
    number * 4096..(number + pages) * 4096
}

#[test]
fn holes_take_nothing_up_to_the_largest_file() {
    let n = 1018_u64;
    let page = 4096;
    let own = 873;
    let largest = (2 * n + 2 * n * n + n * n * n) * page;
    let double = own + 2 * n + 2 * n * n;
    let tree = Sparse::new(vec![
        (1 << 30, vec![]),
        (1 << 30, vec![at(5, 2), at(own - 1, 3), at(own + n - 1, 2), at(own + 2 * n, 1), at(200_000, 700)]),
        (
            largest,
            vec![at(own + 2 * n + n * n - 1, 2), at(double - 1, 2), at(double + n * n - 1, 2), largest - 5000..largest],
        ),
        (100_000, Vec::from([at(24, 1)])),
        (page * 10 + 1, vec![]),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let path = image(&directory);
    let report = make(&path, &tree, None, &MkfsOptions::default());
    assert_eq!(complaints(&path), Vec::<String>::new(), "{report:?}");
    // The root has 1, the files have none, 708, 8, 1 and none.
    assert_eq!(report.data_blocks, 1 + 708 + 8 + 1, "{report:?}");
    let volume = F2fs::mount(open_image(&path), clock(), MountOptions::default()).unwrap();
    for (index, ranges) in tree.data.iter().enumerate().skip(1) {
        let inode = volume.lookup(volume.root(), &tree.nodes[index].name).unwrap();
        let size = tree.nodes[index].size;
        for range in ranges {
            let (start, end) = (range.start.saturating_sub(5000), (range.end + 5000).min(size));
            let count = (end - start) as usize;
            let (mut expected, mut found) = (vec![0; count], vec![0xEE; count]);
            tree.read(index, start, &mut expected).unwrap();
            assert_eq!(volume.read(inode, start, ReadInto::Bytes(&mut found)).unwrap(), count);
            assert!(expected == found, "file {index}, {range:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let tree = Sparse::new(vec![(200 << 20, Vec::from([at(0, 200 << 8)]))]);
    let mkfs = Mkfs::new(&tree, MkfsOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = image(&directory);
    let mut device = new_image(&path, 100 << 20);
    let error = mkfs.write(&mut device, &clock(), &|_| {}).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
    let needed = mkfs.smallest_size().unwrap();
    assert!(error.detail.contains(&nandkit_units::format_bytes(needed)), "{}", error.detail);
    assert!(!nandkit_block::BlockDevice::extent(&device, nandkit_units::Lba(0), 1000).holds);
    drop(device);
    // The size in the error works, and no smaller one.
    let smaller = Mkfs::new(&tree, MkfsOptions::default()).unwrap();
    assert!((200 << 20..300 << 20).contains(&needed), "{needed}");
    let path = directory.path().join("enough");
    smaller.write(&mut new_image(&path, needed), &clock(), &|_| {}).unwrap();
    assert_eq!(complaints(&path), Vec::<String>::new());
}

#[test]
fn the_same_tree_makes_the_same_volume() {
    let tree = everything();
    let directory = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| directory.path().join(name));
    for path in &paths {
        make(path, &tree, None, &MkfsOptions::default());
    }
    assert_eq!(made::differing(&open_image(&paths[0]), &open_image(&paths[1])), Vec::<u64>::new());
}

/// Changes one byte of an image.
fn change(path: &Path, at: u64, change: impl Fn(u8) -> u8) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[change(byte[0])], at).unwrap();
}

#[test]
fn judges_see_what_is_planted() {
    let tree = everything();
    let directory = tempfile::tempdir().unwrap();
    let path = image(&directory);
    make(&path, &tree, Some(256 << 20), &MkfsOptions::default());
    // The first main segments are the logs of hot, warm and cold nodes and of hot data
    // (f2fs-mkfs.md, "Geometry"): 2560 blocks after block 4096 in this volume.
    let main = 4096 * 4096;
    for (what, at) in [
        ("links of the root", main + 12),
        ("blocks of the root", main + 24),
        ("a file's footer", main + 512 * 4096 + 4072),
        ("hash of a name in the root", main + 3 * 512 * 4096 + 30 + 2 * 11),
        ("entry of the NAT", 2560 * 4096 + 9 * 20),
        ("entry of a full segment in the SIT", 1536 * 4096 + 74 + 40),
        ("owner of a block in the SSA", (3584 + 1) * 4096 + 7),
    ] {
        change(&path, at, |byte| byte ^ 1);
        assert!(!complaints(&path).is_empty(), "{what}: fsck.f2fs is content");
        change(&path, at, |byte| byte ^ 1);
        assert_eq!(complaints(&path), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn either_pack_opens_a_volume_with_a_tree() {
    let tree = everything();
    let directory = tempfile::tempdir().unwrap();
    let path = image(&directory);
    make(&path, &tree, Some(256 << 20), &MkfsOptions::default());
    for pack in [512, 1024] {
        change(&path, pack * 4096, |byte| byte ^ 1);
        assert_eq!(complaints(&path), Vec::<String>::new(), "without the pack at block {pack}");
        must_hold(&path, &tree, "one pack");
        change(&path, pack * 4096, |byte| byte ^ 1);
    }
}

#[test]
fn quotas_of_many_owners_are_those_that_fsck_counts() {
    let mut builder = MemoryTree::builder();
    for number in 0..700_u32 {
        let owner = number * number * 37;
        let node = SourceNode::new(FileKind::Regular, 0o644).owned_by(owner, owner % 1000);
        builder.put(format!("f{number}").as_bytes(), node, Some(vec![1; number as usize * 50])).unwrap();
    }
    let tree = MemoryTree::from_builder(builder);
    let directory = tempfile::tempdir().unwrap();
    let path = image(&directory);
    let features = features_named("extra_attr,quota,project_quota,lost_found").unwrap();
    make(&path, &tree, Some(128 << 20), &MkfsOptions { features, ..MkfsOptions::default() });
    assert_eq!(complaints(&path), Vec::<String>::new());
    // The judge checks usage: change one byte of a record in the users' file, which starts after
    // the root's block in hot data.
    let image = std::fs::read(&path).unwrap();
    let start = image.windows(4).position(|bytes| bytes == 0xD9C0_1F11_u32.to_le_bytes()).unwrap();
    change(&path, start as u64 + 5 * 1024 + 16 + 24, |byte| byte ^ 2);
    let told = complaints(&path);
    assert!(told.iter().any(|line| line.contains("fsck_chk_quota_files")), "{told:?}");
}

/// Attributes of the root that need a node: the internal inodes follow it, and the superblock has
/// their numbers.
#[test]
fn quota_files_are_where_the_superblock_says_whatever_nodes_the_root_has() {
    let mut builder = MemoryTree::builder();
    builder.put(b"file", SourceNode::new(FileKind::Regular, 0o644).owned_by(7, 8), Some(vec![1; 5000])).unwrap();
    builder.get_mut(b"").unwrap().unwrap().xattrs = vec![(b"user.large".to_vec(), vec![b'x'; 900])];
    let tree = MemoryTree::from_builder(builder);
    for features in ["extra_attr,quota", "extra_attr,quota,project_quota,lost_found", "extra_attr,project_quota"] {
        let directory = tempfile::tempdir().unwrap();
        let path = image(&directory);
        let options = MkfsOptions { features: features_named(features).unwrap(), ..MkfsOptions::default() };
        make(&path, &tree, Some(64 << 20), &options);
        assert_eq!(complaints(&path), Vec::<String>::new(), "{features}");
        let report = nandkit_f2fs::check(vec![open_image(&path)], clock()).unwrap();
        assert_eq!(report.findings, [], "{features}");
        must_hold(&path, &tree, features);
    }
}

/// mkfs.f2fs gives users of these volumes more blocks than the main area has, and fsck.f2fs refuses
/// them.
#[test]
fn volumes_of_large_zones_are_sound() {
    let tree = everything();
    for (mib, zone, features) in [(5118, 256, ""), (160, 2, "ro"), (160, 1, "ro"), (4096, 200, ""), (1000, 30, "")] {
        let directory = tempfile::tempdir().unwrap();
        let path = image(&directory);
        let features = features_named(features).unwrap();
        let options = MkfsOptions { sections_per_zone: zone, features, ..MkfsOptions::default() };
        make(&path, &tree, Some(mib << 20), &options);
        assert_eq!(complaints(&path), Vec::<String>::new(), "{mib} MiB, zones of {zone}");
        let report = nandkit_f2fs::check(vec![open_image(&path)], clock()).unwrap();
        assert_eq!(report.findings, [], "{mib} MiB, zones of {zone}");
    }
}

#[test]
fn numbers_of_devices_that_no_inode_has_room_for_are_refused() {
    for (major, minor, fits) in [(4095_u64, 0xF_FFFF_u64, true), (5000, 3, false), (8, 1 << 20, false)] {
        let mut builder = MemoryTree::builder();
        let node = SourceNode { device: major << 32 | minor, ..SourceNode::new(FileKind::BlockDevice, 0o600) };
        builder.put(b"dev", node, None).unwrap();
        let tree = MemoryTree::from_builder(builder);
        match Mkfs::new(&tree, MkfsOptions::default()) {
            Ok(_) => assert!(fits, "{major}:{minor}"),
            Err(error) => {
                assert!(!fits, "{major}:{minor}");
                assert_eq!(error.kind, ErrorKind::InvalidArgument);
                assert!(error.detail.contains("/dev: device"), "{}", error.detail);
            }
        }
    }
}
