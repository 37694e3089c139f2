//! `nandkit getfattr`, and attributes in lists.

use nandkit_tree::show;
use nandkit_vfs::path::{Follow, resolve};
use nandkit_vfs::{FileSystem, InodeNumber};
use serde_json::{Map, Value};

use super::{absent, open, path_json, shown, tell, verdict};
use crate::args::GetfattrArguments;
use crate::failure::Failure;
use crate::output;

/// Names and values of an inode's attributes in the form of getfattr(1), sorted; errors go to
/// `problems`.
pub(super) fn pairs(fs: &dyn FileSystem, inode: InodeNumber, problems: &mut Vec<String>) -> Vec<(String, String)> {
    let all = fs.xattrs().map_or_else(|| Ok(Vec::new()), |xattrs| xattrs.all_xattrs(inode));
    let all = all.unwrap_or_else(|error| {
        problems.push(format!("extended attributes: {error}"));
        Vec::new()
    });
    let mut pairs = Vec::with_capacity(all.len());
    for (name, value) in all {
        match value {
            Ok(value) => pairs.push((shown(&name), value_text(&value))),
            Err(error) => problems.push(format!("extended attribute {}: {error}", shown(&name))),
        }
    }
    pairs.sort();
    pairs
}

/// A value as quoted text, or as bytes in hexadecimal. `setfattr -v` accepts the hexadecimal form,
/// and the text without quotes. A zero byte at the end of a text is not shown, as in getfattr(1).
fn value_text(value: &[u8]) -> String {
    let text = std::str::from_utf8(value.strip_suffix(b"\0").unwrap_or(value)).ok();
    match text.filter(|text| !text.chars().any(char::is_control)) {
        Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        None => format!("0x{}", value.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// The attributes of a file as a JSON object.
pub(super) fn json(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect::<Map<_, _>>().into()
}

/// Shows the extended attributes of files.
pub fn getfattr(arguments: &GetfattrArguments) -> Result<(), Failure> {
    let image = open(&arguments.image)?;
    let (mut text, mut rows, mut problems) = (String::new(), Vec::new(), Vec::new());
    for path in &arguments.paths {
        let place = show(path.trim_start_matches('/').as_bytes());
        let failed = |error: nandkit_vfs::FsError| {
            Failure::Input(format!("{}: {place}: {error}", arguments.image.image.display()))
        };
        let inode = resolve(image.fs(), path.as_bytes(), Follow::Never);
        let inode = inode.map_err(|error| absent(&arguments.image, &image, failed(error)))?;
        let mut told = Vec::new();
        let mut pairs = pairs(image.fs(), inode, &mut told);
        if let Some(name) = &arguments.name {
            pairs.retain(|(other, _)| other == name);
            if pairs.is_empty() {
                told.push(format!("there is no attribute {}", shown(name.as_bytes())));
            }
        }
        problems.extend(told.into_iter().map(|problem| format!("{place}: {problem}")));
        if !pairs.is_empty() {
            text += &format!("# file: {}\n", place.trim_start_matches('/'));
            pairs.iter().for_each(|(name, value)| text += &format!("{name}={value}\n"));
            text.push('\n');
        }
        let mut row = Map::new();
        path_json(path.trim_start_matches('/').as_bytes(), &mut row);
        row.insert("xattrs".to_owned(), json(&pairs));
        rows.push(Value::Object(row));
    }
    match arguments.json {
        true => output::json(&rows.into())?,
        false => output::text(&text)?,
    }
    tell(&problems);
    verdict(&arguments.image, problems.len(), ("an attribute is missing", "attributes are missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_or_hexadecimal() {
        for (value, expected) in [
            (&b"u:object_r:t:s0\0"[..], "\"u:object_r:t:s0\""),
            (b"", "\"\""),
            (b"\"a\\", "\"\\\"a\\\\\""),
            (b"a\nb", "0x610a62"),
            (b"a\0\0", "0x610000"),
            (b"\xFF", "0xff"),
        ] {
            assert_eq!(value_text(value), expected);
        }
    }
}
