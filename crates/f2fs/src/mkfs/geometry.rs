//! The geometry of a new volume, by the formulas of mkfs.f2fs 1.15 (f2fs-mkfs.md, "Geometry").

use nandkit_units::format_bytes;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::MkfsOptions;
use crate::ids::Log;
use crate::layout::Features;

const SEGMENT_BYTES: u64 = 2 << 20;
const BLOCK_BYTES: u64 = 4096;
const BLOCKS_PER_SEGMENT: u64 = 512;
const SIT_ENTRIES: u64 = 55;
const NAT_ENTRIES: u64 = 455;
/// Bytes of the SIT's version bitmap in the largest volume (f2fs_fs.h, MAX_SIT_BITMAP_SIZE).
const SIT_BITMAP_MAX: u64 = 19_072;
/// Bytes for both version bitmaps in a checkpoint block.
const BITMAPS_ROOM: u64 = 3900;
/// The NAT's bitmap always gets at least this many bytes.
const NAT_BITMAP_MIN: u64 = 64;
/// Below this many segments of the main area, the best spare is searched in larger steps.
const SMALL_MAIN: u64 = 256;
/// The number of logs, each of which takes a section.
const LOGS: u64 = Log::COUNT as u64;
/// The largest volume in bytes, limited by 32-bit block addresses.
const VOLUME_MAX: u64 = 16 << 40;

/// Segment counts and addresses of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGeometry {
    /// Blocks of the device.
    pub block_count: u64,
    /// Address of segment 0.
    pub segment0_address: u64,
    /// All segments, starting with segment 0, in whole zones.
    pub segments: u64,
    /// Segments of the SIT, both copies.
    pub sit: u64,
    /// Segments of the NAT, both copies.
    pub nat: u64,
    /// Segments of the SSA.
    pub ssa: u64,
    /// Segments of the main area.
    pub main: u64,
    /// Sections of the main area.
    pub sections: u64,
    /// Zones of the main area.
    pub zones: u64,
    /// Segments after the SSA, not rounded down to zones.
    pub usable: u64,
    /// Checkpoint blocks after the first that hold bitmaps.
    pub checkpoint_payload: u64,
    /// Segments reserved for cleaning.
    pub reserved: u64,
    /// Segments withheld from users, including the reserved ones.
    pub overprovision: u64,
    /// The first segment of each log, by [`Log::index`].
    pub logs: [u64; Log::COUNT],
}

