//! `nandkit mkfs`

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nandkit_stack::image::{BuildReport, Jffs2Build, OobOf, build_jffs2, check_jffs2_build};
use nandkit_tree::{
    AdjustedTree, Adjustments, ArchiveOptions, DeviceTable, DirectoryOptions, HostDirectory, TarArchive, show,
};
use nandkit_units::format_bytes;
use nandkit_vfs::source::{SourceNode, SourceTree, components, path as path_of};
use nandkit_vfs::{FileKind, Timestamp};
use serde_json::json;

use super::mkfs_f2fs::f2fs;
use super::new_file::NewFile;
use super::{input, shown, time, tree_input};
use crate::args::{Jffs2Arguments, MkfsArguments, MkfsFormat};
use crate::failure::Failure;
use crate::output;
use crate::progress::Bar;

/// Makes an image.
pub fn mkfs(arguments: &MkfsArguments) -> Result<(), Failure> {
    match &arguments.format {
        MkfsFormat::Jffs2(arguments) => jffs2(arguments),
        MkfsFormat::F2fs(arguments) => f2fs(arguments),
    }
}

fn jffs2(arguments: &Jffs2Arguments) -> Result<(), Failure> {
    NewFile::check(&arguments.image, arguments.force, Some("--force"))?;
    // Nobody changes the image meanwhile, whose changes would be lost.
    let _lock = NewFile::lock(&arguments.image)?;
    let build = Jffs2Build {
        device: arguments.device.clone(),
        byte_order: arguments.endian.map(|endian| endian.order()),
        erase_size: arguments.erase_size,
        page_size: arguments.page_size,
        cleanmarker_size: if arguments.no_cleanmarkers { Some(0) } else { arguments.cleanmarker_size },
        oob: arguments.oob.map(|pages| match pages {
            None => OobOf::Device,
            Some((page_size, oob_size)) => OobOf::Pages { page_size, oob_size },
        }),
        summaries: arguments.summary,
        compressions: arguments.compress.clone(),
        level: arguments.level,
        smallest: arguments.smallest,
        no_xattrs: arguments.no_xattrs,
        size: arguments.size,
        threads: arguments.threads,
    };
    check_jffs2_build(&build).map_err(input)?;
    let table = arguments.device_table.as_deref().map(device_table).transpose()?;
    let adjustments = adjustments(arguments)?;
    let from = source(&arguments.from, &arguments.exclude, arguments.no_xattrs, "--from ")?;
    tell_excluded(&arguments.exclude, &arguments.from, &from);
    let tree = AdjustedTree::new(from, &adjustments, table.as_ref()).map_err(tree_input)?;
    let image = &arguments.image;
    let mut file = NewFile::begin(image)?;
    let summary = write(&tree, &build, &mut file, image)?;
    file.keep(arguments.force)?;
    if arguments.json {
        return output::json(&summary_json(&summary));
    }
    tell_clamped(&tree);
    let oob = match summary.oob_bytes {
        0 => String::new(),
        bytes => format!(", with {} of OOB", format_bytes(bytes)),
    };
    output::text(&format!(
        "{}: {} names, {} of files in {}, {} blocks of {}{oob}\n",
        image.display(),
        summary.names,
        format_bytes(summary.content_bytes),
        format_bytes(summary.image_bytes),
        summary.image_bytes.div_ceil(u64::from(summary.erase_size.max(1))),
        format_bytes(summary.erase_size.into()),
    ))
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

/// Says of how many files the time is another one than it was, and which the first of them is.
fn tell_clamped(tree: &dyn SourceTree) {
    let nodes = tree.nodes();
    let is_clamped = |node: &SourceNode| u32::try_from(node.modified.0.div_euclid(1_000_000_000)).is_err();
    let mut clamped = nodes.iter().enumerate().filter(|(_, node)| node.hard_link_of.is_none() && is_clamped(node));
    let Some((first, node)) = clamped.next() else { return };
    let (what, time) = (show(&path_of(nodes, first)), time::utc(node.modified));
    let which = match clamped.count() {
        0 => format!("the time of {what}, {time}, lies"),
        more => format!("the times of {} files, first that of {what}, {time}, lie", more + 1),
    };
    output::message(&format!("{which} before 1970 or after 2106, which JFFS2 cannot hold; the nearest was taken"));
}

fn write(tree: &dyn SourceTree, build: &Jffs2Build, file: &mut NewFile, image: &Path) -> Result<BuildReport, Failure> {
    let regular = tree.nodes().iter().filter(|node| node.kind == FileKind::Regular && node.hard_link_of.is_none());
    let total = regular.fold(0_u64, |total, node| total.saturating_add(node.size));
    let bar = Bar::new();
    let show = |done: u64| bar.show_share(done, total, || format!("{} of {}", format_bytes(done), format_bytes(total)));
    let mut out = BufWriter::with_capacity(1 << 20, file.file());
    let written = build_jffs2(tree, build, &mut out, &show);
    bar.clear();
    let summary = written.map_err(input)?;
    out.flush().map_err(|error| Failure::Input(format!("{}: cannot write: {error}", image.display())))?;
    Ok(summary)
}

/// The tree as it comes, but for the times of the last read and of the last change of attributes: these become that of modification. They change when a tree is read or copied,
/// archives do not hold them, and the same tree is to give the same image.
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
        let options = DirectoryOptions { exclude, no_xattrs };
        return HostDirectory::open(from, &options).map(Source::new).map_err(tree_input);
    }
    TarArchive::open(from, &archive).map(Source::new).map_err(|error| {
        Failure::Input(format!("{option}{}: {error}; expected a directory or a tar archive", from.display()))
    })
}

