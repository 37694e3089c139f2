//! Facts about an F2FS volume: superblock, checkpoint, logs.

use nandkit_f2fs::Blocks;
use nandkit_f2fs::CheckpointState;
use nandkit_f2fs::WhichCopy;
use nandkit_f2fs::layout::checkpoint::flag;
use nandkit_f2fs::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, Features, Geometry, Superblock};
use nandkit_f2fs::{F2fs, Log};
use nandkit_units::format_bytes;
use nandkit_vfs::{FileSystem, Result};
use serde_json::{Value, json};

use super::recovery::Reader;
use crate::format::fact::{self, Fact, or_none};

/// The facts of superblock and checkpoint. Errors: those of reading the volume's counters.
pub(super) fn facts(volume: &F2fs<Reader>) -> Result<Vec<Fact>> {
    let ((superblock, copy), geometry) = (volume.superblock(), volume.geometry());
    let (state, pack) = volume.checkpoint_state();
    let status = volume.volume()?;
    let bytes = |blocks: u64| blocks.saturating_mul(status.block_size.into());
    let (total, free) = (bytes(status.blocks), bytes(status.blocks_free));
    let mut facts = of_superblock(superblock, copy, status.block_size);
    facts.extend(of_segments(superblock, geometry, status.block_size));
    facts.extend(of_rest(superblock));
    facts.extend(of_checkpoint(state, pack));
    facts.push(
        Fact::new("free", format!("{} of {}", format_bytes(free), format_bytes(total)), "free_bytes", free)
            .and("total_bytes", total),
    );
    Ok(facts)
}

/// Facts set when the volume was made.
fn of_superblock(superblock: &Superblock, copy: WhichCopy, block_size: u32) -> Vec<Fact> {
    let version = format!("{}.{}", superblock.major_version.get(), superblock.minor_version.get());
    let sector_size = 1_u64.checked_shl(superblock.log_sector_size.get()).unwrap_or(0);
    let shape = format!(
        "F2FS {version}, blocks of {}, sectors of {}",
        format_bytes(block_size.into()),
        format_bytes(sector_size)
    );
    let (label, uuid, features) = (superblock.label(), uuid_text(superblock.uuid), features(superblock.features()));
    let (made_by, last_kernel) = (text(&superblock.initial_version), text(&superblock.version));
    let which = if number(copy) == 1 { "the first" } else { "the second" };
    vec![
        Fact::new("file system", shape, "kind", super::NAME)
            .and("version", version)
            .and("block_size", block_size)
            .and("sector_size", sector_size),
        Fact::new("label", or_none(&label), "label", label),
        Fact::new("uuid", uuid.clone(), "uuid", uuid),
        Fact::new("features", or_none(&features.join(", ")), "features", features),
        Fact::new("superblock", which, "superblock", number(copy)),
        Fact::new("made by", or_none(&made_by), "made_by", made_by),
        Fact::new("last kernel", or_none(&last_kernel), "last_kernel", last_kernel),
    ]
}

/// Segments, sections, zones and areas.
fn of_segments(superblock: &Superblock, geometry: &Geometry, block_size: u32) -> Vec<Fact> {
    let segment = u64::from(block_size) * u64::from(BLOCKS_PER_SEGMENT);
    let areas = areas(superblock, geometry);
    let (sections, per_section) = (superblock.section_count.get(), geometry.segments_per_section);
    let shape = format!(
        "{} of {}, {} of them in the main area: {sections} sections of {per_section}, {} sections a zone",
        geometry.segments,
        format_bytes(segment),
        geometry.main_segments,
        geometry.sections_per_zone
    );
    let told = |(name, start, segments): &(&str, u32, u32)| format!("{name} {segments} at block {start:#x}");
    let area = |(name, start, segments): &(&str, u32, u32)| json!({"name": name, "block": start, "segments": segments});
    vec![
        Fact::new("segments", shape, "segments", geometry.segments)
            .and("blocks", geometry.block_count)
            .and("blocks_per_segment", BLOCKS_PER_SEGMENT)
            .and("segments_per_section", per_section)
            .and("sections_per_zone", geometry.sections_per_zone)
            .and("sections", sections),
        Fact::new(
            "areas",
            areas.iter().map(told).collect::<Vec<_>>().join(", "),
            "areas",
            areas.iter().map(area).collect::<Vec<_>>(),
        ),
    ]
}