impl NewGeometry {
    /// The geometry of a volume on a device of `bytes`. Errors: `NoSpace`, with the smallest
    /// possible size; `InvalidArgument` above 16 TiB.
    pub fn of(bytes: u64, options: &MkfsOptions) -> Result<Self> {
        if bytes > VOLUME_MAX {
            let detail = format!("a volume of {}; F2FS ends at {}", format_bytes(bytes), format_bytes(VOLUME_MAX));
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        Self::shape(bytes, options).ok_or_else(|| {
            let needed = smallest(options).map_or_else(
                || "no size works with these sections, zones and spare".into(),
                |bytes| format!("the smallest with these options has {}", format_bytes(bytes)),
            );
            FsError::new(ErrorKind::NoSpace, format!("a volume of {} is too small; {needed}", format_bytes(bytes)))
        })
    }

    /// Blocks available to users. Segments after the last whole zone are left out where they would
    /// raise this to the size of the main area: fsck.f2fs and Linux refuse such volumes of
    /// mkfs.f2fs (super.c, `f2fs_sanity_check_ckpt`).
    pub const fn user_blocks(&self) -> u64 {
        let most = self.usable - self.overprovision;
        let has_spare = most < self.main;
        let segments = if has_spare { most } else { self.main - self.overprovision };
        segments * BLOCKS_PER_SEGMENT
    }

    /// Address of the main area.
    pub const fn main_address(&self) -> u64 {
        self.segment0_address + (self.segments_before_main()) * BLOCKS_PER_SEGMENT
    }

    const fn segments_before_main(&self) -> u64 {
        2 + self.sit + self.nat + self.ssa
    }

    /// The number of segments that the logs take.
    pub const fn logs_in_use(features: Features) -> u64 {
        if features.has(Features::READ_ONLY) { 2 } else { LOGS }
    }

    /// Computes the geometry; `None` if the volume is too small.
    fn shape(bytes: u64, options: &MkfsOptions) -> Option<Self> {
        let read_only = options.features.has(Features::READ_ONLY);
        let (zone, start) = (options.zone_segments(), options.start_sector.checked_mul(512)?);
        let zone_bytes = zone.checked_mul(SEGMENT_BYTES)?;
        let first = match read_only {
            true => 2 * BLOCK_BYTES,
            false => start.checked_add(2 * BLOCK_BYTES)?.div_ceil(zone_bytes).checked_mul(zone_bytes)? - start,
        };
        // Only whole sectors of 512 bytes count.
        let total = (bytes / 512 * 512).checked_sub(first)? / SEGMENT_BYTES;
        let segments = total / zone * zone;
        if total < 9 || segments < 9 {
            return None;
        }
        let (sit, nat, checkpoint_payload) = tables(segments, options.extended_node_bitmap)?;
        let before = 2 + sit + nat;
        let ssa = match read_only {
            true => 0,
            false => (segments.checked_sub(before)? + 1).div_ceil(BLOCKS_PER_SEGMENT),
        };
        let ssa = ssa + (before + ssa).next_multiple_of(zone) - (before + ssa);
        let before = before + ssa;
        let zones = (segments / zone).checked_sub(before / zone).filter(|zones| *zones > 0)?;
        let sections = zones * u64::from(options.sections_per_zone);
        let main = sections * u64::from(options.segments_per_section);
        let mut geometry = Self {
            block_count: bytes / BLOCK_BYTES,
            segment0_address: first / BLOCK_BYTES,
            segments,
            sit,
            nat,
            ssa,
            main,
            sections,
            zones,
            usable: total.checked_sub(before)?,
            checkpoint_payload,
            reserved: 0,
            overprovision: 0,
            logs: [0; Log::COUNT],
        };
        if !read_only {
            (geometry.reserved, geometry.overprovision) =
                spare((geometry.usable, geometry.main, sections), options.overprovision_percent)?;
        }
        let fits = main >= LOGS.min(Self::logs_in_use(options.features)) + geometry.reserved
            && zones > Self::logs_in_use(options.features)
            && geometry.usable > geometry.overprovision
            && (geometry.usable - geometry.overprovision < main || main > geometry.overprovision)
            && main <= u64::from(u32::MAX);
        geometry.logs = log_segments(&geometry, options);
        fits.then_some(geometry)
    }
}

/// SIT and NAT segments (both copies) and payload blocks that mkfs.f2fs gives a volume of this many
/// segments. `None` if it is too small.
pub(crate) fn tables(segments: u64, extended: bool) -> Option<(u64, u64, u64)> {
    let sit = 2 * segments.div_ceil(SIT_ENTRIES).div_ceil(BLOCKS_PER_SEGMENT);
    let (nat, payload) = nat_segments(segments, sit, extended)?;
    Some((sit, nat, payload))
}

/// NAT segments and payload blocks.
fn nat_segments(segments: u64, sit: u64, extended: bool) -> Option<(u64, u64)> {
    // NAT blocks if every block were a node.
    let all = (segments.checked_sub(2 + sit)? * BLOCKS_PER_SEGMENT).div_ceil(NAT_ENTRIES);
    let sit_bytes = (sit / 2 * 64).min(SIT_BITMAP_MAX);
    let halves = all.div_ceil(BLOCKS_PER_SEGMENT);
    if extended {
        let halves = (halves * 20 / 100).max(1);
        let over = (sit_bytes + 64 * halves).saturating_sub(BITMAPS_ROOM);
        return Some((2 * halves, over.div_ceil(BLOCK_BYTES)));
    }
    let (room, payload) = match sit_bytes > BITMAPS_ROOM - NAT_BITMAP_MIN {
        true => (BITMAPS_ROOM, sit_bytes.div_ceil(BLOCK_BYTES)),
        false => (BITMAPS_ROOM - sit_bytes, 0),
    };
    Some((2 * halves.min(room * 8 / BLOCKS_PER_SEGMENT), payload))
}

/// Reserved and over-provisioned segments, given the usable segments, those of them in whole zones,
/// and the sections (f2fs_fs.h, `get_best_overprovision`). Uses binary64 as mkfs.f2fs does. `None`
/// if there is no room for any.
pub(crate) fn spare((all, main, sections): (u64, u64, u64), percent: Option<f64>) -> Option<(u64, u64)> {
    let usable = all as f64;
    let per_section = all.checked_div(sections)? + u64::from(!all.is_multiple_of(sections));
    let per_section = per_section as f64;
    let reserved = |percent: f64| (2.0 * (100.0 / percent + 1.0) + LOGS as f64) * per_section;
    let percent = match percent {
        Some(percent) => percent,
        None => {
            let (first, last, step) = if main < SMALL_MAIN { (10.0, 95.0, 5.0) } else { (0.01, 10.0, 0.01) };
            let (mut best, mut most) = (0.0, 0.0);
            let mut candidate = first;
            // Summing reproduces the rounding errors of mkfs.f2fs.
            while candidate <= last {
                let reserved = reserved(candidate);
                let space = usable - reserved - (usable - reserved) * candidate / 100.0;
                if space > most {
                    (best, most) = (candidate, space);
                }
                candidate += step;
            }
            best
        }
    };
    if percent <= 0.0 {
        return None;
    }
    let reserved = reserved(percent) as u64;
    let over = all.checked_sub(reserved)? as f64 * percent / 100.0;
    Some((reserved, over as u64 + reserved))
}

/// The first segment of each log (f2fs_format.c, `f2fs_prepare_super_block`).
fn log_segments(geometry: &NewGeometry, options: &MkfsOptions) -> [u64; Log::COUNT] {
    let zone = options.zone_segments();
    let last = |zones: u64| zones.saturating_sub(1) * zone;
    if options.features.has(Features::READ_ONLY) {
        return [1, 0, 0, 0, 0, 0];
    }
    let (hot, warm, cold, hot_data, cold_data, warm_data);
    if options.heap {
        let section = u64::from(options.segments_per_section);
        hot = last(geometry.zones) + (u64::from(options.sections_per_zone) - 1) * section;
        (warm, cold, hot_data) = (hot.saturating_sub(zone), hot.saturating_sub(2 * zone), hot.saturating_sub(3 * zone));
        (cold_data, warm_data) = (0, zone);
    } else {
        (hot, warm, cold, hot_data) = (0, zone, 2 * zone, 3 * zone);
        cold_data = last(geometry.zones / 4).max(hot_data + zone);
        warm_data = last(geometry.zones / 2).max(cold_data + zone);
    }
    let logs = [hot_data, warm_data, cold_data, hot, warm, cold];
    let distinct = logs.iter().enumerate().all(|(index, log)| !logs.iter().skip(index + 1).any(|other| other == log));
    if distinct { logs } else { [0, 1, 2, 3, 4, 5].map(|number| number * zone) }
}

/// The smallest volume, in whole MiB, for these options.
fn smallest(options: &MkfsOptions) -> Option<u64> {
    let steps = [1_u64 << 20, 1 << 24, 1 << 30];
    let fits = |bytes: u64| NewGeometry::shape(bytes, options).is_some();
    // Doubling finds a size that fits; halving then finds the smallest.
    let large = (0..25).map(|power| steps[0] << power).find(|&bytes| fits(bytes))?;
    let (mut low, mut high) = (large / 2 / steps[0], large / steps[0]);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if fits(middle * steps[0]) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high * steps[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in f2fs-mkfs.md.
    #[test]
    fn shapes_are_those_of_the_table() {
        let options = MkfsOptions::default();
        for (mib, reserved, overprovision, main, user) in [
            (52, 12, 14, 18, 2_048),
            (64, 13, 16, 24, 4_096),
            (128, 18, 25, 56, 15_872),
            (256, 21, 35, 120, 43_520),
            (1024, 39, 68, 502, 222_208),
            (64 << 10, 264, 516, 32_581, 16_417_280),
            (1 << 20, 1_007, 2_051, 523_141, 266_798_080),
        ] {
            let geometry = NewGeometry::of(mib << 20, &options).unwrap();
            let found = (geometry.reserved, geometry.overprovision, geometry.main, geometry.user_blocks());
            assert_eq!(found, (reserved, overprovision, main, user), "{mib} MiB");
        }
    }

    /// With zones of many segments, mkfs.f2fs gives users more blocks than there are, and its
    /// volumes cannot be mounted.
    #[test]
    fn users_get_less_than_the_main_area_has() {
        let options = |zone, features| MkfsOptions { sections_per_zone: zone, features, ..MkfsOptions::default() };
        for (mib, zone, features, main, user) in [
            (5118, 256, Features(0), 1_792, 1_792 - 192),
            (64, 2, Features::READ_ONLY, 24, 24),
            (64, 1, Features::READ_ONLY, 25, 25),
        ] {
            let geometry = NewGeometry::of(mib << 20, &options(zone, features)).unwrap();
            assert_eq!((geometry.main, geometry.user_blocks()), (main, user * 512), "{mib} MiB, zones of {zone}");
        }
    }

    #[test]
    fn what_is_too_small_says_what_would_do() {
        let options = MkfsOptions::default();
        for bytes in [0, 1 << 20, (52 << 20) - 1] {
            let error = NewGeometry::of(bytes, &options).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NoSpace);
            assert!(error.detail.contains("52 MiB"), "{}", error.detail);
        }
        let sections = MkfsOptions { segments_per_section: 8, ..options };
        let error = NewGeometry::of(64 << 20, &sections).unwrap_err();
        assert!(error.detail.contains("smallest"), "{}", error.detail);
    }
}
