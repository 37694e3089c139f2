//! What a repair does with lost inodes: it gives them unused names in `lost+found` or the root; it
//! drops those that were deleted.

use crate::made::{clock, complaints};
use crate::writing::oracle::{Image, SECTORS, device_of, empty_image, image_of, write_image};
use crate::writing::unmount;
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::Nodes;
use nandkit_f2fs::check::Waiting;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{F2fs, MountOptions, NodeId, WritableVolume, WriteOptions, check, repair};
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{AtomicWrites, Changes, FileSystem, InodeNumber, Links, NewNode, OpenFiles};

fn mount(image: &Image) -> WritableVolume<RamDevice> {
    WritableVolume::mount(vec![device_of(image)], clock(), WriteOptions::default()).unwrap()
}

/// Zeroes an inode's block.
fn destroyed(mut device: RamDevice, inode: InodeNumber) -> RamDevice {
    let volume = F2fs::mount(&mut device, clock(), MountOptions::default()).unwrap();
    let at = volume.entry(NodeId(inode.0 as u32)).unwrap().address.get();
    drop(volume);
    device.write(&Context::default(), Lba(at.into()), Payload::Bytes(&[0; 4096])).unwrap();
    device
}

/// Repairs a volume, checks it with our check and fsck.f2fs, and opens it; returns how many inodes
/// got names.
fn repaired(mut device: RamDevice) -> (F2fs<RamDevice>, usize) {
    let repair = repair(vec![&mut device], clock(), Waiting::Dropped).unwrap();
    for (at, bytes) in &repair.blocks {
        device.write(&Context::default(), Lba(at.0.into()), Payload::Bytes(bytes)).unwrap();
    }
    let again = check(vec![&mut device], clock()).unwrap();
    assert_eq!((&again.findings, &repair.after.findings), (&Vec::new(), &Vec::new()));
    let scratch = tempfile::tempdir().unwrap();
    write_image(&scratch.path().join("image"), &image_of(&device));
    assert_eq!(complaints(&scratch.path().join("image")), Vec::<String>::new());
    (F2fs::mount(device, clock(), MountOptions::default()).unwrap(), repair.attached.len())
}

/// The names in the root.
fn names(volume: &F2fs<RamDevice>) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let all = volume.read_dir(volume.root(), 0, &mut |entry| {
        names.push(entry.name.to_vec());
        std::ops::ControlFlow::Continue(())
    });
    all.unwrap();
    names
}

#[test]
fn what_has_no_room_in_an_inline_lost_and_found_is_in_the_root() {
    for features in ["", "extra_attr,inode_checksum"] {
        let mut volume = mount(&empty_image(features));
        let root = volume.root();
        volume.create(root, b"lost+found", &NewNode::DIRECTORY).unwrap();
        let many = volume.create(root, b"many", &NewNode::DIRECTORY).unwrap();
        let files: Vec<_> = (0..300)
            .map(|number| volume.create(many, format!("{number}").as_bytes(), &NewNode::FILE).unwrap())
            .collect();
        let (volume, attached) = repaired(destroyed(unmount(volume), many));
        let home = volume.lookup(root, b"lost+found").unwrap();
        let in_home = |file: &InodeNumber| volume.lookup(home, file.0.to_string().as_bytes()).ok() == Some(*file);
        let in_root = |file: &InodeNumber| volume.lookup(root, file.0.to_string().as_bytes()).ok() == Some(*file);
        assert!(files.iter().all(|file| in_home(file) != in_root(file)), "each has one name");
        let here = files.iter().filter(|file| in_home(file)).count();
        assert!(attached == 300 && (100..200).contains(&here), "{attached} attached, {here} in lost+found");
    }
}

#[test]
fn a_lost_inode_takes_nobodys_name() {
    for inline in [false, true] {
        let mut volume = mount(&empty_image(""));
        let root = volume.root();
        let home = if inline { volume.create(root, b"lost+found", &NewNode::DIRECTORY).unwrap() } else { root };
        let directory = volume.create(root, b"directory", &NewNode::DIRECTORY).unwrap();
        let lost = volume.create(directory, b"lost", &NewNode::FILE).unwrap();
        // Users' names, some before the first free place and some after it.
        let names: Vec<String> = (0..40).map(|number| format!("user {number}")).chain([lost.0.to_string()]).collect();
        let users: Vec<_> =
            names.iter().map(|name| volume.create(home, name.as_bytes(), &NewNode::FILE).unwrap()).collect();
        for number in 0..20 {
            volume.remove(home, format!("user {number}").as_bytes()).unwrap();
        }
        let (volume, attached) = repaired(destroyed(unmount(volume), directory));
        assert_eq!(attached, 1);
        for (name, user) in names.iter().zip(&users).skip(20) {
            assert_eq!(volume.lookup(home, name.as_bytes()).unwrap(), *user, "{name}");
        }
        assert_eq!(volume.lookup(home, format!("{}.1", lost.0).as_bytes()).unwrap(), lost);
    }
}

