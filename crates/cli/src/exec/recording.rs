//! `exec --record`: a file with all that programs asked of a volume.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nandkit_stack::Below;
use nandkit_vfs::InodeNumber;
use nandkit_workload::calls::CallRecorder;
use tempfile::{Builder, NamedTempFile};

use crate::failure::Failure;
use crate::image::new_file::NewFile;
use crate::output;

/// A recording that has not got its name yet: Ctrl-C is the command's affair, and ends no
/// recording.
pub struct Recording {
    file: NamedTempFile,
    path: PathBuf,
    recorder: Arc<CallRecorder>,
}

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{}: cannot be recorded to: {error}", path.display()))
}

impl Recording {
    /// Begins. `root`: the root of the file system. Errors: a path that is taken, or cannot be
    /// written.
    pub fn begin(path: &Path, below: &Below, root: InodeNumber) -> Result<Self, Failure> {
        NewFile::check(path, false, None)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = Builder::new();
        builder.prefix(".nandkit-").suffix(".new");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder).map_err(|error| failed(path, error))?;
        let out = file.as_file().try_clone().map_err(|error| failed(path, error))?;
        let recorder = CallRecorder::begin(Box::new(out), below.clock.clone(), below.clock.now(), root);
        let recorder = Arc::new(recorder.map_err(|error| failed(path, error))?);
        Ok(Self { file, path: path.to_owned(), recorder })
    }

    /// The recorder that writes the calls.
    pub fn recorder(&self) -> Arc<CallRecorder> {
        Arc::clone(&self.recorder)
    }

    /// Gives the file its name. Errors: not all could be written; then there is no file.
    pub fn finish(self) -> Result<(), Failure> {
        let Self { file, path, recorder } = self;
        let calls = recorder.finish().and_then(|calls| file.as_file().sync_all().map(|()| calls));
        let calls = calls.map_err(|error| failed(&path, error))?;
        file.persist_noclobber(&path).map_err(|error| failed(&path, error.error))?;
        output::message(&format!(
            "{}: {calls} calls; --workload trace:{} replays them (what the kernel's cache answered is not among them)",
            path.display(),
            path.display()
        ));
        Ok(())
    }
}
