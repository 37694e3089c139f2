//! What a dump is: formats are asked about plausible layouts, in the whole of it or in one of its regions.

use std::collections::BTreeMap;

use nandkit_flash_image::detect::{self, Candidate};
use nandkit_flash_image::regions::{Region, RegionSource, partitions, regions};
use nandkit_flash_image::{DumpFlash, Image, ImageLayout, OobPlacement};
use nandkit_jffs2::probe::{Depth, Fit};
use nandkit_units::FlashKind;
use nandkit_vfs::probe::{Likeness, SURE};

use super::f2fs;
use super::jffs2::placement::{self, Seen};
use super::sectors::DumpSectors;
use super::{ByteOrder, OpenOptions};

/// Detections that are told, beside those that differ from the first in the erase size alone.
const TOLD_MAX: usize = 4;
/// Points that a layout with OOB has of its length alone.
const OOB_POINTS: u32 = 60;
/// What is taken off where no cleanmarker and no bad-block mark shows that there is an OOB.
const OOB_DOUBT: u32 = 30;
/// What an image, or a region of one, may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The format's name: `fat`.
    pub format: &'static str,
    /// How likely: of 1000 for the format, and up to 200 more for the layout.
    pub points: u32,
    /// What speaks for it, a sentence each.
    pub why: Vec<String>,
    /// What follows for opening it, a sentence each.
    pub notes: Vec<String>,
    /// The layout in words.
    pub layout: String,
    /// Data bytes of an erase block; 0 where the format knows none.
    pub erase_size: u32,
    /// All erase sizes that the content fits, the likeliest first: one where the content proves it.
    pub erase_sizes: Vec<u32>,
    /// Data bytes of a NAND page; 0 where there are none.
    pub page_size: u32,
    /// OOB bytes of a page in the dump.
    pub oob_size: u32,
    /// The order of bytes in numbers, where the format has two.
    pub byte_order: Option<ByteOrder>,
}

impl Detection {
    /// What tells placements apart.
    fn describes(&self) -> (&'static str, u32, u32, bool) {
        (self.format, self.page_size, self.oob_size, self.layout.ends_with("after each block"))
    }
}

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
}

/// A stretch of data bytes: first, and how many; all the rest without a number.
pub(crate) type Within = (u64, Option<u64>);

/// A format and a layout by which a part of an image can be opened.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub format: Format,
    /// The layout, the part's place included.
    pub layout: ImageLayout,
    /// The format's own points.
    pub score: u32,
    /// How its erase size fits.
    pub fit: Fit,
    pub detection: Detection,
}

/// The formats that can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    F2fs,
    Fat,
    Jffs2,
}

impl Format {
    pub const fn name(self) -> &'static str {
        match self {
            Self::F2fs => "f2fs",
            Self::Fat => "fat",
            Self::Jffs2 => "jffs2",
        }
    }
}

/// Everything that a part of an image may be, the likeliest first.
pub(crate) fn look(image: &Image, within: Within, options: &OpenOptions) -> Vec<Found> {
    look_at(image, within, options, Depth::Thorough)
}

fn look_at(image: &Image, within: Within, options: &OpenOptions, depth: Depth) -> Vec<Found> {
    let mut found: Vec<Found> = fat(image, within).into_iter().collect();
    found.extend(f2fs(image, within));
    found.sort_by_key(|found| std::cmp::Reverse(found.detection.points));
    if found.first().is_some_and(|best| best.format == Format::F2fs && best.score >= SURE) {
        // What stands in its files is no flash: nothing of the rest, which may be a terabyte, is looked at.
        return found;
    }
    for seen in placement::seen(image, within, options, depth) {
        found.extend(by_size(image, within, options, &seen));
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.detection.points));
    // Of the placements only the likeliest are told, but all sizes of the likeliest one.
    let first = found.first().map(|found| found.detection.describes());
    let mut others = 0;
    found.retain(|found| {
        others += usize::from(Some(found.detection.describes()) != first);
        Some(found.detection.describes()) == first || others < TOLD_MAX
    });
    found
}

