//! Writable volumes with quota files: after every mount the files match the counts of fsck.f2fs and
//! our check; limits are enforced before anything changes.

use crate::made::{clock, open_image};
use crate::planted::Planted;
use crate::writing::image::{Image, MIB, file, folder, kind, nid};
use crate::writing::{self, assert_sound, findings, open_to_write, unmount};
use nandkit_block::FileDevice;
use nandkit_f2fs::layout::checkpoint::flag as checkpoint_flag;
use nandkit_f2fs::layout::inode::{WORDS_OFFSET, flag};
use nandkit_f2fs::layout::{ExtraAttributes, set_word};
use nandkit_f2fs::testing::quota::layout::Limit;
use nandkit_f2fs::testing::quota::{QuotaKind, Record, Usage};
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{F2fs, MountOptions, NodeId, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Context, Lba, Payload, ReadInto};
use nandkit_vfs::{
    AttributeChange, Changes, ErrorKind, FileKind, FileSystem, InodeNumber, Links, NewNode, OpenFiles, RenameFlags,
    XattrChanges,
};

const FEATURES: &str = "extra_attr,quota,project_quota,inode_checksum";

fn owned(uid: u32, gid: u32) -> AttributeChange {
    AttributeChange { uid: Some(uid), gid: Some(gid), ..AttributeChange::default() }
}

fn usage(volume: &mut WritableVolume<FileDevice>, kind: QuotaKind, id: u32) -> (u64, u64) {
    let record = volume.quota(kind, id).unwrap().unwrap_or_default();
    (record.usage.inodes, record.usage.bytes / 4096)
}

/// Gives a directory, and everything made in it, a project.
fn set_project(volume: &mut WritableVolume<FileDevice>, directory: InodeNumber, project: u32) {
    let at = WORDS_OFFSET + std::mem::offset_of!(ExtraAttributes, project_id);
    volume.with_inode_block(nid(directory), |block| set_word(block, at, project)).unwrap();
    volume.with_inode(nid(directory), |head| head.flags = (head.flags.get() | flag::PROJECT_INHERIT).into()).unwrap();
}

#[test]
fn usage_follows_every_change() {
    use QuotaKind::{Group, Project, User};
    let (image, mut volume, root) = Image::mounted(96 * MIB, FEATURES);
    let start = usage(&mut volume, User, 0);
    let made = volume.create(root, b"file", &NewNode { uid: 1000, gid: 2000, ..NewNode::FILE }).unwrap();
    assert_eq!((usage(&mut volume, User, 1000), usage(&mut volume, Group, 2000)), ((1, 0), (1, 0)));
    // 1000 pages: 864 in the inode, the others below a direct node.
    Changes::write(&mut volume, made, 0, Payload::Bytes(&vec![7; 1000 * 4096])).unwrap();
    assert_eq!((usage(&mut volume, User, 1000), usage(&mut volume, Project, 0).1 > 1000), ((1, 1001), true));
    volume = image.remount(volume, "written");
    assert_eq!(usage(&mut volume, User, 1000), (1, 1001));
    volume.set_attributes(made, &owned(1001, 2000)).unwrap();
    assert_eq!((usage(&mut volume, User, 1000), usage(&mut volume, User, 1001)), ((0, 0), (1, 1001)));
    volume.set_xattr(made, b"user.long", &[1; 2000]).unwrap();
    assert_eq!(usage(&mut volume, User, 1001), (1, 1002));
    volume = image.remount(volume, "another owner");
    assert_eq!(volume.quota(User, 1000).unwrap(), None, "an entry without usage and limits is gone");
    volume.truncate(nid(made), 4096 * 3).unwrap();
    volume.remove_xattr(made, b"user.long").unwrap();
    volume.punch(nid(made), 0, 4096).unwrap();
    assert_eq!(usage(&mut volume, User, 1001), (1, 2));
    Links::link(&mut volume, made, root, b"again").unwrap();
    volume.remove(root, b"file").unwrap();
    assert_eq!(usage(&mut volume, Group, 2000), (1, 2));
    // While open without a name it still counts; after a cut it does not.
    volume.retain(made).unwrap();
    volume.remove(root, b"again").unwrap();
    volume.checkpoint(Reason::Sync).unwrap();
    assert_eq!(usage(&mut volume, Group, 2000), (1, 2));
    drop(volume.abandon());
    assert_eq!(findings(open_image(image.path())), Vec::<String>::new());
    volume = image.mount();
    assert_eq!(volume.recovered().orphans, 1);
    assert_eq!((volume.quota(Group, 2000).unwrap(), usage(&mut volume, User, 0)), (None, start));
    let all = volume.quotas(User).unwrap();
    assert_eq!(all.iter().map(|record| record.id).collect::<Vec<_>>(), [0]);
    unmount(volume);
    assert_sound(image.path(), "at the end");
}

