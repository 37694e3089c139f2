//! The check finds nothing in sound volumes of any origin.

use std::path::Path;

use crate::common::{mkfs, plant, sload};
use crate::made::{clock, everything, new_image, open_image};
use nandkit_f2fs::check;
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions, features_named};
use nandkit_vfs::check::Report;

fn checked(path: &Path) -> Report {
    check(vec![open_image(path)], clock()).unwrap()
}

fn told(report: &Report) -> Vec<String> {
    report.findings.iter().map(|found| format!("{found:?}")).collect()
}

/// MiB and options of mkfs.f2fs.
const TOOLS: &[(u64, &str)] = &[
    (160, ""),
    (160, "-O extra_attr,inode_checksum,sb_checksum,inode_crtime"),
    (160, "-O extra_attr,project_quota,quota,inode_crtime,verity,encrypt"),
    (256, "-s 2 -o 12 -e mp3 -E db"),
    (400, "-s 4 -z 2 -i"),
    (160, "-a 1 -w 4096 -l a-label"),
    (160, "-g android"),
    (200, "-O extra_attr,casefold -C utf8"),
    (200, "-O extra_attr,compression,inode_checksum"),
    (200, "-O extra_attr,ro,sb_checksum"),
];

#[test]
fn volumes_of_f2fs_tools_are_sound() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, image) = (scratch.path().join("source"), scratch.path().join("image"));
    plant(&source, 800);
    for (mib, options) in TOOLS {
        mkfs(&image, *mib, options);
        let empty = checked(&image);
        assert_eq!(told(&empty), Vec::<String>::new(), "mkfs.f2fs {options}");
        sload(&image, &source);
        let report = checked(&image);
        assert_eq!(told(&report), Vec::<String>::new(), "mkfs.f2fs {options}, sload.f2fs");
        let count = |name| report.count(name);
        assert!(count("files") > 800 && count("directories") > 5 && count("nodes") > count("files"));
    }
}

#[test]
fn volumes_of_ours_are_sound() {
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
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("image");
        let mkfs = Mkfs::new(&tree, options).unwrap();
        let bytes = bytes.unwrap_or_else(|| mkfs.smallest_size().unwrap());
        mkfs.write(&mut new_image(&path, bytes), &clock(), &|_| {}).unwrap();
        let report = checked(&path);
        assert_eq!(told(&report), Vec::<String>::new(), "{name}");
        assert!(report.count("files") > 5000);
    }
}
