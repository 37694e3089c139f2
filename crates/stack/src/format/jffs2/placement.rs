//! The OOB placements that are tried to find JFFS2 in a file: no OOB, OOB after each page, OOB
//! after each block.

use nandkit_flash::Flash;
use nandkit_flash_image::{DumpFlash, Image, ImageLayout, OobPlacement, detect};
use nandkit_jffs2::layout::HEADER_SIZE;
use nandkit_jffs2::probe::{self, Assumptions, ERASE_SIZE_MIN, Probe, VolumeExtent, any_node, first_oob_marker};
use nandkit_units::FlashKind;
use nandkit_vfs::probe::{Depth, SURE};

use super::volumes::{end_with_a_block, volumes};
use crate::format::OpenOptions;
use crate::format::detected::Within;
use crate::format::recognise::asked_for;

/// Largest erase size that is tried for OOB after blocks, in bytes.
const AFTER_BLOCK_MAX: u32 = 1 << 20;
/// Blocks of such a dump that must begin with a node or erased flash.
const BEGINNINGS: u64 = 16;
/// Bytes of a dump that are searched for the first cleanmarker in an OOB.
const FIRST_MARKER: usize = 8 << 20;
/// Largest OOB size that is tried for page sizes that no known chip has.
const OOB_MAX: u32 = 4096;
/// Points of quality by which a placement with an OOB, without evidence of the OOB, must beat the
/// one without.
const OOB_MARGIN: u32 = 60;
/// Largest number of placements that are scanned completely.
const THOROUGH_MAX: usize = 4;

/// A placement, and what a probe finds when it reads the dump by it.
#[derive(Debug)]
pub(super) struct ProbedPlacement {
    /// A layout of this placement for the whole file. Its erase size is only meaningful with OOB
    /// after blocks.
    pub layout: ImageLayout,
    pub probe: Probe,
    /// The volumes in a part without a proven end; empty if one volume fills it.
    pub volumes: Vec<VolumeExtent>,
    /// Bytes of nodes found, per 1000 of those found by the best placement.
    pub share: u32,
    /// Whether the file ends with a whole page and its OOB.
    whole_pages: bool,
}

impl ProbedPlacement {
    fn of(image: &Image, within: Within, layout: ImageLayout, depth: Depth, options: &OpenOptions) -> Option<Self> {
        let device = view(image, within, &layout)?;
        let page_size = match layout.oob {
            OobPlacement::None => options.page_size.unwrap_or(1),
            _ => layout.page_size,
        };
        let asked: Vec<u32> = options.erase_size.into_iter().collect();
        // With OOB after blocks, the position of the OOB determines the block size.
        let block_with_oob = (layout.oob == OobPlacement::AfterBlock).then_some(layout.block_size);
        let known = Assumptions { page_size, erase_sizes: &asked, block_with_oob };
        let mut volumes =
            if within.1.is_none() && depth == Depth::Thorough { inside(&device, &known) } else { Vec::new() };
        let parts: Vec<_> = volumes.iter().map(|volume| volume.range.clone()).collect();
        let probe = match parts.as_slice() {
            [] => probe::probe(&device, depth, &known)?,
            parts => probe::probe_parts(&device, parts, depth, &known)?,
        };
        if let Some(block) = probe.proven_erase_size().filter(|_| layout.oob != OobPlacement::None) {
            volumes.iter_mut().for_each(|volume| end_with_a_block(volume, block.into()));
        }
        let whole_pages = within != (0, None) || (image.bytes().len() as u64).is_multiple_of(layout.stored_page());
        Some(Self { layout, probe, volumes, share: 1000, whole_pages })
    }

    /// How completely the placement explains the bytes as nodes, and finds all nodes: up to 1000.
    fn quality(&self) -> u32 {
        (self.probe.quality() * self.share / 1000).max(1)
    }

    fn is_clean(&self) -> bool {
        self.probe.is_clean() && self.volumes.is_empty() && (self.layout.oob == OobPlacement::None || self.whole_pages)
    }
}

/// The volumes in a device; empty if a single one fills it.
fn inside(device: &DumpFlash, known: &Assumptions<'_>) -> Vec<VolumeExtent> {
    let found = volumes(device, known);
    match found.as_slice() {
        [one] if one.range == (0..device.geometry().capacity()) => Vec::new(),
        _ => found,
    }
}

/// The part of an image as a device.
pub(super) fn view(image: &Image, within: Within, layout: &ImageLayout) -> Option<DumpFlash> {
    let part = if within == (0, None) { layout.clone() } else { layout.region(within.0, within.1).ok()? };
    image.view(part).ok()
}

