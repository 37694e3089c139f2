//! Measures allocation and freeing of blocks, and the search of SSR, on the tables of a 64 GiB
//! volume.
//!
//! `cargo run --release -p nandkit-f2fs --example space_speed`

use std::time::{Duration, Instant};

use nandkit_f2fs::Blocks;
use nandkit_f2fs::layout::{Geometry, Superblock};
use nandkit_f2fs::segments::{Options, Segments, Space, SpaceCounters, SpaceOn, Summary};
use nandkit_f2fs::{BlockAddress, Log, NodeId, SegmentIndex};
use nandkit_units::Cause;
use nandkit_units::random::Random;

/// An SSA of zeros.
struct Blank(Geometry);

impl Blocks for Blank {
    fn geometry(&self) -> &Geometry {
        &self.0
    }

    fn read(&self, _: Cause, _: BlockAddress, into: &mut [u8]) -> nandkit_vfs::Result<()> {
        into.fill(0);
        Ok(())
    }
}

/// 64 GiB: 2 + 4 + 144 + 64 segments of tables, and 32,552 in the main area.
fn geometry() -> Geometry {
    let mut superblock = Superblock::empty();
    let (sit, nat, ssa, main) = (4u32, 144u32, 64u32, 32_552u32);
    superblock.log_sector_size = 12.into();
    superblock.log_block_size = 12.into();
    superblock.log_blocks_per_segment = 9.into();
    superblock.segments_per_section = 1.into();
    superblock.sections_per_zone = 1.into();
    superblock.section_count = main.into();
    superblock.segment_count = (2 + sit + nat + ssa + main).into();
    superblock.block_count = (u64::from(2 + sit + nat + ssa + main + 1) * 512).into();
    superblock.segment_count_checkpoint = 2.into();
    superblock.segment_count_sit = sit.into();
    superblock.segment_count_nat = nat.into();
    superblock.segment_count_ssa = ssa.into();
    superblock.segment_count_main = main.into();
    superblock.segment0_address = 512.into();
    superblock.checkpoint_address = 512.into();
    superblock.sit_address = (512 + 2 * 512).into();
    superblock.nat_address = (512 + (2 + sit) * 512).into();
    superblock.ssa_address = (512 + (2 + sit + nat) * 512).into();
    superblock.main_address = (512 + (2 + sit + nat + ssa) * 512).into();
    (superblock.root_ino, superblock.node_ino, superblock.meta_ino) = (3.into(), 1.into(), 2.into());
    Geometry::from_superblock(&superblock, &mut |finding| panic!("{finding}")).expect("a sound superblock")
}

fn main() {
    let blank = Blank(geometry());
    for lfs in [true, false] {
        let options = Options { lfs, reuse: false, ..Options::of(&blank.0, 264, true) };
        let space = SpaceCounters::new(16_417_280, 0, 0, 0, blank.0.nid_end());
        let logs = std::array::from_fn(|log| SegmentIndex(log as u32));
        let mut segments = Segments::empty(&blank.0, logs, options, space).expect("logs in place");
        let mut space = SpaceOn { segments: &mut segments, device: &blank };
        let owner = |n: u32| Summary { nid: NodeId(n), version: 0, offset: 1 };

        let start = Instant::now();
        let mut live: Vec<BlockAddress> = Vec::new();
        let fill = if lfs { 12_000_000 } else { 15_400_000 };
        for n in 0..fill {
            live.push(space.allocate(Log::WarmData, owner(n), 1).expect("room").at);
        }
        report("allocate in order", fill, start);
        space.checkpointed();

        let mut random = Random::new(1, "overwrites");
        let overwrites = 4_000_000;
        let victims: Vec<usize> = (0..overwrites).map(|_| random.below(u64::from(fill)) as usize).collect();
        let start = Instant::now();
        let (mut done, mut checkpoints, mut in_checkpoints) = (0, 0, Duration::ZERO);
        for (n, victim) in (0..).zip(victims) {
            if n % 100_000 == 99_999 {
                let start = Instant::now();
                space.segments.summaries_written();
                space.checkpointed();
                checkpoints += 1;
                in_checkpoints += start.elapsed();
            }
            let Ok(placed) = space.allocate(Log::WarmData, owner(n), 2) else { break };
            space.free(std::mem::replace(&mut live[victim], placed.at), 2);
            done += 1;
        }
        report(if lfs { "overwrite at random, mode=lfs" } else { "overwrite at random, SSR" }, done, start);
        println!("  {done} of {overwrites}; {checkpoints} checkpoints in {in_checkpoints:.2?}");
        let taken = space.segments.usage().used_segments_taken(Log::WarmData);
        println!("  segments taken for their gaps: {taken}");

        let start = Instant::now();
        let mut found = 0;
        for _ in 0..20_000 {
            found += u32::from(space.segments.ssr_victim(Log::WarmData).is_some());
        }
        let dirty = space.segments.dirty().of(Log::WarmData).count();
        println!(
            "  search of SSR among {dirty} dirty segments: {:.2} us ({found} of 20000 found one)",
            start.elapsed().as_secs_f64() * 1e6 / 20_000.0
        );
    }
}

fn report(what: &str, count: u32, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {:.1} million/s", f64::from(count) / seconds / 1e6);
}
