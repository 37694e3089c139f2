//! Summaries and journals (f2fs.md, "Summaries and journals").

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::nat::NatEntry;
use super::sit::SitEntry;
use super::{BLOCKS_PER_SEGMENT, word};
use crate::ids::{NodeId, SegmentIndex};

/// Size of a summary block's footer.
pub const FOOTER_BYTES: usize = 5;
/// The offset of a journal's entries, after their count.
const JOURNAL_ENTRIES: usize = 2;

/// The owner of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SummaryEntry {
    /// For a data block, the direct node or inode that points to it; for a node, its own nid.
    pub nid: U32,
    /// For a data block, the version of the nid in the NAT.
    pub version: u8,
    /// For a data block, the index among the node's addresses; in an inode counted after the extra
    /// attributes.
    pub index: U16,
}

impl SummaryEntry {
    /// The entry of a data block.
    pub fn of_data(nid: NodeId, version: u8, index: u16) -> Self {
        Self { nid: nid.0.into(), version, index: index.into() }
    }

    /// The entry of a node.
    pub fn of_node(nid: NodeId) -> Self {
        Self { nid: nid.0.into(), ..Self::default() }
    }
}

/// The footer of a summary block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SummaryFooter {
    /// 0 for data, 1 for nodes.
    pub kind: u8,
    /// Neither written nor read by Linux.
    pub checksum: U32,
}

/// An entry of the NAT's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NatJournalEntry {
    /// The node whose NAT entry follows.
    pub nid: U32,
    /// The entry that overrides the one in the NAT.
    pub entry: NatEntry,
}

/// An entry of the SIT's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SitJournalEntry {
    /// The segment whose SIT entry follows.
    pub segment: U32,
    /// The entry that overrides the one in the SIT.
    pub entry: SitEntry,
}

/// A summary block in its normal form.
#[derive(Clone, Copy, Debug)]
pub struct SummaryView<'a>(pub &'a [u8]);

impl<'a> SummaryView<'a> {
    /// The offset of the journal: one entry per eight bytes of the block precedes it; a segment
    /// uses 512 of them regardless of the block size.
    pub const fn journal_start(block_size: usize) -> usize {
        block_size / 8 * size_of::<SummaryEntry>()
    }

    /// Size of a journal in bytes.
    pub const fn journal_bytes(block_size: usize) -> usize {
        block_size - FOOTER_BYTES - Self::journal_start(block_size)
    }

    /// The entries of the segment's blocks.
    pub fn entries(&self) -> impl Iterator<Item = SummaryEntry> + 'a {
        summary_entries(self.0).take(BLOCKS_PER_SEGMENT as usize)
    }

    /// The journal; empty if the block is too short.
    pub fn journal(&self) -> &'a [u8] {
        let end = self.0.len().saturating_sub(FOOTER_BYTES);
        self.0.get(Self::journal_start(self.0.len())..end).unwrap_or_default()
    }

    /// The footer; `None` if the block is too short.
    pub fn footer(&self) -> Option<SummaryFooter> {
        SummaryFooter::read_from_suffix(self.0).ok().map(|(_, footer)| footer)
    }
}

/// Decodes adjacent summary entries.
pub fn summary_entries(bytes: &[u8]) -> impl Iterator<Item = SummaryEntry> {
    let entries = bytes.chunks_exact(size_of::<SummaryEntry>());
    entries.filter_map(|bytes| SummaryEntry::read_from_bytes(bytes).ok())
}

/// The number of entries in a journal's count field.
fn journal_count(journal: &[u8]) -> usize {
    journal.first_chunk::<2>().map_or(0, |bytes| usize::from(u16::from_le_bytes(*bytes)))
}

fn journal_entries<T: FromBytes>(journal: &[u8]) -> Option<Vec<T>> {
    let bytes = journal_count(journal).checked_mul(size_of::<T>())?;
    let entries = journal.get(JOURNAL_ENTRIES..)?.get(..bytes)?;
    Some(entries.chunks_exact(size_of::<T>()).filter_map(|bytes| T::read_from_bytes(bytes).ok()).collect())
}

/// The number of NAT entries that fit in a journal.
pub const fn nat_journal_room(journal_bytes: usize) -> usize {
    (journal_bytes - JOURNAL_ENTRIES) / size_of::<NatJournalEntry>()
}

/// The number of SIT entries that fit in a journal.
pub const fn sit_journal_room(journal_bytes: usize) -> usize {
    (journal_bytes - JOURNAL_ENTRIES) / size_of::<SitJournalEntry>()
}

/// The entries of a NAT journal; `None` if its count exceeds its room.
pub fn nat_journal(journal: &[u8]) -> Option<Vec<(NodeId, NatEntry)>> {
    let entries = journal_entries::<NatJournalEntry>(journal)?;
    Some(entries.into_iter().map(|entry| (NodeId(entry.nid.get()), entry.entry)).collect())
}

/// The entries of a SIT journal; `None` if its count exceeds its room.
pub fn sit_journal(journal: &[u8]) -> Option<Vec<(SegmentIndex, SitEntry)>> {
    let entries = journal_entries::<SitJournalEntry>(journal)?;
    Some(entries.into_iter().map(|entry| (SegmentIndex(entry.segment.get()), entry.entry)).collect())
}

/// KiB written over the volume's lifetime, from the journal of the hot node log.
pub fn lifetime_kib(journal: &[u8]) -> u64 {
    let half = |at| word(journal, at).map_or(0, u64::from);
    half(2) | half(6) << 32
}

const _: () = {
    assert!(size_of::<SummaryEntry>() == 7);
    assert!(size_of::<NatJournalEntry>() == 13);
    assert!(size_of::<SitJournalEntry>() == 78);
    assert!(size_of::<SummaryFooter>() == FOOTER_BYTES);
    assert!(SummaryView::journal_start(4096) == 3584 && SummaryView::journal_bytes(4096) == 507);
    assert!(SummaryView::journal_start(16384) == 14336 && SummaryView::journal_bytes(16384) == 2043);
    assert!(nat_journal_room(507) == 38 && sit_journal_room(507) == 6);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_are_no_longer_than_their_room() {
        let mut journal = vec![0; 507];
        (journal[0], journal[2], journal[6], journal[15]) = (2, 9, 1, 7);
        let entries = nat_journal(&journal).unwrap();
        assert_eq!(entries.iter().map(|(nid, _)| nid.0).collect::<Vec<_>>(), [9, 7]);
        journal[0] = 38;
        assert_eq!(nat_journal(&journal).unwrap().len(), 38);
        assert!(sit_journal(&journal).is_none());
        journal[0] = 39;
        assert!(nat_journal(&journal).is_none() && nat_journal(&[]).is_none());
    }
}
