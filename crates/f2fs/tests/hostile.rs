//! Damaged images: errors, never a panic, an endless loop or memory without bounds.

use std::ops::ControlFlow;

use crate::damaged::{BLOCK, Edits, base, damage};
use nandkit_block::RamDevice;
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};
use proptest::prelude::*;

/// Reads everything that can be reached, to a bounded depth; errors are fine. Returns how many names were met.
fn roam(volume: &F2fs<RamDevice>) -> usize {
    let mut queue = vec![(volume.root(), 0)];
    let mut names = 0;
    let _ = volume.volume();
    while let Some((directory, depth)) = queue.pop() {
        let mut entries = Vec::new();
        let _ = volume.read_dir(directory, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.inode, entry.kind, entry.cookie));
            if entries.len() < 2000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(entries.windows(2).all(|pair| pair[0].3 < pair[1].3), "cookies go up");
        for (name, inode, kind, _) in entries {
            assert!(!name.contains(&b'/') && !name.contains(&0) && !name.is_empty());
            names += 1;
            if names > 4000 {
                return names;
            }
            let _ = volume.lookup(directory, &name);
            look(volume, inode);
            if kind == FileKind::Directory && depth < 8 {
                queue.push((inode, depth + 1));
            }
        }
    }
    for number in [0, 1, 2, 4, 0xFFFF_FFFF, 1 << 32, u64::MAX] {
        look(volume, InodeNumber(number));
    }
    names
}

fn look(volume: &F2fs<RamDevice>, inode: InodeNumber) {
    let size = volume.stat(inode).map_or(0, |stat| stat.size);
    let mut bytes = [0; 20_000];
    for offset in [0, size / 2, size.saturating_sub(9000), u64::MAX - 5000] {
        let _ = volume.read(inode, offset, ReadInto::Bytes(&mut bytes));
    }
    let mut at = 0;
    for _ in 0..50 {
        match volume.data_after(inode, at) {
            Ok(Some(range)) => {
                assert!(range.start >= at && range.end > range.start && range.end <= size);
                at = range.end;
            }
            _ => break,
        }
    }
    let _ = volume.symlinks().unwrap().read_link(inode);
    let _ = volume.xattrs().unwrap().all_xattrs(inode);
    let _ = volume.xattrs().unwrap().xattr(inode, b"user.a");
}

#[test]
fn damaged_images_are_errors() {
    // More by `NANDKIT_F2FS_HOSTILE_ROUNDS=20000 cargo test --release -p nandkit-f2fs --test all hostile::`.
    let rounds = std::env::var("NANDKIT_F2FS_HOSTILE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    let whole = roam(&F2fs::mount(base().device.clone(), Clock::default(), MountOptions::default()).unwrap());
    let (mut mounted, mut names) = (0, 0);
    for round in 0..rounds {
        let edits = damage(&mut Random::new(round, "damage"));
        let options = MountOptions { cached_blocks: 64 };
        if let Ok(volume) = F2fs::mount(edits.device(), Clock::default(), options) {
            mounted += 1;
            names += roam(&volume);
        }
    }
    // The damage is not so bad that nothing is reached.
    assert!(mounted > rounds / 3 && names > mounted as usize * whole / 3, "{mounted} of {rounds}, {names} names");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whole blocks of noise, or of another place, anywhere.
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