#[test]
fn an_unclean_volume_that_is_read_counts_what_was_fsynced() {
    let (image, mut volume, root) = Image::mounted(96 * MIB, FEATURES);
    volume.create(root, b"synced", &NewNode { uid: 5, ..NewNode::FILE }).unwrap();
    volume.sync().unwrap();
    let made = volume.create(root, b"behind", &NewNode { uid: 1000, gid: 2000, ..NewNode::FILE }).unwrap();
    Changes::write(&mut volume, made, 0, Payload::Bytes(&[3; 9000])).unwrap();
    volume.fsync(nid(made), false).unwrap();
    drop(volume.abandon());
    let recovered = nandkit_f2fs::recover::recovered_several(vec![open_image(image.path())], clock()).unwrap();
    assert_eq!(recovered.recovered.created, 1);
    let report = nandkit_f2fs::check(recovered.devices, clock()).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.is_clean());
}

#[test]
fn projects_are_handed_on_and_not_left() {
    let (image, mut volume, root) = Image::mounted(96 * MIB, FEATURES);
    let (one, other, plain) =
        (folder(&mut volume, root, b"one"), folder(&mut volume, root, b"other"), file(&mut volume, root, b"plain"));
    set_project(&mut volume, one, 41);
    set_project(&mut volume, other, 42);
    let inside = folder(&mut volume, one, b"inside");
    let deep = file(&mut volume, inside, b"deep");
    Changes::write(&mut volume, deep, 0, Payload::Bytes(&[5; 9000])).unwrap();
    assert_eq!(usage(&mut volume, QuotaKind::Project, 41), (3, 3));
    let replace = RenameFlags::Replace;
    assert_eq!(kind(volume.rename((inside, b"deep"), (other, b"deep"), replace)), ErrorKind::CrossDevice);
    assert_eq!(kind(volume.rename((root, b"plain"), (one, b"plain"), replace)), ErrorKind::CrossDevice);
    assert_eq!(kind(Links::link(&mut volume, plain, one, b"plain")), ErrorKind::CrossDevice);
    let exchange = RenameFlags::Exchange;
    assert_eq!(kind(volume.rename((inside, b"deep"), (root, b"plain"), exchange)), ErrorKind::CrossDevice);
    volume.rename((inside, b"deep"), (one, b"deep"), replace).unwrap();
    // Moved to a directory that passes on no project, it keeps its own.
    volume.rename((one, b"deep"), (root, b"deep"), replace).unwrap();
    assert_eq!(usage(&mut volume, QuotaKind::Project, 41), (3, 3));
    volume = image.remount(volume, "projects");
    volume.remove(root, b"deep").unwrap();
    assert_eq!(usage(&mut volume, QuotaKind::Project, 41), (2, 0));
    unmount(volume);
    assert_sound(image.path(), "at the end");
}

