//! The commands that change an image. They work on a copy in memory, which replaces the file on
//! success; with an overlay the changes go there, and into a large file they go through a journal.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nandkit_stack::image::{ChangeOptions, ChangedImage, ChangingImage, discard_unused_overlay, write_sparse};
use nandkit_tree::{Edit, Editor, ModeChange, OwnerChange, TreeError, show};
use nandkit_units::format_bytes;
use nandkit_vfs::path::read_file;
use nandkit_vfs::{ErrorKind, FileSystem, Timestamp};
use serde_json::{Map, Value, json};

use super::new_file::NewFile;
use super::source::source_date_epoch;
use super::{input, is_in_danger, path_json, tell, tell_damage, tell_notes};
use crate::args::{
    ChangeArguments, ChmodArguments, ChownArguments, LnArguments, MkdirArguments, MvArguments, RmArguments,
    SetfattrArguments,
};
use crate::failure::Failure;
use crate::output;
use crate::stop::{Undo, Unfinished};

/// An argument as the bytes that the shell passed.
#[cfg(unix)]
pub fn bytes(argument: &OsString) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(argument.as_os_str())
}

/// The time stamp of changes: the current time, or `SOURCE_DATE_EPOCH`.
pub fn now() -> Result<Timestamp, Failure> {
    if let Some(time) = source_date_epoch()? {
        return Ok(time);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)))
}

