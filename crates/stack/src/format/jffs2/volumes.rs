//! Finds the JFFS2 volumes in a dump from their nodes and from partition tables.

use nandkit_flash::Flash;
use nandkit_flash_image::regions::{Region, RegionSource, Signature, named};
use nandkit_flash_image::{DumpFlash, OobPlacement};
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::probe::{self, Assumptions, VolumeExtent};

/// All volumes in a dump: ranges of nodes, cut at the partition borders of a table or of `mtdparts`
/// text outside of all volumes.
pub(super) fn volumes(device: &DumpFlash, known: &Assumptions<'_>) -> Vec<VolumeExtent> {
    let mut shown = probe::volumes(device, known);
    if shown.is_empty() {
        return shown;
    }
    if device.layout().oob != OobPlacement::None {
        shown.iter_mut().for_each(|volume| end_with_a_block(volume, device.geometry().block_size()));
    }
    let mut borders: Vec<u64> = named(device)
        .iter()
        .filter(|region| counts(region, &shown))
        .flat_map(|region| [region.offset, region.offset.saturating_add(region.size)])
        .collect();
    borders.sort_unstable();
    borders.dedup();
    shown.into_iter().flat_map(|volume| cut(volume, &borders)).collect()
}

/// Extends a volume on NAND to the end of an erase block, whether or not its nodes prove the block
/// size. A following block that is only blank at its beginning does not belong to it.
pub(super) fn end_with_a_block(volume: &mut VolumeExtent, block: u64) {
    let end = volume.range.end / block.max(1) * block;
    if end >= volume.used_end && end > volume.range.start {
        volume.range.end = end;
    }
}

/// Whether the borders of a region can be borders of volumes. Text inside a file of a volume does
/// not count.
fn counts(region: &Region, shown: &[VolumeExtent]) -> bool {
    match &region.source {
        RegionSource::MtdParts { at, in_environment, .. } => {
            *in_environment || !shown.iter().any(|volume| volume.range.contains(at))
        }
        RegionSource::Mbr | RegionSource::Gpt | RegionSource::Esp32 => true,
        RegionSource::Signature => false,
    }
}

/// A volume cut at borders; pieces without nodes are dropped.
fn cut(volume: VolumeExtent, borders: &[u64]) -> Vec<VolumeExtent> {
    let mut pieces = Vec::new();
    let mut rest = volume;
    for border in borders {
        if *border <= rest.range.start || *border >= rest.range.end {
            continue;
        }
        let first =
            VolumeExtent { range: rest.range.start..*border, used_end: rest.used_end.min(*border), ..rest.clone() };
        pieces.push(first);
        if *border >= rest.used_end {
            return pieces;
        }
        rest.range.start = *border;
    }
    pieces.push(rest);
    pieces
}

/// What the layout of a dump says about its volumes.
fn known(device: &DumpFlash) -> Assumptions<'static> {
    let page_size = match device.layout().oob {
        OobPlacement::None => 1,
        _ => device.geometry().page_size,
    };
    Assumptions { page_size, erase_sizes: &[], block_with_oob: None }
}

/// The start of a volume with nodes on both sides of `place`, regardless of tables.
pub(super) fn crosses(device: &DumpFlash, place: u64) -> Option<u64> {
    let shown = probe::volumes(device, &known(device));
    shown.iter().find(|volume| volume.range.start < place && place < volume.used_end).map(|volume| volume.range.start)
}

/// The volumes of a dump as signatures of regions.
pub(super) fn signatures(device: &DumpFlash) -> Vec<(u64, Signature)> {
    let shown = |volume: VolumeExtent| {
        let kind = match volume.order {
            ByteOrder::Little => "JFFS2, little-endian",
            ByteOrder::Big => "JFFS2, big-endian",
        };
        let size = volume.range.end - volume.range.start;
        (volume.range.start, Signature { doubts: volume.doubts, ..Signature::new("jffs2", kind, Some(size)) })
    };
    volumes(device, &known(device)).into_iter().map(shown).collect()
}
