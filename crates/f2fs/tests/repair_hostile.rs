//! Repairs of damaged volumes terminate, never panic, and leave volumes that our check and
//! fsck.f2fs accept, except for what a repair cannot fix.

use std::fs;

use crate::damaged::{BLOCK, base, damage};
use crate::made::complaints;
use nandkit_block::BlockDevice;
use nandkit_f2fs::check::Waiting;
use nandkit_f2fs::{F2fs, FindingKind, MountOptions};
use nandkit_testkit::rounds::Rounds;
use nandkit_units::random::Random;
use nandkit_units::{Clock, Context, Lba, Payload};
use nandkit_vfs::check::Kind;

/// fsck.f2fs sees every `SEEN_EVERY`th repaired volume.
const SEEN_EVERY: usize = 25;

#[test]
fn damaged_images_are_repaired_or_refused() {
    // For more rounds: `NANDKIT_ROUNDS=20000 cargo test --release -p nandkit-f2fs --test all
    // repair_hostile`.
    let mut rounds = Rounds::of(250);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let (mut refused, mut doubtful, mut repaired, mut seen) = (0, 0, 0, 0);
    for round in &mut rounds {
        let edits = damage(&mut Random::new(round, "damage to repair"));
        let mut device = edits.device();
        let Ok(repair) = nandkit_f2fs::repair(vec![&mut device], Clock::default(), Waiting::Dropped) else {
            refused += 1;
            continue;
        };
        assert_eq!(repair.after.is_clean(), repair.report.remaining.is_empty(), "round {round}");
        for (at, bytes) in &repair.blocks {
            device.write(&Context::default(), Lba(at.0.into()), Payload::Bytes(bytes)).unwrap();
        }
        let again = nandkit_f2fs::check(vec![&mut device], Clock::default()).unwrap();
        assert_eq!(again.findings, repair.after.findings, "round {round}");
        if !again.is_clean() {
            // In a superblock with contradictory features, nothing tells which of them is wrong.
            let is_known = again.faults().all(|fault| fault.kind == FindingKind::Superblock.name());
            assert!(is_known, "round {round}: {:?}", again.findings);
            doubtful += 1;
            continue;
        }
        repaired += 1;
        F2fs::mount(&mut device, Clock::default(), MountOptions { cached_blocks: 64 }).unwrap();
        if repaired % SEEN_EVERY == 0 {
            let mut bytes = base().bytes.clone();
            let changed = edits.0.iter().map(|(number, block)| (*number, &block[..]));
            let mended = repair.blocks.iter().map(|(at, block)| (at.0 as usize, &block[..]));
            for (number, block) in changed.chain(mended) {
                bytes[number * BLOCK..][..BLOCK].copy_from_slice(block);
            }
            fs::write(&path, bytes).unwrap();
            assert_eq!(complaints(&path), Vec::<String>::new(), "round {round}: fsck.f2fs");
            seen += 1;
        }
    }
    let (is_replay, rounds) = (rounds.is_replay(), rounds.count());
    println!(
        "{rounds} volumes: {repaired} repaired, {doubtful} with what a repair leaves, {refused} refused, {seen} shown to fsck.f2fs"
    );
    if is_replay {
        return;
    }
    assert!(repaired > rounds as usize / 2 && seen > 3, "{repaired} of {rounds} repaired, {seen} seen");
    assert!(doubtful <= rounds / 20, "{doubtful} of {rounds} repaired in part");
}
