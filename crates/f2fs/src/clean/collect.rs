//! Collects one section (gc.c, `do_garbage_collect`, `gc_node_segment`, `gc_data_segment`).

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::collected::{CollectableVolume, Liveness};
use super::mover::{BlockMover, LiveBlock};
use super::units;
use crate::ids::{BlockAddress, SegmentIndex};
use crate::segments::sit::runs;

/// The result of collecting a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedSection {
    /// Data blocks moved.
    pub data: u32,
    /// Nodes moved.
    pub nodes: u32,
    /// Blocks that had to stay or have no owner.
    pub left: u32,
    /// Whether no valid block is left.
    pub emptied: bool,
    /// Sources that the device still maps, to be discarded after the next checkpoint.
    pub mapped: Vec<BlockAddress>,
}

/// Moves the live blocks out of a section. Errors: those of the volume; blocks moved before an
/// error stay moved. Cost: reads the summaries of its segments, reads and writes its live blocks.
pub fn collect<V: CollectableVolume>(
    volume: &mut V,
    section: u32,
    mover: &mut dyn BlockMover,
) -> Result<CollectedSection> {
    let segments = volume.segments();
    let per_section = segments.sit().per_section();
    let begin = section.checked_mul(per_section).filter(|_| section < segments.sit().sections());
    let Some(begin) = begin else {
        let detail = format!("section {section}; the volume has {}", segments.sit().sections());
        return Err(FsError::new(ErrorKind::InvalidArgument, detail));
    };
    segments.set_collecting(Some(section));
    let mut collected = CollectedSection::default();
    let mut done = Ok(());
    for segment in (begin..begin + per_section).map(SegmentIndex) {
        done = collect_segment(volume, segment, mover, &mut collected);
        if done.is_err() {
            break;
        }
    }
    let segments = volume.segments();
    segments.set_collecting(None);
    collected.emptied = segments.sit().section_valid(section) == 0;
    done.map(|()| collected)
}

fn collect_segment<V: CollectableVolume>(
    volume: &mut V,
    segment: SegmentIndex,
    mover: &mut dyn BlockMover,
    collected: &mut CollectedSection,
) -> Result<()> {
    let sit = volume.segments().sit();
    if sit.valid(segment) == 0 {
        return Ok(());
    }
    let (map, of_nodes) = (sit.map(segment), sit.kind(segment).is_node());
    let owners = volume.summaries(segment)?;
    let start = volume.segments().geometry().segment_start(segment);
    let mut live = Vec::new();
    for block in runs(&map).flat_map(|(start, count)| start..start + count) {
        let Some(&owner) = owners.get(usize::from(block)) else { continue };
        let at = BlockAddress(start.0 + u32::from(block));
        if of_nodes {
            let moved = volume.move_node(at, owner.nid)?;
            (collected.nodes, collected.left) =
                (collected.nodes + u32::from(moved), collected.left + u32::from(!moved));
            continue;
        }
        match volume.liveness(at, owner)? {
            Liveness::Live(inode, page) => live.push(LiveBlock { from: at, inode, page, owner }),
            Liveness::Taken => collected.data += 1,
            Liveness::Dead | Liveness::Stays => collected.left += 1,
        }
    }
    move_data(volume, live, mover, collected)
}

fn move_data<V: CollectableVolume>(
    volume: &mut V,
    mut live: Vec<LiveBlock>,
    mover: &mut dyn BlockMover,
    collected: &mut CollectedSection,
) -> Result<()> {
    if live.is_empty() {
        return Ok(());
    }
    let mut before: Vec<BlockAddress> = live.iter().map(|block| block.from).collect();
    let original = live.clone();
    mover.arrange(&mut live);
    let mut after: Vec<BlockAddress> = live.iter().map(|block| block.from).collect();
    before.sort_unstable();
    after.sort_unstable();
    if before != after {
        // The mover may only reorder the blocks.
        live = original;
    }
    let unit = mover.unit(volume.mover());
    let (live, pairs) = units::place(volume, live, unit)?;
    carry(volume, mover, (&live, &pairs), &mut |_, mapped| {
        collected.data += 1;
        collected.mapped.extend(mapped);
    })
}

/// Moves live data blocks to the addresses found for them: transfers the content, then updates the
/// map and frees the old addresses. `moved` receives each new address, and the old one if the
/// device still maps it until the checkpoint. Errors: those of the transfer, after which the new
/// addresses are free again, and of the map.
pub(crate) fn carry<V: CollectableVolume>(
    volume: &mut V,
    mover: &mut dyn BlockMover,
    (live, pairs): (&[LiveBlock], &[(BlockAddress, BlockAddress)]),
    moved: &mut dyn FnMut(BlockAddress, Option<BlockAddress>),
) -> Result<()> {
    let now = volume.now();
    let mut mapped = match mover.transfer(volume.mover(), pairs) {
        Ok(mapped) => mapped,
        Err(error) => {
            volume.with_space(|space| {
                pairs.iter().for_each(|&(_, to)| space.free(to, now));
                Ok(())
            })?;
            return Err(error);
        }
    };
    mapped.sort_unstable();
    for (block, &(from, to)) in live.iter().zip(pairs) {
        volume.moved(block, to)?;
        volume.with_space(|space| {
            space.free(from, now);
            Ok(())
        })?;
        moved(to, mapped.binary_search(&from).is_ok().then_some(from));
    }
    Ok(())
}
