//! Reading and checking the boot sector's parameter block: the only code that derives a layout from
//! its numbers.

use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::FromBytes;

use crate::layout::{Boot32, BootCommon, BootTail, EXTENDED_BOOT, SLOT_SIZE};

/// The type of a FAT, given by the width of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FatKind {
    Fat12,
    Fat16,
    Fat32,
}

impl FatKind {
    /// The type of a volume with this many clusters; nothing else determines it (specification,
    /// "FAT Type Determination").
    pub const fn of(clusters: u32) -> Self {
        match clusters {
            0..4085 => Self::Fat12,
            4085..65_525 => Self::Fat16,
            _ => Self::Fat32,
        }
    }

    /// Width of an entry in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Fat12 => 12,
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }

    /// Fewest and most clusters when formatting this type. These are mkfs.fat's margins: some
    /// drivers are off by one or two at the limits.
    pub const fn clusters(self) -> (u32, u32) {
        match self {
            Self::Fat12 => (1, 4084),
            Self::Fat16 => (4087, 65_524),
            Self::Fat32 => (65_525, 268_435_446),
        }
    }

    /// The usual name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fat12 => "FAT12",
            Self::Fat16 => "FAT16",
            Self::Fat32 => "FAT32",
        }
    }
}

/// The layout of a volume. Sectors are those of the volume, not of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The type of the FAT.
    pub kind: FatKind,
    /// Sector size in bytes.
    pub sector_size: u32,
    /// Sectors per cluster.
    pub sectors_per_cluster: u32,
    /// Sectors before the first FAT.
    pub reserved_sectors: u32,
    /// Number of FATs.
    pub fats: u32,
    /// Sectors of one FAT.
    pub fat_sectors: u32,
    /// The only FAT in use, if mirroring is off.
    pub active_fat: Option<u32>,
    /// Slots in the fixed root directory; 0 on FAT32.
    pub root_entries: u32,
    /// First cluster of the root directory on FAT32, else 0.
    pub root_cluster: u32,
    /// Sectors in the volume.
    pub total_sectors: u64,
    /// Clusters in the data area; they are numbered from 2.
    pub clusters: u32,
    /// Sector of FSInfo, if any.
    pub fs_info: Option<u32>,
    /// Sector of the backup boot sector, if any.
    pub backup: Option<u32>,
    /// Media byte.
    pub media: u8,
    /// Serial number.
    pub volume_id: u32,
    /// The label in the boot sector.
    pub label: [u8; 11],
    /// The state byte.
    pub state: u8,
    /// Whether the sector ends with the signature 55 AA, which Linux and mtools do not require.
    pub is_signed: bool,
}

fn corrupt(detail: String) -> FsError {
    FsError::new(ErrorKind::Corrupt, format!("boot sector: {detail}"))
}

impl Geometry {
    /// Parses a boot sector (at least its first 512 bytes) on a device of `capacity` bytes. Errors:
    /// those of [`Self::of_numbers`]; a missing signature; a volume longer than the device.
    pub fn parse(sector: &[u8], capacity: u64) -> Result<Self> {
        let geometry = Self::of_numbers(sector)?;
        geometry.check_whole(capacity)?;
        Ok(geometry)
    }

    /// Refuses volumes that are read-only: without signature, or longer than the device.
    pub(crate) fn check_whole(&self, capacity: u64) -> Result<()> {
        if !self.is_signed {
            return Err(corrupt("no signature 55 AA at byte 510: as such the volume is only read".into()));
        }
        if self.bytes() > capacity {
            return Err(corrupt(format!(
                "a volume of {} sectors of {} bytes on a device of {capacity} bytes",
                self.total_sectors, self.sector_size
            )));
        }
        Ok(())
    }

    /// Size of the volume in bytes.
    pub fn bytes(&self) -> u64 {
        self.total_sectors.saturating_mul(self.sector_size.into())
    }

    /// Parses the numbers of a boot sector, for a volume of any length, signed or not: Linux
    /// (fs/fat/inode.c, `fat_read_bpb`) and mtools require no more for reading. Errors: `Corrupt`
    /// if the numbers contradict each other.
    pub fn of_numbers(sector: &[u8]) -> Result<Self> {
        let short = || corrupt(format!("{} bytes, at least 512 expected", sector.len()));
        let is_signed = sector.get(510..512).ok_or_else(short)? == [0x55, 0xAA];
        let (common, rest) = BootCommon::read_from_prefix(sector).map_err(|_| short())?;
        let sector_size = u32::from(common.sector_size.get());
        if !matches!(sector_size, 512 | 1024 | 2048 | 4096) {
            return Err(corrupt(format!("{sector_size} bytes per sector; 512, 1024, 2048 or 4096 expected")));
        }
        let sectors_per_cluster = u32::from(common.sectors_per_cluster);
        if !sectors_per_cluster.is_power_of_two() || sectors_per_cluster * sector_size > 256 << 10 {
            return Err(corrupt(format!(
                "{sectors_per_cluster} sectors per cluster; a power of two and at most 256 KiB expected"
            )));
        }
        let fat_16 = u32::from(common.fat_sectors_16.get());
        let (wide, rest) = if fat_16 == 0 {
            let (wide, rest) = Boot32::read_from_prefix(rest).map_err(|_| short())?;
            (Some(wide), rest)
        } else {
            (None, rest)
        };
        let (tail, _) = BootTail::read_from_prefix(rest).map_err(|_| short())?;
        let total = match common.total_sectors_16.get() {
            0 => common.total_sectors_32.get(),
            total => u32::from(total),
        };
        let extended = tail.boot_signature == EXTENDED_BOOT;
        let geometry = Self {
            kind: FatKind::Fat12,
            sector_size,
            sectors_per_cluster,
            reserved_sectors: u32::from(common.reserved_sectors.get()),
            fats: u32::from(common.fats),
            fat_sectors: wide.map_or(fat_16, |wide| wide.fat_sectors_32.get()),
            active_fat: wide.map(|wide| wide.flags.get()).filter(|flags| flags & 0x80 != 0).map(|f| u32::from(f & 15)),
            root_entries: u32::from(common.root_entries.get()),
            root_cluster: wide.map_or(0, |wide| wide.root_cluster.get()),
            total_sectors: u64::from(total),
            clusters: 0,
            fs_info: None,
            backup: None,
            media: common.media,
            volume_id: if extended { tail.volume_id.get() } else { 0 },
            label: if extended { tail.label } else { *b"NO NAME    " },
            state: tail.state,
            is_signed,
        };
        geometry.checked(wide.as_ref())
    }

