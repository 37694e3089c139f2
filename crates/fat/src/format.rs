//! Creates an empty volume.

use nandkit_block::BlockDevice;
use nandkit_units::{Area, Cause, Clock, Context, Described, Description, Lba, Payload, format_bytes};
use nandkit_vfs::{ErrorKind, FsError, Result, Timestamp};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::bpb::{FatKind, Geometry};
use crate::layout::{Boot32, BootCommon, BootTail, EXTENDED_BOOT, FsInfo, SLOT_SIZE, ShortEntry, attribute};
use crate::table::Link;
use crate::time;

/// Sector of FSInfo and, below, of the backup boot sector on FAT32, where all formatters put them.
const FS_INFO: u16 = 1;
const BACKUP: u16 = 6;
const MEDIA_FIXED: u8 = 0xF8;

/// The boundary at which the data area starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// No alignment: no sector is spent on it.
    None,
    /// A multiple of the cluster size.
    #[default]
    Cluster,
    /// A multiple of the device's recycling unit (erase block), or of the cluster size if it has
    /// none.
    RecyclingUnit,
}

/// What kind of volume to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// The type. `None` chooses as mkfs.vfat does: FAT32 from 512 MiB on; below that FAT12 if 2 KiB
    /// clusters suffice, otherwise FAT16.
    pub kind: Option<FatKind>,
    /// Sector size in bytes. `None` takes the device's, but at least 512.
    pub sector_size: Option<u32>,
    /// Cluster size in bytes, up to 32 KiB. `None` chooses by the volume's size.
    pub cluster_size: Option<u32>,
    /// Number of slots in the root directory of FAT12 and FAT16.
    pub root_entries: u16,
    /// Number of copies of the FAT, 1 or 2.
    pub fats: u8,
    /// Number of sectors before the first FAT. `None` is 1, or 32 on FAT32. Alignment adds to it.
    pub reserved_sectors: Option<u16>,
    /// Label of up to 11 characters.
    pub label: Option<String>,
    /// Serial number.
    pub volume_id: u32,
    /// Alignment of the start of the data area.
    pub alignment: Alignment,
    /// Whether the reserved sectors that alignment adds are written with zeros. No reader looks at
    /// them; left alone, they keep what the device held, which may be a part of an older format.
    pub write_padding: bool,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            kind: None,
            sector_size: None,
            cluster_size: None,
            root_entries: 512,
            fats: 2,
            reserved_sectors: None,
            label: None,
            volume_id: 0,
            alignment: Alignment::default(),
            write_padding: true,
        }
    }
}

fn invalid(detail: String) -> FsError {
    FsError::new(ErrorKind::InvalidArgument, format!("format: {detail}"))
}

/// Creates an empty volume on the whole device and returns its layout. The boot sector is written
/// last, after a flush, so that an interrupted format leaves no volume.
pub fn format<D: BlockDevice>(device: &mut D, clock: &Clock, options: &FormatOptions) -> Result<Geometry> {
    let shape = *device.geometry();
    let label = label_bytes(options)?;
    let geometry = plan(shape.capacity(), shape.sector_size, shape.recycling_size, label, options)?;
    let mut writer = Writer { device, clock, device_sector: shape.sector_size };
    let data_start = geometry.first_data_sector() * u64::from(geometry.sector_size);
    if options.write_padding {
        writer.zero(0, data_start)?;
    } else {
        writer.zero(0, u64::from(unpadded_sectors(geometry.kind, options)) * u64::from(geometry.sector_size))?;
        writer.zero(geometry.fat_start(0), data_start - geometry.fat_start(0))?;
    }
    if geometry.root_cluster != 0 {
        writer.zero(geometry.cluster_start(geometry.root_cluster), u64::from(geometry.cluster_size()))?;
    }
    let size = geometry.sector_size as usize;
    for copy in 0..geometry.fats {
        writer.write(geometry.fat_start(copy), first_fat_sector(&geometry, size))?;
    }
    if options.label.is_some() {
        let mut entry = ShortEntry { name: geometry.label, attributes: attribute::VOLUME, ..ShortEntry::default() };
        time::set_modified(&mut entry, Timestamp(i64::try_from(clock.unix_ns()).unwrap_or(i64::MAX)));
        let root = match geometry.root_cluster {
            0 => geometry.root_start(),
            cluster => geometry.cluster_start(cluster),
        };
        writer.write(root, padded(entry.as_bytes(), size))?;
    }
    let boot = boot_sector(&geometry, options);
    if let (Some(info), Some(backup)) = (geometry.fs_info, geometry.backup) {
        let sector = fs_info_sector(&geometry, size);
        writer.write(u64::from(info) * size as u64, sector.clone())?;
        writer.write(u64::from(backup + info) * size as u64, sector)?;
        writer.write(u64::from(backup) * size as u64, boot.clone())?;
    }
    writer.flush()?;
    writer.write(0, boot)?;
    writer.flush()?;
    Ok(geometry)
}

