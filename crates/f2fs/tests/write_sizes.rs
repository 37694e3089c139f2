//! File sizes and bytes past the end, with power cuts: truncated content does not come back, and
//! reserved blocks lengthen no file.

use nandkit_block::wrap::{DeviceFault, DeviceFaultWhen, FaultDevice};
use nandkit_block::{Operation, RamDevice};
use nandkit_f2fs::layout::inode::advise;
use nandkit_f2fs::layout::{Footer, InodeHead};
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_units::Payload;
use nandkit_vfs::{AtomicWrites, Changes, FileSystem, InodeNumber, NewNode, RenameFlags, XattrChanges};

use crate::made::clock;
use crate::writing::oracle::{device_of, empty_image, image_of};
use crate::writing::{findings, unmount};
use zerocopy::FromBytes;

fn mount(device: RamDevice) -> WritableVolume<RamDevice> {
    WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap()
}

/// What the next mount finds after a power cut now.
fn cut(volume: WritableVolume<RamDevice>) -> WritableVolume<RamDevice> {
    let volume = mount(volume.abandon().remove(0));
    let device = device_of(&image_of(&unmount(volume)));
    assert_eq!(findings(device_of(&image_of(&device))), Vec::<String>::new());
    mount(device)
}

fn make(volume: &mut WritableVolume<RamDevice>, name: &[u8], content: &[u8]) -> NodeId {
    let ino = NodeId(volume.create(volume.root(), name, &NewNode::FILE).unwrap().0 as u32);
    volume.write(ino, 0, Payload::Bytes(content)).unwrap();
    ino
}

/// A volume with a durable file `f`.
fn with_file(length: usize) -> (WritableVolume<RamDevice>, NodeId) {
    let mut volume = mount(device_of(&empty_image("")));
    let ino = make(&mut volume, b"f", &vec![7; length]);
    volume.sync().unwrap();
    (volume, ino)
}

fn content(volume: &WritableVolume<RamDevice>) -> Vec<u8> {
    let inode = volume.inode(volume.lookup(volume.root(), b"f").unwrap()).unwrap();
    let mut bytes = vec![0xEE; inode.head.size.get() as usize];
    volume.read_at(&inode, 0, &mut bytes).unwrap();
    bytes
}

/// Makes a checkpoint, without file data.
fn checkpoint(volume: &mut WritableVolume<RamDevice>) {
    let root = NodeId(volume.root().0 as u32);
    volume.fsync(root, false).unwrap();
}

fn is_seven_then_zero(bytes: &[u8], seven: usize) -> bool {
    bytes[..seven].iter().all(|&byte| byte == 7) && bytes[seven..].iter().all(|&byte| byte == 0)
}

#[test]
fn what_was_cut_off_does_not_come_back_when_the_file_grows_behind_a_cut() {
    let (mut volume, ino) = with_file(8192);
    volume.truncate(ino, 10).unwrap();
    checkpoint(&mut volume);
    let mut volume = cut(volume);
    assert_eq!(content(&volume), [7; 10]);
    volume.truncate(ino, 4000).unwrap();
    volume.sync().unwrap();
    let bytes = content(&volume);
    assert!(bytes.len() == 4000 && is_seven_then_zero(&bytes, 10), "{bytes:?}");
}

#[test]
fn what_was_cut_off_does_not_come_back_when_the_file_grows_before_a_cut() {
    let (mut volume, ino) = with_file(8192);
    volume.truncate(ino, 10).unwrap();
    volume.truncate(ino, 9000).unwrap();
    checkpoint(&mut volume);
    let bytes = content(&cut(volume));
    assert!(bytes.len() == 9000 && is_seven_then_zero(&bytes, 10), "{bytes:?}");
}

