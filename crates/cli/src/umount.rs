//! `nandkit umount`: ends a mount, and confirms that all changes are in the image.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use nandkit_fuse::{LiveMount, Told};

use crate::args::UmountArguments;
use crate::failure::Failure;

/// How long the mount process may take to finish after the unmounting.
const PATIENCE: Duration = Duration::from_secs(60);

/// Syncs, unmounts, and waits for the mount process to end.
pub fn umount(arguments: &UmountArguments) -> Result<(), Failure> {
    arguments.points.iter().try_for_each(|point| end(point, arguments.lazy))
}

fn end(path: &Path, lazy: bool) -> Result<(), Failure> {
    let shown = path.display();
    let point = path.canonicalize().map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::NotConnected => "; its process no longer exists: nandkit doctor --clean removes the mount",
            _ => "; expected the mount point of an image",
        };
        Failure::Input(format!("{shown}: {error}{hint}"))
    })?;
    let Some(mount) = LiveMount::at(&point) else {
        let expected = "no image is mounted there by nandkit; expected the directory that was given to nandkit mount (nandkit doctor --clean removes mounts of killed processes)";
        return Err(Failure::Input(format!("{shown}: {expected}")));
    };
    let listener = mount.listen();
    // Sync first, to report an error while that is possible: umount(8) does not report errors of
    // the last sync.
    let synced = File::open(&point).and_then(|directory| directory.sync_all());
    if let Err(error) = synced.as_ref()
        && !lazy
    {
        let detail = format!("the image could not be synced: {error}; it is still mounted (--lazy unmounts it anyway)");
        return Err(Failure::Check(format!("{shown}: {detail}")));
    }
    mount.unmount(lazy).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::ResourceBusy => {
                "it is in use: a program has a file or its working directory there; end it first, or use --lazy"
            }
            _ => "expected the user who mounted it, or root",
        };
        Failure::Check(format!("{shown}: {error}; {hint}"))
    })?;
    if lazy {
        let told = |error| Failure::Check(format!("{shown}: the image could not be synced: {error}"));
        return synced.map_err(told);
    }
    let process = mount.process();
    match listener.map_or(Told::Nothing, |listener| listener.wait(PATIENCE)) {
        Told::Kept => Ok(()),
        Told::Trouble(trouble) => Err(Failure::Check(trouble)),
        Told::Nothing => Err(Failure::Check(format!(
            "{shown}: synced and unmounted, but its process {process} did not report its end: it was killed, or runs in another container"
        ))),
        Told::Waiting => {
            Err(Failure::Check(format!("{shown}: unmounted, but its process {process} did not end within a minute")))
        }
    }
}
