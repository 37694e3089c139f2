//! F2FS images, from the command line: mkfs.f2fs and sload.f2fs make them, diff and GNU tar say
//! whether what comes out is what went in, dump.f2fs what `info` is to tell.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use crate::common::mounted::Mount;
use crate::common::noise::noise;
use crate::common::{fsck_f2fs, json, nandkit, on_disk, run, succeeds, tells};
use rustix::fs::XattrFlags;
use serde_json::Value;

/// Features of a volume of Android's userdata partition.
const ANDROID: &str = "encrypt,quota,verity,extra_attr,inode_checksum,sb_checksum,project_quota,casefold,compression";
/// mkfs.f2fs and sload.f2fs, as the tests call them.
const MADE: &str =
    "mkfs.f2fs -q -l \"a label\" -O FEATURES -C utf8 i >/dev/null && sload.f2fs -f tree -t / i >/dev/null";

/// A directory with a tree that sload.f2fs can take.
fn with_tree() -> tempfile::TempDir {
    let directory = on_disk();
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("app/data/empty")).expect("directories");
    fs::create_dir_all(tree.join("many")).expect("a directory");
    for number in 0..300 {
        fs::write(tree.join(format!("many/file {number}")), noise(number, number)).expect("a file");
    }
    fs::write(tree.join("app/large"), noise(6_000_001, 1)).expect("a file");
    fs::write(tree.join("app/inline"), noise(3000, 2)).expect("a file");
    fs::write(tree.join("app/data/\u{fc}n\u{ef}"), "letters").expect("a file");
    symlink("app/large", tree.join("link")).expect("a link");
    symlink("../".repeat(60), tree.join("app/long link")).expect("a link");
    run(directory.path(), "chmod 4751 tree/app/large; chmod 1777 tree/many; touch -d 2001-02-03T04:05:06 tree/app/*");
    directory
}

/// An image of 100 MiB with the tree in it, made by f2fs-tools.
fn with_image(features: &str) -> tempfile::TempDir {
    let directory = with_tree();
    run(directory.path(), &format!("truncate -s 100M i && {}", MADE.replace("FEATURES", features)));
    directory
}

/// Takes the tree out as files and as an archive, and has both judged.
fn comes_out_whole(directory: &Path, image: &[&str]) {
    succeeds(directory, &[&["extract"], image, &["out"]].concat());
    run(directory, "diff -r --no-dereference -x fifo tree out");
    succeeds(directory, &[&["extract"], image, &["--to-tar", "out.tar"]].concat());
    run(directory, "tar --compare --xattrs -f out.tar -C tree && rm -r out out.tar");
}

#[test]
fn images_of_f2fs_tools_are_read_without_a_word_about_them() {
    // The last one is how Android makes volumes that are never written.
    for features in ["extra_attr", ANDROID, "extra_attr,inode_checksum,casefold,ro"] {
        let directory = with_image(features);
        let path = directory.path();
        comes_out_whole(path, &["i"]);
        let (status, bytes, told) = crate::common::nandkit_bytes(path, &["cat", "i", "/app/large"]);
        assert!(status == Some(0) && bytes == noise(6_000_001, 1), "{told}");
    }
}

