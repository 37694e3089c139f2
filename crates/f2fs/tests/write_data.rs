//! File content against a model: random writes, truncations, holes and reservations, over many
//! mounts. After each, fsck.f2fs and our check find nothing.

use crate::writing;

use std::collections::BTreeMap;
use std::path::Path;

use crate::made::{clock, new_image};
use crate::writing::image::{Image, MIB, file, nid};
use crate::writing::{assert_sound, mount, unmount};
use nandkit_block::{BlockDevice, FileDevice};
use nandkit_f2fs::layout::InodeHead;
use nandkit_f2fs::layout::inode::{Extent, advise, inline};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::testing::encode::inode::InodeRest;
use nandkit_f2fs::write::PageLimits;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::write::ipu;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Described, Description, Generator, Payload, ReadInto};
use nandkit_vfs::{Changes, ErrorKind, FileSystem, InodeNumber, Timestamp};
use zerocopy::FromZeros;

/// A volume made by our mkfs with `files` files in its root.
fn make(path: &Path, bytes: u64, files: usize, features: &str) -> Vec<NodeId> {
    use nandkit_vfs::FileKind;
    use nandkit_vfs::source::{MemoryTree, SourceNode};
    let mut builder = MemoryTree::builder();
    for number in 0..files {
        let node = SourceNode::new(FileKind::Regular, 0o644);
        // Some files have content from the start.
        let content = vec![number as u8 + 1; number % 3 * 3000];
        builder.put(format!("file-{number}").as_bytes(), node, Some(content)).unwrap();
    }
    let tree = MemoryTree::from_builder(builder);
    let options = MkfsOptions { features: features_named(features).unwrap(), ..MkfsOptions::default() };
    let _ = std::fs::remove_file(path);
    Mkfs::new(&tree, options).unwrap().write(&mut new_image(path, bytes), &clock(), &|_| {}).unwrap();
    let volume = mount(path, WriteOptions::default());
    let mut found = Vec::new();
    for ino in 4..4 + files as u32 + 10 {
        if let Ok(inode) = volume.inode_at(NodeId(ino))
            && inode.kind == FileKind::Regular
        {
            found.push(NodeId(ino));
        }
    }
    assert_eq!(found.len(), files);
    found
}

/// The expected content of each file.
type Model = BTreeMap<NodeId, Vec<u8>>;

fn content<D: BlockDevice>(volume: &WritableVolume<D>, ino: NodeId) -> Vec<u8> {
    let inode = volume.inode_at(ino).unwrap();
    let mut bytes = vec![0xA5; inode.head.size.get() as usize];
    volume.read_at(&inode, 0, &mut bytes).unwrap();
    bytes
}

fn must_hold<D: BlockDevice>(volume: &WritableVolume<D>, model: &Model, context: &str) {
    for (&ino, expected) in model {
        let found = content(volume, ino);
        assert_eq!(found.len(), expected.len(), "{context}: {ino}");
        if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
            panic!("{context}: {ino} differs at byte {at}");
        }
        let inode = volume.inode_at(ino).unwrap();
        let (mut at, mut by_ranges) = (0, vec![0; expected.len()]);
        while let Some(range) = volume.data_after(&inode, at).unwrap() {
            assert!(range.start >= at && range.start < range.end && range.end <= expected.len() as u64);
            let range_at = range.start as usize..range.end as usize;
            by_ranges[range_at.clone()].copy_from_slice(&expected[range_at]);
            at = range.end;
        }
        assert!(by_ranges == *expected, "{context}: {ino}: ranges leave data out");
    }
}

