//! Volumes as Android makes them, changed with default options: casefolding, verity, encrypted and
//! compressed inodes, projects, quotas. Everything else stays unchanged, and fsck.f2fs has no
//! complaints after any mount.

use crate::writing;

use std::path::Path;

use crate::common::{mkfs, mount_file, plant, sload};
use crate::made::{clock, everything, new_image};
use crate::writing::image::{file, folder, kind, nid};
use crate::writing::{assert_sound, unmount};
use nandkit_block::FileDevice;
use nandkit_f2fs::layout::inode::{WORDS_OFFSET, advise, flag};
use nandkit_f2fs::layout::{ExtraAttributes, set_word};
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::testing::encode::xattr;
use nandkit_f2fs::testing::names::xattrs;
use nandkit_f2fs::testing::quota::QuotaKind;
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_testkit::listing::{self, Listing};
use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber, NewNode, RenameFlags, XattrChanges};

const FEATURES: &str = "encrypt,quota,verity,extra_attr,project_quota,casefold,compression";

/// A listing of everything except what the test changes.
fn unchanged(path: &Path) -> Listing {
    let mut listing = listing::of_volume(&mount_file(path).unwrap());
    listing.retain(|path, _| path != "/changed" && !path.starts_with("/changed/"));
    listing
}

struct ChangedImage<'a> {
    path: &'a Path,
    before: Listing,
    strict: bool,
}

impl ChangedImage<'_> {
    fn mount(&self) -> WritableVolume<FileDevice> {
        writing::mount(self.path, WriteOptions::default())
    }

    fn remount(&self, volume: WritableVolume<FileDevice>, context: &str) -> WritableVolume<FileDevice> {
        drop(unmount(volume));
        assert_sound(self.path, context);
        listing::assert_same(&self.before, &unchanged(self.path), context);
        self.mount()
    }
}

fn lookup(volume: &WritableVolume<FileDevice>, directory: InodeNumber, name: &str) -> Option<InodeNumber> {
    volume.lookup(directory, name.as_bytes()).ok()
}

fn set_flag(volume: &mut WritableVolume<FileDevice>, inode: InodeNumber, flag: u32) {
    volume.with_inode(nid(inode), |head| head.flags = (head.flags.get() | flag).into()).unwrap();
}

/// Works on names of a casefolded directory.
fn fold(
    image: &ChangedImage<'_>,
    mut volume: WritableVolume<FileDevice>,
    changed: InodeNumber,
) -> WritableVolume<FileDevice> {
    let folded = folder(&mut volume, changed, b"folded");
    set_flag(&mut volume, folded, flag::CASEFOLD);
    let size = file(&mut volume, folded, "Größe".as_bytes());
    assert_eq!(lookup(&volume, folded, "GRÖSSE"), Some(size));
    for again in ["größe", "GRO\u{308}SSE", "Grö\u{AD}ße"] {
        assert_eq!(kind(volume.create(folded, again.as_bytes(), &NewNode::FILE)), ErrorKind::Exists, "{again}");
    }
    let (replace, old) = (RenameFlags::Replace, "GRÖẞE".as_bytes());
    // A name that differs only in case is the same one, as in Linux.
    volume.rename((folded, "Größe".as_bytes()), (folded, old), replace).unwrap();
    assert_eq!(lookup(&volume, folded, "größe"), Some(size));
    volume.rename((folded, old), (folded, "ΣΊΣΥΦΟΣ".as_bytes()), replace).unwrap();
    assert_eq!((lookup(&volume, folded, "σίσυφοσ"), lookup(&volume, folded, "größe")), (Some(size), None));
    // Directories below it are casefolded too; 400 names are more than an inode holds.
    let below = folder(&mut volume, folded, b"Below");
    for number in 0..400 {
        file(&mut volume, below, format!("Имя {number} é").as_bytes());
    }
    // For names that are not UTF-8, Linux and fsck.f2fs agree; not for characters after Unicode
    // 12.1, nor for names that are too long for Linux.
    for (opaque, agreed) in [(&[0xFF, b'A'][..], true), ("\u{1F6D6}A".as_bytes(), false), (&[b'A'; 255], false)] {
        let made = volume.create(below, opaque, &NewNode::FILE).map_err(|error| error.kind);
        match (image.strict, agreed) {
            (true, _) => assert_eq!(made, Err(ErrorKind::InvalidName), "{opaque:?}"),
            (false, true) => assert!(made.is_ok(), "{opaque:?}"),
            (false, false) => assert_eq!(made, Err(ErrorKind::NotSupported), "{opaque:?}"),
        }
    }
    let mut volume = image.remount(volume, "folded");
    assert_eq!(lookup(&volume, folded, "σίσυφος"), Some(size));
    for number in 0..400 {
        assert!(lookup(&volume, below, &format!("ИМЯ {number} E\u{301}")).is_some(), "{number}");
    }
    assert_eq!(kind(volume.create(below, "имя 7 É".as_bytes(), &NewNode::DIRECTORY)), ErrorKind::Exists);
    for number in 0..390 {
        volume.remove(below, format!("ИМЯ {number} É").as_bytes()).unwrap();
    }
    volume.rename((below, "имя 395 é".as_bytes()), (folded, "σίσυφος".as_bytes()), replace).unwrap();
    image.remount(volume, "folded names removed")
}

