//! What a dump is: every format is asked about the whole of it, or about one of its regions.

use std::collections::BTreeMap;

use nandkit_flash_image::detect::{self, Candidate};
use nandkit_flash_image::regions::{Region, RegionSource, partitions, regions};
use nandkit_flash_image::{DumpFlash, Image, ImageLayout, OobPlacement};
use nandkit_units::FlashKind;
use nandkit_vfs::probe::{Depth, SURE};

use super::detected::{DetectedFormat, View, Within};
use super::{FORMATS, MediumKind, OpenOptions};

/// Detections that are told, beside those that differ from the first in the erase size alone.
const TOLD_MAX: usize = 4;

/// Points from which a layout with OOB is taken where no format shows: the length of whole blocks,
/// or half of the marks. Less is chance.
const OOB_POINTS_MIN: u32 = 60;

/// A region of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// Its number, by which it can be opened.
    pub number: usize,
    /// Its name, by which it can be opened.
    pub name: String,
    /// First data byte.
    pub offset: u64,
    /// Data bytes.
    pub size: u64,
    /// What it holds, as far as its source tells.
    pub kind: String,
    /// How it is known.
    pub source: String,
    /// Whether a table names it, rather than the content showing it.
    pub in_table: bool,
    /// The format as which it can be opened.
    pub opens_as: Option<&'static str>,
    /// What is doubtful about it.
    pub notes: Vec<String>,
    /// What is not proven of its ends: nothing is changed in it then, unless the options say where
    /// it lies.
    pub doubts: Vec<String>,
}

impl RegionInfo {
    /// What who opens it is told.
    pub fn told(&self) -> Vec<String> {
        self.notes.iter().chain(&self.doubts).cloned().collect()
    }
}

/// Everything that a part of an image may be, the likeliest first.
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
    // Of the placements only the likeliest are told, but all sizes of the likeliest one.
    let first = found.first().map(|found| found.detection.describes());
    let mut others = 0;
    found.retain(|found| {
        others += usize::from(Some(found.detection.describes()) != first);
        Some(found.detection.describes()) == first || others < TOLD_MAX
    });
    found
}

/// The layouts of the whole that the options leave open. Cost: some thousand pages looked at.
fn candidates(image: &Image, options: &OpenOptions) -> Vec<Candidate> {
    let mut found = detect::candidates(image.bytes());
    found.retain(|candidate| agrees(&candidate.layout, options));
    if let Some(layout) = asked_for(options).filter(|asked| !found.iter().any(|known| known.layout == *asked)) {
        found.insert(0, Candidate { layout, points: 0, evidence: vec!["the layout is the one asked for".to_owned()] });
    }
    found
}

fn agrees(layout: &ImageLayout, options: &OpenOptions) -> bool {
    options.erase_size.is_none_or(|size| size == layout.block_size)
        && options.page_size.is_none_or(|size| layout.kind == FlashKind::Nand && size == layout.page_size)
        && options.oob_size.is_none_or(|size| size == layout.oob_size)
}

/// The layout that the options name, with what they leave out as is usual; `None` where they name
/// nothing.
pub(crate) fn asked_for(options: &OpenOptions) -> Option<ImageLayout> {
    let oob = options.oob_size.filter(|size| *size > 0);
    let page = match (options.page_size, oob) {
        (Some(page), _) => Some(page),
        // 16 bytes of OOB for every 512 of data: include/linux/mtd/nand.h has it so for the usual
        // parts.
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

/// The layout by which the regions of a whole dump are looked for: the likeliest.
pub(crate) fn base_layout(image: &Image, found: &[DetectedFormat], options: &OpenOptions) -> ImageLayout {
    // What surely is a file system on blocks stands in no pages with OOB, whatever flash shows
    // behind it in pages that happen to fit the length.
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
    // Without OOB all sizes read the same; 512 bytes divide every length.
    with_oob.map_or_else(|| ImageLayout::nor(4096), |best| best.layout.clone())
}

/// The options for a look into a region of a dump with this layout: where the dump has no OOB, none
/// is tried inside a region, whose offsets count the bytes of the file.
pub(crate) fn within_regions(options: &OpenOptions, layout: &ImageLayout) -> OpenOptions {
    let oob_size = options.oob_size.or((layout.oob == OobPlacement::None).then_some(0));
    OpenOptions { oob_size, ..options.clone() }
}

/// The regions of a dump, and what each can be opened as; where the whole is one volume, those of a
/// partition table alone.
pub(crate) fn region_list(
    image: &Image,
    device: &DumpFlash,
    options: &OpenOptions,
    whole: &[DetectedFormat],
) -> Vec<(Region, RegionInfo)> {
    // Several tables, or texts, often name the same part.
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

/// Notes the regions of a table in front of which more of their volume stands: the dump left out
/// blocks before them, so that all behind moved forward, or the table is another flash's.
fn note_crossed(device: &DumpFlash, regions: &mut [(Region, RegionInfo)]) {
    let begins: Vec<u64> =
        regions.iter().filter(|(region, _)| is_in_a_table(region)).map(|(region, _)| region.offset).collect();
    for (region, info) in regions.iter_mut().filter(|(region, _)| is_in_a_table(region) && region.offset > 0) {
        let Some(format) = FORMATS.iter().find(|format| Some(format.name()) == info.opens_as) else { continue };
        // One that begins where a partition does may be that partition's own.
        if format.crosses(device, region.offset).is_some_and(|start| !begins.contains(&start)) {
            info.notes.push(format!(
                "more of this volume stands directly before {:#x}, where the table lets it begin: the dump seems to leave out blocks before that; \
                 `missing_blocks` says which, or `offset` where the volume begins",
                region.offset
            ));
        }
    }
}

/// What an image, or a part of it, shows without a word about regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A volume of this format, which opens.
    Volume(&'static str),
    /// Regions of which none opens.
    Regions,
}

/// What the part of an image shows that `offset` and `size` name; `None` for nothing. Cost: a look
/// at the whole, and at each region.
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

/// Whether a region stands in a table, rather than being read off the content.
pub(crate) fn is_in_a_table(region: &Region) -> bool {
    match region.source {
        RegionSource::Mbr | RegionSource::Gpt | RegionSource::Esp32 => true,
        RegionSource::MtdParts { in_environment, .. } => in_environment,
        RegionSource::Signature => false,
    }
}

/// Whether the whole is so surely of a format that regions that only show by their content do not
/// count.
pub(crate) fn is_sure(found: &[DetectedFormat]) -> bool {
    found.first().is_some_and(|best| best.score >= SURE && !best.claims.several)
}
