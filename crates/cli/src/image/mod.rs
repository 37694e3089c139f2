//! The commands that open, make and check images.

mod cat;
mod change;
mod check;
mod deleted;
mod export;
mod extents;
mod extract;
mod get;
mod info;
mod ls;
mod mkfs;
pub mod new_file;
mod put;
mod qtar;
mod rescue;
mod resize;
mod segments;
mod source;
mod time;
mod ubi;
mod xattrs;

use std::collections::BTreeMap;
use std::path::Path;

use nandkit_stack::StackError;
use nandkit_stack::image::{self, Finding, MISSING_DATA, ORPHAN, OpenImage, OpenOptions};
use nandkit_tree::{TreeError, show};
use nandkit_vfs::InodeNumber;
use nandkit_vfs::path::PathBudget;
use serde_json::{Value, json};

pub use cat::cat;
pub use change::{chmod, chown, ln, mkdir, mv, now, rm, setfattr};
pub use check::check;
pub use export::export;
pub use extract::extract;
pub use get::get;
pub use info::info;
pub use ls::ls;
pub use mkfs::mkfs;
pub use put::put;
pub use qtar::qtar;
pub use rescue::rescue;
pub use resize::resize;
pub use ubi::ubi;
pub use xattrs::getfattr;

use crate::args::ImageArguments;
use crate::failure::Failure;
use crate::output;

/// Largest number of findings that a command prints on standard error; `nandkit check` prints all.
const TOLD_MAX: usize = 20;

/// The failure of the stack's error. The message begins with the path, not with the key of a spec.
pub fn input(error: StackError) -> Failure {
    Failure::Input(with_flags(&error.detail))
}

/// Option names that the library's messages hold in backticks, and their flags.
const FLAGS: [(&str, &str); 25] = [
    ("bad_marks", "--bad-marks"),
    ("byte_order", "--endian"),
    ("compression", "--compress"),
    ("compressions", "--compress"),
    ("device", "--device"),
    ("devices", "--devices"),
    ("encoding", "--encoding"),
    ("erase_size", "--erase-size"),
    ("extents", "--extents"),
    ("features", "--features"),
    ("join", "--join"),
    ("missing_blocks", "--missing-blocks"),
    ("no_recovery", "--no-recovery"),
    ("offset", "--offset"),
    ("oob", "--oob"),
    ("oob_size", "--oob-size"),
    ("overlay", "--overlay"),
    ("page_size", "--page-size"),
    ("region", "--region"),
    ("repair", "--repair"),
    ("segments", "--segments"),
    ("size", "--size"),
    ("swap", "--swap"),
    ("uuid", "--uuid"),
    ("volume", "--volume"),
];

/// A message of the library with the flags of the command line instead of option names.
pub fn with_flags(message: &str) -> String {
    FLAGS.iter().fold(message.to_owned(), |text, (key, flag)| text.replace(&format!("`{key}`"), flag))
}

fn tree_input(error: TreeError) -> Failure {
    Failure::Input(error.to_string())
}

/// Opens the image with the options of its arguments, and prints notes about it.
pub fn open(arguments: &ImageArguments) -> Result<OpenImage, Failure> {
    open_as(arguments, &arguments.options())
}

/// Opens the image with these options, usually [`ImageArguments::options`] with changes.
pub fn open_as(arguments: &ImageArguments, options: &OpenOptions) -> Result<OpenImage, Failure> {
    let image = image::open(&arguments.image, options).map_err(input)?;
    tell_notes(&arguments.image, &image.notes);
    Ok(image)
}

/// Prints the notes about an image, one line each.
pub fn tell_notes(path: &Path, notes: &[String]) {
    for note in notes {
        output::message(&format!("{}: {}", path.display(), with_flags(note)));
    }
}

/// A path or name of an image without a leading `/`, with terminal control characters escaped.
fn shown(path: &[u8]) -> String {
    show(path).split_off(1)
}

/// Adds a path to JSON: as text and, if that loses information, also as bytes in hexadecimal.
pub fn path_json(path: &[u8], into: &mut serde_json::Map<String, Value>) {
    into.insert("path".to_owned(), format!("/{}", String::from_utf8_lossy(path)).into());
    if std::str::from_utf8(path).is_err() {
        let hex: String = path.iter().map(|byte| format!("{byte:02x}")).collect();
        into.insert("path_hex".to_owned(), hex.into());
    }
}

