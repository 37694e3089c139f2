//! Extended attributes (f2fs.md, "Extended attributes").

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The magic number of a used area.
pub const XATTR_MAGIC: u32 = 0xF2F5_2011;

/// Name indexes and the prefixes that they stand for (xattr.h).
pub mod index {
    /// `user.`
    pub const USER: u8 = 1;
    /// `system.posix_acl_access`, with an empty name.
    pub const ACL_ACCESS: u8 = 2;
    /// `system.posix_acl_default`, with an empty name.
    pub const ACL_DEFAULT: u8 = 3;
    /// `trusted.`
    pub const TRUSTED: u8 = 4;
    /// `lustre.`
    pub const LUSTRE: u8 = 5;
    /// `security.`
    pub const SECURITY: u8 = 6;
    /// The context of an encrypted inode, under the name `c`.
    pub const ENCRYPTION: u8 = 9;
    /// The location of a verity file's descriptor, under the name `v`.
    pub const VERITY: u8 = 11;
}

/// The head of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct XattrHead {
    /// [`XATTR_MAGIC`]; 0 in an area that was never used.
    pub magic: U32,
    /// The reference count, 1.
    pub references: U32,
    /// Always zero.
    pub reserved: [U32; 4],
}

/// The fixed part of an attribute; name and value follow, padded to 4 bytes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct XattrEntry {
    /// One of [`index`]; 0 ends the list.
    pub index: u8,
    /// Length of the name in bytes.
    pub name_length: u8,
    /// Length of the value in bytes.
    pub value_length: U16,
}

/// One attribute of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// One of [`index`].
    pub index: u8,
    /// Its name after the prefix.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// Why an area cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrFault {
    /// The magic number is wrong.
    Magic(u32),
    /// The attribute at this byte extends past the area.
    Overrun(usize),
}

/// Whether an area was never used.
pub fn is_unused(area: &[u8]) -> bool {
    super::word(area, 0).is_none_or(|magic| magic == 0)
}

/// The attributes of an area (inline words followed by the node's); after a fault there are no
/// more.
pub fn attributes(area: &[u8]) -> impl Iterator<Item = Result<Attribute<'_>, XattrFault>> {
    let mut at = size_of::<XattrHead>();
    let mut done = is_unused(area);
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let magic = super::word(area, 0).unwrap_or(0);
        if magic != XATTR_MAGIC {
            done = true;
            return Some(Err(XattrFault::Magic(magic)));
        }
        match attribute_at(area, at) {
            Some(None) => {
                done = true;
                None
            }
            Some(Some((attribute, next))) => {
                at = next;
                Some(Ok(attribute))
            }
            None => {
                done = true;
                Some(Err(XattrFault::Overrun(at)))
            }
        }
    })
}

/// The attribute at a byte and the offset of the next; `Some(None)` at the list's end, `None` if it
/// extends past the area.
fn attribute_at(area: &[u8], at: usize) -> Option<Option<(Attribute<'_>, usize)>> {
    if super::word(area, at).is_none_or(|word| word == 0) {
        return Some(None);
    }
    let (entry, rest) = XattrEntry::read_from_prefix(area.get(at..)?).ok()?;
    let (name, value) = (usize::from(entry.name_length), usize::from(entry.value_length.get()));
    let attribute = Attribute { index: entry.index, name: rest.get(..name)?, value: rest.get(name..)?.get(..value)? };
    let length = (size_of::<XattrEntry>() + name + value).next_multiple_of(4);
    Some(Some((attribute, at + length)))
}

const _: () = assert!(size_of::<XattrHead>() == 24 && size_of::<XattrEntry>() == 4);

#[cfg(test)]
mod tests {
    use super::*;

    fn area() -> Vec<u8> {
        let mut area = XATTR_MAGIC.to_le_bytes().to_vec();
        area.resize(24, 0);
        area.extend_from_slice(b"\x01\x01\x02\x00nvv\x00");
        area.extend_from_slice(b"\x06\x01\x01\x00mw\x00\x00");
        area
    }

    #[test]
    fn a_list_ends_at_zero_or_at_the_areas_end() {
        let mut area = area();
        for _ in 0..2 {
            let all: Vec<_> = attributes(&area).map(Result::unwrap).collect();
            assert_eq!(all.len(), 2);
            assert_eq!(all[0], Attribute { index: 1, name: b"n", value: b"vv" });
            area.resize(100, 0);
        }
        assert_eq!(attributes(&[0; 200]).count(), 0);
        assert_eq!(attributes(&[]).count(), 0);
    }

    #[test]
    fn faults_end_it() {
        let mut area = area();
        area[34] = 200;
        let all: Vec<_> = attributes(&area).collect();
        assert_eq!((all.len(), all[1]), (2, Err(XattrFault::Overrun(32))));
        area[0] = 1;
        assert_eq!(attributes(&area).collect::<Vec<_>>(), [Err(XattrFault::Magic(0xF2F5_2001))]);
    }
}
