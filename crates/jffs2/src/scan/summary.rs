//! Reading the summary at a block's end.

use super::ScannedRange;
use super::node::{FoundName, What, Witness};
use crate::Ino;
use crate::layout::is_name;
use crate::layout::{
    ByteOrder, Header, SUMMARY_MAGIC, SUMMARY_MARKER_SIZE, SUMMARY_SIZE, Summary, covered, crc, node_type, padded,
};

/// Length of the summary at a block's end, if the last bytes mark one. `tail` must end with the
/// block.
pub(crate) fn length(order: ByteOrder, tail: &[u8], erase_size: u32) -> Option<u32> {
    let marker = tail.last_chunk::<{ SUMMARY_MARKER_SIZE as usize }>()?;
    let [o0, o1, o2, o3, m0, m1, m2, m3] = *marker;
    let offset = order.u32([o0, o1, o2, o3]);
    let says_so = order.u32([m0, m1, m2, m3]) == SUMMARY_MAGIC;
    (says_so && offset <= erase_size - SUMMARY_SIZE - SUMMARY_MARKER_SIZE && offset.is_multiple_of(4))
        .then(|| erase_size - offset)
}

/// Whether a block ends like one with a summary, even a damaged one.
pub(crate) fn is_marked(order: ByteOrder, tail: &[u8]) -> bool {
    tail.last_chunk().is_some_and(|magic| order.u32(*magic) == SUMMARY_MAGIC)
}

/// Reads consecutive numbers.
struct Reader<'a> {
    order: ByteOrder,
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, left) = self.left.split_first_chunk::<N>()?;
        self.left = left;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take()?;
        Some(self.order.u16(bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take()?;
        Some(self.order.u32(bytes))
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, left) = self.left.split_at_checked(length)?;
        self.left = left;
        Some(bytes)
    }
}

/// Why a summary is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Useless {
    /// It is damaged or inconsistent.
    Damaged(String),
    /// It lists a node type that only a full scan can handle.
    Unknown(u16),
}

fn damaged<T>(what: impl Into<String>) -> Result<T, Useless> {
    Err(Useless::Damaged(what.into()))
}

/// The nodes listed in a summary, without gaps from the block's beginning to its end. `bytes` is
/// the summary. `xref` reads the reference at an offset, because the summary only has its position;
/// `None` if it is damaged.
///
/// Sources: fs/jffs2/summary.h (entries), summary.c (`jffs2_sum_process_sum_data`: the order of
/// fields, and that gaps are dirt).
pub(crate) fn nodes(
    order: ByteOrder,
    bytes: &[u8],
    erase_size: u32,
    cleanmarker: u32,
    xref: &mut dyn FnMut(u32) -> Option<What>,
) -> Result<Vec<ScannedRange>, Useless> {
    let summary = check(order, bytes)?;
    let start = erase_size - u32::try_from(bytes.len()).unwrap_or(erase_size).min(erase_size);
    let mut found = Vec::new();
    let mut end = 0;
    if summary.cleanmarker > start {
        return damaged(format!(
            "it lists a cleanmarker of {} bytes in {start:#x} bytes before it",
            summary.cleanmarker
        ));
    }
    if summary.cleanmarker > 0 && summary.cleanmarker == cleanmarker {
        found.push(ScannedRange { offset: 0, length: cleanmarker, what: What::Cleanmarker });
        end = cleanmarker;
    } else if summary.cleanmarker > 0 {
        end = padded(summary.cleanmarker).min(start);
        found.push(ScannedRange { offset: 0, length: end, what: What::Obsolete });
    }
    let mut reader = Reader { order, left: bytes.get(SUMMARY_SIZE as usize..).unwrap_or(&[]) };
    for number in 0..summary.entries {
        let Some((offset, length, what)) = entry(&mut reader, xref)? else {
            return damaged(format!("it ends inside entry {number} of {}", summary.entries));
        };
        let length = padded(length);
        let fits = offset >= end
            && offset.is_multiple_of(4)
            && length > 0
            && offset.checked_add(length).is_some_and(|end| end <= start);
        if !fits {
            return damaged(format!("entry {number} is a node of {length} bytes at {offset:#x}, behind {end:#x}"));
        }
        if offset > end {
            found.push(ScannedRange { offset: end, length: offset - end, what: What::Obsolete });
        }
        found.push(ScannedRange { offset, length, what });
        end = offset + length;
    }
    if start > end {
        found.push(ScannedRange { offset: end, length: start - end, what: What::Obsolete });
    }
    found.push(ScannedRange { offset: start, length: erase_size - start, what: What::Summary });
    Ok(found)
}

