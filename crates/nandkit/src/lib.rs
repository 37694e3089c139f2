//! nandkit as a library: the NAND-flash storage stack in user space.
//!
//! **An image.** [`open`] detects the content of a file and returns an image with a [`FileSystem`],
//! whatever the format. **A stack.** `Stack::builder()` ([`StackBuilder`]) builds an emulated
//! device with a translation layer and a file system; the device counts its operations.
//!
//! ```
//! use nandkit::vfs::path::{Next, Step, make_directories, read_file, walk, write_file};
//! use nandkit::vfs::NewNode;
//! use nandkit::{Stack, UseStack};
//!
//! # let directory = tempfile::tempdir()?;
//! # let file = directory.path().join("card.nand");
//! # let file = file.to_str().unwrap();
//! // FAT on an emulated card that is kept in a file.
//! let mut stack = Stack::builder().device("nandsim-32m-16k").fs("fat").file(file).build()?;
//! let files = stack.files_mut().ok_or("FAT can be changed")?;
//! make_directories(files, b"etc", &NewNode::DIRECTORY)?;
//! write_file(files, b"etc/motd", &NewNode::FILE, b"hello")?;
//! files.sync(None)?;
//! let figures = stack.figures();
//! assert!(figures.bytes_programmed > 5 && figures.device_time_ns > 0);
//! stack.close()?;
//!
//! // The same card as an image that somebody else might have sent.
//! let image = nandkit::open(file)?;
//! assert_eq!(image.format, "fat");
//! assert_eq!(read_file(image.fs(), b"etc/motd")?, b"hello");
//! let mut names = Vec::new();
//! walk(image.fs(), image.fs().root(), &mut |step| {
//!     if let Step::Entry { path, .. } = step {
//!         names.push(String::from_utf8_lossy(path).into_owned());
//!     }
//!     Ok(Next::Enter)
//! })?;
//! assert_eq!(names, ["etc", "etc/motd"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Changes in an image** are made with [`open_in_place`], which locks the file; after a crash the
//! image has its state of one of the syncs. [`image`] has options that replace detection, and
//! makes, checks and repairs images; [`tree`] copies trees into and out of them.
//!
//! **Experiments.** A [`StackSpec`] describes a stack, a [`WorkloadSpec`] a workload, an
//! [`Experiment`] combines them into runs, and each run gives a [`RunRecord`]. The same spec and
//! seed give the same record, byte for byte, on any machine and number of threads.
//!
//! ```
//! use nandkit::{Experiment, Options};
//!
//! let spec = r#"
//!     seeds = 2
//!     workload = "phone:days=3"
//!     [stack]
//!     fs = "model"
//! "#;
//! let experiment = Experiment::parse(spec, "example", &[], None)?;
//! let records = experiment.run(&Options::default())?;
//! assert_eq!(records.len(), 2);
//! assert!(records.iter().all(|record| record.figures.user_bytes_written > 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`flash`], [`block`] and [`vfs`] are the contracts with all their types. Versions are semantic:
//! this interface is stable within a major version.

mod builder;

use std::path::Path;

pub use builder::{StackBuilder, UseStack};
pub use nandkit_block::{self as block, BlockDevice};
pub use nandkit_flash::{self as flash, Flash};
pub use nandkit_lab::{
    Experiment, HostMeter, LabError, Options, Progress, Results, RunSpec, SpecError, Unmeasured, parse_setting,
};
pub use nandkit_record::{Figures, METRICS, Metric, RunRecord, read_lines};
pub use nandkit_report as report;
pub use nandkit_stack::{
    DeviceHandle, DeviceSpec, FsSpec, FtlSpec, Mounted, MountedFileSystem, Stack, StackError, StackSpec, image, presets,
};
pub use nandkit_tree as tree;
pub use nandkit_units as units;
pub use nandkit_vfs::{self as vfs, FileSystem};
pub use nandkit_workload::{HostInputs, Inputs, NoInputs, WorkloadSpec};

/// Opens an image for reading: a flash dump, a volume, or a chip file. Its format is detected;
/// [`image::open`] accepts options for known properties. Errors: no such file; an unknown format.
pub fn open(path: impl AsRef<Path>) -> Result<image::OpenImage, StackError> {
    image::open(path.as_ref(), &image::OpenOptions::default())
}

/// Opens and locks an image for changes in the file itself; they reach it with
/// [`vfs::Changes::sync`] and [`image::ImageInPlace::close`]. `now`: the initial time for time
/// stamps, which the returned `clock` advances. Errors: those of [`open`]; the file is in use; a
/// journal cannot be created in its directory; the image is damaged (the error names the first
/// damage, and the image is unchanged; [`image::ImageInPlace::open`] opens it nevertheless).
pub fn open_in_place(path: impl AsRef<Path>, now: vfs::Timestamp) -> Result<image::ImageInPlace, StackError> {
    let how = image::ChangeOptions { now, for_good: true, ..image::ChangeOptions::default() };
    let image = image::ImageInPlace::open(path.as_ref(), &image::OpenOptions::default(), &how)?;
    match image.damage().first() {
        None => Ok(image),
        Some(found) => Err(StackError::new("image", format!("{}: {}", path.as_ref().display(), found.detail))),
    }
}
