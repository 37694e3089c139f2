//! `nandkit cat`

use nandkit_stack::image::{DeletedContent, FileVersion, OldContent, OpenImage, formats_that_keep};
use nandkit_tree::show;
use nandkit_units::ReadInto;
use nandkit_vfs::path::{Follow, Next, Step, resolve, walk};
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, FsError, InodeNumber};
use serde_json::{Value, json};

use super::{absent, deleted, finding_line, open, tell, time, verdict, witnessed};
use crate::args::CatArguments;
use crate::failure::Failure;
use crate::output;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;
/// Bytes of a separate read when a chunk cannot be read as a whole.
const UNIT: usize = 4096;
/// Largest number of versions that a message lists.
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
        let what = attributes.kind.name();
        return Err(Failure::Input(format!("{place}: this is a {what}; expected a file")));
    }
    let mut problems = content(fs, inode, attributes.size, &place)?;
    // Damage seen while reading, of this file or of an unknown one.
    let concerns = |found: Option<InodeNumber>| found.is_none_or(|found| found == inode);
    for (owner, finding) in witnessed(&image).iter().filter(|(owner, _)| concerns(*owner)) {
        let whose = if owner.is_some() { "" } else { "possibly in this file: " };
        problems.push(format!("{place}: {whose}{}", finding_line(finding)));
    }
    tell(&problems);
    verdict(&arguments.image, problems.len(), ("the file is damaged", "problems in the file"))
}

fn place(arguments: &CatArguments) -> String {
    format!("{}: {}", arguments.image.image.display(), show(arguments.path.trim_start_matches('/').as_bytes()))
}

/// Writes the readable part of a file, with zeroes for the rest, and returns what was wrong with
/// the rest.
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

/// The message for a missing path. For a deleted file it says how to get the old content; if names
/// are lost, it says that the path may be among them.
fn missing(arguments: &CatArguments, image: &OpenImage, error: &FsError) -> Failure {
    let place = place(arguments);
    let was = if error.kind == ErrorKind::NotFound { deleted_inode(arguments, image) } else { None };
    if let Some(was) = was {
        let rest = match was.content {
            Some(DeletedContent { readable: 0, size: 1.., .. }) => "and its blocks are used by other files now",
            _ => "and some of its content is still on the flash; expected --versions or --version N",
        };
        return Failure::Input(format!("{place}: {} (inode {}), {rest}", was.fate(image), was.inode.0));
    }
    let detail = format!("{place}: {error}; `nandkit ls` lists the files");
    absent(&arguments.image, image, Failure::Input(detail))
}

/// The inode that had a path last and no longer has it.
struct FormerInode {
    inode: InodeNumber,
    /// Whether it has another name now.
    lives: bool,
    /// How much of its content is left, if known without reading it.
    content: Option<DeletedContent>,
}

impl FormerInode {
    /// What happened to the file, in words.
    fn fate(&self, image: &OpenImage) -> String {
        if !self.lives {
            return "the file was deleted".to_owned();
        }
        match path_of(image.fs(), self.inode) {
            Some(path) => format!("the file has another name now, {}", show(&path)),
            None => "the file has another name now".to_owned(),
        }
    }
}

/// The first path of an inode in listing order. Cost: up to a walk over all names.
fn path_of(fs: &dyn FileSystem, inode: InodeNumber) -> Option<Vec<u8>> {
    let mut found = None;
    let walked = walk(fs, fs.root(), &mut |step| {
        Ok(match step {
            Step::Entry { path, attributes } if attributes.inode == inode => {
                found = Some(path.to_vec());
                Next::Stop
            }
            _ => Next::Enter,
        })
    });
    walked.ok().and(found)
}

/// The inode that had this path last and no longer has it.
fn deleted_inode(arguments: &CatArguments, image: &OpenImage) -> Option<FormerInode> {
    let names = image.deleted()?.ok()?;
    let path: Vec<&str> = arguments.path.split('/').filter(|name| !name.is_empty()).collect();
    let path = path.join("/").into_bytes();
    let of_path = names.into_iter().filter(|name| deleted::place(name) == path);
    let last =
        of_path.max_by_key(|name| (name.deleted, name.content.map_or(0, |content| content.readable), name.inode))?;
    Some(FormerInode { inode: last.inode, lives: last.lives, content: last.content })
}

