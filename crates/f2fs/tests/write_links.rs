//! Inodes whose names come, go and move: link counts, paths up, marks for roll-forward, open files
//! without a name, and directories that must not change.

use crate::writing;

use crate::made::clock;
use crate::writing::image::{Image, MIB, file, folder, kind, links, names, nid};
use crate::writing::{mount, open_to_write};
use nandkit_block::FileDevice;
use nandkit_f2fs::layout::inode::{advise, flag, inline};
use nandkit_f2fs::layout::{DentryArea, InodeHead, dentry};
use nandkit_f2fs::testing::names::area;
use nandkit_f2fs::write::Making;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{F2fs, MountOptions, WritableVolume, WriteOptions};
use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::acl::{self, AclEntry, AclSubject};
use nandkit_vfs::{
    AttributeChange, Changes, ErrorKind, FileKind, FileSystem, InodeNumber, Links, NewNode, OpenFiles, RenameFlags,
    Symlinks, XattrChanges, Xattrs,
};

fn head(volume: &WritableVolume<FileDevice>, inode: InodeNumber) -> InodeHead {
    volume.inode_at(nid(inode)).unwrap().head
}

/// The directory that `..` refers to.
fn above(volume: &WritableVolume<FileDevice>, directory: InodeNumber) -> u64 {
    let inode = volume.inode_at(nid(directory)).unwrap();
    let page = volume.directory_page(&inode, 0).unwrap();
    let bytes = inode.inline_entries().map_or_else(|| page.unwrap().to_vec(), <[u8]>::to_vec);
    let mut slots = DentryArea::new(&bytes).slots_from(0);
    let found = slots.find_map(|slot| match slot {
        dentry::Slot::Entry(entry) if entry.name == b".." => Some(entry.ino().0),
        _ => None,
    });
    u64::from(found.unwrap())
}

#[test]
fn directories_count_the_ways_up() {
    // Both with inline entries and with entries in blocks.
    for inline_entries in [true, false] {
        let image = Image::new(64 * MIB, "");
        let making = Making { inline_entries, ..Making::default() };
        let mut volume = mount(image.path(), WriteOptions { making, ..WriteOptions::default() });
        let root = volume.root();
        let (a, b) = (folder(&mut volume, root, b"a"), folder(&mut volume, root, b"b"));
        let child = folder(&mut volume, a, b"child");
        let grandchild = folder(&mut volume, child, b"grandchild");
        let count =
            |volume: &WritableVolume<FileDevice>| [root, a, b, child, grandchild].map(|inode| links(volume, inode));
        assert_eq!(count(&volume), [4, 3, 2, 3, 2]);
        volume.rename((a, b"child"), (b, b"moved"), RenameFlags::Replace).unwrap();
        assert_eq!((count(&volume), above(&volume, child)), ([4, 2, 3, 3, 2], b.0));
        assert_eq!((head(&volume, child).parent.get(), head(&volume, child).name()), (b.0 as u32, Some(&b"moved"[..])));
        // Over an empty directory.
        volume.rename((b, b"moved"), (root, b"a"), RenameFlags::Replace).unwrap();
        assert_eq!(above(&volume, child), root.0);
        assert_eq!([root, b, child, grandchild].map(|inode| links(&volume, inode)), [4, 2, 3, 2]);
        assert_eq!(kind(volume.stat(a)), ErrorKind::NotFound);
        // Exchanges a directory and a file, then two directories.
        let one = file(&mut volume, b, b"file");
        volume.rename((root, b"a"), (b, b"file"), RenameFlags::Exchange).unwrap();
        assert_eq!([root, b, child].map(|inode| links(&volume, inode)), [3, 3, 3]);
        assert_eq!((above(&volume, child), volume.lookup(root, b"a").unwrap()), (b.0, one));
        volume.rename((child, b"grandchild"), (root, b"b"), RenameFlags::NoReplace).unwrap_err();
        let other = folder(&mut volume, root, b"other");
        volume.rename((child, b"grandchild"), (root, b"other"), RenameFlags::Exchange).unwrap();
        assert_eq!((above(&volume, grandchild), above(&volume, other)), (root.0, child.0));
        assert_eq!(head(&volume, other).parent.get(), child.0 as u32);
        assert_eq!([root, b, child, grandchild, other].map(|inode| links(&volume, inode)), [4, 3, 3, 2, 2]);
        let refused = volume.rename((root, b"b"), (other, b"x"), RenameFlags::Replace);
        assert_eq!(kind(refused), ErrorKind::InvalidArgument);
        let volume = image.remount(volume, "directories moved");
        assert_eq!([root, b, child, grandchild, other].map(|inode| links(&volume, inode)), [4, 3, 3, 2, 2]);
    }
}

