//! Encodes a checkpoint pack (f2fs.md, "Checkpoint pack", "Summaries and journals").

use std::sync::Arc;

use zerocopy::IntoBytes;

use super::put;
use crate::checkpoint_state::{CheckpointState, SummaryBlock};
use crate::ids::{Block, BlockAddress, Log};
use crate::layout::checkpoint::{BITMAPS_OFFSET, LOGS_PER_KIND, NO_SEGMENT, OrphanBlock, OrphanTail, flag};
use crate::layout::summary::{
    FOOTER_BYTES, NatJournalEntry, SitJournalEntry, SummaryFooter, SummaryView, nat_journal_room, sit_journal_room,
};
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, Geometry, SummaryEntry};

/// If the compact data summaries take fewer blocks than this, they are used; else the normal form.
const NORMAL_SUMMARIES: usize = 3;
const LOGS_OF_A_KIND: usize = 3;

/// A checkpoint pack: blocks that may be written in any order, and the one that commits them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// All blocks except the last.
    pub blocks: Vec<(BlockAddress, Block)>,
    /// The last block, to be written when all others are durable.
    pub commit: (BlockAddress, Block),
}

/// The most orphans in a pack: they use the rest of its segment (checkpoint.c,
/// `f2fs_init_ino_entry_info`).
pub fn orphans_max(geometry: &Geometry) -> usize {
    let others = 2 + Log::COUNT as u32 + geometry.checkpoint_payload;
    BLOCKS_PER_SEGMENT.saturating_sub(others) as usize * OrphanBlock::room(geometry.block_size())
}

impl CheckpointState {
    /// Encodes this state as the first or second pack. Cost: about ten blocks.
    ///
    /// Version, counts, flags and times come from `head`. Computed are: logs, sizes and offsets of
    /// bitmaps, block counts, the checksum, and the flags for orphans, compact summaries and
    /// nat_bits if the state has them; a pack without room for nat_bits leaves them out. Orphans
    /// past `orphans_max` and journal entries past the journal's room are dropped: callers respect
    /// both.
    pub fn encode(&self, geometry: &Geometry, second: bool) -> Pack {
        let size = geometry.block_size();
        let orphans = orphan_blocks(self, geometry);
        let summaries = self.summary_blocks(size);
        let first_summary = 1 + geometry.checkpoint_payload as usize + orphans.len();
        let count = first_summary + summaries.blocks.len() + 1;
        let start = geometry.checkpoint_address.0.wrapping_add(if second { BLOCKS_PER_SEGMENT } else { 0 });
        let address = |block: usize| BlockAddress(start.wrapping_add(block as u32));

        // nat_bits are valid if their first word matches: version and checksum of the pack (node.c,
        // `__get_nat_bitmaps`).
        let nat_bits = self.nat_bits.as_ref().filter(|_| count <= nat_bits_start(geometry));
        let mut head = self.head(geometry, count, first_summary);
        let clear = flag::ORPHANS | flag::COMPACT_SUMMARIES;
        let mut flags = head.flags.get() & !clear;
        flags |= if orphans.is_empty() { 0 } else { flag::ORPHANS };
        flags |= if summaries.compact { flag::COMPACT_SUMMARIES } else { 0 };
        if self.nat_bits.is_some() {
            flags = if nat_bits.is_some() { flags | flag::NAT_BITS } else { flags & !flag::NAT_BITS };
        }
        head.flags = flags.into();

        let area = self.checkpoint_area(geometry, &head);
        let parts: Vec<Block> = area.chunks(size).map(Arc::from).collect();
        let checkpoint: Block = parts.first().cloned().unwrap_or_else(|| vec![0; size].into());
        let key = head.version.get() | u64::from(head.stored_checksum(&checkpoint).unwrap_or(0)) << 32;
        let all = parts.into_iter().chain(orphans).chain(summaries.blocks);
        let mut blocks: Vec<_> = all.enumerate().map(|(index, block)| (address(index), block)).collect();
        if let Some(bits) = nat_bits {
            let bytes = [&key.to_le_bytes()[..], &bits.full, &bits.empty].concat();
            let places = (nat_bits_start(geometry)..).map(address);
            blocks.extend(places.zip(bytes.chunks(size).map(|bytes| padded(bytes, size))));
        }
        Pack { blocks, commit: (address(count - 1), checkpoint) }
    }

