//! Decoding and verifying nodes.

use crate::Ino;
use crate::damage::DamageKind;
use crate::layout::is_name;
use crate::layout::{
    ByteOrder, Compatibility, DIRENT_SIZE, Dirent, HEADER_SIZE, Header, INODE_SIZE, Inode, XATTR_SIZE, XREF_SIZE,
    Xattr, Xref, compression, covered, crc, node_type, padded,
};
use crate::scan::walk::run_of;

/// The content of a range of a block. 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Nothing valid.
    Obsolete,
    /// A cleanmarker.
    Cleanmarker,
    /// A summary.
    Summary,
    /// A node of unknown type that must be kept.
    Unknown,
    /// A node that is valid now but does not count, because its page may read differently next
    /// time. It is kept like an obsolete node, which may reappear as long as it is on the flash.
    Ghost(Box<What>),
    /// An inode node.
    Inode {
        /// The inode that owns the node.
        inode: Ino,
        /// Its version.
        version: u32,
    },
    /// A directory entry.
    Dirent(Box<FoundName>),
    /// An attribute.
    Xattr {
        /// Its number.
        id: u32,
        /// Its version.
        version: u32,
    },
    /// A reference to an attribute.
    Xref {
        /// The inode that owns the node.
        inode: Ino,
        /// The attribute's number.
        id: u32,
        /// Its sequence number.
        sequence: u32,
    },
}

/// A directory entry from a node or a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundName {
    pub(crate) parent: Ino,
    pub(crate) version: u32,
    /// The inode; 0 for a deletion.
    pub(crate) inode: Ino,
    pub(crate) kind: u8,
    pub(crate) witness: Witness,
    pub(crate) name: Box<[u8]>,
}

impl FoundName {
    /// Whether both entries are equal, apart from their evidence.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let says = |name: &Self| (name.parent, name.version, name.inode, name.kind);
        says(self) == says(other) && self.name == other.name
    }
}

/// The evidence for a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Witness {
    /// The node, with valid checksums but in an uncorrectable page: it may read differently next
    /// time.
    Uncorrectable,
    /// Only the summary; the node was not examined.
    Summary,
    /// The node itself.
    Node,
}

/// A fault of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) kind: DamageKind,
    /// Its inode, if the checksums still confirm it.
    pub(crate) inode: Option<Ino>,
    pub(crate) detail: String,
}

fn bad<T>(kind: DamageKind, inode: Option<Ino>, detail: impl Into<String>) -> Result<T, Bad> {
    Err(Bad { kind, inode, detail: detail.into() })
}

fn checksum(what: &str, found: u32, calculated: u32) -> String {
    format!("the stored checksum of {what} is {found:#010x}, its bytes give {calculated:#010x}")
}

/// Verifies the checksum of the fixed part.
fn fixed(node: &[u8], covered: usize, found: u32, kind: DamageKind) -> Result<(), Bad> {
    let calculated = crc(node.get(..covered).unwrap_or(node));
    if calculated == found { Ok(()) } else { bad(kind, None, checksum("the fixed part", found, calculated)) }
}

const SHORT: &str = "it is shorter than a node of its type";

/// Decodes an inode node with an intact fixed part. `node` begins with the node; `length` is that
/// in its header.
pub(crate) fn inode(order: ByteOrder, node: &[u8], length: u32) -> Result<Inode, Bad> {
    let Some(mut inode) = Inode::decode(order, node).filter(|_| length >= INODE_SIZE) else {
        return bad(DamageKind::Node, None, SHORT);
    };
    fixed(node, covered::INODE, inode.node_crc, DamageKind::Node)?;
    if is_swapped_hole(&inode, length) {
        std::mem::swap(&mut inode.compressed_size, &mut inode.data_size);
    }
    // The checks of Linux when it loads the inode (fs/jffs2/readinode.c, `read_dnode`).
    let ends = INODE_SIZE.checked_add(inode.compressed_size).map(padded);
    if ends != Some(padded(length)) || inode.offset > inode.file_size {
        let text = format!(
            "{} bytes of data for offset {:#x} of a file of {:#x} bytes in a node of {length} bytes",
            inode.compressed_size, inode.offset, inode.file_size
        );
        return bad(DamageKind::Node, Some(inode.inode), text);
    }
    Ok(inode)
}