#[test]
fn moved_files_are_marked_for_roll_forward() {
    let (image, mut volume, root) = Image::mounted(64 * MIB, "");
    let lost = |volume: &WritableVolume<FileDevice>, inode| head(volume, inode).has_advise(advise::LOST_PARENT);
    let directory = folder(&mut volume, root, b"d");
    let one = file(&mut volume, root, b"one");
    assert!(!lost(&volume, one));
    volume.rename((root, b"one"), (directory, b"moved"), RenameFlags::Replace).unwrap();
    let moved = head(&volume, one);
    assert!(lost(&volume, one));
    assert_eq!((moved.parent.get(), moved.name()), (directory.0 as u32, Some(&b"moved"[..])));
    // Renamed over another name, a file keeps its recorded parent and name.
    file(&mut volume, root, b"other");
    volume.rename((directory, b"moved"), (root, b"other"), RenameFlags::Replace).unwrap();
    let over = head(&volume, one);
    assert_eq!((over.parent.get(), over.name()), (directory.0 as u32, Some(&b"moved"[..])));
    let two = file(&mut volume, root, b"two");
    volume.link(two, directory, b"second").unwrap();
    let linked = head(&volume, two);
    assert!(lost(&volume, two) && linked.links.get() == 2);
    assert_eq!((linked.parent.get(), linked.name()), (directory.0 as u32, Some(&b"second"[..])));
    volume.rename((root, b"d"), (root, b"e"), RenameFlags::Replace).unwrap();
    assert!(!lost(&volume, directory));
    image.remount(volume, "marked");
}

#[test]
fn files_open_without_a_name_are_orphans_of_the_checkpoint() {
    let (image, mut volume, root) = Image::mounted(64 * MIB, "");
    let before = volume.segments().space;
    let content: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    let mut open = Vec::new();
    for name in [&b"removed"[..], b"replaced", b"released"] {
        let inode = file(&mut volume, root, name);
        assert_eq!(Changes::write(&mut volume, inode, 0, Payload::Bytes(&content)).unwrap(), content.len());
        volume.retain(inode).unwrap();
        open.push(inode);
    }
    let directory = folder(&mut volume, root, b"directory");
    volume.retain(directory).unwrap();
    volume.remove(root, b"removed").unwrap();
    file(&mut volume, root, b"new");
    volume.rename((root, b"new"), (root, b"replaced"), RenameFlags::Replace).unwrap();
    volume.remove(root, b"released").unwrap();
    volume.remove(root, b"directory").unwrap();
    assert_eq!(kind(volume.create(directory, b"x", &NewNode::FILE)), ErrorKind::NotFound);
    assert_eq!(kind(volume.link(open[0], root, b"again")), ErrorKind::NotFound);
    volume.release(open[2]).unwrap();
    assert_eq!(kind(volume.stat(open[2])), ErrorKind::NotFound);
    open[2] = directory;
    WritableVolume::sync(&mut volume).unwrap();
    let listed: Vec<u64> = volume.checkpoint_state().0.orphans.iter().map(|ino| u64::from(ino.0)).collect();
    assert_eq!(listed, open.iter().map(|inode| inode.0).collect::<Vec<_>>());
    for inode in &open[..2] {
        let mut found = vec![0; content.len()];
        volume.read(*inode, 0, ReadInto::Bytes(&mut found)).unwrap();
        assert!(found == content && links(&volume, *inode) == 0);
    }
    volume.checkpoint(Reason::Sync).unwrap();
    volume.remove(root, b"replaced").unwrap();
    let volume = image.remount(volume, "orphans are freed at the end of a mount");
    let after = volume.segments().space;
    assert_eq!((before.valid_blocks, before.valid_inodes), (after.valid_blocks, after.valid_inodes));
}

