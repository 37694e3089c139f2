//! Allocating space for nodes: reservations, open blocks, ENOSPC. Thresholds and the order of steps
//! follow fs/jffs2/nodemgmt.c, because write amplification depends on them.

use nandkit_flash::{ErrorKind as FlashErrorKind, Flash};
use nandkit_units::{BlockIndex, Cause};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::order::{First, Order, Reference};
use super::summary::{Collector, FRAME};
use super::{device, read_only};
use crate::NodeAddress;
use crate::catalogue::{Emptied, NodeRef, NodeState, Owner, Queue};
use crate::layout::padded;
use crate::volume::Jffs2;

/// How much of the reserve a write may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Leaves space for deletions.
    Normal,
    /// Frees space in the end, and may use the reserve for it.
    Deletion,
}

/// The requirements of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The region for it.
    pub region: u8,
    /// Least space in bytes.
    pub least: u32,
    /// Most bytes of its summary entry.
    pub entry: u32,
}

/// Space for a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// The region of the block: another one than requested if that could open no block.
    pub region: u8,
    /// Space in bytes, at least as much as requested.
    pub room: u32,
}

/// Attempts after failed programs before the device is given up.
const ATTEMPTS: u32 = 16;

#[cold]
fn no_space(what: &str) -> FsError {
    FsError::new(ErrorKind::NoSpace, format!("no space: {what}"))
}

impl<F: Flash> Jffs2<F> {
    /// Reserves space for a user's node. Collects until there is enough free space that the next
    /// node finds some too.
    ///
    /// Errors: `NoSpace`; `ReadOnly`; `Device`.
    pub(crate) fn reserve(&mut self, need: Need, urgency: Urgency) -> Result<Grant> {
        self.background()?;
        // Each pass moves a node or erases a block: more passes than possible nodes make no
        // progress.
        let mut passes = (self.catalogue.blocks.len() as u64 + 1) * u64::from(self.catalogue.erase_size / 32);
        loop {
            self.erase_for_collector()?;
            while self.needs_space(need, urgency)? {
                passes = passes.checked_sub(1).ok_or_else(|| no_space("collecting leads nowhere"))?;
                self.pass()?;
            }
            if let Some(grant) = self.allocate(need)? {
                return Ok(grant);
            }
        }
    }

    /// Reserves space for a node moved by the collector, from its reserve.
    pub(crate) fn reserve_collecting(&mut self, need: Need) -> Result<Grant> {
        loop {
            if let Some(grant) = self.allocate(need)? {
                return Ok(grant);
            }
        }
    }

    /// Whether the collector must run before a write; `NoSpace` if that would be in vain.
    fn needs_space(&self, need: Need, urgency: Urgency) -> Result<bool> {
        let levels = *self.writer.as_deref().ok_or_else(read_only)?.levels();
        let ready = self.catalogue.ready();
        if ready >= levels.write {
            return Ok(false);
        }
        let (sums, erase_size) = (self.catalogue.sums, u64::from(self.catalogue.erase_size));
        // The content of a block waiting for its erase is gained already. A block that was blank at
        // mount holds nothing and counts as free.
        let waiting = self.catalogue.on(Queue::ErasePending).filter_map(|block| self.catalogue.block(block));
        let pending: u64 = waiting.map(|block| erase_size.saturating_sub(u64::from(block.free))).sum();
        let winnable = (sums.dirty + sums.unchecked).saturating_sub(pending);
        let available = sums.free + sums.dirty + sums.unchecked;
        if winnable < levels.no_space || available / erase_size <= u64::from(levels.write) {
            return match urgency {
                Urgency::Deletion if ready >= levels.deletion => Ok(false),
                // Linux gives up here. But Linux continues in the block that its last mount left
                // open, while here each mount closes one: its free space is gained by moving the
                // rest. A partly collected block is finished too.
                Urgency::Deletion if ready > 0 && self.has_room(need) => Ok(false),
                _ if ready < levels.deletion && self.can_compact() => Ok(true),
                _ => Err(no_space("what is free is kept for deletions and for the collector")),
            };
        }
        Ok(true)
    }

