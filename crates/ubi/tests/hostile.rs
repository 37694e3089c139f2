//! Headers with right checksums and arbitrary content, and damaged images: no panic, no endless
//! walk.

use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::hostile::roam;
use nandkit_testkit::rounds::Rounds;
use nandkit_ubi::build::{VolumeContent, build};
use nandkit_ubi::layout::{
    EcHeader, FASTMAP_DATA, HEADER_SIZE, LAYOUT_VOLUME, RECORD_SIZE, VidHeader, VolumeRecord, VolumeType,
};
use nandkit_ubi::write::{UbiWriter, WriteOptions};
use nandkit_ubi::{Geometry, Leb, Ubi, probe};
use nandkit_units::Clock;
use nandkit_units::random::Random;
use nandkit_vfs::probe::Depth;

use crate::common::{attach, content, headers};

const GEOMETRY: Geometry = Geometry { peb_size: 4096, vid_offset: 64, data_offset: 128 };

fn number(random: &mut Random) -> u32 {
    match random.index(8) {
        0 => u32::MAX - random.index(3) as u32,
        1 => random.next_u64() as u32,
        _ => random.index(7) as u32,
    }
}

fn volume_type(random: &mut Random) -> VolumeType {
    if random.index(2) == 0 { VolumeType::Static } else { VolumeType::Dynamic }
}

fn vid(random: &mut Random) -> VidHeader {
    VidHeader {
        volume_type: volume_type(random),
        is_copy: random.index(2) == 0,
        compatibility: random.index(6) as u8,
        volume: [number(random), LAYOUT_VOLUME, FASTMAP_DATA, 0][random.index(4)],
        leb: number(random),
        data_size: number(random),
        used_lebs: number(random),
        data_pad: number(random),
        data_checksum: number(random),
        sequence: number(random).into(),
    }
}

fn damaged_image(random: &mut Random) -> Vec<u8> {
    let rootfs = VolumeRecord::new("rootfs", VolumeType::Dynamic, 8);
    let kernel = VolumeRecord::new("kernel", VolumeType::Static, 4);
    let volumes = [
        VolumeContent { number: 0, record: kernel, content: &content(9000) },
        VolumeContent { number: 5, record: rootfs, content: &content(9000) },
    ];
    let mut image = build(&headers(GEOMETRY), &volumes).expect("volumes that fit");
    let pebs = image.len() / GEOMETRY.peb_size as usize;
    for _ in 0..1 + random.index(4) {
        let start = random.index(pebs) * GEOMETRY.peb_size as usize;
        let bytes = &mut image[start..start + GEOMETRY.peb_size as usize];
        match random.index(5) {
            0 => bytes[64..64 + HEADER_SIZE].copy_from_slice(&vid(random).encode()),
            1 => {
                let (vid_offset, data_offset) = (number(random), number(random));
                let erase_counter = u64::from(number(random)) << random.index(40);
                let ec = EcHeader { erase_counter, vid_offset, data_offset, image_sequence: number(random) };
                bytes[..HEADER_SIZE].copy_from_slice(&ec.encode());
            }
            2 => {
                let record = VolumeRecord {
                    reserved_pebs: number(random),
                    alignment: number(random),
                    data_pad: number(random),
                    volume_type: volume_type(random),
                    is_updating: random.index(2) == 0,
                    name: [&b"a/b"[..], b"..", b"", b"rootfs", b"\xFF\0"][random.index(5)].to_vec(),
                    flags: random.index(4) as u8,
                };
                let at = 128 + random.index(8) * RECORD_SIZE;
                bytes[at..at + RECORD_SIZE].copy_from_slice(&record.encode());
            }
            3 => bytes.fill([0, 0xFF][random.index(2)]),
            _ => bytes[random.index(300)] ^= 1 << random.index(8),
        }
    }
    image.truncate(image.len() - random.index(2) * random.index(5000));
    image
}

/// Tries every change; whether the device could be written.
fn change(ubi: Ubi<RamFlash>) -> bool {
    // The volume table is written to free blocks.
    let bytes = [&ubi.into_flash().data[..], &[0xFF; 8 * 4096]].concat();
    let Ok(ubi) = attach(bytes, GEOMETRY) else { return false };
    let Ok(mut writer) = UbiWriter::new(ubi, WriteOptions::default()) else { return false };
    let numbers: Vec<u32> = writer.ubi().volumes().iter().map(|volume| volume.number).collect();
    for number in numbers {
        // Each may be refused: for a size, a type, or for room.
        let _ = writer.change_leb(number, Leb(0), &[1; 64]);
        let _ = writer.update_volume(number, &mut &[7; 5000][..], 5000);
        let _ = writer.rename_volumes(&[(number, b"renamed".to_vec())]);
        let _ = writer.resize_volume(number, 1);
        let _ = writer.remove_volume(number);
    }
    let flash = writer.finish().expect("flash in memory");
    let ubi = Ubi::attach(flash, Clock::starting_at(0)).expect("the device that was written");
    assert!(ubi.volumes().is_empty(), "{:?}", ubi.volumes());
    true
}

#[test]
fn hostile_images_are_attached_or_refused() {
    let (mut attached, mut changed) = (0, 0);
    for round in &mut Rounds::of(3000) {
        let mut random = Random::new(round, "hostile");
        let image = damaged_image(&mut random);
        for depth in [Depth::Glance, Depth::Thorough] {
            probe::devices(&RamFlash::nor(image.clone(), 4096), 0, depth, None);
        }
        let Ok(ubi) = attach(image, GEOMETRY) else { continue };
        attached += 1;
        roam(&ubi, 200);
        let report = ubi.check().expect("a check");
        let counts = ubi.counts();
        let counted = counts.bad + counts.erased + counts.free + counts.used + counts.stale + counts.damaged;
        assert_eq!(counted, counts.total, "{report:?}");
        changed += u32::from(change(ubi));
    }
    assert!(attached > 100 && changed > 100, "{attached} of the images could be attached, {changed} changed");
}