/// Whether it is a hole written by certain old kernels, with both sizes swapped and no data. (Linux
/// 6.1 knows them, but checks the node's length first, and accepts only those that carry as many
/// bytes: fs/jffs2/readinode.c, `read_dnode`.)
const fn is_swapped_hole(inode: &Inode, length: u32) -> bool {
    inode.compression == compression::ZERO
        && inode.data_size == 0
        && inode.compressed_size > 0
        && padded(length) == INODE_SIZE
}

/// The verified data of an inode node. `node` must have at least the length in its header.
pub(crate) fn data<'a>(inode: &Inode, node: &'a [u8]) -> Result<&'a [u8], Bad> {
    let end = INODE_SIZE as usize + inode.compressed_size as usize;
    let Some(data) = node.get(INODE_SIZE as usize..end) else {
        return bad(DamageKind::Data, Some(inode.inode), "its data end behind it");
    };
    let calculated = crc(data);
    if calculated != inode.data_crc {
        return bad(DamageKind::Data, Some(inode.inode), checksum("the data", inode.data_crc, calculated));
    }
    Ok(data)
}

/// Decodes a directory entry and verifies its name.
pub(crate) fn dirent(order: ByteOrder, node: &[u8], length: u32) -> Result<(Dirent, FoundName), Bad> {
    let Some(dirent) = Dirent::decode(order, node).filter(|_| length >= DIRENT_SIZE) else {
        return bad(DamageKind::Node, None, SHORT);
    };
    fixed(node, covered::DIRENT, dirent.node_crc, DamageKind::Node)?;
    let ends = DIRENT_SIZE + u32::from(dirent.name_length);
    let name = node.get(DIRENT_SIZE as usize..ends as usize);
    let Some(name) = name.filter(|_| padded(ends) == padded(length)) else {
        let text = format!("a name of {} bytes in a node of {length} bytes", dirent.name_length);
        return bad(DamageKind::Node, Some(dirent.parent), text);
    };
    let calculated = crc(name);
    if calculated != dirent.name_crc {
        return bad(DamageKind::Name, Some(dirent.parent), checksum("the name", dirent.name_crc, calculated));
    }
    if !is_name(name) {
        return bad(
            DamageKind::Name,
            Some(dirent.parent),
            format!("{:?} is not a valid name", String::from_utf8_lossy(name)),
        );
    }
    let Dirent { parent, version, inode, kind, .. } = dirent;
    Ok((dirent, FoundName { parent, version, inode, kind, witness: Witness::Node, name: name.into() }))
}

/// Decodes an attribute with an intact fixed part.
pub(crate) fn xattr(order: ByteOrder, node: &[u8], length: u32) -> Result<Xattr, Bad> {
    let Some(xattr) = Xattr::decode(order, node).filter(|_| length >= XATTR_SIZE) else {
        return bad(DamageKind::Node, None, SHORT);
    };
    fixed(node, covered::XATTR, xattr.node_crc, DamageKind::Node)?;
    let ends = XATTR_SIZE + u32::from(xattr.name_length) + 1 + u32::from(xattr.value_length);
    if padded(ends) != padded(length) {
        let (name, value) = (xattr.name_length, xattr.value_length);
        return bad(
            DamageKind::Node,
            None,
            format!("a name of {name} and a value of {value} bytes in a node of {length} bytes"),
        );
    }
    Ok(xattr)
}

/// The verified name and value of an attribute.
pub(crate) fn xattr_content<'a>(xattr: &Xattr, node: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Bad> {
    let name_end = XATTR_SIZE as usize + usize::from(xattr.name_length);
    let end = name_end + 1 + usize::from(xattr.value_length);
    let (Some(content), Some(name), Some(value)) =
        (node.get(XATTR_SIZE as usize..end), node.get(XATTR_SIZE as usize..name_end), node.get(name_end + 1..end))
    else {
        return bad(DamageKind::Xattr, None, "name and value end behind the node");
    };
    let calculated = crc(content);
    if calculated != xattr.data_crc {
        return bad(DamageKind::Xattr, None, checksum("name and value", xattr.data_crc, calculated));
    }
    Ok((name, value))
}

/// Decodes and verifies a reference.
pub(crate) fn xref(order: ByteOrder, node: &[u8], length: u32) -> Result<Xref, Bad> {
    let Some(xref) = Xref::decode(order, node).filter(|_| length == XREF_SIZE) else {
        return bad(DamageKind::Node, None, SHORT);
    };
    fixed(node, covered::XREF, xref.node_crc, DamageKind::Node)?;
    Ok(xref)
}

