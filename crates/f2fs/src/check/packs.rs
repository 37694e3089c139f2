//! Checks both checkpoint packs.

use std::collections::BTreeSet;

use nandkit_units::{Cause, is_zeroed};

use super::batch;
use super::report::{Draft, FindingSubject, WHOLE_VOLUME, at};
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::findings::{Defect, FindingKind};
use crate::ids::{BlockAddress, NodeId};
use crate::layout::checkpoint::{LOGS_PER_KIND, NO_SEGMENT, OrphanTail, flag};
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, Features, Geometry, OrphanBlock};
use crate::open::{Pack, decode_state, read_pack, whole_block};

/// The number of logs used on a volume with the feature `ro`.
const LOGS_USED: usize = 3;

/// Reads both packs and decodes the one in use. Returns `None`, and reports it, if neither is
/// usable.
pub(super) fn check(blocks: &dyn Blocks, report: &mut Draft) -> Option<(Pack, CheckpointState)> {
    let start = blocks.geometry().checkpoint_address;
    let starts = [Some(start), start.checked_add(BLOCKS_PER_SEGMENT)];
    let (mut packs, mut emptied) = (Vec::new(), Vec::new());
    for start in starts.into_iter().flatten() {
        let mut why = Vec::new();
        match read_pack(blocks, Some(start), &mut |finding| why.push(finding)) {
            Ok(Some(pack)) => packs.push(pack),
            Ok(None) if is_empty(blocks, start) => emptied.push(start),
            Ok(None) => not_whole(blocks, start, why, report),
            Err(error) => report.fault(FindingKind::Unreadable, at(start), || format!("a checkpoint pack: {error}")),
        }
    }
    // Compare by difference, since versions may wrap; with equal versions the first pack wins.
    if let [first, second] = packs.as_slice()
        && second.head.version.get().wrapping_sub(first.head.version.get()).cast_signed() > 0
    {
        packs.swap(0, 1);
    }
    let mut packs = packs.into_iter();
    let Some(used) = packs.next() else {
        report.fault(FindingKind::Checkpoint, at(start), || "no checkpoint pack can be used".into());
        return None;
    };
    if let Some(other) = packs.next().filter(|other| other.head.version.get() != 0) {
        check_other(blocks, &other, report);
    }
    for start in emptied {
        check_emptied(blocks, start, &used, report);
    }
    let mut told = Vec::new();
    let state = decode_state(blocks, &used, &mut |finding| told.push(finding));
    told.into_iter().for_each(|finding| report.take(finding));
    let state = match state {
        Ok(state) => state?,
        Err(error) => {
            report.fault(FindingKind::Unreadable, at(used.start), || format!("the checkpoint pack in use: {error}"));
            return None;
        }
    };
    check_head(blocks, &used, report);
    check_orphans(blocks, &used, &state, report);
    Some((used, state))
}

/// Whether a pack's first block is all zeroes.
fn is_empty(blocks: &dyn Blocks, start: BlockAddress) -> bool {
    batch::one(blocks, Cause::Metadata, start).is_ok_and(|block| is_zeroed(&block))
}

/// Checks a pack whose first block is empty. mkfs.f2fs and resize.f2fs leave the unused pack like
/// that (f2fs-tools, `resize.c`, `rebuild_checkpoint`). It is damage only if the rest of its
/// segment holds the end of a newer checkpoint than the one in use.
fn check_emptied(blocks: &dyn Blocks, start: BlockAddress, used: &Pack, report: &mut Draft) {
    let newest = used.head.version.get();
    let places = (1..BLOCKS_PER_SEGMENT).filter_map(|number| Some((start.checked_add(number)?, ())));
    let segment = batch::read(blocks, Cause::Metadata, places.collect());
    let versions = segment.iter().filter_map(|had| Some(whole_block(had.block.as_ref().ok()?).ok()?.0.version.get()));
    let newer = versions.filter(|version| version.wrapping_sub(newest).cast_signed() > 0).max();
    if let Some(version) = newer {
        report.fault(FindingKind::Checkpoint, at(start), || {
            format!("the checkpoint pack of version {version} lost its first block; version {newest} is in use")
        });
    }
}