    /// Keeps the blocks that the collector needs erased. Blocks waiting for their erase count as
    /// ready, but a later mount finds valid copies in them. (In Linux a thread erases at once.) So
    /// after any write an erased block is left, and the next mount can collect.
    fn erase_for_collector(&mut self) -> Result<()> {
        let deletion = self.writer.as_deref().map_or(0, |writer| writer.levels().deletion);
        while self.catalogue.count(Queue::Free) <= deletion && self.catalogue.count(Queue::ErasePending) > 0 {
            self.erase_pending()?;
        }
        Ok(())
    }

    /// Whether a node fits in its region's open block.
    fn has_room(&self, need: Need) -> bool {
        let open = self.writer.as_deref().and_then(|writer| writer.open.get(usize::from(need.region)));
        let Some(open) = open else { return false };
        let free = open.block.and_then(|block| self.catalogue.block(block)).map_or(0, |block| block.free);
        free >= padded(need.least) + padded(open.summary.size() + need.entry + FRAME)
    }

    /// Whether moving the rest of some block would gain an eighth of it or more: more than page
    /// ends and summaries take.
    fn can_compact(&self) -> bool {
        let won = |block: BlockIndex| self.catalogue.block(block).map_or(0, |block| block.dirty + block.wasted);
        [Queue::Collecting, Queue::Erasable, Queue::ErasableAfterFlush, Queue::VeryDirty, Queue::Dirty]
            .into_iter()
            .flat_map(|queue| self.catalogue.on(queue))
            .any(|block| won(block) >= self.catalogue.erase_size / 8)
    }

    /// Allocates space in the region's open block, or in the next one. `None`: progress was made,
    /// try again.
    fn allocate(&mut self, need: Need) -> Result<Option<Grant>> {
        let least = padded(need.least);
        let Some(mut region) = self.region(need.region) else { return Err(read_only()) };
        if self.open_block(region).is_none() && !self.open_next(region)? {
            return Ok(None);
        }
        if self.open_block(region).is_none() {
            // No block is left for this region: use another region's open block.
            match self.region_with_room(least) {
                Some(other) => region = other,
                None => return Err(no_space("no block is left")),
            }
        }
        let writer = self.writer.as_deref_mut().ok_or_else(read_only)?;
        let Some(open) = writer.open.get_mut(usize::from(region)) else { return Err(read_only()) };
        let Some(number) = open.block else { return Err(no_space("no block is left")) };
        let Some(block) = self.catalogue.block(number) else { return Err(no_space("no block is left")) };
        let free = block.free;
        let kept = padded(open.summary.size() + need.entry + FRAME);
        let untouched = block.nodes.iter().all(|node| node.owner() == Owner::None);
        if open.summary.is_disabled() {
            if least <= free {
                return Ok(Some(Grant { region, room: free }));
            }
            self.close_without_summary(region)?;
        } else if least + kept <= free {
            return Ok(Some(Grant { region, room: free - kept }));
        } else if untouched && least <= free {
            // A node as large as a block is written without a summary.
            return Ok(Some(Grant { region, room: free }));
        } else if untouched {
            return Err(no_space("the node is longer than a block"));
        } else {
            self.close_with_summary(region)?;
        }
        Ok(None)
    }

    /// The open block of a region.
    fn open_block(&self, region: u8) -> Option<BlockIndex> {
        self.writer.as_deref()?.open.get(usize::from(region))?.block
    }

    /// The region with this number, limited to the highest existing one.
    fn region(&self, region: u8) -> Option<u8> {
        let regions = self.writer.as_deref()?.open.len() as u8;
        Some(region.min(regions.saturating_sub(1)))
    }

    fn region_with_room(&self, least: u32) -> Option<u8> {
        let writer = self.writer.as_deref()?;
        let room = |open: &super::OpenBlock| self.catalogue.block(open.block?).map(|block| block.free);
        let with_room =
            |open: &super::OpenBlock| room(open).is_some_and(|free| free >= least + open.summary.size() + FRAME);
        writer.open.iter().position(with_room).map(|region| region as u8)
    }