    fn checked(mut self, wide: Option<&Boot32>) -> Result<Self> {
        if self.reserved_sectors == 0 || self.fats == 0 || self.fats > 4 {
            return Err(corrupt(format!(
                "{} reserved sectors and {} FATs; at least 1, and 1 to 4 expected",
                self.reserved_sectors, self.fats
            )));
        }
        let data = self.total_sectors.saturating_sub(self.first_data_sector());
        let clusters = data / u64::from(self.sectors_per_cluster);
        if clusters == 0 || clusters > u64::from(FatKind::Fat32.clusters().1) {
            return Err(corrupt(format!("{clusters} clusters; 1 to {} expected", FatKind::Fat32.clusters().1)));
        }
        self.clusters = clusters as u32;
        self.kind = FatKind::of(self.clusters);
        if (self.kind == FatKind::Fat32) != wide.is_some() {
            // There are FAT32 boot sectors on volumes too small for FAT32 (mkfs.fat -F 32 on small
            // devices): their fields decide, as in Linux.
            if wide.is_none() {
                return Err(corrupt(format!(
                    "{} clusters need FAT32, but the FAT's size is in the 16-bit field",
                    self.clusters
                )));
            }
            self.kind = FatKind::Fat32;
        }
        let needed = (u64::from(self.clusters) + 2) * u64::from(self.kind.bits());
        if needed.div_ceil(8) > self.fat_bytes() {
            return Err(corrupt(format!(
                "a FAT of {} sectors for {} clusters; {} sectors needed",
                self.fat_sectors,
                self.clusters,
                needed.div_ceil(8).div_ceil(u64::from(self.sector_size))
            )));
        }
        match wide {
            Some(wide) => self.check_wide(wide)?,
            None if self.root_entries == 0 => return Err(corrupt("no slots for the root directory".into())),
            None => {}
        }
        Ok(self)
    }

    fn check_wide(&mut self, wide: &Boot32) -> Result<()> {
        if wide.version.get() != 0 {
            return Err(corrupt(format!("version {:#06x} of FAT32; 0 expected", wide.version.get())));
        }
        if self.root_entries != 0 {
            return Err(corrupt(format!("{} fixed root entries on FAT32; 0 expected", self.root_entries)));
        }
        if !self.holds(self.root_cluster) {
            return Err(corrupt(format!("root directory at cluster {}; {} expected", self.root_cluster, self.range())));
        }
        if self.active_fat.is_some_and(|active| active >= self.fats) {
            return Err(corrupt(format!("active FAT {:?} of {}", self.active_fat, self.fats)));
        }
        let inside =
            |sector: u16| Some(u32::from(sector)).filter(|&sector| sector > 0 && sector < self.reserved_sectors);
        (self.fs_info, self.backup) = (inside(wide.fs_info_sector.get()), inside(wide.backup_sector.get()));
        Ok(())
    }

    /// Size of a cluster in bytes.
    pub const fn cluster_size(&self) -> u32 {
        self.sectors_per_cluster * self.sector_size
    }

    /// Number of sectors of the fixed root directory.
    pub const fn root_sectors(&self) -> u32 {
        (self.root_entries * SLOT_SIZE).div_ceil(self.sector_size)
    }

    /// Size of one FAT in bytes.
    pub const fn fat_bytes(&self) -> u64 {
        self.fat_sectors as u64 * self.sector_size as u64
    }

    /// The sector after the FATs: the fixed root directory, or the data area.
    pub const fn first_root_sector(&self) -> u64 {
        self.reserved_sectors as u64 + self.fats as u64 * self.fat_sectors as u64
    }

    /// The sector of cluster 2.
    pub const fn first_data_sector(&self) -> u64 {
        self.first_root_sector() + self.root_sectors() as u64
    }

    /// Byte offset of copy `copy` of the FAT in the volume.
    pub const fn fat_start(&self, copy: u32) -> u64 {
        (self.reserved_sectors as u64 + copy as u64 * self.fat_sectors as u64) * self.sector_size as u64
    }

    /// Byte offset of the fixed root directory in the volume.
    pub const fn root_start(&self) -> u64 {
        self.first_root_sector() * self.sector_size as u64
    }

    /// Byte offset of a cluster in the volume.
    pub const fn cluster_start(&self, cluster: u32) -> u64 {
        (self.first_data_sector() + (cluster.saturating_sub(2) as u64) * self.sectors_per_cluster as u64)
            * self.sector_size as u64
    }

    /// Whether a cluster number is valid.
    pub const fn holds(&self, cluster: u32) -> bool {
        cluster >= 2 && cluster - 2 < self.clusters
    }

    /// The valid cluster numbers as text.
    pub fn range(&self) -> String {
        format!("2 to {}", u64::from(self.clusters) + 1)
    }
}