fn label_bytes(options: &FormatOptions) -> Result<[u8; 11]> {
    let Some(label) = &options.label else { return Ok(*b"NO NAME    ") };
    let mut bytes = [b' '; 11];
    let upper = label.to_ascii_uppercase();
    let allowed = |c: char| (' '..='~').contains(&c) && !"\"*+,./:;<=>?[\\]|".contains(c);
    if upper.len() > bytes.len() || upper.trim().is_empty() || upper.starts_with(' ') || !upper.chars().all(allowed) {
        let rule = "1 to 11 ASCII characters, not starting with a blank, none of \" * + , . / : ; < = > ? [ \\ ] |";
        return Err(invalid(format!("label {label:?}; {rule} expected")));
    }
    bytes.iter_mut().zip(upper.bytes()).for_each(|(to, from)| *to = from);
    Ok(bytes)
}

/// Sectors before the first FAT without what alignment adds.
fn unpadded_sectors(kind: FatKind, options: &FormatOptions) -> u16 {
    options.reserved_sectors.unwrap_or(if kind == FatKind::Fat32 { 32 } else { 1 })
}

/// Decides the layout.
fn plan(
    capacity: u64,
    device_sector: u32,
    recycling: u64,
    label: [u8; 11],
    options: &FormatOptions,
) -> Result<Geometry> {
    let sector_size = options.sector_size.unwrap_or(device_sector.max(512));
    if !matches!(sector_size, 512 | 1024 | 2048 | 4096) || !sector_size.is_multiple_of(device_sector) {
        return Err(invalid(format!(
            "sectors of {sector_size} bytes on a device with sectors of {device_sector}; 512, 1024, 2048 or 4096, and a multiple of the device's, expected"
        )));
    }
    if !(1..=2).contains(&options.fats) {
        return Err(invalid(format!("{} FATs; 1 or 2 expected", options.fats)));
    }
    let total = (capacity / u64::from(sector_size)).min(u64::from(u32::MAX));
    if let Some(size) = options.cluster_size
        && (!size.is_power_of_two() || size < sector_size || size > 32 << 10 || size / sector_size > 128)
    {
        return Err(invalid(format!("clusters of {size} bytes; a power of two from {sector_size} to 32768 expected")));
    }
    let wide = options.kind == Some(FatKind::Fat32) || (options.kind.is_none() && capacity >= 512 << 20);
    let kinds: &[FatKind] = match options.kind {
        Some(FatKind::Fat12) => &[FatKind::Fat12],
        Some(FatKind::Fat16) => &[FatKind::Fat16],
        _ if wide => &[FatKind::Fat32],
        _ => &[FatKind::Fat12, FatKind::Fat16],
    };
    let mut size = options.cluster_size.unwrap_or_else(|| first_cluster_size(capacity, wide).max(sector_size));
    let mut seen = Vec::new();
    loop {
        for &kind in kinds {
            let layout = Layout { kind, sector_size, cluster_size: size, total, recycling };
            let geometry = layout.fit(label, options)?;
            let (fewest, most) = kind.clusters();
            if geometry.clusters >= fewest && geometry.clusters <= most {
                return Ok(geometry);
            }
            seen.push((kind, size, geometry.clusters));
        }
        let too_many = seen.iter().any(|&(kind, at, clusters)| at == size && clusters > kind.clusters().1);
        if options.cluster_size.is_some() || !too_many || size >= 32 << 10 {
            // On a small FAT32 device the table's cluster size gives too few clusters; smaller ones
            // may fit.
            if wide && options.cluster_size.is_none() && size > sector_size && !too_many {
                size /= 2;
                continue;
            }
            return Err(no_fit(capacity, &seen));
        }
        size *= 2;
    }
}

/// The cluster size to try first: from mkfs.vfat's tables, which for FAT32 are Microsoft's.
fn first_cluster_size(capacity: u64, wide: bool) -> u32 {
    const MIB: u64 = 1 << 20;
    match capacity {
        _ if !wide => 2048,
        0..=0x1040_0000 => 512,
        _ if capacity <= 8192 * MIB => 4096,
        _ if capacity <= 16_384 * MIB => 8192,
        _ if capacity <= 32_768 * MIB => 16_384,
        _ => 32_768,
    }
}

