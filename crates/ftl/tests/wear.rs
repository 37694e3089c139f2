//! Static wear levelling: cold data go to the most worn blocks.

use nandkit_block::BlockDevice;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, LogicalCapacity};
use nandkit_nand_sim::ContentChip;
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Lba, Nanos, Payload};

const NP: u64 = 16;
const COLD: u32 = 12;
const THRESHOLD: u32 = 12;

#[test]
fn cold_data_rest_on_worn_blocks() {
    let spec = crate::common::spec(512, 16, NP as u32, 24);
    let options = BlockMapOptions {
        capacity: LogicalCapacity::SpareBlocks(10),
        log_blocks: 2,
        wear_threshold: Some(THRESHOLD),
        ..BlockMapOptions::default()
    };
    let mut ftl = BlockMapFtl::attach(ContentChip::new(&spec, 1).unwrap(), options).unwrap();
    let mut now = Nanos::ZERO;
    let mut write = |ftl: &mut BlockMapFtl<ContentChip>, page: u64| {
        now = ftl.write(&Context::at(now), Lba(page), Payload::Bytes(&[1; 512])).unwrap().completed;
    };
    let logical = ftl.geometry().sectors / NP;
    (0..logical * NP).for_each(|page| write(&mut ftl, page));
    let mut random = Random::new(9, "wear");
    let homes = |ftl: &BlockMapFtl<ContentChip>| (0..COLD).map(|lbn| ftl.blocks_of(lbn).0).collect::<Vec<_>>();
    let (mut before, mut moves) = (homes(&ftl), 0);
    for _ in 0..60_000 {
        // Only the last two logical blocks are ever written again.
        write(&mut ftl, u64::from(COLD) * NP + random.below((logical - u64::from(COLD)) * NP));
        let after = homes(&ftl);
        for (_, new) in before.iter().zip(&after).filter(|(old, new)| old != new) {
            moves += 1;
            let erases: Vec<u32> = ftl.flash().erase_counts().collect();
            let (new, most) = (erases[new.unwrap_or(BlockIndex(0)).index()], erases.iter().max().copied().unwrap());
            // The most worn of the free blocks; a log or two may be worn slightly more.
            assert!(new + 3 >= most, "cold data went to a block erased {new} times, the most worn has {most}");
        }
        before = after;
    }
    assert!(moves >= 10, "{moves} moves");
    let erases: Vec<u32> = ftl.flash().erase_counts().collect();
    let (least, most) = (erases.iter().min().unwrap(), erases.iter().max().unwrap());
    assert!(most - least <= 2 * THRESHOLD, "{erases:?}");
}
