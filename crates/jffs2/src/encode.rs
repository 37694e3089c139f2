//! Encoding nodes with their checksums. Padding between nodes is added where nodes are placed.

use crate::Ino;
use crate::layout::{
    ByteOrder, DIRENT_SIZE, Dirent, Header, INODE_SIZE, Inode, XATTR_SIZE, XREF_SIZE, Xattr, Xref, compression,
    covered, crc, node_type, padded,
};

/// The inode's fields in an inode node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in layout::Inode")]
pub struct InodeFields {
    pub inode: Ino,
    pub version: u32,
    pub mode: u32,
    pub uid: u16,
    pub gid: u16,
    pub file_size: u32,
    pub accessed: u32,
    pub modified: u32,
    pub changed: u32,
}

/// The data of an inode node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Offset of the first byte in the file.
    pub offset: u32,
    /// Number of bytes of the file.
    pub size: u32,
    /// The compression of `bytes`: see [`compression`].
    pub compression: u8,
    /// The stored bytes; at most 2^32 - 69, which callers ensure by splitting at pages.
    pub bytes: &'a [u8],
}

impl Piece<'_> {
    /// No data: the node holds attributes only.
    pub const NOTHING: Piece<'static> = Piece { offset: 0, size: 0, compression: compression::NONE, bytes: &[] };

    /// A range that reads as zeroes.
    pub const fn hole(offset: u32, size: u32) -> Piece<'static> {
        Piece { offset, size, compression: compression::ZERO, bytes: &[] }
    }
}

fn length(fixed: u32, variable: usize) -> u32 {
    u32::try_from(variable).map_or(u32::MAX, |variable| fixed.saturating_add(variable))
}

/// Appends an inode node to `out`.
pub fn inode_node(order: ByteOrder, fields: &InodeFields, piece: &Piece<'_>, out: &mut Vec<u8>) {
    let header = Header::new(order, node_type::INODE, length(INODE_SIZE, piece.bytes.len()));
    let mut node = Inode {
        magic: header.magic,
        node_type: header.node_type,
        total_length: header.total_length,
        header_crc: header.header_crc,
        inode: fields.inode,
        version: fields.version,
        mode: fields.mode,
        uid: fields.uid,
        gid: fields.gid,
        file_size: fields.file_size,
        accessed: fields.accessed,
        modified: fields.modified,
        changed: fields.changed,
        offset: piece.offset,
        compressed_size: length(0, piece.bytes.len()),
        data_size: piece.size,
        compression: piece.compression,
        user_compression: 0,
        flags: 0,
        data_crc: crc(piece.bytes),
        node_crc: 0,
    };
    node.node_crc = crc(&node.encode(order)[..covered::INODE]);
    out.extend_from_slice(&node.encode(order));
    out.extend_from_slice(piece.bytes);
}

/// The fields of a directory entry other than its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in layout::Dirent")]
pub struct DirentFields {
    pub parent: Ino,
    pub version: u32,
    pub inode: Ino,
    pub made: u32,
    pub kind: u8,
}

/// Appends a directory entry to `out`. The name must have at most [`crate::layout::NAME_MAX`]
/// bytes.
pub fn dirent_node(order: ByteOrder, fields: &DirentFields, name: &[u8], out: &mut Vec<u8>) {
    let header = Header::new(order, node_type::DIRENT, length(DIRENT_SIZE, name.len()));
    let mut node = Dirent {
        magic: header.magic,
        node_type: header.node_type,
        total_length: header.total_length,
        header_crc: header.header_crc,
        parent: fields.parent,
        version: fields.version,
        inode: fields.inode,
        made: fields.made,
        name_length: u8::try_from(name.len()).unwrap_or(u8::MAX),
        kind: fields.kind,
        unused: [0; 2],
        node_crc: 0,
        name_crc: crc(name),
    };
    node.node_crc = crc(&node.encode(order)[..covered::DIRENT]);
    out.extend_from_slice(&node.encode(order));
    out.extend_from_slice(name);
}

