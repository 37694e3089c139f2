//! `nandkit qtar`

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nandkit_block::wrap::{DeviceSnapshot, RequestKind};
use nandkit_remap::{Limits, RemappedTree};
use nandkit_stack::image::{LiveChip, open_live};
use nandkit_tree::large::Holes;
use nandkit_tree::pack::{PackOptions, pack_in_turn, pack_tree};
use nandkit_tree::{
    ArchiveOptions, DirectoryOptions, ExtractOptions, ExtractReport, HostClock, HostDirectory, MountLimits,
    MountedTree, Note, OrderedDirectory, OrderedOptions, TarArchive,
};
use nandkit_units::{Nanos, format_bytes};
use nandkit_vfs::path::{Follow, resolve};
use nandkit_vfs::source::{SourceTree, path as path_of};
use nandkit_vfs::{FileKind, Timestamp};
use serde_json::{Map, Value, json};

use super::extract::{OUT_BYTES, archive, directory_of, missing, report_json, summary};
use super::new_file::NewFile;
use super::{damage, finding_line, input, open, path_json, shown, tell, tree_input, verdict};
use crate::args::{QtarAction, QtarArguments, QtarCreateArguments, QtarExtractArguments};
use crate::failure::Failure;
use crate::output;

/// Least memory in bytes: room for a window and the reads beside it.
const MEMORY_MIN: u64 = 1 << 20;

/// Concurrent reads from a directory. There are more than processors, since most of them wait for
/// the disk.
const THREADS: usize = 8;

/// The wall clock, for comparison with the times of files.
const CLOCK: HostClock = HostClock {
    now: || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    },
    wait: |time| std::thread::sleep(std::time::Duration::from_nanos(time.0)),
};

/// Makes, extracts or lists a tar archive.
pub fn qtar(arguments: &QtarArguments) -> Result<(), Failure> {
    match &arguments.action {
        QtarAction::Create(arguments) => create(arguments),
        QtarAction::Extract(arguments) => extract(arguments),
        QtarAction::List { archive, json } => list(archive, *json),
    }
}

/// An archive that was made, and how its files were read.
struct Made {
    report: ExtractReport,
    /// How the files were read, as a sentence.
    way: String,
    details: Value,
    /// Whether it is a fallback that was not asked for.
    falls_back: bool,
    /// Damage found in the image.
    findings: Vec<String>,
}

fn create(arguments: &QtarCreateArguments) -> Result<(), Failure> {
    refuse(arguments)?;
    let from = &arguments.image.image;
    let mut made = if from.is_dir() {
        of_directory(arguments)?
    } else {
        match open_live(from, &arguments.image.options()).map_err(input)? {
            Some(chip) => of_chip(arguments, chip)?,
            None => of_image(arguments)?,
        }
    };
    made.report.refused.sort();
    made.report.damaged.sort();
    if made.falls_back {
        output::message(&format!("{}: {}", from.display(), made.way));
    }
    if arguments.json {
        let mut report = report_json(&made.report, &[]);
        if let Some(report) = report.as_object_mut() {
            report.insert("reading".to_owned(), made.details.take());
        }
        output::json(&report)?;
    } else if arguments.archive != Path::new("-") {
        let way = if made.falls_back { String::new() } else { format!("{}\n", made.way) };
        output::text(&format!("{}{way}", summary(&made.report)))?;
    }
    finish(arguments, &made)
}

