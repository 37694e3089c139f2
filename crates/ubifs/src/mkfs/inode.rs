//! Inodes of a source as nodes.

use nandkit_vfs::source::SourceNode;
use zerocopy::IntoBytes;

use crate::encode::{node, raw};
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
    let seconds = |time: nandkit_vfs::Timestamp| (time.0.div_euclid(1_000_000_000) as u64).into();
    let nanoseconds = |time: nandkit_vfs::Timestamp| (time.0.rem_euclid(1_000_000_000) as u32).into();
    let body = Inode {
        key: raw(Key::inode(extra.number)),
        // Linux takes data that are not newer than their inode for those of another one.
        created_sequence: 0.into(),
        size: extra.size.into(),
        accessed_s: seconds(source.accessed),
        changed_s: seconds(source.changed),
        modified_s: seconds(source.modified),
        accessed_ns: nanoseconds(source.accessed),
        changed_ns: nanoseconds(source.changed),
        modified_ns: nanoseconds(source.modified),
        links: extra.links.into(),
        uid: source.uid.into(),
        gid: source.gid.into(),
        mode: extra.mode.into(),
        flags: extra.flags.into(),
        data_size: (data.len() as u32).into(),
        xattrs: extra.xattrs.into(),
        xattr_bytes: extra.xattr_bytes.into(),
        padding1: [0; 4],
        xattr_name_bytes: extra.xattr_name_bytes.into(),
        compression: extra.compression.into(),
        padding2: [0; 26],
    };
    node(node_type::INODE, extra.sequence, &[body.as_bytes(), data], into);
}
