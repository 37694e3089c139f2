//! MBR, GPT and the partition table of ESP32. Sources: UEFI specification 2.10, chapter 5 (both
//! tables); ESP-IDF, "Partition Tables" and `esp_flash_partitions.h`.

use crc32fast::hash;

use nandkit_flash::Look as _;

use super::number::{le16, le32, le64};
use super::{Region, RegionSource, data_bytes};
use crate::dump::DumpFlash;

/// Most GPT entries: the specification reserves 128, and real tables use only a few.
const ENTRIES_MAX: u32 = 1024;
/// Most links followed in a chain of logical partitions.
const LOGICAL_MAX: usize = 64;

pub fn find(device: &DumpFlash) -> Vec<Region> {
    for sector in [512, 4096] {
        let found = gpt(device, sector);
        if !found.is_empty() {
            return found;
        }
    }
    match mbr(device) {
        found if found.is_empty() => esp32(device),
        found => found,
    }
}

/// Offset and maximum length of the table of ESP-IDF's bootloader.
const ESP32_TABLE: (u64, usize) = (0x8000, 0xC00);
const ESP32_ENTRY: usize = 32;
/// The magic number of an entry.
const ESP32_MAGIC: u16 = 0x50AA;

/// Reads entries of 32 bytes: magic, type, subtype, offset, size, name, flags. A table with
/// overlapping entries, or entries beyond the dump, is ignored.
fn esp32(device: &DumpFlash) -> Vec<Region> {
    let table = read(device, ESP32_TABLE.0, ESP32_TABLE.1);
    let of_entry = |entry: &[u8]| {
        (le16(entry, 0)? == ESP32_MAGIC).then_some(())?;
        let (kind, subtype) = (*entry.get(2)?, *entry.get(3)?);
        let name: String = entry.get(12..28)?.iter().take_while(|byte| **byte != 0).map(|b| char::from(*b)).collect();
        let (offset, size) = (u64::from(le32(entry, 4)?), u64::from(le32(entry, 8)?));
        let kind = format!("ESP32 type {kind}, subtype {subtype:#04x}");
        region(device, offset, size, name, kind, RegionSource::Esp32)
    };
    let mut found: Vec<Region> = table.chunks_exact(ESP32_ENTRY).map_while(of_entry).collect();
    found.sort_by_key(|region| region.offset);
    let behind_table = ESP32_TABLE.0 + ESP32_TABLE.1 as u64;
    let overlap = found.iter().zip(found.iter().skip(1)).any(|(one, next)| one.offset + one.size > next.offset);
    if overlap || found.first().is_none_or(|first| first.offset < behind_table) {
        return Vec::new();
    }
    found
}

fn read(device: &DumpFlash, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.look_at(at, &mut bytes);
    bytes
}

/// A region of a table, cut off at the end of the device; `None` if it is outside or empty.
fn region(
    device: &DumpFlash,
    offset: u64,
    size: u64,
    name: String,
    kind: String,
    source: RegionSource,
) -> Option<Region> {
    let left = data_bytes(device).checked_sub(offset).filter(|&left| left > 0 && size > 0)?;
    let mut notes = Vec::new();
    if size > left {
        notes.push(format!("the table says {size} bytes, the dump ends after {left}"));
    }
    Some(Region { offset, size: size.min(left), name, kind, source, notes, doubts: Vec::new() })
}

fn gpt(device: &DumpFlash, sector: u64) -> Vec<Region> {
    gpt_regions(device, sector).unwrap_or_default()
}

fn gpt_regions(device: &DumpFlash, sector: u64) -> Option<Vec<Region>> {
    let header = read(device, sector, 512);
    let length = le32(&header, 12)? as usize;
    if !header.starts_with(b"EFI PART") || !(92..=512).contains(&length) {
        return None;
    }
    let mut zeroed = header.get(..length)?.to_vec();
    zeroed.get_mut(16..20)?.fill(0);
    if hash(&zeroed) != le32(&header, 16)? {
        return None;
    }
    let (first, count, size) = (le64(&header, 72)?, le32(&header, 80)?, le32(&header, 84)? as usize);
    if !(128..=4096).contains(&size) || count > ENTRIES_MAX {
        return None;
    }
    let entries = read(device, first.checked_mul(sector)?, size * count as usize);
    let damaged = hash(&entries) != le32(&header, 88)?;
    let mut found = Vec::new();
    for (index, entry) in entries.chunks_exact(size).enumerate() {
        let (kind, start, last) = (entry.get(..16)?, le64(entry, 32)?, le64(entry, 40)?);
        if kind.iter().all(|&byte| byte == 0) || last < start {
            continue;
        }
        let Some(offset) = start.checked_mul(sector) else { continue };
        let bytes = (last - start).saturating_add(1).saturating_mul(sector);
        let units: Vec<u16> = entry
            .get(56..128)?
            .chunks_exact(2)
            .filter_map(|unit| le16(unit, 0))
            .take_while(|&unit| unit != 0)
            .collect();
        let name = match String::from_utf16_lossy(&units) {
            name if name.is_empty() => format!("gpt{}", index + 1),
            name => name,
        };
        let kind = format!("GPT type {}", guid(kind)?);
        if let Some(mut region) = region(device, offset, bytes, name, kind, RegionSource::Gpt) {
            if damaged {
                region.notes.push("the checksum of the table's entries is wrong".to_owned());
            }
            found.push(region);
        }
    }
    found.sort_by_key(|region| region.offset);
    Some(found)
}

