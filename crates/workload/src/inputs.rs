//! Trace files and directories that workloads read, behind a trait that the caller implements.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Result, WorkloadError};
use crate::tree::source::{HostTree, TreeSource};

/// Where traces and directories come from.
pub trait Inputs {
    /// Opens a trace for reading from its start. Called twice, since a trace is read through before
    /// it is used.
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>>;

    /// Reads a directory's structure.
    fn tree(&self, path: &str) -> Result<Box<dyn TreeSource>>;

    /// Whether the reading was cancelled; asked between parts of a trace, which may be as large as
    /// a disk.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// The host's file system. A trace is a plain file: it is read twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostInputs;

impl Inputs for HostInputs {
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(open_plain_file(Path::new(path))?))
    }

    fn tree(&self, path: &str) -> Result<Box<dyn TreeSource>> {
        Ok(Box::new(HostTree::read(path)?))
    }
}

/// Opens a plain file, or a link to one, for reading. Errors: those of the operating system, and
/// `InvalidInput` for a pipe, a device or a directory.
fn open_plain_file(path: &Path) -> io::Result<File> {
    // Checked before the file is opened, since opening a pipe would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no plain file"));
    }
    File::open(path)
}

/// No inputs: for callers that run generated workloads only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoInputs;

impl Inputs for NoInputs {
    fn open(&self, _: &str) -> io::Result<Box<dyn Read + Send>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "no files can be read here"))
    }

    fn tree(&self, path: &str) -> Result<Box<dyn TreeSource>> {
        let detail = "no directories can be read here".to_string();
        Err(WorkloadError::Input { path: path.to_string(), detail, source: None })
    }
}
