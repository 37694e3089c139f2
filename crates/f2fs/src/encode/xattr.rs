//! Encodes areas of extended attributes (f2fs.md, "Extended attributes").

use nandkit_vfs::acl::{self, AclSubject};
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use crate::layout::node::FOOTER_BYTES;
use crate::layout::xattr::{XATTR_MAGIC, XattrEntry, XattrHead, index};

/// The version of stored access control lists (acl.h, F2FS_ACL_VERSION).
const ACL_VERSION: u32 = 1;
/// The longest name after its prefix (xattr.h, F2FS_NAME_LEN).
const NAME_MAX: usize = 255;
/// Prefixes of the names that the format can hold, with their indexes.
const PREFIXES: [(&[u8], u8); 4] = [
    (b"user.", index::USER),
    (b"trusted.", index::TRUSTED),
    (b"lustre.", index::LUSTRE),
    (b"security.", index::SECURITY),
];

/// Splits an attribute's full name into index and name after the prefix; `None` if the format
/// cannot hold the name.
pub fn split_name(name: &[u8]) -> Option<(u8, &[u8])> {
    if name == acl::ACCESS {
        return Some((index::ACL_ACCESS, b""));
    }
    if name == acl::DEFAULT {
        return Some((index::ACL_DEFAULT, b""));
    }
    let (prefix, index) = PREFIXES.into_iter().find(|(prefix, _)| name.starts_with(prefix))?;
    name.strip_prefix(prefix).filter(|rest| !rest.is_empty() && rest.len() <= NAME_MAX).map(|rest| (index, rest))
}

/// Encodes an area with these attributes (full names); empty if there are none. It has no end mark:
/// what follows it must be zero.
///
/// Errors: `NotSupported` (a name that the format cannot hold), `InvalidArgument` (a damaged access
/// control list), `AttributesTooBig` (longer than `room`).
pub fn area(attributes: &[(Vec<u8>, Vec<u8>)], room: usize) -> Result<Vec<u8>> {
    if attributes.is_empty() {
        return Ok(Vec::new());
    }
    let head = XattrHead { magic: XATTR_MAGIC.into(), references: 1.into(), reserved: [0.into(); 4] };
    let mut area = head.as_bytes().to_vec();
    for (name, value) in attributes {
        let shown = String::from_utf8_lossy(name);
        let Some((index, rest)) = split_name(name) else {
            let detail =
                format!("attribute {shown}; F2FS holds user., trusted., security., lustre. and access control lists");
            return Err(FsError::new(ErrorKind::NotSupported, detail));
        };
        let list;
        let value = match index {
            index::ACL_ACCESS | index::ACL_DEFAULT => {
                list = stored_list(value)?;
                &list
            }
            _ => value,
        };
        let length = u16::try_from(value.len());
        let end = (area.len() + size_of::<XattrEntry>() + rest.len() + value.len()).next_multiple_of(4);
        let (Ok(length), true) = (length, end <= room) else {
            let detail = format!("attributes up to {shown} take {end} bytes; F2FS has room for {room} in one inode");
            return Err(FsError::new(ErrorKind::AttributesTooBig, detail));
        };
        let entry = XattrEntry { index, name_length: rest.len() as u8, value_length: length.into() };
        area.extend_from_slice(entry.as_bytes());
        area.extend_from_slice(rest);
        area.extend_from_slice(value);
        area.resize(end, 0);
    }
    Ok(area)
}

/// The capacity of an area: the inline words and a node.
pub const fn room(inline_words: u16, block_size: usize) -> usize {
    inline_words as usize * 4 + block_size - FOOTER_BYTES
}

/// Encodes an access control list (acl.c, `f2fs_acl_to_disk`).
pub(crate) fn stored_list(value: &[u8]) -> Result<Vec<u8>> {
    let mut stored = ACL_VERSION.to_le_bytes().to_vec();
    for entry in acl::parse(value)? {
        let (tag, id): (u16, _) = match entry.subject {
            AclSubject::Owner => (0x01, None),
            AclSubject::User(id) => (0x02, Some(id)),
            AclSubject::OwningGroup => (0x04, None),
            AclSubject::Group(id) => (0x08, Some(id)),
            AclSubject::Mask => (0x10, None),
            AclSubject::Others => (0x20, None),
        };
        stored.extend_from_slice(&tag.to_le_bytes());
        stored.extend_from_slice(&u16::from(entry.permissions).to_le_bytes());
        stored.extend(id.into_iter().flat_map(u32::to_le_bytes));
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::xattr::attributes;

    #[test]
    fn an_area_reads_back() {
        let list = acl::encode(&[
            acl::AclEntry { subject: AclSubject::Owner, permissions: 6 },
            acl::AclEntry { subject: AclSubject::User(1000), permissions: 7 },
            acl::AclEntry { subject: AclSubject::OwningGroup, permissions: 4 },
            acl::AclEntry { subject: AclSubject::Mask, permissions: 7 },
            acl::AclEntry { subject: AclSubject::Others, permissions: 4 },
        ]);
        let given = [
            (b"security.selinux".to_vec(), b"label\0".to_vec()),
            (acl::ACCESS.to_vec(), list),
            (b"user.empty".to_vec(), Vec::new()),
        ];
        let area = area(&given, room(50, 4096)).unwrap();
        let found: Vec<_> = attributes(&area).map(|found| found.unwrap()).collect();
        assert_eq!((found[0].index, found[0].name, found[0].value), (6, &b"selinux"[..], &b"label\0"[..]));
        // 4 bytes of version, 4 per entry, 4 more for the user's.
        assert_eq!((found[1].index, found[1].name, found[1].value.len()), (2, &b""[..], 4 + 5 * 4 + 4));
        assert_eq!((found[2].index, found[2].name, found[2].value), (1, &b"empty"[..], &b""[..]));
    }

    #[test]
    fn what_cannot_be_stored_is_refused() {
        let kind = |name: &[u8], bytes| area(&[(name.to_vec(), vec![0; bytes])], 4272).map(|area| area.len());
        assert_eq!(kind(b"user.a", 4272 - 28 - 1).unwrap(), 4272);
        assert_eq!(kind(b"user.a", 4272 - 28).unwrap_err().kind, ErrorKind::AttributesTooBig);
        assert_eq!(kind(b"system.other", 1).unwrap_err().kind, ErrorKind::NotSupported);
        assert_eq!(kind(b"user.", 1).unwrap_err().kind, ErrorKind::NotSupported);
        assert_eq!(kind(acl::ACCESS, 8).unwrap_err().kind, ErrorKind::InvalidArgument);
    }
}
