//! `nandkit overlay`: applies, discards or lists the changes in an overlay file.

use std::collections::BTreeMap;
use std::path::Path;

use nandkit_stack::StackError;
use nandkit_stack::image::{apply_overlay, discard_overlay};
use nandkit_units::format_bytes;
use nandkit_vfs::path::{CompareOptions, Difference, DifferenceKind, compare_trees};
use nandkit_vfs::{FileSystem, FsError};
use serde_json::{Map, Value};

use crate::args::{OverlayAction, OverlayArguments};
use crate::failure::Failure;
use crate::image as images;
use crate::output;

/// Largest number of differences that are listed.
const DIFFERENCES_MAX: usize = 100_000;

/// Applies, discards or lists the changes of an overlay.
pub fn overlay(arguments: &OverlayArguments) -> Result<(), Failure> {
    match &arguments.action {
        OverlayAction::Apply { image, overlay } => {
            let bytes = apply_overlay(image, overlay).map_err(failed)?;
            output::message(&format!("{}: {} changed", image.display(), format_bytes(bytes)));
            Ok(())
        }
        OverlayAction::Discard { overlay } => discard_overlay(overlay).map_err(failed),
        OverlayAction::Diff { image, file, json } => {
            let before = images::open(image)?;
            let mut over = image.clone();
            over.overlay = Some(file.clone());
            let after = images::open(&over)?;
            diff(&image.image, before.fs(), after.fs(), *json)
        }
    }
}

fn failed(error: StackError) -> Failure {
    Failure::Input(error.detail)
}

fn diff(image: &Path, before: &dyn FileSystem, after: &dyn FileSystem, as_json: bool) -> Result<(), Failure> {
    let damaged = |error: FsError| Failure::Check(format!("{}: {error}", image.display()));
    let features = after.volume().map_err(damaged)?.features;
    let options = CompareOptions {
        modified_slack_ns: Some(0),
        differences_max: DIFFERENCES_MAX,
        ..CompareOptions::for_features(&features, &features)
    };
    let found = compare_trees((before, before.root()), (after, after.root()), options);
    let mut letters = BTreeMap::new();
    for Difference { path, kind } in &found {
        let letter = match kind {
            DifferenceKind::OnlyInFirst => 'D',
            DifferenceKind::OnlyInSecond => 'A',
            DifferenceKind::Kind(..) => 'T',
            DifferenceKind::Unreadable(..) => '?',
            _ => 'M',
        };
        letters.insert(path, letter);
    }
    if as_json {
        output::json(&letters.iter().map(|(path, letter)| change_json(path, *letter)).collect::<Vec<_>>().into())?;
    } else {
        let lines = letters.iter().map(|(path, letter)| format!("{letter} {}\n", path.escape_ascii()));
        output::text(&lines.collect::<String>())?;
    }
    if found.len() >= DIFFERENCES_MAX {
        output::message(&format!("there may be more: the comparison ends after {DIFFERENCES_MAX} differences"));
    }
    if letters.is_empty() { Ok(()) } else { Err(Failure::Told(1)) }
}

fn change_json(path: &[u8], letter: char) -> Value {
    let mut row = Map::new();
    images::path_json(path, &mut row);
    row.insert("change".to_owned(), letter.to_string().into());
    Value::Object(row)
}