#[test]
fn info_tells_what_dump_f2fs_tells() {
    let directory = with_image(ANDROID);
    let path = directory.path();
    let told = run(path, "dump.f2fs -d 1 i 2>&1");
    let number = |name: &str| -> u64 {
        let line = told.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {told}"));
        line.rsplit([':', ']']).find_map(|part| part.trim().parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let info = json(path, &["info", "i", "--json"]);
    assert_eq!((info["image"].as_str(), info["volume"]["kind"].as_str()), (Some("f2fs"), Some("f2fs")), "{info}");
    let volume = &info["volume"];
    for (ours, theirs) in [
        (&volume["blocks"], "block_count"),
        (&volume["segments"], "segment_count "),
        (&volume["sections"], "section_count"),
        (&volume["segments_per_section"], "segs_per_sec"),
        (&volume["areas"][2]["block"], "nat_blkaddr"),
        (&volume["areas"][4]["segments"], "segment_count_main"),
        (&volume["checkpoint"]["version"], "checkpoint_ver"),
        (&volume["checkpoint"]["user_blocks"], "user_block_count"),
        (&volume["checkpoint"]["valid_blocks"], "valid_block_count"),
        (&volume["checkpoint"]["nodes"], "valid_node_count"),
        (&volume["checkpoint"]["inodes"], "valid_inode_count"),
        (&volume["checkpoint"]["free_segments"], "free_segment_count"),
        (&volume["checkpoint"]["reserved_segments"], "rsvd_segment_count"),
        (&volume["checkpoint"]["overprovision_segments"], "overprov_segment_count"),
        (&volume["checkpoint"]["logs"][1]["segment"], "cur_data_segno[1]"),
        (&volume["checkpoint"]["logs"][1]["next_block"], "cur_data_blkoff[1]"),
        (&volume["checkpoint"]["logs"][3]["segment"], "cur_node_segno[0]"),
    ] {
        assert_eq!(ours.as_u64(), Some(number(theirs)), "{theirs}: {told} {info}");
    }
    let features: Vec<&str> = volume["features"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    for feature in ANDROID.split(',') {
        assert!(features.contains(&feature), "{feature}: {features:?}");
    }
    assert_eq!((volume["label"].as_str(), volume["encoding"].as_str()), (Some("a label"), Some("utf8")));
    let text = succeeds(path, &["info", "i"]);
    for part in ["F2FS 1.", "a label", "casefold", "42 of them in the main area", "unmounted", "log          cold node"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_tree_of_all_kinds_comes_back_as_it_was() {
    let directory = with_tree();
    let path = directory.path();
    let tree = path.join("tree");
    fs::hard_link(tree.join("app/inline"), tree.join("second name")).expect("a link");
    let sparse = File::create(tree.join("sparse")).expect("a file");
    sparse.write_all_at(b"in the middle", 40 << 20).expect("bytes");
    sparse.set_len(90 << 20).expect("a length");
    rustix::fs::setxattr(tree.join("app"), "user.name", b"a value", XattrFlags::CREATE).expect("an attribute");
    rustix::fs::setxattr(tree.join("app/large"), "user.large", &[7; 2000], XattrFlags::CREATE).expect("an attribute");
    run(path, "mkfifo tree/fifo && touch -d '2033-03-03 03:03:03.123456789' tree/fifo tree/sparse");
    run(
        path,
        "printf '/dev d 755 0 0 - - - - -\\n/dev/null c 666 5 6 1 3 0 0 -\\n/dev/disk b 640 0 0 259 300 0 0 -\\n' > t",
    );
    succeeds(path, &["mkfs", "f2fs", "--from", "tree", "i"]);
    comes_out_whole(path, &["i"]);
    succeeds(path, &["extract", "i", "out"]);
    let mount = Mount::start(path, "i", &[]);
    run(
        path,
        "for at in tree mnt; do (cd $at && getfattr -R -d -e hex -m - . > ../$at.attributes); done; cmp tree.attributes mnt.attributes",
    );
    run(
        path,
        "test -s tree.attributes && diff -r --no-dereference -x fifo tree mnt && test $(du -k mnt/sparse | cut -f 1) -lt 500",
    );
    assert_eq!(mount.unmount(), Some(0));
    let (file, link) = (fs::metadata(path.join("out/sparse")), fs::metadata(path.join("out/second name")));
    let (file, link) = (file.expect("a file"), link.expect("a file"));
    assert!((file.len(), file.blocks() < 1000) == (90 << 20, true), "{} blocks of 512 bytes", file.blocks());
    assert_eq!((file.mtime_nsec(), link.nlink()), (123_456_789, 2));
    let mut value = [0; 4096];
    let length = rustix::fs::getxattr(path.join("out/app/large"), "user.large", &mut value[..]).expect("an attribute");
    assert_eq!(&value[..length], &[7; 2000]);

    succeeds(path, &["mkfs", "f2fs", "--from", "tree", "--device-table", "t", "--force", "i"]);
    let text = succeeds(path, &["ls", "-lR", "i", "/dev"]);
    assert!(text.contains("brw-r-----") && text.contains("259, 300") && text.contains("crw-rw-rw-"), "{text}");
    succeeds(path, &["extract", "i", "--to-tar", "all.tar"]);
    let told = run(path, "tar tvf all.tar");
    assert!(told.contains("crw-rw-rw- 5/6") && told.contains("259,300") && told.contains("prw"), "{told}");
}

#[test]
fn a_mount_shows_what_an_extraction_does() {
    let directory = with_image(ANDROID);
    let path = directory.path();
    let mount = Mount::start(path, "i", &[]);
    run(path, "diff -r --no-dereference tree mnt && tar cf - -C mnt . | tar --compare -f - -C tree");
    assert!(File::create(mount.point.join("new")).is_err(), "the mount is for reading");
    assert_eq!(mount.unmount(), Some(0));
}

/// The image at byte `at` of a larger one.
fn placed(path: &Path, at: u64, mbr: bool) {
    let image = fs::read(path.join("i")).expect("an image");
    let file = File::create(path.join("disk")).expect("a file");
    file.set_len(at + image.len() as u64 + (1 << 20)).expect("a length");
    file.write_all_at(&image, at).expect("bytes");
    if mbr {
        let mut entry = vec![0, 0, 0, 0, 0x83, 0, 0, 0];
        entry.extend(((at / 512) as u32).to_le_bytes());
        entry.extend(((image.len() / 512) as u32).to_le_bytes());
        file.write_all_at(&entry, 446).expect("bytes");
        file.write_all_at(&[0x55, 0xAA], 510).expect("bytes");
    }
}

#[test]
fn a_volume_is_found_in_a_partition_and_at_an_offset() {
    let directory = with_image(ANDROID);
    let path = directory.path();
    placed(path, 3 << 20, true);
    comes_out_whole(path, &["disk"]);
    let info = json(path, &["info", "disk", "--json"]);
    assert_eq!(info["regions"][0]["opens_as"], "f2fs", "{info}");
    placed(path, (5 << 20) + 512, false);
    comes_out_whole(path, &["disk", "--offset", "5243392"]);
    assert_eq!(json(path, &["check", "disk", "--offset", "5243392", "--json"])["findings"], serde_json::json!([]));
    // Without a word it is found by its two superblocks.
    comes_out_whole(path, &["disk"]);
    assert_eq!(json(path, &["info", "disk", "--json"])["regions"][0]["kind"], "F2FS");
    // A superblock that a partition table was written over later counts for nothing.
    placed(path, 8 << 20, true);
    let disk = OpenOptions::new().write(true).open(path.join("disk")).expect("a file");
    let image = fs::read(path.join("i")).expect("an image");
    disk.write_all_at(&image[1024..4096], 1024).expect("bytes");
    comes_out_whole(path, &["disk"]);
}

#[test]
fn a_volume_on_several_devices_is_read_from_all_of_them() {
    let directory = with_tree();
    let path = directory.path();
    run(
        path,
        "truncate -s 64M i second && mkfs.f2fs -q -c second i >/dev/null && sload.f2fs -f tree -t / i >/dev/null",
    );
    let outcome = tells(path, &["ls", "i"], 2, "expected --devices with the files of all devices but the first");
    assert!(outcome.stderr.trim_end().ends_with("second"), "{}", outcome.stderr);
    comes_out_whole(path, &["i", "--devices", "second"]);
    assert_eq!(json(path, &["check", "i", "--devices", "second", "--json"])["findings"], serde_json::json!([]));
    let info = json(path, &["info", "i", "--devices", "second", "--json"]);
    assert_eq!(info["volume"]["devices"][1]["path"], "second", "{info}");
}

#[test]
fn what_is_wrong_with_an_image_is_said() {
    let directory = with_image(ANDROID);
    let path = directory.path();
    let whole = fs::read(path.join("i")).expect("an image");
    // The second superblock alone is enough, and a message says so.
    let mut bytes = whole.clone();
    bytes[1024..4096].fill(0);
    fs::write(path.join("i"), &bytes).expect("a file");
    tells(path, &["ls", "i"], 0, "the first superblock is not valid");
    comes_out_whole(path, &["i"]);
    // Without a valid superblock no format is recognised.
    bytes[5120..8192].fill(0);
    fs::write(path.join("i"), &bytes).expect("a file");
    tells(path, &["ls", "i"], 2, "holds no known format");
    // A magic number, and areas that do not fit.
    bytes[1024..4096].copy_from_slice(&whole[1024..4096]);
    bytes[1024 + 88] ^= 0xFF;
    fs::write(path.join("i"), &bytes).expect("a file");
    tells(path, &["ls", "i"], 2, "the F2FS volume: damaged: the SSA begins at");
    // Cut short: what is there is read, what is not is an error of each file.
    fs::write(path.join("i"), &whole[..30 << 20]).expect("a file");
    let outcome = nandkit(path, &["ls", "i"]);
    assert!(outcome.stderr.contains("device 0 has 31457280 bytes; the volume uses 104857600"), "{}", outcome.stderr);
    fs::write(path.join("i"), &whole[..9 << 20]).expect("a file");
    tells(path, &["ls", "i"], 2, "it was cut short");
    fs::write(path.join("i"), &whole[..3000]).expect("a file");
    assert_eq!(nandkit(path, &["ls", "i"]).status, Some(2));
}

#[test]
fn what_waits_behind_the_checkpoint_is_told() {
    let directory = with_image("extra_attr");
    let path = directory.path();
    let info = json(path, &["info", "i", "--json"]);
    let (log, main) = (&info["volume"]["checkpoint"]["logs"][4], &info["volume"]["areas"][4]["block"]);
    let number = |value: &Value| value.as_u64().expect("a number");
    assert_eq!(log["name"], "warm node");
    let at = number(main) + number(&log["segment"]) * 512 + number(&log["next_block"]);
    // A node with an fsync mark where the log goes on: nid, ino, flags, version of the checkpoint,
    // next block.
    let mut footer = [4000_u32.to_le_bytes(), 4000_u32.to_le_bytes(), 3_u32.to_le_bytes()].concat();
    footer.extend(number(&info["volume"]["checkpoint"]["version"]).to_le_bytes());
    footer.extend((at as u32 + 1).to_le_bytes());
    let file = OpenOptions::new().write(true).open(path.join("i")).expect("a file");
    file.write_all_at(&footer, at * 4096 + 4072).expect("bytes");
    tells(path, &["ls", "i", "--no-recovery"], 0, "fsynced after the last checkpoint are not shown");
    // It makes no file: nobody has its inode, and the node brings no name.
    let outcome = nandkit(path, &["ls", "i"]);
    assert!(outcome.status == Some(0) && !outcome.stderr.contains("fsynced"), "{}", outcome.stderr);
}

#[test]
fn the_segment_map_is_that_of_dump_f2fs() {
    let directory = with_image(ANDROID);
    let path = directory.path();
    run(path, "dump.f2fs -s 0~-1 i > told 2>&1");
    let told = fs::read_to_string(path.join("dump_sit")).expect("what dump.f2fs leaves");
    let number = |line: &str, name: &str| -> u64 {
        let rest = line.split_once(name).unwrap_or_else(|| panic!("{name}: {line}")).1.trim_start();
        rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{name}: {line}"))
    };
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("segno:")).collect();
    let info = json(path, &["info", "i", "--segments", "--json"]);
    let map = &info["segment_map"];
    assert_eq!(lines.len(), map["types"].as_array().expect("a list").len());
    for (index, line) in lines.iter().enumerate() {
        let ours = (map["valid_blocks"][index].as_u64(), map["types"][index].as_u64());
        assert_eq!(ours, (Some(number(line, "vblocks:")), Some(number(line, "seg_type:"))), "{line}");
    }
    assert_eq!(map["free"], info["volume"]["checkpoint"]["free_segments"]);
    let text = succeeds(path, &["info", "i", "--segments", "--width", "50"]);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with(' ') || line.starts_with("40  ")).collect();
    assert!(rows.len() == 2 && rows[1].starts_with("40  "), "{text}");
    for letter in ['.', '#', 'H', 'W', 'C', 'h', 'w', 'c'] {
        assert!(rows.iter().any(|row| row.contains(letter)), "{letter}: {text}");
    }
    let types = succeeds(path, &["info", "i", "--segments=types"]);
    assert!(types.contains("? invalid type") && types.contains("warm data"), "{types}");
    fs::write(path.join("f"), "nothing").expect("a file");
    assert_eq!(nandkit(path, &["info", "f", "--segments"]).status, Some(2));
    run(path, "mkfs.vfat -C f.img 16384 >/dev/null");
    let outcome = nandkit(path, &["info", "f.img", "--segments"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("expected an image of F2FS"), "{}", outcome.stderr);
}

/// A disk of a virtual machine, say: the host keeps its holes, an archive would get zeroes for
/// them.
#[test]
fn files_of_holes_are_taken_where_holes_cost_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    let disk = File::create(path.join("tree/disk")).expect("a file");
    let size = 100 << 30;
    disk.write_all_at(b"middle", 50_000_000_000).expect("bytes");
    disk.write_all_at(b"end", size - 3).expect("bytes");
    run(path, "setfattr -n user.large -v $(printf %03000d 1) tree/disk");
    succeeds(path, &["mkfs", "f2fs", "--from", "tree", "i"]);
    fsck_f2fs(path, "i");
    succeeds(path, &["extract", "i", "out"]);
    succeeds(path, &["get", "i", "disk", "got"]);
    for copy in ["out/disk", "got"] {
        let copy = File::open(path.join(copy)).expect("a file");
        let (made, mut bytes) = (copy.metadata().expect("there"), [0; 9]);
        copy.read_exact_at(&mut bytes[..6], 50_000_000_000).expect("bytes");
        copy.read_exact_at(&mut bytes[6..], size - 3).expect("bytes");
        assert!(&bytes == b"middleend" && made.len() == size && made.blocks() < 100, "{made:?}");
    }
    for (refused, status) in [(&["get", "i", "disk", "-"][..], 2), (&["extract", "i", "--to-tar", "tar"], 1)] {
        let told = nandkit(path, refused);
        assert!(told.status == Some(status) && told.stderr.contains("of which 8192 are data"), "{}", told.stderr);
    }
    succeeds(path, &["extract", "i", "--sparse", "--to-tar", "tar", "--force"]);
    assert!(fs::metadata(path.join("tar")).expect("an archive").len() < 40_000);
    succeeds(path, &["mkfs", "f2fs", "--from", "tar", "again"]);
    run(path, "mkdir with && tar xf tar -C with");
    succeeds(path, &["extract", "again", "without"]);
    for copy in ["with/disk", "without/disk"] {
        let (copy, mut bytes) = (File::open(path.join(copy)).expect("a file"), [0; 3]);
        copy.read_exact_at(&mut bytes, size - 3).expect("bytes");
        let made = copy.metadata().expect("there");
        assert!(&bytes == b"end" && made.len() == size && made.blocks() < 100, "{made:?}");
    }
    // More attributes than an inode has room for: E2BIG, as Linux says.
    let mount = Mount::start(path, "i", &["--rw"]);
    let refused = run(path, "! setfattr -n user.more -v $(printf %02000d 1) mnt/disk 2>&1");
    assert!(refused.contains("Argument list too long"), "{refused}");
    assert_eq!(mount.unmount(), Some(0));
}

/// More sectors of 512 bytes than 32 bits count.
#[test]
fn volumes_of_more_than_2_tib_are_opened_and_changed_through_a_mount() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("mnt")).expect("a directory");
    succeeds(path, &["mkfs", "f2fs", "--size", "3TiB", "i"]);
    assert_eq!(json(path, &["info", "i", "--json"])["file_bytes"], Value::from(3_u64 << 40));
    let mount = Mount::start(path, "i", &["--rw"]);
    run(path, "seq 100000 > mnt/numbers && sync mnt/numbers");
    assert_eq!(mount.unmount(), Some(0));
    assert!(succeeds(path, &["cat", "i", "/numbers"]).ends_with("\n99999\n100000\n"));
    fsck_f2fs(path, "i");
    succeeds(path, &["check", "i"]);
}
