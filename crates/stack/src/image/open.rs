//! From a file to a mounted file system.

use std::path::Path;

use nandkit_f2fs::segment_map::SegmentMap;
use nandkit_flash_image::regions::{Region, select};
use nandkit_flash_image::{DumpFlash, DumpOptions, Image, text};
use nandkit_jffs2::Jffs2;
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{FileSystem, InodeNumber};

use super::{DumpSummary, chip, is_chip};
use crate::format::f2fs::recovery::Mounted;
use crate::format::jffs2::bad_blocks;
use crate::format::recognise::{
    self as detect, Detection, Format, Found, RegionInfo, Within, base_layout, look, region_list,
};
use crate::format::sectors::DumpSectors;
use crate::format::{
    BEGINNING, Checked, DeletedName, FileVersion, OldContent, OpenOptions, PlacedExtent, Repaired, RepairedImage,
    clock_at, extents, f2fs, fat, jffs2, sparse, wrong,
};
use crate::{MountedFileSystem, StackError, chip_file};
use nandkit_jffs2::probe::{Fit, begins_with_node};

/// Regions that a message names.
const NAMED_MAX: usize = 12;
/// Bytes of the smallest erase block (serial NOR).
const ERASE_SIZE_MIN: u64 = 4096;

/// An image with its file system mounted for reading.
pub struct OpenImage {
    volume: Volume,
    /// The format: `fat`.
    pub format: &'static str,
    /// How it was recognised; `None` for a volume on a chip.
    pub detection: Option<Detection>,
    /// The region that was opened, where it is not the whole.
    pub region: Option<RegionInfo>,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
}

/// A mounted file system, and what only some can.
enum Volume {
    Plain(Box<dyn MountedFileSystem>),
    F2fs(Box<Mounted>),
    Jffs2(Box<Jffs2<DumpFlash>>),
}

impl OpenImage {
    /// The file system.
    pub fn fs(&self) -> &dyn FileSystem {
        match &self.volume {
            Volume::Plain(fs) => &**fs,
            Volume::F2fs(mounted) => &mounted.volume,
            Volume::Jffs2(volume) => &**volume,
        }
    }

    /// What mounting, and all reading until now, found damaged, with the inode that it belongs to, where it can be known. Harmless findings are among them.
    pub fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        match &self.volume {
            Volume::Plain(_) => Vec::new(),
            Volume::F2fs(mounted) => f2fs::damage(mounted),
            Volume::Jffs2(volume) => jffs2::damage(volume),
        }
    }

    /// Where a file lies; `None` where the format does not say. Errors: those of [`nandkit_vfs::Extents::extent_after`].
    pub fn extents(&self, inode: InodeNumber) -> Option<nandkit_vfs::Result<Vec<PlacedExtent>>> {
        match &self.volume {
            Volume::Plain(fs) => extents::of(&**fs, inode),
            Volume::F2fs(mounted) => extents::of_f2fs(mounted, inode),
            Volume::Jffs2(_) => None,
        }
    }

    /// The states of a file of which something is still on the flash, the present one last; `None` where the format keeps none. Errors: `NotFound`, `Device`.
    pub fn versions(&self, inode: InodeNumber) -> Option<nandkit_vfs::Result<Vec<FileVersion>>> {
        match &self.volume {
            Volume::Plain(_) | Volume::F2fs(_) => None,
            Volume::Jffs2(volume) => Some(jffs2::versions(volume, inode)),
        }
    }

    /// What a file held at one of its versions; `None` where the format keeps none. Errors: `NotFound`, `InvalidArgument` (no file), `Device`.
    pub fn content_at(&self, inode: InodeNumber, number: u64) -> Option<nandkit_vfs::Result<OldContent>> {
        match &self.volume {
            Volume::Plain(_) | Volume::F2fs(_) => None,
            Volume::Jffs2(volume) => Some(jffs2::content_at(volume, inode, number)),
        }
    }

    /// Names that were deleted or replaced and are still on the flash; `None` where the format keeps none. Errors: `Device`.
    pub fn deleted(&self) -> Option<nandkit_vfs::Result<Vec<DeletedName>>> {
        match &self.volume {
            Volume::Plain(_) | Volume::F2fs(_) => None,
            Volume::Jffs2(volume) => Some(jffs2::deleted(volume)),
        }
    }
}

