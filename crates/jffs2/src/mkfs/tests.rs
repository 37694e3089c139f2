use nandkit_codec::compression::Compression;
use nandkit_vfs::source::{MemoryTree, SourceNode};
use nandkit_vfs::{ErrorKind, FileKind};

use super::*;
use crate::layout::{ByteOrder, Header, Inode, node_type};

fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

fn tree() -> MemoryTree {
    let file =
        |name: &str, content: Vec<u8>| (name.as_bytes().to_vec(), SourceNode::new(FileKind::Regular, 0o644), content);
    let text: Vec<u8> = (0..60_000_u32).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
    let mut sparse = vec![0; 50_000];
    sparse[20_000] = 1;
    MemoryTree::new([
        (b"dir".to_vec(), SourceNode::new(FileKind::Directory, 0o755), Vec::new()),
        file("dir/text", text),
        file("noise", noise(700_000)),
        file("empty", Vec::new()),
        file("zeroes", vec![0; 10_000]),
        file("sparse", sparse),
        (b"link".to_vec(), SourceNode::symlink(b"dir/text"), Vec::new()),
        (b"tty".to_vec(), SourceNode::device(FileKind::CharacterDevice, 0o600, 4, 64), Vec::new()),
    ])
    .unwrap()
}

fn image(options: &BuildOptions) -> (Vec<u8>, BuildReport) {
    let mut bytes = Vec::new();
    let report = build(&tree(), options, &mut bytes, &|_| {}).unwrap();
    assert_eq!(bytes.len() as u64, report.image_bytes);
    (bytes, report)
}

/// The type and address of every node of an image, and the fields of the inode nodes. Asserts that
/// each is valid.
fn nodes(order: ByteOrder, erase_size: u32, image: &[u8]) -> Vec<(u16, u32, Option<Inode>)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + 12 <= image.len() {
        let header = Header::decode(order, &image[at..]).unwrap();
        if header.magic != crate::layout::MAGIC {
            // Nothing follows the last node of a block.
            let end = (at / erase_size as usize + 1) * erase_size as usize;
            assert!(image[at..end].iter().all(|byte| *byte == 0xFF), "at {at:#x}");
            at = end;
            continue;
        }
        header.check(order).unwrap();
        let end = at + header.total_length as usize;
        assert_eq!(at / erase_size as usize, (end - 1) / erase_size as usize, "a node lies in one block");
        let inode = (header.node_type == node_type::INODE).then(|| Inode::decode(order, &image[at..]).unwrap());
        if let Some(inode) = &inode {
            assert_eq!(inode.data_crc, crate::layout::crc(&image[at + 68..end]));
            assert!(inode.compression == compression::ZERO || inode.data_size <= 4096);
        }
        found.push((header.node_type, at as u32, inode));
        at = padded(end as u32) as usize;
    }
    found
}

#[test]
fn the_same_tree_gives_the_same_bytes_on_any_number_of_threads() {
    let one = image(&BuildOptions { threads: 1, ..BuildOptions::default() }).0;
    assert_eq!(one, image(&BuildOptions { threads: 3, ..BuildOptions::default() }).0);
}

#[test]
fn every_byte_of_every_file_has_a_node() {
    for order in ByteOrder::ALL {
        for (erase_size, cleanmarker_size) in [(4096, 12), (16 << 10, 0), (128 << 10, 12)] {
            let options = BuildOptions { order, erase_size, cleanmarker_size, ..BuildOptions::default() };
            let (bytes, report) = image(&options);
            let nodes = nodes(order, erase_size, &bytes);
            let mut covered = std::collections::BTreeMap::<Ino, u32>::new();
            for inode in nodes.iter().filter_map(|(_, _, inode)| *inode).filter(|inode| inode.mode >> 12 == 8) {
                let end = covered.entry(inode.inode).or_default();
                assert_eq!(*end, inode.offset, "inode {}", inode.inode);
                *end += inode.data_size;
            }
            let mut sizes: Vec<u32> = covered.into_values().collect();
            sizes.sort_unstable();
            assert_eq!(sizes, [0, 10_000, 50_000, 648_890, 700_000]);
            let markers = nodes.iter().filter(|(kind, _, _)| *kind == node_type::CLEANMARKER).count() as u64;
            assert_eq!(markers, if cleanmarker_size > 0 { report.image_bytes / u64::from(erase_size) } else { 0 });
            // A full block loses less than the smallest node that is worth splitting for, and the
            // last block loses its rest.
            let blocks = report.image_bytes / u64::from(erase_size);
            assert!(report.lost_bytes < blocks * 260 + u64::from(erase_size), "{report:?}");
            assert_eq!((report.inodes, report.names), (9, 8));
        }
    }
}

/// The summary of each block lists the nodes that a full scan finds.
#[test]
fn summaries_list_what_their_blocks_hold() {
    for (order, erase_size, cleanmarker_size) in [(ByteOrder::Little, 8 << 10, 12), (ByteOrder::Big, 64 << 10, 0)] {
        let options = BuildOptions { order, erase_size, cleanmarker_size, summaries: true, ..BuildOptions::default() };
        let (bytes, report) = image(&options);
        let blocks = bytes.chunks(erase_size as usize);
        assert_eq!(report.summary_blocks + 1, blocks.len() as u64);
        assert!(report.lost_bytes < u64::from(erase_size));
        for (number, block) in blocks.enumerate().take(report.summary_blocks as usize) {
            let length = crate::scan::summary::length(order, block, erase_size).unwrap();
            let start = (erase_size - length) as usize;
            let mut no_xref = |_| unreachable!("the tree has no attributes");
            let listed =
                crate::scan::summary::nodes(order, &block[start..], erase_size, cleanmarker_size, &mut no_xref)
                    .unwrap();
            let listed: Vec<u32> = listed.iter().map(|found| found.offset).collect();
            let there: Vec<u32> = nodes(order, erase_size, block).iter().map(|(_, at, _)| *at).collect();
            assert_eq!(listed, there, "block {number}");
        }
    }
}