    /// Takes a free block for a region. `Ok(false)`: there was none, but progress was made. If
    /// nothing can be done, the region stays without an open block.
    fn open_next(&mut self, region: u8) -> Result<bool> {
        self.erase_for_collector()?;
        let Some(number) = self.catalogue.head(Queue::Free) else {
            if self.catalogue.count(Queue::ErasePending) == 0 {
                if let Some(erasable) = self.catalogue.head(Queue::Erasable) {
                    self.catalogue.file(erasable, Queue::ErasePending);
                } else if self.catalogue.count(Queue::ErasableAfterFlush) > 0 && self.medium.is_waiting() {
                    // If no buffer holds anything, the content they wait for is being rewritten
                    // after a failed program, and is not there yet.
                    self.flush_all()?;
                    return Ok(false);
                } else {
                    return Ok(true);
                }
            }
            self.erase_pending()?;
            return Ok(false);
        };
        let now = self.medium.now();
        let writer = self.writer.as_deref_mut().ok_or_else(read_only)?;
        let enabled = writer.options.summaries;
        let opened = writer.separator.stamp(now).0;
        if let Some(open) = writer.open.get_mut(usize::from(region)) {
            (open.block, open.summary) = (Some(number), Collector::new(enabled));
        }
        self.catalogue.file(number, Queue::Open);
        if let Some(block) = self.catalogue.blocks.get_mut(number.index()) {
            (block.first_written, block.last_written) = (now, now);
            (block.opened, block.region) = (opened, region);
        }
        // A cleanmarker inside the block is no longer needed.
        if self.catalogue.block(number).is_some_and(|block| block.used > 0) {
            self.obsolete(self.catalogue.address(number, 0));
        }
        Ok(true)
    }

    /// Writes the summary of a region's open block, and closes the block.
    fn close_with_summary(&mut self, region: u8) -> Result<()> {
        let order = self.medium.order();
        let cleanmarker = self.medium.shape().cleanmarker.size();
        let writer = self.writer.as_deref_mut().ok_or_else(read_only)?;
        let Some(open) = writer.open.get_mut(usize::from(region)) else { return Ok(()) };
        let Some(number) = open.block else { return Ok(()) };
        let free = self.catalogue.block(number).map_or(0, |block| block.free);
        let offset = self.catalogue.erase_size - free;
        let Some(node) = open.summary.node(order, cleanmarker, offset, free) else {
            open.summary.disable();
            return Ok(());
        };
        let address = self.catalogue.address(number, offset);
        match self.medium.append(usize::from(region), address, &node, Cause::Metadata) {
            Ok(()) => {}
            Err(error) if is_failure(error.kind) => return self.abandon(region),
            Err(error) => return Err(device(error)),
        }
        let now = self.medium.now();
        self.catalogue.link(number, NodeRef::new(offset, free, Owner::None, NodeState::Normal, now));
        self.flushed(region);
        let writer = self.writer.as_deref_mut().ok_or_else(read_only)?;
        writer.counters.summary_bytes += u64::from(free);
        self.closed(region, number);
        Ok(())
    }

    /// Closes a region's open block without a summary; its free rest is lost.
    fn close_without_summary(&mut self, region: u8) -> Result<()> {
        self.flush(region)?;
        let Some(number) = self.open_block(region) else { return Ok(()) };
        let free = self.catalogue.block(number).map_or(0, |block| block.free);
        self.catalogue.waste(number, free, self.medium.now());
        if let Some(writer) = self.writer.as_deref_mut() {
            writer.counters.padding_bytes += u64::from(free);
        }
        self.closed(region, number);
        Ok(())
    }

    fn closed(&mut self, region: u8, number: BlockIndex) {
        if let Some(open) = self.writer.as_deref_mut().and_then(|writer| writer.open.get_mut(usize::from(region))) {
            open.block = None;
        }
        // All of it may have become obsolete while it was open.
        let is_empty = self.catalogue.block(number).is_some_and(|block| block.used == 0 && block.unchecked == 0);
        self.catalogue.close(number);
        if is_empty {
            self.file_emptied(number);
        }
    }

    /// Files a block without valid nodes for its erase.
    fn file_emptied(&mut self, number: BlockIndex) {
        let waiting = self.waiting();
        let Some(writer) = self.writer.as_deref_mut() else { return };
        self.catalogue.file_emptied(number, &mut Emptied { waiting, leave: &mut || writer.leaves() });
    }

    /// The write buffers that are not empty, one bit each.
    pub(crate) fn waiting(&self) -> u16 {
        let regions = self.writer.as_deref().map_or(0, |writer| writer.open.len());
        (0..regions).filter(|region| self.medium.waiting(*region).is_some()).fold(0, |bits, region| bits | 1 << region)
    }

