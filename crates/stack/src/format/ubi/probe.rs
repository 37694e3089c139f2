//! Detection of UBI in a dump: without OOB, or with OOB after each page.
//!
//! The placements are told apart by the identifier headers: an erase counter header says where its
//! PEB has one, and only with the right page size is it there.

use nandkit_flash::{Flash as _, Look as _};
use nandkit_flash_image::regions::{PROBE_BYTES, Signature, stranger};
use nandkit_flash_image::{DumpFlash, ImageLayout, OobPlacement, detect};
use nandkit_ubi::layout::EC_MAGIC;
use nandkit_ubi::probe::{PEB_SIZE_MIN, Survey, devices};
use nandkit_units::{FlashKind, format_bytes, is_erased};
use nandkit_vfs::probe::Depth;

use crate::format::detected::{Claims, DetectedFormat, Detection, View};
use crate::format::recognise::asked_for;
use crate::format::{BEGINNING, Format};

/// Bytes of a file in which the first header is looked for: more than raw flash has.
const SEARCHED_MAX: usize = 4 << 30;

/// Most points for a device that does not begin the part.
const INSIDE: u32 = 400;

/// A placement, and the devices that it shows.
struct Placement {
    layout: ImageLayout,
    devices: Vec<Survey>,
    /// How well the file's length and its bad-block marks fit.
    layout_points: u32,
}

impl Placement {
    /// The more headers are in their places, the better; then the size of pages and the marks tell.
    fn rank(&self) -> (u32, bool, u32) {
        let identified = self.devices.iter().map(|device| device.blocks.identified).sum();
        let page_fits = |device: &Survey| device.page_sizes().any(|size| size == self.layout.page_size);
        let has_right_pages = self.layout.oob == OobPlacement::None || self.devices.iter().all(page_fits);
        (identified, has_right_pages, self.layout_points)
    }
}

/// The placement that shows most, if any shows UBI.
pub(super) fn found(format: &'static dyn Format, view: &View<'_>) -> Vec<DetectedFormat> {
    let Some(first) = first_magic(view.image.bytes()) else { return Vec::new() };
    let placements = layouts(view).into_iter().filter_map(|layout| {
        let device = device(view, &layout)?;
        let from = data_byte(&layout, first).saturating_sub(view.within.0);
        let devices = devices(&device, from, view.depth, view.options.erase_size);
        let one = devices.first().filter(|one| has_whole_pages(&layout, one))?;
        let layout_points = detect::judge(view.image.bytes(), sized(&layout, one)).points;
        Some(Placement { layout, devices, layout_points })
    });
    let best = placements.reduce(|best, next| if next.rank() > best.rank() { next } else { best });
    best.and_then(|best| detected(format, view, &best)).into_iter().collect()
}

/// The devices of a dump, as signatures of regions.
pub(super) fn signatures(device: &DumpFlash) -> Vec<(u64, Signature)> {
    let asked = (device.layout().oob != OobPlacement::None).then_some(device.layout().block_size);
    let found = devices(device, 0, Depth::Thorough, asked);
    let sure = found.into_iter().filter(Survey::is_sure);
    sure.map(|survey| {
        let size = survey.range.end - survey.range.start;
        let detail = format!("blocks of {}", format_bytes(survey.peb_size.into()));
        (survey.range.start, Signature { detail, ..Signature::new("ubi", "UBI", Some(size)) })
    })
    .collect()
}

/// The first erase counter header in a file, however its pages lie.
fn first_magic(bytes: &[u8]) -> Option<u64> {
    let searched = bytes.get(..SEARCHED_MAX).unwrap_or(bytes);
    memchr::memmem::find(searched, &EC_MAGIC.to_be_bytes()).map(|at| at as u64)
}

/// The data byte that stands at or before a byte of the file.
fn data_byte(layout: &ImageLayout, at: u64) -> u64 {
    at / layout.stored_page().max(1) * u64::from(layout.page_size)
}

/// The layouts that are tried, with blocks of any size; that without OOB is the first.
fn layouts(view: &View<'_>) -> Vec<ImageLayout> {
    let options = view.options;
    let mut layouts = Vec::new();
    if options.oob_size.is_none_or(|size| size == 0) {
        layouts.push(ImageLayout::nor(options.erase_size.unwrap_or(PEB_SIZE_MIN)));
    }
    let fits = |(page, oob): &(u32, u32)| {
        options.page_size.is_none_or(|size| size == *page) && options.oob_size.is_none_or(|size| size == *oob)
    };
    layouts.extend(detect::pages().filter(fits).map(|(page, oob)| ImageLayout::nand_oob(page, page, oob)));
    let known = |asked: &ImageLayout| {
        layouts.iter().any(|layout| (layout.page_size, layout.oob_size) == (asked.page_size, asked.oob_size))
    };
    let asked = asked_for(options).filter(|asked| asked.oob != OobPlacement::None && !known(asked));
    layouts.extend(asked.map(|asked| ImageLayout::nand_oob(asked.page_size, asked.page_size, asked.oob_size)));
    layouts
}

