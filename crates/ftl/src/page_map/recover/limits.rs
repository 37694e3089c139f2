//! Checks of a journal's content: every number is checked before use, because a chip in a file can
//! hold anything.

use nandkit_cleaning::victim::index::UNITS_MAX;
use nandkit_codec::page_tag::TAG_BYTES;
use nandkit_units::{BlockIndex, FlashGeometry};

use super::damaged;
use crate::failure::LayerResult;
use crate::page_map::LOST;
use crate::page_map::failing::NO_BLOCK;
use crate::page_map::journal::JournalOnFlash;
use crate::page_map::journal::layout::{Change, Line};
use crate::tag::SEQUENCE_END;

/// Refuses a journal that contradicts the chip or itself; returns the blocks of all superblocks
/// after the last line.
pub(super) fn check(found: &JournalOnFlash, geometry: &FlashGeometry) -> LayerResult<Vec<BlockIndex>> {
    let snapshot = &found.snapshot;
    let (page, sector) = (geometry.page_size, snapshot.sector_size);
    if !sector.is_power_of_two() || !(512..=page).contains(&sector) || !page.is_multiple_of(sector) {
        return Err(damaged(&format!("logical pages of {sector} bytes on pages of {page}")));
    }
    let parts = u64::from(page / sector);
    if u64::from(geometry.oob_size) < TAG_BYTES as u64 * parts {
        return Err(damaged("the tags of its pages do not fit into their OOB"));
    }
    let stripe = snapshot.stripe;
    if !stripe.is_power_of_two() || stripe > geometry.dies.max(1) {
        return Err(damaged(&format!("superblocks of {stripe} blocks")));
    }
    let members = snapshot.members.len() as u64;
    if members == 0 || !members.is_multiple_of(stripe.into()) || members > geometry.blocks.into() {
        return Err(damaged("it names more blocks than the chip has, or no whole superblocks"));
    }
    let block_slots = u64::from(geometry.pages_per_block) * parts;
    let (slots, all) = (block_slots * u64::from(stripe), block_slots * members);
    if slots > UNITS_MAX.into()
        || slots < 2
        || all >= LOST.into()
        || u64::from(snapshot.user) >= all
        || snapshot.user == 0
    {
        return Err(damaged(&format!("{} logical pages of the host in {all} of the flash", snapshot.user)));
    }
    let members = check_blocks(found, geometry)?;
    let stamps = snapshot.lines.iter().chain(&found.lines).map(|line| line.stamp);
    if stamps.chain([snapshot.base, snapshot.next]).any(|stamp| stamp > SEQUENCE_END) {
        return Err(damaged("its stamps are used up"));
    }
    Ok(members)
}

