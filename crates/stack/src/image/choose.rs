//! Chooses the part of an image to open, and its format.

use std::ops::Range;
use std::path::Path;

use nandkit_flash::Flash;
use nandkit_flash_image::regions::{Region, Stranger, select, stranger};
use nandkit_flash_image::{Image, ImageLayout, OobPlacement};
use nandkit_vfs::probe::Fit;

use super::oob_layout::resolved;
use super::swap;
use crate::StackError;
use crate::format::detected::{DetectedFormat, Within};
use crate::format::recognise::{self, RegionInfo, base_layout, look, region_list, within_regions};
use crate::format::{FORMATS, MediumKind, OpenOptions, titles, wrong};

/// Largest number of regions that a message names.
const NAMED_MAX: usize = 12;

/// The chosen part and format.
pub(super) struct Selected {
    pub found: DetectedFormat,
    pub region: Option<RegionInfo>,
    pub notes: Vec<String>,
}

/// A part of an image, with the options for detection in it.
pub(super) struct Part {
    pub within: Within,
    pub region: Option<RegionInfo>,
    pub options: OpenOptions,
}

impl Part {
    /// The whole image.
    pub(super) fn whole(options: &OpenOptions) -> Self {
        Self { within: (0, None), region: None, options: options.clone() }
    }
}

/// The part given by the options; `None` if they give none. Errors: no such region; a part outside
/// the image.
pub(super) fn part(path: &Path, image: &Image, options: &OpenOptions) -> Result<Option<Part>, StackError> {
    if let Some(wanted) = &options.region {
        let (list, layout) = regions_of(path, image, options)?;
        let plain: Vec<Region> = list.iter().map(|(region, _)| region.clone()).collect();
        let chosen = select(&plain, wanted).map_err(|error| wrong(path, format!("`region`: {error}")))?;
        let info = list.iter().find(|(region, _)| region == chosen).map(|(_, info)| info.clone());
        let within = (chosen.offset, Some(chosen.size));
        return Ok(Some(Part { within, region: info, options: within_regions(options, &layout) }));
    }
    if options.offset.is_none() && options.size.is_none() {
        return Ok(None);
    }
    let (offset, length) = (options.offset.unwrap_or(0), image.bytes().len() as u64);
    if offset >= length || options.size == Some(0) {
        let size = options.size.map_or_else(|| "the rest".to_owned(), |size| format!("{size} bytes"));
        let detail = format!("`offset` {offset}, {size}: the image has {length} bytes; expected a part inside it");
        return Err(wrong(path, detail));
    }
    Ok(Some(Part { within: (offset, options.size), region: None, options: options.clone() }))
}

/// A region of a dump whose raw bytes are requested.
pub(super) struct WholeRegion {
    /// The layout of the dump.
    pub layout: ImageLayout,
    /// Range of data bytes in the dump.
    pub range: Range<u64>,
    pub notes: Vec<String>,
}

/// The region given by the options, if it holds no file system for flash. Errors: those of
/// [`part`].
pub(super) fn whole_region(
    path: &Path,
    image: &Image,
    options: &OpenOptions,
) -> Result<Option<WholeRegion>, StackError> {
    if options.region.is_none() {
        return Ok(None);
    }
    let Some(Part { within, region, options: inside }) = part(path, image, options)? else { return Ok(None) };
    let holds = look(image, within, &inside).into_iter().next();
    if holds.is_some_and(|found| found.format.medium() == MediumKind::Flash) {
        return Ok(None);
    }
    let layout = base_layout(image, &look(image, (0, None), options), options);
    let capacity = image.view(layout.clone()).map_err(|error| wrong(path, error))?.geometry().capacity();
    let (start, size) = (within.0, within.1.unwrap_or(0));
    // A layout counts the last block as complete, but the file may end inside it.
    let held = if layout.oob == OobPlacement::None { image.bytes().len() as u64 } else { capacity };
    let end = start.saturating_add(size).min(held.max(start));
    if end > capacity {
        let detail = format!(
            "`region`: it ends at {end:#x}, and the image holds {capacity:#x} bytes; expected a part inside it"
        );
        return Err(wrong(path, detail));
    }
    let notes = region.as_ref().map_or_else(Vec::new, RegionInfo::told);
    Ok(Some(WholeRegion { layout, range: start..end, notes }))
}

/// All regions of a dump, and the layout used to find them.
type Regions = (Vec<(Region, RegionInfo)>, ImageLayout);

