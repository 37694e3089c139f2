//! `nandkit check`

use std::path::Path;

use nandkit_stack::image::{self, Checked, Finding, MISSING_DATA, OpenOptions, Repaired};
use nandkit_units::format_bytes;
use nandkit_vfs::FileKind;
use nandkit_vfs::path::{Next, Step, walk};
use serde_json::{Value, json};

use super::new_file::NewFile;
use super::{finding_json, finding_line, input, verdict};
use crate::args::CheckArguments;
use crate::failure::Failure;
use crate::output;

/// Largest number of findings about a repaired image that are listed.
const LEFT_TOLD: usize = 20;

/// Checks the file system of an image.
pub fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    if let Some(target) = &arguments.repair {
        return repair(arguments, target);
    }
    let checked = image::check(&arguments.image.image, &arguments.image.options()).map_err(input)?;
    tell_notes(arguments, &checked);
    report(arguments, &checked, None)
}

fn tell_notes(arguments: &CheckArguments, checked: &Checked) {
    super::tell_notes(&arguments.image.image, &checked.report.notes);
}

/// Writes a repaired image. Exit status 1 if anything was damaged, since data may be lost.
fn repair(arguments: &CheckArguments, target: &Path) -> Result<(), Failure> {
    NewFile::check(target, false, None)?;
    let repaired = image::repair(&arguments.image.image, &arguments.image.options()).map_err(input)?;
    let mut file = NewFile::begin(target)?;
    let written = repaired.image.write_to(file.file());
    written.map_err(|error| Failure::Input(format!("{}: cannot write: {error}", target.display())))?;
    file.keep(false)?;
    tell_notes(arguments, &repaired.checked);
    let held = HeldByRepaired::of(arguments, target);
    let verdict = report(arguments, &repaired.checked, Some((&repaired, &held)));
    if !arguments.json {
        output::text(&match held {
            Ok(held) => held.text(target),
            Err(error) => format!("{} cannot be opened: {error}\n", target.display()),
        })?;
    }
    verdict
}

/// The content of a repaired image, and the damage that no repair can undo.
struct HeldByRepaired {
    files: u64,
    directories: u64,
    content_bytes: u64,
    left: Vec<Finding>,
}

impl HeldByRepaired {
    fn of(arguments: &CheckArguments, target: &Path) -> Result<Self, String> {
        let options = OpenOptions { overlay: None, ..arguments.image.options() };
        let Checked { report, .. } = image::check(target, &options).map_err(|error| error.detail)?;
        let opened = image::open(target, &options).map_err(|error| error.detail)?;
        let mut content_bytes = 0_u64;
        let fs = opened.fs();
        let walked = walk(fs, fs.root(), &mut |step| {
            if let Step::Entry { attributes, .. } = step
                && attributes.kind == FileKind::Regular
            {
                content_bytes = content_bytes.saturating_add(attributes.size);
            }
            Ok(Next::Enter)
        });
        walked.map_err(|error| error.to_string())?;
        let (files, directories) = (report.count("files"), report.count("directories"));
        let left = report.findings.into_iter().filter(|finding| !finding.is_harmless()).collect();
        Ok(Self { files, directories, content_bytes, left })
    }

    /// Whether only file data is missing.
    fn is_sound(&self) -> bool {
        self.left.iter().all(|finding| finding.kind == MISSING_DATA)
    }

    fn text(&self, target: &Path) -> String {
        let mut text = format!(
            "{} holds {} files in {} directories, {} of content",
            target.display(),
            self.files,
            self.directories,
            format_bytes(self.content_bytes)
        );
        text += match (self.left.as_slice(), self.is_sound()) {
            ([], _) => "; no damage found\n",
            (_, true) => "; its structure is sound, but these data are lost:\n",
            _ => "; remaining damage:\n",
        };
        text.extend(self.left.iter().take(LEFT_TOLD).map(|finding| format!("  {}\n", finding_line(finding))));
        if self.left.len() > LEFT_TOLD {
            text += &format!("  and {} more\n", self.left.len() - LEFT_TOLD);
        }
        text
    }

    fn json(&self) -> Value {
        let left: Vec<Value> = self.left.iter().map(finding_json).collect();
        json!({
            "files": self.files, "directories": self.directories, "content_bytes": self.content_bytes,
            "sound": self.is_sound(), "findings": left,
        })
    }
}

/// A repair with the content of the repaired image, or with the reason why that cannot be opened.
type RepairTold<'a> = (&'a Repaired, &'a Result<HeldByRepaired, String>);

fn report(arguments: &CheckArguments, checked: &Checked, told: Option<RepairTold<'_>>) -> Result<(), Failure> {
    let repaired = told.map(|(repaired, _)| repaired);
    if arguments.json {
        let findings: Vec<Value> = checked.report.findings.iter().map(finding_json).collect();
        let mut value = json!({"format": checked.format, "findings": findings});
        if let Some(map) = value.as_object_mut() {
            map.extend(checked.report.counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())));
        }
        if let (Some(map), Some((repaired, held))) = (value.as_object_mut(), told) {
            let dropped: Vec<Value> = repaired.dropped.iter().map(finding_json).collect();
            let mended: Vec<Value> = repaired.mended.iter().map(finding_json).collect();
            let remaining: Vec<Value> = repaired.remaining.iter().map(finding_json).collect();
            let mut of_repair = json!({
                "nodes_kept": repaired.kept, "mended": mended, "dropped": dropped, "remaining": remaining,
            });
            let (key, end) = match held {
                Ok(held) => ("holds", held.json()),
                Err(error) => ("cannot_be_opened", error.as_str().into()),
            };
            of_repair.as_object_mut().map(|map| map.insert(key.to_owned(), end));
            map.insert("repaired".to_owned(), of_repair);
        }
        output::json(&value)?;
    } else {
        let mut text: String =
            checked.report.findings.iter().map(|finding| format!("{}\n", finding_line(finding))).collect();
        let count = |name: &str| checked.report.count(name);
        text += &format!("{} files in {} directories", count("files"), count("directories"));
        let rest = checked.report.counts.iter().filter(|(name, _)| !matches!(*name, "files" | "directories"));
        let rest: Vec<String> = rest.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
        text += &format!("; {}\n", rest.join(", "));
        if let Some(repaired) = repaired {
            text += &format!("kept {} nodes, left out {}\n", repaired.kept, repaired.dropped.len());
            text.extend(repaired.mended.iter().map(|mended| format!("put right: {}\n", finding_line(mended))));
            text.extend(repaired.remaining.iter().map(|left| format!("still wrong: {}\n", finding_line(left))));
            text.extend(repaired.dropped.iter().map(|dropped| format!("left out: {}\n", finding_line(dropped))));
        }
        output::text(&text)?;
    }
    // Intact items that found no place in the repaired image are lost as well.
    let left_out =
        repaired.map_or(0, |repaired| repaired.dropped.iter().filter(|dropped| dropped.kind == image::NO_ROOM).count());
    let damaged = checked.report.findings.iter().filter(|finding| !finding.is_harmless()).count() + left_out;
    let is_missing_alone = repaired.is_none()
        && checked.report.findings.iter().all(|finding| finding.is_harmless() || finding.kind == MISSING_DATA);
    if is_missing_alone {
        let what = (
            "data of one file is missing; the structure is sound",
            "pieces of file data are missing; the structure is sound",
        );
        return verdict(&arguments.image, damaged, what);
    }
    verdict(&arguments.image, damaged, ("one problem in the volume", "problems in the volume"))
}