fn bytes_of(random: &mut Random, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Does one random operation on volume and model.
fn step<D: BlockDevice>(volume: &mut WritableVolume<D>, model: &mut Model, random: &mut Random, largest: u64) {
    let inos: Vec<NodeId> = model.keys().copied().collect();
    let ino = inos[random.below(inos.len() as u64) as usize];
    let file = model.get_mut(&ino).unwrap();
    let offset = match random.below(4) {
        0 => 0,
        1 => file.len() as u64,
        2 => random.below(largest / 4096) * 4096,
        _ => random.below(largest),
    };
    match random.below(20) {
        0..10 => {
            let length = [1, 100, 3000, 4096, 20_000, 100_000][random.below(6) as usize];
            let described = random.below(4) == 0;
            let mut bytes = bytes_of(random, length);
            let payload = if described {
                let description =
                    Description { generator: Generator::Record, record: random.below(1000), ..Description::default() };
                let described = Described { description, length: length as u32 };
                Payload::Described(described).copy_to(&mut bytes);
                Payload::Described(described)
            } else {
                Payload::Bytes(&bytes)
            };
            let taken = match volume.write(ino, offset, payload) {
                Ok(taken) => taken,
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                    0
                }
            };
            if taken > 0 {
                let end = offset as usize + taken;
                file.resize(file.len().max(end), 0);
                file[offset as usize..end].copy_from_slice(&bytes[..taken]);
            }
        }
        10..13 => {
            let size = if random.below(4) == 0 { 0 } else { offset };
            if volume.truncate(ino, size).is_ok() {
                file.resize(size as usize, 0);
            }
        }
        13..15 => {
            let length = random.below(60_000);
            volume.punch(ino, offset, length).unwrap();
            let end = (offset + length).min(file.len() as u64) as usize;
            if (offset as usize) < end {
                file[offset as usize..end].fill(0);
            }
        }
        15..17 => {
            let (length, keep) = (1 + random.below(200_000), random.below(2) == 0);
            match volume.allocate_range(ino, offset, length, keep) {
                Ok(()) if !keep => file.resize(file.len().max((offset + length) as usize), 0),
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind, ErrorKind::NoSpace, "{error}"),
            }
        }
        17 => volume.checkpoint(Reason::Sync).unwrap(),
        18 => volume.sync().unwrap(),
        _ => {
            let xattrs = if random.below(3) == 0 { 0 } else { 24 + random.below(4200) as usize / 4 * 4 };
            let mut area = vec![0; xattrs];
            if xattrs > 0 {
                let value = vec![7; xattrs.saturating_sub(24 + 5).max(1)];
                area = nandkit_f2fs::testing::encode::xattr::area(&[(b"user.a".to_vec(), value)], 8000).unwrap();
            }
            match volume.set_xattr_area(ino, &area) {
                Ok(()) => {
                    let inode = volume.inode_at(ino).unwrap();
                    let found = nandkit_f2fs::testing::xattr::area(&*volume, &inode).unwrap();
                    assert!(found.starts_with(&area) && found[area.len()..].iter().all(|&byte| byte == 0));
                }
                Err(error) => assert_eq!(error.kind, ErrorKind::NoSpace, "{error}"),
            }
        }
    }
}

fn random_run(path: &Path, files: &[NodeId], options: WriteOptions, rounds: u32, steps: u32, largest: u64, seed: u64) {
    let mut random = Random::new(seed, "content of files");
    let mut volume = mount(path, options);
    let mut model: Model = files.iter().map(|&ino| (ino, content(&volume, ino))).collect();
    for round in 0..rounds {
        for number in 0..steps {
            step(&mut volume, &mut model, &mut random, largest);
            if number % 97 == 0 {
                must_hold(&volume, &model, &format!("round {round}, step {number}"));
            }
        }
        must_hold(&volume, &model, &format!("round {round}, before the unmount"));
        assert_eq!(volume.segments().faults(), 0);
        unmount(volume);
        assert_sound(path, &format!("round {round}"));
        volume = mount(path, options);
        must_hold(&volume, &model, &format!("round {round}, mounted again"));
    }
}

