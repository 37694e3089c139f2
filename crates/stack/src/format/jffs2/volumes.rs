//! The volumes of JFFS2 in a dump, as nodes show them and as tables bound them.

use nandkit_flash::Flash;
use nandkit_flash_image::regions::{Region, RegionSource, Signature, named};
use nandkit_flash_image::{DumpFlash, OobPlacement};
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::probe::{self, Assumptions, VolumeExtent};

/// Every volume in a dump: what nodes show, cut where a table, or `mtdparts` outside of all
/// volumes, lets a partition begin or end.
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

/// On NAND a volume ends with an erase block of the dump, whether its own nodes prove the size or
/// not: a block behind that is blank only at its beginning is none of its own.
pub(super) fn end_with_a_block(volume: &mut VolumeExtent, block: u64) {
    let end = volume.range.end / block.max(1) * block;
    if end >= volume.used_end && end > volume.range.start {
        volume.range.end = end;
    }
}

/// Whether a region's borders are those of volumes: a text in a file of a volume says nothing of
/// it.
fn counts(region: &Region, shown: &[VolumeExtent]) -> bool {
    match &region.source {
        RegionSource::MtdParts { at, in_environment, .. } => {
            *in_environment || !shown.iter().any(|volume| volume.range.contains(at))
        }
        RegionSource::Mbr | RegionSource::Gpt | RegionSource::Esp32 => true,
        RegionSource::Signature => false,
    }
}

/// A volume cut at borders; a piece without nodes is none.
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

/// What a dump's layout tells of the volumes in it.
fn known(device: &DumpFlash) -> Assumptions<'static> {
    let page_size = match device.layout().oob {
        OobPlacement::None => 1,
        _ => device.geometry().page_size,
    };
    Assumptions { page_size, erase_sizes: &[], block_with_oob: None }
}

/// Where the volume begins whose nodes stand on both sides of a place, whatever tables say.
pub(super) fn crosses(device: &DumpFlash, place: u64) -> Option<u64> {
    let shown = probe::volumes(device, &known(device));
    shown.iter().find(|volume| volume.range.start < place && place < volume.used_end).map(|volume| volume.range.start)
}

/// The volumes of a dump, as regions show themselves.
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
