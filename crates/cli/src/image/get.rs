//! `nandkit get`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nandkit_stack::image::OpenImage;
use nandkit_tree::extract::write_sparse;
use nandkit_tree::large::{self, Holes};
use nandkit_units::ReadInto;
use nandkit_vfs::path::{Follow, resolve};
use nandkit_vfs::source::to_read;
use nandkit_vfs::{Attributes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Timestamp};

use super::new_file::NewFile;
use super::{absent, cat, extract, finding_line, open, shown, witnessed};
use crate::args::{AndroidOptions, CatArguments, ExtractArguments, GetArguments};
use crate::failure::Failure;
use crate::output;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// Receives a chunk and its offset in the file.
type Deliver<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), Failure>;

/// Gets a file or a directory out of an image.
pub fn get(arguments: GetArguments) -> Result<(), Failure> {
    if arguments.recursive {
        let GetArguments { image, path, target, force, .. } = arguments;
        let directory = target.unwrap_or_else(|| PathBuf::from(last_name(&path)));
        return extract(&ExtractArguments {
            image,
            directory: Some(directory),
            to_tar: None,
            sparse: false,
            path,
            merge: force,
            no_owners: false,
            no_xattrs: false,
            android: AndroidOptions::default(),
            inward_links_only: false,
            json: false,
        });
    }
    let image = open(&arguments.image)?;
    if let Some(number) = arguments.version {
        return old(arguments, &image, number);
    }
    let place = format!("{}: {}", arguments.image.image.display(), shown(arguments.path.as_bytes()));
    let unusable = |error: FsError| Failure::Input(format!("{place}: {error}"));
    let inode = resolve(image.fs(), arguments.path.as_bytes(), Follow::Last);
    let inode = inode.map_err(|error| absent(&arguments.image, &image, unusable(error)))?;
    let attributes = image.fs().stat(inode).map_err(unusable)?;
    if attributes.kind != FileKind::Regular {
        let what = attributes.kind.name();
        return Err(Failure::Input(format!("{place}: this is a {what}; expected a file, or -r with a directory")));
    }
    let damaged = |detail: String| {
        Failure::Check(format!(
            "{place}: the file is damaged, and nothing was written: {detail}; `nandkit cat` writes the readable part"
        ))
    };
    let target = arguments.target.as_deref().unwrap_or(Path::new("."));
    let holes = if target == Path::new("-") { Holes::Written } else { Holes::Kept };
    let data = large::taken_bytes(image.fs(), inode, attributes.size, large::LARGE);
    if let Some(reason) = large::refusal(attributes.size, data, large::LARGE, holes) {
        return Err(unusable(FsError::new(ErrorKind::FileTooBig, reason)));
    }
    let read = |deliver: Deliver<'_>| {
        chunks(image.fs(), inode, attributes.size, &damaged, deliver)?;
        let owned = witnessed(&image).into_iter().find(|(owner, _)| *owner == Some(inode));
        owned.map_or(Ok(()), |(_, finding)| Err(damaged(finding_line(&finding))))
    };
    if holes == Holes::Written {
        // The whole file is read first, so that nothing of a damaged file is written.
        read(&mut |_, _| Ok(()))?;
        let mut delivered = 0;
        read(&mut |offset, chunk| {
            zeroes(offset - delivered)?;
            delivered = offset + chunk.len() as u64;
            output::bytes(chunk)
        })?;
        return zeroes(attributes.size.saturating_sub(delivered));
    }
    let target = if target.is_dir() { target.join(last_name(&arguments.path)) } else { target.to_path_buf() };
    NewFile::check(&target, arguments.force, Some("--force"))?;
    let mut file = NewFile::begin(&target)?;
    let failed = |error| Failure::Input(format!("{}: cannot write: {error}", target.display()));
    let (mut written, out) = (0, file.file());
    read(&mut |offset, chunk| write_sparse(out, offset, chunk, &mut written).map_err(failed))?;
    out.set_len(attributes.size).map_err(failed)?;
    set_attributes(out, &attributes).map_err(failed)?;
    file.keep(arguments.force)
}

/// Gets an older version of a file, complete or not at all.
fn old(arguments: GetArguments, image: &OpenImage, number: u64) -> Result<(), Failure> {
    let GetArguments { image: of, path, target, force, .. } = arguments;
    let asked = CatArguments { image: of, path, version: Some(number), versions: false, json: false };
    let content = cat::old_content(&asked, image, number)?;
    if let Some(lost) = cat::lost(&asked, &content).first() {
        return Err(Failure::Check(format!("{lost}, and nothing was written; `nandkit cat` writes the readable part")));
    }
    let target = target.unwrap_or_else(|| PathBuf::from("."));
    if target == Path::new("-") {
        return output::bytes(&content.bytes);
    }
    let target = if target.is_dir() { target.join(last_name(&asked.path)) } else { target };
    NewFile::check(&target, force, Some("--force"))?;
    let mut file = NewFile::begin(&target)?;
    let out = file.file();
    let written = out.write_all(&content.bytes).and_then(|()| set_time(out, content.modified));
    written.map_err(|error| Failure::Input(format!("{}: cannot write: {error}", target.display())))?;
    file.keep(force)
}

/// Reads a file of `size` bytes chunk by chunk, without its holes. Errors: those of `deliver`;
/// `damaged` if a part cannot be read.
fn chunks(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    size: u64,
    damaged: &dyn Fn(String) -> Failure,
    deliver: Deliver<'_>,
) -> Result<(), Failure> {
    let mut buffer = vec![0; CHUNK];
    let mut offset = 0;
    while offset < size {
        let data = to_read(fs.data_after(inode, offset), offset..size);
        if data.is_empty() {
            break;
        }
        offset = data.start;
        let wanted = (data.end - offset).min(CHUNK as u64) as usize;
        let chunk = buffer.get_mut(..wanted).unwrap_or_default();
        let count = fs.read(inode, offset, ReadInto::Bytes(chunk)).map_err(|error| damaged(error.to_string()))?;
        if count < wanted {
            return Err(damaged(format!("the content ends at {}, before the file's size", offset + count as u64)));
        }
        deliver(offset, chunk)?;
        offset += wanted as u64;
    }
    Ok(())
}

/// Writes zeroes for a hole.
fn zeroes(mut length: u64) -> Result<(), Failure> {
    let zeroes = vec![0; length.min(CHUNK as u64) as usize];
    while length > 0 {
        let part = zeroes.get(..length.min(CHUNK as u64) as usize).unwrap_or_default();
        output::bytes(part)?;
        length -= part.len() as u64;
    }
    Ok(())
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').find(|name| !name.is_empty()).unwrap_or("root")
}

/// Sets mode and time. The file belongs to the user, so that set-user-id and set-group-id are
/// dropped.
fn set_attributes(file: &std::fs::File, attributes: &Attributes) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(u32::from(attributes.mode & 0o777)))?;
    }
    set_time(file, attributes.modified)
}

fn set_time(file: &std::fs::File, time: Timestamp) -> std::io::Result<()> {
    let (seconds, rest) = (time.0.div_euclid(1_000_000_000), time.0.rem_euclid(1_000_000_000));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base: Option<SystemTime> =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    match base.and_then(|base| base.checked_add(Duration::from_nanos(rest.unsigned_abs()))) {
        Some(time) => file.set_modified(time),
        None => Ok(()),
    }
}