#[test]
fn an_image_is_filled_up_to_its_size_or_refused() {
    let options = BuildOptions { size: 4 << 20, ..BuildOptions::default() };
    let (bytes, report) = image(&options);
    assert_eq!(report.image_bytes, 4 << 20);
    assert_eq!(nodes(ByteOrder::Little, 64 << 10, &bytes).last().unwrap().0, node_type::CLEANMARKER);
    let options = BuildOptions { size: 128 << 10, ..BuildOptions::default() };
    let error = build(&tree(), &options, &mut Vec::new(), &|_| {}).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
}

/// A tree whose only file claims this size in bytes.
struct Claims(Vec<SourceNode>);

impl SourceTree for Claims {
    fn nodes(&self) -> &[SourceNode] {
        &self.0
    }

    fn read(&self, _: usize, _: u64, into: &mut [u8]) -> Result<usize> {
        into.fill(1);
        Ok(into.len())
    }
}

#[test]
fn what_the_format_cannot_hold_is_refused_by_path() {
    let owner = SourceNode::new(FileKind::Regular, 0o644).owned_by(70_000, 0);
    let name = vec![b'x'; 255];
    let huge = SourceNode { size: 1 << 31, ..SourceNode::new(FileKind::Regular, 0o644) };
    let device = |major, minor| SourceNode::device(FileKind::BlockDevice, 0o600, major, minor);
    for (path, node, kind, text) in [
        (b"a".to_vec(), owner, ErrorKind::NotSupported, "/a: the owner is 70000"),
        (name, SourceNode::new(FileKind::Regular, 0o644), ErrorKind::NameTooLong, "a name of 255 bytes"),
        (b"major".to_vec(), device(5000, 0), ErrorKind::InvalidArgument, "/major: device numbers"),
        (b"minor".to_vec(), device(0, 1 << 20), ErrorKind::InvalidArgument, "/minor: device numbers"),
        (b"none".to_vec(), SourceNode::symlink(b""), ErrorKind::InvalidArgument, "/none: a link's target"),
        (b"nul".to_vec(), SourceNode::symlink(b"a\0b"), ErrorKind::InvalidArgument, "/nul: a link's target"),
        (b"long".to_vec(), SourceNode::symlink(&[b'x'; 255]), ErrorKind::NameTooLong, "/long: a link's target"),
        (b"huge".to_vec(), huge, ErrorKind::FileTooBig, "/huge: 2147483648 bytes"),
    ] {
        let tree = Claims(vec![SourceNode::new(FileKind::Directory, 0o755), SourceNode { name: path, ..node }]);
        let error = build(&tree, &BuildOptions::default(), &mut Vec::new(), &|_| {}).unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.detail.contains(text), "{}", error.detail);
    }
}

#[test]
fn impossible_options_are_refused() {
    let good = BuildOptions::default();
    for options in [
        BuildOptions { erase_size: 2048, ..good.clone() },
        BuildOptions { page_size: 3000, ..good.clone() },
        BuildOptions { cleanmarker_size: 8, ..good.clone() },
        BuildOptions { oob: Some(OobPages { page_size: 2048, oob_size: 64 }), ..good.clone() },
        BuildOptions { cleanmarker_size: 0, oob: Some(OobPages { page_size: 2048, oob_size: 8 }), ..good.clone() },
        BuildOptions { cleanmarker_size: 0, oob: Some(OobPages { page_size: 1 << 17, oob_size: 64 }), ..good.clone() },
        BuildOptions { size: 1000, ..good.clone() },
        BuildOptions { compressions: vec![Compression::DynRubin], ..good.clone() },
    ] {
        assert_eq!(options.check().unwrap_err().kind, ErrorKind::InvalidArgument);
    }
}

/// No image is made of trees that could not be read back: the reader limits the depth of
/// directories and the total length of paths.
#[test]
fn trees_deeper_or_longer_than_what_is_read_are_refused() {
    let directories = |count: usize, name: &str| {
        let path = vec![name; count].join("/").into_bytes();
        MemoryTree::new([(path, SourceNode::new(FileKind::Directory, 0o755), Vec::new())]).unwrap()
    };
    let long = "n".repeat(250);
    let refused = |tree: &MemoryTree| match build(tree, &BuildOptions::default(), &mut Vec::new(), &|_| {}) {
        Ok(_) => String::new(),
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::NameTooLong);
            error.detail
        }
    };
    assert_eq!(refused(&directories(4095, "d")), "");
    let deep = refused(&directories(4096, "d"));
    assert!(deep.contains("/d/d is 4096 directories deep; expected at most 4095"), "{deep}");
    assert_eq!(refused(&directories(600, &long)), "");
    let far = refused(&directories(800, &long));
    assert!(far.starts_with("/...") && far.contains("expected at most 67108864 in all"), "{far}");
}
