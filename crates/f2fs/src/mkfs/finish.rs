//! Writes what follows the logs: NAT, SIT, both checkpoint packs, superblocks.

use nandkit_vfs::Result;
use zerocopy::FromZeros;

use super::geometry::NewGeometry;
use super::logs::shared;
use super::output::{LogEnd, LogWriter, Output};
use super::plan::{BLOCK_SIZE, Origin, Plan};
use super::superblock;
use crate::bits::lsb_first;
use crate::checkpoint_state::{CheckpointState, LogState, NatBits};
use crate::encode::Pack;
use crate::encode::sit_nat::{put_nat, put_sit, valid_up_to};
use crate::ids::{BlockAddress, Log, NodeId, SegmentIndex};
use crate::layout::checkpoint::flag;
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, Geometry, NatEntry, SitEntry, Superblock};

/// Blocks per write.
const GATHERED: usize = 256;
/// The order in which mkfs.f2fs puts the logs' segments into the SIT's journal.
const JOURNAL_ORDER: [Log; Log::COUNT] =
    [Log::HotNode, Log::WarmNode, Log::ColdNode, Log::HotData, Log::WarmData, Log::ColdData];

/// The segment in which mkfs.f2fs puts the logs that a read-only volume does not use.
const UNUSED_LOG_SEGMENT: u32 = 0;

/// Writes all of these; returns the number of used segments.
pub fn finish(
    plan: &Plan<'_>,
    (new, geometry): (&NewGeometry, &Geometry),
    writer: LogWriter<'_>,
    nat: &[NatEntry],
    trimmed: bool,
    superblock: &Superblock,
) -> Result<u64> {
    let (logs, mut output) = writer.finish()?;
    let mut table = nat.to_vec();
    // In mkfs.f2fs, lost+found is only in the journal.
    if let Some(entry) = plan.lost_found.and_then(|(_, nid)| table.get_mut(nid.0 as usize)) {
        *entry = NatEntry::default();
    }
    let nat_bits = write_nat(&mut output, geometry, &table)?;
    write_sit(&mut output, geometry, &logs)?;
    let full: usize = logs.iter().map(|log| log.full.len()).sum();
    let used = full as u64 + NewGeometry::logs_in_use(plan.options.features);
    let head = head(plan, new, used, trimmed);
    let state = state(plan, head, logs, nat, nat_bits);
    write_packs(&mut output, plan, geometry, state)?;
    output.flush()?;
    let block = superblock::block(superblock);
    output.metadata(BlockAddress(0), &block)?;
    output.metadata(BlockAddress(1), &block)?;
    output.flush()?;
    Ok(used)
}

fn write_nat(output: &mut Output<'_>, geometry: &Geometry, nat: &[NatEntry]) -> Result<NatBits> {
    let (_, bitmap) = geometry.nat_bits_size();
    let mut bits = NatBits { full: vec![0; bitmap], empty: vec![0xFF; bitmap] };
    let entries = geometry.nat_entries();
    let mut gathered: Vec<u8> = Vec::with_capacity(GATHERED * BLOCK_SIZE);
    let mut start = geometry.nat_place(0, false);
    for (block, part) in nat.chunks(entries).enumerate() {
        let place = geometry.nat_place(block as u32, false);
        let blocks = gathered.len() / BLOCK_SIZE;
        if blocks >= GATHERED || place.0 != start.0 + blocks as u32 {
            output.metadata(start, &gathered)?;
            gathered.clear();
            start = place;
        }
        let at = gathered.len();
        gathered.resize(at + BLOCK_SIZE, 0);
        let bytes = gathered.get_mut(at..).unwrap_or(&mut []);
        part.iter().enumerate().for_each(|(index, entry)| put_nat(bytes, index, entry));
        let used = part.iter().filter(|entry| !entry.is_free()).count() + usize::from(block == 0);
        lsb_first::set(&mut bits.empty, block, used == 0);
        lsb_first::set(&mut bits.full, block, used == entries);
    }
    if !gathered.is_empty() {
        output.metadata(start, &gathered)?;
    }
    Ok(bits)
}

/// Writes the SIT blocks that have entries of full segments; the segments being filled are in the
/// journal.
fn write_sit(output: &mut Output<'_>, geometry: &Geometry, logs: &[LogEnd; Log::COUNT]) -> Result<()> {
    let mut segments: Vec<(SegmentIndex, Log)> = Vec::new();
    for (log, end) in Log::ALL.into_iter().zip(logs) {
        segments.extend(end.full.iter().map(|segment| (*segment, log)));
    }
    segments.sort_unstable();
    for part in segments.chunk_by(|(a, _), (b, _)| geometry.sit_block(*a).0 == geometry.sit_block(*b).0) {
        let mut bytes = vec![0; BLOCK_SIZE];
        let mut place = geometry.sit_place(0, false);
        for (segment, log) in part {
            let (block, index) = geometry.sit_block(*segment);
            place = geometry.sit_place(block, false);
            put_sit(&mut bytes, index, &SitEntry::new(*log, valid_up_to(BLOCKS_PER_SEGMENT as u16), 0));
        }
        output.metadata(place, &bytes)?;
    }
    Ok(())
}

