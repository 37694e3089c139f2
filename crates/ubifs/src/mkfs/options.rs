//! Options of a new volume, and the areas that follow from them.

use nandkit_codec::compression::{Compression, Level};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::layout::{ALIGNMENT, HEADER_SIZE, LOG_LEB, MASTER_LEBS, MASTER_SIZE};
use crate::lpt::LptGeometry;

/// Options of a new volume. The defaults are those of mkfs.ubifs.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Smallest unit of output in bytes: the page of NAND, 1 or 8 on NOR.
    pub min_io_size: u32,
    /// Bytes per LEB.
    pub leb_size: u32,
    /// The most LEBs that the volume can have; it grows to them at its first mount.
    pub leb_count_max: u32,
    /// Compression of data.
    pub compression: Compression,
    /// Effort of the compression.
    pub level: Level,
    /// Children per index node.
    pub fanout: u32,
    /// The most bytes of the journal; `None` for an eighth of the volume, 8 MiB at most.
    pub journal_size: Option<u64>,
    /// LEBs for orphans.
    pub orphan_lebs: u32,
    /// Bytes reserved for root.
    pub reserved_size: u64,
    /// Whether the first mount erases free space again, for programs that write pages of 0xFF.
    pub space_fixup: bool,
    /// Identifier of the volume.
    pub uuid: [u8; 16],
    /// Extended attributes are stored.
    pub xattrs: bool,
    /// Number of threads that compress; 0 for one per processor. The volume does not depend on it.
    pub threads: usize,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            min_io_size: 2048,
            leb_size: 126_976,
            leb_count_max: 0,
            compression: Compression::Lzo,
            level: Level::BEST,
            fanout: 8,
            journal_size: None,
            orphan_lebs: 1,
            reserved_size: 0,
            space_fixup: false,
            uuid: [0; 16],
            xattrs: true,
            threads: 0,
        }
    }
}

/// LEB numbers in the saved table of a big LPT (Linux `DEFAULT_LSAVE_CNT`).
pub(super) const SAVED: u32 = 256;
/// The fewest LEBs of the log, the tree of properties and the main area (Linux `ubifs.h`).
const LOG_LEBS_MIN: u32 = 2;
const LPT_LEBS_MIN: u32 = 2;
const MAIN_LEBS_MIN: u32 = 9;
/// The fewest LEBs of the journal's heads.
const BUD_LEBS_MIN: u64 = 4;
/// The most bytes that a journal gets without being asked for more.
const JOURNAL_MAX: u64 = 8 << 20;
/// Bytes of a reference in the log, and of the start of a commit.
const REFERENCE_SIZE: u64 = 64;
const COMMIT_START_SIZE: u64 = 32;
/// Heads of the journal: collection, base, data.
const HEADS: u64 = 3;
/// The largest page that is known.
const MIN_IO_SIZE_MAX: u32 = 64 << 10;
/// The smallest LEB that Linux mounts.
const LEB_SIZE_MIN: u32 = 15 << 10;
/// The largest LEB that Linux mounts.
const LEB_SIZE_MAX: u32 = 2 << 20;

/// Where the areas of a volume lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Areas {
    pub log_lebs: u32,
    pub lpt_lebs: u32,
    pub is_lpt_big: bool,
    /// The first LEB of the main area.
    pub main_first: u32,
    pub bud_bytes_max: u64,
}

fn wrong<T>(detail: String) -> Result<T> {
    Err(FsError::new(ErrorKind::InvalidArgument, detail))
}

impl BuildOptions {
    /// Refuses options that no volume can have. Errors: `InvalidArgument`, with what would be
    /// right.
    pub fn check(&self) -> Result<()> {
        let Self { min_io_size, leb_size, .. } = *self;
        if !min_io_size.is_power_of_two() || min_io_size > MIN_IO_SIZE_MAX {
            return wrong(format!("min_io_size {min_io_size}: expected a power of two, at most {MIN_IO_SIZE_MAX}"));
        }
        if !(LEB_SIZE_MIN..=LEB_SIZE_MAX).contains(&leb_size) || !leb_size.is_multiple_of(min_io_size.max(ALIGNMENT)) {
            return wrong(format!(
                "leb_size {leb_size}: expected {LEB_SIZE_MIN} to {LEB_SIZE_MAX}, a multiple of {}",
                min_io_size.max(ALIGNMENT)
            ));
        }
        let fanout_max = (leb_size as usize - HEADER_SIZE - 4) / 20;
        if self.fanout < 3 || self.fanout as usize > fanout_max {
            return wrong(format!("fanout {}: expected 3 to {fanout_max}", self.fanout));
        }
        let known = [Compression::None, Compression::Lzo, Compression::Zlib, Compression::Zstd];
        if !known.contains(&self.compression) {
            return wrong(format!("compression {:?}: expected none, lzo, zlib or zstd", self.compression));
        }
        if self.orphan_lebs == 0 {
            return wrong("orphan_lebs 0: expected at least 1".to_owned());
        }
        let least = LOG_LEB + LOG_LEBS_MIN + LPT_LEBS_MIN + self.orphan_lebs.saturating_add(MAIN_LEBS_MIN);
        if self.leb_count_max < least {
            return wrong(format!("leb_count_max {}: expected at least {least}", self.leb_count_max));
        }
        let areas = self.areas();
        let main_bytes = u64::from(self.leb_count_max.saturating_sub(areas.main_first)) * u64::from(leb_size);
        if self.leb_count_max < areas.main_first.saturating_add(MAIN_LEBS_MIN) || areas.bud_bytes_max > main_bytes {
            return wrong(format!(
                "{} LEBs: too few for a log of {}, {} of properties and {MAIN_LEBS_MIN} of files",
                self.leb_count_max, areas.log_lebs, areas.lpt_lebs
            ));
        }
        Ok(())
    }

