//! Volumes that we make: we read them whole, and their geometry is that of mkfs.ubifs.

use nandkit_codec::compression::Compression;
use nandkit_testkit::rounds::in_parallel;
use nandkit_testkit::trees::built::{all_kinds, must_hold};
use nandkit_ubifs::layout::{HEADER_SIZE, Superblock};
use nandkit_ubifs::{BuildOptions, LebBytes, Ubifs};
use nandkit_vfs::source::MemoryTree;
use nandkit_vfs::{ErrorKind, FileSystem};
use zerocopy::FromBytes;

use crate::built::built;
use crate::images::made;

/// Options of ours beside those of mkfs.ubifs that mean the same.
fn shapes() -> Vec<(BuildOptions, Vec<&'static str>)> {
    let plain = BuildOptions { leb_count_max: 1000, ..BuildOptions::default() };
    let none = BuildOptions { compression: Compression::None, ..plain.clone() };
    let zlib = BuildOptions { compression: Compression::Zlib, ..plain.clone() };
    let zstd = BuildOptions { compression: Compression::Zstd, ..plain.clone() };
    vec![
        (plain.clone(), vec!["-m", "2048", "-e", "126976", "-c", "1000"]),
        (
            BuildOptions { leb_size: 129_024, leb_count_max: 20_000, ..zlib },
            vec!["-m", "2048", "-e", "129024", "-c", "20000", "-x", "zlib"],
        ),
        (
            BuildOptions { min_io_size: 512, leb_size: 15_360, leb_count_max: 6000, fanout: 3, ..plain.clone() },
            vec!["-m", "512", "-e", "15360", "-c", "6000", "-f", "3"],
        ),
        (
            BuildOptions { min_io_size: 8, leb_size: 65_408, ..none },
            vec!["-m", "8", "-e", "65408", "-c", "1000", "-x", "none"],
        ),
        (
            BuildOptions {
                min_io_size: 16_384,
                leb_size: 1_015_808,
                leb_count_max: 100,
                journal_size: Some(8 << 20),
                orphan_lebs: 2,
                reserved_size: 1 << 20,
                space_fixup: true,
                ..plain
            },
            vec!["-m", "16384", "-e", "1015808", "-c", "100", "-j", "8MiB", "-p", "2", "-R", "1MiB", "-F"],
        ),
        (
            BuildOptions { min_io_size: 2048, leb_size: 126_976, leb_count_max: 40_000, fanout: 256, ..zstd },
            vec!["-m", "2048", "-e", "126976", "-c", "40000", "-f", "256", "-x", "zstd"],
        ),
    ]
}

#[test]
fn volumes_of_all_kinds_are_read_whole() {
    let tree = all_kinds(3000);
    let shapes = shapes();
    in_parallel(shapes.len() as u64, |shape| {
        let (options, _) = &shapes[shape as usize % shapes.len()];
        let image = built(&tree, options).unwrap();
        let volume = Ubifs::mount(Box::new(image)).unwrap();
        must_hold(&volume, &tree, &[], &format!("{options:?}"));
        assert_eq!(volume.check().unwrap().findings, [], "{options:?}");
        assert_eq!(volume.facts().replayed, 0);
    });
}

fn superblock(image: &LebBytes) -> Superblock {
    Superblock::read_from_prefix(&image.bytes[HEADER_SIZE..]).unwrap().0
}

#[test]
fn the_geometry_is_that_of_mkfs_ubifs() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("tree");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("file"), "content").unwrap();
    let tree = all_kinds(1);
    for (options, words) in shapes() {
        let ours = superblock(&built(&tree, &options).unwrap());
        let theirs = superblock(&made(&root, None, &words, options.leb_size));
        let of = |of: &Superblock| {
            let areas = [of.log_lebs, of.lpt_lebs, of.orphan_lebs, of.leb_count_max, of.fanout, of.lsave_count];
            let other = [of.flags, of.min_io_size, of.leb_size, of.journal_heads, of.format];
            (areas, other, of.bud_bytes_max, of.compression)
        };
        assert_eq!(of(&ours), of(&theirs), "{words:?}");
    }
}

