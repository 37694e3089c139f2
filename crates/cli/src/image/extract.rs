//! `nandkit extract`

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use nandkit_stack::image::{Finding, OpenImage};
use nandkit_tree::extract::extract_tree;
use nandkit_tree::large::Holes;
use nandkit_tree::pack::{PackOptions, pack_tree};
use nandkit_tree::{
    AndroidText, ExtractOptions, ExtractReport, FileContexts, FsConfig, MountLimits, MountedTree, Note, Progress,
    TreeError,
};
use nandkit_units::format_bytes;
use nandkit_vfs::path::{Follow, resolve};
use nandkit_vfs::source::{SourceNode, SourceTree, path as path_of};
use nandkit_vfs::{FileKind, InodeNumber};
use serde_json::{Map, Value, json};

use super::new_file::NewFile;
use super::source::android_mount_point;
use super::{
    absent, damage, finding_json, finding_line, open, path_json, shown, tell, tell_way_out, tree_input, verdict,
};
use crate::args::ExtractArguments;
use crate::failure::Failure;
use crate::output;
use crate::progress::Bar;
use crate::stop::{Undo, Unfinished};

/// Writes the files of an image into a directory, or into a tar archive.
pub fn extract(arguments: &ExtractArguments) -> Result<(), Failure> {
    let to_stdout = arguments.to_tar.as_deref() == Some(Path::new("-"));
    if to_stdout && arguments.json {
        let detail = "--json: the archive goes to standard output; expected --to-tar with a file, or no --json";
        return Err(Failure::Input(detail.to_owned()));
    }
    if let Some(file) = arguments.to_tar.as_deref().filter(|_| !to_stdout) {
        NewFile::check(file, arguments.merge, Some("--force"))?;
    }
    let android = AndroidTargets::new(arguments)?;
    let image = open(&arguments.image)?;
    let failed = |error: nandkit_vfs::FsError| {
        Failure::Input(format!("{}: {}: {error}", arguments.image.image.display(), shown(arguments.path.as_bytes())))
    };
    let start = resolve(image.fs(), arguments.path.as_bytes(), Follow::Last);
    let start = start.map_err(|error| absent(&arguments.image, &image, failed(error)))?;
    let holes = if arguments.to_tar.is_some() && !arguments.sparse { Holes::Written } else { Holes::Kept };
    let limits = MountLimits { holes, ..MountLimits::default() };
    let tree = MountedTree::read(image.fs(), start, &limits).map_err(failed)?;
    let packing = PackOptions {
        holes,
        xattrs: !arguments.no_xattrs,
        inward_links_only: arguments.inward_links_only,
        ..PackOptions::default()
    };
    let mut report = match (&arguments.to_tar, &arguments.directory) {
        (Some(file), _) => archive(file, arguments.merge, &|out| pack_tree(&tree, out, &packing))?,
        (None, Some(directory)) => directory_of(&tree, directory, &extracting(arguments))?,
        (None, None) => return Err(Failure::Input("expected DIR or --to-tar".to_owned())),
    };
    let unsaid = android.write(&tree)?;
    let missing = if arguments.directory.is_some() { missing(&tree, &report) } else { 0 };
    report.refused.extend_from_slice(tree.refused());
    report.damaged.extend_from_slice(tree.damaged());
    report.refused.sort();
    report.damaged.sort();
    let findings = findings(&image, &tree);
    if arguments.json {
        output::json(&report_json(&report, &findings))?;
    } else if !to_stdout {
        output::text(&summary(&report))?;
    }
    let list = |what: &str, notes: &[Note]| notes.iter().map(|note| format!("{what} {note}")).collect::<Vec<_>>();
    tell(&list("skipped", &report.skipped));
    let mut wrong = list("refused", &report.refused);
    wrong.extend(unsaid);
    wrong.extend(list("damaged", &report.damaged));
    wrong.extend(
        findings
            .iter()
            .filter(|finding| !finding.is_harmless())
            .map(|finding| format!("damaged {}", finding_line(finding))),
    );
    tell(&wrong);
    tell_way_out(&arguments.image, &findings);
    verdict(
        &arguments.image,
        wrong.len() + missing,
        ("one item could not be extracted unchanged", "items could not be extracted unchanged"),
    )
}

/// Android metadata files to write in addition.
struct AndroidTargets<'a> {
    arguments: &'a ExtractArguments,
    mount_point: Vec<u8>,
}

/// Makes the text of one of them for a tree that is mounted at a path.
type TextOf = fn(&dyn SourceTree, &[u8]) -> AndroidText;