/// A finding as one line: where, what, and which files are affected.
fn finding_line(finding: &Finding) -> String {
    let at = finding.offset.map_or_else(String::new, |offset| format!("{offset:#010x}: "));
    let harmless = if finding.is_harmless() { "harmless " } else { "" };
    let files: Vec<String> = finding.paths.iter().map(|path| show(path)).collect();
    let files = if files.is_empty() { String::new() } else { format!(" ({})", files.join(", ")) };
    format!("{at}{harmless}{}: {}{files}", finding.kind, finding.detail)
}

fn finding_json(finding: &Finding) -> Value {
    let files: Vec<Value> = finding
        .paths
        .iter()
        .map(|path| {
            let mut file = serde_json::Map::new();
            path_json(path, &mut file);
            Value::Object(file)
        })
        .collect();
    let mut value =
        json!({"kind": finding.kind, "detail": finding.detail, "files": files, "harmless": finding.is_harmless()});
    if let (Some(offset), Some(map)) = (finding.offset, value.as_object_mut()) {
        map.insert("offset".to_owned(), offset.into());
    }
    value
}

/// The damage found, with the paths of the affected inodes.
fn damage(image: &OpenImage, paths: &BTreeMap<InodeNumber, Vec<Vec<u8>>>) -> Vec<Finding> {
    // An inode with long paths may have very many of them; the finding names the inode in any case.
    let mut budget = PathBudget::default();
    let with_paths = |(inode, finding): (Option<InodeNumber>, Finding)| {
        // Only the finding itself knows a lost name.
        if !finding.paths.is_empty() {
            return finding;
        }
        let paths = inode.and_then(|inode| paths.get(&inode)).into_iter().flatten();
        let paths = paths.filter(|path| budget.take(path.len() as u64)).cloned().collect();
        Finding { paths, ..finding }
    };
    image.damage().into_iter().map(with_paths).collect()
}

/// The losses seen by mounting and by all reads so far, with the inode if it is known. Every
/// command that reads uses this, so that all judge alike.
pub fn witnessed(image: &OpenImage) -> Vec<(Option<InodeNumber>, Finding)> {
    image.damage().into_iter().filter(|(_, finding)| !finding.is_harmless()).collect()
}

/// The failure for a missing path. If names are lost, the path may be one of them: then the image
/// is at fault and the exit status is 1.
fn absent(arguments: &ImageArguments, image: &OpenImage, failure: Failure) -> Failure {
    let witnessed: Vec<Finding> = witnessed(image).into_iter().map(|(_, finding)| finding).collect();
    if witnessed.is_empty() {
        return failure;
    }
    tell(&witnessed.iter().map(finding_line).collect::<Vec<_>>());
    tell_way_out(arguments, &witnessed);
    let what = failure.message().unwrap_or_default();
    Failure::Check(format!("{what}; the image is damaged, and the path may be among the lost names"))
}

/// Prints how to get intact files that have no path, if there are any.
fn tell_way_out<'a>(arguments: &ImageArguments, findings: impl IntoIterator<Item = &'a Finding>) {
    if findings.into_iter().any(|finding| finding.kind == ORPHAN) {
        output::message(&format!(
            "`nandkit check --repair OUT {}` writes an image OUT that has files without a path in lost+found",
            arguments.image.display()
        ));
    }
}

/// Prints findings on standard error, at most [`TOLD_MAX`].
fn tell(lines: &[String]) {
    for line in lines.iter().take(TOLD_MAX) {
        output::message(line);
    }
    if lines.len() > TOLD_MAX {
        output::message(&format!("and {} more", lines.len() - TOLD_MAX));
    }
}

/// Whether changes may make the damage worse. Missing data cannot get worse.
pub fn is_in_danger(damage: &[Finding]) -> bool {
    damage.iter().any(|finding| finding.kind != MISSING_DATA)
}

/// Prints the damage.
pub fn tell_damage(damage: &[Finding]) {
    tell(&damage.iter().map(|finding| format!("damaged {}", finding_line(finding))).collect::<Vec<_>>());
}

/// Exit status 1 and a message with the number of problems; success if there are none.
fn verdict(arguments: &ImageArguments, count: usize, what: (&str, &str)) -> Result<(), Failure> {
    let path = arguments.image.display();
    match count {
        0 => Ok(()),
        1 => Err(Failure::Check(format!("{path}: {}", what.0))),
        count => Err(Failure::Check(format!("{path}: {count} {}", what.1))),
    }
}