fn head(plan: &Plan<'_>, new: &NewGeometry, used: u64, trimmed: bool) -> CheckpointHead {
    let mut head = CheckpointHead::new_zeroed();
    head.version = plan.options.checkpoint_version.into();
    head.user_blocks = new.user_blocks().into();
    head.valid_blocks = plan.valid_blocks().into();
    // A volume has at most 2^23 segments.
    head.reserved_segments = (new.reserved as u32).into();
    head.overprovision_segments = (new.overprovision as u32).into();
    // mkfs.f2fs also counts segments after the last whole zone; fsck.f2fs does not.
    head.free_segments = (new.main.saturating_sub(used) as u32).into();
    let nodes: u64 = Log::ALL.iter().filter(|log| log.is_node()).filter_map(|log| plan.logs.get(log.index())).sum();
    head.valid_nodes = (nodes as u32).into();
    head.valid_inodes = (plan.inodes.len() as u32).into();
    head.next_free_nid = plan.next_nid.into();
    let mut flags = flag::UNMOUNTED;
    for (set, bit) in [(trimmed, flag::TRIMMED), (plan.options.extended_node_bitmap, flag::LARGE_NAT_BITMAP)] {
        flags |= if set { bit } else { 0 };
    }
    head.flags = flags.into();
    head
}

fn state(
    plan: &Plan<'_>,
    head: CheckpointHead,
    logs: [LogEnd; Log::COUNT],
    nat: &[NatEntry],
    nat_bits: NatBits,
) -> CheckpointState {
    let features = plan.options.features;
    // mkfs.f2fs also puts its own inodes into the journal.
    let own = plan.inodes.iter().enumerate();
    let own = own.filter(|(index, inode)| *index == 0 || !matches!(inode.origin, Origin::Tree(_)));
    let nat_journal = own.filter_map(|(_, inode)| Some((inode.ino, *nat.get(inode.ino.0 as usize)?))).collect();
    let end = |log: Log| logs.get(shared(log, features).index());
    let entry = |log: Log| {
        let end = end(log)?;
        Some((end.segment, SitEntry::new(log, valid_up_to(end.next), 0)))
    };
    let own_segments = JOURNAL_ORDER.into_iter().filter(|log| shared(*log, features) == *log);
    CheckpointState {
        head,
        nat_map: Vec::new(),
        sit_map: Vec::new(),
        orphans: Vec::<NodeId>::new(),
        logs: Log::ALL.map(|log| match end(log).filter(|_| shared(log, features) == log) {
            Some(end) => LogState { segment: end.segment, next: end.next, ssr: false },
            None => LogState { segment: SegmentIndex(UNUSED_LOG_SEGMENT), next: 0, ssr: false },
        }),
        sit_journal: own_segments.filter_map(entry).collect(),
        nat_journal,
        summaries: logs.map(|log| log.summary),
        lifetime_kib: 0,
        nat_bits: Some(nat_bits),
    }
}

/// Writes both packs. The second pack of an empty volume is, as in mkfs.f2fs, a checkpoint of
/// version 0 without summaries. For other volumes it holds the same state, one version older, so
/// that either pack opens the volume.
fn write_packs(output: &mut Output<'_>, plan: &Plan<'_>, geometry: &Geometry, state: CheckpointState) -> Result<()> {
    let is_empty = plan.tree.nodes().len() == 1;
    let first = state.encode(geometry, false);
    let mut older = state;
    older.head.flags = CheckpointHead::of_block(&first.commit.1).unwrap_or(older.head).flags;
    let version = if is_empty { 0 } else { older.head.version.get() - 1 };
    older.head.version = version.into();
    if is_empty {
        older.nat_bits = None;
    }
    let second = older.encode(geometry, true);
    let count = if is_empty { 1 } else { second.blocks.len() };
    output.blocks(&first.blocks)?;
    output.blocks(second.blocks.get(..count).unwrap_or(&second.blocks))?;
    output.flush()?;
    let commits: [Pack; 2] = [first, second];
    commits.iter().try_for_each(|pack| output.metadata(pack.commit.0, &pack.commit.1))
}