#[test]
fn files_hold_what_was_written() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let small = PageLimits { dirty: 200, clean: 100 };
    for (seed, features, options) in [
        (1, "", WriteOptions::default()),
        (
            2,
            "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr",
            WriteOptions { pages: small, ..WriteOptions::default() },
        ),
        (3, "", WriteOptions { ipu_policy: Some(0), pages: small, ..WriteOptions::default() }),
        (4, "", WriteOptions { lfs: true, pages: small, ..WriteOptions::default() }),
        (
            5,
            "",
            WriteOptions {
                ipu_policy: Some(ipu::FSYNC),
                logs: nandkit_f2fs::write::ActiveLogs::Two,
                ..WriteOptions::default()
            },
        ),
    ] {
        let files = make(&path, 64 << 20, 9, features);
        random_run(&path, &files, options, 2, 150, 3_000_000, seed);
    }
}

#[test]
fn a_nearly_full_volume_says_so_and_loses_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let pages = PageLimits { dirty: 300, clean: 100 };
    for (seed, options) in [
        (11, WriteOptions { pages, ..WriteOptions::default() }),
        (12, WriteOptions { ipu_policy: Some(0), pages, ..WriteOptions::default() }),
        (13, WriteOptions { lfs: true, pages, ..WriteOptions::default() }),
    ] {
        let files = make(&path, 64 << 20, 9, "");
        let mut volume = mount(&path, options);
        let mut at = 0;
        // Full to the last block.
        let chunk = vec![0x5A; 1 << 20];
        loop {
            match volume.write(files[0], at, Payload::Bytes(&chunk)) {
                Ok(taken) => at += taken as u64,
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                    break;
                }
            }
        }
        assert!(volume.segments().space.free_blocks() == 0, "{:?}", volume.segments().space);
        volume.truncate(files[0], at - (2 << 20)).unwrap();
        unmount(volume);
        assert_sound(&path, "full");
        random_run(&path, &files, options, 2, 120, 3_000_000, seed);
    }
}

#[test]
fn large_files_reach_indirect_nodes_and_are_freed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let files = make(&path, 128 << 20, 2, "");
    let mut volume = mount(&path, WriteOptions::default());
    let before = volume.segments().space;
    let n = 1018_u64;
    let pages =
        [0, 923, 923 + n, 923 + 2 * n, 923 + 2 * n + n * n, 923 + 2 * n + 2 * n * n, 923 + 2 * n + 3 * n * n + 5];
    for page in pages {
        volume.write(files[0], page * 4096 + 17, Payload::Bytes(b"far away")).unwrap();
    }
    unmount(volume);
    assert_sound(&path, "seven pages");
    let mut volume = mount(&path, WriteOptions::default());
    let inode = volume.inode_at(files[0]).unwrap();
    for page in pages {
        let mut bytes = [0; 10];
        volume.read_at(&inode, page * 4096 + 16, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0far away\0");
    }
    for page in pages.into_iter().rev() {
        volume.truncate(files[0], page * 4096).unwrap();
        volume.checkpoint(Reason::Sync).unwrap();
    }
    // Its inline content was empty.
    assert_eq!(
        (volume.segments().space.valid_blocks, volume.segments().space.valid_nodes),
        (before.valid_blocks, before.valid_nodes)
    );
    unmount(volume);
    assert_sound(&path, "cut off again");
}