/// Random work of many owners, whose ids need several blocks of references and of records, with
/// remounts and roll-forward.
#[test]
fn many_owners_come_and_go() {
    let image = Image::new(96 * MIB, "quota");
    let mut volume = image.mount();
    let (root, mut random) = (volume.root(), Random::new(3, "owners"));
    let mut files: Vec<InodeNumber> = Vec::new();
    let (mut most, mut recovered) = (0, 0);
    for round in 0..8_u64 {
        for step in 0..150_u64 {
            let owner = (random.below(400) * 7_000_003) as u32;
            let some = random.below(files.len().max(1) as u64) as usize;
            match (random.below(6), files.get(some).copied()) {
                (0..3, _) if round < 6 => {
                    let name = format!("{round}-{step}");
                    let node = NewNode { uid: owner, gid: owner % 1000, ..NewNode::FILE };
                    files.push(volume.create(root, name.as_bytes(), &node).unwrap());
                }
                (3, Some(file)) => drop(volume.set_attributes(file, &owned(owner, owner % 900)).unwrap()),
                (4, Some(file)) => {
                    Changes::write(&mut volume, file, random.below(9) * 4096, Payload::Bytes(&[1; 5000]))
                        .map(drop)
                        .unwrap();
                }
                (5, Some(_)) | (_, Some(_)) if round >= 6 || step % 3 == 0 => {
                    let file = files.swap_remove(some);
                    let mut name = Vec::new();
                    let mut sink = |entry: nandkit_vfs::DirectoryEntry<'_>| {
                        if entry.inode == file {
                            name = entry.name.to_vec();
                        }
                        std::ops::ControlFlow::Continue(())
                    };
                    volume.read_dir(root, 0, &mut sink).unwrap();
                    volume.remove(root, &name).unwrap();
                }
                (_, Some(file)) => Changes::sync(&mut volume, Some(file)).unwrap(),
                _ => {}
            }
        }
        most = most.max(volume.quotas(QuotaKind::User).unwrap().len());
        if round % 3 == 1 {
            // New owners of fsynced files before a power cut.
            for number in 0..20 {
                let node = NewNode { uid: 5_000_000 + number + round as u32 * 100, ..NewNode::FILE };
                let new = volume.create(root, format!("synced {round} {number}").as_bytes(), &node).unwrap();
                Changes::write(&mut volume, new, 0, Payload::Bytes(&[2; 9000])).unwrap();
                Changes::sync(&mut volume, Some(new)).unwrap();
                files.push(new);
            }
            drop(volume.abandon());
            volume = image.mount();
            recovered += volume.recovered().created;
            files.retain(|&file| volume.inode(file).is_ok());
        }
        volume = image.remount(volume, &format!("round {round}"));
    }
    assert!(most > 150 && recovered >= 40, "{most} owners, {recovered} recovered");
    assert_eq!(volume.untrusted_quotas(), None);
}

/// Sets the limits of user 1000.
fn limit(volume: &mut WritableVolume<FileDevice>, inodes: Limit, bytes: Limit) {
    volume.set_limits(QuotaKind::User, &Record { id: 1000, inodes, bytes, usage: Usage::default() }).unwrap();
}

const NONE: Limit = Limit { hard: 0, soft: 0, until: 0 };