#[test]
fn links_of_all_lengths_survive_a_cut_behind_a_checkpoint() {
    for inline_data in [true, false] {
        let image = Image::new(64 * MIB, "extra_attr,flexible_inline_xattr");
        let making = Making { inline_data, ..Making::default() };
        let mut volume = mount(image.path(), WriteOptions { making, ..WriteOptions::default() });
        let root = volume.root();
        let target = |length: usize| "t/".repeat(2048).into_bytes()[..length].to_vec();
        let lengths = [1, 60, 3451, 3452, 3453, 4095];
        for length in lengths {
            let node = NewNode { kind: FileKind::Symlink, target: &target(length), ..NewNode::FILE };
            let inode = volume.create(root, format!("{length}").as_bytes(), &node).unwrap();
            let is_inline = head(&volume, inode).has_inline(inline::DATA);
            assert_eq!(is_inline, inline_data && length <= 3452, "{length}");
        }
        // Only a checkpoint, without file data.
        volume.checkpoint(Reason::Sync).unwrap();
        drop(volume.abandon());
        let reader = F2fs::mount(open_to_write(image.path()), clock(), MountOptions::default()).unwrap();
        for length in lengths {
            let inode = reader.lookup(root, format!("{length}").as_bytes()).unwrap();
            assert_eq!(reader.read_link(inode).unwrap(), target(length), "{length}");
        }
    }
}

#[test]
fn attributes_fill_inode_and_node() {
    for (features, words) in [("", 50), ("extra_attr,flexible_inline_xattr", 50), ("", 0)] {
        let image = Image::new(64 * MIB, features);
        let making = Making { xattr_words: words, ..Making::default() };
        let mut volume = mount(image.path(), WriteOptions { making, ..WriteOptions::default() });
        let root = volume.root();
        // mkfs makes its root without words for attributes.
        let directory = folder(&mut volume, root, b"directory");
        let (long, short) = (vec![7; 3000], vec![8; 100]);
        for inode in [root, directory, file(&mut volume, root, b"file")] {
            volume.set_xattr(inode, b"user.long", &long).unwrap();
            volume.set_xattr(inode, b"trusted.short", &short).unwrap();
            let refused = volume.set_xattr(inode, b"user.more", &[1; 1300]);
            assert_eq!(kind(refused), ErrorKind::AttributesTooBig);
            assert_eq!(volume.xattr(inode, b"user.long").unwrap(), long);
            assert_ne!(head(&volume, inode).xattr_nid.get(), 0);
            let list = acl::encode(&[
                AclEntry { subject: AclSubject::Owner, permissions: 6 },
                AclEntry { subject: AclSubject::OwningGroup, permissions: 4 },
                AclEntry { subject: AclSubject::Others, permissions: 4 },
            ]);
            volume.set_xattr(inode, acl::ACCESS, &list).unwrap();
            assert_eq!(volume.xattr(inode, acl::ACCESS).unwrap(), list);
        }
        let mut volume = image.remount(volume, "attributes");
        let file = volume.lookup(root, b"file").unwrap();
        for inode in [root, directory, file] {
            assert_eq!(volume.xattr(inode, b"user.long").unwrap(), long);
            volume.remove_xattr(inode, b"user.long").unwrap();
            assert_eq!(volume.xattr(inode, b"trusted.short").unwrap(), short);
            let has_node = head(&volume, inode).xattr_nid.get() != 0;
            assert_eq!(has_node, words == 0 || inode == root, "{features} {words}");
        }
        // Entries leave the inode of a directory that has attributes.
        for number in 0..200 {
            writing::image::file(&mut volume, directory, format!("{number}").as_bytes());
        }
        let volume = image.remount(volume, "attributes, fewer");
        assert_eq!(volume.xattr(directory, b"trusted.short").unwrap(), short);
        assert_eq!(names(&volume, directory).len(), 200);
    }
}

