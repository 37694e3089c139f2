//! `nandkit check`

use std::path::Path;

use nandkit_stack::image::{self, Checked, Repaired};
use serde_json::{Value, json};

use super::new_file::NewFile;
use super::{finding_json, finding_line, input, verdict};
use crate::args::CheckArguments;
use crate::failure::Failure;
use crate::output;

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

/// Writes an image without what is provably bad. Exit status 1 where something was: the file may have lost what it held.
fn repair(arguments: &CheckArguments, target: &Path) -> Result<(), Failure> {
    NewFile::check(target, false, None)?;
    let repaired = image::repair(&arguments.image.image, &arguments.image.options()).map_err(input)?;
    let mut file = NewFile::begin(target)?;
    let written = repaired.image.write_to(file.file());
    written.map_err(|error| Failure::Input(format!("{}: cannot write: {error}", target.display())))?;
    file.keep(false)?;
    tell_notes(arguments, &repaired.checked);
    report(arguments, &repaired.checked, Some(&repaired))
}

fn report(arguments: &CheckArguments, checked: &Checked, repaired: Option<&Repaired>) -> Result<(), Failure> {
    if arguments.json {
        let findings: Vec<Value> = checked.report.findings.iter().map(finding_json).collect();
        let mut value = json!({"format": checked.format, "findings": findings});
        if let Some(map) = value.as_object_mut() {
            map.extend(checked.report.counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())));
        }
        if let (Some(map), Some(repaired)) = (value.as_object_mut(), repaired) {
            let dropped: Vec<Value> = repaired.dropped.iter().map(finding_json).collect();
            let mended: Vec<Value> = repaired.mended.iter().map(finding_json).collect();
            let remaining: Vec<Value> = repaired.remaining.iter().map(finding_json).collect();
            map.insert(
                "repaired".to_owned(),
                json!({"nodes_kept": repaired.kept, "mended": mended, "dropped": dropped, "remaining": remaining}),
            );
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
    // What is whole and finds no place is lost as well.
    let left_out =
        repaired.map_or(0, |repaired| repaired.dropped.iter().filter(|dropped| dropped.kind == image::NO_ROOM).count());
    let damaged = checked.report.findings.iter().filter(|finding| !finding.is_harmless()).count() + left_out;
    verdict(&arguments.image, damaged, ("something is wrong with the volume", "things are wrong with the volume"))
}
