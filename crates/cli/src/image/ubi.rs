//! `nandkit ubi`: volumes of a UBI device in an image.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use nandkit_stack::format::ubi::ubinize::{FlashShape, ubinize as build_image};
use nandkit_stack::image::{ChangingDevice, VolumeChange, VolumeToMake, write_sparse};
use nandkit_units::format_bytes;
use nandkit_vfs::{ErrorKind, FsError};
use serde_json::json;

use super::change::{bring, now};
use super::new_file::NewFile;
use super::{get, info, input, is_in_danger, ls, tell_damage, tell_notes};
use crate::args::{
    GetArguments, ImageArguments, InfoArguments, LsArguments, UbiAction, UbiArguments, UbiChangeArguments,
    UbiUpdateArguments, UbinizeArguments,
};
use crate::failure::Failure;
use crate::output;

/// The value of the option `volume` that shows each volume as a file.
const ALL: &str = "all";

/// Shows or changes the volumes of a UBI device.
pub fn ubi(arguments: UbiArguments) -> Result<(), Failure> {
    match arguments.action {
        UbiAction::Info(show) => {
            info(&InfoArguments { image: all(show.image), segments: None, extents: None, width: None, json: show.json })
        }
        UbiAction::Ls(show) => ls(&LsArguments {
            image: all(show.image),
            path: "/".to_owned(),
            long: true,
            recursive: false,
            xattrs: false,
            deleted: false,
            json: show.json,
        }),
        UbiAction::Extract(extract) => get(GetArguments {
            image: all(extract.image),
            path: format!("/{}", extract.name),
            target: extract.target,
            recursive: false,
            version: None,
            force: extract.force,
        }),
        UbiAction::Mkvol(make) => {
            let volume = VolumeToMake {
                name: make.name,
                bytes: make.bytes,
                number: make.number,
                is_static: make.is_static,
                alignment: make.alignment,
                skips_check: make.skip_check,
            };
            change(&make.change, vec![VolumeChange::Make(volume)])
        }
        UbiAction::Rmvol(remove) => {
            change(&remove.change, remove.names.iter().map(|name| VolumeChange::Remove(name)).collect())
        }
        UbiAction::Rsvol(resize) => change(&resize.change, vec![VolumeChange::Resize(&resize.name, resize.bytes)]),
        UbiAction::Rename(rename) => {
            let (pairs, rest) = rename.names.as_chunks::<2>();
            if let [name] = rest {
                return Err(Failure::Input(format!("'{name}' has no new name; expected pairs of OLD and NEW")));
            }
            let pairs = pairs.iter().map(|[old, new]| (old.as_str(), new.as_str())).collect();
            change(&rename.change, vec![VolumeChange::Rename(pairs)])
        }
        UbiAction::Update(update) => self::update(&update),
        UbiAction::Ubinize(ubinize) => self::ubinize(&ubinize),
    }
}

/// The image as a directory of volumes.
fn all(image: ImageArguments) -> ImageArguments {
    ImageArguments { volume: Some(ALL.to_owned()), ..image }
}

fn ubinize(arguments: &UbinizeArguments) -> Result<(), Failure> {
    let shape = FlashShape {
        peb_size: arguments.peb_size,
        min_io_size: arguments.min_io_size,
        sub_page_size: arguments.sub_page_size,
        vid_offset: arguments.vid_offset,
        erase_counter: arguments.erase_counter,
        image_sequence: arguments.image_sequence,
    };
    let path = arguments.image.as_path();
    if path.exists() && !arguments.force {
        return Err(Failure::Input(format!("{}: exists; expected another name, or --force", path.display())));
    }
    let image = build_image(&arguments.description, &shape).map_err(input)?;
    let mut file = NewFile::begin(path)?;
    let written = write_sparse(file.file(), &image);
    written.map_err(|error| Failure::Input(format!("{}: cannot write: {error}", path.display())))?;
    file.keep(arguments.force)
}

fn update(arguments: &UbiUpdateArguments) -> Result<(), Failure> {
    let source = arguments.source.as_path();
    let failed = |error: io::Error| Failure::Input(format!("{}: cannot be read: {error}", source.display()));
    if source == Path::new("-") {
        // The length stands in the headers of the first block already.
        let mut content = Vec::new();
        io::stdin().lock().read_to_end(&mut content).map_err(failed)?;
        let length = content.len() as u64;
        return change(&arguments.change, vec![VolumeChange::Update(&arguments.name, &mut content.as_slice(), length)]);
    }
    let mut file = File::open(source).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Failure::Input(format!("{}: this is no file; expected one, or -", source.display())));
    }
    change(&arguments.change, vec![VolumeChange::Update(&arguments.name, &mut file, metadata.len())])
}

/// Makes changes, all or none, and reports them.
fn change(arguments: &UbiChangeArguments, changes: Vec<VolumeChange<'_>>) -> Result<(), Failure> {
    let path = &arguments.image.image;
    let options = arguments.image.options();
    let mut device = ChangingDevice::open(path, &options, !arguments.dry_run, now()?).map_err(input)?;
    tell_notes(path, &device.notes);
    let damage = device.damage();
    tell_damage(&damage);
    if !arguments.even_if_damaged && is_in_danger(&damage) {
        return Err(Failure::Check(format!(
            "{}: the device is damaged, and nothing was changed; expected a sound device, or --even-if-damaged",
            path.display()
        )));
    }
    let available = device.available();
    let failed = |error: FsError| {
        let more = match error.kind {
            ErrorKind::NoSpace => {
                format!(
                    " New volumes can have {}; --size tells that the flash is larger than the file",
                    format_bytes(available)
                )
            }
            _ => String::new(),
        };
        Failure::Input(format!("{}: {error}. Nothing was changed.{more}", path.display()))
    };
    let done = changes.into_iter().map(|change| device.change(change)).collect::<Result<Vec<_>, _>>();
    let done = done.map_err(failed)?;
    let left = device.available();
    if !arguments.dry_run {
        let mut changed = device.finish().map_err(failed)?;
        bring(&mut changed)?;
    }
    if arguments.json {
        return output::json(&json!({
            "dry_run": arguments.dry_run,
            "changes": done,
            "bytes_available": left,
        }));
    }
    let would = if arguments.dry_run { "dry run: " } else { "" };
    let lines: String = done.iter().map(|line| format!("{would}{line}\n")).collect();
    output::text(&format!("{lines}new volumes can have {}\n", format_bytes(left)))
}
