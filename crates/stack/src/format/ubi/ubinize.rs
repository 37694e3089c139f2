//! Images of several volumes, described as for ubinize of mtd-utils.

use std::path::{Path, PathBuf};

use nandkit_ubi::Geometry;
use nandkit_ubi::build::{ImageHeaders, VolumeContent, build};
use nandkit_ubi::layout::{VolumeRecord, VolumeType, flag};
use nandkit_units::parse_size;

use crate::StackError;
use crate::format::wrong;

/// The flash that an image is for.
#[derive(Clone, Copy, Debug)]
pub struct FlashShape {
    /// Bytes per PEB.
    pub peb_size: u32,
    /// The smallest unit of writing, in bytes.
    pub min_io_size: u32,
    /// The unit in which headers are written; `None` means `min_io_size`.
    pub sub_page_size: Option<u32>,
    /// Where volume identifiers lie; `None` means behind the first unit of headers.
    pub vid_offset: Option<u32>,
    /// The erase counter of each PEB.
    pub erase_counter: u64,
    /// The image sequence number.
    pub image_sequence: u32,
}

/// A section of a description.
#[derive(Default)]
struct Section {
    name: String,
    line: usize,
    values: Vec<(String, String)>,
}

/// A described volume with its content.
struct Described {
    number: u32,
    record: VolumeRecord,
    content: Vec<u8>,
}

/// Makes the image that a description in ubinize's form asks for. Paths of contents are relative to
/// the working directory, as for ubinize. Errors: the description names the line and what was
/// expected; a content cannot be read, or does not fit its volume.
pub fn ubinize(description: &Path, shape: &FlashShape) -> Result<Vec<u8>, StackError> {
    let failed = |detail: String| wrong(description, detail);
    let text = std::fs::read_to_string(description).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let headers = headers(shape);
    if let Some(why) = headers.refusal() {
        return Err(failed(why));
    }
    let mut volumes: Vec<Described> = Vec::new();
    for section in sections(&text).map_err(failed)? {
        let at = |why: String| failed(format!("line {}, section [{}]: {why}", section.line, section.name));
        let next = volumes.iter().map(|volume| volume.number + 1).max().unwrap_or(0);
        volumes.push(described(&section, &headers.geometry, next).map_err(at)?);
    }
    if volumes.is_empty() {
        return Err(failed("no section; expected one for each volume".to_owned()));
    }
    let contents: Vec<VolumeContent<'_>> = volumes
        .iter()
        .map(|volume| VolumeContent { number: volume.number, record: volume.record.clone(), content: &volume.content })
        .collect();
    build(&headers, &contents).map_err(failed)
}

fn headers(shape: &FlashShape) -> ImageHeaders {
    let min_io_size = shape.min_io_size.max(1);
    let unit = shape.sub_page_size.unwrap_or(min_io_size).max(1);
    let vid_offset = shape.vid_offset.unwrap_or(64_u32.next_multiple_of(unit));
    let data_offset = vid_offset.saturating_add(64).checked_next_multiple_of(min_io_size).unwrap_or(u32::MAX);
    let geometry = Geometry { peb_size: shape.peb_size, vid_offset, data_offset };
    ImageHeaders { geometry, image_sequence: shape.image_sequence, erase_counter: shape.erase_counter }
}

/// The sections of a description: `[name]`, then `key=value` a line; `;` and `#` begin comments.
fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push(Section { name: name.to_owned(), line: number, values: Vec::new() });
            continue;
        }
        let (Some((key, value)), Some(section)) = (line.split_once('='), sections.last_mut()) else {
            return Err(format!("line {number}: '{line}'; expected [NAME], then KEY=VALUE"));
        };
        section.values.push((key.trim().to_owned(), value.trim().trim_matches('"').to_owned()));
    }
    Ok(sections)
}

/// The volume of a section. Facts: ubinize.c of mtd-utils, `read_section`.
fn described(section: &Section, geometry: &Geometry, next: u32) -> Result<Described, String> {
    const KEYS: [&str; 8] =
        ["mode", "image", "vol_id", "vol_type", "vol_name", "vol_size", "vol_alignment", "vol_flags"];
    if let Some((key, _)) = section.values.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        return Err(format!("an unknown key '{key}'; expected {}", KEYS.join(", ")));
    }
    let value = |key: &str| section.values.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
    let number = |key: &str, otherwise: u32| match value(key) {
        None => Ok(otherwise),
        Some(text) => text.parse::<u32>().map_err(|_| format!("{key} = {text}; expected a number")),
    };
    match value("mode") {
        Some("ubi") => {}
        other => return Err(format!("mode = {}; expected mode = ubi", other.unwrap_or("nothing"))),
    }
    let volume_type = match value("vol_type").unwrap_or("dynamic") {
        "dynamic" => VolumeType::Dynamic,
        "static" => VolumeType::Static,
        other => return Err(format!("vol_type = {other}; expected dynamic or static")),
    };
    let name = value("vol_name").ok_or("no vol_name; expected one")?;
    let content = match value("image").map(PathBuf::from) {
        Some(path) => std::fs::read(&path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?,
        None => Vec::new(),
    };
    let alignment = number("vol_alignment", 1)?;
    let fits = (1..geometry.leb_size()).contains(&alignment);
    let data_pad = geometry.leb_size().checked_rem(alignment).filter(|_| fits);
    let data_pad = data_pad.ok_or_else(|| format!("vol_alignment = {alignment}; a LEB has {}", geometry.leb_size()))?;
    let size = match value("vol_size") {
        Some(text) => parse_size(text).map_err(|error| format!("vol_size: {error}"))?,
        None => content.len() as u64,
    };
    let lebs = size.div_ceil(u64::from(geometry.leb_size() - data_pad));
    let reserved_pebs = u32::try_from(lebs).ok().filter(|lebs| *lebs > 0);
    let reserved_pebs = reserved_pebs.ok_or_else(|| format!("{size} bytes; expected vol_size, or an image"))?;
    let mut flags = 0;
    for word in value("vol_flags").unwrap_or("").split(',').map(str::trim).filter(|word| !word.is_empty()) {
        flags |= match word {
            "autoresize" => flag::AUTORESIZE,
            "skip-check" => flag::SKIP_CHECK,
            other => return Err(format!("vol_flags = {other}; expected autoresize, skip-check")),
        };
    }
    let record = VolumeRecord { alignment, data_pad, flags, ..VolumeRecord::new(name, volume_type, reserved_pebs) };
    Ok(Described { number: number("vol_id", next)?, record, content })
}
