//! Reads summaries and journals of a pack, compact or normal (f2fs.md, "Summaries and journals").

use nandkit_units::Cause;
use nandkit_vfs::Result;

use super::Pack;
use crate::blocks::Blocks;
use crate::checkpoint_state::{LogState, SummaryBlock};
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::{Log, NodeId, SegmentIndex};
use crate::layout::checkpoint::flag;
use crate::layout::summary::{self, FOOTER_BYTES, SummaryView, nat_journal, sit_journal, summary_entries};
use crate::layout::{BLOCKS_PER_SEGMENT, NatEntry, SitEntry, SummaryEntry};

/// The summaries and journals of a pack.
#[derive(Debug, Default)]
pub struct PackSummaries {
    pub summaries: [SummaryBlock; Log::COUNT],
    pub nat_journal: Vec<(NodeId, NatEntry)>,
    pub sit_journal: Vec<(SegmentIndex, SitEntry)>,
    pub lifetime_kib: u64,
}

/// Reads the summaries of a pack. Returns `None` if a journal is damaged: without the NAT's
/// journal, nodes would be read from old addresses. Errors: `Device`, `Corrupt` (cut short).
pub fn read(
    blocks: &(impl Blocks + ?Sized),
    pack: &Pack,
    logs: &[LogState; Log::COUNT],
    findings: Defects<'_>,
) -> Result<Option<PackSummaries>> {
    let mut pack_summaries = PackSummaries::default();
    let (nat, sit) = match pack.head.has(flag::COMPACT_SUMMARIES) {
        true => read_compact(blocks, pack, logs, &mut pack_summaries)?,
        false => read_normal(blocks, pack, &mut pack_summaries)?,
    };
    if pack.head.has(flag::UNMOUNTED | flag::FASTBOOT) {
        for (number, log) in [Log::HotNode, Log::WarmNode, Log::ColdNode].into_iter().enumerate() {
            let block = block_from_end(blocks, pack, 4 - number as u32)?;
            let view = SummaryView(block.get(..blocks.geometry().summary_bytes()).unwrap_or_default());
            if log == Log::HotNode {
                pack_summaries.lifetime_kib = summary::lifetime_kib(view.journal());
            }
            set(&mut pack_summaries, log, view.entries().collect());
        }
    }
    let mut wrong = |name: &str| {
        let detail = format!("the {name}'s journal says that it has more entries than room");
        findings(Defect::new(FindingKind::Summary, detail).at(pack.start));
    };
    match (nat_journal(&nat), sit_journal(&sit)) {
        (Some(nat), Some(sit)) => {
            (pack_summaries.nat_journal, pack_summaries.sit_journal) = (nat, sit);
            Ok(Some(pack_summaries))
        }
        (nat, _) => {
            wrong(if nat.is_none() { "NAT" } else { "SIT" });
            Ok(None)
        }
    }
}

fn set(pack_summaries: &mut PackSummaries, log: Log, entries: Vec<SummaryEntry>) {
    if let Some(summary) = pack_summaries.summaries.get_mut(log.index()) {
        summary.entries = entries;
    }
}

/// The block `from_end` blocks before the end of the pack; 1 is the last.
fn block_from_end(blocks: &(impl Blocks + ?Sized), pack: &Pack, from_end: u32) -> Result<Vec<u8>> {
    read_block(blocks, pack, pack.head.pack_blocks.get().saturating_sub(from_end))
}

/// A block of the pack; zeros if the pack has no such block.
fn read_block(blocks: &(impl Blocks + ?Sized), pack: &Pack, number: u32) -> Result<Vec<u8>> {
    let mut block = vec![0; blocks.geometry().block_size()];
    let at = pack.start.checked_add(number).filter(|_| (1..pack.head.pack_blocks.get()).contains(&number));
    if let Some(at) = at {
        blocks.read(Cause::Metadata, at, &mut block)?;
    }
    Ok(block)
}

type Journals = (Vec<u8>, Vec<u8>);

/// Reads the normal form: one block per data log, before the node summaries if there are any.
fn read_normal(blocks: &(impl Blocks + ?Sized), pack: &Pack, pack_summaries: &mut PackSummaries) -> Result<Journals> {
    let behind = if pack.head.has(flag::UNMOUNTED | flag::FASTBOOT) { 4 } else { 1 };
    let (mut nat, mut sit) = (Vec::new(), Vec::new());
    for (number, log) in [Log::HotData, Log::WarmData, Log::ColdData].into_iter().enumerate() {
        let block = block_from_end(blocks, pack, behind + 3 - number as u32)?;
        let view = SummaryView(block.get(..blocks.geometry().summary_bytes()).unwrap_or_default());
        match log {
            Log::HotData => nat = view.journal().to_vec(),
            Log::ColdData => sit = view.journal().to_vec(),
            _ => {}
        }
        set(pack_summaries, log, view.entries().collect());
    }
    Ok((nat, sit))
}

/// Reads the compact form: both journals, then the entries of the data logs without gaps between
/// them (segment.c, `write_compacted_summaries`).
fn read_compact(
    blocks: &(impl Blocks + ?Sized),
    pack: &Pack,
    logs: &[LogState; Log::COUNT],
    pack_summaries: &mut PackSummaries,
) -> Result<Journals> {
    let size = blocks.geometry().block_size();
    let journal = SummaryView::journal_bytes(blocks.geometry().summary_bytes());
    let mut number = pack.head.summaries_start.get();
    let mut block = read_block(blocks, pack, number)?;
    let part = |block: &[u8], start: usize| block.get(start..start + journal).map(<[u8]>::to_vec).unwrap_or_default();
    let journals = (part(&block, 0), part(&block, journal));
    let mut at = 2 * journal;
    for log in [Log::HotData, Log::WarmData, Log::ColdData] {
        let Some(state) = logs.get(log.index()) else { continue };
        let wanted = if state.ssr { BLOCKS_PER_SEGMENT as usize } else { usize::from(state.next) };
        let mut entries = Vec::with_capacity(BLOCKS_PER_SEGMENT as usize);
        while entries.len() < wanted {
            let fits = (size - FOOTER_BYTES).saturating_sub(at) / size_of::<SummaryEntry>();
            if fits == 0 {
                number = number.saturating_add(1);
                block = read_block(blocks, pack, number)?;
                at = 0;
                continue;
            }
            let take = fits.min(wanted - entries.len());
            entries.extend(summary_entries(block.get(at..).unwrap_or_default()).take(take));
            at += take * size_of::<SummaryEntry>();
        }
        entries.resize(BLOCKS_PER_SEGMENT as usize, SummaryEntry::default());
        set(pack_summaries, log, entries);
    }
    Ok(journals)
}
