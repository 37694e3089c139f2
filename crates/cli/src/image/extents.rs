//! `nandkit info --extents`

use std::fmt::Write;

use nandkit_stack::image::{PlacedExtent, formats_that_keep};
use nandkit_tree::show;
use nandkit_vfs::FsError;
use nandkit_vfs::path::{Follow, resolve};
use serde_json::{Value, json};

use super::{absent, open};
use crate::args::ImageArguments;
use crate::failure::Failure;

/// Where a file is stored.
pub struct Extents {
    path: String,
    size: u64,
    all: Vec<PlacedExtent>,
}

/// Looks up the extents of a file.
pub fn of(arguments: &ImageArguments, path: &str) -> Result<Extents, Failure> {
    let image = open(arguments)?;
    let place = || format!("{}: --extents {}", arguments.image.display(), show(path.as_bytes()).replacen("//", "/", 1));
    let failed = |error: FsError| Failure::Input(format!("{}: {error}", place()));
    let inode = resolve(image.fs(), path.as_bytes(), Follow::Last);
    let inode = inode.map_err(|error| absent(arguments, &image, failed(error)))?;
    let size = image.fs().stat(inode).map_err(failed)?.size;
    let all = image.extents(inode).ok_or_else(|| {
        let format = image.format;
        Failure::Input(format!(
            "{}: this is {format}, for which nandkit cannot show extents; expected an image of {}",
            place(),
            formats_that_keep(|keeps| keeps.extents)
        ))
    })?;
    Ok(Extents { path: path.to_owned(), size, all: all.map_err(failed)? })
}

/// A line about the file, then one for each extent.
pub fn text(extents: &Extents) -> String {
    let count = extents.all.len();
    let mut text = format!(
        "{}: {} bytes, {count} extent{}\n",
        extents.path.escape_debug(),
        extents.size,
        if count == 1 { "" } else { "s" }
    );
    let columns = ["offset", "length", "at", "kind", "segment"];
    let rows: Vec<[String; 5]> = extents.all.iter().map(cells).collect();
    let rows: Vec<[String; 5]> =
        if rows.is_empty() { rows } else { std::iter::once(columns.map(str::to_owned)).chain(rows).collect() };
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    for [offset, length, at, kind, segment] in &rows {
        let [a, b, c, d, _] = widths;
        let line = format!("{offset:>a$}  {length:>b$}  {at:>c$}  {kind:d$}  {segment}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn cells(placed: &PlacedExtent) -> [String; 5] {
    let extent = &placed.extent;
    let segment = placed.segments.as_ref().map_or_else(String::new, |segments| {
        let last = segments.end.saturating_sub(1);
        let range = if last == segments.start { String::new() } else { format!("-{last}") };
        format!("{}{range}, {}", segments.start, placed.kind.unwrap_or("of unknown type"))
    });
    let at = extent.address.map_or_else(|| "-".to_owned(), |address| format!("{address:#x}"));
    [extent.offset.to_string(), extent.length.to_string(), at, extent.kind.name().to_owned(), segment]
}

/// The extents in JSON.
pub fn json(extents: &Extents) -> Value {
    let one = |placed: &PlacedExtent| {
        let extent = &placed.extent;
        let mut value = json!({
            "offset": extent.offset,
            "length": extent.length,
            "address": extent.address,
            "kind": extent.kind.name(),
        });
        if let (Some(segments), Some(map)) = (&placed.segments, value.as_object_mut()) {
            map.insert("segments".to_owned(), json!([segments.start, segments.end.saturating_sub(1)]));
            map.insert("segment_type".to_owned(), placed.kind.into());
        }
        value
    };
    json!({
        "path": extents.path,
        "size": extents.size,
        "extents": extents.all.iter().map(one).collect::<Vec<_>>(),
    })
}