#[test]
fn what_is_immutable_or_encrypted_is_not_changed() {
    let (_image, mut volume, root) = Image::mounted(64 * MIB, "encrypt");
    let fixed = folder(&mut volume, root, b"fixed");
    let inside = file(&mut volume, fixed, b"inside");
    volume.with_inode(nid(fixed), |head| head.flags = (head.flags.get() | flag::IMMUTABLE).into()).unwrap();
    assert_eq!(kind(volume.create(fixed, b"x", &NewNode::FILE)), ErrorKind::ReadOnly);
    assert_eq!(kind(volume.remove(fixed, b"inside")), ErrorKind::ReadOnly);
    assert_eq!(kind(volume.remove(root, b"fixed")), ErrorKind::ReadOnly);
    assert_eq!(kind(volume.rename((root, b"fixed"), (root, b"x"), RenameFlags::Replace)), ErrorKind::ReadOnly);
    assert_eq!(kind(volume.rename((fixed, b"inside"), (root, b"x"), RenameFlags::Replace)), ErrorKind::ReadOnly);
    let mode = AttributeChange { mode: Some(0o700), ..AttributeChange::default() };
    assert_eq!(kind(volume.set_attributes(fixed, &mode)), ErrorKind::ReadOnly);
    volume.set_attributes(inside, &mode).unwrap();
    let secret = folder(&mut volume, root, b"secret");
    volume.with_inode(nid(secret), |head| head.advise |= advise::ENCRYPTED).unwrap();
    file(&mut volume, root, b"plain");
    for refused in [
        volume.create(secret, b"x", &NewNode::FILE).map(|_| ()),
        volume.link(inside, secret, b"x"),
        volume.rename((root, b"plain"), (secret, b"x"), RenameFlags::Replace),
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.kind == ErrorKind::NotSupported && refused.detail.contains("encrypted"), "{refused}");
    }
    assert_eq!(names(&volume, root).len(), 3);
}

#[test]
fn names_without_case() {
    let (image, mut volume, root) = Image::mounted(64 * MIB, "casefold");
    let folded = folder(&mut volume, root, b"folded");
    volume.with_inode(nid(folded), |head| head.flags = (head.flags.get() | flag::CASEFOLD).into()).unwrap();
    let one = file(&mut volume, folded, b"Hello");
    assert_eq!(volume.lookup(folded, b"hELLO").unwrap(), one);
    assert_eq!(kind(volume.create(folded, b"HELLO", &NewNode::FILE)), ErrorKind::Exists);
    let summer = file(&mut volume, folded, "\u{C9}t\u{E9}".as_bytes());
    assert_eq!(kind(volume.create(folded, "\u{E9}T\u{C9}".as_bytes(), &NewNode::FILE)), ErrorKind::Exists);
    // Longer than what Linux folds.
    assert_eq!(kind(volume.create(folded, &[b'L'; 255], &NewNode::FILE)), ErrorKind::NotSupported);
    // A directory below is casefolded too.
    let below = folder(&mut volume, folded, b"Below");
    let two = file(&mut volume, below, b"Two");
    assert_eq!(volume.lookup(below, b"tWO").unwrap(), two);
    volume.rename((folded, b"HELLO"), (below, b"Moved"), RenameFlags::Replace).unwrap();
    volume.remove(below, b"TWO").unwrap();
    for number in 0..500 {
        file(&mut volume, folded, format!("Number {number}").as_bytes());
    }
    let volume = image.remount(volume, "names without case");
    assert_eq!(volume.lookup(below, b"moved").unwrap(), one);
    assert_eq!(names(&volume, folded).len(), 502);
    volume.lookup(folded, b"NUMBER 499").unwrap();
    assert_eq!(volume.lookup(folded, "\u{E9}t\u{E9}".as_bytes()).unwrap(), summer);
}

/// Makes an entry of an inline directory refer to another inode, or removes it with `None`.
fn plant(volume: &mut WritableVolume<FileDevice>, directory: InodeNumber, name: &[u8], to: Option<InodeNumber>) {
    let inode = volume.inode_at(nid(directory)).unwrap();
    let place = inode.shape.inline.clone();
    let entries = inode.inline_entries().unwrap();
    let mut slots = DentryArea::new(entries).slots_from(0);
    let found = slots.find_map(|slot| match slot {
        dentry::Slot::Entry(entry) if entry.name == name => Some((entry.slot, entry.dentry.file_type)),
        _ => None,
    });
    let (slot, file_type) = found.unwrap();
    let changed = volume.with_inode_block(nid(directory), |block| match to {
        Some(to) => area::retarget(&mut block[place], slot, nid(to), dentry::kind_of(file_type).unwrap()),
        None => area::remove(&mut block[place], slot),
    });
    assert!(changed.unwrap());
}

