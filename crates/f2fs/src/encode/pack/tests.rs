//! Decoding restores what was encoded, in every form of a pack.

use std::collections::BTreeMap;

use nandkit_units::Cause;
use nandkit_units::random::Random;
use nandkit_vfs::Result;
use zerocopy::FromZeros;

use super::*;
use crate::blocks::Blocks;
use crate::checkpoint_state::{LogState, NatBits};
use crate::ids::{NodeId, SegmentIndex};
use crate::layout::{NatEntry, SitEntry};
use crate::open::{decode_state, read_pack};

struct Written {
    geometry: Geometry,
    blocks: BTreeMap<u32, Block>,
}

impl Blocks for Written {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, _cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        let size = self.geometry.block_size();
        for (address, block) in (at.0..).zip(into.chunks_mut(size)) {
            match self.blocks.get(&address) {
                Some(bytes) => block.copy_from_slice(bytes),
                None => block.fill(0),
            }
        }
        Ok(())
    }
}

fn entry(random: &mut Random) -> SummaryEntry {
    SummaryEntry::of_data(NodeId(random.next_u64() as u32), random.next_u64() as u8, random.below(1018) as u16)
}

/// A state that a volume could have, as far as a pack can tell.
fn state(random: &mut Random, geometry: &Geometry, flags: u32) -> CheckpointState {
    let mut head = CheckpointHead::new_zeroed();
    head.version = random.between(1, 1 << 40).into();
    head.flags = flags.into();
    head.elapsed_seconds = random.below(1 << 30).into();
    let mut bytes = |count: u32| (0..count).map(|_| random.next_u64() as u8).collect::<Vec<u8>>();
    let (nat_map, sit_map) = (bytes(geometry.nat_blocks() / 8), bytes(geometry.sit_blocks() / 8));
    let (_, bits) = geometry.nat_bits_size();
    let nat_bits = NatBits { full: bytes(bits as u32), empty: bytes(bits as u32) };
    let small = random.chance(0.5);
    let logs: [LogState; Log::COUNT] = std::array::from_fn(|log| LogState {
        segment: SegmentIndex(log as u32 * 7),
        next: random.below(if small { 150 } else { 512 }) as u16,
        ssr: !small && random.chance(0.3),
    });
    let orphans = (0..random.below(3000) * random.below(2)).map(|number| NodeId(number as u32 * 3)).collect();
    let has_nodes = flags & (flag::UNMOUNTED | flag::FASTBOOT) != 0;
    let summaries = std::array::from_fn(|log| {
        let is_known = log < 3 || has_nodes;
        SummaryBlock { entries: (0..if is_known { 512 } else { 0 }).map(|_| entry(random)).collect() }
    });
    CheckpointState {
        head,
        nat_map,
        sit_map,
        orphans,
        logs,
        summaries,
        nat_journal: (0..random.below(39) as u32)
            .map(|nid| (NodeId(nid), NatEntry::new(1, NodeId(nid), BlockAddress(nid))))
            .collect(),
        sit_journal: (0..random.below(7) as u32)
            .map(|segment| (SegmentIndex(segment), SitEntry::new(Log::ColdData, [segment as u8; 64], 5)))
            .collect(),
        lifetime_kib: if has_nodes { random.next_u64() } else { 0 },
        nat_bits: (flags & flag::UNMOUNTED != 0).then_some(nat_bits),
    }
}

/// Drops unused entries: in the compact form a pack holds only the used ones of a data log.
fn without_unused(mut state: CheckpointState, compact: bool) -> CheckpointState {
    for ((log, of), summary) in state.logs.iter().zip(Log::ALL).zip(&mut state.summaries) {
        if compact && !of.is_node() && !log.ssr {
            summary.entries.iter_mut().skip(usize::from(log.next)).for_each(|entry| *entry = SummaryEntry::default());
        }
    }
    state
}

#[test]
fn packs_are_decoded_to_what_was_encoded() {
    let mut random = Random::new(3, "packs");
    let mut forms = [0, 0];
    for round in 0..300_u32 {
        let mut geometry = Geometry::for_tests(if round % 10 == 9 { 16_384 } else { 4096 });
        geometry.checkpoint_payload = [0, 0, 3][round as usize % 3];
        let mut flags = [flag::UNMOUNTED, flag::FASTBOOT, 0, flag::CRC_RECOVERY][round as usize % 4];
        if geometry.checkpoint_payload == 0 && random.chance(0.3) {
            flags |= flag::LARGE_NAT_BITMAP;
        }
        let (state, second) = (state(&mut random, &geometry, flags), random.chance(0.5));
        let pack = state.encode(&geometry, second);
        let start = if second { 1024 } else { 512 };
        assert!(pack.blocks.iter().all(|(at, _)| (start..start + 512).contains(&at.0)));
        assert!(pack.blocks.iter().all(|(at, block)| *at != pack.commit.0 && block.len() == geometry.block_size()));

        let mut written = Written { geometry, blocks: BTreeMap::new() };
        written.blocks.extend(pack.blocks.iter().map(|(at, block)| (at.0, block.clone())));
        let mut findings = Vec::new();
        let read = |written: &Written, findings: &mut Vec<_>| {
            read_pack(written, Some(BlockAddress(start)), &mut |finding| findings.push(finding)).unwrap()
        };
        assert!(read(&written, &mut findings).is_none(), "a pack without its last block counts");
        findings.clear();
        written.blocks.insert(pack.commit.0.0, pack.commit.1.clone());
        let found = read(&written, &mut findings).unwrap();
        let decoded = decode_state(&written, &found, &mut |finding| findings.push(finding)).unwrap().unwrap();
        assert_eq!(findings, []);
        let compact = found.head.has(flag::COMPACT_SUMMARIES);
        forms[usize::from(compact)] += 1;
        let expected = CheckpointState { head: decoded.head, ..without_unused(state.clone(), compact) };
        assert_eq!(without_unused(decoded, compact), expected, "round {round}");
        assert_eq!((found.head.version, found.head.elapsed_seconds), (state.head.version, state.head.elapsed_seconds));
    }
    assert!(forms.iter().all(|count| *count > 50), "{forms:?}");
}

#[test]
fn a_pack_has_no_more_orphans_than_fit() {
    let geometry = Geometry::for_tests(4096);
    let mut state = state(&mut Random::new(1, "orphans"), &geometry, flag::UNMOUNTED);
    state.orphans = (0..600_000).map(NodeId).collect();
    assert_eq!(orphans_max(&geometry), (512 - 2 - 6) * 1020);
    let pack = state.encode(&geometry, false);
    let head = CheckpointHead::of_block(&pack.commit.1).unwrap();
    assert_eq!(pack.commit.0.0, 512 + head.pack_blocks.get() - 1);
    assert!(head.pack_blocks.get() <= 512 && !head.has(flag::NAT_BITS));
}
