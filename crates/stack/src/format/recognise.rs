//! Detection of formats in a dump or in one of its regions.

use std::collections::BTreeMap;

use nandkit_flash_image::detect::{self, Candidate};
use nandkit_flash_image::regions::{Region, RegionSource, partitions, regions};
use nandkit_flash_image::{DumpFlash, Image, ImageLayout, OobPlacement};
use nandkit_units::FlashKind;
use nandkit_vfs::probe::{Depth, SURE};

use super::detected::{DetectedFormat, View, Within};
use super::{FORMATS, MediumKind, OpenOptions};

/// Largest number of detections that are reported, besides those that differ from the first only in
/// the erase size.
const TOLD_MAX: usize = 4;

/// Points from which a layout with OOB is accepted without a detected format: a length of whole
/// blocks, or half of the marks. Fewer points may be chance.
const OOB_POINTS_MIN: u32 = 60;

/// A region of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// Its number, usable as `region`.
    pub number: usize,
    /// Its name, usable as `region`.
    pub name: String,
    /// First data byte.
    pub offset: u64,
    /// Data bytes.
    pub size: u64,
    /// Its content, as far as its source says.
    pub kind: String,
    /// The source of this information.
    pub source: String,
    /// Whether a partition table lists it; otherwise its content shows it.
    pub in_table: bool,
    /// The format of its volume, if it can be opened.
    pub opens_as: Option<&'static str>,
    /// Notes about it.
    pub notes: Vec<String>,
    /// Doubts about its borders. With doubts nothing is changed in it, unless the options give its
    /// position.
    pub doubts: Vec<String>,
}

impl RegionInfo {
    /// Notes and doubts, for messages when it is opened.
    pub fn told(&self) -> Vec<String> {
        self.notes.iter().chain(&self.doubts).cloned().collect()
    }
}

/// All formats detected in a part of an image, the most likely first.
pub(crate) fn look(image: &Image, within: Within, options: &OpenOptions) -> Vec<DetectedFormat> {
    look_at(&View { image, within, options, depth: Depth::Thorough })
}

fn look_at(view: &View<'_>) -> Vec<DetectedFormat> {
    let mut found: Vec<DetectedFormat> = Vec::new();
    for medium in [MediumKind::Blocks, MediumKind::Flash] {
        let asked = FORMATS.iter().filter(|format| format.medium() == medium);
        found.extend(asked.flat_map(|format| format.probe(view)));
        found.sort_by_key(|found| std::cmp::Reverse(found.detection.points));
        if found.first().is_some_and(|best| best.claims.ends_search) {
            return found;
        }
    }
    // Only the most likely placements are kept, but all erase sizes of the first one.
    let first = found.first().map(|found| found.detection.describes());
    let mut others = 0;
    found.retain(|found| {
        others += usize::from(Some(found.detection.describes()) != first);
        Some(found.detection.describes()) == first || others < TOLD_MAX
    });
    found
}

/// The possible layouts of the whole dump within the options. Cost: reads some thousand pages.
fn candidates(image: &Image, options: &OpenOptions) -> Vec<Candidate> {
    let mut found = detect::candidates(image.bytes());
    found.retain(|candidate| agrees(&candidate.layout, options));
    if let Some(layout) = asked_for(options).filter(|asked| !found.iter().any(|known| known.layout == *asked)) {
        found.insert(0, Candidate { layout, points: 0, evidence: vec!["the layout was requested".to_owned()] });
    }
    found
}

fn agrees(layout: &ImageLayout, options: &OpenOptions) -> bool {
    options.erase_size.is_none_or(|size| size == layout.block_size)
        && options.page_size.is_none_or(|size| layout.kind == FlashKind::Nand && size == layout.page_size)
        && options.oob_size.is_none_or(|size| size == layout.oob_size)
}

/// The layout of the options, with usual values for what they leave out; `None` if they give none.
pub(crate) fn asked_for(options: &OpenOptions) -> Option<ImageLayout> {
    let oob = options.oob_size.filter(|size| *size > 0);
    let page = match (options.page_size, oob) {
        (Some(page), _) => Some(page),
        // 16 bytes of OOB per 512 bytes of data, as for the usual chips in
        // include/linux/mtd/nand.h.
        (None, Some(oob)) => Some(oob.saturating_mul(32).clamp(512, 16_384).next_power_of_two()),
        (None, None) => None,
    };
    let pages = |page: u32| if page <= 512 { 32 } else { 64 };
    match (options.erase_size, page, oob) {
        (Some(erase), None, None) => Some(ImageLayout::nor(erase)),
        (erase, Some(page), None) => Some(ImageLayout::nand(erase.unwrap_or(page.saturating_mul(pages(page))), page)),
        (erase, Some(page), Some(oob)) => {
            Some(ImageLayout::nand_oob(erase.unwrap_or(page.saturating_mul(pages(page))), page, oob))
        }
        _ => None,
    }
}