#[test]
fn directories_that_contradict_themselves_are_told() {
    let (_image, mut volume, root) = Image::mounted(64 * MIB, "");
    let (a, moved) = (folder(&mut volume, root, b"a"), folder(&mut volume, root, b"moved"));
    let b = folder(&mut volume, a, b"b");
    let one = file(&mut volume, a, b"file");
    let move_to = |volume: &mut WritableVolume<FileDevice>, place, name: &[u8]| {
        kind(volume.rename((root, b"moved"), (place, name), RenameFlags::Replace))
    };
    // The parent of b is a, and that of a is b.
    plant(&mut volume, a, b"..", Some(b));
    assert_eq!(move_to(&mut volume, b, b"x"), ErrorKind::Corrupt);
    // The parent of a is a file, then missing.
    plant(&mut volume, a, b"..", Some(one));
    assert_eq!(move_to(&mut volume, b, b"x"), ErrorKind::Corrupt);
    plant(&mut volume, a, b"..", None);
    assert_eq!(move_to(&mut volume, b, b"x"), ErrorKind::Corrupt);
    // An entry for an inode that does not exist, and one for a node that is no inode.
    plant(&mut volume, a, b"file", Some(InodeNumber(90_000)));
    for refused in [
        volume.lookup(a, b"file").map(drop),
        volume.remove(a, b"file"),
        volume.rename((a, b"file"), (root, b"x"), RenameFlags::Replace),
        volume.rename((root, b"moved"), (a, b"file"), RenameFlags::Exchange),
    ] {
        assert_eq!(kind(refused), ErrorKind::Corrupt);
    }
    // The directory is below itself.
    plant(&mut volume, a, b"b", Some(a));
    assert_ne!(kind(volume.rename((root, b"a"), (b, b"x"), RenameFlags::Replace)), ErrorKind::Device);
    assert_eq!(kind(volume.remove(a, b"b")), ErrorKind::NotEmpty);
    // Link counts of both directories.
    let two = file(&mut volume, moved, b"two");
    volume.with_inode(nid(two), |head| head.links = u32::MAX.into()).unwrap();
    assert_eq!(kind(volume.link(two, root, b"x")), ErrorKind::TooManyLinks);
    volume.with_inode(nid(moved), |head| head.links = 0.into()).unwrap();
    assert_eq!(kind(volume.create(moved, b"x", &NewNode::FILE)), ErrorKind::NotFound);
    assert_eq!(names(&volume, moved).len(), 1);
}

/// A directory without a parent entry cannot be moved: it stays, and nothing has changed.
#[test]
fn a_directory_without_its_dots_does_not_move() {
    let (_image, mut volume, root) = Image::mounted(64 * MIB, "");
    let [one, other] = [&b"one"[..], b"other"].map(|name| folder(&mut volume, root, name));
    let (moved, target) = (folder(&mut volume, one, b"moved"), folder(&mut volume, other, b"target"));
    let shape = volume.inode_at(nid(moved)).unwrap().shape.inline.clone();
    volume.with_inode_block(nid(moved), |block| block[shape.start] &= !3).unwrap();
    let picture = |volume: &WritableVolume<FileDevice>| {
        [root, one, other, moved, target].map(|inode| (names(volume, inode), links(volume, inode)))
    };
    let before = picture(&volume);
    for (to, flags) in
        [(&b"new"[..], RenameFlags::default()), (b"target", RenameFlags::default()), (b"target", RenameFlags::Exchange)]
    {
        let renamed = volume.rename((one, b"moved"), (other, to), flags);
        assert_eq!(kind(renamed), ErrorKind::Corrupt);
        assert_eq!(picture(&volume), before);
    }
    assert_eq!(kind(volume.rename((other, b"target"), (one, b"moved"), RenameFlags::Exchange)), ErrorKind::Corrupt);
    assert_eq!(picture(&volume), before);
}
