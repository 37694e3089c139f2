//! Chooses between the two checkpoint packs and decodes the one in use (f2fs.md, "Checkpoint
//! pack").

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, Result};

use super::{Pack, WhichCopy, summaries};
use crate::blocks::Blocks;
use crate::checkpoint_state::{CheckpointState, LogState, NatBits};
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::{BlockAddress, Log, NodeId, SegmentIndex};
use crate::layout::checkpoint::flag;
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, Geometry, OrphanBlock, word};

/// Chooses the later of two valid packs, by the difference of their versions, which may wrap.
pub fn choose(blocks: &(impl Blocks + ?Sized), findings: Defects<'_>) -> Result<(Pack, WhichCopy)> {
    let start = blocks.geometry().checkpoint_address;
    let mut why = Vec::new();
    let mut lost = None;
    let mut read = |start| match read_pack(blocks, start, &mut |finding| why.push(finding)) {
        // A pack may be on sectors that the medium lost; Linux then takes the other one
        // (checkpoint.c, `validate_checkpoint`).
        Err(error) => {
            why.push(Defect::new(FindingKind::Checkpoint, error.to_string()));
            lost = Some(error);
            None
        }
        Ok(pack) => pack,
    };
    let first = read(Some(start));
    let second = read(start.checked_add(BLOCKS_PER_SEGMENT));
    let later =
        |one: &Pack, other: &Pack| one.head.version.get().wrapping_sub(other.head.version.get()).cast_signed() > 0;
    let chosen = match (first, second) {
        (Some(first), Some(second)) if later(&second, &first) => Some((second, WhichCopy::Second)),
        (Some(first), _) => Some((first, WhichCopy::First)),
        (None, Some(second)) => Some((second, WhichCopy::Second)),
        (None, None) => None,
    };
    // A new volume, or one cut off while a pack was written, has only one valid pack: that is a
    // note, not damage.
    if let Some(chosen) = chosen {
        for finding in why {
            let detail = format!("one of two checkpoint packs is not valid: {}", finding.detail);
            findings(Defect { kind: FindingKind::Note, detail, ..finding });
        }
        return Ok(chosen);
    }
    if let Some(error) = lost {
        return Err(error);
    }
    let first = why.into_iter().next().unwrap_or_else(|| Defect::new(FindingKind::Checkpoint, "no pack can be read"));
    let detail = format!("neither checkpoint pack is valid; the first: {}", first.detail);
    Err(Defect { detail, ..first }.into_error())
}

/// Reads a pack; returns `None`, and reports a finding, if it is not valid. Errors: `Device` only.
pub fn read_pack(
    blocks: &(impl Blocks + ?Sized),
    start: Option<BlockAddress>,
    findings: Defects<'_>,
) -> Result<Option<Pack>> {
    let geometry = blocks.geometry();
    let Some(start) = start else { return Ok(None) };
    let size = geometry.block_size();
    let mut wrong = |detail: String| {
        findings(Defect::new(FindingKind::Checkpoint, detail).at(start));
        Ok(None)
    };
    let mut bytes = vec![0; size * (1 + geometry.checkpoint_payload as usize)];
    match blocks.read(Cause::Metadata, start, &mut bytes) {
        Err(error) if error.kind == ErrorKind::Corrupt => return wrong(error.to_string()),
        read => read?,
    }
    let (head, checksum) = match whole_block(bytes.get(..size).unwrap_or_default()) {
        Ok(found) => found,
        Err(detail) => return wrong(detail),
    };
    let total = head.pack_blocks.get();
    if !(3..=BLOCKS_PER_SEGMENT).contains(&total) {
        return wrong(format!("a pack of {total} blocks; expected 3 to {BLOCKS_PER_SEGMENT}"));
    }
    let mut last = vec![0; size];
    let Some(end) = start.checked_add(total - 1) else { return wrong("a pack past the volume's end".into()) };
    blocks.read(Cause::Metadata, end, &mut last)?;
    match whole_block(&last) {
        Err(detail) => wrong(format!("its last block: {detail}")),
        Ok((tail, _)) if tail.version != head.version => {
            wrong(format!("its first block has version {}, its last {}", head.version.get(), tail.version.get()))
        }
        Ok(_) => Ok(Some(Pack { start, head, checksum, bytes })),
    }
}

/// The head and the checksum of a checkpoint block, if the checksum is correct.
pub(crate) fn whole_block(block: &[u8]) -> std::result::Result<(CheckpointHead, u32), String> {
    let head = CheckpointHead::of_block(block).ok_or("an empty block")?;
    let place = head.checksum_offset.get();
    match (head.stored_checksum(block), head.computed_checksum(block)) {
        (Some(stored), Some(computed)) if stored == computed => Ok((head, stored)),
        (Some(stored), Some(computed)) => {
            Err(format!("the checkpoint's checksum is {stored:#010x}; its bytes give {computed:#010x}"))
        }
        _ => Err(format!(
            "the checkpoint's checksum is at byte {place}; expected the last word, or one before the bitmaps"
        )),
    }
}