/// Checks that the blocks of superblocks, in the snapshot and in later lines, exist on the chip and
/// occur only once in the end; returns them.
fn check_blocks(found: &JournalOnFlash, geometry: &FlashGeometry) -> LayerResult<Vec<BlockIndex>> {
    let snapshot = &found.snapshot;
    let mut members = snapshot.members.clone();
    let later = |line: &Line| match line.change {
        Change::Member { superblock, lane, block } => Some((u64::from(superblock), lane, block)),
        _ => None,
    };
    for (superblock, lane, block) in snapshot.lines.iter().chain(&found.lines).filter_map(later) {
        let place = superblock * u64::from(snapshot.stripe) + u64::from(lane);
        match members.get_mut(place as usize).filter(|_| lane < snapshot.stripe) {
            Some(member) => *member = block,
            None => {
                return Err(damaged(&format!(
                    "block {block} has a place in superblock {superblock}, which there is not"
                )));
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    let is_wrong = |block: &&u32| **block != NO_BLOCK.0 && (**block >= geometry.blocks || !seen.insert(**block));
    match members.iter().find(is_wrong) {
        Some(block) => Err(damaged(&format!("{} is in two superblocks, or outside the chip", BlockIndex(*block)))),
        None => Ok(members.into_iter().map(BlockIndex).collect()),
    }
}

#[cfg(test)]
mod tests {
    use nandkit_block::BlockDevice;
    use nandkit_flash::{Flash, PageProgram};
    use nandkit_nand_sim::{ChipSpec, ContentChip};
    use nandkit_units::random::Random;
    use nandkit_units::{Context, Lba, Payload};

    use super::super::{PageMapRecovery, find};
    use crate::page_map::journal::all_rows;
    use crate::page_map::journal::layout::{HEADER_BYTES, Kind, PagePlace, page};
    use crate::page_map::{PageMapFtl, PageMapOptions, Spare};

    const SIZE: usize = 512;

    fn spec() -> ChipSpec {
        let mut spec = ChipSpec::default();
        let geometry = &mut spec.geometry;
        (geometry.page_size, geometry.write_unit, geometry.oob_size) = (SIZE as u32, SIZE as u32, 16);
        (geometry.blocks, geometry.pages_per_block, geometry.dies) = (48, 16, 2);
        spec
    }

    /// Writes groups with valid checksums at the beginning of the first half.
    fn write_journal(chip: &mut ContentChip, groups: &[(Kind, Vec<u8>)]) {
        let (context, room) = (Context::default(), SIZE - HEADER_BYTES);
        let blocks: Vec<_> = all_rows(chip.geometry()).into_iter().step_by(2).take(6).collect();
        blocks.iter().for_each(|block| drop(chip.erase(&context, *block)));
        let mut next = 0u32;
        for (group, (kind, bytes)) in (0..).zip(groups) {
            let count = bytes.len().div_ceil(room).max(1) as u32;
            for (index, part) in (0..count).zip(bytes.chunks(room).chain(std::iter::repeat(&[][..]))) {
                let place = PagePlace { kind: *kind, generation: 1 << 40, group, index, count };
                let at = blocks[(next / 16) as usize].page(next % 16);
                let image = page(place, part, SIZE);
                chip.program(&context, at, PageProgram::new(Payload::Bytes(&image), &[])).unwrap();
                next += 1;
            }
        }
    }

    /// Journals with valid checksums and invalid numbers: they are refused, or yield a device that
    /// can be read and written without a panic.
    #[test]
    fn damaged_journals_with_right_check_values_do_no_harm() {
        let options = PageMapOptions { spare: Spare::Ratio(0.9), ..PageMapOptions::default() };
        let mut device = PageMapFtl::format(ContentChip::new(&spec(), 1).unwrap(), options).unwrap();
        let context = Context::default();
        for write in 0..1500u64 {
            let at = Lba(write * 7 % device.geometry().sectors);
            device.write(&context, at, Payload::Bytes(&[write as u8; SIZE])).unwrap();
        }
        let pairs = [(Lba(0), Lba(9)), (Lba(1), Lba(8))];
        device.remap().unwrap().share(&context, &pairs).unwrap();
        let chip = device.into_flash();
        let found = find::journal(&chip, &context, &mut PageMapRecovery::default()).unwrap();
        let snapshot = found.snapshot.put();
        let mut lines = Vec::new();
        found.lines.iter().for_each(|line| line.put(&mut lines));
        assert!(!lines.is_empty());
        let mut random = Random::new(5, "damaged journals");
        let (mut refused, mut opened) = (0, 0);
        for _ in 0..3000 {
            let (mut snapshot, mut lines) = (snapshot.clone(), lines.clone());
            for _ in 0..random.between(1, 4) {
                let in_lines = random.below(4) == 0;
                let bytes = if in_lines { &mut lines } else { &mut snapshot };
                // Prefer the numbers before the lists: all else depends on them.
                let reach = if random.below(2) == 0 { 64.min(bytes.len()) } else { bytes.len() };
                let word = random.below(reach as u64 / 4) as usize * 4;
                let value = match random.below(4) {
                    0 => u32::MAX,
                    1 => 0,
                    2 => random.below(1 << 32) as u32,
                    _ => random.below(100) as u32,
                };
                bytes[word..word + 4].copy_from_slice(&value.to_le_bytes());
            }
            let mut chip = chip.clone();
            write_journal(&mut chip, &[(Kind::Snapshot, snapshot), (Kind::Seal, Vec::new()), (Kind::Lines, lines)]);
            match PageMapFtl::attach(chip, options) {
                Err(_) => refused += 1,
                Ok(mut device) => {
                    opened += 1;
                    let _ = device.check();
                    for write in 0..40 {
                        let at = Lba(write * 11 % device.geometry().sectors);
                        let _ = device.write(&context, at, Payload::Bytes(&[1; SIZE]));
                    }
                    let _ = device.flush(&context);
                    let _ = device.check();
                }
            }
        }
        assert!(refused > 300 && opened > 300, "{refused} refused, {opened} opened");
    }
}