/// The inode at the path, or the last one that was there.
fn any_inode(arguments: &CatArguments, image: &OpenImage) -> Result<(InodeNumber, Option<FormerInode>), Failure> {
    match resolve(image.fs(), arguments.path.as_bytes(), Follow::Last) {
        Ok(inode) => Ok((inode, None)),
        Err(error) => match deleted_inode(arguments, image) {
            Some(former) => Ok((former.inode, Some(former))),
            None => Err(missing(arguments, image, &error)),
        },
    }
}

fn keeps_none(arguments: &CatArguments, image: &OpenImage) -> Failure {
    let path = arguments.image.image.display();
    let expected = formats_that_keep(|keeps| keeps.history);
    Failure::Input(format!(
        "{path}: nandkit cannot find old versions in {}; expected an image of {expected}",
        image.format
    ))
}

fn versions(arguments: &CatArguments, image: &OpenImage) -> Result<(), Failure> {
    let (inode, former) = any_inode(arguments, image)?;
    let is_deleted = former.as_ref().is_some_and(|former| !former.lives);
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
    let line = |version: &FileVersion| {
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
    if let Some(former) = former {
        output::message(&format!("{}: {}", place(arguments), former.fate(image)));
    }
    Ok(())
}

/// The numbers for a message, shortened to [`LISTED_MAX`].
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

/// The last version of the same write as `number`: mkfs writes a file node by node, and each node
/// already holds the final size.
fn last_of_write(versions: &[FileVersion], number: u64) -> u64 {
    let from = versions.iter().position(|version| version.number == number).unwrap_or(versions.len());
    let follows = |pair: &[FileVersion]| match pair {
        [before, after] => {
            after.number == before.number + 1
                && after.offset == before.offset + before.length
                && (after.modified, after.size) == (before.modified, before.size)
        }
        _ => false,
    };
    let more = versions.get(from..).unwrap_or_default().windows(2).take_while(|pair| follows(pair)).count();
    versions.get(from + more).map_or(number, |version| version.number)
}

/// Writes an older version of a file to standard output.
fn old(arguments: &CatArguments, image: &OpenImage, number: u64) -> Result<(), Failure> {
    let content = old_content(arguments, image, number)?;
    output::bytes(&content.bytes)?;
    let lost = lost(arguments, &content);
    tell(&lost);
    verdict(&arguments.image, lost.len(), ("a part of that version is lost", "parts of that version are lost"))
}

/// The lost parts of a version, one line each.
pub fn lost(arguments: &CatArguments, content: &OldContent) -> Vec<String> {
    let place = place(arguments);
    let line = |(start, end): &(u64, u64)| format!("{place}: bytes {start} to {end} of that version are lost");
    content.lost.iter().map(line).collect()
}

/// The content of a file at one of its versions; prints a message that names the version.
pub fn old_content(arguments: &CatArguments, image: &OpenImage, number: u64) -> Result<OldContent, Failure> {
    let place = place(arguments);
    let (inode, former) = any_inode(arguments, image)?;
    let versions = image.versions(inode).ok_or_else(|| keeps_none(arguments, image))?;
    let versions = versions.map_err(|error| Failure::Input(format!("{place}: {error}")))?;
    let numbers: Vec<u64> = versions.iter().map(|version| version.number).collect();
    if !numbers.is_empty() && !numbers.contains(&number) {
        let expected = listed(&numbers);
        return Err(Failure::Input(format!(
            "{place}: version {number} does not exist; expected {expected}; --versions shows their details"
        )));
    }
    let content_at = |number: u64| {
        let content = image.content_at(inode, number).ok_or_else(|| keeps_none(arguments, image))?;
        content.map_err(|error| Failure::Input(format!("{place}: {error}; --versions lists the versions")))
    };
    let mut content = content_at(number)?;
    let last = last_of_write(&versions, number);
    if !content.lost.is_empty() && last > number {
        // Content that this version lacks is not lost if later nodes of the same write hold it.
        let whole = content_at(last)?;
        if whole.lost.is_empty() {
            output::message(&format!(
                "{place}: version {number} is part of a single write up to version {last}, whose content is written"
            ));
            content = whole;
        }
    }
    let latest = numbers.iter().max() == Some(&content.number);
    let what = match (former.is_some_and(|former| !former.lives), latest) {
        (true, _) => "a deleted file's",
        (false, true) => "the present",
        (false, false) => "not the present, but an earlier",
    };
    output::message(&format!(
        "{place}: this is {what} content, version {} of {}",
        content.number,
        time::utc(content.modified)
    ));
    if let Some(doubt) = content.doubt {
        output::message(&format!("{place}: not sure: {doubt}"));
    }
    Ok(content)
}
