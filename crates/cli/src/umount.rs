//! `nandkit umount`: the end of a mount, with the certainty that everything is in the image.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use nandkit_fuse::{LiveMount, Told};

use crate::args::UmountArguments;
use crate::failure::Failure;

/// How long the process of a mount may take for what is left to do after the unmounting.
const PATIENCE: Duration = Duration::from_secs(60);

/// Syncs, unmounts, and waits for the end of the process.
pub fn umount(arguments: &UmountArguments) -> Result<(), Failure> {
    arguments.points.iter().try_for_each(|point| end(point, arguments.lazy))
}

fn end(path: &Path, lazy: bool) -> Result<(), Failure> {
    let shown = path.display();
    let point = path.canonicalize().map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::NotConnected => "; its process has gone: nandkit doctor --clean takes the mount away",
            _ => "; expected a directory on which an image is mounted",
        };
        Failure::Input(format!("{shown}: {error}{hint}"))
    })?;
    let Some(mount) = LiveMount::at(&point) else {
        let expected = "no image is mounted there by nandkit; expected the directory that was given to nandkit mount (of one whose process was killed, nandkit doctor --clean takes away what is left)";
        return Err(Failure::Input(format!("{shown}: {expected}")));
    };
    let listener = mount.listen();
    // What cannot be made durable is told while there is somebody to tell: umount(8) hears nothing
    // of it.
    let synced = File::open(&point).and_then(|directory| directory.sync_all());
    if let Err(error) = synced.as_ref()
        && !lazy
    {
        let detail = format!(
            "the image could not be brought up to date: {error}; it is still mounted (--lazy unmounts it as it is)"
        );
        return Err(Failure::Check(format!("{shown}: {detail}")));
    }
    mount.unmount(lazy).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::ResourceBusy => {
                "it is in use: a program has a file or its working directory there; expected it to end first, or --lazy"
            }
            _ => "expected the user who mounted it, or root",
        };
        Failure::Check(format!("{shown}: {error}; {hint}"))
    })?;
    if lazy {
        let told = |error| Failure::Check(format!("{shown}: the image could not be brought up to date: {error}"));
        return synced.map_err(told);
    }
    let process = mount.process();
    match listener.map_or(Told::Nothing, |listener| listener.wait(PATIENCE)) {
        Told::Kept => Ok(()),
        Told::Trouble(trouble) => Err(Failure::Check(trouble)),
        Told::Nothing => Err(Failure::Check(format!(
            "{shown}: synced and unmounted; of its end process {process} told nothing: it was killed, or is in another container"
        ))),
        Told::Waiting => {
            Err(Failure::Check(format!("{shown}: unmounted, and its process {process} has not ended in a minute")))
        }
    }
}
