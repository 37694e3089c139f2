//! Damaged images mounted for writing and changed: errors, never a panic or an endless loop.

use crate::damaged::{Edits, damage};
use crate::writing::oracle::{Model, device_of, empty_image, image_of, run};
use nandkit_block::RamDevice;
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::recover::recovered_several;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{F2fs, MountOptions, NodeId, WritableVolume, WriteOptions};
use nandkit_testkit::rounds::Rounds;
use nandkit_units::random::Random;
use nandkit_units::{Clock, Payload};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode, RenameFlags};

/// Makes all kinds of changes; errors are fine. Returns how many succeeded.
fn change(mut volume: WritableVolume<RamDevice>, random: &mut Random) -> usize {
    let root = volume.root();
    let (mut done, mut names) = (0, Vec::new());
    let _ = volume.read_dir(root, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.inode));
        if names.len() < 100 { std::ops::ControlFlow::Continue(()) } else { std::ops::ControlFlow::Break(()) }
    });
    for step in 0..60_u64 {
        let nid = NodeId(3 + random.index(700) as u32);
        let number = InodeNumber(nid.0.into());
        let at = [0, 100, 3_600_000, 4_000_000 * 1024, u64::MAX - 9][random.index(5)];
        let bytes = vec![step as u8; [1, 5000, 300_000][random.index(3)]];
        let name = names.get(random.index(names.len())).cloned().unwrap_or((Vec::new(), root));
        let result = match random.index(14) {
            0 | 1 => volume.write(nid, at, Payload::Bytes(&bytes)).map(drop),
            2 => volume.truncate(nid, at),
            3 => volume.punch(nid, at, 70_000),
            4 => volume.allocate_range(nid, at, 90_000, random.index(2) == 0),
            5 => volume.fsync(nid, false),
            6 => volume.checkpoint(Reason::Sync),
            7 => volume.collect_one(Collection::Foreground).map(drop),
            8 => volume.create(root, format!("new {step}").as_bytes(), &NewNode::FILE).map(drop),
            9 => volume.remove(root, &name.0),
            10 => volume.rename((root, &name.0), (root, format!("renamed {step}").as_bytes()), RenameFlags::default()),
            11 => volume.create(number, b"in there", &NewNode::DIRECTORY).map(drop),
            12 => volume.set_xattr_area(nid, &bytes[..bytes.len().min(4000)]),
            _ => volume.sync(),
        };
        done += usize::from(result.is_ok());
    }
    let _ = volume.unmount();
    done
}

#[test]
fn damaged_images_are_changed_without_a_panic() {
    // For more rounds: `NANDKIT_ROUNDS=5000 cargo test --release -p nandkit-f2fs --test all
    // write_hostile`.
    let mut rounds = Rounds::of(250);
    let options = WriteOptions { cached_blocks: 64, ..WriteOptions::default() };
    let whole = WritableVolume::mount(vec![Edits::default().device()], Clock::default(), options).unwrap();
    assert!(change(whole, &mut Random::new(5, "changes")) > 25);
    let (mut mounted, mut done) = (0, 0);
    for round in &mut rounds {
        let mut random = Random::new(round, "damage to change");
        let edits = damage(&mut random);
        if let Ok(volume) = WritableVolume::mount(vec![edits.device()], Clock::default(), options) {
            mounted += 1;
            done += change(volume, &mut random);
        }
    }
    let (is_replay, rounds) = (rounds.is_replay(), rounds.count());
    assert!(
        is_replay || mounted > rounds / 10 && done > 5 * mounted as usize,
        "{mounted} of {rounds} mounted, {done} changes"
    );
}

/// Chains of fsynced nodes with arbitrary content.
#[test]
fn damaged_chains_are_recovered_or_refused() {
    let mut random = Random::new(8, "chains");
    let image = empty_image("");
    let mut volume = WritableVolume::mount(vec![device_of(&image)], Clock::default(), WriteOptions::default()).unwrap();
    let mut model = Model::default();
    run(&mut volume, &mut model, &mut random, 60).unwrap();
    volume.sync().unwrap();
    let start = volume.segments().log_state(nandkit_f2fs::Log::WarmNode);
    for file in 0..5 {
        if let Ok(ino) = volume.lookup(volume.root(), format!("file-{file}").as_bytes()) {
            volume.write(NodeId(ino.0 as u32), 4_000_000, Payload::Bytes(&[7; 9000])).unwrap();
            volume.fsync(NodeId(ino.0 as u32), false).unwrap();
        }
    }
    let geometry = nandkit_f2fs::Blocks::geometry(&volume).clone();
    let first = u64::from(geometry.segment_start(start.segment).0) + u64::from(start.next);
    let image = image_of(&volume.abandon().remove(0));
    let chain: Vec<usize> = (0..image.len()).filter(|&index| (first..first + 12).contains(&image[index].0)).collect();
    assert!(chain.len() >= 4, "{}", chain.len());
    let (mut recovered, mut refused) = (0, 0);
    for _ in 0..400 {
        let mut damaged = image.clone();
        for _ in 0..random.between(1, 4) {
            let bytes = &mut damaged[chain[random.below(chain.len() as u64) as usize]].1;
            let place = match random.below(3) {
                0 => random.below(4096),
                1 => 4072 + random.below(12),
                _ => random.below(364),
            } as usize;
            bytes[place] = random.below(256) as u8;
        }
        // For a reader, memory is bounded by the chain, and the result can be listed.
        if let Ok(read) = recovered_several(vec![device_of(&damaged)], Clock::default()) {
            let changed: u64 = read.devices.iter().flat_map(|device| device.changed()).map(|(_, count)| count).sum();
            assert!(changed < 512, "{changed} blocks in memory for a chain of {} nodes", chain.len());
            let reader = F2fs::mount_several(read.devices, Clock::default(), MountOptions::default()).unwrap();
            reader.read_dir(reader.root(), 0, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        }
        match WritableVolume::mount(vec![device_of(&damaged)], Clock::default(), WriteOptions::default()) {
            Ok(volume) => {
                recovered += 1;
                let _ = volume.unmount();
            }
            Err(_) => refused += 1,
        }
    }
    assert!(recovered > 50 && refused > 20, "{recovered} recovered, {refused} refused");
}
