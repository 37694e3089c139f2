//! `nandkit mkfs`: makes a volume of any format from a tree.

use nandkit_stack::image::{BuildVolume, Built, Fact, SPARSE_BLOCK, fact, pack_sparse};
use nandkit_tree::{AdjustedTree, show};
use nandkit_units::format_bytes;
use nandkit_vfs::FileKind;
use nandkit_vfs::source::{SourceNode, SourceTree, path as path_of};

use super::new_file::NewFile;
use super::source::{Source, adjustments, android, device_table, source, tell_excluded};
use super::{input, time, tree_input};
use crate::args::{Asked, MkfsArguments, TreeOptions};
use crate::failure::Failure;
use crate::output;
use crate::progress::Bar;

/// The largest sparse image that the commands can unpack, in bytes (docs/guide/f2fs.md).
const SPARSE_BYTES_MAX: u64 = 1 << 40;

/// Makes an image.
pub fn mkfs(arguments: &MkfsArguments) -> Result<(), Failure> {
    let asked = arguments.format.asked();
    NewFile::check(asked.image, asked.force, Some("--force"))?;
    // The lock keeps others from changing the image meanwhile; their changes would be lost.
    let _lock = NewFile::lock(asked.image)?;
    asked.build.check().map_err(input)?;
    check_sparse(&asked)?;
    let tree = tree(&asked.tree)?;
    let tree = tree.as_ref().map(|tree| tree as &dyn SourceTree);
    let file = NewFile::begin(asked.image)?;
    let mut built = build(&*asked.build, tree, &file)?;
    let packed = asked.sparse.unwrap_or(false).then(|| pack(&file, &asked)).transpose()?;
    if packed.is_none() {
        file.keep(asked.force)?;
    }
    if asked.json {
        built.facts.extend(asked.sparse.map(|_| Fact::member("packed_bytes", packed)));
        return output::json(&fact::json(&built.facts));
    }
    if let Some(tree) = tree {
        tell_clamped(tree, &*asked.build);
    }
    let packed = packed.map_or_else(String::new, |bytes| format!(", packed into {}", format_bytes(bytes)));
    output::text(&format!("{}: {}{packed}\n", asked.image.display(), built.line))
}

/// The tree with the changes of the options applied; `None` for an empty volume.
fn tree(options: &TreeOptions<'_>) -> Result<Option<AdjustedTree<Source>>, Failure> {
    let adjustments = adjustments(options)?;
    let table = options.device_table.map(device_table).transpose()?;
    let android = options.android.map(android).transpose()?.flatten();
    let Some(from) = options.from else { return Ok(None) };
    let source = source(from, options.exclude, options.no_xattrs, "--from ")?;
    tell_excluded(options.exclude, from, &source);
    let mut tree = AdjustedTree::new(source, &adjustments, table.as_ref()).map_err(tree_input)?;
    android.map_or(Ok(()), |files| tree.apply_android(&files)).map_err(tree_input)?;
    Ok(Some(tree))
}

/// Checks the size of a sparse image, which holds whole blocks.
fn check_sparse(asked: &Asked<'_>) -> Result<(), Failure> {
    let wrong = |expected: &str| {
        let size = asked.size.unwrap_or_default();
        Err(Failure::Input(format!("--size: {size} bytes; expected {expected} with --sparse")))
    };
    match asked.size.filter(|_| asked.sparse == Some(true)) {
        Some(size) if !size.is_multiple_of(SPARSE_BLOCK) => wrong(&format!("a multiple of {SPARSE_BLOCK}")),
        Some(size) if size > SPARSE_BYTES_MAX => wrong("at most 1T, the largest size that nandkit can unpack again"),
        _ => Ok(()),
    }
}

/// Packs the volume into a second file, which becomes the image; returns its size in bytes.
fn pack(volume: &NewFile, asked: &Asked<'_>) -> Result<u64, Failure> {
    let mut file = NewFile::begin(asked.image)?;
    let bytes = pack_sparse(volume.unfinished_path(), file.file()).map_err(input)?;
    file.keep(asked.force)?;
    Ok(bytes)
}

fn build(asked: &dyn BuildVolume, tree: Option<&dyn SourceTree>, file: &NewFile) -> Result<Built, Failure> {
    let nodes = tree.map_or(&[][..], |tree| tree.nodes());
    let regular = nodes.iter().filter(|node| node.kind == FileKind::Regular && node.hard_link_of.is_none());
    let total = regular.fold(0_u64, |total, node| total.saturating_add(node.size));
    let bar = Bar::new();
    let show = |done: u64| bar.show_share(done, total, || format!("{} of {}", format_bytes(done), format_bytes(total)));
    let built = asked.build(tree, file.unfinished_path(), &show);
    bar.clear();
    built.map_err(input)
}

/// Reports how many files got a different time because the format cannot hold theirs, and the first
/// of them.
fn tell_clamped(tree: &dyn SourceTree, asked: &dyn BuildVolume) {
    let nodes = tree.nodes();
    let is_clamped = |node: &SourceNode| !asked.holds_time(node.modified);
    let mut clamped = nodes.iter().enumerate().filter(|(_, node)| node.hard_link_of.is_none() && is_clamped(node));
    let Some((first, node)) = clamped.next() else { return };
    let (what, time) = (show(&path_of(nodes, first)), time::utc(node.modified));
    let which = match clamped.count() {
        0 => format!("the time of {what}, {time}, lies"),
        more => format!("the times of {} files, first that of {what}, {time}, lie", more + 1),
    };
    output::message(&format!("{which} {}; the nearest was taken", asked.times_not_held()));
}
