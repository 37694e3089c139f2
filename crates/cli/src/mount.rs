//! `nandkit mount`: mounts an image as a directory.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nandkit_fuse::{CommitLimit, Options, Owner, Session, Timing, Unmounter, Volume, check_device, check_mount_point};
use nandkit_stack::image::{ChangeOptions, ImageInPlace, OpenImage, OpenOptions, discard_unused_overlay};
use nandkit_vfs::check::Finding;
use nandkit_vfs::{Changes, FileSystem};

use crate::args::MountArguments;
use crate::failure::Failure;
use crate::{image as images, output, stop};

/// Printed by the background process once the mount is usable.
const READY: &str = "mounted";
/// Environment variable that marks the background process.
const IN_BACKGROUND: &str = "NANDKIT_IN_BACKGROUND";
/// When changes without a sync reach the image.
const COMMIT: CommitLimit = CommitLimit { bytes: 32 << 20, every: Duration::from_secs(5) };
/// Number of request threads. Reads run in parallel; a change locks the volume.
const THREADS: usize = 4;
/// Most bytes of the image file to keep in this process's memory.
const RESIDENT: u64 = 16 << 20;

/// The mounted image.
enum Mounted {
    Reading(Box<OpenImage>),
    InPlace(Box<ImageInPlace>),
}

impl Volume for Mounted {
    fn fs(&self) -> &dyn FileSystem {
        match self {
            Self::Reading(image) => image.fs(),
            Self::InPlace(image) => image.fs(),
        }
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        match self {
            Self::Reading(_) => None,
            Self::InPlace(image) => Some(image.changes()),
        }
    }
}

/// Mounts an image, in the background unless --foreground is given.
pub fn mount(arguments: &MountArguments) -> Result<(), Failure> {
    if arguments.foreground || is_in_background() {
        return serve(arguments);
    }
    // These errors can be reported without starting the background process.
    let refused = |error: nandkit_fuse::MountError| Failure::Input(error.to_string());
    check_device().map_err(refused)?;
    check_mount_point(&arguments.point).map_err(refused)?;
    in_background()
}

fn is_in_background() -> bool {
    std::env::var_os(IN_BACKGROUND).is_some()
}

/// Starts the same command again as the background process, and waits until it has mounted or
/// failed.
fn in_background() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Input(format!("cannot go into the background: {error}"));
    let mut child = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .env(IN_BACKGROUND, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut said = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut said).map_err(failed)?;
    }
    if said.trim_end() == READY {
        return Ok(());
    }
    let status = child.wait().map_err(failed)?;
    Err(match status.code() {
        Some(1) => Failure::Told(1),
        Some(_) => Failure::Told(2),
        None => Failure::Check(format!("the background process was ended: {status}")),
    })
}

/// Opens and mounts the image, and serves requests until it is unmounted.
fn serve(arguments: &MountArguments) -> Result<(), Failure> {
    let refused = |error: nandkit_fuse::MountError| Failure::Input(error.to_string());
    if !arguments.foreground {
        nandkit_fuse::leave_terminal()
            .map_err(|error| Failure::Input(format!("cannot leave the terminal: {error}")))?;
    }
    check_device().map_err(refused)?;
    let point = check_mount_point(&arguments.point).map_err(refused)?;
    let new_overlay = arguments.image.overlay.as_ref().filter(|overlay| !overlay.exists());
    let discard_new = |failure: Failure| {
        new_overlay.map(|overlay| discard_unused_overlay(&arguments.image.image, overlay));
        failure
    };
    let (volume, options) = open(arguments).map_err(discard_new)?;
    // A signal that arrives during mounting waits until that is done.
    let unmounter = Arc::new(OnceLock::new());
    unmount_on_signal(Arc::clone(&unmounter));
    let mut session = Session::mount(volume, &point, options).map_err(refused).map_err(discard_new)?;
    let teller = session.take_teller();
    let _ = unmounter.set(session.unmounter());
    if arguments.foreground {
        // A failure to print does not end the mount.
        let _ = output::text(&format!("{} at {}\n", arguments.image.image.display(), point.display()));
    } else {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
        drop(out);
        if let Err(error) = nandkit_fuse::let_go() {
            output::message(&format!("standard output and error stay open: {error}"));
        }
    }
    let ended = session.run();
    let closed = match ended.volume {
        // A half-finished change in memory is not written to the image.
        _ if ended.broken => Some("the image has its state of the last sync".to_owned()),
        Some(Mounted::InPlace(mut image)) => image.close().map_err(|error| error.to_string()).err(),
        Some(Mounted::Reading(_)) => None,
        None => Some("a request did not finish".to_owned()),
    };
    let trouble: Vec<String> = ended.trouble.into_iter().chain(closed).collect();
    let trouble = trouble.join("; ");
    if let Some(teller) = teller {
        teller.tell((!trouble.is_empty()).then_some(&trouble));
    }
    match trouble {
        trouble if trouble.is_empty() => Ok(()),
        trouble => Err(Failure::Check(format!("{}: {trouble}", arguments.image.image.display()))),
    }
}

