//! MBR and GPT. Sources: UEFI specification 2.10, chapter 5 (both tables).

use crc32fast::hash;

use nandkit_flash::Look as _;

use super::number::{le16, le32, le64};
use super::{Region, RegionSource, data_bytes};
use crate::dump::DumpFlash;

/// GPT entries looked at: the specification reserves 128, and nobody has more than a few.
const ENTRIES_MAX: u32 = 1024;
/// Links of a chain of logical partitions followed.
const LOGICAL_MAX: usize = 64;

pub fn find(device: &DumpFlash) -> Vec<Region> {
    for sector in [512, 4096] {
        let found = gpt(device, sector);
        if !found.is_empty() {
            return found;
        }
    }
    mbr(device)
}

fn read(device: &DumpFlash, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.look_at(at, &mut bytes);
    bytes
}

/// A region of a table, cut off at the end of the device; `None` where it lies outside or is empty.
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

/// A GUID as it is written: the first three fields are little-endian.
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

/// The four entries of a sector with the signature of an MBR: status, type, first sector, sectors.
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
    // A boot sector of FAT ends with the same two bytes: a table has only known states, and no
    // partition over the table itself.
    let plausible = |&(status, kind, first, sectors): &(u8, u8, u64, u64)| {
        (status & 0x7F == 0) && (kind == 0 || (first > 0 && sectors > 0 && first * 512 < data_bytes(device)))
    };
    if !table.iter().all(plausible) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, (_, kind, first, sectors)) in (1..).zip(table) {
        if is_extended(kind) {
            logical(device, first, &mut found);
        } else if kind != 0 {
            let (name, kind) = (format!("mbr{number}"), format!("MBR type {kind:#04x}"));
            found.extend(region(device, first * 512, sectors * 512, name, kind, RegionSource::Mbr));
        }
    }
    found.sort_by_key(|region| region.offset);
    found
}

/// Logical partitions: a chain of tables, each with one partition and the place of the next table,
/// counted from the first.
fn logical(device: &DumpFlash, extended: u64, found: &mut Vec<Region>) {
    let mut at = extended;
    for number in 5..5 + LOGICAL_MAX {
        if at * 512 >= data_bytes(device) {
            return;
        }
        let Some([first, next, ..]) = entries(&read(device, at * 512, 512)) else { return };
        if first.1 != 0 {
            let (name, kind) = (format!("mbr{number}"), format!("MBR type {:#04x}", first.1));
            found.extend(region(device, (at + first.2) * 512, first.3 * 512, name, kind, RegionSource::Mbr));
        }
        // A chain that goes back would go round for ever.
        match extended + next.2 {
            following if is_extended(next.1) && following > at => at = following,
            _ => return,
        }
    }
}