/// Refuses unusable arguments before anything is read.
fn refuse(arguments: &QtarCreateArguments) -> Result<(), Failure> {
    let wrong = |detail: String| Err(Failure::Input(detail));
    let to_stdout = arguments.archive == Path::new("-");
    if to_stdout && arguments.json {
        return wrong("--json: the archive goes to standard output; expected a file, or no --json".to_owned());
    }
    if !to_stdout {
        NewFile::check(&arguments.archive, arguments.force, Some("--force"))?;
    }
    if arguments.memory < MEMORY_MIN {
        return wrong(format!("--memory {}: expected at least 1M", arguments.memory));
    }
    let from = &arguments.image.image;
    if !from.is_dir() {
        let exclude = arguments.exclude.first();
        let detail = |path| format!("--exclude {path}: {} is an image; expected a directory", from.display());
        return exclude.map_or(Ok(()), |path| wrong(detail(path)));
    }
    if let Some(path) = &arguments.path {
        return wrong(format!(
            "--path {path}: {} is a directory; expected its subdirectory as the argument, without --path",
            from.display()
        ));
    }
    if let Some(option) = arguments.image.options().first_given() {
        let detail = format!("`{option}`: {} is a directory; expected no option of images", from.display());
        return wrong(super::with_flags(&detail));
    }
    Ok(())
}

fn finish(arguments: &QtarCreateArguments, made: &Made) -> Result<(), Failure> {
    let list = |what: &str, notes: &[Note]| notes.iter().map(|note| format!("{what} {note}")).collect::<Vec<_>>();
    tell(&list("skipped", &made.report.skipped));
    let mut wrong = list("left out", &made.report.refused);
    wrong.extend(list("damaged", &made.report.damaged));
    wrong.extend(made.findings.iter().cloned());
    tell(&wrong);
    let what = ("one item is not in the archive unchanged", "items are not in the archive unchanged");
    verdict(&arguments.image, wrong.len(), what)
}

fn holes(arguments: &QtarCreateArguments) -> Holes {
    if arguments.sparse { Holes::Kept } else { Holes::Written }
}

fn packing(arguments: &QtarCreateArguments) -> PackOptions {
    let (xattrs, inward_links_only) = (!arguments.no_xattrs, arguments.inward_links_only);
    let piece_bytes = if arguments.image.image.is_dir() { OUT_BYTES } else { PackOptions::default().piece_bytes };
    PackOptions { holes: holes(arguments), xattrs, inward_links_only, piece_bytes }
}

/// Archives a directory of this host, in disk order.
fn of_directory(arguments: &QtarCreateArguments) -> Result<Made, Failure> {
    let exclude = arguments.exclude.iter().map(|path| path.as_bytes().to_vec()).collect();
    let directory = DirectoryOptions { exclude, no_xattrs: arguments.no_xattrs, keeps_going: true };
    if arguments.one_by_one {
        let tree = HostDirectory::open(&arguments.image.image, &directory).map_err(tree_input)?;
        let report = archive(&arguments.archive, arguments.force, &|out| pack_tree(&tree, out, &packing(arguments)))?;
        return Ok(one_by_one(arguments, with_notes(report, tree.left_out(), &[]), None, Vec::new()));
    }
    let options =
        OrderedOptions { directory, memory: arguments.memory, threads: THREADS, holes: arguments.sparse, clock: CLOCK };
    let tree = OrderedDirectory::open(&arguments.image.image, options).map_err(tree_input)?;
    let pack = |out: &mut dyn io::Write| pack_in_turn(&tree, &|node| tree.turn(node), out, &packing(arguments));
    let mut report = archive(&arguments.archive, arguments.force, &pack)?;
    report.refused.extend_from_slice(tree.left_out());
    let counted = tree.counters();
    let order = match counted.placed {
        placed if placed == counted.ahead => "of their physical blocks".to_owned(),
        0 => "of their inodes".to_owned(),
        placed => format!("of their physical blocks, known for {placed} of them"),
    };
    let way = format!("{} files were read ahead in the order {order}, {} streamed", counted.ahead, counted.streamed);
    let details = json!({
        "way": "directory",
        "files_ahead": counted.ahead,
        "files_by_block": counted.placed,
        "files_streamed": counted.streamed,
        "files_renewed": counted.renewed,
        "read_again": counted.again,
    });
    Ok(Made { report, way, details, falls_back: false, findings: Vec::new() })
}

