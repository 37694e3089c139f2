//! Detection of FAT by its boot sector.

use nandkit_vfs::probe::{Layout, Likeness};

use crate::bpb::Geometry;

/// Points for a boot sector.
const BOOT_SECTOR: u32 = 1000;
/// Points for a sector without jump or signature, but with numbers and FAT that agree.
const NUMBERS: u32 = 950;

/// Looks for a boot sector: a jump, and the signature at the end of the first 512 bytes. (A master
/// boot record begins with any code.) If one of these is missing, its numbers must agree, and the
/// first FAT must begin with the media byte: Linux, mtools and fsck.vfat check no more.
///
/// `beginning` holds the first bytes of a possible volume, `length` is the number of bytes
/// available in total. The result has an extent if the boot sector's numbers fit `length`.
pub fn probe(beginning: &[u8], length: u64) -> Option<Likeness> {
    let sector = beginning.get(..512)?;
    if is_other(sector) {
        return None;
    }
    let geometry = Geometry::of_numbers(sector).ok();
    let is_signed = sector.get(510..) == Some(&[0x55, 0xAA]);
    let (points, evidence) = if matches!(sector.first(), Some(0xEB | 0xE9)) && is_signed {
        (BOOT_SECTOR, "the first sector begins with a jump and ends with 0x55 0xAA, as a boot sector does")
    } else if geometry.as_ref().is_some_and(|geometry| begins_with_media(beginning, geometry) == Some(true)) {
        (NUMBERS, "the numbers of a boot sector, without its jump or 0x55 0xAA, and a FAT where they say")
    } else {
        return None;
    };
    let block_size = geometry.as_ref().map_or(0, |geometry| geometry.sector_size);
    let extent = geometry.map(|geometry| 0..geometry.bytes()).filter(|extent| extent.end <= length);
    Some(Likeness {
        points,
        evidence: vec![evidence.to_owned()],
        layout: Layout { block_size, ..Layout::default() },
        extent,
    })
}

/// Whether the first FAT begins with the media byte and set bits; `None` if it is outside these
/// bytes.
fn begins_with_media(bytes: &[u8], geometry: &Geometry) -> Option<bool> {
    let fat = u64::from(geometry.reserved_sectors) * u64::from(geometry.sector_size);
    let first = bytes.get(usize::try_from(fat).ok()?..)?.first_chunk::<3>()?;
    Some(first[0] == geometry.media && first[1..] == [0xFF, 0xFF])
}

/// The size in bytes of a volume with this beginning, whatever follows: requires that all numbers
/// of its boot sector agree, and that its first FAT, if within these bytes, begins with the media
/// byte.
pub fn signature(bytes: &[u8]) -> Option<u64> {
    let sector = bytes.get(..512)?;
    if !matches!(sector.first(), Some(0xEB | 0xE9)) || is_other(sector) {
        return None;
    }
    let geometry = Geometry::parse(sector, u64::MAX).ok()?;
    begins_with_media(bytes, &geometry).unwrap_or(true).then(|| geometry.bytes())
}

/// Whether a boot sector names another file system that also begins with a jump: exFAT (exFAT file
/// system specification, 3.1.2 `FileSystemName`) or NTFS (its OEM ID).
fn is_other(sector: &[u8]) -> bool {
    sector.get(3..11).is_some_and(|name| name == b"EXFAT   " || name == b"NTFS    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_sector_has_a_jump_and_a_signature() {
        let mut sector = vec![0; 512];
        assert_eq!(probe(&sector, 1 << 20), None);
        sector[510..].copy_from_slice(&[0x55, 0xAA]);
        assert_eq!(probe(&sector, 1 << 20), None);
        sector[0] = 0xEB;
        let likeness = probe(&sector, 1 << 20).expect("a boot sector");
        assert_eq!((likeness.points, likeness.layout.block_size, likeness.extent), (1000, 0, None));
        assert_eq!(probe(&sector[..511], 1 << 20), None);
    }
}
