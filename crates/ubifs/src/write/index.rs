//! Writing the nodes of the index that differ from the flash.
//!
//! They go to empty LEBs one behind the other. If there are too few, they go into the gaps of LEBs
//! of the index: the flash needs the nodes of the last commit until the next one is complete, so
//! those stay where they are (Linux `fs/ubifs/tnc_commit.c`).

use std::collections::BTreeMap;

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::encode::{aligned, node, pad};
use crate::layout::node_type;
use crate::lebs::Lebs;
use crate::lpt::LebProperties;
use crate::mount::Ubifs;
use crate::node::Place;
use crate::tree::NodeId;

/// Space for index nodes.
#[derive(Clone, Copy, Debug)]
struct Slot {
    leb: u32,
    start: u32,
    end: u32,
}

/// Where each node goes.
#[derive(Debug, Default)]
struct Plan {
    nodes: Vec<(NodeId, Place)>,
    /// LEBs of the index in whose gaps nodes go.
    gap_lebs: Vec<u32>,
}

impl Ubifs {
    /// Writes all nodes of the index that differ from the flash. Errors: `NoSpace` (nothing was
    /// written), `Device`.
    pub(super) fn write_index(&mut self) -> Result<()> {
        let plan = self.plan_index()?;
        let mut written: BTreeMap<u32, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
        for (id, place) in &plan.nodes {
            let mut bytes = Vec::new();
            let sequence = self.writer()?.next_sequence();
            node(node_type::INDEX, sequence, &[&self.tree.body(*id)], &mut bytes);
            let end = aligned(bytes.len());
            pad(&mut bytes, end);
            self.tree.written(*id, *place);
            written.entry(place.leb).or_default().push((place.offset, bytes));
        }
        self.writer()?.counters.index_nodes += plan.nodes.len() as u64;
        // The head is where the last LEB that is not full ends.
        let order: Vec<u32> = plan.nodes.iter().map(|(_, place)| place.leb).collect();
        for (leb, nodes) in &written {
            match plan.gap_lebs.contains(leb) {
                true => self.fill_gaps(*leb, nodes)?,
                false => self.append_index(*leb, nodes)?,
            }
        }
        let last = order.into_iter().rfind(|leb| !plan.gap_lebs.contains(leb));
        let writer = self.writer()?;
        if let (Some(last), (old, _)) = (last, writer.index_head) {
            let free = writer.space.get(last).map_or(0, |leb| leb.free);
            writer.index_head = (last, writer.log.leb_size - free);
            writer.space.take(old, false);
            writer.space.take(last, true);
        }
        Ok(())
    }

    /// Finds a place for each node.
    fn plan_index(&mut self) -> Result<Plan> {
        let ids = self.tree.dirty_nodes();
        let mut rest = ids.iter().map(|id| (*id, self.tree.encoded_length(*id) as u32)).peekable();
        let mut plan = Plan::default();
        let mut fill = |slot: Slot| {
            let mut at = slot.start;
            while let Some((id, length)) = rest.next_if(|(_, length)| at + aligned(*length as usize) as u32 <= slot.end)
            {
                plan.nodes.push((id, Place { leb: slot.leb, offset: at, length }));
                at += aligned(length as usize) as u32;
            }
            rest.peek().is_some()
        };
        let Some(writer) = self.writer.as_deref_mut() else { return Ok(plan) };
        let leb_size = writer.log.leb_size;
        let (leb, start) = writer.index_head;
        let mut is_more = fill(Slot { leb, start, end: leb_size });
        let mut taken = Vec::new();
        while is_more && let Some(leb) = writer.space.find_empty() {
            writer.space.take(leb, true);
            taken.push(leb);
            is_more = fill(Slot { leb, start: 0, end: leb_size });
        }
        taken.iter().for_each(|leb| writer.space.take(*leb, false));
        if is_more {
            let mut gap_lebs = Vec::new();
            for (leb, _) in writer.space.dirtiest_of_index() {
                let clean = self.tree.clean_places_in(leb);
                // One with nothing in use is free after this commit.
                if clean.is_empty() {
                    continue;
                }
                let kept = kept_in(&clean, &writer.old_index, leb);
                for slot in gaps(leb, &kept, leb_size) {
                    is_more = is_more && fill(slot);
                }
                gap_lebs.push(leb);
                if !is_more {
                    break;
                }
            }
            plan.gap_lebs = gap_lebs;
        }
        match is_more {
            true => Err(FsError::new(ErrorKind::NoSpace, "the index does not fit: no LEB is empty, and no gap left")),
            false => Ok(plan),
        }
    }