fn no_fit(capacity: u64, seen: &[(FatKind, u32, u32)]) -> FsError {
    let tried: Vec<String> = seen
        .iter()
        .map(|(kind, size, clusters)| {
            let (fewest, most) = kind.clusters();
            format!(
                "{} with clusters of {size} bytes would have {clusters} clusters; {fewest} to {most} expected",
                kind.name()
            )
        })
        .collect();
    invalid(format!(
        "a device of {} is too small or too big for what was asked: {}",
        format_bytes(capacity),
        tried.join("; ")
    ))
}

/// The part of the layout that is known before the size of the FAT.
struct Layout {
    kind: FatKind,
    sector_size: u32,
    cluster_size: u32,
    total: u64,
    recycling: u64,
}

impl Layout {
    /// The layout with the smallest FAT that has an entry for every cluster behind it. The number
    /// of clusters is 0 if nothing fits.
    fn fit(&self, label: [u8; 11], options: &FormatOptions) -> Result<Geometry> {
        let wide = self.kind == FatKind::Fat32;
        let least = if wide { 8 } else { 1 };
        let reserved = u32::from(unpadded_sectors(self.kind, options));
        if reserved < least {
            return Err(invalid(format!("{reserved} reserved sectors; at least {least} expected")));
        }
        let per_sector = self.sector_size / SLOT_SIZE;
        let root_entries = if wide { 0 } else { u32::from(options.root_entries) };
        if !wide && (root_entries == 0 || !root_entries.is_multiple_of(per_sector)) {
            return Err(invalid(format!("{root_entries} root entries; a multiple of {per_sector} expected")));
        }
        let mut geometry = Geometry {
            kind: self.kind,
            sector_size: self.sector_size,
            sectors_per_cluster: self.cluster_size / self.sector_size,
            reserved_sectors: reserved,
            fats: u32::from(options.fats),
            fat_sectors: 1,
            active_fat: None,
            root_entries,
            root_cluster: if wide { 2 } else { 0 },
            total_sectors: self.total,
            clusters: 0,
            fs_info: wide.then_some(u32::from(FS_INFO)),
            backup: wide.then_some(u32::from(BACKUP)),
            media: MEDIA_FIXED,
            volume_id: options.volume_id,
            label,
            state: 0,
            is_signed: true,
        };
        // This ends because the size only grows: a larger FAT leaves fewer clusters.
        loop {
            geometry.reserved_sectors = self.align(&geometry, reserved, options.alignment)?;
            let data = self.total.saturating_sub(geometry.first_data_sector());
            let clusters = data / u64::from(geometry.sectors_per_cluster);
            geometry.clusters = u32::try_from(clusters).unwrap_or(u32::MAX);
            let bytes = ((clusters + 2) * u64::from(self.kind.bits())).div_ceil(8);
            let needed = bytes.div_ceil(u64::from(self.sector_size));
            if needed <= u64::from(geometry.fat_sectors) {
                return Ok(geometry);
            }
            if !wide && needed > u64::from(u16::MAX) {
                return Ok(geometry);
            }
            geometry.fat_sectors = u32::try_from(needed).unwrap_or(u32::MAX);
        }
    }

    fn align(&self, geometry: &Geometry, reserved: u32, alignment: Alignment) -> Result<u32> {
        let unit = match alignment {
            Alignment::None => return Ok(reserved),
            Alignment::RecyclingUnit if self.recycling > 0 => self.recycling,
            Alignment::Cluster | Alignment::RecyclingUnit => u64::from(self.cluster_size),
        };
        // As in mkfs.vfat, volumes of up to 8,192 sectors spend nothing on aligning to clusters.
        if alignment == Alignment::Cluster && self.total <= 8192 {
            return Ok(reserved);
        }
        let unit = (unit / u64::from(self.sector_size)).max(1);
        let start = u64::from(geometry.fats) * u64::from(geometry.fat_sectors)
            + u64::from(geometry.root_sectors())
            + u64::from(reserved);
        let padded = u64::from(reserved) + start.next_multiple_of(unit) - start;
        u16::try_from(padded).map(u32::from).map_err(|_| {
            invalid(format!(
                "aligning the data area on {unit} sectors takes {padded} reserved sectors; at most 65535 are possible"
            ))
        })
    }
}

fn padded(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut sector = bytes.to_vec();
    sector.resize(size, 0);
    sector
}