/// The truncated bytes were already zeroed in memory, but not on the device.
#[test]
fn what_was_overwritten_in_memory_and_cut_off_does_not_come_back() {
    type Zero = fn(&mut WritableVolume<RamDevice>, NodeId);
    let ways: [(&str, Zero); 2] = [
        ("write", |volume, ino| assert_eq!(volume.write(ino, 100, Payload::Bytes(&[0; 3996])).unwrap(), 3996)),
        ("punch", |volume, ino| volume.punch(ino, 100, 3996).unwrap()),
    ];
    for (what, zero) in ways {
        let (mut volume, ino) = with_file(4096);
        zero(&mut volume, ino);
        volume.truncate(ino, 100).unwrap();
        checkpoint(&mut volume);
        volume.truncate(ino, 4096).unwrap();
        checkpoint(&mut volume);
        let bytes = content(&cut(volume));
        assert!(bytes.len() == 4096 && is_seven_then_zero(&bytes, 100), "{what}: {bytes:?}");
    }
}

/// Clearing the page failed on the device: it is retried before the file grows.
#[test]
fn what_was_cut_off_does_not_come_back_where_the_device_refuses_a_write() {
    let (volume, ino) = with_file(4096);
    let image = image_of(&unmount(volume));
    let mut refused = 0;
    for nth in 1..12 {
        let fault = DeviceFault::new(Operation::Write, DeviceFaultWhen::Nth(nth), nandkit_block::ErrorKind::Io);
        let device = FaultDevice::new(device_of(&image), vec![fault]);
        let mut volume = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
        let mut work = || -> nandkit_vfs::Result<()> {
            volume.write(ino, 100, Payload::Bytes(&[0; 3996]))?;
            volume.truncate(ino, 100)?;
            volume.truncate(ino, 4096)?;
            let root = NodeId(volume.root().0 as u32);
            volume.fsync(root, false)
        };
        let done = work();
        refused += u32::from(done.is_err());
        let bytes = content(&cut(mount(volume.abandon().remove(0).into_inner())));
        let is_cut = bytes.len() == 4096 && is_seven_then_zero(&bytes, 100) || bytes == [7; 100];
        assert!(bytes == [7; 4096] && done.is_err() || is_cut, "write {nth}: {} bytes, {done:?}", bytes.len());
    }
    assert!(refused > 3, "{refused}");
}

/// A file marked by Linux: blocks past its end were reserved for a write that never happened.
#[test]
fn what_was_reserved_for_a_write_that_never_came_is_no_content() {
    type Grow = fn(&mut WritableVolume<RamDevice>, NodeId);
    let ways: [(&str, Grow); 2] = [
        ("write", |volume, ino| assert_eq!(volume.write(ino, 16_384, Payload::Bytes(&[0; 4096])).unwrap(), 4096)),
        ("draft", |volume, ino| {
            let draft = volume.begin_atomic(InodeNumber(ino.0.into())).unwrap();
            assert_eq!(volume.write(NodeId(draft.0 as u32), 16_384, Payload::Bytes(&[0; 4096])).unwrap(), 4096);
            volume.commit_atomic(draft).unwrap();
        }),
    ];
    let (volume, ino) = with_file(20_000);
    let mut image = image_of(&unmount(volume));
    let is_inode = |block: &[u8]| {
        Footer::of_block(block).is_some_and(|footer| (footer.nid(), footer.ino()) == (ino, ino))
            && InodeHead::in_block(block).is_some_and(|head| head.size.get() == 20_000)
    };
    for (_, block) in image.iter_mut().filter(|(_, block)| is_inode(block)) {
        let (head, _) = InodeHead::mut_from_prefix(block).unwrap();
        head.size = 4096.into();
        head.advise |= advise::TRUNCATE;
    }
    for (what, grow) in ways {
        let mut volume = mount(device_of(&image));
        grow(&mut volume, ino);
        let bytes = content(&volume);
        assert!(bytes.len() == 20_480 && is_seven_then_zero(&bytes, 4096), "{what}");
    }
}

