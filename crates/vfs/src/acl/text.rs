//! Access control lists as text, as archives store them (acl(5), "ACL text forms"; star(5),
//! `SCHILY.acl.access`).

use super::{AclEntry, AclSubject, check};
use crate::{ErrorKind, FsError, Result};

/// Longest accepted text in bytes: a list of 65,536 entries with long names.
const TEXT_MAX: usize = 4 << 20;

/// Parses the long form (one entry a line) and the short form (entries separated by commas).
///
/// In `TAG:NAME:PERMISSIONS:NUMBER`, as star(1) and bsdtar(1) write it, the number identifies the
/// user or group; without a number, the name itself must be a number. `#` starts a comment. Entries
/// may come in any order.
///
/// Errors: `InvalidArgument` if the text is no list, or an entry has a name without a number: only
/// the system that made the archive knows whose name it is. Cost: n log n.
pub fn from_text(text: &[u8]) -> Result<Vec<AclEntry>> {
    let wrong = |what: String| FsError::new(ErrorKind::InvalidArgument, what);
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_MAX);
    let text = text.ok_or_else(|| wrong("expected an access control list as text".to_owned()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let entries = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|entry| !entry.is_empty());
    let mut list: Vec<AclEntry> = entries.map(entry).collect::<Result<_>>().map_err(|error| wrong(error.detail))?;
    list.sort_by_key(|entry| entry.subject);
    check(&list)?;
    Ok(list)
}

fn entry(text: &str) -> Result<AclEntry> {
    let wrong = |what: &str| FsError::new(ErrorKind::InvalidArgument, format!("{what}, found {text:?}"));
    let fields: Vec<&str> = text.split(':').map(str::trim).collect();
    let (tag, name, permissions, number) = match fields.as_slice() {
        [tag @ ("mask" | "m" | "other" | "o"), permissions] => (*tag, "", *permissions, None),
        [tag, name, permissions] => (*tag, *name, *permissions, None),
        [tag, name, permissions, number] => (*tag, *name, *permissions, Some(*number)),
        _ => return Err(wrong("expected an entry TAG:NUMBER:PERMISSIONS of an access control list")),
    };
    let who = || match number.unwrap_or(name).parse() {
        Ok(id) if id != super::NO_ID => Ok(id),
        _ => Err(wrong(&format!(
            "an access control list names {name:?} without a number, and an image holds numbers; expected e.g. user:1000:rw-, or the number behind it as star and bsdtar write it"
        ))),
    };
    let subject = match (tag, name) {
        ("user" | "u", "") => AclSubject::Owner,
        ("user" | "u", _) => AclSubject::User(who()?),
        ("group" | "g", "") => AclSubject::OwningGroup,
        ("group" | "g", _) => AclSubject::Group(who()?),
        ("mask" | "m", "") => AclSubject::Mask,
        ("other" | "o", "") => AclSubject::Others,
        _ => return Err(wrong("expected user, group, mask or other in an access control list")),
    };
    let bit = |letter| match letter {
        'r' => Some(4),
        'w' => Some(2),
        'x' => Some(1),
        '-' => Some(0),
        _ => None,
    };
    let bits = permissions.chars().map(bit).try_fold(0_u8, |all, bit| Some(all | bit?));
    let permissions = bits.filter(|_| (1..=3).contains(&permissions.len()));
    let permissions = permissions.ok_or_else(|| wrong("expected permissions such as r-x in an access control list"))?;
    Ok(AclEntry { subject, permissions })
}

/// Formats the list in the long form with numbers, one entry a line, as GNU tar writes it.
pub fn to_text(entries: &[AclEntry]) -> String {
    let mut text = String::new();
    for AclEntry { subject, permissions } in entries {
        text += &match subject {
            AclSubject::Owner => "user::".to_owned(),
            AclSubject::User(id) => format!("user:{id}:"),
            AclSubject::OwningGroup => "group::".to_owned(),
            AclSubject::Group(id) => format!("group:{id}:"),
            AclSubject::Mask => "mask::".to_owned(),
            AclSubject::Others => "other::".to_owned(),
        };
        text.extend([(4, 'r'), (2, 'w'), (1, 'x')].map(|(bit, sign)| if permissions & bit != 0 { sign } else { '-' }));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_the_long_one_is_written() {
        use AclSubject::{Group, Mask, Others, Owner, OwningGroup, User};
        let expected =
            [(Owner, 6), (User(502), 5), (User(1000), 6), (OwningGroup, 4), (Group(50), 0), (Mask, 7), (Others, 4)];
        for text in [
            "user::rw-,user:lisa:r-x:502,user:1000:rw-,group::r--,group:50:---,mask::rwx,other::r--",
            "# file: f\nuser::rw-\nuser:1000:rw-\t#effective:r--\nuser:502:r-x\ngroup::r--\n\ngroup:staff:---:50\nmask::rwx\nother::r--\n",
            "o:r,u::rw,g::r--,u:502:rx,u:1000:wr-,g:50:-,m:rwx",
        ] {
            let list = from_text(text.as_bytes()).unwrap();
            let shown: Vec<_> = list.iter().map(|entry| (entry.subject, entry.permissions)).collect();
            assert_eq!(shown, expected, "{text}");
            assert_eq!(from_text(to_text(&list).as_bytes()).unwrap(), list, "{text}");
        }
        assert!(to_text(&from_text(b"u::rwx,g::r-x,o::---").unwrap()) == "user::rwx\ngroup::r-x\nother::---\n");
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_entry() {
        for (text, word) in [
            ("user::rw-,user:lisa:rw-,group::r--,mask::rw-,other::r--", "names \"lisa\" without a number"),
            ("user::rw-,user:lisa:rw-:x,group::r--,mask::rw-,other::r--", "without a number"),
            ("user::rw-,user:4294967295:rw-,group::r--,mask::rw-,other::r--", "without a number"),
            ("user::rwz,group::r--,other::r--", "permissions"),
            ("user::rwxr,group::r--,other::r--", "permissions"),
            ("user::,group::r--,other::r--", "permissions"),
            ("owner::rw-,group::r--,other::r--", "expected user, group"),
            ("mask:5:rw-,user::rw-,group::r--,other::r--", "expected user, group"),
            ("user:rw-,group::r--,other::r--", "TAG:NUMBER:PERMISSIONS"),
            ("user::rw-,group::r--", "needs one entry each"),
            ("user::rw-,user:5:rw-,group::r--,other::r--", "mask"),
            ("", "needs one entry each"),
        ] {
            let error = from_text(text.as_bytes()).unwrap_err();
            assert!(error.kind == ErrorKind::InvalidArgument && error.detail.contains(word), "{text}: {error}");
        }
        assert!(from_text(b"\xff").is_err());
    }
}