/// Whether all checksums of the node here are valid, or only the header's and the node would end
/// past its block (`bytes` ends there): then the fault was written as it is, and no power cut
/// interrupted the write.
pub(crate) fn was_written_so(order: ByteOrder, bytes: &[u8]) -> bool {
    let Some(header) = Header::decode(order, bytes).filter(|header| header.check(order).is_ok()) else { return false };
    let Some(node) = bytes.get(..header.total_length as usize) else { return true };
    let fits = |from: u32, length: u32, expected: u32| {
        let content = from.checked_add(length).and_then(|end| node.get(from as usize..end as usize));
        content.is_some_and(|content| crc(content) == expected)
    };
    match header.node_type {
        node_type::INODE => Inode::decode(order, node).is_some_and(|found| {
            fits(0, covered::INODE as u32, found.node_crc) && fits(INODE_SIZE, found.compressed_size, found.data_crc)
        }),
        node_type::DIRENT => Dirent::decode(order, node).is_some_and(|found| {
            fits(0, covered::DIRENT as u32, found.node_crc)
                && fits(DIRENT_SIZE, found.name_length.into(), found.name_crc)
        }),
        node_type::XATTR => Xattr::decode(order, node).is_some_and(|found| {
            let content = u32::from(found.name_length) + 1 + u32::from(found.value_length);
            fits(0, covered::XATTR as u32, found.node_crc) && fits(XATTR_SIZE, content, found.data_crc)
        }),
        _ => false,
    }
}

/// Classifies a node with a valid header, as far as a mount reads: data, and values of attributes,
/// are not verified.
///
/// `first`: it is the first in its block; `cleanmarker`: length of a cleanmarker in the block.
pub(crate) fn examine(
    order: ByteOrder,
    node: &[u8],
    header: &Header,
    first: bool,
    cleanmarker: u32,
) -> Result<What, Bad> {
    if header.is_obsolete() {
        return Ok(What::Obsolete);
    }
    let length = header.total_length;
    match header.node_type {
        node_type::INODE => {
            let found = inode(order, node, length)?;
            Ok(What::Inode { inode: found.inode, version: found.version })
        }
        node_type::DIRENT => Ok(What::Dirent(Box::new(dirent(order, node, length)?.1))),
        node_type::XATTR => {
            let found = xattr(order, node, length)?;
            Ok(What::Xattr { id: found.id, version: found.version })
        }
        node_type::XREF => {
            let found = xref(order, node, length)?;
            Ok(What::Xref { inode: found.inode, id: found.id, sequence: found.sequence })
        }
        node_type::CLEANMARKER if !is_blank(node.get(HEADER_SIZE as usize..length as usize)) => {
            bad(DamageKind::Cleanmarker, None, format!("a cleanmarker of {length} bytes that holds something"))
        }
        // A misplaced cleanmarker, or one with another size than the flash uses, does no harm: it
        // is dirt, as in Linux (fs/jffs2/scan.c, `jffs2_scan_eraseblock`). NOR with a write buffer
        // has longer ones, of a page (wbuf.c, `jffs2_nor_wbuf_flash_setup`).
        node_type::CLEANMARKER => Ok(if first && cleanmarker == length { What::Cleanmarker } else { What::Obsolete }),
        node_type::PADDING | node_type::SUMMARY => Ok(What::Obsolete),
        unknown => Ok(match Compatibility::of(unknown) {
            Compatibility::Copy => What::Unknown,
            _ => What::Obsolete,
        }),
    }
}

fn is_blank(bytes: Option<&[u8]>) -> bool {
    bytes.is_some_and(|bytes| run_of(bytes, 0xFF) == bytes.len())
}

/// The inode of a node with a damaged header: substitutes the correct header, and verifies with the
/// checksum of the fixed part.
pub(crate) fn owner_behind_damage(order: ByteOrder, bytes: &[u8]) -> Option<Ino> {
    let with_header = |node_type, length: Option<u32>, covered: usize| {
        let mut fixed = bytes.get(..covered)?.to_vec();
        let header = Header::new(order, node_type, length?).encode(order);
        fixed.get_mut(..header.len())?.copy_from_slice(&header);
        Some(crc(&fixed))
    };
    if let Some(found) = Inode::decode(order, bytes) {
        let length = INODE_SIZE.checked_add(found.compressed_size);
        if with_header(node_type::INODE, length, covered::INODE) == Some(found.node_crc) {
            return Some(found.inode);
        }
    }
    let found = Dirent::decode(order, bytes)?;
    let length = DIRENT_SIZE + u32::from(found.name_length);
    (with_header(node_type::DIRENT, Some(length), covered::DIRENT) == Some(found.node_crc)).then_some(found.parent)
}
