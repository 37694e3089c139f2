//! Damaged volumes, also with checksums mended behind the damage: no panic, no endless walk.

use nandkit_testkit::hostile::roam;
use nandkit_testkit::rounds::Rounds;
use nandkit_testkit::trees::plant_all_kinds;
use nandkit_ubifs::layout::{HEADER_SIZE, MAGIC, checksum};
use nandkit_ubifs::{LebBytes, Ubifs};
use nandkit_units::random::Random;

use crate::images::made;

const LEB_SIZE: u32 = 15_360;

/// The offsets of all nodes, with their lengths.
fn nodes(image: &[u8]) -> Vec<(usize, usize)> {
    let at =
        |place: usize| image.get(place..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_le_bytes(*word));
    let places = (0..image.len()).step_by(8).filter(|place| at(*place) == Some(MAGIC));
    let sized = places.filter_map(|place| Some((place, at(place + 16)? as usize)));
    sized.filter(|(place, length)| *length >= HEADER_SIZE && place + length <= image.len()).collect()
}

/// Changes some words behind the headers of nodes, and mends the checksums.
fn damage(image: &mut [u8], nodes: &[(usize, usize)], random: &mut Random) {
    for _ in 0..1 + random.index(4) {
        let (place, length) = nodes[random.index(nodes.len())];
        let node = &mut image[place..place + length];
        let word = HEADER_SIZE + random.index((length - HEADER_SIZE).max(1));
        let value = match random.index(4) {
            0 => u32::MAX - random.index(3) as u32,
            1 => random.next_u64() as u32,
            _ => random.index(300) as u32,
        };
        let size = 1 << random.index(3);
        if let Some(bytes) = node.get_mut(word..word + size) {
            bytes.copy_from_slice(&value.to_le_bytes()[..size]);
        }
        if random.index(8) > 0 {
            let sum = checksum(node).to_le_bytes();
            node[4..8].copy_from_slice(&sum);
        }
    }
}

#[test]
fn hostile_volumes_are_mounted_or_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("tree");
    let table = plant_all_kinds(&root, 40, 3, 4);
    let options = ["-m", "512", "-e", "15360", "-c", "60"];
    let image = made(&root, Some(&table), &options, LEB_SIZE);
    let nodes = nodes(&image.bytes);
    // Superblock, master and index nodes are few: half of the rounds damage them alone.
    let few: Vec<_> = nodes.iter().copied().filter(|(place, _)| matches!(image.bytes[place + 20], 6..=10)).collect();
    let mut mounted = 0;
    for round in &mut Rounds::of(600) {
        let mut random = Random::new(round, "hostile");
        let mut bytes = image.bytes.clone();
        damage(&mut bytes, if round % 2 == 0 { &nodes } else { &few }, &mut random);
        let Ok(volume) = Ubifs::mount(LebBytes { bytes, leb_size: LEB_SIZE }) else { continue };
        mounted += 1;
        roam(&volume, 300);
        volume.check().expect("a check");
    }
    assert!(mounted > 50, "{mounted} of the volumes could be mounted");
}