#[test]
fn deleted_files_and_drafts_do_not_come_back() {
    for features in ["", "quota,extra_attr"] {
        let mut volume = mount(&empty_image(features));
        let root = volume.root();
        let kept = volume.create(root, b"kept", &NewNode::FILE).unwrap();
        let open = volume.create(root, b"open", &NewNode::FILE).unwrap();
        Changes::write(&mut volume, open, 0, Payload::Bytes(&[1; 50_000])).unwrap();
        volume.retain(open).unwrap();
        volume.remove(root, b"open").unwrap();
        let draft = AtomicWrites::begin_atomic(&mut volume, kept).unwrap();
        Changes::write(&mut volume, draft, 0, Payload::Bytes(&[2; 9000])).unwrap();
        volume.checkpoint(Reason::Sync).unwrap();
        assert_eq!(volume.checkpoint_state().0.orphans.len(), 2);
        let (volume, attached) = repaired(volume.abandon().remove(0));
        assert_eq!(attached, 0);
        assert_eq!(names(&volume), [b"kept"]);
    }
}

/// All names of an unusable inode are removed at once: the passes of a repair are limited, and
/// files may have any number of names.
#[test]
fn an_inode_of_many_names_is_let_go_with_all_of_them() {
    let mut volume = mount(&empty_image(""));
    let root = volume.root();
    let kept = volume.create(root, b"kept", &NewNode::FILE).unwrap();
    let file = volume.create(root, b"name", &NewNode::FILE).unwrap();
    for number in 0..60 {
        volume.link(file, root, format!("name {number}").as_bytes()).unwrap();
    }
    let (volume, attached) = repaired(destroyed(unmount(volume), file));
    assert_eq!((attached, volume.lookup(root, b"kept").unwrap()), (0, kept));
    assert_eq!(names(&volume), [b"kept"]);
}

/// An inode renamed over another file records its old name: the inode that certainly has that name
/// gets it.
#[test]
fn names_that_are_certain_come_before_older_ones() {
    let mut volume = mount(&empty_image(""));
    let root = volume.root();
    let target = volume.create(root, b"config", &NewNode::FILE).unwrap();
    let saved = volume.create(root, b"config.tmp", &NewNode::FILE).unwrap();
    volume.rename((root, b"config.tmp"), (root, b"config"), Default::default()).unwrap();
    let second = volume.create(root, b"config.tmp", &NewNode::FILE).unwrap();
    assert!(second != saved && target != saved);
    let (volume, _) = repaired(destroyed(unmount(volume), root));
    assert_eq!(volume.lookup(root, b"config.tmp").unwrap(), second);
    assert_eq!(volume.lookup(root, saved.0.to_string().as_bytes()).unwrap(), saved);
}

/// Its inode says that it is in the root, as it was renamed over another file; but the lost
/// directory lists it.
#[test]
fn what_a_lost_directory_names_gets_no_second_name() {
    let mut volume = mount(&empty_image(""));
    let root = volume.root();
    let file = volume.create(root, b"config.tmp", &NewNode::FILE).unwrap();
    let above = volume.create(root, b"above", &NewNode::DIRECTORY).unwrap();
    let directory = volume.create(above, b"directory", &NewNode::DIRECTORY).unwrap();
    volume.create(directory, b"config", &NewNode::FILE).unwrap();
    volume.rename((root, b"config.tmp"), (directory, b"config"), Default::default()).unwrap();
    let (volume, attached) = repaired(destroyed(unmount(volume), above));
    assert_eq!((attached, names(&volume)), (1, vec![directory.0.to_string().into_bytes()]));
    assert_eq!(volume.lookup(directory, b"config").unwrap(), file);
    assert_eq!(volume.stat(file).unwrap().links, 1);
}

/// Directories record the name from before an exchange, without a flag that says so: files come
/// first.
#[test]
fn names_of_directories_are_told_as_uncertain() {
    let mut volume = mount(&empty_image(""));
    let root = volume.root();
    volume.create(root, b"next", &NewNode::DIRECTORY).unwrap();
    volume.create(root, b"current", &NewNode::DIRECTORY).unwrap();
    volume.rename((root, b"next"), (root, b"current"), nandkit_vfs::RenameFlags::Exchange).unwrap();
    let device = destroyed(unmount(volume), root);
    let repair = repair(vec![device], clock(), Waiting::Dropped).unwrap();
    let told = repair.report.dropped.iter().filter(|finding| finding.detail.contains("may be an older one"));
    assert_eq!(told.count(), 2, "{:?}", repair.report.dropped);
}

