//! Converting a tree node's attributes to the format: mode, times, device numbers, extended
//! attributes.

use std::collections::BTreeMap;

use nandkit_vfs::source::SourceNode;
use nandkit_vfs::{ErrorKind, FsError, Result, Timestamp};

use crate::Ino;
use crate::acl;
use crate::encode::{InodeFields, XattrFields, xattr_node, xref_node};
use crate::layout::{ByteOrder, xattr_prefix};
use crate::xattr::split_name;

/// Converts a time to whole seconds since 1970, clamped to 32 bits.
pub(super) fn seconds(time: Timestamp) -> u32 {
    let seconds = time.0.div_euclid(1_000_000_000);
    u32::try_from(seconds.max(0)).unwrap_or(u32::MAX)
}

/// The number of a node's times that the format cannot hold.
pub(super) fn clamped(node: &SourceNode) -> u64 {
    let times = [node.accessed, node.modified, node.changed];
    times.iter().filter(|time| i64::from(seconds(**time)) != time.0.div_euclid(1_000_000_000)).count() as u64
}

/// The attributes of a node; the caller sets the size of anything but regular files.
pub(super) fn fields_of(node: &SourceNode, inode: Ino, version: u32) -> InodeFields {
    InodeFields {
        inode,
        version,
        mode: node.kind.mode() | u32::from(node.mode & 0o7777),
        // Larger numbers were refused before anything was placed.
        uid: u16::try_from(node.uid).unwrap_or(u16::MAX),
        gid: u16::try_from(node.gid).unwrap_or(u16::MAX),
        file_size: u32::try_from(node.size).unwrap_or(u32::MAX),
        accessed: seconds(node.accessed),
        modified: seconds(node.modified),
        changed: seconds(node.changed),
    }
}

/// The extended attributes in the image so far: equal ones are stored once.
#[derive(Default)]
pub(super) struct Attributes {
    ids: BTreeMap<(u8, Vec<u8>, Vec<u8>), u32>,
    sequence: u32,
}

impl Attributes {
    /// Makes the nodes for an attribute of an inode and passes them to `put`.
    pub fn nodes(
        &mut self,
        order: ByteOrder,
        inode: Ino,
        name: &[u8],
        value: &[u8],
        put: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (prefix, name, value) = stored(order, name, value)?;
        let next = self.ids.len() as u32 + 1;
        let mut node = Vec::new();
        let id = match self.ids.get(&(prefix, name.clone(), value.clone())) {
            Some(id) => *id,
            None => {
                let fields = XattrFields { id: next, version: 1, prefix, name: &name, value: &value };
                xattr_node(order, &fields, &mut node);
                put(&node)?;
                node.clear();
                self.ids.insert((prefix, name, value), next);
                next
            }
        };
        // Odd numbers would delete the reference.
        self.sequence += 2;
        xref_node(order, inode, id, self.sequence, &mut node);
        put(&node)
    }
}

/// The stored form: prefix, rest of the name, and value.
fn stored(order: ByteOrder, name: &[u8], value: &[u8]) -> Result<(u8, Vec<u8>, Vec<u8>)> {
    let shown = || String::from_utf8_lossy(name).into_owned();
    let Some((prefix, behind)) = split_name(name) else {
        let text = format!("attribute {}; JFFS2 holds user., security., trusted. and POSIX ACLs", shown());
        return Err(FsError::new(ErrorKind::NotSupported, text));
    };
    if matches!(prefix, xattr_prefix::ACL_ACCESS | xattr_prefix::ACL_DEFAULT) {
        let value = acl::to_stored(order, value).ok_or_else(|| {
            FsError::new(ErrorKind::InvalidArgument, format!("{} is no access control list of version 2", shown()))
        })?;
        return Ok((prefix, Vec::new(), value));
    }
    if behind.is_empty() || behind.len() > 255 || value.len() > usize::from(u16::MAX) {
        let text = format!(
            "attribute {} has a name of {} and a value of {} bytes; JFFS2 holds 255 and 65535",
            shown(),
            behind.len(),
            value.len()
        );
        return Err(FsError::new(ErrorKind::NotSupported, text));
    }
    Ok((prefix, behind.to_vec(), value.to_vec()))
}
