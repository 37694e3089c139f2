//! Owners, permissions, capabilities and labels of a tree, as Android's build keeps them: in two
//! files beside the tree that its image builders take.

mod file_contexts;
mod fs_config;

pub use file_contexts::FileContexts;
pub use fs_config::FsConfig;

use nandkit_vfs::source::{SourceNode, components, path as path_of, same_inode};

use crate::{Note, Result, TreeError};

/// The attribute with a file's SELinux label: text, and a zero byte as libselinux writes it.
pub const LABEL: &[u8] = b"security.selinux";
/// The attribute with a program's capabilities (capabilities(7)).
pub const CAPABILITY: &[u8] = b"security.capability";

/// What Android's files say of a tree.
#[derive(Clone, Debug, Default)]
pub struct AndroidFiles {
    /// Where the tree is mounted on the device, as both files name it: without slashes around it.
    pub mount_point: Vec<u8>,
    /// Owners, permissions and capabilities.
    pub fs_config: Option<FsConfig>,
    /// Labels.
    pub file_contexts: Option<FileContexts>,
}

/// A file of Android's that was made from a tree, and what it could not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AndroidText {
    /// The file's bytes.
    pub text: Vec<u8>,
    /// Nodes that are not in it, and why.
    pub left_out: Vec<Note>,
}

/// The names of a mount point, without slashes around them. Errors: `..` and NUL in it.
pub fn mount_point(text: &str) -> nandkit_vfs::Result<Vec<u8>> {
    Ok(components(text.as_bytes())?.join(&b'/'))
}

impl AndroidFiles {
    /// Gives all nodes what the files say. Errors: `Target` with the first path of which a file
    /// says nothing, as Android's image builders refuse it.
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

/// Sets an attribute of a node, or takes it away; attributes stay sorted.
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