/// Gives an inode an attribute that users do not see: 9 c for encryption, 11 v for verity.
fn plant_attribute(
    volume: &mut WritableVolume<FileDevice>,
    inode: InodeNumber,
    bit: u8,
    key: (u8, &[u8]),
    value: &[u8],
) {
    let found = volume.inode(inode).unwrap();
    let area = nandkit_f2fs::testing::xattr::area(&*volume, &found).unwrap();
    let room = xattr::room((found.inline_xattrs().len() / 4) as u16, 4096);
    let area = xattrs::set(&area, room, nid(inode), key, value).unwrap().unwrap();
    volume.set_xattr_area(nid(inode), &area).unwrap();
    volume.with_inode(nid(inode), |head| head.advise |= bit).unwrap();
}

/// Checks inodes whose content must not be changed.
fn guard(
    image: &ChangedImage<'_>,
    mut volume: WritableVolume<FileDevice>,
    changed: InodeNumber,
) -> WritableVolume<FileDevice> {
    let content = [7; 9000];
    let guarded: Vec<InodeNumber> = [&b"verity"[..], b"encrypted", b"compressed"]
        .into_iter()
        .map(|name| {
            let made = file(&mut volume, changed, name);
            if name != b"compressed" {
                Changes::write(&mut volume, made, 0, Payload::Bytes(&content)).unwrap();
            }
            made
        })
        .collect();
    // The location of the Merkle tree's descriptor: version, size, offset past the end.
    let descriptor = [&1_u32.to_le_bytes()[..], &256_u32.to_le_bytes(), &65_536_u64.to_le_bytes()].concat();
    plant_attribute(&mut volume, guarded[0], advise::VERITY, (11, b"v"), &descriptor);
    plant_attribute(&mut volume, guarded[1], advise::ENCRYPTED, (9, b"c"), &[1; 28]);
    // A file of compressed clusters of four pages, without any page yet.
    let inline = nandkit_f2fs::layout::inode::inline::DATA;
    let at = WORDS_OFFSET + std::mem::offset_of!(ExtraAttributes, compression);
    volume.with_inode_block(nid(guarded[2]), |block| block[at..at + 2].copy_from_slice(&[1, 2])).unwrap();
    volume.with_inode(nid(guarded[2]), |head| head.inline &= !inline).unwrap();
    set_flag(&mut volume, guarded[2], flag::COMPRESSED);
    let secret = folder(&mut volume, changed, b"secret");
    plant_attribute(&mut volume, secret, advise::ENCRYPTED, (9, b"c"), &[1; 28]);
    volume = image.remount(volume, "guarded");
    let size = AttributeChange { size: Some(5), ..AttributeChange::default() };
    for &inode in &guarded {
        assert_eq!(kind(Changes::write(&mut volume, inode, 0, Payload::Bytes(&[1]))), ErrorKind::NotSupported);
        assert_eq!(kind(volume.set_attributes(inode, &size)), ErrorKind::NotSupported);
        let mode = AttributeChange { mode: Some(0o600), uid: Some(10_050), ..AttributeChange::default() };
        volume.set_attributes(inode, &mode).unwrap();
        volume.set_xattr(inode, b"user.more", &[1; 300]).unwrap();
    }
    let mut bytes = vec![0; content.len()];
    volume.read(guarded[0], 0, ReadInto::Bytes(&mut bytes)).unwrap();
    assert!(bytes == content);
    let refused = volume.create(secret, b"new", &NewNode::FILE).unwrap_err();
    assert!(refused.kind == ErrorKind::NotSupported && refused.detail.contains("encrypted"), "{refused}");
    assert_eq!(kind(volume.create(secret, b"new", &NewNode::DIRECTORY)), ErrorKind::NotSupported);
    let replace = RenameFlags::Replace;
    assert_eq!(kind(volume.rename((changed, b"verity"), (secret, b"verity"), replace)), ErrorKind::NotSupported);
    volume.rename((changed, b"secret"), (changed, b"moved"), replace).unwrap();
    volume.rename((changed, b"encrypted"), (changed, b"compressed"), replace).unwrap();
    volume.remove(changed, b"verity").unwrap();
    volume = image.remount(volume, "guarded, changed");
    volume.remove(changed, b"compressed").unwrap();
    volume.remove(changed, b"moved").unwrap();
    image.remount(volume, "guarded, removed")
}