/// Features that most volumes lack; lines appear only for present ones.
fn of_rest(superblock: &Superblock) -> Vec<Fact> {
    let (encoding, devices, [cold, hot]) = (encoding(superblock), devices(superblock), extensions(superblock));
    let quotas @ [user, group, project] = superblock.quota_inodes.map(|field| field.get());
    let told = |(path, segments): &(String, u32)| format!("{path} ({segments} segments)");
    let device = |(path, segments): &(String, u32)| json!({"path": path, "segments": segments});
    let mut facts = vec![
        Fact::member("encoding", encoding.clone()),
        Fact::member("cold_extensions", cold).and("hot_extensions", hot),
        Fact::member("quota_inodes", quotas.to_vec()),
        Fact::member("devices", devices.iter().map(device).collect::<Vec<_>>()),
    ];
    facts.extend(encoding.map(|encoding| Fact::line("encoding", encoding)));
    facts.extend(of_errors(superblock));
    if quotas != [0; 3] {
        let told = format!("inodes {user} (user), {group} (group), {project} (project)");
        facts.push(Fact::line("quota", told));
    }
    if !devices.is_empty() {
        facts.push(Fact::line("devices", devices.iter().map(told).collect::<Vec<_>>().join(", ")));
    }
    facts
}

/// Errors that Linux recorded in the superblock.
fn of_errors(superblock: &Superblock) -> Vec<Fact> {
    let (stops, errors) = (superblock.stop_reasons(), superblock.errors());
    let object = |(reason, count): &(String, u8)| json!({"reason": reason, "count": count});
    let mut facts = vec![
        Fact::member("stop_reasons", stops.iter().map(object).collect::<Vec<_>>()),
        Fact::member("errors", errors.clone()),
    ];
    if !stops.is_empty() {
        let told: Vec<_> = stops.iter().map(|(reason, count)| format!("{reason} ({count} times)")).collect();
        facts.push(Fact::line("checkpoints stopped", told.join(", ")));
    }
    if !errors.is_empty() {
        facts.push(Fact::line("errors met", errors.join(", ")));
    }
    facts
}

/// The checkpoint: several lines, and one JSON object.
fn of_checkpoint(state: &CheckpointState, pack: WhichCopy) -> Vec<Fact> {
    let head = &state.head;
    let mut facts = of_head(state, pack);
    facts.extend(of_counters(head, state));
    let logs: Vec<_> = Log::ALL.into_iter().filter_map(|log| Some((log, state.logs.get(log.index())?))).collect();
    let object = |(log, state): &(Log, &nandkit_f2fs::LogState)| json!({"name": log.to_string(), "segment": state.segment.0, "next_block": state.next, "ssr": state.ssr});
    facts.push(Fact::member("logs", logs.iter().map(object).collect::<Vec<_>>()));
    let object: Value = fact::json(&facts);
    for fact in &mut facts {
        fact.members.clear();
    }
    facts.retain(|fact| fact.text.is_some());
    facts.extend(logs.iter().map(|(log, state)| {
        let how = if state.ssr { ", filling gaps" } else { "" };
        Fact::line("log", format!("{log}: block {} of segment {}{how}", state.next, state.segment.0))
    }));
    facts.push(Fact::member("checkpoint", object));
    facts
}

fn of_head(state: &CheckpointState, pack: WhichCopy) -> Vec<Fact> {
    let head = &state.head;
    let names = [
        (flag::UNMOUNTED, "unmounted"),
        (flag::ORPHANS, "orphans"),
        (flag::COMPACT_SUMMARIES, "compact_summaries"),
        (flag::ERROR, "error"),
        (flag::FSCK, "fsck"),
        (flag::FASTBOOT, "fastboot"),
        (flag::CRC_RECOVERY, "crc_recovery"),
        (flag::NAT_BITS, "nat_bits"),
        (flag::TRIMMED, "trimmed"),
        (flag::NO_CRC_RECOVERY, "no_crc_recovery"),
        (flag::LARGE_NAT_BITMAP, "large_nat_bitmap"),
        (flag::QUOTA_NEEDS_FSCK, "quota_need_fsck"),
        (flag::DISABLED, "disabled"),
        (flag::DISABLED_QUICK, "disabled_quick"),
        (flag::RESIZING, "resizing"),
    ];
    let flags: Vec<&str> = names.iter().filter(|(bit, _)| head.has(*bit)).map(|(_, name)| *name).collect();
    let which = if number(pack) == 1 { "first" } else { "second" };
    let version = head.version.get();
    vec![
        Fact::new("checkpoint", format!("version {version}, in the {which} pack"), "version", version)
            .and("pack", number(pack)),
        Fact::new("flags", or_none(&flags.join(", ")), "flags", flags),
    ]
}