fn regions_of(path: &Path, image: &Image, options: &OpenOptions) -> Result<Regions, StackError> {
    let found = look(image, (0, None), options);
    let layout = base_layout(image, &found, options);
    let device = image.view(layout.clone()).map_err(|error| wrong(path, error))?;
    Ok((region_list(image, &device, options, &found), layout))
}

/// Refuses an erase size that does not fit if another one does.
fn check_erase_size(path: &Path, options: &OpenOptions, chosen: &Selected) -> Result<(), StackError> {
    let Some(asked) = options.erase_size.filter(|_| chosen.found.fit == Fit::Refuted) else { return Ok(()) };
    let sizes: Vec<String> = chosen.found.detection.erase_sizes.iter().map(ToString::to_string).collect();
    if sizes.is_empty() {
        return Ok(());
    }
    let sizes = sizes.join(" or ");
    Err(wrong(path, format!("`erase_size` {asked}: nodes do not fit blocks of this size; expected {sizes}")))
}

/// Refuses an image or a part shorter than one erase block of the given or the smallest size.
/// mkfs.jffs2 ends the file after the last node, so that a longer file may be one incomplete block;
/// it is read as if the rest were blank.
pub(super) fn check_length(
    path: &Path,
    image: &Image,
    within: Within,
    options: &OpenOptions,
) -> Result<(), StackError> {
    let length = (image.bytes().len() as u64).saturating_sub(within.0);
    let length = within.1.map_or(length, |size| size.min(length));
    let start = usize::try_from(within.0).unwrap_or(usize::MAX);
    let bytes = image.bytes().get(start..).unwrap_or_default();
    let what = if within == (0, None) { "the file" } else { "the part" };
    let refuse = |block: String| {
        let detail = format!(
            "{what} has {length} bytes, less than one erase block of {block}; expected whole blocks, the last one padded with 0xFF as by mkfs.jffs2 --pad"
        );
        Err(wrong(path, detail))
    };
    match options.erase_size {
        // If the options set a longer part, the bytes after the end of the file count as blank.
        Some(size) if length < u64::from(size) && options.size.is_none_or(|part| part < u64::from(size)) => {
            refuse(format!("{size} bytes (`erase_size`)"))
        }
        Some(_) => Ok(()),
        None => match FORMATS.iter().map(|format| format.bytes_min(bytes)).max() {
            Some(least) if length < least => refuse(format!("{least} bytes, the smallest possible size")),
            _ => Ok(()),
        },
    }
}

/// Chooses the part to open, and refuses an erase size that does not fit it.
pub(super) fn choose(path: &Path, image: &Image, options: &OpenOptions) -> Result<Selected, StackError> {
    let options = &resolved(path, image, options)?;
    let within = part(path, image, options)?.map_or((0, None), |part| part.within);
    check_length(path, image, within, options)?;
    let chosen = chosen(path, image, options)?;
    check_erase_size(path, options, &chosen)?;
    Ok(chosen)
}

/// Chooses the part to open, and its format. Without options it is, in this order: the only file
/// system in a partition table; the whole image, if it certainly is one; the only file system found
/// by content; the whole image, if there is any trace of a format.
fn chosen(path: &Path, image: &Image, options: &OpenOptions) -> Result<Selected, StackError> {
    if let Some(Part { within, region, options }) = part(path, image, options)? {
        let notes = region.as_ref().map_or_else(Vec::new, RegionInfo::told);
        return match look(image, within, &options).into_iter().next() {
            Some(found) => Ok(Selected { found, region, notes }),
            None => Err(unknown(path, image, within)),
        };
    }
    let whole = look(image, (0, None), options);
    let layout = base_layout(image, &whole, options);
    let device = image.view(layout.clone()).map_err(|error| wrong(path, error))?;
    let regions = region_list(image, &device, options, &whole);
    drop(device);
    let openable = |in_table: bool| -> Vec<&RegionInfo> {
        let fits = |(region, info): &&(Region, RegionInfo)| {
            info.opens_as.is_some() && recognise::is_in_a_table(region) == in_table
        };
        regions.iter().filter(fits).map(|(_, info)| info).collect()
    };
    let mut shown = openable(true);
    if shown.is_empty() && !recognise::is_sure(&whole) {
        shown = openable(false);
    }
    let one = match shown.as_slice() {
        [] => None,
        [one] => Some(*one),
        several => return Err(wrong(path, ambiguous(several))),
    };
    let covers_all = |region: &RegionInfo| region.offset == 0 && region.size >= image.bytes().len() as u64;
    match one.filter(|region| !covers_all(region)) {
        Some(region) => {
            match look(image, (region.offset, Some(region.size)), &within_regions(options, &layout)).into_iter().next()
            {
                Some(found) => {
                    let mut notes =
                        vec![format!("opened region {} \"{}\" at {}", region.number, region.name, region.offset)];
                    notes.extend(region.told());
                    Ok(Selected { found, region: Some(region.clone()), notes })
                }
                None => Err(unknown(path, image, (region.offset, Some(region.size)))),
            }
        }
        None => match whole.into_iter().next() {
            // Bytes outside the volume are ignored, and a note reports it.
            Some(found) => {
                let notes = found.left_out.iter().cloned().chain(others(&found, &openable(false))).collect();
                Ok(Selected { notes, found, region: None })
            }
            None => Err(stranger_in(path, image, &regions).unwrap_or_else(|| unknown(path, image, (0, None)))),
        },
    }
}

