//! `nandkit mkfs f2fs`

use nandkit_stack::image::{F2fsBuild, MkfsReport, SPARSE_BLOCK, build_f2fs, check_f2fs_build, pack_sparse};
use nandkit_tree::{AdjustedTree, Adjustments};
use nandkit_units::format_bytes;
use nandkit_vfs::source::SourceTree;
use nandkit_vfs::{FileKind, Timestamp};
use serde_json::json;

use super::mkfs::{device_table, source, source_date_epoch, tell_excluded};
use super::new_file::NewFile;
use super::{input, tree_input};
use crate::args::{F2fsArguments, FeatureSet};
use crate::failure::Failure;
use crate::output;
use crate::progress::Bar;

/// Makes a volume.
pub fn f2fs(arguments: &F2fsArguments) -> Result<(), Failure> {
    NewFile::check(&arguments.image, arguments.force, Some("--force"))?;
    // Nobody changes the image meanwhile, whose changes would be lost.
    let _lock = NewFile::lock(&arguments.image)?;
    let build = build_of(arguments);
    check_f2fs_build(&build).map_err(input)?;
    check_sparse(arguments)?;
    let adjustments = adjustments(arguments)?;
    let table = arguments.device_table.as_deref().map(device_table).transpose()?;
    let tree = match &arguments.from {
        None => None,
        Some(from) => {
            let source = source(from, &arguments.exclude, arguments.no_xattrs, "--from ")?;
            tell_excluded(&arguments.exclude, from, &source);
            Some(AdjustedTree::new(source, &adjustments, table.as_ref()).map_err(tree_input)?)
        }
    };
    let file = NewFile::begin(&arguments.image)?;
    let summary = write(tree.as_ref().map(|tree| tree as &dyn SourceTree), &build, &file)?;
    let packed_bytes = arguments.sparse.then(|| pack(&file, arguments)).transpose()?;
    if packed_bytes.is_none() {
        file.keep(arguments.force)?;
    }
    if arguments.json {
        return output::json(&summary_json(&summary, packed_bytes));
    }
    output::text(&format!(
        "{}: {} names, {} of files in a volume of {}, {} of {} segments used{}\n",
        arguments.image.display(),
        summary.names,
        format_bytes(summary.content_bytes),
        format_bytes(summary.size),
        summary.used_segments,
        summary.segments,
        packed_bytes.map_or_else(String::new, |bytes| format!(", packed into {}", format_bytes(bytes))),
    ))
}

/// The largest image that commands unpack (docs/guide/f2fs.md).
const SPARSE_BYTES_MAX: u64 = 1 << 40;

/// Sparse images hold whole blocks.
fn check_sparse(arguments: &F2fsArguments) -> Result<(), Failure> {
    let wrong = |expected: &str| {
        let size = arguments.size.unwrap_or_default();
        Err(Failure::Input(format!("--size: {size} bytes; expected {expected} with --sparse")))
    };
    match arguments.size.filter(|_| arguments.sparse) {
        Some(size) if !size.is_multiple_of(SPARSE_BLOCK) => wrong(&format!("a multiple of {SPARSE_BLOCK}")),
        Some(size) if size > SPARSE_BYTES_MAX => wrong("at most 1T, which is what is unpacked again"),
        _ => Ok(()),
    }
}

/// Packs the volume into a second file, which gets the image's name; returns how many bytes it has.
fn pack(volume: &NewFile, arguments: &F2fsArguments) -> Result<u64, Failure> {
    let mut file = NewFile::begin(&arguments.image)?;
    let bytes = pack_sparse(volume.unfinished_path(), file.file()).map_err(input)?;
    file.keep(arguments.force)?;
    Ok(bytes)
}

/// Those of `-g android` are those of mkfs.f2fs 1.15 (f2fs_format_main.c, `add_default_options`).
fn features_of(arguments: &F2fsArguments) -> Vec<String> {
    let asked = &arguments.features;
    let set: &[&str] = match arguments.defaults {
        Some(FeatureSet::Android) if !asked.iter().any(|name| name == "ro") => {
            &["encrypt", "extra_attr", "project_quota", "quota", "verity"]
        }
        _ => &[],
    };
    asked.iter().cloned().chain(set.iter().map(|name| (*name).to_owned())).collect()
}

fn build_of(arguments: &F2fsArguments) -> F2fsBuild {
    F2fsBuild {
        size: arguments.size,
        label: arguments.label.clone(),
        uuid: arguments.uuid.clone(),
        features: features_of(arguments),
        segments_per_section: arguments.segments_per_section,
        sections_per_zone: arguments.sections_per_zone,
        overprovision_percent: arguments.overprovision,
        cold_extensions: arguments.cold_extensions.clone(),
        hot_extensions: arguments.hot_extensions.clone(),
        sector_size: arguments.sector_size,
        start_sector: arguments.start_sector,
        extended_node_bitmap: arguments.extended_node_bitmap,
        heap: arguments.heap,
        encoding: arguments.encoding.clone(),
        time_seconds: arguments.time,
        root_owner: arguments.root_owner.unwrap_or_default(),
    }
}

fn adjustments(arguments: &F2fsArguments) -> Result<Adjustments, Failure> {
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

fn write(tree: Option<&dyn SourceTree>, build: &F2fsBuild, file: &NewFile) -> Result<MkfsReport, Failure> {
    let nodes = tree.map_or(&[][..], |tree| tree.nodes());
    let regular = nodes.iter().filter(|node| node.kind == FileKind::Regular && node.hard_link_of.is_none());
    let total = regular.fold(0_u64, |total, node| total.saturating_add(node.size));
    let bar = Bar::new();
    let show = |done: u64| bar.show_share(done, total, || format!("{} of {}", format_bytes(done), format_bytes(total)));
    let written = build_f2fs(tree, build, file.unfinished_path(), &show);
    bar.clear();
    written.map_err(input)
}

fn summary_json(summary: &MkfsReport, packed_bytes: Option<u64>) -> serde_json::Value {
    json!({
        "format": "f2fs",
        "size": summary.size,
        "inodes": summary.inodes,
        "names": summary.names,
        "content_bytes": summary.content_bytes,
        "node_blocks": summary.node_blocks,
        "data_blocks": summary.data_blocks,
        "user_blocks": summary.user_blocks,
        "segments": summary.segments,
        "used_segments": summary.used_segments,
        "overprovision_segments": summary.overprovision_segments,
        "packed_bytes": packed_bytes,
    })
}
