//! Inodes of a source as nodes.

use nandkit_vfs::source::SourceNode;
use zerocopy::{FromZeros, IntoBytes};

use crate::encode::{node, raw, set_time};
use crate::layout::{Inode, Key, node_type};

/// What an inode has besides the attributes of its source.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InodeExtra {
    pub number: u32,
    pub sequence: u64,
    pub size: u64,
    pub links: u32,
    pub mode: u32,
    pub flags: u32,
    pub xattrs: u32,
    pub xattr_bytes: u32,
    pub xattr_name_bytes: u32,
    pub compression: u16,
}

/// Appends the node of an inode.
pub(crate) fn inode(source: &SourceNode, extra: &InodeExtra, data: &[u8], into: &mut Vec<u8>) {
    let mut body = Inode::new_zeroed();
    // Linux takes data that are not newer than their inode for those of another one: it counts as
    // made before all.
    body.key = raw(Key::inode(extra.number));
    body.size.set(extra.size);
    set_time(&mut body.accessed_s, &mut body.accessed_ns, source.accessed);
    set_time(&mut body.changed_s, &mut body.changed_ns, source.changed);
    set_time(&mut body.modified_s, &mut body.modified_ns, source.modified);
    body.links.set(extra.links);
    body.uid.set(source.uid);
    body.gid.set(source.gid);
    body.mode.set(extra.mode);
    body.flags.set(extra.flags);
    body.data_size.set(data.len() as u32);
    body.xattrs.set(extra.xattrs);
    body.xattr_bytes.set(extra.xattr_bytes);
    body.xattr_name_bytes.set(extra.xattr_name_bytes);
    body.compression.set(extra.compression);
    node(node_type::INODE, extra.sequence, &[body.as_bytes(), data], into);
}
