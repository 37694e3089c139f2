//! Damaged images cause errors, never a panic, an endless loop or unbounded memory.

use crate::damaged::{BLOCK, Edits, base, damage};
use nandkit_block::RamDevice;
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_testkit::hostile;
use nandkit_testkit::rounds::Rounds;
use nandkit_units::Clock;
use nandkit_units::random::Random;
use nandkit_vfs::InodeNumber;
use proptest::prelude::*;

/// Walks a volume and returns the number of names; errors are fine.
fn roam(volume: &F2fs<RamDevice>) -> usize {
    for number in [0, 1, 2, 4, 0xFFFF_FFFF, 1 << 32, u64::MAX] {
        hostile::look(volume, InodeNumber(number));
    }
    hostile::roam(volume, 4000).len()
}

#[test]
fn damaged_images_are_errors() {
    // For more rounds: `NANDKIT_ROUNDS=20000 cargo test --release -p nandkit-f2fs --test all
    // hostile::`.
    let mut rounds = Rounds::of(600);
    let whole = roam(&F2fs::mount(base().device.clone(), Clock::default(), MountOptions::default()).unwrap());
    let (mut mounted, mut names) = (0, 0);
    for round in &mut rounds {
        let edits = damage(&mut Random::new(round, "damage"));
        let options = MountOptions { cached_blocks: 64 };
        if let Ok(volume) = F2fs::mount(edits.device(), Clock::default(), options) {
            mounted += 1;
            names += roam(&volume);
        }
    }
    // The damage must leave something to reach.
    let enough = mounted > rounds.count() / 3 && names > mounted as usize * whole / 3;
    assert!(enough || rounds.is_replay(), "{mounted} of {}, {names} names", rounds.count());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whole blocks are replaced by noise or by other blocks.
    #[test]
    fn blocks_in_the_wrong_place_are_errors(
        moves in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<Option<u64>>()), 1..6),
    ) {
        let all: Vec<usize> = base().metadata.iter().chain(&base().nodes).copied().collect();
        let mut edits = Edits::default();
        for (from, to, noise) in moves {
            let bytes = match noise {
                Some(seed) => {
                    let mut random = Random::new(seed, "noise");
                    (0..BLOCK / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
                }
                None => edits.block(all[from.index(all.len())]).clone(),
            };
            *edits.block(all[to.index(all.len())]) = bytes;
        }
        if let Ok(volume) = F2fs::mount(edits.device(), Clock::default(), MountOptions::default()) {
            roam(&volume);
        }
    }
}
