//! Content and entries that leave an inode: durable content stays durable, and a lack of room or a
//! failing device leaves everything unchanged.

use nandkit_block::wrap::{DeviceFault, DeviceFaultWhen, FaultDevice};
use nandkit_block::{BlockDevice, Operation, RamDevice};
use nandkit_f2fs::layout::inode::inline;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_units::Payload;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, NewNode, XattrChanges};

use crate::made::clock;
use crate::writing::oracle::{device_of, empty_image, image_of};
use crate::writing::{findings, unmount};

/// The inline content at first.
const CONTENT: [u8; 100] = [7; 100];

fn mount<D: BlockDevice>(device: D) -> WritableVolume<D> {
    WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap()
}

fn number<D: BlockDevice>(volume: &WritableVolume<D>, name: &[u8]) -> NodeId {
    NodeId(volume.lookup(volume.root(), name).unwrap().0 as u32)
}

/// A file with durable inline content.
fn with_file<D: BlockDevice>(device: D) -> (WritableVolume<D>, NodeId) {
    let mut volume = mount(device);
    let ino = NodeId(volume.create(volume.root(), b"f", &NewNode::FILE).unwrap().0 as u32);
    volume.write(ino, 0, Payload::Bytes(&CONTENT)).unwrap();
    volume.sync().unwrap();
    volume.fsync(ino, false).unwrap();
    (volume, ino)
}

fn content<D: BlockDevice>(volume: &WritableVolume<D>) -> Vec<u8> {
    let inode = volume.inode_at(number(volume, b"f")).unwrap();
    let mut bytes = vec![0xEE; CONTENT.len()];
    volume.read_at(&inode, 0, &mut bytes).unwrap();
    bytes
}

type Leave = fn(&mut dyn Leaves, NodeId) -> nandkit_vfs::Result<()>;

/// Operations that make content leave its inode.
const LEAVES: [(&str, Leave); 4] = [
    ("append", |volume, ino| volume.put(ino, 100, 8000)),
    ("hole", |volume, ino| volume.put(ino, 1 << 20, 10)),
    ("longer", |volume, ino| volume.resize(ino, 1 << 20)),
    ("allocate", |volume, ino| volume.allocate(ino, 50)),
];

trait Leaves {
    fn put(&mut self, ino: NodeId, at: u64, length: usize) -> nandkit_vfs::Result<()>;
    fn resize(&mut self, ino: NodeId, size: u64) -> nandkit_vfs::Result<()>;
    fn allocate(&mut self, ino: NodeId, length: u64) -> nandkit_vfs::Result<()>;
}

impl<D: BlockDevice> Leaves for WritableVolume<D> {
    fn put(&mut self, ino: NodeId, at: u64, length: usize) -> nandkit_vfs::Result<()> {
        self.write(ino, at, Payload::Bytes(&vec![8; length])).map(drop)
    }

    fn resize(&mut self, ino: NodeId, size: u64) -> nandkit_vfs::Result<()> {
        self.truncate(ino, size)
    }

    fn allocate(&mut self, ino: NodeId, length: u64) -> nandkit_vfs::Result<()> {
        self.allocate_range(ino, 0, length, true)
    }
}