    /// Marks a node as obsolete.
    pub(crate) fn obsolete(&mut self, at: NodeAddress) {
        let waiting = self.waiting();
        let Some(writer) = self.writer.as_deref_mut() else { return };
        self.catalogue.mark_obsolete(at, &mut Emptied { waiting, leave: &mut || writer.leaves() });
    }

    /// Records that a region's write buffer was programmed.
    fn flushed(&mut self, region: u8) {
        let Some(writer) = self.writer.as_deref_mut() else { return };
        if let Some(open) = writer.open.get_mut(usize::from(region)) {
            open.first = First::default();
        }
        self.catalogue.flushed(usize::from(region), &mut || writer.leaves());
    }

    /// Programs a region's write buffer; the rest of the page is lost.
    pub(crate) fn flush(&mut self, region: u8) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let Some((number, _)) = self.medium.waiting(usize::from(region)) else { return Ok(()) };
            match self.medium.flush_padded(usize::from(region)) {
                Ok(padding) => {
                    let length = padding.map_or(0, |(_, length)| length);
                    self.catalogue.waste(number, length, self.medium.now());
                    self.flushed(region);
                    if let Some(writer) = self.writer.as_deref_mut() {
                        writer.counters.padding_bytes += u64::from(length);
                    }
                    return Ok(());
                }
                Err(error) if is_failure(error.kind) => self.abandon(region)?,
                Err(error) => return Err(device(error)),
            }
        }
        Err(FsError::new(ErrorKind::Device, "every program fails"))
    }

    /// Programs all write buffers.
    pub(crate) fn flush_all(&mut self) -> Result<()> {
        let regions = self.writer.as_deref().map_or(0, |writer| writer.open.len());
        (0..regions).try_for_each(|region| self.flush(region as u8))
    }

    /// Writes a node to a granted place and returns its address. The node must fit the grant. If a
    /// program fails, the block is abandoned for another one.
    pub(crate) fn place(&mut self, grant: Grant, node: &[u8], reference: Reference) -> Result<NodeAddress> {
        let mut bytes = node.to_vec();
        bytes.resize(padded(node.len() as u32) as usize, 0xFF);
        let length = bytes.len() as u32;
        let mut region = grant.region;
        for _ in 0..ATTEMPTS {
            self.keep_order(region, reference)?;
            let stream = usize::from(region);
            let Some(number) = self.open_block(region) else { return Err(no_space("no block is open")) };
            let Some(block) = self.catalogue.block(number) else { return Err(no_space("no block is open")) };
            let offset = self.catalogue.erase_size - block.free;
            if length > block.free {
                return Err(no_space("a node is longer than what was reserved for it"));
            }
            let waited = self.medium.waiting(stream).map_or(0, |(_, bytes)| bytes.len() as u32);
            let address = self.catalogue.address(number, offset);
            match self.medium.append(stream, address, &bytes, reference.cause) {
                Ok(()) => {
                    if waited + length >= self.medium.shape().page_size {
                        self.flushed(region);
                    }
                    self.linked(region, number, offset, &bytes, reference);
                    self.remember_order(region, reference);
                    return Ok(address);
                }
                Err(error) if is_failure(error.kind) => {
                    self.abandon(region)?;
                    let entry = super::summary::bound(length);
                    region = self.reserve_collecting(Need { region, least: length, entry })?.region;
                }
                Err(error) => return Err(device(error)),
            }
        }
        Err(FsError::new(ErrorKind::Device, "every program fails"))
    }

    /// Called before a node is written to a region's log: programs other regions' write buffers
    /// that must not be lost once the node is there. A single log keeps its order, but several do
    /// not: otherwise a deletion could be on flash without the file's new name, or a hole could
    /// expose content from before a truncation.
    fn keep_order(&mut self, region: u8, reference: Reference) -> Result<()> {
        let Some(writer) = self.writer.as_deref().filter(|writer| writer.open.len() > 1) else { return Ok(()) };
        let others = writer.open.iter().enumerate().filter(|(other, _)| *other != usize::from(region));
        let first: Vec<u8> =
            others.filter(|(_, open)| open.first.is_before(reference)).map(|(other, _)| other as u8).collect();
        first.into_iter().try_for_each(|other| self.flush(other))
    }

    /// Records a written node: others must follow it while it is in the buffer.
    fn remember_order(&mut self, region: u8, reference: Reference) {
        if self.medium.waiting(usize::from(region)).is_none() {
            return;
        }
        let Some(writer) = self.writer.as_deref_mut().filter(|writer| writer.open.len() > 1) else { return };
        if let Some(open) = writer.open.get_mut(usize::from(region)) {
            open.first.add(reference);
        }
    }

    /// Adds a written node to the catalogue.
    fn linked(&mut self, region: u8, number: BlockIndex, offset: u32, bytes: &[u8], reference: Reference) {
        let (order, now, length) = (self.medium.order(), self.medium.now(), bytes.len() as u32);
        let Reference { owner, state, written, cause, .. } = reference;
        self.catalogue.link(number, NodeRef::new(offset, length, owner, state, written));
        if let Some(block) = self.catalogue.blocks.get_mut(number.index()) {
            block.last_written = now;
        }
        let Some(writer) = self.writer.as_deref_mut() else { return };
        if let Some(open) = writer.open.get_mut(usize::from(region)) {
            open.summary.add(order, bytes, offset);
        }
        let counter = match cause {
            Cause::UserData => &mut writer.counters.data_bytes,
            Cause::Cleaning => &mut writer.counters.moved_bytes,
            _ => &mut writer.counters.metadata_bytes,
        };
        *counter += u64::from(length);
    }

    /// Handles a failed program in a region's open block: files the block as bad but used, and
    /// writes the buffer's content elsewhere (fs/jffs2/wbuf.c).
    fn abandon(&mut self, region: u8) -> Result<()> {
        let stream = usize::from(region);
        let Some(number) = self.open_block(region) else { return Ok(()) };
        let lost = self.unwritten(stream, number)?;
        let now = self.medium.now();
        let writer = self.writer.as_deref_mut().ok_or_else(read_only)?;
        writer.counters.program_failures += 1;
        if let Some(open) = writer.open.get_mut(stream) {
            (open.block, open.first) = (None, First::default());
        }
        let free = self.catalogue.block(number).map_or(0, |block| block.free);
        self.catalogue.waste(number, free, now);
        if let Some(block) = self.catalogue.blocks.get_mut(number.index()) {
            block.failed = true;
        }
        self.catalogue.file_first(number, Queue::BadUsed);
        self.medium.drop_waiting(stream);
        if lost.is_empty() && self.catalogue.block(number).is_some_and(|block| block.used == 0 && block.unchecked == 0)
        {
            self.file_emptied(number);
        }
        for (node, bytes) in lost {
            let length = bytes.len() as u32;
            let need = Need { region, least: length, entry: super::summary::bound(length) };
            let grant = self.reserve_collecting(need)?;
            let (owner, state, written) = (node.owner(), node.state, node.written);
            let reference = Reference { owner, state, written, cause: Cause::Recovery, order: Order::Unknown };
            let to = self.place(grant, &bytes, reference)?;
            self.moved(self.catalogue.address(number, node.offset), to, &bytes);
        }
        Ok(())
    }

    /// The valid nodes that are partly in a write buffer, with their bytes.
    fn unwritten(&mut self, stream: usize, number: BlockIndex) -> Result<Vec<(NodeRef, Vec<u8>)>> {
        let Some((waiting, bytes)) = self.medium.waiting(stream) else { return Ok(Vec::new()) };
        let Some(block) = self.catalogue.block(number).filter(|_| waiting == number) else { return Ok(Vec::new()) };
        let end = self.catalogue.erase_size - block.free;
        let begins = end.saturating_sub(bytes.len() as u32);
        let behind = |node: &&NodeRef| !node.is_obsolete() && node.offset + node.length > begins;
        let nodes: Vec<NodeRef> = block.nodes.iter().filter(behind).copied().collect();
        let mut lost = Vec::new();
        for node in nodes {
            let mut bytes = vec![0; node.length as usize];
            let at = self.catalogue.address(number, node.offset);
            // Damaged bytes are written as they are: their checksums reveal it.
            let _ = self.medium.read(at, &mut bytes, Cause::Recovery).map_err(device)?;
            lost.push((node, bytes));
        }
        Ok(lost)
    }
}

/// Whether an error means that the block must be retired.
pub(crate) const fn is_failure(kind: FlashErrorKind) -> bool {
    matches!(kind, FlashErrorKind::ProgramFailed | FlashErrorKind::EraseFailed | FlashErrorKind::BadBlock)
}