#[test]
fn hard_limits_are_kept_before_anything_changes() {
    let (image, mut volume, root) = Image::mounted(96 * MIB, FEATURES);
    let node = NewNode { uid: 1000, ..NewNode::FILE };
    let first = volume.create(root, b"first", &node).unwrap();
    let foreign = volume.create(root, b"foreign", &NewNode::FILE).unwrap();
    Changes::write(&mut volume, foreign, 0, Payload::Bytes(&[3; 40 * 4096])).unwrap();
    limit(&mut volume, Limit { hard: 2, ..NONE }, Limit { hard: 80, ..NONE });
    volume = image.remount(volume, "limits");
    // A write is taken in part, as when space runs out.
    assert_eq!(Changes::write(&mut volume, first, 0, Payload::Bytes(&[1; 30 * 4096])).unwrap(), 20 * 4096);
    assert_eq!(kind(Changes::write(&mut volume, first, 20 * 4096, Payload::Bytes(&[1; 9]))), ErrorKind::QuotaExceeded);
    // Overwriting allocated blocks is allowed; holes do not count.
    assert_eq!(Changes::write(&mut volume, first, 0, Payload::Bytes(&[2; 4096])).unwrap(), 4096);
    let size = AttributeChange { size: Some(1 << 20), ..AttributeChange::default() };
    volume.set_attributes(first, &size).unwrap();
    let before = usage(&mut volume, QuotaKind::User, 1000);
    assert_eq!(before, (1, 20));
    assert_eq!(kind(volume.set_xattr(first, b"user.x", &[1; 3000])), ErrorKind::QuotaExceeded);
    assert_eq!(kind(volume.allocate_range(nid(first), 1 << 20, 9000, true)), ErrorKind::QuotaExceeded);
    assert_eq!(kind(volume.set_attributes(foreign, &owned(1000, 0))), ErrorKind::QuotaExceeded);
    assert_eq!(volume.stat(foreign).unwrap().uid, 0);
    let second = volume.create(root, b"second", &node).unwrap();
    assert_eq!(kind(volume.create(root, b"third", &node)), ErrorKind::QuotaExceeded);
    assert_eq!(
        kind(volume.create(root, b"third", &NewNode { uid: 1000, ..NewNode::DIRECTORY })),
        ErrorKind::QuotaExceeded
    );
    assert_eq!(kind(volume.lookup(root, b"third")), ErrorKind::NotFound);
    // Inline content has no block, and cannot leave the inode without one.
    Changes::write(&mut volume, second, 0, Payload::Bytes(&[1; 3000])).unwrap();
    assert_eq!(kind(Changes::write(&mut volume, second, 0, Payload::Bytes(&[1; 5000]))), ErrorKind::QuotaExceeded);
    assert_eq!(usage(&mut volume, QuotaKind::User, 1000), (2, 20));
    volume = image.remount(volume, "at the limits");
    let mut content = vec![0; 3000];
    volume.read(second, 0, ReadInto::Bytes(&mut content)).unwrap();
    assert!(content == [1; 3000], "a refused write changed something");
    // After truncation there is room again.
    volume.truncate(nid(first), 4096).unwrap();
    Changes::write(&mut volume, second, 0, Payload::Bytes(&[1; 5000])).unwrap();
    volume.remove(root, b"second").unwrap();
    volume.create(root, b"third", &node).unwrap();
    unmount(volume);
    assert_sound(image.path(), "at the end");
    // A record with limits stays even when nothing is used.
    let options = WriteOptions { limits: false, ..WriteOptions::default() };
    let mut volume = writing::mount(image.path(), options);
    assert_eq!(Changes::write(&mut volume, first, 0, Payload::Bytes(&[1; 30 * 4096])).unwrap(), 30 * 4096);
    volume.remove(root, b"first").unwrap();
    volume.remove(root, b"third").unwrap();
    let mut volume = image.remount(volume, "limits ignored");
    assert_eq!(volume.quota(QuotaKind::User, 1000).unwrap().map(|record| record.bytes.hard), Some(80));
}

#[test]
fn soft_limits_have_a_grace_time() {
    let image = Image::new(96 * MIB, FEATURES);
    let time = Clock::starting_at(1_000_000_000_000_000_000);
    let mut volume =
        WritableVolume::mount(vec![open_to_write(image.path())], time.clone(), WriteOptions::default()).unwrap();
    let root = volume.root();
    let made = volume.create(root, b"file", &NewNode { uid: 1000, ..NewNode::FILE }).unwrap();
    limit(&mut volume, Limit { soft: 1, ..NONE }, Limit { soft: 40, ..NONE });
    let write = |volume: &mut WritableVolume<FileDevice>, page: u64, pages: usize| {
        Changes::write(volume, made, page * 4096, Payload::Bytes(&vec![1; pages * 4096]))
    };
    write(&mut volume, 0, 10).unwrap();
    let until =
        |volume: &mut WritableVolume<FileDevice>| volume.quota(QuotaKind::User, 1000).unwrap().unwrap().bytes.until;
    assert_eq!(until(&mut volume), 0);
    write(&mut volume, 10, 1).unwrap();
    let week = 7 * 24 * 3600;
    assert_eq!(until(&mut volume), 1_000_000_000 + week);
    time.advance_to(nandkit_units::Nanos::from_secs(week - 1));
    write(&mut volume, 11, 1).unwrap();
    volume.create(root, b"second", &NewNode { uid: 1000, ..NewNode::FILE }).unwrap();
    time.advance_to(nandkit_units::Nanos::from_secs(week));
    assert_eq!(kind(write(&mut volume, 12, 1)), ErrorKind::QuotaExceeded);
    // The grace time has run since the second inode was made.
    volume.create(root, b"third", &NewNode { uid: 1000, ..NewNode::FILE }).unwrap();
    // Below the limit the grace time starts anew.
    volume.truncate(nid(made), 3 * 4096).unwrap();
    write(&mut volume, 3, 8).unwrap();
    assert_eq!(until(&mut volume), 1_000_000_000 + 2 * week);
    unmount(volume);
    assert_sound(image.path(), "soft limits");
    assert_eq!(until(&mut image.mount()), 1_000_000_000 + 2 * week);
}

