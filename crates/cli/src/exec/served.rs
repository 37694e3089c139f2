//! A stack's file system as a directory for programs, and commands in it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nandkit_fuse::{Ended, MountError, Options, Session, Unmounter, Volume, check_mount_point};
use nandkit_stack::MountedFileSystem;
use nandkit_vfs::wrap::Wrapped;
use nandkit_vfs::{Changes, FileSystem};
use nandkit_workload::calls::CallRecorder;

use crate::failure::Failure;
use crate::leftover::MountDirectory;
use crate::output;

/// How long processes that outlive a command may use its volume before they are cut off.
const PATIENCE: Duration = Duration::from_millis(500);

/// The file system on top of the stack.
pub enum Top {
    /// The file system as it is.
    Plain(Box<dyn MountedFileSystem>),
    /// All that it is asked is written down.
    Recorded(Wrapped<Box<dyn MountedFileSystem>, Arc<CallRecorder>>),
}

impl Top {
    fn into_inner(self) -> Box<dyn MountedFileSystem> {
        match self {
            Self::Plain(fs) => fs,
            Self::Recorded(wrapped) => wrapped.into_inner(),
        }
    }
}

impl Volume for Top {
    fn fs(&self) -> &dyn FileSystem {
        match self {
            Self::Plain(fs) => &**fs,
            Self::Recorded(wrapped) => wrapped,
        }
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        match self {
            Self::Plain(fs) => fs.changes(),
            Self::Recorded(wrapped) => wrapped.changes(),
        }
    }
}

/// A file system that is mounted on a directory of its own.
pub struct Served {
    point: PathBuf,
    unmounter: Unmounter,
    session: JoinHandle<Ended<Top>>,
    /// Goes with the mount.
    directory: MountDirectory,
}

/// The volume after the end of the mount.
pub struct Back {
    /// The volume.
    pub fs: Box<dyn MountedFileSystem>,
    /// The first thing that programs were not told of.
    pub trouble: Option<String>,
    /// A request panicked: the volume is to be dropped as it is.
    pub broken: bool,
}

impl Served {
    /// Mounts. Errors: what the machine lacks for it.
    pub fn begin(fs: Box<dyn MountedFileSystem>, options: Options) -> Result<Self, Failure> {
        Self::begin_with(Top::Plain(fs), options)
    }

    /// Mounts like [`Self::begin`]; `top` may record the calls.
    pub fn begin_with(top: Top, options: Options) -> Result<Self, Failure> {
        let refused = |error: MountError| Failure::Input(error.to_string());
        let failed = |error: std::io::Error| Failure::Input(format!("cannot make a directory to mount on: {error}"));
        let directory = MountDirectory::new().map_err(failed)?;
        let point = check_mount_point(directory.path()).map_err(refused)?;
        let session = Session::mount(top, &point, options).map_err(refused)?;
        let unmounter = session.unmounter();
        let session = std::thread::spawn(move || session.run());
        Ok(Self { point, unmounter, session, directory })
    }

    /// The directory on which the volume is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// The handle that ends the mount.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Ends the mount even if it is still in use, and gives the volume back. Errors: a request did
    /// not end.
    pub fn abort(self) -> Result<Back, Failure> {
        // If the mount is gone already, there is nothing to abort.
        let _ = self.unmounter.abort();
        Self::back(self.session)
    }

    /// Unmounts and gives the volume back; programs that still use it after a while are cut off.
    /// Errors: a request did not end.
    pub fn end_soon(self) -> Result<Back, Failure> {
        // Where it cannot be unmounted, its session does not end, and the wait below would be
        // endless.
        let ended = self.unmounter.unmount_or_abort(PATIENCE);
        ended.map_err(|error| Failure::Check(format!("cannot unmount {}: {error}", self.point.display())))?;
        Self::back(self.session)
    }

    /// Unmounts, waits for the last user, and gives the volume back. Errors: it cannot be
    /// unmounted, or a request did not end.
    pub fn end(self) -> Result<Back, Failure> {
        match self.unmounter.unmount() {
            Ok(true) => {}
            Ok(false) => output::message("the volume is in use still: waiting until its last user has gone"),
            Err(error) => {
                // Whatever is mounted there still is nothing to be removed.
                self.directory.keep();
                let told =
                    format!("cannot unmount {}: {error}; nothing is known of what it cost", self.point.display());
                return Err(Failure::Check(told));
            }
        }
        Self::back(self.session)
    }

    fn back(session: JoinHandle<Ended<Top>>) -> Result<Back, Failure> {
        match session.join() {
            Ok(Ended { volume: Some(top), trouble, broken }) => Ok(Back { fs: top.into_inner(), trouble, broken }),
            _ => Err(Failure::Check("a request did not end; nothing is known of what it cost".to_owned())),
        }
    }
}

/// A command with its arguments, to be run in the root of a volume. A program with a path is meant
/// from where nandkit was called.
pub fn command_in(point: &Path, program: &OsStr, arguments: &[OsString]) -> Command {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(program);
    let program = if path.components().count() > 1 { here.join(path).into_os_string() } else { program.to_owned() };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(point).env("PWD", point).env("OLDPWD", &here);
    command
}