/// The most likely layout of a whole dump, used to find its regions.
pub(crate) fn base_layout(image: &Image, found: &[DetectedFormat], options: &OpenOptions) -> ImageLayout {
    // A certain file system on blocks excludes pages with OOB, even if flash content after it and
    // the length happen to fit.
    let is_on_blocks = is_sure(found) && found.first().is_some_and(|best| best.format.medium() == MediumKind::Blocks);
    let fits = |layout: &ImageLayout| !is_on_blocks || layout.oob == OobPlacement::None;
    if let Some(best) = found.iter().find(|found| found.detection.erase_size > 0 && fits(&found.layout)) {
        return options.with_blocks(ImageLayout { offset: 0, size: None, ..best.layout.clone() });
    }
    if let Some(asked) = asked_for(options) {
        return options.with_blocks(asked);
    }
    let candidates = candidates(image, options);
    let is_shown = |best: &&Candidate| {
        best.layout.oob != OobPlacement::None && best.points >= OOB_POINTS_MIN && fits(&best.layout)
    };
    let with_oob = detect::by_layout(&candidates).into_iter().next().filter(is_shown);
    // Without OOB the page size does not matter for reading.
    with_oob.map_or_else(|| ImageLayout::nor(4096), |best| best.layout.clone())
}

/// The options for detection in a region of a dump with this layout. If the dump has no OOB, none
/// is tried inside a region, since region offsets count the bytes of the file.
pub(crate) fn within_regions(options: &OpenOptions, layout: &ImageLayout) -> OpenOptions {
    let oob_size = options.oob_size.or((layout.oob == OobPlacement::None).then_some(0));
    OpenOptions { oob_size, ..options.clone() }
}

/// The regions of a dump, each with its format. If the whole dump is one volume, only the regions
/// of a partition table are listed.
pub(crate) fn region_list(
    image: &Image,
    device: &DumpFlash,
    options: &OpenOptions,
    whole: &[DetectedFormat],
) -> Vec<(Region, RegionInfo)> {
    // Several tables or texts often list the same part.
    let mut known: BTreeMap<(u64, u64), Option<&'static str>> = BTreeMap::new();
    let options = &within_regions(options, device.layout());
    let told = |(number, region): (usize, Region)| {
        let opens_as = *known.entry((region.offset, region.size)).or_insert_with(|| {
            let within = (region.offset, Some(region.size));
            let best = look_at(&View { image, within, options, depth: Depth::Glance }).into_iter().next();
            best.map(|best| best.format.name())
        });
        let info = RegionInfo {
            number,
            name: region.name.clone(),
            offset: region.offset,
            size: region.size,
            kind: region.kind.clone(),
            source: region.source.to_string(),
            in_table: is_in_a_table(&region),
            opens_as,
            notes: region.notes.clone(),
            doubts: region.doubts.clone(),
        };
        (region, info)
    };
    let found = if whole.first().is_some_and(|best| best.claims.whole_image) {
        partitions(device)
    } else {
        let signatures: Vec<_> = FORMATS.iter().rev().filter_map(|format| format.signature()).collect();
        let volumes = FORMATS.iter().flat_map(|format| format.volumes(device)).collect();
        regions(device, &signatures, volumes)
    };
    let mut told: Vec<(Region, RegionInfo)> = found.into_iter().enumerate().map(told).collect();
    note_crossed(device, &mut told);
    told
}

/// Adds a note to regions of a table whose volume begins before them: the dump leaves out earlier
/// blocks, so that everything after them moved forward, or the table belongs to another flash.
fn note_crossed(device: &DumpFlash, regions: &mut [(Region, RegionInfo)]) {
    let begins: Vec<u64> =
        regions.iter().filter(|(region, _)| is_in_a_table(region)).map(|(region, _)| region.offset).collect();
    for (region, info) in regions.iter_mut().filter(|(region, _)| is_in_a_table(region) && region.offset > 0) {
        let Some(format) = FORMATS.iter().find(|format| Some(format.name()) == info.opens_as) else { continue };
        // A volume that begins where a partition begins may belong to that partition.
        if format.crosses(device, region.offset).is_some_and(|start| !begins.contains(&start)) {
            info.notes.push(format!(
                "this volume begins before {:#x}, its start in the table: the dump seems to leave out blocks before that; \
                 `missing_blocks` says which, or `offset` where the volume begins",
                region.offset
            ));
        }
    }
}

/// What an image or a part of it shows without a region being chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A volume of this format, which can be opened.
    Volume(&'static str),
    /// Regions, none of which can be opened.
    Regions,
}

/// What the part of an image at `offset` and `size` shows; `None` if nothing is detected. Cost:
/// detection in the whole part and in each region.
pub(crate) fn shown(image: &Image, options: &OpenOptions) -> Option<Shown> {
    let within = (options.offset.unwrap_or(0), options.size);
    let options = &OpenOptions { region: None, ..options.clone() };
    let whole = look(image, within, options);
    if let Some(best) = whole.first() {
        return Some(Shown::Volume(best.format.name()));
    }
    let device = image.view(base_layout(image, &whole, options)).ok()?;
    let regions = region_list(image, &device, options, &whole);
    let opens = regions.iter().find_map(|(_, region)| region.opens_as).map(Shown::Volume);
    opens.or_else(|| (!regions.is_empty()).then_some(Shown::Regions))
}

/// Whether a region comes from a table, not from its content.
pub(crate) fn is_in_a_table(region: &Region) -> bool {
    match region.source {
        RegionSource::Mbr | RegionSource::Gpt | RegionSource::Esp32 => true,
        RegionSource::MtdParts { in_environment, .. } => in_environment,
        RegionSource::Signature => false,
    }
}

/// Whether the whole is certainly of one format, so that regions found only by content do not
/// count.
pub(crate) fn is_sure(found: &[DetectedFormat]) -> bool {
    found.first().is_some_and(|best| best.score >= SURE && !best.claims.several)
}