/// All placements that show JFFS2 nodes. Cost: a quick probe by every placement, and a scan of the
/// part, up to about 64 MiB, by the best few.
pub(super) fn probed_placements(
    image: &Image,
    within: Within,
    options: &OpenOptions,
    depth: Depth,
) -> Vec<ProbedPlacement> {
    let mut found = look(image, within, usual(options), options, depth);
    keep_convincing(&mut found);
    if depth == Depth::Thorough && !found.iter().any(ProbedPlacement::is_clean) {
        found.extend(look(image, within, after_blocks(image.bytes(), options), options, depth));
        keep_convincing(&mut found);
    }
    // OOB after a block of small pages looks like the OOB of one large page.
    if depth == Depth::Thorough && !found.iter().any(ProbedPlacement::is_clean) {
        let marked = look(image, within, by_marker(image.bytes(), options), options, depth);
        found.extend(marked.into_iter().filter(|placement| placement.probe.oob_markers() > 0));
    }
    found
}

/// Removes placements with an OOB without evidence, unless they connect nodes better and lose none:
/// a wrong placement may happen to cut out the bytes between nodes.
fn keep_convincing(found: &mut Vec<ProbedPlacement>) {
    let has_oob = |placement: &ProbedPlacement| placement.layout.oob != OobPlacement::None;
    // A wrong placement may show a few nodes without gaps if it may leave out the rest.
    if found.iter().any(|placement| !placement.volumes.is_empty()) {
        let most = found.iter().map(|placement| placement.probe.node_bytes()).max().unwrap_or(0).max(1);
        for placement in found.iter_mut() {
            placement.share = u32::try_from(1000 * placement.probe.node_bytes() / most).unwrap_or(1000);
        }
    }
    let plain = found.iter().find(|placement| !has_oob(placement));
    let Some((quality, nodes)) = plain.map(|plain| (plain.quality(), plain.probe.node_bytes())) else { return };
    found.retain(|placement| {
        // If the dump ends within a page, more nodes must be found: a wrong placement may also cut
        // out the blank flash between a few nodes.
        let least = nodes + u64::from(!placement.whole_pages);
        let is_better = placement.quality() > (quality + OOB_MARGIN).max(SURE) && placement.probe.node_bytes() >= least;
        !has_oob(placement) || placement.probe.oob_markers() > 0 || is_better
    });
}

fn look(
    image: &Image,
    within: Within,
    layouts: Vec<ImageLayout>,
    options: &OpenOptions,
    depth: Depth,
) -> Vec<ProbedPlacement> {
    // If the options set a size beyond the file, the rest counts as blank.
    let length = (image.bytes().len() as u64).max(within.0.saturating_add(within.1.unwrap_or(0)));
    let layouts = layouts.into_iter().map(|layout| known_blocks(layout, options));
    let glanced = layouts.filter(|layout| length >= layout.stored_page()).filter_map(|layout| {
        let plain = layout.oob == OobPlacement::None && depth == Depth::Thorough;
        let placement =
            ProbedPlacement::of(image, within, layout.clone(), if plain { depth } else { Depth::Glance }, options)?;
        Some((placement.probe.quality(), placement))
    });
    let mut glanced: Vec<(u32, ProbedPlacement)> = glanced.collect();
    // Little content fits many block sizes; the right size has its cleanmarkers in the right
    // places.
    let markers = |placement: &ProbedPlacement| match placement.layout.oob {
        OobPlacement::AfterBlock => placement.probe.oob_markers(),
        _ => 0,
    };
    glanced.sort_by_key(|(quality, placement)| std::cmp::Reverse((*quality, markers(placement))));
    if depth == Depth::Glance {
        return glanced.into_iter().map(|(_, placement)| placement).collect();
    }
    // Quick and thorough probes do not compare. Placements without OOB had the thorough one, and
    // stay.
    let (plain, mut with_oob): (Vec<_>, Vec<_>) =
        glanced.into_iter().partition(|(_, placement)| placement.layout.oob == OobPlacement::None);
    let best = with_oob.first().map_or(0, |(quality, _)| *quality);
    with_oob.retain(|(quality, _)| *quality >= best / 2);
    with_oob.truncate(THOROUGH_MAX);
    let thorough = with_oob
        .into_iter()
        .filter_map(|(_, placement)| ProbedPlacement::of(image, within, placement.layout, depth, options));
    plain.into_iter().map(|(_, placement)| placement).chain(thorough).collect()
}

/// Applies the block options to a layout: the given erase size if blocks are missing, and the
/// blocks themselves.
fn known_blocks(layout: ImageLayout, options: &OpenOptions) -> ImageLayout {
    let layout = match options.erase_size.filter(|_| !options.missing_blocks.is_empty()) {
        Some(size) if layout.oob != OobPlacement::AfterBlock => sized(&layout, size),
        _ => layout,
    };
    options.with_blocks(layout)
}