/// Opens an image: finds out what it is, and mounts it for reading. Errors: a file that cannot be read, or is nothing that is known; several file systems in it, none of
/// which was asked for; options that do not fit.
pub fn open(path: &Path, options: &OpenOptions) -> Result<OpenImage, StackError> {
    if is_chip(path, options)? {
        let (volume, format) = chip::mount(path)?;
        let volume = Volume::Plain(volume);
        return Ok(OpenImage { volume, format, detection: None, region: None, notes: Vec::new() });
    }
    let (image, mut notes) = read(path, options)?;
    let Selected { found, region, notes: more } = choose(path, &image, options)?;
    notes.extend(more);
    let device = dump(path, image, &found)?;
    let volume = match found.format {
        Format::F2fs => {
            let mounted = f2fs::mount(path, device, options)?;
            notes.extend(f2fs::notes(&mounted));
            Volume::F2fs(Box::new(mounted))
        }
        Format::Fat => {
            let fat = fat::mount(DumpSectors::new(device), &clock_at(0)).map_err(|error| wrong(path, error))?;
            Volume::Plain(Box::new(fat))
        }
        Format::Jffs2 => {
            notes.extend(bad_blocks::notes(&bad_blocks::findings(&device)));
            Volume::Jffs2(Box::new(mount_jffs2(path, device, &found, options)?))
        }
    };
    Ok(OpenImage { volume, format: found.format.name(), detection: Some(found.detection), region, notes })
}

/// The segments of an image's volume.
pub(super) fn segments(path: &Path, options: &OpenOptions) -> Result<SegmentMap, StackError> {
    let (image, _) = read(path, options)?;
    let found = choose(path, &image, options)?.found;
    if found.format != Format::F2fs {
        let detail = format!("--segments: this is {}, which has none; expected an image of F2FS", found.format.name());
        return Err(wrong(path, detail));
    }
    // The table of segments as the checkpoint has it, which is what tools compare.
    let options = OpenOptions { no_recovery: true, ..options.clone() };
    let volume = f2fs::mount(path, dump(path, image, &found)?, &options)?.volume;
    SegmentMap::read(&volume, volume.checkpoint().0).map_err(|error| wrong(path, format!("--segments: {error}")))
}

/// Checks the file system of an image that is no chip.
pub(super) fn check(path: &Path, options: &OpenOptions) -> Result<Checked, StackError> {
    let (image, _) = read(path, options)?;
    let found = choose(path, &image, options)?.found;
    let device = dump(path, image, &found)?;
    match found.format {
        Format::F2fs => f2fs::check::check(path, device, options),
        Format::Fat => fat::check(&mut DumpSectors::new(device), &clock_at(0)).map_err(|error| wrong(path, error)),
        Format::Jffs2 => {
            // Every node is to be looked at, not only what summaries say of them.
            let options = OpenOptions { no_summaries: true, ..options.clone() };
            let bad = bad_blocks::findings(&device);
            let checked = jffs2::check(&mount_jffs2(path, device, &found, &options)?);
            checked.map(|checked| with_bad_blocks(checked, bad)).map_err(|error| wrong(path, error))
        }
    }
}

/// The image of JFFS2 or F2FS in a file without what is provably bad.
pub(super) fn repair(path: &Path, options: &OpenOptions) -> Result<Repaired, StackError> {
    let (image, _) = read(path, options)?;
    let found = choose(path, &image, options)?.found;
    match found.format {
        Format::F2fs => return f2fs::check::repair(path, image, &found, options),
        Format::Fat => return Err(wrong(path, "--repair: this is fat; expected an image of JFFS2 or F2FS")),
        Format::Jffs2 => {}
    }
    let copy = Image::from_bytes(image.bytes().to_vec(), None).map_err(|error| wrong(path, error))?;
    let mut output = DumpFlash::new(copy, found.layout.clone()).map_err(|error| wrong(path, error))?;
    let options = OpenOptions { no_summaries: true, ..options.clone() };
    let device = dump(path, image, &found)?;
    let bad = bad_blocks::findings(&device);
    let volume = mount_jffs2(path, device, &found, &options)?;
    let repaired = jffs2::repair(&volume, &mut output).map_err(|error| wrong(path, error))?;
    let checked = with_bad_blocks(repaired.checked, bad);
    Ok(Repaired { checked, image: RepairedImage::new(output.into_bytes().0), ..repaired })
}

