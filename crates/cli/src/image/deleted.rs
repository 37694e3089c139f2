//! `nandkit ls --deleted`

use std::collections::BTreeMap;

use nandkit_stack::image::{DeletedContent, DeletedName, OpenImage, formats_that_keep};
use nandkit_tree::show;
use serde_json::{Map, Value};

use super::{path_json, time};
use crate::args::LsArguments;
use crate::failure::Failure;
use crate::output;

/// Deleted and replaced names that are still on the flash. Error: the format keeps none.
pub fn names(image: &OpenImage, shown: &std::path::Path) -> Result<Vec<DeletedName>, Failure> {
    match image.deleted() {
        Some(names) => names.map_err(|error| Failure::Check(format!("{}: {error}", shown.display()))),
        None => Err(Failure::Input(format!(
            "{}: nandkit cannot find deleted names in {}; expected an image of {}",
            shown.display(),
            image.format,
            formats_that_keep(|keeps| keeps.history)
        ))),
    }
}

/// The former path of a name; if its directory has no path any more, the name below the directory's
/// inode number.
pub fn place(name: &DeletedName) -> Vec<u8> {
    name.path.clone().unwrap_or_else(|| [format!("<inode {}>/", name.parent.0).as_bytes(), &name.name].concat())
}

/// Lists the deleted names of an image.
pub fn list(arguments: &LsArguments, image: &OpenImage) -> Result<(), Failure> {
    let below: Vec<u8> = arguments.path.split('/').filter(|name| !name.is_empty()).collect::<Vec<_>>().join("/").into();
    let inside = |name: &DeletedName| {
        let path = place(name);
        below.is_empty() || path == below || path.starts_with(&[below.as_slice(), b"/"].concat())
    };
    let names = names(image, &arguments.image.image)?;
    // Sorted by path, then from old to new.
    let mut sorted: BTreeMap<(Vec<u8>, u64), DeletedName> = BTreeMap::new();
    for name in names.into_iter().filter(inside) {
        sorted.insert((place(&name), name.at), name);
    }
    if arguments.json {
        return output::json(&sorted.values().map(name_json).collect::<Vec<_>>().into());
    }
    let line = |name: &DeletedName| {
        let when = name.deleted.map_or_else(|| "-".to_owned(), time::utc);
        let lives = if name.lives { ", has another name now" } else { "" };
        let content = name.content.as_ref().map_or_else(String::new, content_text);
        format!("{when:<19} {:<16} {} (inode {}{lives}{content})\n", name.kind.name(), show(&place(name)), name.inode.0)
    };
    output::text(&sorted.values().map(line).collect::<String>())
}

/// How much of a deleted content is readable, and how certain that is.
fn content_text(content: &DeletedContent) -> String {
    let DeletedContent { size, readable, doubt } = content;
    let readable = match *readable {
        all if all == *size => format!("{size} bytes"),
        0 => return format!(", {size} bytes, overwritten by other files"),
        part => format!("{part} of {size} bytes, the rest overwritten by other files"),
    };
    let doubt = doubt.map_or_else(String::new, |doubt| format!("; not sure: {doubt}"));
    format!(", {readable}{doubt}")
}

fn name_json(name: &DeletedName) -> Value {
    let mut map = Map::new();
    path_json(&place(name), &mut map);
    map.insert("path_is_known".to_owned(), name.path.is_some().into());
    map.insert("inode".to_owned(), name.inode.0.into());
    map.insert("kind".to_owned(), name.kind.name().into());
    map.insert("offset".to_owned(), name.at.into());
    map.insert("deleted_ns".to_owned(), name.deleted.map(|time| time.0).into());
    map.insert("has_another_name".to_owned(), name.lives.into());
    if let Some(content) = &name.content {
        map.insert("size".to_owned(), content.size.into());
        map.insert("readable_bytes".to_owned(), content.readable.into());
        map.insert("doubt".to_owned(), content.doubt.into());
    }
    Value::Object(map)
}