/// Decodes everything in a pack. Returns `None`, and reports a finding, if it is not usable.
/// Errors: `Device`, `Corrupt` (cut short).
pub fn decode_state(
    blocks: &(impl Blocks + ?Sized),
    pack: &Pack,
    findings: Defects<'_>,
) -> Result<Option<CheckpointState>> {
    let geometry = blocks.geometry();
    let decoded = bitmaps(geometry, pack).and_then(|maps| Ok((maps, logs(geometry, &pack.head)?)));
    let ((nat_map, sit_map), logs) = match decoded {
        Ok(decoded) => decoded,
        Err(detail) => {
            findings(Defect::new(FindingKind::Checkpoint, detail).at(pack.start));
            return Ok(None);
        }
    };
    let Some(found) = summaries::read(blocks, pack, &logs, findings)? else { return Ok(None) };
    Ok(Some(CheckpointState {
        head: pack.head,
        nat_map,
        sit_map,
        orphans: orphans(blocks, pack, findings)?,
        logs,
        summaries: found.summaries,
        nat_journal: found.nat_journal,
        sit_journal: found.sit_journal,
        lifetime_kib: found.lifetime_kib,
        nat_bits: nat_bits(blocks, pack)?,
    }))
}

type Maps = (Vec<u8>, Vec<u8>);

fn bitmaps(geometry: &Geometry, pack: &Pack) -> std::result::Result<Maps, String> {
    let head = &pack.head;
    for (name, have, blocks) in [
        ("SIT", head.sit_bitmap_bytes.get(), geometry.sit_blocks()),
        ("NAT", head.nat_bitmap_bytes.get(), geometry.nat_blocks()),
    ] {
        if have != blocks / 8 {
            return Err(format!("the {name}'s bitmap has {have} bytes; expected {} for {blocks} blocks", blocks / 8));
        }
    }
    let places = head.bitmap_places(geometry.checkpoint_payload, geometry.block_size());
    let map = |start: usize, bytes: u32| {
        let map = pack.bytes.get(start..).and_then(|rest| rest.get(..bytes as usize));
        map.map(<[u8]>::to_vec)
            .ok_or_else(|| format!("a bitmap of {bytes} bytes does not fit after byte {start} of the checkpoint"))
    };
    Ok((map(places.nat, head.nat_bitmap_bytes.get())?, map(places.sit, head.sit_bitmap_bytes.get())?))
}

fn logs(geometry: &Geometry, head: &CheckpointHead) -> std::result::Result<[LogState; Log::COUNT], String> {
    let mut logs = [LogState { segment: SegmentIndex(0), next: 0, ssr: false }; Log::COUNT];
    for (log, state) in Log::ALL.into_iter().zip(&mut logs) {
        let (segments, offsets, number) = match log.is_node() {
            true => (&head.node_segments, &head.node_offsets, log.index() - Log::HotNode.index()),
            false => (&head.data_segments, &head.data_offsets, log.index()),
        };
        let (segment, next) =
            (segments.get(number).map_or(0, |field| field.get()), offsets.get(number).map_or(0, |field| field.get()));
        if segment >= geometry.main_segments || u32::from(next) >= BLOCKS_PER_SEGMENT {
            let segments = geometry.main_segments;
            return Err(format!(
                "the {log} log is at block {next} of segment {segment}; expected a block below 512 of a segment below {segments}"
            ));
        }
        let ssr = head.allocation_types.get(log.index()).is_some_and(|&kind| kind != 0);
        *state = LogState { segment: SegmentIndex(segment), next, ssr };
    }
    Ok(logs)
}

fn orphans(blocks: &(impl Blocks + ?Sized), pack: &Pack, findings: Defects<'_>) -> Result<Vec<NodeId>> {
    let mut orphans = Vec::new();
    if !pack.head.has(flag::ORPHANS) {
        return Ok(orphans);
    }
    let first = 1 + blocks.geometry().checkpoint_payload;
    let end = pack.head.summaries_start.get().min(pack.head.pack_blocks.get());
    let mut block = vec![0; blocks.geometry().block_size()];
    for number in first..end {
        let Some(at) = pack.start.checked_add(number) else { break };
        blocks.read(Cause::Metadata, at, &mut block)?;
        match OrphanBlock(&block).inodes() {
            Some(inodes) => orphans.extend(inodes),
            None => {
                let detail = "an orphan block with more entries than it has room for";
                findings(Defect::new(FindingKind::Checkpoint, detail).at(at));
            }
        }
    }
    Ok(orphans)
}

/// The nat_bits at the end of the pack's segment, if they belong to this checkpoint.
fn nat_bits(blocks: &(impl Blocks + ?Sized), pack: &Pack) -> Result<Option<NatBits>> {
    let geometry = blocks.geometry();
    let (count, bitmap) = geometry.nat_bits_size();
    let room = BLOCKS_PER_SEGMENT.checked_sub(pack.head.pack_blocks.get()).filter(|&room| count <= room);
    let place = pack.start.checked_add(BLOCKS_PER_SEGMENT.saturating_sub(count));
    let (true, Some(_), Some(place)) = (pack.head.has(flag::NAT_BITS), room, place) else { return Ok(None) };
    let mut bytes = vec![0; count as usize * geometry.block_size()];
    blocks.read(Cause::Metadata, place, &mut bytes)?;
    let mark = word(&bytes, 0).zip(word(&bytes, 4)).map(|(low, high)| u64::from(low) | u64::from(high) << 32);
    if mark != Some(pack.head.version.get() | u64::from(pack.checksum) << 32) {
        return Ok(None);
    }
    let part = |start: usize| bytes.get(start..).and_then(|rest| rest.get(..bitmap)).map(<[u8]>::to_vec);
    Ok(part(8).zip(part(8 + bitmap)).map(|(full, empty)| NatBits { full, empty }))
}