fn with_bad_blocks(checked: Checked, mut bad: Vec<Finding>) -> Checked {
    let mut report = checked.report;
    report.counts.push(("bad_blocks", bad.len() as u64));
    bad.extend(report.findings);
    Checked { report: Report { findings: bad, ..report }, ..checked }
}

fn mount_jffs2(
    path: &Path,
    device: DumpFlash,
    found: &Found,
    options: &OpenOptions,
) -> Result<Jffs2<DumpFlash>, StackError> {
    if options.byte_order.is_none() {
        jffs2::refuse_mixed(&device).map_err(|error| wrong(path, error))?;
    }
    jffs2::mount(device, found.detection.byte_order, options).map_err(|error| wrong(path, error))
}

/// Says what an image is that is no chip.
pub(super) fn inspect(path: &Path, options: &OpenOptions) -> Result<DumpSummary, StackError> {
    let (image, mut notes) = read(path, options)?;
    let (within, region) = match part(path, &image, options)? {
        Some((within, region)) => (within, region),
        None => ((0, None), None),
    };
    check_length(path, &image, within, options)?;
    let mut found = look(&image, within, options);
    let whole = options.region.is_none() && within == (0, None);
    let layout = match found.iter().find(|found| found.detection.erase_size > 0) {
        Some(found) => found.layout.clone(),
        None => base_layout(&image, &found, options).region(within.0, within.1).map_err(|error| wrong(path, error))?,
    };
    let device = image.view(layout).map_err(|error| wrong(path, error))?;
    let regions: Vec<RegionInfo> = match whole {
        true => region_list(&image, &device, options, &found).into_iter().map(|(_, region)| region).collect(),
        false => Vec::new(),
    };
    if found.is_empty() && regions.is_empty() {
        return Err(unknown(path, &image, within));
    }
    if is_divided(&image, &found, &regions) {
        notes.push("the whole is no single volume: --region says which part is meant".to_owned());
        found.clear();
    }
    let mut summary = DumpSummary {
        file_bytes: image.bytes().len() as u64,
        region,
        f2fs: None,
        fat: None,
        regions,
        bad_blocks: Vec::new(),
        notes: Vec::new(),
        detections: found.iter().map(|found| found.detection.clone()).collect(),
    };
    match found.first() {
        Some(best) if best.format == Format::F2fs => {
            let part = image.view(best.layout.clone()).map_err(|error| wrong(path, error))?;
            let (mounted, told) = f2fs::inspect(path, part, options)?;
            notes.extend(told);
            notes.extend(f2fs::damage(&mounted).into_iter().map(|(_, finding)| finding.detail));
            summary.f2fs = Some(Box::new(f2fs::info::info(&mounted.volume).map_err(|error| wrong(path, error))?));
        }
        Some(best) if best.format == Format::Fat => {
            let sectors = DumpSectors::new(image.view(best.layout.clone()).map_err(|error| wrong(path, error))?);
            summary.fat = Some(fat::info(sectors, &clock_at(0)).map_err(|error| wrong(path, error))?);
        }
        _ => {
            let info = device.info();
            notes.extend(info.notes);
            summary.bad_blocks = info.bad_blocks;
        }
    }
    notes.dedup();
    Ok(DumpSummary { notes, ..summary })
}

/// Whether a dump is made of regions, so that nothing can be said of the whole as of one volume: a table says so, what shows is surer than the whole, or the file begins with something else.
fn is_divided(image: &Image, found: &[Found], regions: &[RegionInfo]) -> bool {
    let covers_all = |region: &RegionInfo| region.offset == 0 && region.size >= image.bytes().len() as u64;
    let first = image.bytes().get(..BEGINNING as usize).unwrap_or_else(|| image.bytes());
    let begins_otherwise = found.first().is_some_and(|best| best.format == Format::Jffs2)
        && !begins_with_node(first)
        && first.iter().any(|byte| *byte != 0xFF);
    let openable = |region: &&RegionInfo| region.opens_as.is_some();
    !regions.is_empty()
        && !regions.iter().any(covers_all)
        && (regions.iter().filter(openable).any(|region| region.in_table)
            || begins_otherwise && regions.iter().any(|region| openable(&region))
            || !detect::is_sure(found))
}