    /// Writes nodes that stand one behind the other in the index head's LEB, or in an empty one.
    fn append_index(&mut self, leb: u32, nodes: &[(u32, Vec<u8>)]) -> Result<()> {
        let mut bytes: Vec<u8> = nodes.iter().flat_map(|(_, bytes)| bytes).copied().collect();
        let start = nodes.first().map_or(0, |(offset, _)| *offset);
        let writer = self.writer()?;
        let used = bytes.len();
        let end = used.next_multiple_of(writer.unit as usize);
        pad(&mut bytes, end);
        if start == 0 {
            let free = writer.log.leb_size;
            writer.space.set(leb, LebProperties { free, dirty: 0, is_index: true });
        }
        writer.space.written(leb, bytes.len() as u32, writer.clock.now());
        writer.space.dirtied(leb, (end - used) as u32);
        let flash = self.lebs.writer_for(Cause::Metadata)?;
        if start == 0 {
            // A power cut may have kept what was there.
            flash.unmap(leb)?;
        }
        flash.write(leb, start, &bytes)
    }

    /// Writes nodes into the gaps of a LEB.
    fn fill_gaps(&mut self, leb: u32, nodes: &[(u32, Vec<u8>)]) -> Result<()> {
        let leb_size = self.writer()?.log.leb_size;
        let mut old = vec![0; leb_size as usize];
        self.lebs.read(leb, 0, &mut old)?;
        let clean = self.tree.clean_places_in(leb);
        let is_new = |place: &Place| nodes.iter().any(|(offset, _)| *offset == place.offset);
        let in_use: u32 = clean.iter().map(|place| aligned(place.length as usize) as u32).sum();
        let stay: Vec<Place> = clean.into_iter().filter(|place| !is_new(place)).collect();
        let writer = self.writer()?;
        let mut pieces: Vec<(u32, Vec<u8>)> = nodes.to_vec();
        for place in kept_in(&stay, &writer.old_index, leb) {
            let end = place.offset as usize + aligned(place.length as usize);
            pieces.push((place.offset, old.get(place.offset as usize..end).unwrap_or_default().to_vec()));
        }
        pieces.sort_unstable_by_key(|(offset, _)| *offset);
        let mut bytes = Vec::with_capacity(leb_size as usize);
        for (offset, piece) in pieces {
            pad(&mut bytes, offset as usize);
            bytes.extend_from_slice(&piece);
        }
        let end = bytes.len().next_multiple_of(writer.unit as usize);
        pad(&mut bytes, end);
        let free = leb_size.saturating_sub(end as u32);
        let dirty = (end as u32).saturating_sub(in_use);
        writer.space.set(leb, LebProperties { free, dirty, is_index: true });
        writer.counters.gap_lebs += 1;
        self.lebs.writer_for(Cause::Metadata)?.change(leb, &bytes)
    }
}

/// The nodes of a LEB that stay where they are, by offset: those in use, and those of the last
/// commit.
fn kept_in(clean: &[Place], old_index: &[Place], leb: u32) -> Vec<Place> {
    let old = old_index.iter().filter(|place| place.leb == leb);
    let mut kept: Vec<Place> = clean.iter().chain(old).copied().collect();
    kept.sort_unstable_by_key(|place| place.offset);
    kept
}

/// The gaps between nodes of a LEB.
fn gaps(leb: u32, kept: &[Place], leb_size: u32) -> Vec<Slot> {
    let mut at = 0;
    let mut found = Vec::new();
    for place in kept {
        if place.offset > at {
            found.push(Slot { leb, start: at, end: place.offset });
        }
        at = at.max(place.offset + aligned(place.length as usize) as u32);
    }
    if at < leb_size {
        found.push(Slot { leb, start: at, end: leb_size });
    }
    found
}