/// Opens an image, lets `work` change it, writes the result and reports. An error of `work` leaves
/// the file unchanged.
pub fn change(
    arguments: &ChangeArguments,
    work: impl FnOnce(&mut Editor<'_>) -> Result<(), TreeError>,
) -> Result<(), Failure> {
    let options = arguments.image.options();
    let new = options.overlay.filter(|overlay| !arguments.dry_run && !overlay.exists());
    let mut kept = false;
    let done = change_image(arguments, work, &mut kept);
    if let (Err(_), Some(overlay), false) = (&done, new, kept) {
        // The overlay is empty, unless another command was quicker. One that cannot be removed does
        // no harm.
        discard_unused_overlay(&arguments.image.image, &overlay);
    }
    done
}

/// Does the work of [`change`]. `kept` becomes true once the changes are durable, even if a later
/// step fails.
fn change_image(
    arguments: &ChangeArguments,
    work: impl FnOnce(&mut Editor<'_>) -> Result<(), TreeError>,
    kept: &mut bool,
) -> Result<(), Failure> {
    let path = &arguments.image.image;
    let options = ChangeOptions { compression: arguments.compress.clone(), now: now()?, for_good: !arguments.dry_run };
    let mut image = ChangingImage::open(path, &arguments.image.options(), &options).map_err(input)?;
    tell_notes(path, &image.notes);
    // Counting the free space reads all inodes, which reveals damaged data.
    let before = image.free();
    refuse_damaged(arguments, &image)?;
    let mut editor = Editor::new(image.changes());
    let worked = work(&mut editor);
    let (edits, skipped, asked) = (editor.edits().to_vec(), editor.skipped().to_vec(), editor.bytes());
    let how = Stored { compressed: image.compresses(), fills_up: image.fills_up() };
    worked.map_err(|error| failed(path, error, (asked, before), how))?;
    let after = image.free();
    if !arguments.dry_run && !edits.is_empty() {
        let mut changed = image
            .finish()
            .map_err(|error| failed(path, TreeError::Node { path: "/".into(), source: error }, (asked, before), how))?;
        bring(&mut changed)?;
        *kept = true;
    }
    tell(&skipped.iter().map(|note| format!("skipped {note}")).collect::<Vec<_>>());
    if arguments.json {
        let list: Vec<Value> = edits.iter().map(edit_json).collect();
        let notes: Vec<String> = skipped.iter().map(ToString::to_string).collect();
        return output::json(&json!({
            "dry_run": arguments.dry_run,
            "changes": list,
            "skipped": notes,
            "free_bytes_before": before,
            "free_bytes_after": after,
        }));
    }
    if arguments.dry_run {
        let line = |edit: &Edit| {
            let detail = if edit.detail.is_empty() { String::new() } else { format!(": {}", edit.detail) };
            format!("would {} {}{detail}\n", edit.action, show(&edit.path))
        };
        let lines: String = edits.iter().map(line).collect();
        output::text(&format!("{lines}{} free, {} after\n", format_bytes(before), format_bytes(after)))?;
    }
    Ok(())
}

/// Refuses a damaged image: garbage collection would remove damaged nodes with the data still
/// readable in them.
fn refuse_damaged(arguments: &ChangeArguments, image: &ChangingImage) -> Result<(), Failure> {
    let damage = image.damage();
    if damage.is_empty() {
        return Ok(());
    }
    tell_damage(&damage);
    if arguments.even_if_damaged || !is_in_danger(&damage) {
        return Ok(());
    }
    Err(Failure::Check(format!(
        "{}: the image is damaged, and nothing was changed; expected a sound image (check --repair makes one), or --even-if-damaged",
        arguments.image.image.display()
    )))
}

/// Properties of the image that an error message mentions.
#[derive(Clone, Copy)]
struct Stored {
    compressed: bool,
    /// Whether the flash may be larger than the file.
    fills_up: bool,
}

/// The failure for an error. For a full volume it adds the requested and the free space.
fn failed(path: &Path, error: TreeError, (asked, free): (u64, u64), how: Stored) -> Failure {
    let full = matches!(&error, TreeError::Node { source, .. } if source.kind == ErrorKind::NoSpace);
    let path = path.display();
    if full {
        let stored = match (asked, how.compressed) {
            (0, _) => ";".to_owned(),
            (asked, true) => format!("; the files take {} (before compression), and", format_bytes(asked)),
            (asked, false) => format!("; the files take {}, and", format_bytes(asked)),
        };
        let or = if how.fills_up { ", or --size if the flash is larger than the file" } else { "" };
        let free = format_bytes(free);
        return Failure::Input(format!(
            "{path}: {error}{stored} {free} are free. Nothing was changed. Expected less data{or}"
        ));
    }
    Failure::Input(format!("{path}: {error}. Nothing was changed"))
}

/// Writes the changes to their destination, all or none.
pub fn bring(changed: &mut ChangedImage) -> Result<(), Failure> {
    if changed.is_replacement() {
        return replace(changed);
    }
    // Ctrl-C waits until they are written.
    let ((), unfinished) = Unfinished::begin(|| Ok(((), Box::new(|| ()) as Undo)))?;
    unfinished.finish(|| changed.keep()).map_err(input)
}

/// Replaces the file with the new bytes atomically.
fn replace(changed: &ChangedImage) -> Result<(), Failure> {
    let path = &changed.file;
    let mut file = NewFile::begin_again(path)?;
    let wrong =
        |doing: &str, error: std::io::Error| Failure::Input(format!("{}: cannot {doing}: {error}", path.display()));
    write_sparse(file.file(), changed.bytes()).map_err(|error| wrong("write", error))?;
    file.keep(true)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| wrong("make its new name durable", error))
}

fn edit_json(edit: &Edit) -> Value {
    let mut map = Map::new();
    map.insert("action".to_owned(), edit.action.into());
    path_json(&edit.path, &mut map);
    map.insert("detail".to_owned(), edit.detail.clone().into());
    Value::Object(map)
}

/// Removes files or directories.
pub fn rm(arguments: &RmArguments) -> Result<(), Failure> {
    change(&arguments.change, |editor| {
        arguments.paths.iter().try_for_each(|path| editor.remove(bytes(path), arguments.recursive, arguments.force))
    })
}

/// Renames or moves files and directories.
pub fn mv(arguments: &MvArguments) -> Result<(), Failure> {
    let Some((to, from)) = arguments.paths.split_last() else { return Ok(()) };
    change(&arguments.change, |editor| {
        if from.len() > 1 && !editor.is_directory(bytes(to)) {
            let what = "this is not a directory; several files can only be moved into a directory".to_owned();
            return Err(TreeError::Target { path: show(bytes(to)), what });
        }
        from.iter().try_for_each(|from| editor.rename(bytes(from), bytes(to), arguments.no_replace))
    })
}

/// Makes directories.
pub fn mkdir(arguments: &MkdirArguments) -> Result<(), Failure> {
    change(&arguments.change, |editor| {
        let mut paths = arguments.paths.iter();
        paths.try_for_each(|path| editor.make_directory(bytes(path), arguments.mode, arguments.parents))
    })
}

/// Makes a link.
pub fn ln(arguments: &LnArguments) -> Result<(), Failure> {
    let (target, path) = (bytes(&arguments.target), bytes(&arguments.path));
    change(&arguments.change, |editor| match arguments.symbolic {
        true => editor.symlink(target, path, arguments.force),
        false => editor.link(target, path, arguments.force),
    })
}

/// Changes permissions.
pub fn chmod(arguments: &ChmodArguments) -> Result<(), Failure> {
    let mode = ModeChange::parse(&arguments.mode).map_err(Failure::Input)?;
    change(&arguments.change, |editor| {
        arguments.paths.iter().try_for_each(|path| editor.change_mode(bytes(path), &mode, arguments.recursive))
    })
}

/// Changes owners.
pub fn chown(arguments: &ChownArguments) -> Result<(), Failure> {
    change(&arguments.change, |editor| {
        let owner = owner(editor.fs(), &arguments.owner)
            .map_err(|what| TreeError::Target { path: arguments.owner.clone(), what })?;
        arguments.paths.iter().try_for_each(|path| editor.change_owner(bytes(path), owner, arguments.recursive))
    })
}

/// Sets or removes an extended attribute.
pub fn setfattr(arguments: &SetfattrArguments) -> Result<(), Failure> {
    let value = attribute_value(arguments.value.as_ref().map_or(&[][..], bytes)).map_err(Failure::Input)?;
    change(&arguments.change, |editor| {
        arguments.paths.iter().map(bytes).try_for_each(|path| match (&arguments.name, &arguments.remove) {
            (Some(name), _) => editor.change_xattr(path, bytes(name), Some(&value)),
            (None, Some(name)) => editor.change_xattr(path, bytes(name), None),
            (None, None) => Ok(()),
        })
    })
}

/// An attribute value in the form of setfattr(1): plain text, or 0x and hexadecimal digits.
fn attribute_value(text: &[u8]) -> Result<Vec<u8>, String> {
    let Some(digits) = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) else { return Ok(text.to_vec()) };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    let wrong =
        || format!("-v {}: expected an even number of hexadecimal digits after 0x", String::from_utf8_lossy(text));
    pairs.collect::<Option<Vec<u8>>>().ok_or_else(wrong)
}