/// The placement with another block size.
pub(super) fn sized(layout: &ImageLayout, size: u32) -> ImageLayout {
    match (layout.kind, layout.oob) {
        (FlashKind::Nor, _) => {
            ImageLayout { block_size: size, page_size: ImageLayout::nor(size).page_size, ..layout.clone() }
        }
        (_, OobPlacement::AfterBlock) => layout.clone(),
        _ => ImageLayout { block_size: size, ..layout.clone() },
    }
}

/// The smallest block of whole pages. The real size is determined later.
fn block_of(page: u32) -> u32 {
    page.max(ERASE_SIZE_MIN)
}

fn allowed(options: &OpenOptions, page: u32, oob: u32) -> bool {
    options.page_size.is_none_or(|size| size == page) && options.oob_size.is_none_or(|size| size == oob)
}

/// The usual layouts: without OOB, and with OOB after each page for common page sizes; or those of
/// the options.
fn usual(options: &OpenOptions) -> Vec<ImageLayout> {
    let mut layouts = Vec::new();
    if options.oob_size.is_none_or(|size| size == 0) {
        layouts.push(match options.page_size {
            Some(page) => ImageLayout::nand(block_of(page), page),
            None => ImageLayout::nor(ERASE_SIZE_MIN),
        });
    }
    let pages = detect::pages().filter(|(page, oob)| allowed(options, *page, *oob));
    layouts.extend(pages.map(|(page, oob)| ImageLayout::nand_oob(block_of(page), page, oob)));
    if let Some(asked) = asked_for(options).filter(|asked| asked.oob != OobPlacement::None) {
        let known = |layout: &ImageLayout| (layout.page_size, layout.oob_size) == (asked.page_size, asked.oob_size);
        if !layouts.iter().any(known) {
            layouts.push(ImageLayout::nand_oob(block_of(asked.page_size), asked.page_size, asked.oob_size));
        }
    }
    layouts
}

/// Layouts with unusual page sizes: the first cleanmarker in an OOB shows where the first page
/// ends, and the length of the file limits the size of a page with its OOB.
fn by_marker(bytes: &[u8], options: &OpenOptions) -> Vec<ImageLayout> {
    let beginning = bytes.get(..FIRST_MARKER).unwrap_or(bytes);
    let Some(first) = first_oob_marker(beginning) else { return Vec::new() };
    let first = u32::try_from(first).unwrap_or(u32::MAX);
    let mut layouts = Vec::new();
    for page in (8..=16).map(|power| 1_u32 << power) {
        let Some(room) = first.checked_sub(page).map(|inside| inside + 8) else { continue };
        for oob in (room.max(16)..=OOB_MAX.min(page.saturating_mul(2))).filter(|oob| allowed(options, page, *oob)) {
            if (bytes.len() as u64).is_multiple_of(u64::from(page) + u64::from(oob)) {
                layouts.push(ImageLayout::nand_oob(block_of(page), page, oob));
            }
        }
    }
    layouts
}

/// Layouts with OOB after blocks, if the file consists of whole such blocks and they begin with
/// nodes or erased flash.
fn after_blocks(bytes: &[u8], options: &OpenOptions) -> Vec<ImageLayout> {
    let mut layouts = Vec::new();
    for (page, oob) in detect::pages().filter(|(page, oob)| allowed(options, *page, *oob)) {
        let sizes = (ERASE_SIZE_MIN.ilog2()..=AFTER_BLOCK_MAX.ilog2()).map(|power| 1_u32 << power);
        let sizes = sizes.filter(|size| *size >= page && options.erase_size.is_none_or(|asked| asked == *size));
        for size in sizes {
            let layout = ImageLayout { oob: OobPlacement::AfterBlock, ..ImageLayout::nand_oob(size, page, oob) };
            if blocks_begin(bytes, &layout) {
                layouts.push(layout);
            }
        }
    }
    layouts
}

fn blocks_begin(bytes: &[u8], layout: &ImageLayout) -> bool {
    let (length, stored) = (bytes.len() as u64, layout.stored_block());
    if stored == 0 || !length.is_multiple_of(stored) {
        return false;
    }
    let mut nodes = 0;
    for block in 0..(length / stored).min(BEGINNINGS) {
        let start = usize::try_from(block * stored).unwrap_or(usize::MAX);
        let Some(first) = bytes.get(start..).and_then(|rest| rest.get(..HEADER_SIZE as usize)) else { return false };
        match any_node(first) {
            Some(_) => nodes += 1,
            None if nandkit_units::is_erased(first) => {}
            None => return false,
        }
    }
    nodes > 0
}
