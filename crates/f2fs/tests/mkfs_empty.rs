//! Empty volumes equal those of mkfs.f2fs, block for block.

use std::path::Path;

use crate::made::{block, clock, complaints, differing, new_image, open_image, run};
use nandkit_f2fs::layout::Superblock;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_testkit::rounds;

const UUID: &str = "11223344-5566-7788-99aa-bbccddeeff00";
const UUID_BYTES: [u8; 16] =
    [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0];
const TIME: u64 = 1_700_000_000;

fn superblock(image: &Path) -> Superblock {
    Superblock::of_block(&block(&open_image(image), 0)).unwrap()
}

/// Makes a volume with mkfs.f2fs; returns its message if it refused.
fn theirs(path: &Path, bytes: u64, words: &[&str]) -> Result<(), String> {
    std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
    let time = TIME.to_string();
    let image = path.to_string_lossy();
    let fixed = ["-f", "-r", "-U", UUID, "-T", &time];
    let all: Vec<&str> = fixed.iter().chain(words).copied().chain([&*image]).collect();
    let (status, text) = run("mkfs.f2fs", &all);
    if status == 0 { Ok(()) } else { Err(text) }
}

/// Makes ours with the same options. Only the name of the running kernel is taken from theirs.
fn ours(path: &Path, bytes: u64, options: &MkfsOptions, like: Option<&Path>) -> nandkit_vfs::Result<()> {
    let maker = like.map_or_else(String::new, |like| {
        let text: Vec<u8> = superblock(like).version.iter().copied().take_while(|byte| *byte != 0).collect();
        String::from_utf8(text).unwrap()
    });
    let options = MkfsOptions { uuid: UUID_BYTES, time_seconds: TIME, maker, ..options.clone() };
    let tree = EmptyTree::new(&options);
    let mkfs = Mkfs::new(&tree, options)?;
    mkfs.write(&mut new_image(path, bytes), &clock(), &|_| {}).map(drop)
}

/// Compares one volume; both may refuse it. Returns whether they made it.
fn compare(bytes: u64, words: &[&str], options: &MkfsOptions) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("theirs"), directory.path().join("ours"));
    let case = format!("{bytes} bytes, {words:?}");
    let made = theirs(&a, bytes, words);
    let own = ours(&b, bytes, options, made.is_ok().then_some(a.as_path()));
    match (made, own) {
        (Ok(()), Ok(())) => {}
        (Err(_), Err(error)) => {
            assert_eq!(error.kind, nandkit_vfs::ErrorKind::NoSpace, "{case}: {error}");
            return false;
        }
        (Ok(()), Err(error)) => panic!("{case}: we refuse what mkfs.f2fs makes: {error}"),
        (Err(text), Ok(())) => panic!("{case}: we make what mkfs.f2fs refuses: {text}"),
    }
    let mut different = differing(&open_image(&a), &open_image(&b));
    if !different.is_empty() && complaints(&a).iter().any(|complaint| complaint.contains("free segment_count")) {
        // mkfs.f2fs also counts free segments after the last whole zone; its checkpoints, and
        // nat_bits which contain their checksum, differ from ours in that.
        let pack = u64::from(superblock(&a).checkpoint_address.get());
        different.retain(|at| !(pack..pack + 1024).contains(at));
    }
    if words.contains(&"extra_attr,project_quota") {
        // If only projects have a quota file, mkfs.f2fs puts the address after three quota inodes
        // into the footer of its inode.
        let inode = u64::from(superblock(&a).main_address.get()) + 1;
        let (theirs, ours) = (block(&open_image(&a), inode), block(&open_image(&b), inode));
        different.retain(|at| *at != inode || theirs[..4092] != ours[..4092]);
    }
    if let Some(&first) = different.first() {
        let (theirs, ours) = (block(&open_image(&a), first), block(&open_image(&b), first));
        let bytes: Vec<_> = (0..4096).filter(|&at| theirs[at] != ours[at]).take(20).collect();
        let shown: Vec<_> = bytes.iter().map(|&at| (at, theirs[at], ours[at])).collect();
        panic!("{case}: blocks {different:?} differ, the first at (byte, theirs, ours) {shown:?}");
    }
    if bytes < 1 << 33 {
        assert_eq!(complaints(&b), Vec::<String>::new(), "{case}");
    }
    true
}