/// Parses `USER:GROUP` and looks up the numbers of names.
fn owner(fs: &dyn FileSystem, text: &str) -> Result<OwnerChange, String> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let entry = if user.is_empty() { None } else { Some(find(fs, "etc/passwd", user)?) };
    let gid = match group {
        None => None,
        // As in chown(1), a user with a colon and no group means the user's own group.
        Some("") => match &entry {
            Some((_, Some(gid))) => Some(*gid),
            _ => return Err(format!("the group of \"{user}\" is not known; expected USER:GROUP")),
        },
        Some(group) => Some(find(fs, "etc/group", group)?.0),
    };
    Ok(OwnerChange { uid: entry.map(|(uid, _)| uid), gid })
}

/// The number of a name and, for users, of the group, from the image's own file, or this machine's
/// if the image has none (passwd(5), group(5)).
fn find(fs: &dyn FileSystem, file: &str, name: &str) -> Result<(u32, Option<u32>), String> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        // chown(2) reads the largest 32-bit number as "do not change", so that it cannot be an
        // owner.
        let number = name.parse().ok().filter(|number| *number != u32::MAX);
        let wrong = || format!("\"{name}\" is too large for an owner; expected at most {}", u32::MAX - 1);
        return Ok((number.ok_or_else(wrong)?, None));
    }
    let content = match read_file(fs, file.as_bytes()) {
        Ok(content) => content,
        Err(_) => std::fs::read(Path::new("/").join(file)).unwrap_or_default(),
    };
    for line in String::from_utf8_lossy(&content).lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [found, _, number, rest @ ..] = fields.as_slice()
            && *found == name
            && let Ok(number) = number.parse()
        {
            return Ok((number, rest.first().and_then(|gid| gid.parse().ok())));
        }
    }
    Err(format!("\"{name}\" is not in /{file}; expected a name from there, or a number"))
}
