//! `nandkit get`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nandkit_vfs::path::{FILE_BYTES_MAX, Follow, read_inode, resolve};
use nandkit_vfs::{Attributes, FileKind};

use super::new_file::NewFile;
use super::{extract, finding_line, ls, open};
use crate::args::{ExtractArguments, GetArguments};
use crate::failure::Failure;
use crate::output;

/// Gets a file or a directory out of an image.
pub fn get(arguments: GetArguments) -> Result<(), Failure> {
    if arguments.recursive {
        let GetArguments { image, path, target, force, .. } = arguments;
        let directory = target.unwrap_or_else(|| PathBuf::from(last_name(&path)));
        return extract(&ExtractArguments {
            image,
            directory: Some(directory),
            to_tar: None,
            path,
            merge: force,
            no_owners: false,
            no_xattrs: false,
            inward_links_only: false,
            json: false,
        });
    }
    let image = open(&arguments.image)?;
    let place = format!("{}: {}", arguments.image.image.display(), arguments.path);
    let unusable = |error: nandkit_vfs::FsError| Failure::Input(format!("{place}: {error}"));
    let inode = resolve(image.fs(), arguments.path.as_bytes(), Follow::Last).map_err(unusable)?;
    let attributes = image.fs().stat(inode).map_err(unusable)?;
    if attributes.kind != FileKind::Regular {
        let what = ls::kind_name(attributes.kind);
        return Err(Failure::Input(format!("{place}: this is a {what}; expected a file, or -r with a directory")));
    }
    let damaged = |detail: String| {
        Failure::Check(format!(
            "{place}: the file is damaged, and nothing was written: {detail}; `nandkit cat` delivers the rest"
        ))
    };
    let content = read_inode(image.fs(), inode, FILE_BYTES_MAX).map_err(|error| damaged(error.to_string()))?;
    let damage = image.damage();
    if let Some((_, finding)) = damage.iter().find(|(owner, finding)| *owner == Some(inode) && !finding.harmless) {
        return Err(damaged(finding_line(finding)));
    }
    let target = arguments.target.as_deref().unwrap_or(Path::new("."));
    if target == Path::new("-") {
        return output::bytes(&content);
    }
    let target = if target.is_dir() { target.join(last_name(&arguments.path)) } else { target.to_path_buf() };
    NewFile::check(&target, arguments.force, "--force")?;
    let mut file = NewFile::begin(&target)?;
    let failed = |error| Failure::Input(format!("{}: cannot write: {error}", target.display()));
    file.file().write_all(&content).map_err(failed)?;
    set_attributes(file.file(), &attributes).map_err(failed)?;
    file.keep(arguments.force)
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').find(|name| !name.is_empty()).unwrap_or("root")
}

/// Mode and time. The owner is the user, so that set-user-id and set-group-id do not come along.
fn set_attributes(file: &std::fs::File, attributes: &Attributes) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(u32::from(attributes.mode & 0o777)))?;
    }
    let (seconds, rest) =
        (attributes.modified.0.div_euclid(1_000_000_000), attributes.modified.0.rem_euclid(1_000_000_000));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base: Option<SystemTime> =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    match base.and_then(|base| base.checked_add(Duration::from_nanos(rest.unsigned_abs()))) {
        Some(time) => file.set_modified(time),
        None => Ok(()),
    }
}