#[test]
fn inodes_are_made_and_freed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let options = MkfsOptions::default();
    Mkfs::new(&EmptyTree::new(&options), options.clone())
        .unwrap()
        .write(&mut new_image(&path, 64 << 20), &clock(), &|_| {})
        .unwrap();
    let mut volume = mount(&path, WriteOptions::default());
    let before = volume.segments().space;
    let mut head = InodeHead::new_zeroed();
    (head.mode, head.links, head.inline) = (0o100_600.into(), 0.into(), inline::DATA);
    let rest = InodeRest {
        extra_bytes: 0,
        project_id: 0,
        compression: (0, 0, 0),
        xattr_words: 0,
        created: Timestamp(0),
        inline: &[],
        words: &[],
        xattrs: &[],
        nids: [NodeId::NONE; 5],
        extent: Extent::default(),
    };
    let mut made = Vec::new();
    for number in 0..200_u64 {
        let ino = volume.new_inode(&head, &rest).unwrap();
        volume.add_orphan(ino).unwrap();
        volume.write(ino, 0, Payload::Bytes(&vec![number as u8; number as usize * 300])).unwrap();
        made.push(ino);
    }
    volume.sync().unwrap();
    assert_eq!(volume.segments().space.valid_inodes, before.valid_inodes + 200);
    assert_eq!(volume.checkpoint_state().0.orphans, made);
    for (number, &ino) in made.iter().enumerate() {
        assert_eq!(content(&volume, ino), vec![number as u8; number * 300]);
        volume.free_inode(ino).unwrap();
    }
    assert_eq!(volume.inode(InodeNumber(made[7].0.into())).unwrap_err().kind, ErrorKind::NotFound);
    let after = volume.segments().space;
    assert_eq!(
        (after.valid_blocks, after.valid_nodes, after.valid_inodes),
        (before.valid_blocks, before.valid_nodes, before.valid_inodes)
    );
    unmount(volume);
    assert_sound(&path, "freed");
}

/// Overwrites single pages of a nearly full volume, far more than its free space: sections are
/// collected or gaps filled, and nothing is lost.
#[test]
fn overwrites_of_a_nearly_full_volume_are_collected() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let pages = PageLimits { dirty: 500, clean: 100 };
    for (name, options) in [
        ("ssr", WriteOptions { ipu_policy: Some(0), pages, ..WriteOptions::default() }),
        ("lfs", WriteOptions { lfs: true, pages, ..WriteOptions::default() }),
    ] {
        let files = make(&path, 96 << 20, 6, "");
        let mut volume = mount(&path, options);
        volume.segments_mut().sit_mut().keep_truth();
        let free = volume.segments().space.free_blocks();
        let each = (free * 9 / 10 / 6) as usize;
        let mut versions = vec![vec![0_u64; each]; files.len()];
        let page_of = |file: usize, page: usize, version: u64| {
            let mut bytes = vec![0; 4096];
            Random::new(version * 1_000_000 + (file * 100_000 + page) as u64, "page").fill(&mut bytes[..64]);
            bytes
        };
        for (file, &ino) in files.iter().enumerate() {
            for page in 0..each {
                volume.write(ino, page as u64 * 4096, Payload::Bytes(&page_of(file, page, 0))).unwrap();
            }
        }
        volume.sync().unwrap();
        let mut random = Random::new(21, "overwrites");
        for number in 0..20_000_u64 {
            let (file, page) = (random.below(files.len() as u64) as usize, random.below(each as u64) as usize);
            versions[file][page] = number + 1;
            let bytes = page_of(file, page, number + 1);
            volume.write(files[file], page as u64 * 4096, Payload::Bytes(&bytes)).unwrap();
            if number % 10_000 == 9_999 {
                volume.sync().unwrap();
                assert_eq!(volume.segments().faults(), 0);
                let usage = volume.segments().usage();
                let taken = |used: bool| -> u64 {
                    let of = |log| if used { usage.used_segments_taken(log) } else { usage.free_segments_taken(log) };
                    nandkit_f2fs::Log::ALL.map(of).iter().sum()
                };
                // The free space was overwritten several times.
                assert!(taken(true) == 0 || !options.lfs, "gaps are not filled with mode=lfs");
                assert!(taken(!options.lfs) > 40, "{} and {}", taken(true), taken(false));
                unmount(volume);
                assert_sound(&path, &format!("{name}, {number} overwrites"));
                volume = mount(&path, options);
                volume.segments_mut().sit_mut().keep_truth();
                let mut found = vec![0; 4096];
                for (file, versions) in versions.iter().enumerate() {
                    let inode = volume.inode_at(files[file]).unwrap();
                    for (page, &version) in versions.iter().enumerate() {
                        volume.read_at(&inode, page as u64 * 4096, &mut found).unwrap();
                        assert!(found == page_of(file, page, version), "{name}: file {file}, page {page}");
                    }
                }
            }
        }
        unmount(volume);
    }
}

