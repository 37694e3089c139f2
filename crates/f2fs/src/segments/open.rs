//! Loads the segments of a volume from its checkpoint.

use nandkit_cleaning::search::Cursor;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::dirty::DirtySegments;
use super::free::FreeMap;
use super::sit::{BLOCKS, Sit};
use super::ssa::{self, Entries, SummaryCache};
use super::{DirtyPages, OpenLog, Options, Segments, SpaceCounters, Summary, Usage};
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::ids::{Log, NodeId, SegmentIndex};
use crate::layout::checkpoint::flag;
use crate::layout::{BLOCKS_PER_SEGMENT, Geometry};

/// Blocks per request when the summary of a node log's segment is rebuilt.
const RUN: usize = 64;
/// The nid in the footer of a node (f2fs.md, "Nodes"): the footer's first word.
const FOOTER_BYTES: usize = crate::layout::node::FOOTER_BYTES;

impl Segments {
    /// Loads the segments of a checkpoint, with Linux's options. Errors: `Corrupt` (two logs in one
    /// segment, a log outside the main area or at a used block), `Device`. Cost: one pass over the
    /// table; 512 block reads for each node log whose summary is not in the pack.
    pub fn open(device: &dyn Blocks, state: &CheckpointState, sit: Sit) -> Result<Self> {
        let geometry = device.geometry();
        let mut logs = Vec::new();
        for log in Log::ALL {
            logs.push(open_log(device, state, &sit, log)?);
        }
        let logs: [OpenLog; Log::COUNT] =
            logs.try_into().map_err(|_| FsError::new(ErrorKind::Corrupt, "expected six logs"))?;
        for (index, log) in Log::ALL.into_iter().enumerate() {
            let segment = logs[index].segment;
            if logs[..index].iter().any(|other| other.segment == segment) {
                let detail = format!("the {log} log is in {segment}, where another log is; expected one of its own");
                return Err(FsError::new(ErrorKind::Corrupt, detail));
            }
        }
        let head = &state.head;
        let options = Options::of(geometry, head.reserved_segments.get(), head.has(flag::CRC_RECOVERY));
        let space = SpaceCounters::new(
            head.user_blocks.get(),
            head.valid_blocks.get(),
            head.valid_nodes.get(),
            head.valid_inodes.get(),
            geometry.nid_end(),
        );
        Ok(Self::assemble(geometry, sit, logs, options, space))
    }

    /// An empty volume whose logs start at these segments, for tests and for writing a volume from
    /// scratch. Errors: `InvalidArgument` (a segment outside the main area, or used twice).
    pub fn empty(
        geometry: &Geometry,
        at: [SegmentIndex; Log::COUNT],
        options: Options,
        space: SpaceCounters,
    ) -> Result<Self> {
        let mut sit = Sit::empty(geometry, true);
        for (index, log) in Log::ALL.into_iter().enumerate() {
            if at[index].0 >= geometry.main_segments || at[..index].contains(&at[index]) {
                let detail = format!("the {log} log in {}; expected a segment of its own", at[index]);
                return Err(FsError::new(ErrorKind::InvalidArgument, detail));
            }
            sit.set_kind(at[index], log);
        }
        let logs = at.map(|segment| OpenLog { segment, next: 0, ssr: false, entries: ssa::blank() });
        Ok(Self::assemble(geometry, sit, logs, options, space))
    }

    fn assemble(
        geometry: &Geometry,
        sit: Sit,
        logs: [OpenLog; Log::COUNT],
        options: Options,
        space: SpaceCounters,
    ) -> Self {
        let (segments, per_section) = (sit.segments(), sit.per_section());
        let free = FreeMap::new(segments, per_section, geometry.sections_per_zone);
        let mut all = Self {
            geometry: geometry.clone(),
            options,
            pages: DirtyPages::default(),
            space,
            free,
            dirty: DirtySegments::new(segments, per_section),
            logs,
            sit,
            summaries: SummaryCache::default(),
            held: Vec::new(),
            emptied: Default::default(),
            greedy_cursor: Cursor::default(),
            aged_target: None,
            collecting: None,
            data_hint: data_hint(geometry),
            usage: Usage::default(),
            faults: 0,
        };
        for segment in (0..segments).map(SegmentIndex) {
            let current = all.log_of(segment).is_some();
            let valid = all.sit.valid(segment);
            if valid > 0 || current {
                all.free.take(segment);
            }
            if !current && valid > 0 && valid < BLOCKS {
                all.dirty.locate(&all.sit, segment);
            }
        }
        all
    }
}

/// On a volume of several devices with sections of one segment, warm and cold data start on the
/// second device (gc.c, `f2fs_build_gc_manager`).
fn data_hint(geometry: &Geometry) -> Option<SegmentIndex> {
    let (&first, _) = geometry.devices.split_first()?;
    if geometry.devices.len() < 2 || geometry.segments_per_section > 1 {
        return None;
    }
    let before_main = geometry.segments.checked_sub(geometry.main_segments)?;
    let hint = first.checked_sub(before_main)?;
    (hint > 0 && hint < geometry.main_segments).then_some(SegmentIndex(hint))
}

fn open_log(device: &dyn Blocks, state: &CheckpointState, sit: &Sit, log: Log) -> Result<OpenLog> {
    let at = state.logs[log.index()];
    let refused = |detail: String| Err(FsError::new(ErrorKind::Corrupt, detail));
    if at.segment.0 >= sit.segments() || at.next >= BLOCKS {
        let segments = sit.segments();
        return refused(format!(
            "the {log} log is at block {} of {}; the main area has {segments} segments",
            at.next, at.segment
        ));
    }
    // Linux refuses such volumes too (segment.c, `sanity_check_curseg`).
    let used = if at.ssr { at.next..at.next + 1 } else { at.next..BLOCKS };
    if let Some(block) = used.into_iter().find(|&block| sit.is_valid(at.segment, block)) {
        return refused(format!(
            "the {log} log is at block {} of {}, but block {block} is in use",
            at.next, at.segment
        ));
    }
    let kind = sit.kind(at.segment);
    if kind.is_node() != log.is_node() && sit.valid(at.segment) > 0 {
        return refused(format!("the {log} log is in {}, which is of type {kind}", at.segment));
    }
    let entries = &state.summaries[log.index()].entries;
    let entries = match entries.len() {
        512 => entries.clone().into(),
        0 if log.is_node() => node_summary(device, at.segment)?,
        count => {
            return refused(format!("the summary of the {log} log has {count} entries; expected {BLOCKS_PER_SEGMENT}"));
        }
    };
    Ok(OpenLog { segment: at.segment, next: at.next, ssr: at.ssr, entries })
}

/// Rebuilds a summary from the footer of every block in the segment, valid or not (node.c,
/// `f2fs_restore_node_summary`).
fn node_summary(device: &dyn Blocks, segment: SegmentIndex) -> Result<Entries> {
    let geometry = device.geometry();
    let (mut entries, size) = (ssa::blank(), geometry.block_size());
    let mut buffer = vec![0; RUN * size];
    for (run, entries) in entries.chunks_mut(RUN).enumerate() {
        let start = geometry.segment_start(segment).0.wrapping_add((run * RUN) as u32);
        device.read(Cause::Metadata, crate::ids::BlockAddress(start), &mut buffer)?;
        for (entry, block) in entries.iter_mut().zip(buffer.chunks_exact(size)) {
            let nid = crate::layout::word(block, size - FOOTER_BYTES).unwrap_or(0);
            *entry = Summary::of_node(NodeId(nid)).into();
        }
    }
    Ok(entries)
}