/// The fields of an extended attribute's node: number, version, prefix, the rest of the name, and
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in layout::Xattr")]
pub struct XattrFields<'a> {
    pub id: u32,
    pub version: u32,
    pub prefix: u8,
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// Appends an extended attribute to `out`, padded to a multiple of four bytes. Unlike in other
/// nodes, the header's length includes the padding; otherwise Linux takes the attribute for damaged
/// and stops at the next node (fs/jffs2/scan.c, `jffs2_scan_xattr_node`). The name must have at
/// most 255 bytes, the value at most 65,535.
pub fn xattr_node(order: ByteOrder, fields: &XattrFields<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let variable = fields.name.len() + 1 + fields.value.len();
    let header = Header::new(order, node_type::XATTR, padded(length(XATTR_SIZE, variable)));
    let mut node = Xattr {
        magic: header.magic,
        node_type: header.node_type,
        total_length: header.total_length,
        header_crc: header.header_crc,
        id: fields.id,
        version: fields.version,
        prefix: fields.prefix,
        name_length: u8::try_from(fields.name.len()).unwrap_or(u8::MAX),
        value_length: u16::try_from(fields.value.len()).unwrap_or(u16::MAX),
        data_crc: 0,
        node_crc: 0,
    };
    let data = start + XATTR_SIZE as usize;
    out.resize(data, 0);
    out.extend_from_slice(fields.name);
    out.push(0);
    out.extend_from_slice(fields.value);
    node.data_crc = crc(&out[data..]);
    node.node_crc = crc(&node.encode(order)[..covered::XATTR]);
    out[start..data].copy_from_slice(&node.encode(order));
    out.resize(start + header.total_length as usize, 0xFF);
}

/// Appends an inode's reference to an extended attribute to `out`.
pub fn xref_node(order: ByteOrder, inode: Ino, id: u32, sequence: u32, out: &mut Vec<u8>) {
    let header = Header::new(order, node_type::XREF, XREF_SIZE);
    let mut node = Xref {
        magic: header.magic,
        node_type: header.node_type,
        total_length: header.total_length,
        header_crc: header.header_crc,
        inode,
        id,
        sequence,
        node_crc: 0,
    };
    node.node_crc = crc(&node.encode(order)[..covered::XREF]);
    out.extend_from_slice(&node.encode(order));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_check_against_themselves() {
        for order in ByteOrder::ALL {
            let mut out = Vec::new();
            let piece = Piece { offset: 4096, size: 3, compression: compression::NONE, bytes: b"abc" };
            inode_node(
                order,
                &InodeFields { inode: Ino(5), version: 2, mode: 0o100_644, ..InodeFields::default() },
                &piece,
                &mut out,
            );
            let node = Inode::decode(order, &out).unwrap();
            assert_eq!((out.len(), node.total_length, node.compressed_size, node.data_size), (71, 71, 3, 3));
            assert_eq!((node.node_crc, node.data_crc), (crc(&out[..60]), crc(b"abc")));
            assert_eq!(Header::decode(order, &out).unwrap().check(order), Ok(()));
            out.clear();
            dirent_node(
                order,
                &DirentFields { parent: Ino(1), version: 1, inode: Ino(5), made: 0, kind: 8 },
                b"name",
                &mut out,
            );
            let node = Dirent::decode(order, &out).unwrap();
            assert_eq!(
                (out.len(), node.name_length, node.node_crc, node.name_crc),
                (44, 4, crc(&out[..32]), crc(b"name"))
            );
            out.clear();
            xattr_node(order, &XattrFields { id: 1, version: 0, prefix: 1, name: b"k", value: b"v" }, &mut out);
            let node = Xattr::decode(order, &out).unwrap();
            assert_eq!((out.len(), node.total_length, out[35]), (36, 36, 0xFF));
            assert_eq!((node.data_crc, node.node_crc), (crc(b"k\0v"), crc(&out[..28])));
            out.clear();
            xref_node(order, Ino(5), 1, 2, &mut out);
            assert_eq!(Xref::decode(order, &out).unwrap().node_crc, crc(&out[..24]));
        }
    }
}