impl<'a> AndroidTargets<'a> {
    /// Checks the targets. Error: a file exists and may not be replaced.
    fn new(arguments: &'a ExtractArguments) -> Result<Self, Failure> {
        let options = &arguments.android;
        for file in [&options.fs_config, &options.file_contexts].into_iter().flatten() {
            NewFile::check(file, arguments.merge, Some("--merge"))?;
        }
        Ok(Self { arguments, mount_point: android_mount_point(options)? })
    }

    /// Writes the requested files; returns what their formats cannot express.
    fn write(&self, tree: &MountedTree<'_>) -> Result<Vec<String>, Failure> {
        let options = &self.arguments.android;
        let mut unsaid = Vec::new();
        let makers: [(_, TextOf); 2] =
            [(&options.fs_config, FsConfig::text_of), (&options.file_contexts, FileContexts::text_of)];
        for (path, text_of) in makers {
            let Some(path) = path else { continue };
            let made = text_of(tree, &self.mount_point);
            let mut file = NewFile::begin(path)?;
            let failed = |error: io::Error| Failure::Input(format!("{}: cannot write: {error}", path.display()));
            file.file().write_all(&made.text).map_err(failed)?;
            file.keep(self.arguments.merge)?;
            unsaid.extend(made.left_out.iter().map(|note| format!("not in {}: {note}", path.display())));
        }
        Ok(unsaid)
    }
}

/// The number of files, directories and links that the host refused; they are reported as skipped.
/// Devices and single attributes need rights that few users have, so that leaving them out is not
/// counted.
pub(super) fn missing(tree: &dyn SourceTree, report: &ExtractReport) -> usize {
    let first_names = |kind| {
        let nodes = tree.nodes().iter().filter(|node| node.kind == kind && node.hard_link_of.is_none());
        nodes.count() as u64
    };
    let expected = first_names(FileKind::Regular) + first_names(FileKind::Directory) + first_names(FileKind::Symlink);
    let mut missing = expected.saturating_sub(report.files + report.directories + report.symlinks);
    let further = tree.nodes().iter().filter_map(|node| tree.nodes().get(node.hard_link_of?));
    let plain = |node: &&SourceNode| matches!(node.kind, FileKind::Regular | FileKind::Symlink);
    missing += (further.filter(plain).count() as u64).saturating_sub(report.hard_links);
    (missing as usize).saturating_sub(report.refused.len() + report.damaged.len())
}

/// Damage found in the image, with the paths of the affected files.
fn findings(image: &OpenImage, tree: &MountedTree<'_>) -> Vec<Finding> {
    if image.damage().is_empty() {
        return Vec::new();
    }
    let mut paths: BTreeMap<InodeNumber, Vec<Vec<u8>>> = BTreeMap::new();
    for index in 0..tree.nodes().len() {
        if let Some(inode) = tree.inode(index) {
            paths.entry(inode).or_default().push(path_of(tree.nodes(), index));
        }
    }
    damage(image, &paths)
}

/// The options for writing a tree into a directory.
fn extracting(arguments: &ExtractArguments) -> ExtractOptions {
    ExtractOptions {
        merge: arguments.merge,
        owners: arguments.no_owners.then_some(false),
        xattrs: !arguments.no_xattrs,
        inward_links_only: arguments.inward_links_only,
        ..ExtractOptions::default()
    }
}

/// Writes a tree into a directory; after Ctrl-C the directory is as before. Errors: the target is
/// unusable; the host is full.
pub(super) fn directory_of(
    tree: &dyn SourceTree,
    directory: &Path,
    options: &ExtractOptions,
) -> Result<ExtractReport, Failure> {
    refuse_unusable(directory, options.merge)?;
    let (target, existed, merge) = (directory.to_path_buf(), directory.exists(), options.merge);
    let undo: Undo = Box::new(move || {
        if !merge {
            remove_again(&target, existed);
        }
    });
    let ((), unfinished) = Unfinished::begin(|| Ok(((), undo)))?;
    let bar = Bar::new();
    let show = |progress: Progress| {
        unfinished.pause_if_stopped();
        bar.show_share(progress.bytes, progress.bytes_total, || {
            format!("{} of {} names, {}", progress.names, progress.names_total, format_bytes(progress.bytes))
        });
    };
    let report = extract_tree(tree, directory, options, &show);
    bar.clear();
    unfinished.finish(|| report).map_err(tree_input)
}