pub(super) fn device_table(path: &Path) -> Result<DeviceTable, Failure> {
    let failed = |what: String| Failure::Input(format!("--device-table {}: {what}", path.display()));
    let text = crate::run::read_text(path).map_err(|error| failed(format!("cannot read the file: {error}")))?;
    DeviceTable::parse(&text).map_err(|error| failed(error.to_string()))
}

fn adjustments(arguments: &Jffs2Arguments) -> Result<Adjustments, Failure> {
    Ok(Adjustments {
        exclude: arguments.exclude.iter().map(|path| path.as_bytes().to_vec()).collect(),
        squash_owners: arguments.squash || arguments.squash_uids,
        squash_permissions: arguments.squash || arguments.squash_perms,
        owner: arguments.owner,
        root_owner: None,
        time: arguments.faketime.then_some(Timestamp(0)),
        time_max: source_date_epoch()?,
        no_xattrs: arguments.no_xattrs,
    })
}

/// The latest time that an image may hold, where the environment says one (reproducible-builds.org, "SOURCE_DATE_EPOCH specification").
pub fn source_date_epoch() -> Result<Option<Timestamp>, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH").filter(|text| !text.is_empty()) else { return Ok(None) };
    let seconds = text.to_str().and_then(|text| text.parse::<i64>().ok());
    let time = seconds.filter(|seconds| *seconds >= 0).and_then(|seconds| seconds.checked_mul(1_000_000_000));
    let wrong = || format!("SOURCE_DATE_EPOCH is \"{}\"; expected seconds since 1970", text.to_string_lossy());
    time.map(|time| Some(Timestamp(time))).ok_or_else(|| Failure::Input(wrong()))
}

fn summary_json(summary: &BuildReport) -> serde_json::Value {
    json!({
        "format": "jffs2",
        "inodes": summary.inodes,
        "names": summary.names,
        "data_nodes": summary.data_nodes,
        "content_bytes": summary.content_bytes,
        "image_bytes": summary.image_bytes,
        "oob_bytes": summary.oob_bytes,
        "summary_blocks": summary.summary_blocks,
        "lost_bytes": summary.lost_bytes,
        "times_clamped": summary.times_clamped,
        "erase_size": summary.erase_size,
    })
}
