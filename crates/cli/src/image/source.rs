//! Where trees come from: directories and archives, with what `mkfs` changes in them.

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

/// The tree as it comes, but for the times of the last read and of the last change of attributes:
/// these become that of modification. They change when a tree is read or copied, archives do not
/// hold them, and the same tree is to give the same image.
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

/// A directory, a tar archive, or with `-` one from standard input. `option` names it in messages.
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

/// Says which of the paths that are to be left out are in no tree.
pub(super) fn tell_excluded(exclude: &[String], from: &Path, source: &Source) {
    for path in exclude.iter().filter(|path| !is_there(from, source, path)) {
        output::message(&format!(
            "--exclude {}: nothing of this path is in the tree, and nothing is left out for it",
            shown(path.as_bytes())
        ));
    }
}

/// Whether what is to be left out is in the tree. A directory's is not read at all.
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

/// The table of nodes and owners in a file.
pub fn device_table(path: &Path) -> Result<DeviceTable, Failure> {
    parsed(path, "--device-table", DeviceTable::parse)
}

/// Android's files that say what a tree is to be; `None` where none is given.
pub fn android(options: &AndroidOptions) -> Result<Option<AndroidFiles>, Failure> {
    let mount_point = android_mount_point(options)?;
    if options.fs_config.is_none() && options.file_contexts.is_none() {
        return Ok(None);
    }
    let fs_config = options.fs_config.as_deref().map(|path| parsed(path, "--fs-config", FsConfig::parse));
    let contexts = options.file_contexts.as_deref().map(|path| parsed(path, "--file-contexts", FileContexts::parse));
    Ok(Some(AndroidFiles { mount_point, fs_config: fs_config.transpose()?, file_contexts: contexts.transpose()? }))
}

/// Where Android's files have a tree mounted.
pub fn android_mount_point(options: &AndroidOptions) -> Result<Vec<u8>, Failure> {
    let failed = |error: nandkit_vfs::FsError| Failure::Input(format!("--mount-point: {}", error.detail));
    nandkit_tree::android::mount_point(&options.mount_point).map_err(failed)
}

/// What a file of an option says.
fn parsed<T>(path: &Path, option: &str, parse: fn(&[u8]) -> nandkit_tree::Result<T>) -> Result<T, Failure> {
    let failed = |what: String| Failure::Input(format!("{option} {}: {what}", path.display()));
    let text = crate::texts::read_text(path).map_err(|error| failed(format!("cannot read the file: {error}")))?;
    parse(&text).map_err(|error| failed(error.to_string()))
}

/// What is changed in a tree before it becomes a volume.
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

/// The latest time that an image may hold, where the environment says one (reproducible-builds.org,
/// "SOURCE_DATE_EPOCH specification").
pub fn source_date_epoch() -> Result<Option<Timestamp>, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH").filter(|text| !text.is_empty()) else { return Ok(None) };
    let seconds = text.to_str().and_then(|text| text.parse::<i64>().ok());
    let time = seconds.filter(|seconds| *seconds >= 0).and_then(|seconds| seconds.checked_mul(1_000_000_000));
    let wrong = || format!("SOURCE_DATE_EPOCH is \"{}\"; expected seconds since 1970", text.to_string_lossy());
    time.map(|time| Some(Timestamp(time))).ok_or_else(|| Failure::Input(wrong()))
}