/// The first signal unmounts; a second one ends the process at once.
fn unmount_on_signal(unmounter: Arc<OnceLock<Unmounter>>) {
    let last = Arc::clone(&unmounter);
    let first = move || {
        let unmounter = unmounter.wait();
        match unmounter.unmount() {
            Ok(true) => {}
            Ok(false) => output::message(&format!(
                "{} is in use: it was detached and ends when its last user is done; a second Ctrl-C discards changes that were not synced",
                unmounter.point().display()
            )),
            Err(error) => output::message(&format!("cannot unmount {}: {error}", unmounter.point().display())),
        }
    };
    stop::at_signal(first, move || {
        // Do not leave a mount without a process behind.
        let _ = last.get().map(Unmounter::detach);
    });
}

/// The options to open the image with. A mount may last for days; memory for the image file is
/// limited, and the kernel caches the rest.
fn for_long(arguments: &MountArguments) -> OpenOptions {
    OpenOptions { resident_max: Some(RESIDENT), ..arguments.image.options() }
}

/// Opens the image; returns it with the options of the session.
fn open(arguments: &MountArguments) -> Result<(Mounted, Options), Failure> {
    let owner = (arguments.uid.is_some() || arguments.gid.is_some())
        .then_some(Owner { uid: arguments.uid, gid: arguments.gid });
    let writing = arguments.rw || arguments.image.overlay.is_some();
    let allow_other = arguments.allow_other;
    let options = Options { read_only: !writing, owner, allow_other, threads: THREADS, ..Options::default() };
    if !writing {
        let image = images::open_as(&arguments.image, &for_long(arguments))?;
        let damage: Vec<Finding> = images::witnessed(&image).into_iter().map(|(_, finding)| finding).collect();
        images::tell_damage(&damage);
        return Ok((Mounted::Reading(Box::new(image)), options));
    }
    let how = ChangeOptions { compression: arguments.compress.clone(), now: images::now()?, for_good: true };
    let path = &arguments.image.image;
    let image = ImageInPlace::open(path, &for_long(arguments), &how).map_err(images::input)?;
    images::tell_notes(path, &image.notes);
    let damage = image.damage();
    if !damage.is_empty() {
        images::tell_damage(&damage);
        if !arguments.even_if_damaged && images::is_in_danger(&damage) {
            return Err(Failure::Check(format!(
                "{}: the image is damaged, and was not mounted for changes; expected a sound image (check --repair makes one), --even-if-damaged, or no --rw",
                path.display()
            )));
        }
    }
    if image.is_full() {
        output::message(&format!(
            "{}: the volume has no free space except what removals free; expected --size with the size of the flash if that is larger than the image, or mkfs with a larger --size",
            path.display()
        ));
    }
    let timing = Timing::Calendar(image.clock.clone());
    Ok((Mounted::InPlace(Box::new(image)), Options { timing, commit: Some(COMMIT), ..options }))
}
