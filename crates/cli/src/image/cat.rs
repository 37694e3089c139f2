//! `nandkit cat`

use nandkit_stack::image::OpenImage;
use nandkit_tree::show;
use nandkit_units::ReadInto;
use nandkit_vfs::path::{Follow, resolve};
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, FsError, InodeNumber};
use serde_json::{Value, json};

use super::{deleted, finding_line, open, tell, time, verdict};
use crate::args::CatArguments;
use crate::failure::Failure;
use crate::output;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;
/// Bytes that are read by themselves where a chunk cannot be read.
const UNIT: usize = 4096;
/// Versions that a message lists.
const LISTED_MAX: usize = 20;

/// Writes a file of an image to standard output.
pub fn cat(arguments: &CatArguments) -> Result<(), Failure> {
    let image = open(&arguments.image)?;
    if arguments.versions {
        return versions(arguments, &image);
    }
    if let Some(number) = arguments.version {
        return old(arguments, &image, number);
    }
    let (fs, place) = (image.fs(), place(arguments));
    let inode =
        resolve(fs, arguments.path.as_bytes(), Follow::Last).map_err(|error| missing(arguments, &image, &error))?;
    let attributes = fs.stat(inode).map_err(|error| Failure::Check(format!("{place}: {error}")))?;
    if attributes.kind != FileKind::Regular {
        let what = super::ls::kind_name(attributes.kind);
        return Err(Failure::Input(format!("{place}: this is a {what}; expected a file")));
    }
    let mut problems = content(fs, inode, attributes.size, &place)?;
    // What was found on the way, of this file or of nobody knows which.
    let concerns = |found: Option<InodeNumber>| found.is_none_or(|found| found == inode);
    for (owner, finding) in image.damage().iter().filter(|(owner, finding)| concerns(*owner) && !finding.harmless) {
        let whose = if owner.is_some() { "" } else { "perhaps of this file: " };
        problems.push(format!("{place}: {whose}{}", finding_line(finding)));
    }
    tell(&problems);
    verdict(&arguments.image, problems.len(), ("the file is damaged", "things are wrong with the file"))
}

fn place(arguments: &CatArguments) -> String {
    format!("{}: {}", arguments.image.image.display(), show(arguments.path.trim_start_matches('/').as_bytes()))
}

/// Delivers a content as far as it can be read; returns what was wrong with the rest, which is delivered as zeroes.
fn content(fs: &dyn FileSystem, inode: InodeNumber, size: u64, place: &str) -> Result<Vec<String>, Failure> {
    let mut problems: Vec<String> = Vec::new();
    let mut buffer = vec![0; CHUNK];
    let mut offset = 0;
    while offset < size {
        let wanted = (size - offset).min(CHUNK as u64) as usize;
        let chunk = buffer.get_mut(..wanted).unwrap_or_default();
        let whole = fs.read(inode, offset, ReadInto::Bytes(chunk));
        if let Ok(count) = whole
            && count < wanted
        {
            let end = offset + count as u64;
            problems
                .push(format!("{place}: bytes {end} to {size} are missing: the content ends before the file's size"));
            output::bytes(chunk.get(..count).unwrap_or_default())?;
            break;
        }
        if whole.is_err() {
            for (number, unit) in chunk.chunks_mut(UNIT).enumerate() {
                let at = offset + (number * UNIT) as u64;
                let length = unit.len();
                let count = match fs.read(inode, at, ReadInto::Bytes(unit)) {
                    Ok(count) if count >= length => continue,
                    Ok(count) => {
                        problems.push(format!(
                            "{place}: byte {}: the content ends before the file's size",
                            at + count as u64
                        ));
                        count
                    }
                    Err(error) => {
                        problems.push(format!("{place}: bytes {at} to {}: {error}", at + length as u64));
                        0
                    }
                };
                unit.get_mut(count..).unwrap_or_default().fill(0);
            }
        }
        output::bytes(chunk)?;
        offset += wanted as u64;
    }
    Ok(problems)
}

/// The message for a path that is not there: where it was deleted, how it can be had.
fn missing(arguments: &CatArguments, image: &OpenImage, error: &FsError) -> Failure {
    let place = place(arguments);
    let was = if error.kind == ErrorKind::NotFound { deleted_inode(arguments, image) } else { None };
    match was {
        Some(inode) => Failure::Input(format!(
            "{place}: the file was deleted (inode {}), and something of it is still there; expected --versions or --version N",
            inode.0
        )),
        None => Failure::Input(format!("{place}: {error}; `nandkit ls` lists what is there")),
    }
}