/// A checkpoint leaves out file data: content only in memory would be lost with the next power cut,
/// and the inode would no longer have it.
#[test]
fn content_that_left_its_inode_survives_a_checkpoint_that_others_asked_for() {
    for (what, leave) in LEAVES {
        let (mut volume, ino) = with_file(device_of(&empty_image("")));
        leave(&mut volume, ino).unwrap();
        assert!(volume.inode_at(ino).unwrap().inline_data().is_none(), "{what}");
        let root = NodeId(volume.root().0 as u32);
        volume.fsync(root, false).unwrap();
        let volume = mount(volume.abandon().remove(0));
        assert_eq!(content(&volume), CONTENT, "{what}");
        assert_eq!(findings(unmount(volume)), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn content_stays_in_its_inode_where_the_device_does_not_take_it() {
    for (what, leave) in LEAVES {
        let image = {
            let (volume, _) = with_file(device_of(&empty_image("")));
            image_of(&unmount(volume))
        };
        // Writes after the two of the checkpoint before the first change.
        let fault = DeviceFault::new(Operation::Write, DeviceFaultWhen::Nth(3), nandkit_block::ErrorKind::Io);
        let mut volume = mount(FaultDevice::new(device_of(&image), vec![fault]));
        let ino = number(&volume, b"f");
        let error = leave(&mut volume, ino).unwrap_err();
        assert_eq!((error.kind, volume.stopped()), (ErrorKind::Device, None), "{what}: {error}");
        let inode = volume.inode_at(ino).unwrap();
        assert_eq!((inode.head.size.get(), inode.inline_data().is_some()), (100, true), "{what}");
        assert!(inode.head.has_inline(inline::DATA_EXISTS), "{what}");
        assert_eq!(content(&volume), CONTENT, "{what}");
        // A retry succeeds.
        leave(&mut volume, ino).unwrap();
        assert_eq!(content(&volume), CONTENT, "{what}");
        let volume = mount(unmount(volume).into_inner());
        assert_eq!(content(&volume), CONTENT, "{what}");
        assert_eq!(findings(unmount(volume)), Vec::<String>::new(), "{what}");
    }
}

/// Entries of a directory whose first bucket is past the pages of its inode: moving them takes a
/// node, for which a full volume has no room, or room for nothing else.
#[test]
fn entries_stay_in_their_inode_where_the_volume_is_full() {
    let mut options = WriteOptions::default();
    options.making.directory_level = 9;
    let mut volume: WritableVolume<RamDevice> =
        WritableVolume::mount(vec![device_of(&empty_image(""))], clock(), options).unwrap();
    let root = volume.root();
    let filler = NodeId(volume.create(root, b"filler", &NewNode::FILE).unwrap().0 as u32);
    let directory = volume.create(root, b"d", &NewNode::DIRECTORY).unwrap();
    for name in 0..172 {
        volume.create(directory, format!("n{name}").as_bytes(), &NewNode::FILE).unwrap();
    }
    let (chunk, mut at) = (vec![1; 1 << 20], 0);
    while let Ok(taken) = volume.write(filler, at, Payload::Bytes(&chunk)) {
        at += taken as u64;
        if taken < chunk.len() {
            break;
        }
    }
    volume.sync().unwrap();
    let long = [b'x'; 110];
    let mut refused = 0;
    loop {
        at = (at - 1) / 4096 * 4096;
        volume.truncate(filler, at).unwrap();
        let space = |volume: &WritableVolume<RamDevice>| {
            (volume.segments().space.valid_nodes, volume.segments().space.valid_blocks)
        };
        let before = space(&volume);
        match volume.create(directory, &long, &NewNode::FILE) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind, ErrorKind::NoSpace, "{error}"),
        }
        if volume.inode(directory).unwrap().inline_entries().is_none() {
            // They have moved, and there was no room for the new name.
            break;
        }
        assert_eq!(space(&volume), before, "{refused} blocks more");
        refused += 1;
    }
    assert!(refused > 100, "{refused}: moving them takes a page for nearly each");
    for name in 0..172 {
        volume.lookup(directory, format!("n{name}").as_bytes()).unwrap();
    }
    assert_eq!(findings(unmount(volume)), Vec::<String>::new());
}

/// Linux's roll-forward keeps an attribute node that an fsynced inode no longer has, so such an
/// fsync is a checkpoint.
#[test]
fn an_fsync_behind_the_last_large_attribute_is_a_checkpoint() {
    let (mut volume, ino) = with_file(device_of(&empty_image("")));
    let file = nandkit_vfs::InodeNumber(ino.0.into());
    volume.set_xattr(file, b"user.large", &[1; 2000]).unwrap();
    volume.sync().unwrap();
    let version = |volume: &WritableVolume<RamDevice>| volume.checkpoint_state().0.head.version.get();
    volume.write(ino, 0, Payload::Bytes(b"x")).unwrap();
    let before = version(&volume);
    volume.fsync(ino, false).unwrap();
    assert_eq!(version(&volume), before, "one without that is none");
    volume.remove_xattr(file, b"user.large").unwrap();
    volume.fsync(ino, false).unwrap();
    assert_eq!(version(&volume), before + 1);
}