/// Reports a pack that is not valid. A power cut leaves such a pack, unless its last block, which
/// is written last, is there; the pack that was here before has an older last block than the new
/// first block.
fn not_whole(blocks: &dyn Blocks, start: BlockAddress, why: Vec<Defect>, report: &mut Draft) {
    let block = |at: Option<BlockAddress>| at.and_then(|at| batch::one(blocks, Cause::Metadata, at).ok());
    let first = block(Some(start));
    let head = first.as_deref().and_then(CheckpointHead::of_block);
    let last = head.and_then(|head| block(start.checked_add(head.pack_blocks.get().clamp(1, BLOCKS_PER_SEGMENT) - 1)));
    let version = |block: Option<&[u8]>| block.and_then(CheckpointHead::of_block).map(|head| head.version.get());
    let same = version(first.as_deref()).is_some() && version(first.as_deref()) == version(last.as_deref());
    let whole =
        |block: Option<&[u8]>| block.and_then(|block| whole_block(block).ok()).map(|(head, _)| head.version.get());
    let ended = match (whole(first.as_deref()), whole(last.as_deref())) {
        (Some(first), Some(last)) => first.wrapping_sub(last).cast_signed() < 0,
        (_, last) => last.is_some(),
    };
    let why = why.into_iter().next().map_or_else(String::new, |finding| finding.detail);
    if same || ended {
        report.fault(FindingKind::Checkpoint, at(start), || format!("one of two checkpoint packs is damaged: {why}"));
    } else {
        report.harmless(FindingKind::Checkpoint, at(start), || {
            format!("one of two checkpoint packs is not valid, as a cut leaves it: {why}")
        });
    }
}

/// Checks that the unused pack can be decoded, should it be needed.
fn check_other(blocks: &dyn Blocks, other: &Pack, report: &mut Draft) {
    let mut told = Vec::new();
    let decoded = decode_state(blocks, other, &mut |finding| told.push(finding));
    for finding in told {
        let detail = format!("the unused checkpoint pack: {}", finding.detail);
        report.take(Defect { detail, at: finding.at.or(Some(other.start)), ..finding });
    }
    if let Err(error) = decoded {
        report.fault(FindingKind::Unreadable, at(other.start), || format!("the unused checkpoint pack: {error}"));
    }
}

/// Whether the blocks for users and the withheld ones fit in the main area and leave the spare that
/// a writer needs (super.c, `f2fs_sanity_check_ckpt`).
pub(super) fn spare_fits(head: &CheckpointHead, geometry: &Geometry) -> bool {
    let main = u64::from(geometry.main_segments);
    // Segments after the last whole zone count as the users' (f2fs-mkfs.md, "Geometry").
    let zone = u64::from(geometry.segments_per_section) * u64::from(geometry.sections_per_zone);
    let (user, reserved, spare) =
        (head.user_blocks.get(), head.reserved_segments.get(), head.overprovision_segments.get());
    let all = user.div_ceil(u64::from(BLOCKS_PER_SEGMENT)).saturating_add(spare.into());
    // A volume that is never written needs no spare.
    let read_only = geometry.features.has(Features::READ_ONLY);
    let most = main.saturating_add(read_only.into()).saturating_mul(u64::from(BLOCKS_PER_SEGMENT));
    reserved <= spare && (read_only || reserved > 0) && user > 0 && user < most && all < main.saturating_add(zone)
}