fn of_counters(head: &CheckpointHead, state: &CheckpointState) -> Vec<Fact> {
    let (valid, user) = (head.valid_blocks.get(), head.user_blocks.get());
    let (nodes, inodes, orphans) = (head.valid_nodes.get(), head.valid_inodes.get(), state.orphans.len());
    let (free, spare, kept) =
        (head.free_segments.get(), head.overprovision_segments.get(), head.reserved_segments.get());
    let (elapsed, written) = (head.elapsed_seconds.get(), state.lifetime_kib);
    let blocks = format!("{valid} of {user} used; {nodes} nodes, {inodes} inodes, {orphans} orphans");
    let segments = format!("{free} segments free, {spare} for overprovision, {kept} of them for cleaning");
    let life = format!("mounted for {elapsed} s, {} written", format_bytes(written.saturating_mul(1024)));
    vec![
        Fact::new("blocks", blocks, "valid_blocks", valid)
            .and("user_blocks", user)
            .and("nodes", nodes)
            .and("inodes", inodes)
            .and("orphans", orphans),
        Fact::new("spare", segments, "free_segments", free)
            .and("overprovision_segments", spare)
            .and("reserved_segments", kept),
        Fact::new("life", life, "elapsed_seconds", elapsed).and("lifetime_kib", written),
    ]
}

const fn number(copy: WhichCopy) -> u8 {
    match copy {
        WhichCopy::First => 1,
        WhichCopy::Second => 2,
    }
}

/// A text up to the first NUL or line feed.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| matches!(byte, 0 | b'\n')).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn uuid_text(uuid: [u8; 16]) -> String {
    let mut text = String::new();
    for (number, byte) in uuid.into_iter().enumerate() {
        text += if matches!(number, 4 | 6 | 8 | 10) { "-" } else { "" };
        text += &format!("{byte:02x}");
    }
    text
}

fn features(features: Features) -> Vec<String> {
    let known = Features::NAMES.iter().filter(|(feature, _)| features.has(*feature));
    let unknown = Some(features.unknown()).filter(|bits| *bits != 0).map(|bits| format!("{bits:#x}"));
    known.map(|(_, name)| (*name).to_owned()).chain(unknown).collect()
}

fn areas(superblock: &Superblock, geometry: &Geometry) -> Vec<(&'static str, u32, u32)> {
    let checkpoint = (geometry.checkpoint_address.0, superblock.segment_count_checkpoint.get());
    vec![
        ("checkpoint", checkpoint.0, checkpoint.1),
        ("SIT", superblock.sit_address.get(), geometry.sit_segments),
        ("NAT", superblock.nat_address.get(), geometry.nat_segments),
        ("SSA", superblock.ssa_address.get(), geometry.ssa_segments),
        ("main", geometry.main_address().0, geometry.main_segments),
    ]
}

/// The devices listed in the superblock; empty for a volume on one device.
fn devices(superblock: &Superblock) -> Vec<(String, u32)> {
    let all = superblock.devices.iter().map(|device| (text(&device.path), device.segments.get()));
    all.take_while(|(path, _)| !path.is_empty()).collect()
}

fn encoding(superblock: &Superblock) -> Option<String> {
    let strict = if superblock.encoding_flags.get() & 1 != 0 { ":strict" } else { "" };
    match superblock.encoding.get() {
        0 => None,
        1 => Some(format!("utf8{strict}")),
        other => Some(format!("number {other}{strict}")),
    }
}

/// Extensions of cold and of hot files; the list has cold ones first.
fn extensions(superblock: &Superblock) -> [Vec<String>; 2] {
    let cold = usize::try_from(superblock.extension_count.get()).unwrap_or(usize::MAX);
    let hot = usize::from(superblock.hot_extension_count);
    let list = |skip: usize, count: usize| -> Vec<String> {
        superblock.extensions.iter().skip(skip).take(count).map(|name| text(name)).collect()
    };
    [list(0, cold), list(cold, hot)]
}
