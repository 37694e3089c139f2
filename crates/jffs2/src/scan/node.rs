//! What a node says, as far as its checksums stand behind it.

use crate::Ino;
use crate::damage::DamageKind;
use crate::layout::is_name;
use crate::layout::{
    ByteOrder, Compatibility, DIRENT_SIZE, Dirent, HEADER_SIZE, Header, INODE_SIZE, Inode, XATTR_SIZE, XREF_SIZE,
    Xattr, Xref, compression, covered, crc, node_type, padded,
};
use crate::scan::walk::run_of;

/// What a stretch of a block is. 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Nothing that is valid.
    Obsolete,
    /// A cleanmarker.
    Cleanmarker,
    /// A summary.
    Summary,
    /// A node of unknown type that is kept.
    Unknown,
    /// A node that is sound now and yet does not count: its page may read otherwise next time. It
    /// is kept like an obsolete one, which may come back as long as it is on the flash.
    Ghost(Box<What>),
    /// An inode node.
    Inode {
        /// Whose.
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
        /// Whose.
        inode: Ino,
        /// To which.
        id: u32,
        /// Its sequence number.
        sequence: u32,
    },
}

/// A directory entry as a node or a summary has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundName {
    pub(crate) parent: Ino,
    pub(crate) version: u32,
    /// 0: the name was taken away.
    pub(crate) inode: Ino,
    pub(crate) kind: u8,
    pub(crate) witness: Witness,
    pub(crate) name: Box<[u8]>,
}

impl FoundName {
    /// Whether both say the same, whatever stands behind it.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let says = |name: &Self| (name.parent, name.version, name.inode, name.kind);
        says(self) == says(other) && self.name == other.name
    }
}

/// What stands behind a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Witness {
    /// The node, whose checksums are right, in a page that the device could not correct: it may
    /// read otherwise next time.
    Uncorrectable,
    /// The summary alone; nobody has looked at the node.
    Summary,
    /// The node.
    Node,
}

/// What is wrong with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) kind: DamageKind,
    /// Whose it is, where its checksums still tell.
    pub(crate) inode: Option<Ino>,
    pub(crate) detail: String,
}

fn bad<T>(kind: DamageKind, inode: Option<Ino>, detail: impl Into<String>) -> Result<T, Bad> {
    Err(Bad { kind, inode, detail: detail.into() })
}

fn checksum(what: &str, found: u32, calculated: u32) -> String {
    format!("the checksum of {what} is {found:#010x}, its bytes make {calculated:#010x}")
}

/// The fixed part's checksum covers these bytes.
fn fixed(node: &[u8], covered: usize, found: u32, kind: DamageKind) -> Result<(), Bad> {
    let calculated = crc(node.get(..covered).unwrap_or(node));
    if calculated == found { Ok(()) } else { bad(kind, None, checksum("the fixed part", found, calculated)) }
}

const SHORT: &str = "it is shorter than a node of its type";

/// An inode node whose fixed part is whole. `node` begins with the node; `length` is what its
/// header says.
pub(crate) fn inode(order: ByteOrder, node: &[u8], length: u32) -> Result<Inode, Bad> {
    let Some(mut inode) = Inode::decode(order, node).filter(|_| length >= INODE_SIZE) else {
        return bad(DamageKind::Node, None, SHORT);
    };
    fixed(node, covered::INODE, inode.node_crc, DamageKind::Node)?;
    if is_swapped_hole(&inode, length) {
        std::mem::swap(&mut inode.compressed_size, &mut inode.data_size);
    }
    // What Linux looks at when it loads the inode (fs/jffs2/readinode.c, `read_dnode`).
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

/// Whether it is a hole as kernels of a certain age wrote it, with both sizes swapped: no data
/// follow it. (Linux 6.1 knows of them, but compares the node's length before, and takes only those
/// that carry as many bytes: fs/jffs2/readinode.c, `read_dnode`.)
const fn is_swapped_hole(inode: &Inode, length: u32) -> bool {
    inode.compression == compression::ZERO
        && inode.data_size == 0
        && inode.compressed_size > 0
        && padded(length) == INODE_SIZE
}

/// The data of an inode node, whole. `node` is at least as long as its header says.
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

/// A directory entry with its name, whole.
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
        return bad(DamageKind::Name, Some(dirent.parent), format!("{:?} is no name", String::from_utf8_lossy(name)));
    }
    let Dirent { parent, version, inode, kind, .. } = dirent;
    Ok((dirent, FoundName { parent, version, inode, kind, witness: Witness::Node, name: name.into() }))
}

/// An attribute whose fixed part is whole.
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

/// Name and value of an attribute, whole.
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

/// A reference, whole.
pub(crate) fn xref(order: ByteOrder, node: &[u8], length: u32) -> Result<Xref, Bad> {
    let Some(xref) = Xref::decode(order, node).filter(|_| length == XREF_SIZE) else {
        return bad(DamageKind::Node, None, SHORT);
    };
    fixed(node, covered::XREF, xref.node_crc, DamageKind::Node)?;
    Ok(xref)
}

/// Whether all checksums of what begins here fit, or the header's does and the node would end
/// behind its block (`bytes` ends where that does): what is wrong with it then was written so, and
/// is no write that was cut off.
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

/// What a node with a whole header is, as far as a mount looks: data, and values of attributes, are
/// not looked at.
///
/// `first` says that it is the first thing in its block, `cleanmarker` how long a cleanmarker in
/// the block is.
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
        // A cleanmarker where none belongs, or one of another size than the flash has, is no harm:
        // dirt, as for Linux (fs/jffs2/scan.c, `jffs2_scan_eraseblock`). NOR with a write buffer
        // has longer ones: a page of it (wbuf.c, `jffs2_nor_wbuf_flash_setup`).
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

/// Whose a node was whose header is damaged: the header that would be right is put in its place,
/// and the checksum of the fixed part tells whether that was so.
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