/// Opens the file for reading; the text forms of nanddump are turned back into bytes, and Android's sparse images are unpacked.
pub(super) fn read(path: &Path, options: &OpenOptions) -> Result<(Image, Vec<String>), StackError> {
    let beginning = chip_file::beginning(path, BEGINNING)?;
    if beginning.is_empty() {
        return Err(wrong(path, "the file begins with \"\", it is empty; expected an image"));
    }
    let (overlay, resident_max) = (options.overlay.clone(), options.resident_max);
    let how = DumpOptions { overlay, resident_max, ..DumpOptions::read_only() };
    let image = Image::open(path, &how).map_err(|error| wrong(path, error))?;
    if !text::is_text_dump(image.bytes()) {
        return sparse::unpacked(path, image, options);
    }
    let dump = text::parse_text_dump(image.bytes()).map_err(|error| wrong(path, error))?;
    let mut notes = vec![format!("a text dump of nanddump's, {} bytes", dump.bytes.len())];
    if !dump.gaps.is_empty() {
        let gaps = dump.gaps.len();
        notes.push(format!(
            "it leaves out {gaps} stretches, bad blocks perhaps; what follows is taken to follow directly"
        ));
    }
    let image = Image::from_bytes(dump.bytes, None).map_err(|error| wrong(path, error))?;
    Ok((image, notes))
}

pub(super) fn dump(path: &Path, image: Image, found: &Found) -> Result<DumpFlash, StackError> {
    let device = DumpFlash::new(image, found.layout.clone()).map_err(|error| wrong(path, error))?;
    Ok(device.into_read_only())
}

/// What is to be opened.
pub(super) struct Selected {
    pub found: Found,
    pub region: Option<RegionInfo>,
    pub notes: Vec<String>,
}

/// The part that the options name; `None` where they name none. Errors: no such region; a part outside the image.
fn part(path: &Path, image: &Image, options: &OpenOptions) -> Result<Option<(Within, Option<RegionInfo>)>, StackError> {
    if let Some(wanted) = &options.region {
        let list = regions_of(path, image, options)?;
        let plain: Vec<Region> = list.iter().map(|(region, _)| region.clone()).collect();
        let chosen = select(&plain, wanted).map_err(|error| wrong(path, format!("--region: {error}")))?;
        let info = list.iter().find(|(region, _)| region == chosen).map(|(_, info)| info.clone());
        return Ok(Some(((chosen.offset, Some(chosen.size)), info)));
    }
    if options.offset.is_none() && options.size.is_none() {
        return Ok(None);
    }
    let (offset, length) = (options.offset.unwrap_or(0), image.bytes().len() as u64);
    if offset >= length || options.size == Some(0) {
        let size = options.size.map_or_else(|| "the rest".to_owned(), |size| format!("{size} bytes"));
        let detail = format!("--offset {offset}, {size}: the image has {length} bytes; expected a part inside it");
        return Err(wrong(path, detail));
    }
    Ok(Some(((offset, options.size), None)))
}

fn regions_of(path: &Path, image: &Image, options: &OpenOptions) -> Result<Vec<(Region, RegionInfo)>, StackError> {
    let found = look(image, (0, None), options);
    let layout = base_layout(image, &found, options);
    let device = image.view(layout).map_err(|error| wrong(path, error))?;
    Ok(region_list(image, &device, options, &found))
}

/// Refuses an erase size that does not fit, where another one does.
fn check_erase_size(path: &Path, options: &OpenOptions, chosen: &Selected) -> Result<(), StackError> {
    let Some(asked) = options.erase_size.filter(|_| chosen.found.fit == Fit::Refuted) else { return Ok(()) };
    let sizes: Vec<String> = chosen.found.detection.erase_sizes.iter().map(ToString::to_string).collect();
    if sizes.is_empty() {
        return Ok(());
    }
    let sizes = sizes.join(" or ");
    Err(wrong(path, format!("--erase-size {asked}: nodes do not fit blocks of this size; expected {sizes}")))
}

/// Refuses an image, or a part of one, that is shorter than one erase block: than the size that was given, or else than the smallest there is. mkfs.jffs2 leaves the
/// last block as short as its nodes are, so that a longer file may be one block, whatever its size: it is read as if the rest were blank.
fn check_length(path: &Path, image: &Image, within: Within, options: &OpenOptions) -> Result<(), StackError> {
    let length = (image.bytes().len() as u64).saturating_sub(within.0);
    let length = within.1.map_or(length, |size| size.min(length));
    let start = usize::try_from(within.0).unwrap_or(usize::MAX);
    let bytes = image.bytes().get(start..).unwrap_or_default();
    let what = if within == (0, None) { "the file" } else { "the part" };
    let refuse = |block: String| {
        let detail = format!(
            "{what} has {length} bytes, less than one erase block of {block}; expected whole blocks: the rest of the last one filled up with 0xFF, as mkfs.jffs2 --pad does"
        );
        Err(wrong(path, detail))
    };
    match options.erase_size {
        Some(size) if length < u64::from(size) => refuse(format!("{size} bytes (--erase-size)")),
        None if length < ERASE_SIZE_MIN && begins_with_node(bytes) => {
            refuse(format!("{ERASE_SIZE_MIN} bytes, which is the smallest there is"))
        }
        _ => Ok(()),
    }
}

