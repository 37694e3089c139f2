//! What `nandkit info` tells of an F2FS volume.

use nandkit_stack::image::{CheckpointInfo, F2fsInfo, LogInfo};
use nandkit_units::format_bytes;
use serde_json::{Value, json};

type Line = (&'static str, String);

fn or_none(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { text.to_owned() }
}

/// The volume in lines.
pub fn lines(volume: &F2fsInfo) -> Vec<Line> {
    let segment = u64::from(volume.block_size) * u64::from(volume.segment_blocks);
    let main = volume.areas.last().map_or(0, |(_, _, segments)| *segments);
    let mut lines = vec![
        (
            "file system",
            format!(
                "F2FS {}, blocks of {}, sectors of {}",
                volume.version,
                format_bytes(volume.block_size.into()),
                format_bytes(volume.sector_size)
            ),
        ),
        ("label", or_none(&volume.label)),
        ("uuid", volume.uuid.clone()),
        ("features", or_none(&volume.features.join(", "))),
        ("superblock", if volume.superblock == 1 { "the first" } else { "the second" }.to_owned()),
        ("made by", or_none(&volume.made_by)),
        ("last kernel", or_none(&volume.last_kernel)),
        (
            "segments",
            format!(
                "{} of {}, {main} of them in the main area: {} sections of {}, {} sections a zone",
                volume.segments,
                format_bytes(segment),
                volume.sections,
                volume.segments_per_section,
                volume.sections_per_zone
            ),
        ),
    ];
    let area = |(name, start, segments): &(&str, u32, u32)| format!("{name} {segments} at block {start:#x}");
    lines.push(("areas", volume.areas.iter().map(area).collect::<Vec<_>>().join(", ")));
    if let Some(encoding) = &volume.encoding {
        lines.push(("encoding", encoding.clone()));
    }
    let [user, group, project] = volume.quota_inodes;
    if [user, group, project] != [0; 3] {
        lines.push(("quota", format!("inodes {user} (user), {group} (group), {project} (project)")));
    }
    let device = |(path, segments): &(String, u32)| format!("{path} ({segments} segments)");
    if !volume.devices.is_empty() {
        lines.push(("devices", volume.devices.iter().map(device).collect::<Vec<_>>().join(", ")));
    }
    lines.extend(checkpoint_lines(&volume.checkpoint));
    lines.push(("free", format!("{} of {}", format_bytes(volume.free_bytes), format_bytes(volume.total_bytes))));
    lines
}

fn checkpoint_lines(checkpoint: &CheckpointInfo) -> Vec<Line> {
    let pack = if checkpoint.pack == 1 { "first" } else { "second" };
    let log = |log: &LogInfo| {
        let how = if log.ssr { ", filling gaps" } else { "" };
        ("log", format!("{}: block {} of segment {}{how}", log.name, log.next, log.segment))
    };
    let mut lines = vec![
        ("checkpoint", format!("version {}, in the {pack} pack", checkpoint.version)),
        ("flags", or_none(&checkpoint.flags.join(", "))),
        (
            "blocks",
            format!(
                "{} of {} used; {} nodes, {} inodes, {} orphans",
                checkpoint.valid_blocks,
                checkpoint.user_blocks,
                checkpoint.nodes,
                checkpoint.inodes,
                checkpoint.orphans
            ),
        ),
        (
            "spare",
            format!(
                "{} segments free, {} for overprovision, {} of them for cleaning",
                checkpoint.free_segments, checkpoint.overprovision_segments, checkpoint.reserved_segments
            ),
        ),
        (
            "life",
            format!(
                "mounted for {} s, {} written",
                checkpoint.elapsed_seconds,
                format_bytes(checkpoint.lifetime_kib.saturating_mul(1024))
            ),
        ),
    ];
    lines.extend(checkpoint.logs.iter().map(log));
    lines
}

/// The volume in JSON.
pub fn json(volume: &F2fsInfo) -> Value {
    let area = |(name, start, segments): &(&str, u32, u32)| json!({"name": name, "block": start, "segments": segments});
    let device = |(path, segments): &(String, u32)| json!({"path": path, "segments": segments});
    let [cold, hot] = &volume.extensions;
    json!({
        "kind": "f2fs",
        "label": volume.label,
        "uuid": volume.uuid,
        "version": volume.version,
        "made_by": volume.made_by,
        "last_kernel": volume.last_kernel,
        "features": volume.features,
        "block_size": volume.block_size,
        "sector_size": volume.sector_size,
        "blocks": volume.blocks,
        "blocks_per_segment": volume.segment_blocks,
        "segments": volume.segments,
        "segments_per_section": volume.segments_per_section,
        "sections_per_zone": volume.sections_per_zone,
        "sections": volume.sections,
        "areas": volume.areas.iter().map(area).collect::<Vec<_>>(),
        "superblock": volume.superblock,
        "devices": volume.devices.iter().map(device).collect::<Vec<_>>(),
        "encoding": volume.encoding,
        "cold_extensions": cold,
        "hot_extensions": hot,
        "quota_inodes": volume.quota_inodes,
        "checkpoint": checkpoint_json(&volume.checkpoint),
        "total_bytes": volume.total_bytes,
        "free_bytes": volume.free_bytes,
    })
}

fn checkpoint_json(checkpoint: &CheckpointInfo) -> Value {
    let log = |log: &LogInfo| json!({"name": log.name, "segment": log.segment, "next_block": log.next, "ssr": log.ssr});
    json!({
        "version": checkpoint.version,
        "pack": checkpoint.pack,
        "flags": checkpoint.flags,
        "elapsed_seconds": checkpoint.elapsed_seconds,
        "lifetime_kib": checkpoint.lifetime_kib,
        "user_blocks": checkpoint.user_blocks,
        "valid_blocks": checkpoint.valid_blocks,
        "nodes": checkpoint.nodes,
        "inodes": checkpoint.inodes,
        "orphans": checkpoint.orphans,
        "free_segments": checkpoint.free_segments,
        "overprovision_segments": checkpoint.overprovision_segments,
        "reserved_segments": checkpoint.reserved_segments,
        "logs": checkpoint.logs.iter().map(log).collect::<Vec<_>>(),
    })
}
