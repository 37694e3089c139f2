//! Checkpoints: every change except file data becomes durable at once (f2fs-writing.md,
//! "Checkpoint"; checkpoint.c, `f2fs_write_checkpoint`).

use std::ops::Range;

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Payload};
use nandkit_vfs::Result;

use crate::blocks::Blocks;
use crate::checkpoint_state::{CheckpointState, SummaryBlock};
use crate::device::Submission;
use crate::findings::{Defect, FindingKind};
use crate::ids::{BlockAddress, Log, SegmentIndex};
use crate::layout::checkpoint::flag;
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead};
use crate::open::WhichCopy;
use crate::segments::ssa;
use crate::write::WritableVolume;

pub use crate::counters::Reason;

/// Shorter runs of blocks are not discarded (f2fs-writing.md, "Discard").
const DISCARD_LEAST: u32 = 16;

/// The lengths of the runs of consecutive numbers in ascending `numbers`; duplicates count once.
fn neighbours(numbers: &[u32]) -> Vec<u32> {
    let (mut sizes, mut last): (Vec<u32>, Option<u32>) = (Vec::new(), None);
    for &number in numbers {
        match (last, sizes.last_mut()) {
            (Some(before), _) if before == number => continue,
            (Some(before), Some(size)) if before.checked_add(1) == Some(number) => *size += 1,
            _ => sizes.push(1),
        }
        last = Some(number);
    }
    sizes
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Writes a checkpoint. File data in memory is not part of it (see [`WritableVolume::sync`]).
    /// Errors: `NoSpace` (no section for nodes; the volume stays usable), `ReadOnly` (the volume
    /// has stopped), `Device` (stops the volume; the device keeps the last checkpoint).
    pub fn checkpoint(&mut self, reason: Reason) -> Result<()> {
        self.expect_running()?;
        let clean = self.state.head.has(flag::UNMOUNTED) && self.state.orphans.is_empty();
        let needless = match reason {
            Reason::Sync => !self.is_changed(),
            Reason::Forced => false,
            Reason::Unmount => clean && !self.is_changed(),
        };
        if needless {
            return Ok(());
        }
        self.flush_operations()?;
        let written = self.write_checkpoint(reason);
        self.or_stop(written)
    }

    /// Whether a checkpoint would record any change.
    pub fn is_changed(&mut self) -> bool {
        let mut pages = crate::segments::DirtyPages::default();
        self.writer.pages().tell(&mut pages);
        pages.dentries > 0
            || self.nodes.waiting() > 0
            || self.nat.waiting() > 0
            || self.writer.segments.sit().dirty().count() > 0
            || !self.writer.orphans.iter().eq(self.state.orphans.iter())
            || self.has_quotas_to_write()
    }

    /// Writes directory pages, quota files, then all nodes (checkpoint.c, `block_operations`).
    fn flush_operations(&mut self) -> Result<()> {
        self.write_back_directories(Cause::Checkpoint)?;
        self.flush_quotas()?;
        self.write_all_nodes(Cause::Checkpoint)?;
        self.writer.segments.settle_logs(&self.device)
    }

    fn write_checkpoint(&mut self, reason: Reason) -> Result<()> {
        let unmount = reason == Reason::Unmount;
        self.nat.flush(&mut self.meta, &self.device, unmount)?;
        let nat_blocks = self.meta.waiting() as u64;
        self.writer.sit.flush(&self.writer.segments, &mut self.meta, &self.device)?;
        let sit_blocks = self.meta.waiting() as u64 - nat_blocks;
        let (size, geometry) = (self.geometry().block_size(), self.device.geometry());
        for (segment, entries, node) in self.writer.segments.dirty_summaries() {
            self.meta.change(geometry.ssa(segment), ssa::encode(entries, node, size).into());
        }
        let waiting = self.meta.waiting() as u64;
        self.writer.written_blocks += waiting;
        let tables = [sit_blocks, nat_blocks, waiting - nat_blocks - sit_blocks];
        self.meta.write(&mut self.device, Cause::Checkpoint)?;
        let state = self.next_state(unmount);
        let other = if self.pack == WhichCopy::First { WhichCopy::Second } else { WhichCopy::First };
        let pack = state.encode(self.geometry(), other == WhichCopy::Second);
        self.write_pack_blocks(&pack.blocks)?;
        let (at, block) = &pack.commit;
        self.device.commit(Submission::metadata(Cause::Checkpoint), *at, block)?;
        self.writer.written_blocks += pack.blocks.len() as u64 + 1;
        let head = CheckpointHead::of_block(block);
        self.writer.checksum = head.and_then(|head| head.stored_checksum(block)).unwrap_or(0);
        self.state = CheckpointState { head: head.unwrap_or(state.head), ..state };
        self.pack = other;
        self.writer.has_checkpoint = true;
        let metadata = &mut self.writer.counters.metadata;
        metadata.tables.iter_mut().zip(tables).for_each(|(all, now)| *all += now);
        metadata.packs += pack.blocks.len() as u64 + 1;
        self.writer.counters.checkpoint(reason);
        self.completed();
        Ok(())
    }

    /// Estimates the sizes, in blocks, of the requests that a checkpoint would issue now; it
    /// assumes that nodes and their NAT entries are adjacent. Cost: a pass over everything changed
    /// since the last checkpoint.
    pub(crate) fn requests_of_checkpoint(&mut self) -> Vec<u32> {
        let segments = &self.writer.segments;
        let per_block = segments.geometry().sit_entries() as u32;
        let sit: Vec<u32> = segments.sit().dirty().iter().map(|segment| segment / per_block).collect();
        let ssa: Vec<u32> = segments.dirty_summaries().map(|(segment, ..)| segment.0).collect();
        let nodes = self.nodes.waiting() as u32;
        let entries = nodes.max(self.nat.waiting() as u32);
        let nat = entries.div_ceil(self.geometry().nat_entries() as u32);
        let counters = &self.writer.counters;
        let made = counters.checkpoints_asked + counters.checkpoints_forced;
        let pack = counters.metadata.packs.checked_div(made).unwrap_or(3) as u32;
        let mut requests = vec![nodes, nat, pack.saturating_sub(1), 1];
        requests.extend(neighbours(&sit));
        requests.extend(neighbours(&ssa));
        requests.retain(|blocks| *blocks > 0);
        requests
    }

    /// Writes pack blocks, adjacent ones in one request.
    fn write_pack_blocks(&mut self, blocks: &[(BlockAddress, crate::ids::Block)]) -> Result<()> {
        let mut rest = blocks;
        while let Some((start, _)) = rest.first() {
            let count = rest.iter().zip(start.0..).take_while(|((at, _), expected)| at.0 == *expected).count();
            let (now, later) = rest.split_at(count);
            let parts: Vec<Payload<'_>> = now.iter().map(|(_, block)| Payload::Bytes(block)).collect();
            self.device.write(Submission::metadata(Cause::Checkpoint), *start, &parts)?;
            rest = later;
        }
        Ok(())
    }

    /// The state that the next checkpoint records. Every block that it refers to has been handed to
    /// the device.
    fn next_state(&self, unmount: bool) -> CheckpointState {
        let (space, last) = (&self.writer.segments.space, &self.state.head);
        let mut flags = last.flags.get();
        flags &= !(flag::UNMOUNTED | flag::FASTBOOT | flag::TRIMMED | flag::NAT_BITS | flag::NO_CRC_RECOVERY);
        flags |= flag::CRC_RECOVERY | if unmount { flag::UNMOUNTED } else { 0 };
        if self.writer.quotas.exist() {
            let untrusted = self.writer.quotas.untrusted().is_some();
            flags = flags & !flag::QUOTA_NEEDS_FSCK | if untrusted { flag::QUOTA_NEEDS_FSCK } else { 0 };
        }
        let head = CheckpointHead {
            version: last.version.get().wrapping_add(1).into(),
            valid_blocks: space.valid_blocks.into(),
            free_segments: self.writer.segments.free_segments_after().into(),
            valid_nodes: space.valid_nodes.into(),
            valid_inodes: space.valid_inodes.into(),
            next_free_nid: self.writer.nids.hint().0.into(),
            elapsed_seconds: self.elapsed_seconds().into(),
            flags: flags.into(),
            ..*last
        };
        CheckpointState {
            head,
            nat_map: self.nat.map().to_vec(),
            sit_map: self.writer.sit.map().to_vec(),
            orphans: self.writer.orphans.iter().copied().collect(),
            logs: Log::ALL.map(|log| self.writer.segments.log_state(log)),
            summaries: Log::ALL.map(|log| SummaryBlock { entries: self.writer.segments.log_summary(log).to_vec() }),
            nat_journal: self.nat.journal(),
            sit_journal: self.writer.sit.journal(),
            lifetime_kib: self.lifetime_kib(),
            nat_bits: None,
        }
    }

    /// KiB written over the volume's lifetime.
    pub fn lifetime_kib(&self) -> u64 {
        let kib = self.device.geometry().block_size() as u64 / 1024;
        self.state
            .lifetime_kib
            .saturating_add(self.writer.written_blocks.saturating_sub(self.writer.counted_blocks) * kib)
    }

    /// Runs once the checkpoint is durable: blocks that it freed become free, and the device may be
    /// told.
    fn completed(&mut self) {
        self.writer.counted_blocks = self.writer.written_blocks;
        self.writer.idle.checkpoint = self.device.now();
        self.nat.checkpointed();
        self.writer.since_checkpoint.clear();
        let mapped = std::mem::take(&mut self.writer.mapped);
        self.writer.segments.summaries_written();
        let freed = self.writer.segments.checkpointed();
        self.writer.published.show_checkpoint(self.device.now(), &self.writer.counters, &self.writer.segments);
        self.discard_freed(freed, mapped);
    }

    /// Discards unused blocks. After one failed discard no more are made in this mount; nothing
    /// depends on them.
    fn discard_freed(&mut self, freed: Vec<Range<u32>>, mapped: Vec<BlockAddress>) {
        if !self.writer.options.discard || !self.device.takes_discards() {
            return;
        }
        // A remapped block's old address may have been allocated again since.
        let sit = self.writer.segments.sit();
        let is_valid = |at: &BlockAddress| {
            let place = self.device.geometry().main(*at);
            place.is_some_and(|(segment, block)| sit.is_valid(segment, block))
        };
        let remapped = neighbours_together(mapped.into_iter().filter(|at| !is_valid(at)).collect());
        let long = freed.into_iter().filter(|range| range.end - range.start >= DISCARD_LEAST);
        for range in long.chain(remapped) {
            if let Err(error) = self.device.discard(Cause::Checkpoint, range.clone()) {
                let detail = format!("a discard failed, and no more are made: {error}");
                self.notes.push(Defect::new(FindingKind::Note, detail).at(BlockAddress(range.start)));
                self.writer.options.discard = false;
                return;
            }
            let main = self.device.geometry().main_address().0;
            for block in range {
                let offset = block.wrapping_sub(main);
                let segment = SegmentIndex(offset / BLOCKS_PER_SEGMENT);
                self.writer.segments.sit_mut().discarded(segment, (offset % BLOCKS_PER_SEGMENT) as u16);
            }
        }
    }
}

/// Merges addresses into ascending ranges.
fn neighbours_together(mut addresses: Vec<BlockAddress>) -> Vec<Range<u32>> {
    addresses.sort_unstable();
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for at in addresses {
        match ranges.last_mut() {
            Some(last) if at.0 <= last.end => last.end = last.end.max(at.0.saturating_add(1)),
            _ => ranges.push(at.0..at.0.saturating_add(1)),
        }
    }
    ranges
}
