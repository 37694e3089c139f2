//! Recognition of F2FS by its superblocks.
//!
//! Facts and their sources: `docs/formats/f2fs.md`, "Superblock".

use nandkit_vfs::probe::{Layout, Likeness};

use crate::layout::superblock::SUPERBLOCK_OFFSET;
use crate::layout::{Geometry, MAGIC, Superblock};

/// Bytes from the start of a volume that a probe reads: the first two blocks of the largest block
/// size.
pub const BEGINNING: u64 = 32 << 10;

/// Possible positions of a superblock: block number and block size in bytes.
const PLACES: [(usize, u32); 4] = [(0, 4096), (1, 4096), (1, 8192), (1, 16384)];
/// The score of a superblock whose areas are consistent.
const SOUND: u32 = 1050;
/// Subtracted if a boot sector precedes the superblock. `mkfs.f2fs` leaves the first sector empty,
/// so a boot loader or another format was written there later.
const OVERWRITTEN: u32 = 100;
/// The score of a magic number in a superblock that contradicts itself.
const DOUBTFUL: u32 = 400;

/// Recognises a volume that starts at the beginning of `bytes`, for scans of a dump: the first two
/// blocks hold superblocks with the same geometry. Returns the volume's size in bytes. A single
/// superblock does not tell which of the two copies it is. Volumes with larger blocks are found
/// only through partition tables.
pub fn signature(bytes: &[u8]) -> Option<u64> {
    const BLOCK: usize = 4096;
    let number = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let start = SUPERBLOCK_OFFSET;
    let first = bytes.get(start..start + 128)?;
    if number(first, 0)? != MAGIC {
        return None;
    }
    let second = bytes.get(BLOCK + start..)?.get(..128)?;
    // Bytes 12 to 108 hold the areas: sizes, then addresses.
    let same = first.get(8..108)? == second.get(8..108)? && number(second, 0)? == MAGIC;
    let (log_block, log_segment) = (number(first, 16)?, number(first, 20)?);
    let (segments, main) = (u64::from(number(first, 68)?), u64::from(number(first, 92)?));
    let blocks = main.checked_add(segments.checked_mul(512)?)?;
    (same && log_block == 12 && log_segment == 9).then_some(blocks << 12)
}

/// Looks for a superblock in the first block, then in the second.
///
/// `beginning` holds the first bytes of a possible volume, at most [`BEGINNING`]; the second
/// argument is the total length in bytes. A volume that was cut short is recognised too: its extent
/// then exceeds the length.
pub fn probe(beginning: &[u8], _length: u64) -> Option<Likeness> {
    let mut doubtful = None;
    for (copy, block_size) in PLACES {
        let start = copy * block_size as usize;
        let Some(superblock) = beginning.get(start..).and_then(Superblock::of_block) else { continue };
        if superblock.magic.get() != MAGIC {
            continue;
        }
        let at = start + SUPERBLOCK_OFFSET;
        let mut wrong = None;
        match Geometry::from_superblock(&superblock, &mut |finding| wrong = Some(finding.detail)) {
            Some(geometry) if copy == 0 || geometry.block_size() == block_size as usize => {
                let which = if copy == 0 { "" } else { "; the first superblock is missing" };
                return Some(Likeness {
                    points: if begins_with_parameter_block(beginning) { SOUND - OVERWRITTEN } else { SOUND },
                    evidence: vec![format!("at byte {at}: a superblock of F2FS with consistent areas{which}")],
                    layout: Layout { block_size: geometry.block_size() as u32, ..Layout::default() },
                    extent: Some(0..geometry.main_end() << geometry.log_block_size()),
                });
            }
            Some(_) => {}
            None => {
                let why = wrong.unwrap_or_default();
                doubtful = doubtful.or(Some(Likeness {
                    points: DOUBTFUL,
                    evidence: vec![format!("at byte {at}: the magic number of F2FS; against it: {why}")],
                    layout: Layout { block_size, ..Layout::default() },
                    extent: None,
                }));
            }
        }
    }
    doubtful
}

/// Whether the first sector is a boot sector with a BIOS parameter block: a jump, a sector size, a
/// power of two of sectors per cluster, one or two tables, and the signature. A boot loader's code
/// alone lacks these.
fn begins_with_parameter_block(bytes: &[u8]) -> bool {
    let Some(sector) = bytes.first_chunk::<512>() else { return false };
    let sector_size = u16::from_le_bytes([sector[11], sector[12]]);
    matches!(sector[0], 0xEB | 0xE9)
        && sector[510..] == [0x55, 0xAA]
        && matches!(sector_size, 512 | 1024 | 2048 | 4096)
        && sector[13].is_power_of_two()
        && matches!(sector[16], 1 | 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_seen_where_no_magic_number_stands() {
        assert_eq!(probe(&[], 0), None);
        assert_eq!(probe(&[0; 1 << 16], 1 << 16), None);
        let mut bytes = vec![0; 1 << 16];
        let at = SUPERBLOCK_OFFSET;
        bytes[at..at + 4].copy_from_slice(&MAGIC.to_le_bytes());
        let likeness = probe(&bytes, 1 << 16).expect("a magic number");
        assert!(likeness.points == DOUBTFUL && likeness.evidence[0].contains("against it"), "{likeness:?}");
        assert_eq!(likeness.extent, None);
        assert_eq!(probe(&bytes[..4000], 4000), None);
    }
}