/// Bytes that others left past the end of a file, for every way in which it can grow.
#[test]
fn what_others_left_behind_the_end_is_zero_when_the_file_grows() {
    let (mut volume, ino) = with_file(8192);
    volume.truncate(ino, 8192 - 4000).unwrap();
    volume.sync().unwrap();
    let image = image_of(&unmount(volume));
    // As Linux and our earlier versions leave it: the page is unchanged.
    let dirty = |image: &crate::writing::oracle::Image| {
        let mut image = image.clone();
        let mut pages =
            image.iter_mut().filter(|(_, bytes)| bytes[..96] == [7; 96] && bytes[96..].iter().all(|&byte| byte == 0));
        let (_, page) = pages.next().expect("the last page");
        page.fill(7);
        assert!(pages.next().is_none());
        image
    };
    type Grow = fn(&mut WritableVolume<RamDevice>, NodeId);
    let ways: [(&str, Grow); 6] = [
        ("write at the end", |volume, ino| assert_eq!(volume.write(ino, 4192, Payload::Bytes(&[0; 9])).unwrap(), 9)),
        ("draft", |volume, ino| {
            let draft = volume.begin_atomic(InodeNumber(ino.0.into())).unwrap();
            assert_eq!(volume.write(NodeId(draft.0 as u32), 6000, Payload::Bytes(&[0])).unwrap(), 1);
            volume.commit_atomic(draft).unwrap();
        }),
        ("truncate", |volume, ino| volume.truncate(ino, 20_000).unwrap()),
        ("write behind a hole", |volume, ino| assert_eq!(volume.write(ino, 20_000, Payload::Bytes(&[0])).unwrap(), 1)),
        ("write in the page", |volume, ino| assert_eq!(volume.write(ino, 6000, Payload::Bytes(&[0])).unwrap(), 1)),
        ("allocate", |volume, ino| volume.allocate_range(ino, 10_000, 10_000, false).unwrap()),
    ];
    for (what, grow) in ways {
        let mut volume = mount(device_of(&dirty(&image)));
        grow(&mut volume, ino);
        assert!(is_seven_then_zero(&content(&volume), 8192 - 4000), "{what}");
        checkpoint(&mut volume);
        assert!(is_seven_then_zero(&content(&cut(volume)), 8192 - 4000), "{what}, behind a cut");
    }
}

/// The zeroes must not be durable before the size is.
#[test]
fn a_truncation_that_is_not_durable_has_not_begun() {
    let mut options = WriteOptions::default();
    options.pages.dirty = 0;
    let mut volume = WritableVolume::mount(vec![device_of(&empty_image(""))], clock(), options).unwrap();
    let ino = make(&mut volume, b"f", &[7; 8192]);
    volume.sync().unwrap();
    volume.truncate(ino, 10).unwrap();
    make(&mut volume, b"other", &[1; 5000]);
    let bytes = content(&cut(volume));
    assert!([vec![7; 10], vec![7; 8192]].contains(&bytes), "{} bytes", bytes.len());
}

#[test]
fn what_was_reserved_behind_the_end_makes_no_fsynced_file_longer() {
    for length in [100, 4100] {
        let (mut volume, ino) = with_file(length);
        volume.allocate_range(ino, 0, 200_000, true).unwrap();
        volume.truncate(ino, 5000).unwrap();
        volume.fsync(ino, false).unwrap();
        assert_eq!(content(&cut(volume)).len(), 5000, "{length}");
        // Nor a file that a later mount changes.
        let (mut volume, ino) = with_file(length);
        volume.allocate_range(ino, 0, 200_000, true).unwrap();
        volume.truncate(ino, 5000).unwrap();
        volume.sync().unwrap();
        let mut volume = mount(unmount(volume));
        volume.write(ino, 0, Payload::Bytes(&[9; 1])).unwrap();
        volume.set_xattr(InodeNumber(ino.0.into()), b"user.a", b"1").unwrap();
        volume.fsync(ino, false).unwrap();
        assert_eq!(content(&cut(volume)).len(), 5000, "{length}, later");
    }
}

#[test]
fn a_file_that_takes_a_name_without_an_fsync_is_old_or_new() {
    let (mut volume, _) = with_file(8192);
    make(&mut volume, b"t", &[8; 8192]);
    let root = volume.root();
    volume.rename((root, b"t"), (root, b"f"), RenameFlags::Replace).unwrap();
    checkpoint(&mut volume);
    let bytes = content(&cut(volume));
    assert!([vec![7; 8192], vec![8; 8192]].contains(&bytes), "{:?}", &bytes[..8]);
}
