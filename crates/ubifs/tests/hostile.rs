//! Damaged volumes, also with checksums mended behind the damage: no panic, no endless walk.

use nandkit_testkit::clock;
use nandkit_testkit::hostile::roam;
use nandkit_testkit::rounds::Rounds;
use nandkit_testkit::trees::{plant_all_kinds, plant_all_sizes};
use nandkit_ubifs::layout::{HEADER_SIZE, MAGIC, node_type};
use nandkit_ubifs::{LebBytes, Lebs, Ubifs, WriteOptions};
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, FileSystem, NewNode};

use crate::images::made;
use crate::nodes::{is_of_type, mend, nodes};
use crate::repair::repaired;

const LEB_SIZE: u32 = 15_360;

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
            mend(node);
        }
    }
}

/// Writes a volume as long as it lets itself be written; whether it was mounted for that.
fn write(lebs: Box<dyn Lebs>) -> bool {
    let Ok(mut volume) = Ubifs::mount_for_writing(lebs, clock(), WriteOptions::default()) else { return false };
    let root = volume.root();
    for number in 0..20_u32 {
        let name = format!("new{number}");
        if let Ok(node) = volume.create(root, name.as_bytes(), &NewNode::FILE) {
            let _ = volume.write(node, u64::from(number) * 1000, Payload::Bytes(&[7; 9000]));
        }
        if number % 3 == 0 {
            let _ = volume.remove(root, name.as_bytes());
        }
        if number % 7 == 6 {
            let _ = volume.sync(None);
        }
    }
    let _ = volume.unmount();
    true
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
    let (mut mounted, mut written, mut repairs) = (0, 0, 0);
    for round in &mut Rounds::of(400) {
        let mut random = Random::new(round, "hostile");
        let mut bytes = image.bytes.clone();
        damage(&mut bytes, if round % 2 == 0 { &nodes } else { &few }, &mut random);
        let damaged = LebBytes { bytes, leb_size: LEB_SIZE };
        repairs += u64::from(repaired(&damaged, &format!("round {round}")).is_ok());
        let Ok(volume) = Ubifs::mount(Box::new(damaged)) else { continue };
        mounted += 1;
        roam(&volume, 300);
        volume.check().expect("a check");
        written += u64::from(write(volume.into_lebs()));
    }
    assert!(mounted > 50, "{mounted} of the volumes could be mounted");
    assert!(written > 10, "{written} of the volumes could be written");
    assert!(repairs > 200, "{repairs} of the volumes could be repaired");
}

#[test]
fn an_index_whose_branches_lead_to_one_node_ends() {
    const LEB: usize = LEB_SIZE as usize;
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("tree");
    plant_all_sizes(&root, &[100], 3);
    let mut image = made(&root, None, &["-m", "512", "-e", "15360", "-c", "60"], LEB_SIZE);
    // 60 levels of as many branches as a LEB holds, which all lead to the next node: the levels
    // stand in LEBs of their own at the end.
    let first = image.bytes.len() / LEB;
    for level in (0..60_u16).rev() {
        let child = (first + 60 - usize::from(level)) as u32;
        let branches = (LEB - HEADER_SIZE - 4) / 20;
        let mut node = vec![0; HEADER_SIZE + 4 + 20 * branches];
        let length = node.len() as u32;
        node[..4].copy_from_slice(&MAGIC.to_le_bytes());
        node[16..20].copy_from_slice(&length.to_le_bytes());
        node[20] = node_type::INDEX;
        node[24..26].copy_from_slice(&(branches as u16).to_le_bytes());
        node[26..28].copy_from_slice(&level.to_le_bytes());
        for branch in node[28..].chunks_exact_mut(20) {
            branch[..4].copy_from_slice(&child.to_le_bytes());
            branch[8..12].copy_from_slice(&length.to_le_bytes());
        }
        mend(&mut node);
        node.resize(LEB, 0xFF);
        image.bytes.extend(node);
    }
    let all = nodes(&image.bytes);
    for (at, length) in all {
        let node = &mut image.bytes[at..at + length];
        if is_of_type(node, node_type::MASTER) {
            // The root of the index: LEB, offset, bytes.
            let root = [first as u32, 0, (LEB - HEADER_SIZE - 4) as u32 / 20 * 20 + 28];
            let words = root.iter().flat_map(|word| word.to_le_bytes());
            node[HEADER_SIZE + 24..HEADER_SIZE + 36].iter_mut().zip(words).for_each(|(to, from)| *to = from);
            mend(node);
        }
    }
    let volume = Ubifs::mount(Box::new(image)).expect("a volume");
    let told = volume.damage().iter().map(|finding| finding.detail.as_str());
    assert!(told.clone().any(|detail| detail.contains("the rest is left out")), "{:?}", told.collect::<Vec<_>>());
}
