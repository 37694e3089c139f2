//! Detection of JFFS2 in a dump: the placements, and the erase sizes that fit each.

use nandkit_flash::Look;
use nandkit_flash_image::{ImageLayout, OobPlacement, detect};
use nandkit_jffs2::probe::begins_with_node;
use nandkit_units::FlashKind;

use super::placement::{self, ProbedPlacement, sized};
use crate::format::detected::{Claims, DetectedFormat, Detection, View};
use crate::format::{BEGINNING, ByteOrder, Format};

/// Points of a layout with OOB for a fitting length alone.
const OOB_POINTS: u32 = 60;
/// Points deducted if neither a cleanmarker nor a bad-block mark shows that there is an OOB.
const OOB_DOUBT: u32 = 30;

/// All layouts that show nodes.
pub(super) fn found(format: &'static dyn Format, view: &View<'_>) -> Vec<DetectedFormat> {
    let claims = |placement: &ProbedPlacement| Claims {
        begins_otherwise: begins_otherwise(view, &placement.layout) && placement.volumes.len() != 1,
        several: placement.volumes.len() > 1,
        ..Claims::default()
    };
    let placements = placement::probed_placements(view.image, view.within, view.options, view.depth);
    placements.iter().flat_map(|placement| by_size(format, view, claims(placement), placement)).collect()
}

/// Whether the image begins with something else, after decoding pages by the layout.
fn begins_otherwise(view: &View<'_>, layout: &ImageLayout) -> bool {
    let mut first = vec![0xFF; BEGINNING as usize];
    let decoded = layout.ecc.as_ref().and_then(|_| view.image.view(layout.clone()).ok());
    match decoded {
        Some(device) => device.look_at(0, &mut first),
        None => {
            let bytes = view.image.bytes();
            first = bytes.get(..BEGINNING as usize).unwrap_or(bytes).to_vec();
        }
    }
    !begins_with_node(&first) && !nandkit_units::is_erased(&first)
}

/// A placement with each erase size that fits, or with the requested one.
fn by_size(
    format: &'static dyn Format,
    view: &View<'_>,
    claims: Claims,
    placement: &ProbedPlacement,
) -> Vec<DetectedFormat> {
    let (within, options) = (view.within, view.options);
    let mut sizes = options.erase_size.map_or_else(|| placement.probe.erase_sizes().to_vec(), |asked| vec![asked]);
    if placement.layout.oob != OobPlacement::None {
        sizes.retain(|size| size.is_multiple_of(placement.layout.page_size.max(1)));
    }
    let Some(first) = sizes.first() else { return Vec::new() };
    let judged = detect::judge(view.image.bytes(), sized(&placement.layout, *first));
    let marked = judged.points > OOB_POINTS || placement.probe.oob_markers() > 0;
    // An OOB without evidence is less likely than no OOB.
    let doubt = if placement.layout.oob == OobPlacement::None || marked { 0 } else { OOB_DOUBT };
    let mut found = Vec::new();
    for (place, size) in (0_u32..).zip(&sizes) {
        let likeness = placement.probe.likeness(*size, place);
        let score = (likeness.points * placement.share / 1000).saturating_sub(doubt).max(1);
        let layout = sized(&placement.layout, *size);
        let part = match placement.volumes.as_slice() {
            [one] => layout.region(within.0 + one.range.start, Some(one.range.end - one.range.start)),
            _ if within == (0, None) => Ok(layout),
            _ => layout.region(within.0, within.1),
        };
        let Ok(layout) = part else { continue };
        let mut why = likeness.evidence;
        why.extend(judged.evidence.iter().cloned());
        let (order, name) = match likeness.layout.byte_order {
            Some(ByteOrder::Big) => (ByteOrder::Big, "big"),
            _ => (ByteOrder::Little, "little"),
        };
        let mut notes = vec![format!("{name}-endian")];
        if placement.probe.summaries() > 0 {
            notes.push("holds summaries".to_owned());
        }
        let is_nand = layout.kind == FlashKind::Nand;
        let detection = Detection {
            format: format.name(),
            points: score.saturating_add(judged.points),
            why,
            notes,
            layout: described(&layout, placement),
            erase_size: layout.block_size,
            erase_sizes: likeness.layout.erase_sizes,
            page_size: if is_nand { layout.page_size } else { 0 },
            oob_size: layout.oob_size,
            byte_order: Some(order),
        };
        found.push(DetectedFormat {
            format,
            layout,
            score,
            fit: placement.probe.fit(*size),
            claims,
            doubts: doubts(placement),
            left_out: ends(placement, view),
            detection,
        });
    }
    found
}

/// The layout in words. It says NOR only if cleanmarkers in the data prove it.
fn described(layout: &ImageLayout, placement: &ProbedPlacement) -> String {
    if layout.kind == FlashKind::Nand || placement.probe.has_markers_in_data() {
        return layout.describe();
    }
    format!("no OOB, {} blocks", nandkit_units::format_bytes(layout.block_size.into()))
}

/// Notes on bytes of the part outside the volume.
fn ends(placement: &ProbedPlacement, view: &View<'_>) -> Vec<String> {
    let [one] = placement.volumes.as_slice() else { return Vec::new() };
    let (start, end) = (view.within.0 + one.range.start, view.within.0 + one.range.end);
    let told = format!("the volume is {start:#x} to {end:#x}; bytes before and after it are not changed");
    let mark = (placement.layout.oob == OobPlacement::None).then(|| end_mark(view.image.bytes(), start)).flatten();
    [told].into_iter().chain(one.doubts.iter().cloned()).chain(mark).collect()
}

/// Bytes before a volume that are searched for OpenWrt's mark: a block of the usual sizes.
const MARK_WITHIN: u64 = 256 << 10;

/// A note about OpenWrt's mark before a volume: data after the mark is older than the firmware and
/// is erased at the first boot (package/system/mtd, `jffs2.c`).
fn end_mark(bytes: &[u8], start: u64) -> Option<String> {
    let mut places = (1..=MARK_WITHIN / 4096).filter_map(|back| start.checked_sub(back * 4096));
    let is_mark = |at: &u64| {
        let place = usize::try_from(*at).ok().and_then(|at| bytes.get(at..));
        place.is_some_and(|rest| rest.starts_with(&[0xDE, 0xAD, 0xC0, 0xDE]))
    };
    places.find(is_mark).map(|at| {
        format!("0xDEADC0DE at {at:#x}: the data after it will be erased at the first boot, and may be older than the firmware")
    })
}

fn doubts(placement: &ProbedPlacement) -> Vec<String> {
    placement.volumes.iter().flat_map(|volume| volume.doubts.iter().cloned()).collect()
}