/// The first block of the users' quota file, found by its magic number.
fn quota_block(image: &Image) -> u64 {
    let bytes = std::fs::read(image.path()).unwrap();
    let magic = 0xD9C0_1F11_u32.to_le_bytes();
    // The copy in use is the one that the inode refers to.
    let volume = F2fs::mount(open_image(image.path()), clock(), MountOptions::default()).unwrap();
    let ino = volume.superblock().0.quota_inodes[0].get();
    let inode = volume.inode(InodeNumber(ino.into())).unwrap();
    let at = nandkit_f2fs::layout::word(&inode.block, inode.shape.addresses.start).unwrap();
    assert_eq!(bytes[at as usize * 4096..][..4], magic);
    at.into()
}

fn edit(image: &Image, block: u64, change: impl FnOnce(&mut [u8])) {
    use nandkit_block::BlockDevice;
    let mut device = open_to_write(image.path());
    let mut bytes = vec![0; 4096];
    device.read(&Context::default(), Lba(block), ReadInto::Bytes(&mut bytes)).unwrap();
    change(&mut bytes);
    device.write(&Context::default(), Lba(block), Payload::Bytes(&bytes)).unwrap();
}

#[test]
fn damaged_quota_files_do_not_stop_a_volume_and_are_counted_anew() {
    let (image, mut volume, root) = Image::mounted(96 * MIB, FEATURES);
    for uid in 0..30 {
        let made =
            volume.create(root, format!("{uid}").as_bytes(), &NewNode { uid: uid * 999, ..NewNode::FILE }).unwrap();
        Changes::write(&mut volume, made, 0, Payload::Bytes(&[1; 9000])).unwrap();
    }
    unmount(volume);
    assert_sound(image.path(), "whole");
    for (round, (what, damage, at_mount)) in (0..).zip([
        ("magic", 0..4, true),
        ("first reference", 1024..1028, false),
        ("blocks", 20..24, true),
        ("list of blocks with room", 28..32, true),
        ("second level", 2048..2052, false),
    ]) {
        let block = quota_block(&image);
        edit(&image, block, |bytes| bytes[damage].fill(0xEE));
        assert!(!findings(open_image(image.path())).is_empty(), "{what}");
        let mut volume = image.mount();
        assert_eq!(volume.notes().iter().any(|note| note.detail.contains("counted anew")), at_mount, "{what}");
        // Damage that is not read is not found.
        volume.create(root, what.as_bytes(), &NewNode { uid: 77_777, ..NewNode::FILE }).unwrap();
        volume.set_attributes(volume.lookup(root, b"3").unwrap(), &owned(500 + round, 3)).unwrap();
        volume.checkpoint(Reason::Sync).unwrap();
        assert_eq!(volume.untrusted_quotas().is_some(), !at_mount, "{what}");
        let head = volume.checkpoint_state().0.head;
        assert_eq!(head.has(checkpoint_flag::QUOTA_NEEDS_FSCK), !at_mount, "{what}");
        unmount(volume);
        let mut volume = image.mount();
        assert_eq!(volume.untrusted_quotas(), None, "{what}");
        let told = volume.notes().iter().any(|note| note.detail.contains("counted anew"));
        assert_eq!(told, !at_mount, "{what}: {:?}", volume.notes());
        assert_eq!(usage(&mut volume, QuotaKind::User, 999 * 2), (1, 3), "{what}");
        volume.remove(root, what.as_bytes()).unwrap();
        unmount(volume);
        assert_sound(image.path(), what);
    }
}