/// If all variants of a number are taken, only that inode gets no name.
#[test]
fn a_lost_inode_whose_names_are_all_taken_stops_no_other() {
    let mut volume = mount(&empty_image(""));
    let root = volume.root();
    let directory = volume.create(root, b"directory", &NewNode::DIRECTORY).unwrap();
    let lost: Vec<_> =
        (0..3).map(|number| volume.create(directory, &[b'a' + number], &NewNode::FILE).unwrap()).collect();
    let taken = (1..100).map(|other| format!("{}.{other}", lost[0].0)).chain([lost[0].0.to_string()]);
    for name in taken {
        volume.create(root, name.as_bytes(), &NewNode::FILE).unwrap();
    }
    let (volume, attached) = repaired(destroyed(unmount(volume), directory));
    assert_eq!(attached, 2);
    for inode in &lost[1..] {
        assert_eq!(volume.lookup(root, inode.0.to_string().as_bytes()).unwrap(), *inode);
    }
}

/// Replaces entries of an inline directory: inode, length of the name, type.
fn exchanged(device: &mut RamDevice, directory: InodeNumber, entries: &[[(u64, u16, u8); 2]]) {
    let volume = F2fs::mount(&mut *device, clock(), MountOptions::default()).unwrap();
    let at = Lba(volume.entry(NodeId(directory.0 as u32)).unwrap().address.get().into());
    drop(volume);
    let mut block = [0; 4096];
    device.read(&Context::default(), at, ReadInto::Bytes(&mut block)).unwrap();
    let bytes_of = |(inode, length, kind): (u64, u16, u8)| {
        [&(inode as u32).to_le_bytes()[..], &length.to_le_bytes(), &[kind]].concat()
    };
    for [from, to] in entries {
        let place = block.windows(7).position(|window| window == bytes_of(*from)).unwrap();
        block[place..place + 7].copy_from_slice(&bytes_of(*to));
    }
    device.write(&Context::default(), at, Payload::Bytes(&block)).unwrap();
}

/// Two directories that contain each other, and files with lower numbers in them: one of the two
/// gets a name, and the others are reached through it.
#[test]
fn what_hangs_on_a_ring_of_lost_directories_gets_no_second_name() {
    const FILE: u8 = 1;
    const DIRECTORY: u8 = 2;
    let mut volume = mount(&empty_image(""));
    let root = volume.root();
    let files: Vec<_> = (0..30).map(|number| volume.create(root, &[b'A' + number], &NewNode::FILE).unwrap()).collect();
    let home = volume.create(root, b"home", &NewNode::DIRECTORY).unwrap();
    let [one, other] = [b"o", b"p"].map(|name| volume.create(home, name, &NewNode::DIRECTORY).unwrap());
    let below = volume.create(other, b"below", &NewNode::DIRECTORY).unwrap();
    for (number, directory) in [one, other, below].into_iter().cycle().take(30).enumerate() {
        let name = [b'A' + number as u8];
        volume.rename((root, &name), (directory, &name), Default::default()).unwrap();
    }
    let [x, y] = [one, other].map(|directory| volume.create(directory, b"x", &NewNode::FILE).unwrap());
    let mut device = unmount(volume);
    // In `home`, the names of the directories now lead to the files, and those of the files to the
    // directories.
    let entries = [[(one.0, 1, DIRECTORY), (x.0, 1, FILE)], [(other.0, 1, DIRECTORY), (y.0, 1, FILE)]];
    exchanged(&mut device, home, &entries);
    let above = |target: InodeNumber| [(home.0, 2, DIRECTORY), (target.0, 2, DIRECTORY)];
    exchanged(&mut device, one, &[[(x.0, 1, FILE), (other.0, 1, DIRECTORY)], above(other)]);
    exchanged(&mut device, other, &[[(y.0, 1, FILE), (one.0, 1, DIRECTORY)], above(one)]);
    let (volume, attached) = repaired(device);
    assert_eq!(attached, 1);
    assert!(names(&volume).contains(&one.0.to_string().into_bytes()) && names(&volume).len() == 2);
    assert_eq!(volume.lookup(volume.lookup(one, b"x").unwrap(), b"below").unwrap(), below);
    assert!(volume.lookup(other, b"x").is_err(), "the ring is open");
    assert_eq!([b"o", b"p"].map(|name| volume.lookup(home, name).unwrap()), [x, y]);
    for (number, directory) in [one, other, below].into_iter().cycle().take(30).enumerate() {
        assert_eq!(volume.lookup(directory, &[b'A' + number as u8]).unwrap(), files[number]);
        assert_eq!(volume.stat(files[number]).unwrap().links, 1);
    }
}

