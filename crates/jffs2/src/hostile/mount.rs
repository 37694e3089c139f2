//! Mounting hostile images.

use nandkit_units::ReadInto;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, InodeNumber, NewNode};

use super::*;
use crate::encode::xref_node;
use crate::work::steps_of;

/// Directories, names or nodes in an image; its square is 250 times the allowed number of steps.
const MANY: u32 = 5000;

/// Steps allowed for each.
const EACH: u64 = 20;

/// A chain of directories each of which contains another name of the first one: every such name
/// makes a cycle.
#[test]
fn names_that_lead_back_are_found_in_one_walk() {
    let mut image = Image::default();
    for inode in 2..2 + MANY {
        image.name(inode - 1, 1, "a", inode, 4);
        image.name(inode, 2, "b", 2, 4);
        image.directory(inode);
    }
    let (volume, steps) = steps_of(|| mount(image.flash(), true));
    assert!(steps < EACH * u64::from(MANY), "{steps} steps");
    assert_eq!(volume.damage.sorted().len(), MANY as usize);
    assert!(volume.damage.sorted().iter().all(|damage| damage.detail.ends_with("the name \"b\" there is not shown")));
}

/// Second names without cycles: as many as accidents produce are kept, the rest is refused.
#[test]
fn of_many_second_names_the_first_few_are_kept() {
    let mut image = Image::default();
    for inode in 2..2 + MANY {
        image.name(1, inode, &format!("d{inode}"), inode, 4);
        image.directory(inode);
        if inode > 2 {
            image.name(2, inode, &format!("e{inode}"), inode, 4);
        }
    }
    let (volume, steps) = steps_of(|| mount(image.flash(), true));
    assert!(steps < EACH * u64::from(MANY), "{steps} steps");
    let kept = volume.damage.sorted().iter().filter(|damage| damage.detail.ends_with("cut off")).count();
    assert_eq!((kept, volume.damage.sorted().len()), (8, MANY as usize - 1));
}

/// Two directories that contain each other's second names: the first one makes no cycle, the other
/// would close one.
#[test]
fn a_circle_over_a_second_name_is_one() {
    let mut image = Image::default();
    for inode in 2..4 {
        image.name(1, inode, &format!("d{inode}"), inode, 4);
        image.directory(inode);
    }
    image.name(2, 2, "x", 3, 4);
    image.name(3, 2, "y", 2, 4);
    let volume = mount(image.flash(), true);
    let details: Vec<String> = volume.damage.sorted().into_iter().map(|damage| damage.detail).collect();
    assert_eq!(details.len(), 2);
    assert_eq!(details.iter().filter(|detail| detail.ends_with("cut off")).count(), 1, "{details:?}");
    assert_eq!(details.iter().filter(|detail| detail.ends_with("is not shown")).count(), 1, "{details:?}");
}

#[test]
fn names_of_nothing_among_names_of_files_are_forgotten_one_by_one() {
    let mut image = Image::default();
    for number in 0..MANY {
        image.name(1, 2 * number + 1, &format!("live-{number}"), 2, 8);
        image.name(1, 2 * number + 2, &format!("dangling-{number}"), 3 + number, 8);
    }
    image.hole(2, 1, 0, 4096, 4096);
    let (volume, steps) = steps_of(|| mount(image.flash(), true));
    assert!(steps < EACH * u64::from(MANY), "{steps} steps");
    assert_eq!(volume.damage.sorted().len(), MANY as usize);
    assert_eq!(volume.lookup(volume.root(), b"live-77").unwrap(), InodeNumber(2));
    assert_eq!(volume.lookup(volume.root(), b"dangling-77").unwrap_err().kind, ErrorKind::NotFound);
}

/// The number of an inode whose nodes are gone is not reused for a new file: the remaining name
/// would refer to the new file.
#[test]
fn a_number_that_a_name_or_a_reference_has_is_not_given_again() {
    for (target, owner, least) in [(70, 9, 71), (9, 80, 81)] {
        let mut image = Image::default();
        image.name(1, 1, "file", 2, 8);
        image.hole(2, 1, 0, 4096, 4096);
        image.name(1, 2, "dangling", target, 8);
        let mut node = Vec::new();
        xref_node(ORDER, Ino(owner), 1, 2, &mut node);
        image.add(&node);
        let mut volume = mount(image.flash(), false);
        let root = volume.root();
        for number in 0..3 {
            let made = volume.create(root, format!("new-{number}").as_bytes(), &NewNode::FILE).unwrap();
            assert!(made.0 >= least, "{made:?} for {target} and {owner}");
        }
        volume.sync(None).unwrap();
        let volume = mount(volume.into_flash(), true);
        assert_eq!(volume.lookup(root, b"dangling").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(volume.stat(volume.lookup(root, b"new-0").unwrap()).unwrap().links, 1);
    }
}

/// A summary entry of 68 bytes for a node that claims, with valid checksums, to have 64 MiB.
#[test]
fn a_node_that_claims_more_than_its_summary_is_no_version() {
    let length = 64 << 20;
    let mut node = Vec::new();
    let fields = InodeFields { inode: Ino(2), version: 1, mode: 0o100_644, file_size: 1, ..InodeFields::default() };
    inode_node(ORDER, &fields, &Piece { offset: 0, size: 1, compression: 0, bytes: b"" }, &mut node);
    let mut claim = crate::layout::Inode::decode(ORDER, &node).unwrap();
    let header = Header::new(ORDER, node_type::INODE, length);
    (claim.total_length, claim.header_crc) = (header.total_length, header.header_crc);
    claim.compressed_size = length - crate::layout::INODE_SIZE;
    claim.node_crc = crc(&claim.encode(ORDER)[..covered::INODE]);
    let mut block = Summed::default();
    block.inode(2, 1, &claim.encode(ORDER), 68);
    let mut whole = Vec::new();
    let fields = InodeFields { version: 2, ..fields };
    inode_node(ORDER, &fields, &Piece { offset: 0, size: 1, compression: 0, bytes: b"x" }, &mut whole);
    block.inode(2, 2, &whole, whole.len() as u32);
    let name = name_node(1, 1, "file", 2, 8);
    block.name((1, 1, 2, 8), "file", &name);
    let volume = mount(Image(block.block()).flash(), true);
    assert_eq!(volume.versions(Ino(2)).unwrap().iter().map(|found| found.version).collect::<Vec<_>>(), [2]);
    assert_eq!(volume.content_within(Ino(2), 2, 0..10).unwrap().bytes, b"x");
    let mut byte = [0];
    assert_eq!(volume.read(InodeNumber(2), 0, ReadInto::Bytes(&mut byte)).unwrap(), 1);
    assert_eq!(&byte, b"x");
}
