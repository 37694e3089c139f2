//! Reads whole images of mkfs.f2fs and sload.f2fs (Debian package f2fs-tools).

use crate::common::{mkfs, mount_file, plant, sload};
use nandkit_testkit::listing::{self, Listing};
use nandkit_vfs::FileSystem;

/// Size in MiB and options of mkfs.f2fs. Debian's sload.f2fs is built without compression;
/// compressed files are tested with images of Linux (`cargo xtask kernel f2fs`).
const IMAGES: &[(u64, &str)] = &[
    (160, ""),
    (160, "-O extra_attr,inode_checksum,sb_checksum,inode_crtime"),
    (160, "-O extra_attr,flexible_inline_xattr,inode_checksum,lost_found"),
    (160, "-O extra_attr,project_quota,quota,inode_crtime,verity,encrypt"),
    (256, "-s 2 -o 12 -e mp3 -E db"),
    (400, "-s 4 -z 2 -i"),
    (160, "-a 1 -w 4096 -l a-label -U 6f1f2f30-0000-4000-8000-00000000abcd"),
    (160, "-g android"),
    (200, "-O extra_attr,casefold -C utf8"),
    (200, "-O extra_attr,compression,inode_checksum"),
    (200, "-O extra_attr,ro,sb_checksum"),
];

/// Removes lost+found, which mkfs makes on request, from a listing.
fn without_lost_found(mut listing: Listing) -> Listing {
    listing.remove("/lost+found");
    listing
}

/// What sload.f2fs 1.15 loses: with flexible_inline_xattr it fills all words of an inode with
/// addresses, and then declares the last 50 to be attributes. So files with more pages than an
/// inode has addresses read differently, for Linux and fsck.f2fs too.
fn lost_by_sload(options: &str, path: &str) -> bool {
    let pages = path.strip_prefix("/sizes/of-").and_then(|size| size.parse::<u64>().ok()).unwrap_or(0) / 4096;
    options.contains("flexible_inline_xattr") && pages > 864
}

#[test]
fn images_of_f2fs_tools_are_read_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, image) = (scratch.path().join("source"), scratch.path().join("image"));
    plant(&source, 400);
    let expected = listing::of_directory(&source, None);
    assert!(expected.len() > 400);
    for (mib, options) in IMAGES {
        mkfs(&image, *mib, options);
        sload(&image, &source);
        let context = format!("mkfs.f2fs {options}");
        let volume = mount_file(&image).unwrap_or_else(|error| panic!("{context}: {error}"));
        let (mut found, mut expected) = (without_lost_found(listing::of_volume(&volume)), expected.clone());
        found.retain(|path, _| !lost_by_sload(options, path));
        expected.retain(|path, _| !lost_by_sload(options, path));
        listing::assert_same(&found, &expected, &context);
        assert!(volume.volume().unwrap().blocks_free > 0 || options.contains("ro"), "{context}");
    }
}