/// An unreadable inode does not stop a volume either: nothing of the file is written.
#[test]
fn a_quota_file_without_an_inode_does_not_stop_a_volume() {
    let image = Image::new(96 * MIB, FEATURES);
    unmount(image.mount());
    // Its footer names another node.
    let planted = Planted::new(std::fs::read(image.path()).unwrap());
    let ino = planted.volume().superblock().0.quota_inodes[0].get();
    edit(&image, planted.at(NodeId(ino)).0.into(), |bytes| bytes[4076..4080].fill(0xEE));
    let mut volume = image.mount();
    assert!(volume.untrusted_quotas().is_some(), "{:?}", volume.notes());
    let root = volume.root();
    for round in 0..3 {
        volume.create(root, &[b'0' + round], &NewNode { uid: 5, ..NewNode::FILE }).unwrap();
        volume.checkpoint(Reason::Sync).unwrap();
    }
    assert_eq!(volume.stopped(), None);
    volume.unmount().map(drop).map_err(|(_, error)| error).unwrap();
    assert!(!findings(open_image(image.path())).is_empty());
}

#[test]
fn limits_outlive_a_count_anew() {
    let (image, mut volume, root) = Image::mounted(96 * MIB, FEATURES);
    volume.create(root, b"file", &NewNode { uid: 1000, ..NewNode::FILE }).unwrap();
    limit(&mut volume, NONE, Limit { hard: 80, ..NONE });
    volume.checkpoint(Reason::Sync).unwrap();
    volume.recount_quotas().unwrap();
    let mut volume = image.remount(volume, "counted anew");
    let record = volume.quota(QuotaKind::User, 1000).unwrap().unwrap();
    assert_eq!((record.bytes.hard, record.usage.inodes), (80, 1));
}

/// Files marked as untrusted although they are correct: the mark goes with the next unmount.
#[test]
fn marks_that_are_not_true_go() {
    let image = Image::new(96 * MIB, FEATURES);
    let mut planted = Planted::new(std::fs::read(image.path()).unwrap());
    planted.checkpoint(|head| head.flags = (head.flags.get() | checkpoint_flag::QUOTA_NEEDS_FSCK).into());
    planted.write(image.path());
    must_be_marked(&image, true);
    unmount(image.mount());
    must_be_marked(&image, false);
    assert_sound(image.path(), "unmarked");
}

fn must_be_marked(image: &Image, marked: bool) {
    let volume = F2fs::mount(open_image(image.path()), clock(), MountOptions::default()).unwrap();
    assert_eq!(volume.checkpoint_state().0.head.has(checkpoint_flag::QUOTA_NEEDS_FSCK), marked);
}

/// If an owner's record has no room, the file is not made.
#[test]
fn a_full_volume_takes_no_new_owner() {
    let (image, mut volume, root) = Image::mounted(64 * MIB, FEATURES);
    let filler = file(&mut volume, root, b"filler");
    let mut at = 0;
    while let Ok(taken) = Changes::write(&mut volume, filler, at, Payload::Bytes(&vec![1; 1 << 20])) {
        at += taken as u64;
    }
    let mut made = 0;
    let refused = loop {
        let node = NewNode { uid: made * 70_000, ..NewNode::FILE };
        match volume.create(root, format!("{made}").as_bytes(), &node) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind, ErrorKind::NoSpace);
    assert_eq!(volume.untrusted_quotas(), None);
    let mut volume = image.remount(volume, "full");
    assert_eq!(volume.untrusted_quotas(), None);
    volume.remove(root, b"filler").unwrap();
    for uid in 0..300 {
        volume
            .create(
                root,
                format!("more {uid}").as_bytes(),
                &NewNode { uid: uid * 70_001, kind: FileKind::Fifo, ..NewNode::FILE },
            )
            .unwrap();
    }
    image.remount(volume, "with room again");
}