/// A placement with each erase size that fits, or with the one that was asked for.
fn by_size(image: &Image, within: Within, options: &OpenOptions, seen: &Seen) -> Vec<Found> {
    let mut sizes = options.erase_size.map_or_else(|| seen.probe.erase_sizes().to_vec(), |asked| vec![asked]);
    if seen.layout.oob != OobPlacement::None {
        sizes.retain(|size| size.is_multiple_of(seen.layout.page_size.max(1)));
    }
    let Some(first) = sizes.first() else { return Vec::new() };
    let judged = detect::judge(image.bytes(), sized(&seen.layout, *first));
    let marked = judged.points > OOB_POINTS || seen.probe.oob_markers() > 0;
    // OOB of which nothing shows is less likely than none.
    let doubt = if seen.layout.oob == OobPlacement::None || marked { 0 } else { OOB_DOUBT };
    let mut found = Vec::new();
    for (place, size) in (0_u32..).zip(&sizes) {
        let likeness = seen.probe.likeness(*size, place);
        let score = likeness.points.saturating_sub(doubt).max(1);
        let layout = sized(&seen.layout, *size);
        let part = if within == (0, None) { Ok(layout) } else { layout.region(within.0, within.1) };
        let Ok(layout) = part else { continue };
        let mut why = likeness.evidence;
        why.extend(judged.evidence.iter().cloned());
        let (order, name) = match likeness.layout.byte_order {
            Some(ByteOrder::Big) => (ByteOrder::Big, "big"),
            _ => (ByteOrder::Little, "little"),
        };
        let mut notes = vec![format!("{name}-endian")];
        if seen.probe.summaries() > 0 {
            notes.push("holds summaries".to_owned());
        }
        let is_nand = layout.kind == FlashKind::Nand;
        let detection = Detection {
            format: Format::Jffs2.name(),
            points: score.saturating_add(judged.points),
            why,
            notes,
            layout: layout.describe(),
            erase_size: layout.block_size,
            erase_sizes: likeness.layout.erase_sizes,
            page_size: if is_nand { layout.page_size } else { 0 },
            oob_size: layout.oob_size,
            byte_order: Some(order),
        };
        found.push(Found { format: Format::Jffs2, layout, score, fit: seen.probe.fit(*size), detection });
    }
    found
}

/// The same placement with blocks of another size.
fn sized(layout: &ImageLayout, size: u32) -> ImageLayout {
    match (layout.kind, layout.oob) {
        (FlashKind::Nor, _) => ImageLayout::nor(size),
        (_, OobPlacement::AfterBlock) => layout.clone(),
        _ => ImageLayout { block_size: size, ..layout.clone() },
    }
}

/// The bytes of a part.
fn part<'a>(image: &'a Image, layout: &ImageLayout) -> Option<&'a [u8]> {
    let bytes = image.bytes().get(usize::try_from(layout.offset).ok()?..)?;
    let length = layout.size.map_or(bytes.len(), |size| usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len()));
    bytes.get(..length)
}

fn fat(image: &Image, within: Within) -> Option<Found> {
    let layout = DumpSectors::layout(within.0, within.1).ok()?;
    let bytes = part(image, &layout)?;
    let likeness = nandkit_fat::probe(bytes, bytes.len() as u64)?;
    Some(on_blocks(Format::Fat, likeness, layout, "sectors".to_owned(), Vec::new()))
}

fn f2fs(image: &Image, within: Within) -> Option<Found> {
    let layout = DumpSectors::layout_of_blocks(image.bytes().len() as u64, within.0, within.1).ok()?;
    let bytes = part(image, &layout)?;
    let length = bytes.len() as u64;
    let likeness = nandkit_f2fs::probe(bytes, length)?;
    let end = likeness.extent.as_ref().map_or(0, |extent| extent.end);
    let cut = (end > length).then(|| format!("the volume has {end} bytes, of which {length} are in the image"));
    let blocks = format!("blocks of {} bytes", likeness.layout.block_size);
    Some(on_blocks(Format::F2fs, likeness, layout, blocks, cut.into_iter().collect()))
}

