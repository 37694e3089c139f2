//! `nandkit rescue`

use std::collections::BTreeMap;

use nandkit_stack::image::{self, RescuedFile, RescuedImage};
use nandkit_tree::{ExtractOptions, ExtractReport, MountLimits, MountedTree, Note};
use nandkit_vfs::InodeNumber;
use nandkit_vfs::source::{SourceTree, path as path_of};
use serde_json::{Map, Value, json};

use super::extract::{directory_of, missing, refuse_unusable, report_json, summary};
use super::{input, path_json, shown, tell, tell_notes, verdict};
use crate::args::RescueArguments;
use crate::failure::Failure;
use crate::output;

/// A rescued file, and the paths it got.
struct PlacedFile {
    file: RescuedFile,
    paths: Vec<Vec<u8>>,
}

impl PlacedFile {
    /// A line about what is missing or uncertain; `None` for a certain file.
    fn line(&self) -> Option<String> {
        let doubts: Vec<&str> = self.file.doubts.iter().map(|doubt| doubt.detail.as_str()).collect();
        let path = self.paths.first().map_or_else(|| format!("inode {}", self.file.inode.0), |path| shown(path));
        (!doubts.is_empty()).then(|| format!("unsure {path}: {}", doubts.join("; ")))
    }

    fn json(&self) -> Value {
        let path = |path: &Vec<u8>| {
            let mut map = Map::new();
            path_json(path, &mut map);
            Value::Object(map)
        };
        let doubts = self.file.doubts.iter().map(|doubt| json!({"kind": doubt.kind, "detail": doubt.detail}));
        json!({
            "names": self.paths.iter().map(path).collect::<Vec<_>>(),
            "inode": self.file.inode.0,
            "kind": self.file.kind.name(),
            "size": self.file.size,
            "sure": self.file.doubts.is_empty(),
            "doubts": doubts.collect::<Vec<_>>(),
        })
    }
}

/// Writes the rescued files of a volume into a directory.
pub fn rescue(arguments: &RescueArguments) -> Result<(), Failure> {
    refuse_unusable(&arguments.directory, false)?;
    let rescued = image::rescue(&arguments.image.image, &arguments.image.options()).map_err(input)?;
    tell_notes(&arguments.image.image, &rescued.notes);
    let fs = rescued.fs();
    let failed = |error| Failure::Input(format!("{}: {error}", arguments.image.image.display()));
    let tree = MountedTree::read(fs, fs.root(), &MountLimits::default()).map_err(failed)?;
    let options = ExtractOptions {
        owners: arguments.no_owners.then_some(false),
        xattrs: !arguments.no_xattrs,
        ..ExtractOptions::default()
    };
    let mut report = directory_of(&tree, &arguments.directory, &options)?;
    let absent = missing(&tree, &report);
    report.refused.extend_from_slice(tree.refused());
    report.damaged.extend_from_slice(tree.damaged());
    report.refused.sort();
    report.damaged.sort();
    let files = placed(&rescued, &tree);
    tell_all(arguments, &rescued, &files, &report)?;
    let unsure = files.iter().filter(|file| !file.file.doubts.is_empty()).count();
    let wrong = unsure + absent + report.refused.len() + report.damaged.len();
    verdict(&arguments.image, wrong, ("one file is missing or uncertain", "files are missing or uncertain"))
}

/// All rescued files with their paths in the directory.
fn placed(rescued: &RescuedImage, tree: &MountedTree<'_>) -> Vec<PlacedFile> {
    let mut paths: BTreeMap<InodeNumber, Vec<Vec<u8>>> = BTreeMap::new();
    for index in 0..tree.nodes().len() {
        if let Some(inode) = tree.inode(index) {
            paths.entry(inode).or_default().push(path_of(tree.nodes(), index));
        }
    }
    let place = |file: RescuedFile| PlacedFile { paths: paths.remove(&file.inode).unwrap_or_default(), file };
    rescued.files().into_iter().map(place).collect()
}

fn tell_all(
    arguments: &RescueArguments,
    rescued: &RescuedImage,
    files: &[PlacedFile],
    report: &ExtractReport,
) -> Result<(), Failure> {
    let sure = files.iter().filter(|file| file.file.doubts.is_empty()).count();
    if arguments.json {
        let value = json!({
            "format": rescued.format,
            "sure": sure,
            "unsure": files.len() - sure,
            "files": files.iter().map(PlacedFile::json).collect::<Vec<_>>(),
            "extracted": report_json(report, &[]),
        });
        output::json(&value)?;
    } else {
        let lines: String = files.iter().filter_map(PlacedFile::line).map(|line| line + "\n").collect();
        let told = format!("found {} inodes: {sure} sure, {} unsure\n", files.len(), files.len() - sure);
        output::text(&(lines + &told + &summary(report)))?;
    }
    let list = |what: &str, notes: &[Note]| notes.iter().map(|note| format!("{what} {note}")).collect::<Vec<_>>();
    tell(&list("skipped", &report.skipped));
    tell(&list("refused", &report.refused));
    tell(&list("damaged", &report.damaged));
    Ok(())
}