/// Checks fields that decoding does not need.
fn check_head(blocks: &dyn Blocks, pack: &Pack, report: &mut Draft) {
    let (geometry, head) = (blocks.geometry(), &pack.head);
    let subject = at(pack.start);
    let mut fault = |detail: String| report.fault(FindingKind::Checkpoint, subject, || detail);
    let size = geometry.block_size();
    let end = pack.start.checked_add(head.pack_blocks.get().saturating_sub(1));
    if let Some(last) = end.and_then(|end| batch::one(blocks, Cause::Metadata, end).ok())
        && pack.bytes.get(..size) != Some(&last)
    {
        fault("the first and the last block of the checkpoint pack differ".into());
    }
    if !spare_fits(head, geometry) {
        let (user, main) = (head.user_blocks.get(), geometry.main_segments);
        let (reserved, spare) = (head.reserved_segments.get(), head.overprovision_segments.get());
        fault(format!(
            "{user} blocks for users, {spare} spare segments, {reserved} of them reserved, in a main area of {main} segments"
        ));
    }
    let known = flag::RESIZING * 2 - 1;
    if head.flags.get() & !known != 0 {
        fault(format!("flags {:#x}, some of them unknown", head.flags.get()));
    }
    if head.allocation_types.iter().any(|&kind| kind > 1) {
        fault(format!("ways of allocating {:?}; expected 0 or 1", head.allocation_types));
    }
    let unused = [&head.node_segments, &head.data_segments]
        .into_iter()
        .flat_map(|kind| kind.iter().skip(LOGS_USED).take(LOGS_PER_KIND));
    if !unused.clone().all(|segment| segment.get() == NO_SEGMENT) && !unused.clone().all(|segment| segment.get() == 0) {
        fault("segments of logs that do not exist".into());
    }
    check_flags(head, report, subject);
}

/// Checks what the volume's flags say of its state.
fn check_flags(head: &CheckpointHead, report: &mut Draft, subject: FindingSubject) {
    for (bit, text) in [
        (flag::ERROR, "an error stopped the volume's checkpoints: the last changes may be missing"),
        (flag::FSCK, "the volume is marked as needing fsck"),
        (flag::RESIZING, "a resize was in progress"),
    ] {
        if head.has(bit) {
            report.fault(FindingKind::State, subject, || text.into());
        }
    }
    // Linux sets this mark whenever it mounts a volume with quota files but without quotas.
    if head.has(flag::QUOTA_NEEDS_FSCK) {
        report.harmless(FindingKind::State, subject, || "the quota files are marked as needing fsck".into());
    }
    if head.has(flag::DISABLED) {
        report.harmless(FindingKind::State, subject, || {
            "checkpoints were disabled: later changes are not part of the volume".into()
        });
    }
    if !head.has(flag::UNMOUNTED) {
        report.harmless(FindingKind::State, subject, || "the volume was not unmounted".into());
    }
}

/// Checks the orphan blocks and the inodes in them.
fn check_orphans(blocks: &dyn Blocks, pack: &Pack, state: &CheckpointState, report: &mut Draft) {
    let geometry = blocks.geometry();
    let first = 1 + geometry.checkpoint_payload;
    let count = pack.head.summaries_start.get().saturating_sub(first);
    if pack.head.has(flag::ORPHANS) != (count > 0) || pack.head.summaries_start.get() < first {
        report.fault(FindingKind::Checkpoint, at(pack.start), || {
            let says = if pack.head.has(flag::ORPHANS) { "has" } else { "has no" };
            format!("the checkpoint {says} orphan blocks; there is room for {count}")
        });
        return;
    }
    for number in 0..count.min(BLOCKS_PER_SEGMENT) {
        let Some(here) = pack.start.checked_add(first + number) else { break };
        let tail = batch::one(blocks, Cause::Metadata, here).ok().and_then(|block| OrphanBlock(&block).tail());
        let Some(OrphanTail { index, count: of, .. }) = tail else { continue };
        if u32::from(index.get()) != number + 1 || u32::from(of.get()) != count {
            report.fault(FindingKind::Checkpoint, at(here), || {
                format!(
                    "an orphan block claims to be {} of {}; expected {} of {count}",
                    index.get(),
                    of.get(),
                    number + 1
                )
            });
        }
    }
    let mut seen = BTreeSet::new();
    for orphan in &state.orphans {
        if *orphan <= NodeId::ROOT || !seen.insert(*orphan) {
            report.fault(FindingKind::Checkpoint, at(pack.start), || {
                format!("the checkpoint lists inode {} as deleted but open, or lists it twice", orphan.0)
            });
        }
    }
    if !state.orphans.is_empty() {
        let number = state.orphans.len();
        report.harmless(FindingKind::State, WHOLE_VOLUME, || {
            format!("{number} inodes were deleted but still open: the next mount frees them")
        });
    }
    if geometry.features.has(Features::READ_ONLY) && !state.orphans.is_empty() {
        report.fault(FindingKind::Checkpoint, at(pack.start), || "deleted inodes on a read-only volume".into());
    }
}
