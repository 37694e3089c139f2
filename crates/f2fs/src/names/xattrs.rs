//! Changes an inode's area of extended attributes (f2fs.md, "Extended attributes").
//!
//! The area is the inline words followed by those of the node. A change returns the whole new area
//! up to its last attribute.

use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};
use zerocopy::IntoBytes;

use crate::encode::xattr::{split_name, stored_list};
use crate::ids::NodeId;
use crate::layout::xattr::{Attribute, XATTR_MAGIC, XattrEntry, XattrHead, attributes, index, is_unused};
use crate::xattr::damaged;

/// The longest name including its prefix (limits.h, XATTR_NAME_MAX).
const NAME_MAX: usize = 255;

/// The key under which the format stores a name. Errors: `NameTooLong`, `NotSupported` (the
/// prefix), `InvalidArgument` (NUL in the name).
pub fn key(name: &[u8]) -> Result<(u8, &[u8])> {
    if name.len() > NAME_MAX {
        let detail = format!("an attribute's name of {} bytes; at most {NAME_MAX}", name.len());
        return Err(FsError::new(ErrorKind::NameTooLong, detail));
    }
    let shown = || String::from_utf8_lossy(name).into_owned();
    match split_name(name) {
        Some((_, rest)) if rest.contains(&0) => {
            Err(FsError::new(ErrorKind::InvalidArgument, format!("attribute {}: its name contains NUL", shown())))
        }
        // An attribute that no program sees cannot be set either.
        Some((index, rest)) if index != index::LUSTRE => Ok((index, rest)),
        _ => {
            let detail =
                format!("attribute {}; there are user., trusted., security. and access control lists", shown());
            Err(FsError::new(ErrorKind::NotSupported, detail))
        }
    }
}

/// Encodes a value for an inode of this kind. Errors: `NotSupported` (an access control list for a
/// symlink), `InvalidArgument` (not a valid list; a default list for a non-directory).
pub fn stored_value(kind: FileKind, index: u8, value: &[u8]) -> Result<Vec<u8>> {
    if !matches!(index, index::ACL_ACCESS | index::ACL_DEFAULT) {
        return Ok(value.to_vec());
    }
    match kind {
        FileKind::Symlink => {
            return Err(FsError::new(ErrorKind::NotSupported, "a symbolic link has no access control list"));
        }
        FileKind::Directory => {}
        _ if index == index::ACL_DEFAULT => {
            let text = format!("only a directory has a default access control list, not a {kind}");
            return Err(FsError::new(ErrorKind::InvalidArgument, text));
        }
        _ => {}
    }
    stored_list(value)
}

/// The area with this attribute added at the end, replacing an old one (xattr.c,
/// `__f2fs_setxattr`). `None` if it has this value already.
///
/// Errors: `AttributesTooBig` (more than `room` bytes), `Corrupt` (the area; `ino` is its owner).
pub fn set(area: &[u8], room: usize, ino: NodeId, (index, name): (u8, &[u8]), value: &[u8]) -> Result<Option<Vec<u8>>> {
    let all = read(area, ino)?;
    let is_it = |attribute: &Attribute<'_>| (attribute.index, attribute.name) == (index, name);
    if all.iter().any(|attribute| is_it(attribute) && attribute.value == value) {
        return Ok(None);
    }
    let mut new = head_of(area);
    all.iter().filter(|attribute| !is_it(attribute)).for_each(|attribute| append(&mut new, attribute));
    let end = (new.len() + size_of::<XattrEntry>() + name.len() + value.len()).next_multiple_of(4);
    if value.len() > usize::from(u16::MAX) || end > room {
        let detail = format!("extended attributes of inode {} would take {end} bytes; it has room for {room}", ino.0);
        return Err(FsError::new(ErrorKind::AttributesTooBig, detail));
    }
    append(&mut new, &Attribute { index, name, value });
    Ok(Some(new))
}