    fn head(&self, geometry: &Geometry, count: usize, first_summary: usize) -> CheckpointHead {
        let mut head = self.head;
        let place = |log: Log| log.index() % LOGS_OF_A_KIND;
        (head.node_segments, head.data_segments) =
            ([NO_SEGMENT.into(); LOGS_PER_KIND], [NO_SEGMENT.into(); LOGS_PER_KIND]);
        (head.node_offsets, head.data_offsets) = ([0.into(); LOGS_PER_KIND], [0.into(); LOGS_PER_KIND]);
        for (log, state) in Log::ALL.into_iter().zip(&self.logs) {
            let (segments, offsets) = match log.is_node() {
                true => (&mut head.node_segments, &mut head.node_offsets),
                false => (&mut head.data_segments, &mut head.data_offsets),
            };
            if let (Some(segment), Some(offset)) = (segments.get_mut(place(log)), offsets.get_mut(place(log))) {
                (*segment, *offset) = (state.segment.0.into(), state.next.into());
            }
            if let Some(kind) = head.allocation_types.get_mut(log.index()) {
                *kind = u8::from(state.ssr);
            }
        }
        head.pack_blocks = (count as u32).into();
        head.summaries_start = (first_summary as u32).into();
        head.sit_bitmap_bytes = (geometry.sit_blocks() / 8).into();
        head.nat_bitmap_bytes = (geometry.nat_blocks() / 8).into();
        let checksum_offset = match head.has(flag::LARGE_NAT_BITMAP) {
            true => BITMAPS_OFFSET,
            false => geometry.block_size() - 4,
        };
        head.checksum_offset = (checksum_offset as u32).into();
        head
    }

    /// The checkpoint block with its checksum, and the payload blocks.
    fn checkpoint_area(&self, geometry: &Geometry, head: &CheckpointHead) -> Vec<u8> {
        let size = geometry.block_size();
        let mut area = vec![0; size * (1 + geometry.checkpoint_payload as usize)];
        put(&mut area, 0, head.as_bytes());
        let places = head.bitmap_places(geometry.checkpoint_payload, size);
        let limit = |map: &[u8], bytes: u32| map.get(..bytes as usize).unwrap_or(map).to_vec();
        put(&mut area, places.sit, &limit(&self.sit_map, head.sit_bitmap_bytes.get()));
        put(&mut area, places.nat, &limit(&self.nat_map, head.nat_bitmap_bytes.get()));
        let checksum = area.get(..size).and_then(|block| head.computed_checksum(block)).unwrap_or(0);
        put(&mut area, head.checksum_offset.get() as usize, &checksum.to_le_bytes());
        area
    }

    fn summary_blocks(&self, size: usize) -> Summaries {
        let compact = self.compact_summaries(size);
        let is_compact = compact.len() < NORMAL_SUMMARIES;
        let mut blocks = match is_compact {
            true => compact,
            false => Log::ALL.iter().filter(|log| !log.is_node()).map(|log| self.summary_block(*log, size)).collect(),
        };
        if self.head.has(flag::UNMOUNTED) || self.head.has(flag::FASTBOOT) {
            blocks.extend(Log::ALL.iter().filter(|log| log.is_node()).map(|log| self.summary_block(*log, size)));
        }
        Summaries { compact: is_compact, blocks }
    }

    /// NAT journal, SIT journal, and for each data log as many entries as it has blocks (segment.c,
    /// `write_compacted_summaries`).
    fn compact_summaries(&self, size: usize) -> Vec<Block> {
        let journal = SummaryView::journal_bytes(size);
        let mut block = [self.nat_journal_bytes(journal), self.sit_journal_bytes(journal)].concat();
        let mut blocks = Vec::new();
        let logs = Log::ALL.iter().filter(|log| !log.is_node());
        for entry in logs.flat_map(|log| self.used_entries(*log)) {
            if block.len() + size_of::<SummaryEntry>() > size - FOOTER_BYTES {
                blocks.push(padded(&std::mem::take(&mut block), size));
            }
            block.extend_from_slice(entry.as_bytes());
        }
        blocks.push(padded(&block, size));
        blocks
    }