/// The requested part of a volume's tree.
fn mounted<'a>(
    arguments: &QtarCreateArguments,
    fs: &'a dyn nandkit_vfs::FileSystem,
) -> Result<MountedTree<'a>, Failure> {
    let path = arguments.path.as_deref().unwrap_or("/").as_bytes();
    let failed = |error: nandkit_vfs::FsError| {
        Failure::Input(format!("{}: {}: {error}", arguments.image.image.display(), shown(path)))
    };
    let start = resolve(fs, path, Follow::Last).map_err(failed)?;
    let limits = MountLimits { holes: holes(arguments), ..MountLimits::default() };
    MountedTree::read(fs, start, &limits).map_err(failed)
}

fn with_notes(mut report: ExtractReport, refused: &[Note], damaged: &[Note]) -> ExtractReport {
    report.refused.extend_from_slice(refused);
    report.damaged.extend_from_slice(damaged);
    report
}

/// Archives the volume of an emulated chip, through the remap library if its device can remap.
fn of_chip(arguments: &QtarCreateArguments, mut chip: LiveChip) -> Result<Made, Failure> {
    let (clock, requests) = (chip.clock.clone(), chip.requests.clone());
    let began = (clock.now(), requests.snapshot());
    let tree = mounted(arguments, chip.fs())?;
    let nodes = tree.nodes().to_vec();
    let inodes: Vec<_> = (0..nodes.len()).filter_map(|node| tree.inode(node)).collect();
    let (refused, damaged) = (tree.refused().to_vec(), tree.damaged().to_vec());
    drop(tree);
    let limits = Limits { memory: arguments.memory as usize, ..Limits::default() };
    let failed = |error: nandkit_vfs::FsError| Failure::Input(format!("{}: {error}", arguments.image.image.display()));
    let can_remap = chip.fs().changes().is_some_and(|changes| changes.adopt().is_some());
    if arguments.one_by_one || !can_remap {
        let tree = mounted(arguments, chip.fs())?;
        let report = archive(&arguments.archive, arguments.force, &|out| pack_tree(&tree, out, &packing(arguments)))?;
        drop(tree);
        let device = Device::since(&began, clock.now(), &requests.snapshot());
        return Ok(one_by_one(arguments, with_notes(report, &refused, &damaged), Some(device), Vec::new()));
    }
    let tree = RemappedTree::new(chip.fs(), nodes, &inodes, limits).map_err(failed)?;
    let pack = |out: &mut dyn io::Write| pack_in_turn(&tree, &|node| tree.begin(node), out, &packing(arguments));
    let report = archive(&arguments.archive, arguments.force, &pack)?;
    let counted = tree.delete().map_err(failed)?;
    let device = Device::since(&began, clock.now(), &requests.snapshot());
    let way = format!(
        "{} files, {}, were joined into one in {} groups and read in {} pieces, {} files were read separately; {device}",
        counted.files_shared,
        format_bytes(counted.bytes_shared),
        counted.groups,
        counted.windows,
        counted.files_direct
    );
    let details = json!({
        "way": "remap",
        "files_shared": counted.files_shared,
        "bytes_shared": counted.bytes_shared,
        "groups": counted.groups,
        "refusals": counted.refusals,
        "windows": counted.windows,
        "files_direct": counted.files_direct,
        "device": device.json(),
    });
    let report = with_notes(report, &refused, &damaged);
    Ok(Made { report, way, details, falls_back: false, findings: Vec::new() })
}

/// Archives an image, whose device cannot remap.
fn of_image(arguments: &QtarCreateArguments) -> Result<Made, Failure> {
    let image = open(&arguments.image)?;
    let tree = mounted(arguments, image.fs())?;
    let report = archive(&arguments.archive, arguments.force, &|out| pack_tree(&tree, out, &packing(arguments)))?;
    let findings = damage(&image, &std::collections::BTreeMap::new());
    let findings = findings.iter().filter(|finding| !finding.is_harmless());
    let findings = findings.map(|finding| format!("damaged {}", finding_line(finding))).collect();
    Ok(one_by_one(arguments, with_notes(report, tree.refused(), tree.damaged()), None, findings))
}