/// The area without this attribute; `None` if it does not have it. A used area stays used, even if
/// only its head is left. Errors: `Corrupt`.
pub fn remove(area: &[u8], ino: NodeId, (index, name): (u8, &[u8])) -> Result<Option<Vec<u8>>> {
    let all = read(area, ino)?;
    let is_it = |attribute: &Attribute<'_>| (attribute.index, attribute.name) == (index, name);
    if !all.iter().any(is_it) {
        return Ok(None);
    }
    let mut new = head_of(area);
    all.iter().filter(|attribute| !is_it(attribute)).for_each(|attribute| append(&mut new, attribute));
    Ok(Some(new))
}

fn read(area: &[u8], ino: NodeId) -> Result<Vec<Attribute<'_>>> {
    attributes(area).map(|attribute| attribute.map_err(|fault| damaged(ino, fault))).collect()
}

/// The head of a used area, or a new one.
fn head_of(area: &[u8]) -> Vec<u8> {
    let new = XattrHead { magic: XATTR_MAGIC.into(), references: 1.into(), reserved: [0.into(); 4] };
    match area.get(..size_of::<XattrHead>()) {
        Some(head) if !is_unused(area) => head.to_vec(),
        _ => new.as_bytes().to_vec(),
    }
}

fn append(area: &mut Vec<u8>, attribute: &Attribute<'_>) {
    // Names come from `key` or were read; values have at most 65,535 bytes.
    let entry = XattrEntry {
        index: attribute.index,
        name_length: attribute.name.len() as u8,
        value_length: (attribute.value.len() as u16).into(),
    };
    area.extend_from_slice(entry.as_bytes());
    area.extend_from_slice(attribute.name);
    area.extend_from_slice(attribute.value);
    area.resize(area.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nandkit_units::random::Random;
    use nandkit_vfs::acl::{self, AclEntry, AclSubject};

    use super::*;
    use crate::encode::xattr::{area as encoded, room};

    const INO: NodeId = NodeId(7);
    const NODE: usize = 4072;

    /// The area as read: the inline words and, if they are too small, those of the node.
    fn whole(dense: &[u8], inline: usize) -> Vec<u8> {
        let mut area = dense.to_vec();
        area.resize(if dense.len() > inline { inline + NODE } else { inline }, 0);
        area
    }

    #[test]
    fn changes_are_those_of_a_map() {
        for (words, seed) in [(50, 1), (0, 2), (9, 3)] {
            let (mut random, inline) = (Random::new(seed, "xattrs"), usize::from(words) * 4);
            let (mut area, mut model) = (vec![0; inline], BTreeMap::<Vec<u8>, Vec<u8>>::new());
            let (mut full, mut with_node, mut same) = (0, 0, 0);
            for step in 0..4000_u64 {
                let number = random.below(12);
                let name = format!("{}name{number}", ["user.", "trusted.", "security."][number as usize % 3]);
                let (index, rest) = key(name.as_bytes()).unwrap();
                if random.below(if step / 400 % 2 == 0 { 4 } else { 2 }) == 0 {
                    let removed = remove(&area, INO, (index, rest)).unwrap();
                    assert_eq!(removed.is_some(), model.remove(name.as_bytes()).is_some());
                    area = removed.map_or(area, |new| whole(&new, inline));
                } else {
                    let value = vec![step as u8 % 3 + 1; random.below(900) as usize * usize::from(number < 9)];
                    match set(&area, room(words, 4096), INO, (index, rest), &value) {
                        Ok(Some(new)) => {
                            with_node += u32::from(new.len() > inline);
                            area = whole(&new, inline);
                            model.insert(name.into_bytes(), value);
                        }
                        Ok(None) => {
                            same += 1;
                            assert_eq!(model.get(name.as_bytes()), Some(&value));
                        }
                        Err(error) => {
                            full += 1;
                            assert_eq!(error.kind, ErrorKind::AttributesTooBig);
                        }
                    }
                }
                let found: BTreeMap<_, _> = attributes(&area)
                    .map(|attribute| attribute.unwrap())
                    .map(|attribute| {
                        let prefix = ["", "user.", "", "", "trusted.", "", "security."][usize::from(attribute.index)];
                        ([prefix.as_bytes(), attribute.name].concat(), attribute.value.to_vec())
                    })
                    .collect();
                assert_eq!(found, model);
            }
            assert!(full > 10 && with_node > 100 && same > 10, "{full} {with_node} {same}");
        }
    }

    #[test]
    fn one_after_the_other_is_what_mkfs_makes_at_once() {
        let given: Vec<(Vec<u8>, Vec<u8>)> =
            (0..9).map(|n| (format!("user.n{n}").into_bytes(), vec![n as u8; n * 30])).collect();
        let mut area = Vec::new();
        for (name, value) in &given {
            area = set(&area, room(50, 4096), INO, key(name).unwrap(), value).unwrap().unwrap();
        }
        assert_eq!(area, encoded(&given, room(50, 4096)).unwrap());
    }

    #[test]
    fn the_room_is_filled_to_the_last_byte() {
        let room = room(50, 4096);
        let longest = vec![1; room - 24 - 4 - 1];
        let area = set(&[], room, INO, (1, b"a"), &longest).unwrap().unwrap();
        assert_eq!(area.len(), room);
        assert_eq!(set(&area, room, INO, (1, b"b"), b"").unwrap_err().kind, ErrorKind::AttributesTooBig);
        assert_eq!(set(&area, room, INO, (1, b"a"), &[2; 9]).unwrap().unwrap().len(), 24 + 4 + 1 + 9 + 2);
        let more = vec![1; room - 24 - 4];
        assert_eq!(set(&[], room, INO, (1, b"a"), &more).unwrap_err().kind, ErrorKind::AttributesTooBig);
        assert_eq!(
            set(&[], usize::MAX, INO, (1, b"a"), &vec![1; 65_536]).unwrap_err().kind,
            ErrorKind::AttributesTooBig
        );
    }

    #[test]
    fn a_used_area_stays_used_and_foreign_attributes_stay() {
        let mut area = set(&[0; 200], 4272, INO, (9, b"c"), &[3; 28]).unwrap().unwrap();
        area = set(&area, 4272, INO, (1, b"x"), b"y").unwrap().unwrap();
        area = remove(&area, INO, (1, b"x")).unwrap().unwrap();
        assert_eq!(attributes(&area).map(|found| found.unwrap().index).collect::<Vec<_>>(), [9]);
        area = remove(&area, INO, (9, b"c")).unwrap().unwrap();
        assert_eq!((area.len(), is_unused(&area)), (24, false));
        assert_eq!(remove(&area, INO, (9, b"c")).unwrap(), None);
        area[0] = 1;
        assert_eq!(set(&area, 4272, INO, (1, b"x"), b"y").unwrap_err().kind, ErrorKind::Corrupt);
    }

    #[test]
    fn names_and_lists_that_cannot_be_are_refused() {
        fn kind(name: &[u8]) -> std::result::Result<(u8, &[u8]), ErrorKind> {
            key(name).map_err(|error| error.kind)
        }
        assert_eq!(kind(b"user.x"), Ok((1, &b"x"[..])));
        assert_eq!(kind(&[b"user.".as_slice(), &[b'x'; 251]].concat()), Err(ErrorKind::NameTooLong));
        assert_eq!(kind(b"user.\0"), Err(ErrorKind::InvalidArgument));
        for other in [&b"user."[..], b"lustre.x", b"system.advise", b"x", b""] {
            assert_eq!(kind(other), Err(ErrorKind::NotSupported));
        }
        let list = acl::encode(&[
            AclEntry { subject: AclSubject::Owner, permissions: 6 },
            AclEntry { subject: AclSubject::OwningGroup, permissions: 4 },
            AclEntry { subject: AclSubject::Others, permissions: 4 },
        ]);
        let value = |kind, index, value: &[u8]| stored_value(kind, index, value).map_err(|error| error.kind);
        assert_eq!(value(FileKind::Regular, 2, &list).unwrap().len(), 4 + 3 * 4);
        assert_eq!(value(FileKind::Symlink, 2, &list), Err(ErrorKind::NotSupported));
        assert_eq!(value(FileKind::Fifo, 3, &list), Err(ErrorKind::InvalidArgument));
        assert_eq!(value(FileKind::Directory, 3, &list[1..]), Err(ErrorKind::InvalidArgument));
        assert_eq!(value(FileKind::Symlink, 1, b"any").unwrap(), b"any");
    }
}