/// CRC-16 of the nodes of the tree of properties.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 })
    })
}

/// Properties change, and no file does.
#[test]
fn properties_that_the_index_contradicts_are_told() {
    let tree = all_kinds(50);
    let image = built(&tree, &BuildOptions { leb_count_max: 1000, ..BuildOptions::default() }).unwrap();
    let superblock = superblock(&image);
    // The first leaf stands at the beginning of the tree's first LEB.
    let first = (3 + superblock.log_lebs.get()) as usize * image.leb_size as usize;
    let is_node =
        |size: &usize| image.bytes[first..][..2] == crc16(&image.bytes[first + 2..first + size]).to_le_bytes();
    let size = (8..100).find(is_node).expect("a leaf");
    let told = |image: LebBytes| {
        let volume = Ubifs::mount(Box::new(image)).unwrap();
        must_hold(&volume, &tree, &[], "a volume with other properties");
        let findings = volume.check().unwrap().findings;
        assert!(findings.iter().all(|finding| finding.kind == "leb properties"), "{findings:?}");
        findings.into_iter().map(|finding| finding.detail).collect::<Vec<_>>()
    };
    let mut torn = image.clone();
    torn.bytes[first + 5] ^= 4;
    assert_eq!(told(torn), ["a node of the tree of properties that cannot be read"]);
    let mut other = image.clone();
    // A lower bit of the free bytes of the first LEB, behind checksum and type.
    other.bytes[first + 2] ^= 0x10;
    let sum = crc16(&other.bytes[first + 2..first + size]).to_le_bytes();
    other.bytes[first..first + 2].copy_from_slice(&sum);
    let told = told(other);
    assert!(told.len() == 1 && told[0].contains("are in use by its properties"), "{told:?}");
}

#[test]
fn the_volume_does_not_depend_on_the_number_of_threads() {
    let tree = all_kinds(50);
    let of = |threads: usize| {
        let options = BuildOptions { leb_count_max: 1000, threads, ..BuildOptions::default() };
        built(&tree, &options).unwrap().bytes
    };
    assert!(of(1) == of(3));
}

#[test]
fn what_does_not_fit_is_refused() {
    let tree = all_kinds(1);
    let plain = BuildOptions { leb_count_max: 1000, ..BuildOptions::default() };
    let error = |options: BuildOptions| built(&tree, &options).unwrap_err();
    let full = error(BuildOptions { leb_count_max: 60, ..plain.clone() });
    assert_eq!(full.kind, ErrorKind::NoSpace);
    assert!(full.detail.contains("does not fit into 60 LEBs"), "{}", full.detail);
    for (options, part) in [
        (BuildOptions { leb_count_max: 10, ..plain.clone() }, "expected at least"),
        (BuildOptions { leb_size: 1000, ..plain.clone() }, "expected 15360 to"),
        (BuildOptions { min_io_size: 3000, ..plain.clone() }, "power of two"),
        (BuildOptions { leb_size: 126_977, ..plain.clone() }, "multiple of 2048"),
        (BuildOptions { fanout: 2, ..plain.clone() }, "expected 3 to"),
        (BuildOptions { orphan_lebs: 0, ..plain.clone() }, "at least 1"),
        (BuildOptions { journal_size: Some(1 << 40), ..plain.clone() }, "too few"),
        (BuildOptions { compression: Compression::Rtime, ..plain }, "none, lzo, zlib or zstd"),
    ] {
        let error = error(options);
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{}", error.detail);
        assert!(error.detail.contains(part), "{part}: {}", error.detail);
    }
    let empty = built(&MemoryTree::new([]).unwrap(), &BuildOptions { leb_count_max: 30, ..BuildOptions::default() });
    let volume = Ubifs::mount(Box::new(empty.unwrap())).unwrap();
    assert_eq!(volume.stat(volume.root()).unwrap().links, 2);
}
