//! The owners of blocks. A segment's summary is in its log, else among those changed since the last
//! checkpoint, else in the device's SSA (f2fs-writing.md, "What is easy to get wrong", 19).

use std::collections::BTreeMap;

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use crate::blocks::Blocks;
use crate::ids::{NodeId, SegmentIndex};
use crate::layout::summary::{SummaryFooter, SummaryView};
use crate::layout::{BLOCKS_PER_SEGMENT, SummaryEntry};

/// The owner of a block: for data, the node that points to it, that node's version in the NAT and
/// the index among its addresses; for a node, its own nid and zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The node's nid.
    pub nid: NodeId,
    /// The node's version.
    pub version: u8,
    /// The index in the node.
    pub offset: u16,
}

impl From<SummaryEntry> for Summary {
    fn from(entry: SummaryEntry) -> Self {
        Self { nid: NodeId(entry.nid.get()), version: entry.version, offset: entry.index.get() }
    }
}

impl From<Summary> for SummaryEntry {
    fn from(summary: Summary) -> Self {
        Self::of_data(summary.nid, summary.version, summary.offset)
    }
}

impl Summary {
    /// The owner of a node's block.
    pub const fn of_node(nid: NodeId) -> Self {
        Self { nid, version: 0, offset: 0 }
    }
}

/// The summaries of a whole segment.
pub type Entries = Box<[SummaryEntry]>;

/// Summaries without any owner.
pub fn blank() -> Entries {
    vec![SummaryEntry::default(); BLOCKS_PER_SEGMENT as usize].into()
}

/// Encodes a summary block with these entries and an empty journal.
pub fn encode(entries: &[SummaryEntry], node: bool, block_size: usize) -> Vec<u8> {
    let mut block = vec![0; block_size];
    for (place, entry) in block.chunks_exact_mut(size_of::<SummaryEntry>()).zip(entries) {
        place.copy_from_slice(entry.as_bytes());
    }
    let footer = SummaryFooter { kind: u8::from(node), ..SummaryFooter::default() };
    let start = block_size.saturating_sub(size_of::<SummaryFooter>());
    if let Some(place) = block.get_mut(start..) {
        place.copy_from_slice(footer.as_bytes());
    }
    block
}

/// Summaries that are not yet on the device.
#[derive(Clone, Debug, Default)]
pub struct SummaryCache {
    dirty: BTreeMap<SegmentIndex, Entries>,
}

impl SummaryCache {
    /// Reads the SSA block of a segment. Errors: `Device`; `Corrupt` (its footer says neither data
    /// nor nodes, or not the kind that `node` expects).
    pub fn read(device: &dyn Blocks, segment: SegmentIndex, node: Option<bool>) -> Result<Entries> {
        let geometry = device.geometry();
        let at = geometry.ssa(segment);
        let mut block = vec![0; geometry.block_size()];
        device.read(Cause::Metadata, at, &mut block)?;
        let view = SummaryView(geometry.summary_in(segment, &block));
        let kind = view.footer().map_or(u8::MAX, |footer| footer.kind);
        if kind > 1 || node.is_some_and(|node| node != (kind == 1)) {
            let want = node.map_or("0 (data) or 1 (nodes)", |node| if node { "1 (nodes)" } else { "0 (data)" });
            let detail = format!("the summary of {segment} at {at} says that it is of type {kind}; expected {want}");
            return Err(FsError::new(ErrorKind::Corrupt, detail));
        }
        let entries: Entries = view.entries().collect();
        if entries.len() != BLOCKS_PER_SEGMENT as usize {
            return Err(FsError::new(ErrorKind::Corrupt, format!("the summary of {segment} at {at} is cut short")));
        }
        Ok(entries)
    }

    /// The entries of a segment without a log, if they are not yet on the device.
    pub fn get(&self, segment: SegmentIndex) -> Option<&Entries> {
        self.dirty.get(&segment)
    }

    /// Stores the entries of a segment that a log leaves.
    pub fn put(&mut self, segment: SegmentIndex, entries: Entries) {
        self.dirty.insert(segment, entries);
    }

    /// Takes the entries of a segment that a log takes over.
    pub fn take(&mut self, segment: SegmentIndex) -> Option<Entries> {
        self.dirty.remove(&segment)
    }

    /// Changes one entry. The segment's entries must have been stored before
    /// ([`SummaryCache::put`]); returns whether they were.
    pub fn change(&mut self, segment: SegmentIndex, block: u16, entry: SummaryEntry) -> bool {
        let place = self.dirty.get_mut(&segment).and_then(|entries| entries.get_mut(usize::from(block)));
        place.map(|place| *place = entry).is_some()
    }

    /// The number of blocks that a checkpoint must write.
    pub fn len(&self) -> usize {
        self.dirty.len()
    }

    /// Whether there are none to write.
    pub fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// The summaries that a checkpoint writes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentIndex, &Entries)> {
        self.dirty.iter().map(|(&segment, entries)| (segment, entries))
    }

    /// Notes that everything was written.
    pub fn written(&mut self) {
        self.dirty.clear();
    }
}