fn ambiguous(regions: &[&RegionInfo]) -> String {
    format!(
        "the image holds {} file systems, in the regions {}; expected `region` to choose one",
        regions.len(),
        numbered(regions)
    )
}

/// The first of these regions by number and name.
fn numbered(regions: &[&RegionInfo]) -> String {
    let told = |region: &&RegionInfo| format!("{} \"{}\"", region.number, region.name);
    let mut names: Vec<String> = regions.iter().take(NAMED_MAX).map(told).collect();
    if regions.len() > NAMED_MAX {
        names.push(format!("{} more", regions.len() - NAMED_MAX));
    }
    names.join(", ")
}

/// A note on the file systems that content shows outside of the chosen volume.
fn others(chosen: &DetectedFormat, openable: &[&RegionInfo]) -> Option<String> {
    let start = chosen.layout.offset;
    // A volume that says its own length is a region, too.
    let own = openable.iter().find(|region| region.offset == start).map(|region| region.size);
    let end = chosen.layout.size.or(own).map(|size| start.saturating_add(size));
    let is_inside = |region: &RegionInfo| region.offset >= start && end.is_none_or(|end| region.offset < end);
    let others: Vec<&RegionInfo> = openable.iter().copied().filter(|region| !is_inside(region)).collect();
    (!others.is_empty()).then(|| {
        let regions = if others.len() == 1 { "region" } else { "regions" };
        format!("the image holds other file systems too, in the {regions} {}; `region` chooses one", numbered(&others))
    })
}

/// Describes the first region whose content is recognised but not supported.
fn stranger_in(path: &Path, image: &Image, regions: &[(Region, RegionInfo)]) -> Option<StackError> {
    regions.iter().find_map(|(_, info)| {
        let start = usize::try_from(info.offset).ok()?;
        let Stranger { kind, next, .. } = stranger(image.bytes().get(start..)?)?;
        let RegionInfo { number, name, offset, .. } = info;
        let detail = format!(
            "region {number} \"{name}\" at {offset:#x} begins with {kind}, which nandkit does not read: {next}"
        );
        Some(wrong(path, detail))
    })
}

pub(super) fn unknown(path: &Path, image: &Image, within: Within) -> StackError {
    let start = usize::try_from(within.0).unwrap_or(usize::MAX);
    let bytes = image.bytes().get(start..).unwrap_or_default();
    let shown = bytes.get(..8.min(bytes.len())).unwrap_or_default().escape_ascii();
    if let Some(gap) = image.left_out().first().filter(|gap| gap.contains(&within.0)) {
        return wrong(
            path,
            format!(
                "the file has no bytes before {}: it is a part of a split sparse image, and no volume begins in it; expected `join` with the other parts",
                gap.end
            ),
        );
    }
    let what = if within == (0, None) { "the file".to_owned() } else { format!("the part at {start}") };
    let swap = if within == (0, None) { swap::found(image, &OpenOptions::default()) } else { None };
    if let Some((swap, format)) = swap {
        let bits = swap.bits();
        let detail = format!(
            "the bytes of each {bits} bits are swapped: it holds {format} after swapping them back; expected `swap` {bits}"
        );
        return wrong(path, detail);
    }
    if let Some(stranger) = stranger(bytes) {
        let Stranger { kind, next, .. } = stranger;
        return wrong(path, format!("{what} begins with {kind}, which nandkit does not read: {next}"));
    }
    wrong(
        path,
        format!(
            "{what} begins with \"{shown}\" and holds no known format; expected an emulated chip (\"NANDKJRN\"), a {} volume, or a {} image. \
             `offset` sets its position in the file; `erase_size`, `page_size` and `oob_size` set its layout",
            titles(|format| format.medium() == MediumKind::Blocks),
            titles(|format| format.medium() == MediumKind::Flash)
        ),
    )
}