/// The inode that last had this path and has lost it.
fn deleted_inode(arguments: &CatArguments, image: &OpenImage) -> Option<InodeNumber> {
    let names = image.deleted()?.ok()?;
    let path: Vec<&str> = arguments.path.split('/').filter(|name| !name.is_empty()).collect();
    let path = path.join("/").into_bytes();
    let of_path = names.into_iter().filter(|name| deleted::place(name) == path);
    of_path.max_by_key(|name| (name.deleted, name.inode)).map(|name| name.inode)
}

/// The inode at the path now, or that was there last.
fn any_inode(arguments: &CatArguments, image: &OpenImage) -> Result<(InodeNumber, bool), Failure> {
    match resolve(image.fs(), arguments.path.as_bytes(), Follow::Last) {
        Ok(inode) => Ok((inode, false)),
        Err(error) => match deleted_inode(arguments, image) {
            Some(inode) => Ok((inode, true)),
            None => Err(missing(arguments, image, &error)),
        },
    }
}

fn keeps_none(arguments: &CatArguments, image: &OpenImage) -> Failure {
    let path = arguments.image.image.display();
    Failure::Input(format!("{path}: {} keeps no old contents; expected an image of JFFS2", image.format))
}

fn versions(arguments: &CatArguments, image: &OpenImage) -> Result<(), Failure> {
    let (inode, is_deleted) = any_inode(arguments, image)?;
    let versions = image.versions(inode).ok_or_else(|| keeps_none(arguments, image))?;
    let versions = versions.map_err(|error| Failure::Input(format!("{}: {error}", place(arguments))))?;
    if arguments.json {
        let list: Vec<Value> = versions
            .iter()
            .map(|version| {
                json!({
                    "version": version.number,
                    "offset": version.at,
                    "modified_ns": version.modified.0,
                    "size": version.size,
                    "written_at": version.offset,
                    "written_bytes": version.length,
                    "intact": version.intact,
                })
            })
            .collect();
        return output::json(&json!({"inode": inode.0, "deleted": is_deleted, "versions": list}));
    }
    let line = |version: &nandkit_stack::image::FileVersion| {
        let wrote = match version.length {
            0 => "attributes".to_owned(),
            length => format!("{length} bytes at {}", version.offset),
        };
        let damaged = if version.intact { "" } else { ", damaged" };
        format!(
            "{:>8}  {}  {} bytes, wrote {wrote}{damaged} (at {:#010x})\n",
            version.number,
            time::utc(version.modified),
            version.size,
            version.at
        )
    };
    output::text(&versions.iter().map(line).collect::<String>())?;
    if is_deleted {
        output::message(&format!("{}: the file was deleted", place(arguments)));
    }
    Ok(())
}

/// Numbers for a message: all of them where these are few.
fn listed(numbers: &[u64]) -> String {
    let shown: Vec<String> = numbers.iter().take(LISTED_MAX).map(u64::to_string).collect();
    match (shown.as_slice(), numbers.last()) {
        ([only], _) => only.clone(),
        (_, Some(last)) if numbers.len() > LISTED_MAX => {
            format!("one of {}, and {} more up to {last}", shown.join(", "), numbers.len() - LISTED_MAX)
        }
        _ => format!("one of {}", shown.join(", ")),
    }
}

/// Writes what a file held at one of its versions.
fn old(arguments: &CatArguments, image: &OpenImage, number: u64) -> Result<(), Failure> {
    let place = place(arguments);
    let (inode, is_deleted) = any_inode(arguments, image)?;
    let versions = image.versions(inode).ok_or_else(|| keeps_none(arguments, image))?;
    let versions: Vec<u64> = versions
        .map_err(|error| Failure::Input(format!("{place}: {error}")))?
        .iter()
        .map(|version| version.number)
        .collect();
    let latest = versions.iter().max() == Some(&number);
    if !versions.is_empty() && !versions.contains(&number) {
        let expected = listed(&versions);
        return Err(Failure::Input(format!(
            "{place}: --version {number} is not there; expected {expected}; --versions tells more of them"
        )));
    }
    let content = image.content_at(inode, number).ok_or_else(|| keeps_none(arguments, image))?;
    let content =
        content.map_err(|error| Failure::Input(format!("{place}: {error}; --versions lists what is there")))?;
    let what = match (is_deleted, latest) {
        (true, _) => "a deleted file's",
        (false, true) => "the present",
        (false, false) => "not the present, but an earlier",
    };
    output::message(&format!(
        "{place}: this is {what} content, version {} of {}",
        content.number,
        time::utc(content.modified)
    ));
    output::bytes(&content.bytes)?;
    let lost: Vec<String> = content
        .lost
        .iter()
        .map(|(start, end)| format!("{place}: bytes {start} to {end} of that version are lost"))
        .collect();
    tell(&lost);
    verdict(&arguments.image, lost.len(), ("a part of that version is lost", "parts of that version are lost"))
}
