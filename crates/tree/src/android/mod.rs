//! Owners, permissions, capabilities and labels as Android's build stores them: in two files next
//! to the tree, which its image builders read.

mod file_contexts;
mod fs_config;

pub use file_contexts::FileContexts;
pub use fs_config::FsConfig;

use nandkit_vfs::source::{SourceNode, components, path as path_of, same_inode};

use crate::{Note, Result, TreeError};

/// The attribute with a file's SELinux label: text with a terminating zero byte, as libselinux
/// writes it.
pub const LABEL: &[u8] = b"security.selinux";
/// The attribute with a program's capabilities (capabilities(7)).
pub const CAPABILITY: &[u8] = b"security.capability";

/// Android's files for a tree.
#[derive(Clone, Debug, Default)]
pub struct AndroidFiles {
    /// The mount point of the tree on the device, as both files name it: without surrounding
    /// slashes.
    pub mount_point: Vec<u8>,
    /// Owners, permissions and capabilities, if given.
    pub fs_config: Option<FsConfig>,
    /// Labels, if given.
    pub file_contexts: Option<FileContexts>,
}

/// A file made from a tree, and the nodes it could not express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AndroidText {
    /// The file's bytes.
    pub text: Vec<u8>,
    /// Nodes that are not in the file, and why.
    pub left_out: Vec<Note>,
}

/// Parses a mount point and strips surrounding slashes. Errors: it contains `..` or NUL.
pub fn mount_point(text: &str) -> nandkit_vfs::Result<Vec<u8>> {
    Ok(components(text.as_bytes())?.join(&b'/'))
}

impl AndroidFiles {
    /// Applies the files to all nodes. Errors: `Target` with the first path that a file does not
    /// cover; Android's image builders refuse this too.
    pub(crate) fn apply(&self, nodes: &mut [SourceNode]) -> Result<()> {
        for index in 0..nodes.len() {
            if same_inode(nodes, index) != index {
                continue;
            }
            let path = path_of(nodes, index);
            let Some(node) = nodes.get_mut(index) else { continue };
            let missing = |what: String| TreeError::Target { path: crate::show(&path), what };
            if let Some(fs_config) = &self.fs_config {
                let key = fs_config::key(&self.mount_point, &path);
                if !fs_config.apply(&key, node) {
                    let key = String::from_utf8_lossy(&key);
                    return Err(missing(format!(
                        "no line of --fs-config is for it; expected one that begins \"{key} \""
                    )));
                }
            }
            if let Some(contexts) = &self.file_contexts {
                let full = file_contexts::full_path(&self.mount_point, &path);
                let Some(label) = contexts.label(&full, node.kind) else {
                    return Err(missing(
                        "no line of --file-contexts is for it; <<none>> leaves a file without label".into(),
                    ));
                };
                set_xattr(node, LABEL, label.map(|label| [label, b"\0"].concat()));
            }
        }
        for index in 0..nodes.len() {
            let first = same_inode(nodes, index);
            let Some(like) = nodes.get(first).filter(|_| first != index).cloned() else { continue };
            if let Some(node) = nodes.get_mut(index) {
                (node.uid, node.gid, node.mode, node.xattrs) = (like.uid, like.gid, like.mode, like.xattrs);
            }
        }
        Ok(())
    }
}

/// Sets or removes an attribute of a node; attributes stay sorted.
fn set_xattr(node: &mut SourceNode, name: &[u8], value: Option<Vec<u8>>) {
    node.xattrs.retain(|(other, _)| other != name);
    if let Some(value) = value {
        let at = node.xattrs.partition_point(|(other, _)| other.as_slice() < name);
        node.xattrs.insert(at, (name.to_vec(), value));
    }
}

fn xattr<'a>(node: &'a SourceNode, name: &[u8]) -> Option<&'a [u8]> {
    node.xattrs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_slice())
}