/// Chooses the part that is meant, and refuses an erase size that does not fit it.
pub(super) fn choose(path: &Path, image: &Image, options: &OpenOptions) -> Result<Selected, StackError> {
    let within = part(path, image, options)?.map_or((0, None), |(within, _)| within);
    check_length(path, image, within, options)?;
    let chosen = chosen(path, image, options)?;
    check_erase_size(path, options, &chosen)?;
    Ok(chosen)
}

/// Chooses the part that is meant, and what it is to be opened as. Without a word from the options: the one file system that a partition table shows; else the whole,
/// where it surely is one; else the one that shows by its content; else the whole, if there is any trace.
fn chosen(path: &Path, image: &Image, options: &OpenOptions) -> Result<Selected, StackError> {
    if let Some((within, region)) = part(path, image, options)? {
        return match look(image, within, options).into_iter().next() {
            Some(found) => Ok(Selected { found, region, notes: Vec::new() }),
            None => Err(unknown(path, image, within)),
        };
    }
    let whole = look(image, (0, None), options);
    let layout = base_layout(image, &whole, options);
    let device = image.view(layout).map_err(|error| wrong(path, error))?;
    let regions = region_list(image, &device, options, &whole);
    drop(device);
    let openable = |in_table: bool| -> Vec<&RegionInfo> {
        let fits = |(region, info): &&(Region, RegionInfo)| {
            info.opens_as.is_some() && detect::is_in_a_table(region) == in_table
        };
        regions.iter().filter(fits).map(|(_, info)| info).collect()
    };
    let mut shown = openable(true);
    if shown.is_empty() && !detect::is_sure(&whole) {
        shown = openable(false);
    }
    let one = match shown.as_slice() {
        [] => None,
        [one] => Some(*one),
        several => return Err(wrong(path, ambiguous(several))),
    };
    let covers_all = |region: &RegionInfo| region.offset == 0 && region.size >= image.bytes().len() as u64;
    match one.filter(|region| !covers_all(region)) {
        Some(region) => match look(image, (region.offset, Some(region.size)), options).into_iter().next() {
            Some(found) => {
                let notes = vec![format!("opened region {} \"{}\" at {}", region.number, region.name, region.offset)];
                Ok(Selected { found, region: Some(region.clone()), notes })
            }
            None => Err(unknown(path, image, (region.offset, Some(region.size)))),
        },
        None => match whole.into_iter().next() {
            Some(found) => Ok(Selected { found, region: None, notes: Vec::new() }),
            None => Err(unknown(path, image, (0, None))),
        },
    }
}

fn ambiguous(regions: &[&RegionInfo]) -> String {
    let told = |region: &&RegionInfo| format!("{} \"{}\"", region.number, region.name);
    let mut names: Vec<String> = regions.iter().take(NAMED_MAX).map(told).collect();
    if regions.len() > NAMED_MAX {
        names.push(format!("{} more", regions.len() - NAMED_MAX));
    }
    let count = regions.len();
    format!(
        "the image holds {count} file systems, in the regions {}; expected --region with one of them",
        names.join(", ")
    )
}

fn unknown(path: &Path, image: &Image, within: Within) -> StackError {
    let start = usize::try_from(within.0).unwrap_or(usize::MAX);
    let bytes = image.bytes().get(start..).unwrap_or_default();
    let shown = bytes.get(..8.min(bytes.len())).unwrap_or_default().escape_ascii();
    let what = if within == (0, None) { "the file".to_owned() } else { format!("the part at {start}") };
    wrong(
        path,
        format!(
            "{what} begins with \"{shown}\" and holds no format that is known; expected a chip of nandkit's (\"NANDKJRN\"), a FAT or F2FS volume, or a JFFS2 image. \
             Where in the file it is can be said by --offset, how it lies there by --erase-size, --page-size and --oob-size"
        ),
    )
}