/// The result for files that were read one by one, as tar does; it is reported as a fallback unless
/// --one-by-one asked for it.
fn one_by_one(
    arguments: &QtarCreateArguments,
    report: ExtractReport,
    device: Option<Device>,
    findings: Vec<String>,
) -> Made {
    let falls_back = !arguments.one_by_one;
    let why = if falls_back { "this device cannot remap: " } else { "" };
    let mut way = format!("{why}the files were read one by one, in requests of up to 1 MiB");
    let mut details = json!({"way": "one-by-one"});
    if let (Some(device), Some(details)) = (device, details.as_object_mut()) {
        way += &format!("; {device}");
        details.insert("device".to_owned(), device.json());
    }
    Made { report, way, details, falls_back, findings }
}

/// Requests and time of an emulated device.
struct Device {
    time: Nanos,
    reads: u64,
    remaps: u64,
}

impl Device {
    fn since(began: &(Nanos, DeviceSnapshot), now: Nanos, after: &DeviceSnapshot) -> Self {
        let done = after - &began.1;
        let count = |kind| done.total(kind).requests;
        Self { time: now.since(began.0), reads: count(RequestKind::Read), remaps: count(RequestKind::Remap) }
    }

    fn json(&self) -> Value {
        json!({"time_ns": self.time.get(), "reads": self.reads, "remap_commands": self.remaps})
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.time.as_secs_f64();
        write!(f, "{seconds:.3} s of device time, {} reads, {} remap commands", self.reads, self.remaps)
    }
}

/// Reads an archive from a file, or for `-` from standard input.
fn read(from: &Path, no_xattrs: bool) -> Result<TarArchive, Failure> {
    let options = ArchiveOptions { no_xattrs, ..ArchiveOptions::default() };
    let read = if from == Path::new("-") {
        TarArchive::read(io::stdin().lock(), &options)
    } else {
        TarArchive::open(from, &options)
    };
    read.map_err(|error| Failure::Input(format!("{}: {error}; expected a tar archive", from.display())))
}

fn extract(arguments: &QtarExtractArguments) -> Result<(), Failure> {
    super::extract::refuse_unusable(&arguments.directory, arguments.merge)?;
    let tree = read(&arguments.archive, arguments.no_xattrs)?;
    let options = ExtractOptions {
        merge: arguments.merge,
        owners: arguments.no_owners.then_some(false),
        xattrs: !arguments.no_xattrs,
        inward_links_only: arguments.inward_links_only,
        ..ExtractOptions::default()
    };
    let report = directory_of(&tree, &arguments.directory, &options)?;
    if arguments.json {
        output::json(&report_json(&report, &[]))?;
    } else {
        output::text(&summary(&report))?;
    }
    let list = |what: &str, notes: &[Note]| notes.iter().map(|note| format!("{what} {note}")).collect::<Vec<_>>();
    tell(&list("skipped", &report.skipped));
    let mut wrong = list("refused", &report.refused);
    wrong.extend(list("damaged", &report.damaged));
    tell(&wrong);
    match wrong.len() + missing(&tree, &report) {
        0 => Ok(()),
        count => Err(Failure::Check(format!("{}: {count} items could not be extracted", arguments.archive.display()))),
    }
}

fn list(from: &Path, as_json: bool) -> Result<(), Failure> {
    let tree = read(from, true)?;
    let nodes = tree.nodes();
    if !as_json {
        let name = |(index, node): (usize, &nandkit_vfs::source::SourceNode)| {
            let slash = if node.kind == FileKind::Directory { if index == 0 { "./" } else { "/" } } else { "" };
            format!("{}{slash}\n", shown(&path_of(nodes, index)))
        };
        return output::text(&nodes.iter().enumerate().map(name).collect::<String>());
    }
    let entry = |(index, node): (usize, &nandkit_vfs::source::SourceNode)| {
        let mut map = Map::new();
        path_json(&path_of(nodes, index), &mut map);
        map.insert("kind".to_owned(), node.kind.to_string().into());
        map.insert("size".to_owned(), node.size.into());
        Value::Object(map)
    };
    output::json(&Value::Array(nodes.iter().enumerate().map(entry).collect()))
}