fn first_fat_sector(geometry: &Geometry, size: usize) -> Vec<u8> {
    let media = u32::from(geometry.media);
    let bytes = match geometry.kind {
        FatKind::Fat12 => (0x00FF_F000 | 0xF00 | media).to_le_bytes()[..3].to_vec(),
        FatKind::Fat16 => (0xFFFF_0000 | 0xFF00 | media).to_le_bytes().to_vec(),
        FatKind::Fat32 => {
            let end = Link::End.raw(FatKind::Fat32);
            [0x0FFF_FF00 | media, end, end].iter().flat_map(|entry| entry.to_le_bytes()).collect()
        }
    };
    padded(&bytes, size)
}

fn fs_info_sector(geometry: &Geometry, size: usize) -> Vec<u8> {
    let info = FsInfo {
        lead: U32::new(FsInfo::LEAD),
        reserved: [0; 480],
        structure: U32::new(FsInfo::STRUCTURE),
        free: U32::new(geometry.clusters.saturating_sub(1)),
        next: U32::new(2),
        reserved_2: [0; 12],
        trail: U32::new(FsInfo::TRAIL),
    };
    padded(info.as_bytes(), size)
}

fn boot_sector(geometry: &Geometry, options: &FormatOptions) -> Vec<u8> {
    let wide = geometry.kind == FatKind::Fat32;
    let total = geometry.total_sectors as u32;
    let small = !wide && total <= u32::from(u16::MAX);
    let common = BootCommon {
        jump: [0xEB, if wide { 0x58 } else { 0x3C }, 0x90],
        oem_name: *b"nandkit ",
        sector_size: U16::new(geometry.sector_size as u16),
        sectors_per_cluster: geometry.sectors_per_cluster as u8,
        reserved_sectors: U16::new(geometry.reserved_sectors as u16),
        fats: options.fats,
        root_entries: U16::new(geometry.root_entries as u16),
        total_sectors_16: U16::new(if small { total as u16 } else { 0 }),
        media: geometry.media,
        fat_sectors_16: U16::new(if wide { 0 } else { geometry.fat_sectors as u16 }),
        sectors_per_track: U16::new(32),
        heads: U16::new(64),
        hidden_sectors: U32::ZERO,
        total_sectors_32: U32::new(if small { 0 } else { total }),
    };
    let mut bytes = common.as_bytes().to_vec();
    if wide {
        let boot = Boot32 {
            fat_sectors_32: U32::new(geometry.fat_sectors),
            flags: U16::ZERO,
            version: U16::ZERO,
            root_cluster: U32::new(geometry.root_cluster),
            fs_info_sector: U16::new(FS_INFO),
            backup_sector: U16::new(BACKUP),
            reserved: [0; 12],
        };
        bytes.extend_from_slice(boot.as_bytes());
    }
    let mut kind = [b' '; 8];
    kind.iter_mut().zip(geometry.kind.name().bytes()).for_each(|(to, from)| *to = from);
    let tail = BootTail {
        drive: 0x80,
        state: 0,
        boot_signature: EXTENDED_BOOT,
        volume_id: U32::new(geometry.volume_id),
        label: geometry.label,
        kind,
    };
    bytes.extend_from_slice(tail.as_bytes());
    // Code that halts the machine if a BIOS boots it: cli, hlt, jump back to hlt.
    bytes.extend_from_slice(&[0xFA, 0xF4, 0xEB, 0xFD]);
    bytes.resize(510, 0);
    bytes.extend_from_slice(&[0x55, 0xAA]);
    padded(&bytes, geometry.sector_size as usize)
}

struct Writer<'a, D> {
    device: &'a mut D,
    clock: &'a Clock,
    device_sector: u32,
}

impl<D: BlockDevice> Writer<'_, D> {
    fn context(&self) -> Context {
        Context::at(self.clock.now()).for_cause(Cause::Format).in_area(Area::Metadata)
    }

    fn put(&mut self, at: u64, payload: Payload<'_>) -> Result<()> {
        let lba = Lba(at / u64::from(self.device_sector));
        let context = self.context();
        let done = self
            .device
            .write(&context, lba, payload)
            .map_err(|error| FsError::device(format!("formatting {lba}"), error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: Vec<u8>) -> Result<()> {
        self.put(at, Payload::Bytes(&bytes))
    }

    fn zero(&mut self, from: u64, length: u64) -> Result<()> {
        let mut at = from;
        while at < from + length {
            let part = (from + length - at).min(1 << 20) as u32;
            self.put(at, Payload::Described(Described { description: Description::default(), length: part }))?;
            at += u64::from(part);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let context = self.context();
        let done = self.device.flush(&context).map_err(|error| FsError::device("formatting: flush", error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }
}