/// The summary's fixed part, after all checksums were verified.
pub(crate) fn check(order: ByteOrder, bytes: &[u8]) -> Result<Summary, Useless> {
    let (Some(header), Some(summary)) = (Header::decode(order, bytes), Summary::decode(order, bytes)) else {
        return damaged("it is shorter than a summary");
    };
    let expected = Header::new(order, node_type::SUMMARY, summary.total_length);
    if header.header_crc != expected.header_crc || summary.total_length as usize != bytes.len() {
        return damaged("its header is no summary's of this length");
    }
    let fixed = crc(bytes.get(..covered::SUMMARY).unwrap_or(bytes));
    if fixed != summary.node_crc {
        return damaged(format!(
            "the checksum of the fixed part is {:#010x}, its bytes give {fixed:#010x}",
            summary.node_crc
        ));
    }
    let entries = crc(bytes.get(SUMMARY_SIZE as usize..).unwrap_or(&[]));
    if entries != summary.summary_crc {
        return damaged(format!(
            "the checksum of its entries is {:#010x}, their bytes give {entries:#010x}",
            summary.summary_crc
        ));
    }
    Ok(summary)
}

/// Offset, length and content of the next entry; `None` if the summary ends too early.
fn entry(
    reader: &mut Reader<'_>,
    xref: &mut dyn FnMut(u32) -> Option<What>,
) -> Result<Option<(u32, u32, What)>, Useless> {
    let Some(kind) = reader.u16() else { return Ok(None) };
    let mut read = |reader: &mut Reader<'_>| -> Option<Result<(u32, u32, What), Useless>> {
        Some(Ok(match kind {
            node_type::INODE => {
                let (inode, version) = (Ino(reader.u32()?), reader.u32()?);
                let (offset, length) = (reader.u32()?, reader.u32()?);
                (offset, length, What::Inode { inode, version })
            }
            node_type::DIRENT => {
                let (length, offset) = (reader.u32()?, reader.u32()?);
                let (parent, version, inode) = (Ino(reader.u32()?), reader.u32()?, Ino(reader.u32()?));
                let (name_length, kind) = (reader.u8()?, reader.u8()?);
                let name = reader.bytes(usize::from(name_length))?;
                if !is_name(name) {
                    return Some(damaged(format!("{:?} is not a valid name", String::from_utf8_lossy(name))));
                }
                // The summary's entry will be compared with the node; [`super::Scan`] marks entries
                // whose node was not examined.
                let witness = Witness::Node;
                let name = FoundName { parent, version, inode, kind, witness, name: name.into() };
                (offset, length, What::Dirent(Box::new(name)))
            }
            node_type::XATTR => {
                let (id, version) = (reader.u32()?, reader.u32()?);
                let (offset, length) = (reader.u32()?, reader.u32()?);
                (offset, length, What::Xattr { id, version })
            }
            node_type::XREF => {
                let offset = reader.u32()?;
                (offset, crate::layout::XREF_SIZE, xref(offset).unwrap_or(What::Obsolete))
            }
            unknown => return Some(Err(Useless::Unknown(unknown))),
        }))
    };
    read(reader).transpose()
}