/// Write-back, checkpoints and background collection in idle time, by the volume's own clock.
#[test]
fn idle_times_are_used() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let files = make(&path, 96 << 20, 3, "");
    let clock = clock();
    let options = WriteOptions { ipu_policy: Some(0), ..WriteOptions::default() };
    let mut volume = WritableVolume::mount(vec![writing::open_to_write(&path)], clock.clone(), options).unwrap();
    let version = |volume: &WritableVolume<_>| volume.checkpoint_state().0.head.version.get();
    let before = version(&volume);
    for page in 0..4000_u64 {
        volume.write(files[0], page * 4096, Payload::Bytes(&[1; 4096])).unwrap();
    }
    volume.sync().unwrap();
    for page in (0..4000_u64).filter(|page| page % 3 != 0) {
        volume.write(files[0], page * 4096, Payload::Bytes(&[2; 4096])).unwrap();
    }
    assert!(!volume.work_when_idle().unwrap());
    // Written back while others are newer, so that untouched data has an age.
    clock.advance_to(volume.next_due());
    assert!(volume.work_when_idle().unwrap());
    clock.advance_by(nandkit_units::Nanos::from_secs(400));
    volume.write(files[1], 0, Payload::Bytes(&[3; 4096])).unwrap();
    volume.fsync(files[1], false).unwrap();
    let mut did = 0;
    for _ in 0..40 {
        let due = volume.next_due();

        clock.advance_to(due);
        did += u32::from(volume.work_when_idle().unwrap());
    }
    assert!(did > 3, "{did}");
    assert!(
        version(&volume) >= before + 2 && volume.segments().states().dirty.iter().sum::<u32>() < 6,
        "{:?}",
        volume.segments().states()
    );
    assert!(!volume.is_changed());
    unmount(volume);
    assert_sound(&path, "idle");
}

/// Linux reserves blocks past the end for a write and marks the file; after a power cut they hold
/// old content, which must not appear in the file.
#[test]
fn blocks_behind_the_end_that_were_never_written_are_no_content() {
    type Change = fn(&mut WritableVolume<FileDevice>, InodeNumber);
    let changes: [(&str, Change); 3] = [
        ("another size", |volume, inode| volume.truncate(nid(inode), 30_000).unwrap()),
        ("a write behind them", |volume, inode| {
            _ = Changes::write(volume, inode, 29_999, Payload::Bytes(&[0])).unwrap()
        }),
        ("a reservation", |volume, inode| volume.allocate_range(nid(inode), 20_000, 10_000, false).unwrap()),
    ];
    for (what, change) in changes {
        let (image, mut volume, root) = Image::mounted(64 * MIB, "extra_attr");
        let inode = file(&mut volume, root, b"file");
        Changes::write(&mut volume, inode, 0, Payload::Bytes(&[9; 20_000])).unwrap();
        volume.sync().unwrap();
        volume
            .with_inode(nid(inode), |head| {
                head.size = 4096.into();
                head.advise |= advise::TRUNCATE;
            })
            .unwrap();
        let mut volume = image.remount(volume, what);
        change(&mut volume, inode);
        let mut bytes = vec![1; 30_000];
        assert_eq!(FileSystem::read(&volume, inode, 0, ReadInto::Bytes(&mut bytes)).unwrap(), 30_000, "{what}");
        assert!(bytes[..4096].iter().all(|byte| *byte == 9) && bytes[4096..].iter().all(|byte| *byte == 0), "{what}");
        assert!(!volume.inode_at(nid(inode)).unwrap().head.has_advise(advise::TRUNCATE), "{what}");
        drop(image.remount(volume, what));
    }
}