/// Refuses an unusable target before anything is written.
pub(super) fn refuse_unusable(directory: &Path, merge: bool) -> Result<(), Failure> {
    let shown = directory.display();
    match std::fs::symlink_metadata(directory) {
        Ok(_) if !directory.is_dir() => {
            Err(Failure::Input(format!("{shown}: this is not a directory; expected an empty directory or a new path")))
        }
        Ok(_) if !merge && std::fs::read_dir(directory).is_ok_and(|mut list| list.next().is_some()) => {
            Err(Failure::Input(format!(
                "{shown}: the directory is not empty; expected an empty directory, a new path, or --merge to write into this one"
            )))
        }
        _ => Ok(()),
    }
}

/// Removes the output of a stopped extraction whose target was empty or missing. It tries several
/// times, since threads in the middle of a file may still add to it.
fn remove_again(target: &Path, keep: bool) {
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        let Ok(list) = std::fs::read_dir(target) else { return };
        let mut left = false;
        for entry in list.flatten() {
            let path = entry.path();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if is_directory { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            left |= removed.is_err();
        }
        if !left && (keep || std::fs::remove_dir(target).is_ok()) {
            return;
        }
    }
}

/// Bytes of a write of an archive. What is read into a buffer of this size and written is still in
/// the processor's cache, of which a mebibyte is much.
pub(super) const OUT_BYTES: usize = 128 << 10;

/// Bytes that a pipe holds where the system allows it: as much as any user may ask for by default
/// (pipe(7), /proc/sys/fs/pipe-max-size).
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1 << 20;

/// A function that writes an archive.
pub(super) type Packer<'a> = dyn Fn(&mut dyn Write) -> nandkit_tree::Result<ExtractReport> + 'a;

/// Writes an archive to a file, or for `-` to standard output.
pub(super) fn archive(path: &Path, replace: bool, pack: &Packer<'_>) -> Result<ExtractReport, Failure> {
    if path == Path::new("-") {
        return archive_to_stdout(pack);
    }
    let mut file = NewFile::begin(path)?;
    let mut out = BufWriter::with_capacity(OUT_BYTES, file.file());
    let report = pack(&mut out).map_err(tree_input)?;
    out.flush().map_err(|error| Failure::Input(format!("{}: cannot write: {error}", path.display())))?;
    drop(out);
    file.keep(replace)?;
    Ok(report)
}

/// Standard output without the standard library's buffer, which searches all bytes for the last end
/// of line. A pipe is made to hold more, so that its two ends wait less often for each other.
fn plain_stdout() -> io::Result<File> {
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    #[cfg(target_os = "linux")]
    if rustix::pipe::fcntl_getpipe_size(&out).is_ok_and(|bytes| bytes < PIPE_BYTES) {
        // Refused above the user's limit; then the pipe works as it is.
        let _ = rustix::pipe::fcntl_setpipe_size(&out, PIPE_BYTES);
    }
    Ok(out)
}

fn archive_to_stdout(pack: &Packer<'_>) -> Result<ExtractReport, Failure> {
    let plain = plain_stdout().map_err(|error| Failure::Input(format!("standard output: {error}")))?;
    let mut out = BufWriter::with_capacity(OUT_BYTES, plain);
    let packed = pack(&mut out).and_then(|report| match out.flush() {
        Ok(()) => Ok(report),
        Err(source) => Err(TreeError::Host { path: "archive".to_owned(), doing: "writing", source }),
    });
    packed.map_err(|error| match error {
        TreeError::Host { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        error => tree_input(error),
    })
}

pub(super) fn summary(report: &ExtractReport) -> String {
    let owners = if report.owners { "" } else { "; owned by the user" };
    format!(
        "{} files, {} directories, {} links, {} hard links, {} special files, {}{owners}\n",
        report.files,
        report.directories,
        report.symlinks,
        report.hard_links,
        report.specials,
        format_bytes(report.bytes)
    )
}

pub(super) fn report_json(report: &ExtractReport, findings: &[Finding]) -> Value {
    let notes = |notes: &[Note]| -> Vec<Value> {
        notes
            .iter()
            .map(|note| {
                let mut map = Map::new();
                path_json(&note.path, &mut map);
                map.insert("reason".to_owned(), note.reason.clone().into());
                Value::Object(map)
            })
            .collect()
    };
    json!({
        "files": report.files,
        "directories": report.directories,
        "symlinks": report.symlinks,
        "hard_links": report.hard_links,
        "specials": report.specials,
        "bytes": report.bytes,
        "owners": report.owners,
        "skipped": notes(&report.skipped),
        "refused": notes(&report.refused),
        "damaged": notes(&report.damaged),
        "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
    })
}