    /// The areas of the volume.
    pub(super) fn areas(&self) -> Areas {
        let leb_size = u64::from(self.leb_size);
        let fixed = SUPERBLOCK_AND_MASTERS + self.orphan_lebs + LOG_LEBS_MIN + LPT_LEBS_MIN;
        let bud_bytes_max = self.journal_size.unwrap_or_else(|| {
            let eighth = u64::from(self.leb_count_max.saturating_sub(fixed) / 8) * leb_size;
            eighth.min(JOURNAL_MAX)
        });
        let bud_bytes_max = bud_bytes_max.max(BUD_LEBS_MIN * leb_size);
        let min_io = u64::from(self.min_io_size.max(ALIGNMENT));
        let references = bud_bytes_max.div_ceil(leb_size) * REFERENCE_SIZE.next_multiple_of(min_io);
        let commit = (COMMIT_START_SIZE + REFERENCE_SIZE * HEADS).next_multiple_of(min_io);
        // One in which a commit ends and the next one begins, and two more as mkfs.ubifs has them.
        let log_lebs = u32::try_from((references + commit).div_ceil(leb_size)).unwrap_or(u32::MAX).saturating_add(3);
        let before_lpt = SUPERBLOCK_AND_MASTERS.saturating_add(log_lebs).saturating_add(self.orphan_lebs);
        let (lpt_lebs, is_lpt_big) = self.lpt_lebs(self.leb_count_max.saturating_sub(before_lpt));
        Areas { log_lebs, lpt_lebs, is_lpt_big, main_first: before_lpt.saturating_add(lpt_lebs), bud_bytes_max }
    }

    /// LEBs in front of the main area.
    pub(crate) fn front_lebs(&self) -> u32 {
        self.areas().main_first
    }

    /// The geometry of the tree of properties for a volume that has so many LEBs now.
    pub(super) fn lpt(&self, areas: &Areas, leb_count: u32) -> LptGeometry {
        let (main, grows) = (leb_count - areas.main_first, self.leb_count_max - leb_count);
        LptGeometry::new(areas.lpt_lebs, areas.is_lpt_big, self.leb_size, main, grows, self.leb_count_max, SAVED)
    }

    /// LEBs of the tree of properties for a main area, and whether it is a big one: one of four
    /// times its bytes, since it is written without being overwritten, and a small one only if it
    /// fits into a LEB (Linux `calc_dflt_lpt_geom`).
    fn lpt_lebs(&self, before: u32) -> (u32, bool) {
        let geometry = |lebs: u32, is_big: bool| {
            let main = before.saturating_sub(lebs).max(1);
            LptGeometry::new(lebs, is_big, self.leb_size, main, 0, self.leb_count_max, SAVED)
        };
        let is_big = geometry(LPT_LEBS_MIN, false).bytes() > u64::from(self.leb_size);
        let mut lebs = LPT_LEBS_MIN;
        loop {
            let wanted = (geometry(lebs, is_big).bytes() * 4).div_ceil(u64::from(self.leb_size));
            let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
            if wanted <= lebs {
                return (lebs, is_big);
            }
            lebs = wanted;
        }
    }
}

/// LEBs in front of the log.
const SUPERBLOCK_AND_MASTERS: u32 = 1 + MASTER_LEBS.len() as u32;

const _: () = assert!(MASTER_SIZE.is_multiple_of(ALIGNMENT as usize) && SUPERBLOCK_AND_MASTERS == LOG_LEB);

/// The fewest LEBs of a main area.
pub(super) const fn main_lebs_min() -> u32 {
    MAIN_LEBS_MIN
}
