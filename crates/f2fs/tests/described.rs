//! Described content stays described throughout: in pages in memory, on the device, and when the
//! collector moves it. So a large volume needs memory only for its metadata.

use nandkit_block::RamDevice;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::write::{WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Described, Description, Generator, Nanos, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, NewNode};

const BLOCK: u64 = 4096;

fn described(record: u64, version: u32, length: u64) -> Described {
    let description = Description { record, version, offset: 0, generator: Generator::Record };
    Described { description, length: length as u32 }
}

/// A volume of 2 GiB, more than half of it a file that is filled and overwritten at random until
/// the collector has moved much of it.
#[test]
fn a_large_volume_holds_bytes_of_metadata_alone() {
    let (blocks, file_blocks) = (2 << 30 >> 12, 340_000_u64);
    let mut device = RamDevice::with_sectors(4096, blocks).unwrap();
    let clock = Clock::default();
    let options = MkfsOptions::default();
    let tree = EmptyTree::new(&options);
    Mkfs::new(&tree, options.clone()).unwrap().write(&mut device, &clock, &|_| {}).unwrap();
    let write = WriteOptions { lfs: true, ..WriteOptions::default() };
    let mut volume = WritableVolume::mount(vec![device], clock.clone(), write).unwrap();
    let root = volume.root();
    let file = volume.create(root, b"large", &NewNode::FILE).unwrap();
    for at in (0..file_blocks).step_by(256) {
        let length = (file_blocks - at).min(256) * BLOCK;
        Changes::write(&mut volume, file, at * BLOCK, Payload::Described(described(at, 0, length))).unwrap();
    }
    let (mut random, mut versions) = (Random::new(7, "described"), vec![0_u32; file_blocks as usize]);
    for step in 0..200_000_u64 {
        let page = random.below(file_blocks);
        let version = versions.get_mut(page as usize).unwrap();
        *version += 1;
        Changes::write(&mut volume, file, page * BLOCK, Payload::Described(described(page, *version, BLOCK))).unwrap();
        clock.advance_by(Nanos(100_000));
        if step % 20_000 == 0 {
            Changes::sync(&mut volume, None).unwrap();
        }
    }
    volume.finish().unwrap();
    let moved = volume.counters().foreground.data;
    assert!(moved > 10_000, "the collector moved {moved} blocks");
    // Filled pages are parts of records of 1 MiB; overwritten pages are records of their own.
    let mut bytes = vec![0; BLOCK as usize];
    let mut expected = bytes.clone();
    for page in (0..file_blocks).step_by(97) {
        volume.read(file, page * BLOCK, ReadInto::Bytes(&mut bytes)).unwrap();
        match versions[page as usize] {
            0 => {
                let first = page / 256 * 256;
                let record = described(first, 0, 256 * BLOCK).description;
                record.advanced(((page - first) * BLOCK) as u32).unwrap().generate(&mut expected);
            }
            version => described(page, version, BLOCK).description.generate(&mut expected),
        }
        assert!(bytes == expected, "page {page}, version {}", versions[page as usize]);
    }
    let device = volume.abandon().pop().unwrap();
    let (held, of_descriptions) = device.held_sectors();
    assert!(of_descriptions >= file_blocks, "{of_descriptions} described blocks");
    // Nodes with their older versions, tables, packs: less than a hundredth of the volume.
    assert!(held < blocks / 100, "{held} blocks of bytes");
}
