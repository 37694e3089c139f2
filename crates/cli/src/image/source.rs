//! Sources of trees: directories and archives, and the changes that `mkfs` applies.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nandkit_tree::{
    Adjustments, AndroidFiles, ArchiveOptions, DeviceTable, DirectoryOptions, FileContexts, FsConfig, HostDirectory,
    TarArchive,
};
use nandkit_vfs::Timestamp;
use nandkit_vfs::source::{SourceNode, SourceTree, components};

use super::{shown, tree_input};
use crate::args::{AndroidOptions, TreeOptions};
use crate::failure::Failure;
use crate::output;

/// A source tree whose access and change times are replaced by the modification time. Reading or
/// copying a tree changes those times and archives do not hold them, but the same tree must give
/// the same image.
pub struct Source {
    tree: Box<dyn SourceTree + Send>,
    nodes: Vec<SourceNode>,
}

impl Source {
    fn new(tree: impl SourceTree + Send + 'static) -> Self {
        let timed = |node: &SourceNode| SourceNode { accessed: node.modified, changed: node.modified, ..node.clone() };
        let nodes = tree.nodes().iter().map(timed).collect();
        Self { tree: Box::new(tree), nodes }
    }
}

impl SourceTree for Source {
    fn nodes(&self) -> &[SourceNode] {
        &self.nodes
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
        self.tree.read(node, offset, into)
    }

    fn data_after(&self, node: usize, offset: u64) -> nandkit_vfs::Result<Option<Range<u64>>> {
        self.tree.data_after(node, offset)
    }
}

/// Opens a directory, a tar archive, or for `-` an archive on standard input. `option` names it in
/// messages.
pub fn source(from: &Path, exclude: &[String], no_xattrs: bool, option: &str) -> Result<Source, Failure> {
    let archive = ArchiveOptions { no_xattrs, ..ArchiveOptions::default() };
    if from == Path::new("-") {
        let read = TarArchive::read(io::stdin().lock(), &archive);
        return read.map(Source::new).map_err(tree_input);
    }
    if from.is_dir() {
        let exclude = exclude.iter().map(|path| path.as_bytes().to_vec()).collect();
        let options = DirectoryOptions { exclude, no_xattrs, ..DirectoryOptions::default() };
        return HostDirectory::open(from, &options).map(Source::new).map_err(tree_input);
    }
    TarArchive::open(from, &archive).map(Source::new).map_err(|error| {
        Failure::Input(format!("{option}{}: {error}; expected a directory or a tar archive", from.display()))
    })
}

/// Reports excluded paths that do not exist in the tree.
pub(super) fn tell_excluded(exclude: &[String], from: &Path, source: &Source) {
    for path in exclude.iter().filter(|path| !is_there(from, source, path)) {
        output::message(&format!("--exclude {}: the tree has no such path", shown(path.as_bytes())));
    }
}

/// Whether an excluded path exists. A directory is asked directly, since its excluded part was not
/// read.
fn is_there(from: &Path, source: &Source, excluded: &str) -> bool {
    let Ok(names) = components(excluded.as_bytes()) else { return false };
    if from != Path::new("-") && from.is_dir() {
        let below = from.join(OsStr::from_bytes(&names.join(&b'/')));
        return !names.is_empty() && below.symlink_metadata().is_ok();
    }
    // From the root down, name by name.
    let nodes = source.nodes();
    let mut places = vec![0];
    for name in &names {
        let inside = |(_, node): &(usize, &SourceNode)| places.contains(&node.parent) && node.name == *name;
        places = nodes.iter().enumerate().skip(1).filter(inside).map(|(index, _)| index).collect();
    }
    !names.is_empty() && !places.is_empty()
}

/// Reads a table of device nodes and owners.
pub fn device_table(path: &Path) -> Result<DeviceTable, Failure> {
    parsed(path, "--device-table", DeviceTable::parse)
}

/// Reads Android's metadata files of a tree; `None` if none is given.
pub fn android(options: &AndroidOptions) -> Result<Option<AndroidFiles>, Failure> {
    let mount_point = android_mount_point(options)?;
    if options.fs_config.is_none() && options.file_contexts.is_none() {
        return Ok(None);
    }
    let fs_config = options.fs_config.as_deref().map(|path| parsed(path, "--fs-config", FsConfig::parse));
    let contexts = options.file_contexts.as_deref().map(|path| parsed(path, "--file-contexts", FileContexts::parse));
    Ok(Some(AndroidFiles { mount_point, fs_config: fs_config.transpose()?, file_contexts: contexts.transpose()? }))
}

/// The mount point that the paths in Android's files begin with.
pub fn android_mount_point(options: &AndroidOptions) -> Result<Vec<u8>, Failure> {
    let failed = |error: nandkit_vfs::FsError| Failure::Input(format!("--mount-point: {}", error.detail));
    nandkit_tree::android::mount_point(&options.mount_point).map_err(failed)
}

/// Reads and parses the file of an option.
fn parsed<T>(path: &Path, option: &str, parse: fn(&[u8]) -> nandkit_tree::Result<T>) -> Result<T, Failure> {
    let failed = |what: String| Failure::Input(format!("{option} {}: {what}", path.display()));
    let text = crate::texts::read_text(path).map_err(|error| failed(format!("cannot read the file: {error}")))?;
    parse(&text).map_err(|error| failed(error.to_string()))
}

/// The changes to a tree before it becomes a volume.
pub fn adjustments(tree: &TreeOptions<'_>) -> Result<Adjustments, Failure> {
    Ok(Adjustments {
        exclude: tree.exclude.iter().map(|path| path.as_bytes().to_vec()).collect(),
        squash_owners: tree.squash_owners,
        squash_permissions: tree.squash_permissions,
        owner: tree.owner,
        root_owner: None,
        time: tree.faketime.then_some(Timestamp(0)),
        time_max: source_date_epoch()?,
        no_xattrs: tree.no_xattrs,
    })
}

/// The latest time that an image may hold, from the environment (reproducible-builds.org,
/// "SOURCE_DATE_EPOCH specification").
pub fn source_date_epoch() -> Result<Option<Timestamp>, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH").filter(|text| !text.is_empty()) else { return Ok(None) };
    let seconds = text.to_str().and_then(|text| text.parse::<i64>().ok());
    let time = seconds.filter(|seconds| *seconds >= 0).and_then(|seconds| seconds.checked_mul(1_000_000_000));
    let wrong = || format!("SOURCE_DATE_EPOCH is \"{}\"; expected seconds since 1970", text.to_string_lossy());
    time.map(|time| Some(Timestamp(time))).ok_or_else(|| Failure::Input(wrong()))
}
