//! What an F2FS volume says of itself: superblock, checkpoint, logs.

use nandkit_f2fs::checkpoint_state::CheckpointState;
use nandkit_f2fs::layout::checkpoint::flag;
use nandkit_f2fs::layout::{BLOCKS_PER_SEGMENT, Features, Geometry, Superblock};
use nandkit_f2fs::open::Copy;
use nandkit_f2fs::{F2fs, Log};
use nandkit_vfs::FileSystem;

use super::recovery::Reader;

/// An F2FS volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct F2fsInfo {
    /// The label; empty for none.
    pub label: String,
    /// The identity, as `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    pub uuid: String,
    /// Version of the format: `1.16`.
    pub version: String,
    /// The kernel on which it was made, as mkfs.f2fs tells.
    pub made_by: String,
    /// The kernel that mounted or checked it last.
    pub last_kernel: String,
    /// Its features' names as mkfs.f2fs has them; bits without a name as a number.
    pub features: Vec<String>,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of a sector, as the superblock has it.
    pub sector_size: u64,
    /// Blocks of all devices.
    pub blocks: u64,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Segments of all areas.
    pub segments: u32,
    /// Segments of a section.
    pub segments_per_section: u32,
    /// Sections of a zone.
    pub sections_per_zone: u32,
    /// Sections of the main area.
    pub sections: u32,
    /// The areas in their order: name, first block, segments.
    pub areas: Vec<(&'static str, u32, u32)>,
    /// The superblock in use: 1 or 2.
    pub superblock: u8,
    /// The devices, where there are several: path and segments.
    pub devices: Vec<(String, u32)>,
    /// Encoding of casefolded names; `None` without one.
    pub encoding: Option<String>,
    /// Extensions of files that are written seldom, and of those that are written often.
    pub extensions: [Vec<String>; 2],
    /// Inodes of the quota files: user, group, project; 0 for none.
    pub quota_inodes: [u32; 3],
    /// The checkpoint.
    pub checkpoint: CheckpointInfo,
    /// Bytes that files and nodes can use, in all.
    pub total_bytes: u64,
    /// Of these, free.
    pub free_bytes: u64,
}

/// A checkpoint of an F2FS volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// One more with each checkpoint.
    pub version: u64,
    /// The pack in use: 1 or 2.
    pub pack: u8,
    /// Names of its flags.
    pub flags: Vec<&'static str>,
    /// Seconds for which it was mounted, all mounts together.
    pub elapsed_seconds: u64,
    /// KiB written over the volume's life, as far as Linux counted.
    pub lifetime_kib: u64,
    /// Blocks that users may have.
    pub user_blocks: u64,
    /// Blocks in use.
    pub valid_blocks: u64,
    /// Nodes in use.
    pub nodes: u32,
    /// Inodes among them.
    pub inodes: u32,
    /// Inodes without a name that were open.
    pub orphans: usize,
    /// Segments without a valid block that no log has.
    pub free_segments: u32,
    /// Segments that users do not get.
    pub overprovision_segments: u32,
    /// Of these, kept for cleaning.
    pub reserved_segments: u32,
    /// The logs.
    pub logs: Vec<LogInfo>,
}

/// Where a log of an F2FS volume writes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogInfo {
    /// `hot data`.
    pub name: String,
    /// Its segment of the main area.
    pub segment: u32,
    /// Its next block there.
    pub next: u16,
    /// Whether it fills gaps of a used segment (SSR) instead of an empty one (LFS).
    pub ssr: bool,
}

/// What a mounted volume says of itself.
pub(crate) fn info(volume: &F2fs<Reader>) -> Result<F2fsInfo, String> {
    use nandkit_f2fs::blocks::Blocks;
    let ((superblock, copy), geometry) = (volume.superblock(), volume.geometry());
    let (state, pack) = volume.checkpoint();
    let status = volume.volume().map_err(|error| error.to_string())?;
    let bytes = |blocks: u64| blocks.saturating_mul(status.block_size.into());
    let sections = superblock.section_count.get();
    Ok(F2fsInfo {
        label: superblock.label(),
        uuid: uuid_text(superblock.uuid),
        version: format!("{}.{}", superblock.major_version.get(), superblock.minor_version.get()),
        made_by: text(&superblock.initial_version),
        last_kernel: text(&superblock.version),
        features: features(superblock.features()),
        block_size: status.block_size,
        sector_size: 1_u64.checked_shl(superblock.log_sector_size.get()).unwrap_or(0),
        blocks: geometry.block_count,
        segment_blocks: BLOCKS_PER_SEGMENT,
        segments: geometry.segments,
        segments_per_section: geometry.segments_per_section,
        sections_per_zone: geometry.sections_per_zone,
        sections,
        areas: areas(superblock, geometry),
        superblock: number(copy),
        devices: devices(superblock),
        encoding: encoding(superblock),
        extensions: extensions(superblock),
        quota_inodes: superblock.quota_inodes.map(|field| field.get()),
        checkpoint: checkpoint(state, number(pack)),
        total_bytes: bytes(status.blocks),
        free_bytes: bytes(status.blocks_free),
    })
}

const fn number(copy: Copy) -> u8 {
    match copy {
        Copy::First => 1,
        Copy::Second => 2,
    }
}

/// A text that ends at the first NUL or line.
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

/// The devices that the superblock names; none of a volume on one.
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

/// Cold ones first in the list, then hot ones.
fn extensions(superblock: &Superblock) -> [Vec<String>; 2] {
    let cold = usize::try_from(superblock.extension_count.get()).unwrap_or(usize::MAX);
    let hot = usize::from(superblock.hot_extension_count);
    let list = |skip: usize, count: usize| -> Vec<String> {
        superblock.extensions.iter().skip(skip).take(count).map(|name| text(name)).collect()
    };
    [list(0, cold), list(cold, hot)]
}

fn checkpoint(state: &CheckpointState, pack: u8) -> CheckpointInfo {
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
    let log = |log: Log| {
        let state = state.logs.get(log.index())?;
        Some(LogInfo { name: log.to_string(), segment: state.segment.0, next: state.next, ssr: state.ssr })
    };
    CheckpointInfo {
        version: head.version.get(),
        pack,
        flags: names.iter().filter(|(bit, _)| head.has(*bit)).map(|(_, name)| *name).collect(),
        elapsed_seconds: head.elapsed_seconds.get(),
        lifetime_kib: state.lifetime_kib,
        user_blocks: head.user_blocks.get(),
        valid_blocks: head.valid_blocks.get(),
        nodes: head.valid_nodes.get(),
        inodes: head.valid_inodes.get(),
        orphans: state.orphans.len(),
        free_segments: head.free_segments.get(),
        overprovision_segments: head.overprovision_segments.get(),
        reserved_segments: head.reserved_segments.get(),
        logs: Log::ALL.into_iter().filter_map(log).collect(),
    }
}
