//! Faults of superblocks and checkpoint packs.

use nandkit_f2fs::FindingKind::*;
use nandkit_f2fs::Log;
use nandkit_f2fs::layout::BLOCKS_PER_SEGMENT;
use nandkit_f2fs::layout::checkpoint::flag;

use super::super::planted::BLOCK;
use super::*;

pub const VOLUME: &[Case] = &[
    ("second superblock blank", Silent, |p| {
        p.block(BlockAddress(1)).fill(0);
        volume(Superblock)
    }),
    ("first superblock's checksum", Silent, |p| {
        p.bytes[1024 + 3068] ^= 1;
        volume(Superblock)
    }),
    ("superblocks differ", Silent, |p| {
        p.superblock(1, |superblock| superblock.volume_name[0] = 65.into());
        volume(Superblock)
    }),
    ("other pack damaged", Silent, |p| {
        p.bytes[(PACK + 512) * BLOCK + 300] ^= 1;
        at(Checkpoint, BlockAddress(PACK as u32 + 512))
    }),
    ("marked as in need of fsck", Silent, |p| {
        p.checkpoint(|head| head.flags = (head.flags.get() | flag::FSCK).into());
        at(State, pack())
    }),
    ("unknown flag", Silent, |p| {
        p.checkpoint(|head| head.flags = (head.flags.get() | 0x10_0000).into());
        at(Checkpoint, pack())
    }),
    ("first and last block of the pack differ", Silent, |p| {
        let last = PACK + p.state.head.pack_blocks.get() as usize - 1;
        p.checkpoint_block(last, |head| head.elapsed_seconds = 7.into());
        at(Checkpoint, pack())
    }),
    ("next free nid", Silent, |p| {
        p.checkpoint(|head| head.next_free_nid = 0x7FFF_FFFF.into());
        volume(Count)
    }),
    ("blocks for users", Complains, |p| {
        p.checkpoint(|head| head.user_blocks = (head.user_blocks.get() * 2).into());
        at(Checkpoint, pack())
    }),
    ("count of blocks", Complains, |p| {
        p.checkpoint(|head| head.valid_blocks = (head.valid_blocks.get() + 1).into());
        volume(Count)
    }),
    ("count of nodes", Complains, |p| {
        p.checkpoint(|head| head.valid_nodes = (head.valid_nodes.get() + 1).into());
        volume(Count)
    }),
    ("count of inodes", Complains, |p| {
        p.checkpoint(|head| head.valid_inodes = (head.valid_inodes.get() - 1).into());
        volume(Count)
    }),
    ("count of free segments", Complains, |p| {
        p.checkpoint(|head| head.free_segments = (head.free_segments.get() - 1).into());
        volume(Count)
    }),
    ("log on a block in use", Complains, |p| {
        let log = p.state.logs[Log::WarmNode.index()];
        p.checkpoint(|head| head.node_offsets[1] = (log.next - 1).into());
        at(Segment, BlockAddress(p.geometry.segment_start(log.segment).0 + u32::from(log.next) - 1))
    }),
    ("type of a log's segment", Complains, |p| {
        let log = p.state.logs[Log::WarmNode.index()];
        p.write_state(|state| {
            let entry = state.sit_journal.iter_mut().find(|(segment, _)| *segment == log.segment).unwrap();
            let count = entry.1.count_and_type.get() & 0x3FF;
            entry.1.count_and_type = (count | 5 << 10).into();
        });
        at(Segment, BlockAddress(p.geometry.segment_start(log.segment).0 + u32::from(log.next)))
    }),
    ("deleted and open, with a name", Complains, |p| {
        let nid = p.nid(SMALL);
        p.write_state(|state| {
            state.orphans.push(nid);
            state.nat_bits = None;
        });
        vec![(Links, Some(nid), None)]
    }),
    ("NAT's journal with a nid that cannot be", Silent, |p| {
        p.write_state(|state| {
            let (_, entry) = state.nat_journal[0];
            state.nat_journal.push((NodeId(u32::MAX), entry));
        });
        volume(Nat)
    }),
    ("nat_bits", Silent, |p| {
        let (blocks, bytes) = p.geometry.nat_bits_size();
        let start = BlockAddress(PACK as u32 + BLOCKS_PER_SEGMENT - blocks);
        let byte = 8 + bytes + 5;
        p.block(start)[byte] ^= 4;
        volume(Nat)
    }),
];
