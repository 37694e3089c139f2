//! `nandkit ls`

use nandkit_stack::image::OpenImage;
use nandkit_tree::show;
use nandkit_vfs::path::{Follow, Next, Step, link_target, resolve, walk};
use nandkit_vfs::{Attributes, ErrorKind, FileKind};
use serde_json::{Map, Value, json};

use super::{absent, finding_line, open, path_json, shown, tell, tell_way_out, time, verdict, witnessed, xattrs};
use crate::args::LsArguments;
use crate::failure::Failure;
use crate::output;

/// A listed name.
struct Row {
    path: Vec<u8>,
    attributes: Attributes,
    target: Option<Vec<u8>>,
    /// Names and values of extended attributes, if requested.
    xattrs: Option<Vec<(String, String)>>,
}

/// Lists files of an image.
pub fn ls(arguments: &LsArguments) -> Result<(), Failure> {
    let image = open(&arguments.image)?;
    if arguments.deleted {
        return super::deleted::list(arguments, &image);
    }
    let (rows, mut problems, limits) = rows(arguments, &image)?;
    let witnessed = witnessed(&image);
    problems.extend(witnessed.iter().map(|(_, finding)| finding_line(finding)));
    if arguments.json {
        output::json(&rows.iter().map(row_json).collect::<Vec<_>>().into())?;
    } else if arguments.long {
        output::text(&long(&rows))?;
    } else {
        let line = |row: &Row| format!("{}\n{}", shown(&row.path), xattr_lines(row));
        output::text(&rows.iter().map(line).collect::<String>())?;
    }
    let is_damaged = problems.len() > limits;
    tell(&problems);
    tell_way_out(&arguments.image, witnessed.iter().map(|(_, finding)| finding));
    let what = match is_damaged {
        true => ("the image is damaged, and names may be missing", "damaged places; names may be missing"),
        false => ("one item is not listed", "items are not listed"),
    };
    verdict(&arguments.image, problems.len(), what)
}

/// The listed rows, the problems, and how many of the problems are limits of nandkit rather than
/// damage.
fn rows(arguments: &LsArguments, image: &OpenImage) -> Result<(Vec<Row>, Vec<String>, usize), Failure> {
    let (fs, path) = (image.fs(), arguments.path.as_bytes());
    let failed = |error: nandkit_vfs::FsError| {
        Failure::Input(format!("{}: {}: {error}", arguments.image.image.display(), show(path).replacen("//", "/", 1)))
    };
    let start = resolve(fs, path, Follow::Never);
    let start = start.map_err(|error| absent(&arguments.image, image, failed(error)))?;
    let attributes = fs.stat(start).map_err(failed)?;
    let row = |path: &[u8], attributes: &Attributes, problems: &mut Vec<String>| {
        let target = (attributes.kind == FileKind::Symlink).then(|| link_target(fs, attributes.inode));
        let target =
            target.and_then(|target| target.map_err(|error| problems.push(format!("{}: {error}", show(path)))).ok());
        let xattrs = arguments.xattrs.then(|| {
            let mut told = Vec::new();
            let pairs = xattrs::pairs(fs, attributes.inode, &mut told);
            problems.extend(told.into_iter().map(|problem| format!("{}: {problem}", show(path))));
            pairs
        });
        Row { path: path.to_vec(), attributes: *attributes, target, xattrs }
    };
    let (mut rows, mut problems, mut limits) = (Vec::new(), Vec::new(), 0);
    if attributes.kind != FileKind::Directory {
        let name = path.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty()).unwrap_or(path);
        rows.push(row(name, &attributes, &mut problems));
        return Ok((rows, problems, 0));
    }
    walk(fs, start, &mut |step| {
        match step {
            Step::Entry { path, attributes } => rows.push(row(path, attributes, &mut problems)),
            Step::Problem { path, error } => {
                limits += usize::from(error.kind == ErrorKind::NameTooLong);
                problems.push(format!("{}: {error}", show(path)));
            }
            Step::Leave { .. } => {}
        }
        Ok(if arguments.recursive { Next::Enter } else { Next::Skip })
    })
    .map_err(failed)?;
    Ok((rows, problems, limits))
}

/// The mode in the form of ls(1): `drwxr-xr-x`.
pub fn mode_text(attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::BlockDevice => 'b',
        FileKind::CharacterDevice => 'c',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    };
    let mode = attributes.mode;
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, false) => 'x',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (false, false) => '-',
        });
    }
    text
}

fn long(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let attributes = &row.attributes;
        let size = match attributes.kind {
            FileKind::BlockDevice | FileKind::CharacterDevice => {
                format!("{}, {}", attributes.device >> 32, attributes.device & 0xFFFF_FFFF)
            }
            FileKind::Symlink => row.target.as_ref().map_or(attributes.size, |target| target.len() as u64).to_string(),
            _ => attributes.size.to_string(),
        };
        [attributes.links.to_string(), attributes.uid.to_string(), attributes.gid.to_string(), size]
    };
    let all: Vec<[String; 4]> = rows.iter().map(cells).collect();
    let mut widths = [0; 4];
    for cells in &all {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for (row, cells) in rows.iter().zip(&all) {
        text += &mode_text(&row.attributes);
        for (width, cell) in widths.iter().zip(cells) {
            text += &format!(" {cell:>width$}");
        }
        text += &format!(" {} {}", time::utc(row.attributes.modified), shown(&row.path));
        if let Some(target) = &row.target {
            text += &format!(" -> {}", shown(target));
        }
        text.push('\n');
        text += &xattr_lines(row);
    }
    text
}

/// A line for each extended attribute of a row, if requested.
fn xattr_lines(row: &Row) -> String {
    row.xattrs.iter().flatten().map(|(name, value)| format!("    {name}={value}\n")).collect()
}

fn row_json(row: &Row) -> Value {
    let attributes = &row.attributes;
    let mut map = Map::new();
    path_json(&row.path, &mut map);
    let more = json!({
        "kind": attributes.kind.name(),
        "inode": attributes.inode.0,
        "mode": format!("{:04o}", attributes.mode),
        "links": attributes.links,
        "uid": attributes.uid,
        "gid": attributes.gid,
        "size": attributes.size,
        "modified_ns": attributes.modified.0,
    });
    if let Value::Object(more) = more {
        map.extend(more);
    }
    if matches!(attributes.kind, FileKind::BlockDevice | FileKind::CharacterDevice) {
        map.insert("device".to_owned(), json!([attributes.device >> 32, attributes.device & 0xFFFF_FFFF]));
    }
    if let Some(target) = &row.target {
        map.insert("target".to_owned(), String::from_utf8_lossy(target).into());
    }
    if let Some(pairs) = &row.xattrs {
        map.insert("xattrs".to_owned(), xattrs::json(pairs));
    }
    Value::Object(map)
}