/// A volume on sectors, which knows neither erase blocks nor pages.
fn on_blocks(format: Format, likeness: Likeness, layout: ImageLayout, described: String, notes: Vec<String>) -> Found {
    let detection = Detection {
        format: format.name(),
        points: likeness.points,
        why: likeness.evidence,
        notes,
        layout: described,
        erase_size: 0,
        erase_sizes: Vec::new(),
        page_size: 0,
        oob_size: 0,
        byte_order: None,
    };
    Found { format, layout, score: likeness.points, fit: Fit::Proven, detection }
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

/// The layout that the options name, with what they leave out as is usual; `None` where they name nothing.
pub(crate) fn asked_for(options: &OpenOptions) -> Option<ImageLayout> {
    let oob = options.oob_size.filter(|size| *size > 0);
    let page = match (options.page_size, oob) {
        (Some(page), _) => Some(page),
        // 16 bytes of OOB for every 512 of data: include/linux/mtd/nand.h has it so for the usual parts.
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
pub(crate) fn base_layout(image: &Image, found: &[Found], options: &OpenOptions) -> ImageLayout {
    if let Some(best) = found.iter().find(|found| found.detection.erase_size > 0) {
        return best.layout.clone();
    }
    if let Some(asked) = asked_for(options) {
        return asked;
    }
    let candidates = candidates(image, options);
    let with_oob =
        detect::by_layout(&candidates).into_iter().next().filter(|best| best.layout.oob != OobPlacement::None);
    // Without OOB all sizes read the same; 512 bytes divide every length.
    with_oob.map_or_else(|| ImageLayout::nor(4096), |best| best.layout.clone())
}

/// The regions of a dump, and what each can be opened as; where the whole is one volume of F2FS or FAT, those of a partition table alone.
pub(crate) fn region_list(
    image: &Image,
    device: &DumpFlash,
    options: &OpenOptions,
    whole: &[Found],
) -> Vec<(Region, RegionInfo)> {
    // Several tables, or texts, often name the same part.
    let mut known: BTreeMap<(u64, u64), Option<&'static str>> = BTreeMap::new();
    let told = |(number, region): (usize, Region)| {
        let opens_as = *known.entry((region.offset, region.size)).or_insert_with(|| {
            let best = look_at(image, (region.offset, Some(region.size)), options, Depth::Glance).into_iter().next();
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
        };
        (region, info)
    };
    let found = if is_one_volume(image, whole) {
        partitions(device)
    } else {
        regions(device, &[super::jffs2::signature, f2fs::signature])
    };
    found.into_iter().enumerate().map(told).collect()
}

/// Whether a region stands in a table, rather than being read off the content.
pub(crate) fn is_in_a_table(region: &Region) -> bool {
    match region.source {
        RegionSource::Mbr | RegionSource::Gpt => true,
        RegionSource::MtdParts { in_environment, .. } => in_environment,
        RegionSource::Signature => false,
    }
}

/// Bytes behind a volume of FAT that partitioning leaves over: the rest of a track or of an alignment.
const BEHIND_FAT: u64 = 1 << 20;

/// Whether the whole is one volume: what its files hold is nobody's region, and is not read, a terabyte perhaps. F2FS says its length on its own account; of FAT the volume has to fill the image.
fn is_one_volume(image: &Image, found: &[Found]) -> bool {
    let fills = || {
        let length = image.bytes().len() as u64;
        let extent = nandkit_fat::probe(image.bytes(), length).and_then(|likeness| likeness.extent);
        extent.is_some_and(|extent| length - extent.end.min(length) < BEHIND_FAT)
    };
    found.first().is_some_and(|best| match best.format {
        Format::F2fs => best.score >= SURE,
        Format::Fat => fills(),
        Format::Jffs2 => false,
    })
}

/// Whether the whole is so surely of a format that regions that only show by their content do not count.
pub(crate) fn is_sure(found: &[Found]) -> bool {
    found.first().is_some_and(|best| best.score >= SURE)
}
