//! `nandkit put`

use std::io;
use std::path::Path;

use nandkit_tree::{AdjustedTree, Adjustments, TreeError, host_file};
use nandkit_vfs::FileKind;
use nandkit_vfs::source::SourceNode;

use super::change::{bytes, change, now};
use super::source::source;
use super::tree_input;
use crate::args::PutArguments;
use crate::failure::Failure;

/// Puts a file or a tree into an image.
pub fn put(arguments: &PutArguments) -> Result<(), Failure> {
    let path = bytes(&arguments.path);
    let from = arguments.source.as_path();
    if arguments.recursive {
        let adjustments =
            Adjustments { owner: arguments.owner, no_xattrs: arguments.no_xattrs, ..Adjustments::default() };
        let tree = source(from, &[], arguments.no_xattrs, "")?;
        let tree = AdjustedTree::new(tree, &adjustments, None).map_err(tree_input)?;
        return change(&arguments.change, |editor| editor.put_tree(&tree, path));
    }
    let attributes = |node: SourceNode| {
        let (uid, gid) = arguments.owner.unwrap_or((node.uid, node.gid));
        SourceNode { mode: arguments.mode.unwrap_or(node.mode), ..node }.owned_by(uid, gid)
    };
    if from == Path::new("-") {
        let node = attributes(SourceNode::new(FileKind::Regular, 0o644).at(now()?));
        // --owner and --mode apply to an existing file too.
        let keep = arguments.owner.is_none() && arguments.mode.is_none();
        return change(&arguments.change, |editor| {
            if editor.is_directory(path) {
                let what = "this is a directory; expected the path of a file for standard input".to_owned();
                return Err(TreeError::Target { path: nandkit_tree::show(path), what });
            }
            editor.put_file(path, b"", &node, keep, &mut io::stdin().lock())
        });
    }
    let mut host = host_file(from, !arguments.no_xattrs).map_err(tree_input)?;
    let node = attributes(host.node);
    change(&arguments.change, |editor| editor.put_file(path, &host.name, &node, false, &mut host.file))
}
