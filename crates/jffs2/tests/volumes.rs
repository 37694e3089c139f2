//! The volumes in a dump: where each starts and ends, whatever surrounds it.

use crate::promise::formatted;
use nandkit_flash::Flash;
use nandkit_jffs2::MountOptions;
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::medium::Cleanmarker;
use nandkit_jffs2::probe::{Assumptions, VolumeExtent, volumes};
use nandkit_jffs2::write::WriteOptions;
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_units::{BlockIndex, Context, Payload};
use nandkit_vfs::{Changes, FileSystem, NewNode};

const KNOWN: Assumptions<'_> = Assumptions { page_size: 1, erase_sizes: &[], block_with_oob: None };
const UNIT: usize = 64 << 10;

/// A volume on NOR with five files whose names start with `name`.
fn volume(name: &str, erase_size: u32, blocks: u32, order: ByteOrder) -> Vec<u8> {
    volume_of(5, name, erase_size, blocks, order)
}

fn volume_of(files: u8, name: &str, erase_size: u32, blocks: u32, order: ByteOrder) -> Vec<u8> {
    let write = WriteOptions { summaries: false, ..WriteOptions::default() };
    let cleanmarker = Some(Cleanmarker::Inline);
    let options = MountOptions { order: Some(order), cleanmarker, write, ..MountOptions::default() };
    let mut fs = formatted(nor(erase_size, blocks), &options);
    for number in 0..files {
        let inode = fs.create(fs.root(), format!("{name}-{number}").as_bytes(), &NewNode::FILE).unwrap();
        let noise: Vec<u8> =
            (0..3000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ number ^ name.len() as u8).collect();
        fs.write(inode, 0, Payload::Bytes(&noise)).unwrap();
    }
    fs.sync(None).unwrap();
    fs.into_flash().dump()
}

fn found(parts: &[&[u8]]) -> Vec<VolumeExtent> {
    let bytes = parts.concat();
    let mut flash = StrictFlash::new(nor(4096, (bytes.len() / 4096) as u32));
    flash.poke_all(&bytes);
    volumes(&flash, &KNOWN)
}

fn ranges(parts: &[&[u8]]) -> Vec<(u64, u64)> {
    found(parts).into_iter().map(|volume| (volume.range.start, volume.range.end)).collect()
}

#[test]
fn a_volume_ends_where_something_else_stands() {
    let (code, blank) = (vec![0x5A; UNIT], vec![0xFF; UNIT]);
    let one = volume("a", 8192, 16, ByteOrder::Little);
    let unit = UNIT as u64;
    assert_eq!(ranges(&[&one]), [(0, 2 * unit)]);
    assert_eq!(ranges(&[&code, &one, &code]), [(unit, 3 * unit)]);
    // Blank blocks after the volume belong to it, those before it do not.
    assert_eq!(ranges(&[&code, &blank, &one, &blank, &code]), [(2 * unit, 5 * unit)]);
    assert_eq!(ranges(&[&code, &blank]), []);
}

#[test]
fn volumes_of_two_byte_orders_are_two() {
    let (little, big) = (volume("a", 8192, 16, ByteOrder::Little), volume("a", 8192, 16, ByteOrder::Big));
    let unit = UNIT as u64;
    assert_eq!(ranges(&[&little, &big]), [(0, 2 * unit), (2 * unit, 4 * unit)]);
    // A third volume contradicts the first one in the same byte order.
    let other = volume("another", 8192, 16, ByteOrder::Little);
    assert_eq!(ranges(&[&little, &big, &other]), [(0, 2 * unit), (2 * unit, 4 * unit), (4 * unit, 6 * unit)]);
}

#[test]
fn what_contradicts_itself_is_two_volumes() {
    let (one, other) = (volume("a", 8192, 16, ByteOrder::Little), volume("another", 4096, 32, ByteOrder::Little));
    let unit = UNIT as u64;
    let code = vec![0x5A; UNIT];
    assert_eq!(ranges(&[&one, &code, &other]), [(0, 2 * unit), (3 * unit, 5 * unit)]);
    // Side by side: the distance between blocks tells where one volume ends.
    assert_eq!(ranges(&[&one, &other]), [(0, 2 * unit), (2 * unit, 4 * unit)]);
    assert_eq!(ranges(&[&other, &one]), [(0, 2 * unit), (2 * unit, 4 * unit)]);
    assert!(found(&[&one, &other]).iter().all(|volume| volume.doubts.is_empty()));
    // Blocks of one size: the free ones may belong to either volume, which is reported.
    let same = volume("another", 8192, 16, ByteOrder::Little);
    let doubtful = found(&[&one, &same]);
    assert!(doubtful.len() == 2 && doubtful.iter().all(|volume| volume.doubts.len() == 1), "{doubtful:?}");
}

/// Noise in a bad block is no sign of a new volume after it.
#[test]
fn what_stands_in_a_bad_block_is_no_border() {
    let block = 8192;
    let (one, other) = (volume_of(1, "a", 8192, 16, ByteOrder::Little), volume("another", 8192, 16, ByteOrder::Little));
    // The first block of the second volume does not contradict the first volume.
    let parts = [&one[..], &other[block..2 * block], &[0x5A; 8192], &other[..block], &other[2 * block..]];
    let mut flash = StrictFlash::new(nor(8192, 33));
    flash.poke_all(&parts.concat());
    flash.mark_bad(&Context::default(), BlockIndex(17)).unwrap();
    let found = volumes(&flash, &KNOWN);
    assert!(found.len() == 2 && found.iter().all(|volume| volume.doubts.len() == 1), "{found:?}");
}

/// Two names with one version are not enough for two volumes, and are reported.
#[test]
fn one_contradiction_alone_is_a_doubt() {
    let small = |name| volume_of(1, name, 8192, 16, ByteOrder::Little);
    let doubtful = found(&[&small("a"), &small("another")]);
    assert!(doubtful.iter().all(|volume| volume.doubts.len() == 1), "{doubtful:?}");
    assert!(found(&[&small("a")]).iter().all(|volume| volume.doubts.is_empty()));
}

/// A volume after a power cut is one volume: a contradiction within it does not make two.
#[test]
fn a_volume_that_was_cut_is_one() {
    use nandkit_units::FlashGeometry;
    for geometry in [nor(8 << 10, 26), FlashGeometry::nand(512, 16, 32, 26)] {
        let options = MountOptions::default();
        let run = crate::promise::run(options.clone(), 7, 700, 4);
        let left = run.left(formatted(geometry, &options).into_flash());
        assert!(left.len() > 50, "{} cuts", left.len());
        for (number, device) in left.iter().enumerate() {
            let page_size = if geometry.oob_size > 0 { geometry.page_size } else { 1 };
            let known = Assumptions { page_size, ..KNOWN };
            let found = volumes(device, &known);
            let is_one = found.len() <= 1 && found.iter().all(|volume| volume.doubts.is_empty());
            assert!(is_one, "{geometry:?}, cut {number}: {found:?}");
        }
    }
}
