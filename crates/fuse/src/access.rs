//! Access control lists and permission bits: their correspondence (acl(5)), and inheritance by new
//! inodes.

use nandkit_vfs::acl::{AclEntry, AclSubject, encode};

/// The position of an entry's permissions in the mode; `None` if the mode does not show the entry.
fn shift(subject: AclSubject, has_mask: bool) -> Option<u32> {
    match subject {
        AclSubject::Owner => Some(6),
        AclSubject::Mask => Some(3),
        AclSubject::OwningGroup if !has_mask => Some(3),
        AclSubject::Others => Some(0),
        _ => None,
    }
}

fn has_mask(entries: &[AclEntry]) -> bool {
    entries.iter().any(|entry| entry.subject == AclSubject::Mask)
}

/// The lower nine mode bits of a list.
pub(crate) fn mode_of(entries: &[AclEntry]) -> u16 {
    let masked = has_mask(entries);
    let bits =
        entries.iter().filter_map(|entry| Some(u16::from(entry.permissions & 7) << shift(entry.subject, masked)?));
    bits.fold(0, |mode, bits| mode | bits)
}

/// The list after the mode was changed.
pub(crate) fn with_mode(entries: &[AclEntry], mode: u16) -> Vec<AclEntry> {
    let masked = has_mask(entries);
    let change = |entry: &AclEntry| match shift(entry.subject, masked) {
        Some(shift) => AclEntry { permissions: ((mode >> shift) & 7) as u8, ..*entry },
        None => *entry,
    };
    entries.iter().map(change).collect()
}

/// Whether a list is equivalent to permission bits.
pub(crate) fn is_plain(entries: &[AclEntry]) -> bool {
    entries
        .iter()
        .all(|entry| matches!(entry.subject, AclSubject::Owner | AclSubject::OwningGroup | AclSubject::Others))
}

/// The inherited permissions of a new inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// Its mode; the bits above the lower nine are as requested.
    pub mode: u16,
    /// Its own list, if the mode alone is not sufficient.
    pub access: Option<Vec<u8>>,
}

/// The permissions of an inode made in a directory with a default list: each bit must be in the
/// requested mode and in the list.
pub(crate) fn inherited(default: &[AclEntry], mode: u16) -> Inherited {
    let masked = has_mask(default);
    let limit = |entry: &AclEntry| match shift(entry.subject, masked) {
        Some(shift) => AclEntry { permissions: entry.permissions & ((mode >> shift) & 7) as u8, ..*entry },
        None => *entry,
    };
    let entries: Vec<AclEntry> = default.iter().map(limit).collect();
    let access = (!is_plain(&entries)).then(|| encode(&entries));
    Inherited { mode: (mode & !0o777) | mode_of(&entries), access }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AclSubject::{Mask, Others, Owner, OwningGroup, User};

    fn list(entries: &[(AclSubject, u8)]) -> Vec<AclEntry> {
        entries.iter().map(|(subject, permissions)| AclEntry { subject: *subject, permissions: *permissions }).collect()
    }

    #[test]
    fn the_mask_is_the_groups_bits() {
        let entries = list(&[(Owner, 7), (User(5), 7), (OwningGroup, 5), (Mask, 6), (Others, 4)]);
        assert_eq!(mode_of(&entries), 0o764);
        let changed = with_mode(&entries, 0o640);
        assert_eq!(changed, list(&[(Owner, 6), (User(5), 7), (OwningGroup, 5), (Mask, 4), (Others, 0)]));
        assert_eq!(mode_of(&with_mode(&list(&[(Owner, 7), (OwningGroup, 5), (Others, 4)]), 0o640)), 0o640);
    }

    #[test]
    fn what_is_made_gets_no_more_than_it_asked_for() {
        let plain = list(&[(Owner, 7), (OwningGroup, 5), (Others, 5)]);
        assert_eq!(inherited(&plain, 0o2666), Inherited { mode: 0o2644, access: None });
        let named = list(&[(Owner, 7), (User(5), 7), (OwningGroup, 5), (Mask, 7), (Others, 0)]);
        let expected = list(&[(Owner, 6), (User(5), 7), (OwningGroup, 5), (Mask, 6), (Others, 0)]);
        assert_eq!(inherited(&named, 0o666), Inherited { mode: 0o660, access: Some(encode(&expected)) });
    }
}
