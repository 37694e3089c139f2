//! POSIX access control lists as values of the extended attributes `system.posix_acl_access` and
//! `system.posix_acl_default`.
//!
//! The value has the layout of Linux' system calls (uapi/linux/posix_acl_xattr.h, acl(5)): a
//! version, then eight bytes per entry, all little-endian. Formats may store the list differently.

mod text;

pub use text::{from_text, to_text};

use crate::{ErrorKind, FsError, Result};

/// The attribute that holds an inode's access list.
pub const ACCESS: &[u8] = b"system.posix_acl_access";

/// The attribute that holds a directory's default list, which new entries in it inherit.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The version of the layout.
const VERSION: u32 = 2;

/// The identity in entries that name no user or group.
const NO_ID: u32 = u32::MAX;

/// Whom an entry applies to, in the order in which a list sorts its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclSubject {
    /// The owner.
    Owner,
    /// The user with this number.
    User(u32),
    /// The owning group.
    OwningGroup,
    /// The group with this number.
    Group(u32),
    /// The upper limit of what numbered users and all groups get.
    Mask,
    /// Everybody else.
    Others,
}

/// One entry of an access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AclEntry {
    /// Whom the entry applies to.
    pub subject: AclSubject,
    /// Permission bits: read 4, write 2, execute 1.
    pub permissions: u8,
}

impl AclSubject {
    /// The entry's tag (acl(5), `e_tag`), its numeric identity, and its rank in a list.
    const fn parts(self) -> (u16, u32, u8) {
        match self {
            Self::Owner => (0x01, NO_ID, 0),
            Self::User(id) => (0x02, id, 1),
            Self::OwningGroup => (0x04, NO_ID, 2),
            Self::Group(id) => (0x08, id, 3),
            Self::Mask => (0x10, NO_ID, 4),
            Self::Others => (0x20, NO_ID, 5),
        }
    }

    const fn of(tag: u16, id: u32) -> Option<Self> {
        match (tag, id) {
            (0x02, NO_ID) | (0x08, NO_ID) => None,
            (0x02, id) => Some(Self::User(id)),
            (0x08, id) => Some(Self::Group(id)),
            (0x01, NO_ID) => Some(Self::Owner),
            (0x04, NO_ID) => Some(Self::OwningGroup),
            (0x10, NO_ID) => Some(Self::Mask),
            (0x20, NO_ID) => Some(Self::Others),
            _ => None,
        }
    }
}

fn invalid(what: impl Into<String>) -> FsError {
    FsError::new(ErrorKind::InvalidArgument, what)
}

/// Parses an attribute value. Errors: `InvalidArgument` if the value is malformed or [`check`]
/// refuses the list. Cost: one pass.
pub fn parse(value: &[u8]) -> Result<Vec<AclEntry>> {
    let Some((version, entries)) = value.split_first_chunk::<4>() else {
        return Err(invalid(format!("an access control list of {} bytes has no version", value.len())));
    };
    if u32::from_le_bytes(*version) != VERSION {
        return Err(invalid(format!("version {} of an access control list", u32::from_le_bytes(*version))));
    }
    let (entries, rest) = entries.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(invalid("an access control list ends inside an entry"));
    }
    let entries: Vec<AclEntry> = entries.iter().map(entry).collect::<Result<_>>()?;
    check(&entries)?;
    Ok(entries)
}

fn entry([t0, t1, p0, p1, i0, i1, i2, i3]: &[u8; 8]) -> Result<AclEntry> {
    let (tag, permissions) = (u16::from_le_bytes([*t0, *t1]), u16::from_le_bytes([*p0, *p1]));
    let id = u32::from_le_bytes([*i0, *i1, *i2, *i3]);
    match (AclSubject::of(tag, id), u8::try_from(permissions)) {
        (Some(subject), Ok(permissions)) => Ok(AclEntry { subject, permissions }),
        _ => Err(invalid(format!("an entry of tag {tag:#x} for {id:#x} with permissions {permissions:#x}"))),
    }
}

/// Encodes entries that [`check`] accepts.
pub fn encode(entries: &[AclEntry]) -> Vec<u8> {
    let mut value = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        let (tag, id, _) = entry.subject.parts();
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&u16::from(entry.permissions).to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

/// Checks that the entries form a valid list (acl(5), "valid ACL"): exactly one each for owner,
/// owning group and others, a mask if a number is named, at most one mask, in the order of
/// [`AclSubject`] (numbered entries of one kind in any order). Errors: `InvalidArgument`.
pub fn check(entries: &[AclEntry]) -> Result<()> {
    let mut count = [0_usize; 6];
    let mut last = 0;
    for entry in entries {
        let (_, _, place) = entry.subject.parts();
        if place < last || entry.permissions > 7 {
            return Err(invalid(format!("{entry:?} is no entry, or stands behind one that should follow it")));
        }
        last = place;
        if let Some(count) = count.get_mut(usize::from(place)) {
            *count += 1;
        }
    }
    let [owner, users, owning_group, groups, masks, others] = count;
    let is_masked = masks == 1 || (masks == 0 && users + groups == 0);
    if (owner, owning_group, others) == (1, 1, 1) && is_masked {
        return Ok(());
    }
    Err(invalid(
        "an access control list needs one entry each for owner, owning group and others, and a mask where it names numbers",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that `getfattr -e hex` on Linux shows after `setfacl -m u:1000:rwx` on a file of
    /// mode 0644.
    const SET_BY_SETFACL: &[u8] = &[
        2, 0, 0, 0, //
        1, 0, 6, 0, 0xFF, 0xFF, 0xFF, 0xFF, //
        2, 0, 7, 0, 0xE8, 3, 0, 0, //
        4, 0, 4, 0, 0xFF, 0xFF, 0xFF, 0xFF, //
        0x10, 0, 7, 0, 0xFF, 0xFF, 0xFF, 0xFF, //
        0x20, 0, 4, 0, 0xFF, 0xFF, 0xFF, 0xFF,
    ];

    #[test]
    fn a_list_is_read_and_written() {
        use AclSubject::{Mask, Others, Owner, OwningGroup, User};
        let entries = parse(SET_BY_SETFACL).unwrap();
        let shown: Vec<_> = entries.iter().map(|entry| (entry.subject, entry.permissions)).collect();
        assert_eq!(shown, [(Owner, 6), (User(1000), 7), (OwningGroup, 4), (Mask, 7), (Others, 4)]);
        assert_eq!(encode(&entries), SET_BY_SETFACL);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let changed = |at: usize, byte: u8| {
            let mut value = SET_BY_SETFACL.to_vec();
            value[at] = byte;
            value
        };
        let without = |entry: usize| [&SET_BY_SETFACL[..4 + entry * 8], &SET_BY_SETFACL[12 + entry * 8..]].concat();
        for value in [
            Vec::new(),
            SET_BY_SETFACL[..4].to_vec(),
            SET_BY_SETFACL[..43].to_vec(),
            changed(0, 1),
            changed(4, 3),
            changed(6, 8),
            changed(7, 1),
            changed(8, 0),
            // The user moves behind the owning group, or has no number.
            changed(12, 8),
            [&changed(16, 0xFF)[..17], &[0xFF; 3], &SET_BY_SETFACL[20..]].concat(),
            without(0),
            without(2),
            without(3),
            without(4),
            [SET_BY_SETFACL, &SET_BY_SETFACL[36..]].concat(),
        ] {
            assert_eq!(parse(&value).unwrap_err().kind, ErrorKind::InvalidArgument, "{value:02x?}");
        }
        // Without the user, the mask is optional.
        assert!(parse(&without(1)).is_ok());
    }
}