/// The text form of a GUID: the first three fields are little-endian.
fn guid(bytes: &[u8]) -> Option<String> {
    let tail: String = bytes.get(10..16)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let head = bytes.get(8..10)?;
    Some(format!(
        "{:08x}-{:04x}-{:04x}-{:02x}{:02x}-{tail}",
        le32(bytes, 0)?,
        le16(bytes, 4)?,
        le16(bytes, 6)?,
        head.first()?,
        head.last()?
    ))
}

/// The four entries of a sector with an MBR signature: status, type, first sector, sectors.
fn entries(sector: &[u8]) -> Option<[(u8, u8, u64, u64); 4]> {
    (le16(sector, 510)? == 0xAA55).then_some(())?;
    let mut found = [(0, 0, 0, 0); 4];
    for (entry, bytes) in found.iter_mut().zip(sector.get(446..510)?.chunks_exact(16)) {
        *entry = (*bytes.first()?, *bytes.get(4)?, u64::from(le32(bytes, 8)?), u64::from(le32(bytes, 12)?));
    }
    Some(found)
}

const fn is_extended(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0F | 0x85)
}

fn mbr(device: &DumpFlash) -> Vec<Region> {
    let Some(table) = entries(&read(device, 0, 512)) else { return Vec::new() };
    // A FAT boot sector ends with the same two bytes, but a table has only known states, and no
    // partition over the table itself.
    let plausible = |&(status, kind, first, sectors): &(u8, u8, u64, u64)| {
        (status & 0x7F == 0) && (kind == 0 || (first > 0 && sectors > 0 && first * 512 < data_bytes(device)))
    };
    if !table.iter().all(plausible) {
        return Vec::new();
    }
    let unit = unit_of(device, &table);
    let mut found = Vec::new();
    for (number, (_, kind, first, sectors)) in (1..).zip(table) {
        if is_extended(kind) {
            logical(device, first, unit, &mut found);
        } else if kind != 0 {
            let (name, kind) = (format!("mbr{number}"), format!("MBR type {kind:#04x}"));
            found.extend(
                region(device, first * unit, sectors * unit, name, kind, RegionSource::Mbr).map(|r| counted(r, unit)),
            );
        }
    }
    found.sort_by_key(|region| region.offset);
    found
}

/// The unit of a table in bytes: 512, unless a boot sector is found at the position given by larger
/// units and none at that of 512-byte units. Media with sectors of 2048 and 4096 bytes have such
/// tables.
fn unit_of(device: &DumpFlash, table: &[(u8, u8, u64, u64); 4]) -> u64 {
    let shows_boot_sector = |unit: u64| {
        let parts = table.iter().filter(|(_, kind, ..)| *kind != 0);
        parts.into_iter().any(|(_, _, first, _)| {
            let sector = read(device, first.saturating_mul(unit), 512);
            matches!(sector.first(), Some(0xEB | 0xE9)) && le16(&sector, 510) == Some(0xAA55)
        })
    };
    if shows_boot_sector(512) {
        return 512;
    }
    [1024, 2048, 4096].into_iter().find(|unit| shows_boot_sector(*unit)).unwrap_or(512)
}

fn counted(mut region: Region, unit: u64) -> Region {
    if unit != 512 {
        region.notes.push(format!("the table counts in sectors of {unit} bytes"));
    }
    region
}

/// Logical partitions: a chain of tables, each with one partition and the position of the next
/// table, counted from the first.
fn logical(device: &DumpFlash, extended: u64, unit: u64, found: &mut Vec<Region>) {
    let mut at = extended;
    for number in 5..5 + LOGICAL_MAX {
        if at * unit >= data_bytes(device) {
            return;
        }
        let Some([first, next, ..]) = entries(&read(device, at * unit, 512)) else { return };
        if first.1 != 0 {
            let (name, kind) = (format!("mbr{number}"), format!("MBR type {:#04x}", first.1));
            found.extend(region(device, (at + first.2) * unit, first.3 * unit, name, kind, RegionSource::Mbr));
        }
        // A chain that goes backwards would loop for ever.
        match extended + next.2 {
            following if is_extended(next.1) && following > at => at = following,
            _ => return,
        }
    }
}
