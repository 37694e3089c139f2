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
pub use xattrs::getfattr;

use crate::args::ImageArguments;
use crate::failure::Failure;
use crate::output;

/// Findings that are told one by one on standard error; `nandkit check` tells all.
const TOLD_MAX: usize = 20;

/// The message begins with the path: the key in a spec would say less.
pub fn input(error: StackError) -> Failure {
    Failure::Input(with_flags(&error.detail))
}

/// Keys of options, as the library's messages have them in backticks, and their flags.
const FLAGS: [(&str, &str); 24] = [
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
];

/// A message of the library with its options as the command line calls them.
pub fn with_flags(message: &str) -> String {
    FLAGS.iter().fold(message.to_owned(), |text, (key, flag)| text.replace(&format!("`{key}`"), flag))
}

fn tree_input(error: TreeError) -> Failure {
    Failure::Input(error.to_string())
}

/// Opens the image, and says what people should know about how.
pub fn open(arguments: &ImageArguments) -> Result<OpenImage, Failure> {
    open_as(arguments, &arguments.options())
}

/// The same, as [`ImageArguments::options`] say it or a little otherwise.
pub fn open_as(arguments: &ImageArguments, options: &OpenOptions) -> Result<OpenImage, Failure> {
    let image = image::open(&arguments.image, options).map_err(input)?;
    tell_notes(&arguments.image, &image.notes);
    Ok(image)
}

/// What people should know about an image, a line each.
pub fn tell_notes(path: &Path, notes: &[String]) {
    for note in notes {
        output::message(&format!("{}: {}", path.display(), with_flags(note)));
    }
}

/// A path or name of an image without a leading `/`, with what steers a terminal escaped.
fn shown(path: &[u8]) -> String {
    show(path).split_off(1)
}

/// A path for JSON: text, and where that is not all the bytes themselves in hexadecimal.
pub fn path_json(path: &[u8], into: &mut serde_json::Map<String, Value>) {
    into.insert("path".to_owned(), format!("/{}", String::from_utf8_lossy(path)).into());
    if std::str::from_utf8(path).is_err() {
        let hex: String = path.iter().map(|byte| format!("{byte:02x}")).collect();
        into.insert("path_hex".to_owned(), hex.into());
    }
}

/// One line on a finding: where, what, of which files.
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

/// What was found damaged, with the paths that lead to the inodes concerned.
fn damage(image: &OpenImage, paths: &BTreeMap<InodeNumber, Vec<Vec<u8>>>) -> Vec<Finding> {
    // Of an inode with a long path there may be very many: the finding names the inode in any case.
    let mut budget = PathBudget::default();
    let with_paths = |(inode, finding): (Option<InodeNumber>, Finding)| {
        // A name that is lost is known to its finding alone.
        if !finding.paths.is_empty() {
            return finding;
        }
        let paths = inode.and_then(|inode| paths.get(&inode)).into_iter().flatten();
        let paths = paths.filter(|path| budget.take(path.len() as u64)).cloned().collect();
        Finding { paths, ..finding }
    };
    image.damage().into_iter().map(with_paths).collect()
}

/// What mounting and all reading until now witness as lost, with the inode that it belongs to where
/// that is known. Every command that reads asks here, so that all judge alike.
fn witnessed(image: &OpenImage) -> Vec<(Option<InodeNumber>, Finding)> {
    image.damage().into_iter().filter(|(_, finding)| !finding.is_harmless()).collect()
}

/// The failure for a path that is not there. Where names are lost it may be among them, and the
/// image is to blame: exit status 1.
fn absent(arguments: &ImageArguments, image: &OpenImage, failure: Failure) -> Failure {
    let witnessed: Vec<Finding> = witnessed(image).into_iter().map(|(_, finding)| finding).collect();
    if witnessed.is_empty() {
        return failure;
    }
    tell(&witnessed.iter().map(finding_line).collect::<Vec<_>>());
    tell_way_out(arguments, &witnessed);
    let what = failure.message().unwrap_or_default();
    Failure::Check(format!("{what}; the image is damaged, and the path may be among what is lost"))
}

/// Says how what is whole and has no path can be had, where there is any.
fn tell_way_out<'a>(arguments: &ImageArguments, findings: impl IntoIterator<Item = &'a Finding>) {
    if findings.into_iter().any(|finding| finding.kind == ORPHAN) {
        output::message(&format!(
            "what has no path is in lost+found of the image OUT after `nandkit check --repair OUT {}`",
            arguments.image.display()
        ));
    }
}

/// Tells findings on standard error, up to a number.
fn tell(lines: &[String]) {
    for line in lines.iter().take(TOLD_MAX) {
        output::message(line);
    }
    if lines.len() > TOLD_MAX {
        output::message(&format!("and {} more", lines.len() - TOLD_MAX));
    }
}

/// Whether changes may make it worse: of bytes that are nowhere nothing more can go.
pub fn is_in_danger(damage: &[Finding]) -> bool {
    damage.iter().any(|finding| finding.kind != MISSING_DATA)
}

/// Tells what is damaged.
pub fn tell_damage(damage: &[Finding]) {
    tell(&damage.iter().map(|finding| format!("damaged {}", finding_line(finding))).collect::<Vec<_>>());
}

/// Exit status 1 with the number of what is wrong; success where that is 0.
fn verdict(arguments: &ImageArguments, count: usize, what: (&str, &str)) -> Result<(), Failure> {
    let path = arguments.image.display();
    match count {
        0 => Ok(()),
        1 => Err(Failure::Check(format!("{path}: {}", what.0))),
        count => Err(Failure::Check(format!("{path}: {count} {}", what.1))),
    }
}