/// Apps with their own data: users, projects, content of all sizes, rewritten, truncated and
/// removed.
fn churn(
    image: &ChangedImage<'_>,
    mut volume: WritableVolume<FileDevice>,
    changed: InodeNumber,
) -> WritableVolume<FileDevice> {
    let project_at = WORDS_OFFSET + std::mem::offset_of!(ExtraAttributes, project_id);
    for round in 0..3_u32 {
        let (uid, project) = (10_000 + round, 20_000 + round);
        let app = folder(&mut volume, changed, format!("app {round}").as_bytes());
        volume.with_inode_block(nid(app), |block| set_word(block, project_at, project)).unwrap();
        set_flag(&mut volume, app, flag::PROJECT_INHERIT);
        let mut pages = 0;
        for number in 0..60 {
            let node = NewNode { uid, gid: uid, ..NewNode::FILE };
            let made = volume.create(app, format!("file {number}").as_bytes(), &node).unwrap();
            let bytes = vec![number as u8; [100, 5000, 70_000][number % 3]];
            Changes::write(&mut volume, made, 0, Payload::Bytes(&bytes)).unwrap();
            if number % 10 == 9 {
                volume.truncate(nid(made), 4096).unwrap();
                Changes::sync(&mut volume, Some(made)).unwrap();
            }
            pages += volume.inode(made).unwrap().head.blocks.get() - 1;
        }
        // The directory's names exceed its inode.
        pages += volume.inode(app).unwrap().head.blocks.get() - 1;
        let used = volume.quota(QuotaKind::Project, project).unwrap().unwrap().usage;
        assert_eq!((used.inodes, used.bytes), (61, pages * 4096), "round {round}");
        volume = image.remount(volume, &format!("app {round}"));
        for number in 0..30 {
            volume.remove(app, format!("file {number}").as_bytes()).unwrap();
        }
        let used = volume.quota(QuotaKind::User, uid).unwrap().unwrap().usage;
        assert_eq!(used.inodes, 30);
        volume = image.remount(volume, &format!("app {round}, half of it"));
    }
    volume
}

fn change(path: &Path, strict: bool, context: &str) {
    assert_sound(path, context);
    let image = ChangedImage { path, before: unchanged(path), strict };
    let mut volume = image.mount();
    assert_eq!(volume.untrusted_quotas(), None);
    let root = volume.root();
    let changed = folder(&mut volume, root, b"changed");
    volume = fold(&image, volume, changed);
    volume = guard(&image, volume, changed);
    volume = churn(&image, volume, changed);
    // Renames outside the test's own directory, there and back.
    let replace = RenameFlags::Replace;
    volume.rename((root, b"changed"), (root, b"elsewhere"), replace).unwrap();
    volume.rename((root, b"elsewhere"), (root, b"changed"), replace).unwrap();
    drop(image.remount(volume, context).abandon());
}

#[test]
fn volumes_of_f2fs_tools_are_changed_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, path) = (scratch.path().join("source"), scratch.path().join("image"));
    plant(&source, 300);
    for (more, encoding) in [("", "utf8"), (",inode_checksum,sb_checksum,inode_crtime", "utf8:strict")] {
        mkfs(&path, 160, &format!("-O {FEATURES}{more} -C {encoding}"));
        sload(&path, &source);
        change(&path, encoding != "utf8", &format!("mkfs.f2fs {more} {encoding}"));
    }
}

#[test]
fn volumes_of_our_mkfs_are_changed_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let options =
        MkfsOptions { features: features_named(FEATURES).unwrap(), encoding: Some(false), ..MkfsOptions::default() };
    let tree = everything();
    let new = Mkfs::new(&tree, options).unwrap();
    new.write(&mut new_image(&path, 160 << 20), &clock(), &|_| {}).unwrap();
    change(&path, false, "our mkfs");
}