const MIB: u64 = 1 << 20;

#[test]
fn volumes_of_all_sizes_are_those_of_mkfs() {
    let mut made = 0;
    let sizes = [1, 16, 40, 48, 50, 52, 55, 60, 64, 96, 128, 129, 256, 511, 512, 1000, 1024, 2048, 4096, 16_384];
    // The largest take longest, and are laid out as those before.
    let large: &[u64] = if rounds::count(0) > 0 { &[262_144, 1 << 20, 3 << 20] } else { &[] };
    for mib in sizes.iter().chain(large) {
        made += u32::from(compare(mib * MIB, &[], &MkfsOptions::default()));
    }
    // Sizes that are not whole MiB, segments or blocks.
    for bytes in [52 * MIB + 512, 64 * MIB - 512, 100 * MIB + 4096 * 7, 333 * MIB + 12_345 * 512] {
        made += u32::from(compare(bytes, &[], &MkfsOptions::default()));
    }
    assert!(made > 15, "only {made} of the sizes were made");
}

#[test]
fn sections_and_zones_are_those_of_mkfs() {
    for (sections, zones) in [(1, 2), (2, 1), (3, 1), (4, 2), (8, 1), (8, 3), (16, 1), (64, 1)] {
        let options =
            MkfsOptions { segments_per_section: sections, sections_per_zone: zones, ..MkfsOptions::default() };
        let words = ["-s", &sections.to_string(), "-z", &zones.to_string()];
        for mib in [64, 511, 3000] {
            compare(mib * MIB, &words, &options);
        }
    }
}

#[test]
fn options_are_those_of_mkfs() {
    let default = MkfsOptions::default();
    let cases: Vec<(Vec<&str>, MkfsOptions)> = vec![
        (vec!["-l", "Größe 1"], MkfsOptions { label: "Größe 1".into(), ..default.clone() }),
        (vec!["-i"], MkfsOptions { extended_node_bitmap: true, ..default.clone() }),
        (vec!["-a", "1"], MkfsOptions { heap: true, ..default.clone() }),
        (vec!["-o", "5"], MkfsOptions { overprovision_percent: Some(5.0), ..default.clone() }),
        (vec!["-o", "12.5"], MkfsOptions { overprovision_percent: Some(12.5), ..default.clone() }),
        (vec!["-o", "50"], MkfsOptions { overprovision_percent: Some(50.0), ..default.clone() }),
        (vec!["-e", "abc,Xyz"], MkfsOptions { cold_extensions: vec!["abc".into(), "Xyz".into()], ..default.clone() }),
        (vec!["-E", "sqlite"], MkfsOptions { hot_extensions: vec!["sqlite".into()], ..default.clone() }),
        (vec!["-R", "1000:100"], MkfsOptions { root_owner: (1000, 100), ..default.clone() }),
        (vec!["-t", "0"], MkfsOptions { discard: false, ..default.clone() }),
    ];
    for (words, options) in cases {
        for mib in [64, 20_000] {
            compare(mib * MIB, &words, &options);
        }
    }
}

#[test]
fn features_are_those_of_mkfs() {
    for names in [
        "encrypt",
        "verity",
        "extra_attr",
        "extra_attr,project_quota",
        "extra_attr,inode_checksum",
        "extra_attr,flexible_inline_xattr",
        "extra_attr,inode_crtime",
        "extra_attr,compression",
        "quota",
        "lost_found",
        "quota,lost_found",
        "sb_checksum",
        "ro",
        "extra_attr,project_quota,inode_checksum,quota,lost_found,inode_crtime,sb_checksum,flexible_inline_xattr,compression",
    ] {
        let options = MkfsOptions { features: features_named(names).unwrap(), ..MkfsOptions::default() };
        for mib in [60, 300] {
            assert!(compare(mib * MIB, &["-O", names], &options));
        }
    }
    for (strict, words) in [(false, ["-O", "casefold", "-C", "utf8"]), (true, ["-O", "casefold", "-C", "utf8:strict"])]
    {
        let features = features_named("casefold").unwrap();
        let options = MkfsOptions { features, encoding: Some(strict), ..MkfsOptions::default() };
        assert!(compare(64 * MIB, &words, &options));
    }
}
