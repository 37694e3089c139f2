//! The areas of a volume of another size.

use crate::ids::NodeId;
use crate::layout::checkpoint::flag;
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, Geometry, Superblock};
use crate::mkfs::geometry::{spare, tables};

const BLOCKS: u64 = BLOCKS_PER_SEGMENT as u64;
/// The largest volume in bytes: 32-bit addresses of 4 KiB blocks.
pub(super) const VOLUME_MAX: u64 = 16 << 40;
/// The number of logs, each of which needs a segment.
const LOGS: u64 = 6;
/// Bytes for both version bitmaps in a checkpoint block, and those that the SIT's leaves for the
/// NAT's (f2fs_fs.h; f2fs-mkfs.md, "Geometry").
const BITMAPS_ROOM: u64 = 3900;
const NAT_BITMAP_MIN: u64 = 64;
const BLOCK_BYTES: u64 = 4096;

/// The number of segments in `bytes`.
pub(super) fn segments(superblock: &Superblock, bytes: u64) -> u64 {
    let blocks = (bytes / BLOCK_BYTES).min(1 << 32);
    blocks.saturating_sub(superblock.segment0_address.get().into()) / BLOCKS
}

/// The bytes that a volume of this many segments needs.
pub(super) fn bytes(superblock: &Superblock, segments: u64) -> u64 {
    (u64::from(superblock.segment0_address.get()) + segments * BLOCKS) * BLOCK_BYTES
}

/// A superblock with other areas, and what follows from it.
pub(super) struct Shape {
    pub superblock: Superblock,
    pub geometry: Geometry,
    overprovision: u64,
}

impl Shape {
    /// The shape for this many segments; the NAT has room for `highest`, the highest nid in use.
    /// `None` if the areas do not fit.
    pub fn of(old: &Superblock, head: &CheckpointHead, segments: u64, highest: u32) -> Option<Self> {
        let (sit, nat, payload) = tables_of(old, head, segments, highest)?;
        let before_ssa = 2 + sit + nat;
        let rest = segments.checked_sub(before_ssa)?;
        // One SSA block per segment; a larger SSA is kept unless the volume shrinks.
        let wanted = (rest + 1).div_ceil(BLOCKS);
        let grows = segments >= u64::from(old.segment_count.get());
        let ssa = if grows { wanted.max(old.segment_count_ssa.get().into()) } else { wanted };
        let main = rest.checked_sub(ssa)?;
        let (reserved, overprovision) = spare((main, main, main), None)?;
        // mkfs.f2fs requires at least this (f2fs-mkfs.md, "Geometry").
        if main < LOGS + reserved || main <= LOGS || main <= overprovision {
            return None;
        }
        let mut superblock = old.clone();
        let field = |value: u64| u32::try_from(value).ok();
        let start = u64::from(old.segment0_address.get());
        superblock.block_count = (start + segments * BLOCKS).into();
        superblock.segment_count = field(segments)?.into();
        superblock.segment_count_sit = field(sit)?.into();
        superblock.segment_count_nat = field(nat)?.into();
        superblock.segment_count_ssa = field(ssa)?.into();
        superblock.segment_count_main = field(main)?.into();
        superblock.section_count = field(main)?.into();
        superblock.nat_address = field(start + (2 + sit) * BLOCKS)?.into();
        superblock.ssa_address = field(start + before_ssa * BLOCKS)?.into();
        superblock.main_address = field(start + (before_ssa + ssa) * BLOCKS)?.into();
        superblock.checkpoint_payload = field(payload)?.into();
        superblock.checksum = superblock.computed_checksum().into();
        let geometry = Geometry::from_superblock(&superblock, &mut |_| ())?;
        geometry.nat_block(NodeId(highest))?;
        Some(Self { superblock, geometry, overprovision })
    }

    /// Blocks available to users.
    pub fn user_blocks(&self) -> u64 {
        u64::from(self.geometry.main_segments).saturating_sub(self.overprovision) * BLOCKS
    }
}

/// Segments of SIT and NAT and blocks of payload: those of a new volume of this size; when growing,
/// at least the existing ones.
fn tables_of(old: &Superblock, head: &CheckpointHead, segments: u64, highest: u32) -> Option<(u64, u64, u64)> {
    let large = head.has(flag::LARGE_NAT_BITMAP);
    let (mut sit, mut nat, mut payload) = tables(segments, large)?;
    let (old_sit, old_nat) = (u64::from(old.segment_count_sit.get()), u64::from(old.segment_count_nat.get()));
    if segments >= u64::from(old.segment_count.get()) {
        (sit, nat) = (sit.max(old_sit), nat.max(old_nat));
        payload = payload.max(old.checkpoint_payload.get().into());
    }
    let per_half = BLOCKS * 455;
    nat = nat.max(2 * (u64::from(highest) + 1).div_ceil(per_half));
    let (sit_bytes, nat_bytes) = (sit / 2 * 64, nat / 2 * 64);
    let fits = if large {
        sit_bytes + nat_bytes <= BITMAPS_ROOM + payload * BLOCK_BYTES
    } else if payload == 0 {
        sit_bytes + nat_bytes <= BITMAPS_ROOM && sit_bytes <= BITMAPS_ROOM - NAT_BITMAP_MIN
    } else {
        nat_bytes <= BITMAPS_ROOM && sit_bytes <= payload * BLOCK_BYTES
    };
    fits.then_some((sit, nat, payload))
}