/// Whether blocks are whole pages, and as many as chips with an OOB have.
fn has_whole_pages(layout: &ImageLayout, survey: &Survey) -> bool {
    layout.oob == OobPlacement::None
        || survey.peb_size.is_power_of_two() && survey.peb_size.is_multiple_of(layout.page_size)
}

/// The part of the image by a layout.
fn device(view: &View<'_>, layout: &ImageLayout) -> Option<DumpFlash> {
    let (offset, size) = view.within;
    let part = if view.within == (0, None) { layout.clone() } else { layout.region(offset, size).ok()? };
    view.image.view(part).ok()
}

/// The layout with blocks and pages as a device has them.
fn sized(layout: &ImageLayout, survey: &Survey) -> ImageLayout {
    if layout.oob != OobPlacement::None {
        return ImageLayout { block_size: survey.peb_size, ..layout.clone() };
    }
    match survey.page_sizes().next() {
        Some(page) if survey.peb_size.is_multiple_of(page) => ImageLayout::nand(survey.peb_size, page),
        _ => ImageLayout::nor(survey.peb_size),
    }
}

/// The detection of a placement: its only device, or the whole part if it has several.
fn detected(format: &'static dyn Format, view: &View<'_>, placement: &Placement) -> Option<DetectedFormat> {
    let survey = placement.devices.first()?;
    let whole = view.options.with_blocks(sized(&placement.layout, survey));
    let several = placement.devices.len() > 1;
    let capacity = data_bytes(view, &whole);
    let fills_part = survey.range == (0..capacity);
    let (start, size) = match several {
        true => view.within,
        false => (view.within.0 + survey.range.start, Some(survey.range.end - survey.range.start)),
    };
    let fills = view.within == (0, None) && (several || fills_part);
    let layout = if fills { whole.clone() } else { whole.region(start, size).ok()? };
    let likeness = survey.likeness();
    let judged = detect::judge(view.image.bytes(), whole.clone());
    let is_nand = layout.kind == FlashKind::Nand;
    let begins_otherwise = survey.range.start > 0 && !begins_blank(view, &whole);
    if begins_otherwise && is_inside_another(view, &whole, survey) {
        return None;
    }
    // A file of a file system that begins the part may be a UBI image: that file system goes first.
    let score = if begins_otherwise { likeness.points.min(INSIDE) } else { likeness.points };
    let detection = Detection {
        format: format.name(),
        points: score.saturating_add(judged.points),
        why: likeness.evidence.into_iter().chain(judged.evidence).collect(),
        notes: Vec::new(),
        layout: match layout.oob {
            OobPlacement::None => format!("no OOB, {} blocks", format_bytes(layout.block_size.into())),
            _ => layout.describe(),
        },
        erase_size: layout.block_size,
        erase_sizes: likeness.layout.erase_sizes,
        page_size: if is_nand { layout.page_size } else { 0 },
        oob_size: layout.oob_size,
        byte_order: None,
    };
    Some(DetectedFormat {
        format,
        score,
        fit: likeness.layout.erase_size_fit,
        claims: Claims { begins_otherwise: begins_otherwise && several, several, ..Claims::default() },
        doubts: Vec::new(),
        left_out: if several { Vec::new() } else { left_out(view, survey, capacity) },
        layout,
        detection,
    })
}

/// Bytes of data of the part by a layout; 0 if it cannot be read by it.
fn data_bytes(view: &View<'_>, layout: &ImageLayout) -> u64 {
    device(view, layout).map_or(0, |device| device.geometry().capacity())
}

/// Whether the first bytes of the part are erased flash.
fn begins_blank(view: &View<'_>, layout: &ImageLayout) -> bool {
    let mut first = vec![0xFF; BEGINNING as usize];
    if let Some(device) = device(view, layout) {
        device.look_at(0, &mut first);
    }
    is_erased(&first)
}

/// Whether the part begins with a format that says its length, and the device is inside it: a file
/// of a file system that nandkit does not read.
fn is_inside_another(view: &View<'_>, layout: &ImageLayout, survey: &Survey) -> bool {
    let mut first = vec![0xFF; PROBE_BYTES];
    if let Some(device) = device(view, layout) {
        device.look_at(0, &mut first);
    }
    stranger(&first).and_then(|found| found.size).is_some_and(|size| size >= survey.range.end)
}

/// A note on the bytes of the part that are not the device's.
fn left_out(view: &View<'_>, survey: &Survey, capacity: u64) -> Vec<String> {
    let (start, end) = (view.within.0 + survey.range.start, view.within.0 + survey.range.end);
    let side = match (survey.range.start > 0, survey.range.end < capacity) {
        (true, true) => "before and behind it",
        (true, false) => "before it",
        (false, true) => "behind it",
        (false, false) => return Vec::new(),
    };
    vec![format!("UBI is {start:#x} to {end:#x}; what stands {side} is not opened")]
}