/// Changes the block of an inode.
fn changed(device: &mut RamDevice, inode: InodeNumber, change: impl FnOnce(&mut [u8; 4096])) {
    let volume = F2fs::mount(&mut *device, clock(), MountOptions::default()).unwrap();
    let at = Lba(volume.entry(NodeId(inode.0 as u32)).unwrap().address.get().into());
    drop(volume);
    let mut block = [0; 4096];
    device.read(&Context::default(), at, ReadInto::Bytes(&mut block)).unwrap();
    change(&mut block);
    device.write(&Context::default(), at, Payload::Bytes(&block)).unwrap();
}

/// The address of a page in an inode without extra attributes (f2fs.md, "Inodes").
fn address(block: &mut [u8; 4096], page: usize) -> &mut [u8] {
    &mut block[360 + 4 * page..][..4]
}

/// Directories of one slot each: pages 0 and 1 and a part of the next level are full; page 3 is a
/// hole.
fn with_many(volume: &mut WritableVolume<RamDevice>, directory: InodeNumber, node: &NewNode<'_>) -> Vec<InodeNumber> {
    (0..600).map(|number| volume.create(directory, format!("{number}").as_bytes(), node).unwrap()).collect()
}

/// A second copy of a directory page, where most of its names do not belong, is read first.
#[test]
fn names_that_do_not_belong_do_not_take_those_along_that_do() {
    let mut volume = mount(&empty_image(""));
    let root = volume.root();
    let many = volume.create(root, b"many", &NewNode::DIRECTORY).unwrap();
    let inside = with_many(&mut volume, many, &NewNode::DIRECTORY);
    let mut device = unmount(volume);
    let free = (SECTORS - 100) as u32;
    let mut page = [0; 4096];
    changed(&mut device, many, |block| {
        page.copy_from_slice(&[0; 4096]);
        let original = address(block, 0).to_vec();
        assert!(address(block, 3).iter().all(|byte| *byte == 0) && original[..] < free.to_le_bytes()[..]);
        address(block, 3).copy_from_slice(&original);
        address(block, 0).copy_from_slice(&free.to_le_bytes());
        page[..4].copy_from_slice(&original);
    });
    let original = u32::from_le_bytes(*page.first_chunk().unwrap());
    device.read(&Context::default(), Lba(original.into()), ReadInto::Bytes(&mut page)).unwrap();
    device.write(&Context::default(), Lba(free.into()), Payload::Bytes(&page)).unwrap();
    let (volume, attached) = repaired(device);
    assert_eq!(attached, 0);
    for (number, inode) in inside.iter().enumerate() {
        assert_eq!(volume.lookup(many, format!("{number}").as_bytes()).unwrap(), *inode, "{number}");
    }
}

/// A lost directory for which no name is left is dropped, but its content is kept.
#[test]
fn what_is_below_a_directory_without_a_name_gets_one() {
    let mut volume = mount(&empty_image(""));
    let root = volume.root();
    let above = volume.create(root, b"above", &NewNode::DIRECTORY).unwrap();
    let directory = volume.create(above, b"directory", &NewNode::DIRECTORY).unwrap();
    let inner = volume.create(directory, b"inner", &NewNode::DIRECTORY).unwrap();
    let files: Vec<_> =
        (0..5).map(|number| volume.create(directory, &[b'a' + number], &NewNode::FILE).unwrap()).collect();
    let deepest = volume.create(inner, b"deepest", &NewNode::FILE).unwrap();
    let taken = (1..100).map(|other| format!("{}.{other}", directory.0)).chain([directory.0.to_string()]);
    for name in taken {
        volume.create(root, name.as_bytes(), &NewNode::FILE).unwrap();
    }
    let (volume, attached) = repaired(destroyed(unmount(volume), above));
    assert_eq!(attached, 6);
    for inode in files.iter().chain([&inner]) {
        assert_eq!(volume.lookup(root, inode.0.to_string().as_bytes()).unwrap(), *inode);
        assert_eq!(volume.stat(*inode).unwrap().links, if *inode == inner { 2 } else { 1 });
    }
    assert_eq!(volume.lookup(inner, b"deepest").unwrap(), deepest);
}
