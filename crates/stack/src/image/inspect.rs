//! Inspection of images that are not emulated chips.

use std::path::Path;

use nandkit_flash_image::Image;

use super::DumpSummary;
use super::choose::{Part, check_length, part, unknown};
use super::left_out;
use super::oob_layout::resolved;
use super::open::{opening, read};
use super::swap;
use crate::StackError;
use crate::format::detected::DetectedFormat;
use crate::format::recognise::{RegionInfo, base_layout, is_sure, look, region_list};
use crate::format::{Medium, MediumKind, OpenOptions, wrong};

/// Detects what an image is and collects facts about it.
pub(super) fn inspect(path: &Path, options: &OpenOptions) -> Result<DumpSummary, StackError> {
    let (image, mut notes) = read(path, options)?;
    let options = &resolved(path, &image, options)?;
    let Part { within, region, options } = part(path, &image, options)?.unwrap_or_else(|| Part::whole(options));
    let options = &options;
    check_length(path, &image, within, options)?;
    let mut found = look(&image, within, options);
    let whole = options.region.is_none() && within == (0, None);
    let base = base_layout(&image, &found, options);
    let layout = match found.iter().find(|found| found.detection.erase_size > 0) {
        Some(found) => found.layout.clone(),
        None => base.region(within.0, within.1).map_err(|error| wrong(path, error))?,
    };
    let view = |layout| image.view(layout).map_err(|error| wrong(path, error));
    let device = view(layout)?;
    let regions: Vec<RegionInfo> = match whole {
        true => region_list(&image, &view(base)?, options, &found).into_iter().map(|(_, region)| region).collect(),
        false => Vec::new(),
    };
    if whole
        && found.is_empty()
        && regions.iter().all(|region| region.opens_as.is_none())
        && let Some((swap, _)) = swap::found(&image, options)
    {
        let mut summary = inspect(path, &OpenOptions { swap: Some(swap), ..options.clone() })?;
        summary.notes.push(format!("other commands need `swap` {} to read it", swap.bits()));
        return Ok(summary);
    }
    if found.is_empty() && regions.is_empty() {
        return Err(unknown(path, &image, within));
    }
    if is_divided(&image, &found, &regions) {
        notes.push("the image is not a single volume: `region` chooses a part".to_owned());
        found.clear();
    }
    let mut summary = DumpSummary {
        file_bytes: image.bytes().len() as u64,
        region,
        volume: Vec::new(),
        regions,
        bad_blocks: Vec::new(),
        notes: Vec::new(),
        ecc: None,
        files_in_other_parts: 0,
        detections: found.iter().map(|found| found.detection.clone()).collect(),
    };
    if let Some(best) = found.first() {
        let part = image.view(best.layout.clone()).map_err(|error| wrong(path, error))?;
        let medium = Medium::dump(part, best.clone());
        let info = best.format.info(medium, &opening(options)).map_err(|error| error.of(path))?;
        notes.extend(info.notes);
        notes.extend(best.left_out.iter().cloned());
        summary.files_in_other_parts = files_left_out(path, &image, best, options)?;
        if summary.files_in_other_parts > 0 {
            notes.push(format!(
                "this is one part of a split sparse image: content of {} files is in other parts; give them with `join`",
                summary.files_in_other_parts
            ));
        }
        summary.volume = info.facts;
    }
    if found.first().is_none_or(|best| best.format.medium() == MediumKind::Flash) {
        let info = device.info();
        notes.extend(info.notes);
        summary.bad_blocks = info.bad_blocks;
        summary.ecc = device.ecc_report().map_err(|error| wrong(path, format!("cannot read it: {error}")))?;
    }
    notes.dedup();
    Ok(DumpSummary { notes, ..summary })
}

/// Number of files with content in missing parts of a split image.
fn files_left_out(
    path: &Path,
    image: &Image,
    best: &DetectedFormat,
    options: &OpenOptions,
) -> Result<usize, StackError> {
    let stretches = left_out::stretches(image, best.layout.offset, options);
    if stretches.is_empty() {
        return Ok(0);
    }
    let part = image.view(best.layout.clone()).map_err(|error| wrong(path, error))?;
    let Ok(opened) = best.format.open(Medium::dump(part, best.clone()), &opening(options)) else { return Ok(0) };
    Ok(left_out::files(&*opened.volume, &stretches).len())
}

/// Whether a dump consists of regions and is not one volume: it has a partition table, regions are
/// more certain than the whole, or the file begins with something else.
fn is_divided(image: &Image, found: &[DetectedFormat], regions: &[RegionInfo]) -> bool {
    let covers_all = |region: &RegionInfo| region.offset == 0 && region.size >= image.bytes().len() as u64;
    let begins_otherwise = found.first().is_some_and(|best| best.claims.begins_otherwise);
    let openable = |region: &&RegionInfo| region.opens_as.is_some();
    !regions.is_empty()
        && !regions.iter().any(covers_all)
        && (regions.iter().filter(openable).any(|region| region.in_table)
            || begins_otherwise && regions.iter().any(|region| openable(&region))
            || !is_sure(found))
}