    /// The entries stored in the compact form; zero where the state has none.
    fn used_entries(&self, log: Log) -> impl Iterator<Item = SummaryEntry> + '_ {
        let (state, summary) = (self.logs.get(log.index()), self.summaries.get(log.index()));
        let count = state.map_or(0, |state| if state.ssr { BLOCKS_PER_SEGMENT } else { u32::from(state.next) });
        let entries = summary.map_or(&[][..], |summary| &summary.entries);
        (0..count as usize).map(|index| entries.get(index).copied().unwrap_or_default())
    }

    fn summary_block(&self, log: Log, size: usize) -> Block {
        let mut block = match self.summaries.get(log.index()) {
            Some(summary) => summary.to_bytes(log.is_node(), size),
            None => vec![0; size],
        };
        let journal = SummaryView::journal_bytes(size);
        let bytes = match log {
            Log::HotData => self.nat_journal_bytes(journal),
            Log::ColdData => self.sit_journal_bytes(journal),
            Log::HotNode => [&[0; 2], &self.lifetime_kib.to_le_bytes()[..]].concat(),
            _ => Vec::new(),
        };
        put(&mut block, SummaryView::journal_start(size), &bytes);
        block.into()
    }

    fn nat_journal_bytes(&self, length: usize) -> Vec<u8> {
        let entries = self.nat_journal.iter().take(nat_journal_room(length));
        let entries = entries.map(|(nid, entry)| NatJournalEntry { nid: nid.0.into(), entry: *entry });
        journal_bytes(length, entries)
    }

    fn sit_journal_bytes(&self, length: usize) -> Vec<u8> {
        let entries = self.sit_journal.iter().take(sit_journal_room(length));
        let entries = entries.map(|(segment, entry)| SitJournalEntry { segment: segment.0.into(), entry: *entry });
        journal_bytes(length, entries)
    }
}

impl SummaryBlock {
    /// The block in its normal form, with an empty journal.
    pub fn to_bytes(&self, of_nodes: bool, size: usize) -> Vec<u8> {
        let mut block = vec![0; size];
        put(&mut block, 0, self.entries.get(..BLOCKS_PER_SEGMENT as usize).unwrap_or(&self.entries).as_bytes());
        let footer = SummaryFooter { kind: u8::from(of_nodes), checksum: 0.into() };
        put(&mut block, size.saturating_sub(FOOTER_BYTES), footer.as_bytes());
        block
    }
}

struct Summaries {
    compact: bool,
    blocks: Vec<Block>,
}

fn nat_bits_start(geometry: &Geometry) -> usize {
    BLOCKS_PER_SEGMENT.saturating_sub(geometry.nat_bits_size().0) as usize
}

fn padded(bytes: &[u8], size: usize) -> Block {
    let mut block = vec![0; size];
    put(&mut block, 0, bytes);
    block.into()
}

fn journal_bytes<T: IntoBytes + zerocopy::Immutable>(length: usize, entries: impl Iterator<Item = T>) -> Vec<u8> {
    let mut bytes = vec![0; 2];
    let mut count = 0_u16;
    for entry in entries {
        bytes.extend_from_slice(entry.as_bytes());
        count += 1;
    }
    put(&mut bytes, 0, &count.to_le_bytes());
    bytes.resize(length, 0);
    bytes
}

fn orphan_blocks(state: &CheckpointState, geometry: &Geometry) -> Vec<Block> {
    let size = geometry.block_size();
    let orphans = state.orphans.get(..orphans_max(geometry)).unwrap_or(&state.orphans);
    let parts = orphans.chunks(OrphanBlock::room(size));
    let count = parts.len() as u16;
    let block = |(index, part): (usize, &[crate::ids::NodeId])| {
        let mut block = vec![0; size];
        let bytes: Vec<u8> = part.iter().flat_map(|inode| inode.0.to_le_bytes()).collect();
        put(&mut block, 0, &bytes);
        let tail = OrphanTail {
            reserved: 0.into(),
            index: (index as u16 + 1).into(),
            count: count.into(),
            entries: (part.len() as u32).into(),
            checksum: 0.into(),
        };
        put(&mut block, size - size_of::<OrphanTail>(), tail.as_bytes());
        block.into()
    };
    parts.enumerate().map(block).collect()
}

#[cfg(test)]
mod tests;
