//! Extended headers, which override and extend the header of an entry.

use std::collections::BTreeMap;

use nandkit_vfs::{Timestamp, acl};

use crate::mounted::XATTRS_MAX;

/// The key prefix of extended attributes (star(5)).
const XATTR: &[u8] = b"SCHILY.xattr.";

/// The keys of textual access control lists, as GNU tar, bsdtar and star write them, with the
/// corresponding attributes.
pub const LISTS: [(&[u8], &[u8]); 2] = [(b"SCHILY.acl.access", acl::ACCESS), (b"SCHILY.acl.default", acl::DEFAULT)];

/// GNU tar's encoding of characters that would end an attribute name early, and of its own escape
/// character (`xattr_encode_keyword`): no other bytes are encoded.
const CODES: [(u8, &[u8]); 2] = [(b'%', b"%25"), (b'=', b"%3D")];

/// The record key of an extended attribute.
pub fn xattr_key(name: &[u8]) -> Vec<u8> {
    let mut key = XATTR.to_vec();
    for byte in name {
        match CODES.iter().find(|(coded, _)| coded == byte) {
            Some((_, code)) => key.extend_from_slice(code),
            None => key.push(*byte),
        }
    }
    key
}

/// Decodes an attribute name; an invalid escape stands for itself.
fn xattr_name(mut coded: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(coded.len());
    while let Some((first, rest)) = coded.split_first() {
        match CODES.iter().find(|(_, code)| coded.starts_with(code)) {
            Some((byte, code)) => {
                name.push(*byte);
                coded = coded.get(code.len()..).unwrap_or_default();
            }
            None => {
                name.push(*first);
                coded = rest;
            }
        }
    }
    name
}

/// The extended-header data for the next entry.
#[derive(Clone, Debug, Default)]
pub struct Extended {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub modified: Option<Timestamp>,
    pub accessed: Option<Timestamp>,
    pub changed: Option<Timestamp>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Access control lists given as text, converted to attribute values: an inode's own list, and
    /// a directory's default list.
    pub lists: [Option<Vec<u8>>; 2],
    /// GNU sparse files: version, name and size of the whole file, map.
    pub sparse_major: Option<u64>,
    pub sparse_minor: Option<u64>,
    pub sparse_path: Option<Vec<u8>>,
    pub sparse_size: Option<u64>,
    pub sparse_map: Option<Vec<u8>>,
    /// Ignores attributes and access control lists.
    pub no_xattrs: bool,
}

impl Extended {
    /// Processes the records of a PAX header: each is `LENGTH KEY=VALUE\n`, with the length of the
    /// whole record in decimal. A value may contain any byte. The error is a message.
    pub fn take_pax(&mut self, mut rest: &[u8]) -> Result<(), String> {
        while !rest.is_empty() {
            // Some writers pad with zeroes.
            if nandkit_units::is_zeroed(rest) {
                break;
            }
            let wrong = || "expected records \"LENGTH KEY=VALUE\" in an extended header".to_owned();
            let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let length = rest.get(..space).and_then(|digits| std::str::from_utf8(digits).ok());
            let length: usize = length.and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
            let (record, after) = rest.split_at_checked(length).ok_or_else(wrong)?;
            let record = record.get(space + 1..).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(wrong)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            let (key, value) = record.split_at_checked(equals).ok_or_else(wrong)?;
            self.take_record(key, value.get(1..).unwrap_or_default())?;
            rest = after;
        }
        Ok(())
    }

    /// Bytes of names, values and maps, plus an overhead per attribute. Cost: the number of
    /// attributes.
    pub fn stored_bytes(&self) -> usize {
        let [own, inherited] = &self.lists;
        let texts = [&self.path, &self.link, &self.sparse_path, &self.sparse_map, own, inherited];
        let texts = texts.into_iter().flatten().map(Vec::len).sum::<usize>();
        texts + self.xattrs.iter().map(|(name, value)| name.len() + value.len() + 64).sum::<usize>()
    }

    fn take_record(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let is_attribute = key.starts_with(XATTR) || LISTS.iter().any(|(known, _)| *known == key);
        if self.no_xattrs && is_attribute {
            return Ok(());
        }
        if let Some(name) = key.strip_prefix(XATTR) {
            self.xattrs.insert(xattr_name(name), value.to_vec());
            if self.xattrs.len() > XATTRS_MAX {
                return Err(format!("expected at most {XATTRS_MAX} extended attributes of an entry"));
            }
            return Ok(());
        }
        for ((known, _), list) in LISTS.iter().zip(&mut self.lists) {
            if *known == key {
                *list = list_of(value)?;
                return Ok(());
            }
        }
        let owned = (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => self.path = owned,
            b"linkpath" => self.link = owned,
            b"size" => self.size = number(key, value)?,
            b"uid" => self.uid = number(key, value)?,
            b"gid" => self.gid = number(key, value)?,
            b"mtime" => self.modified = time(key, value)?,
            b"atime" => self.accessed = time(key, value)?,
            b"ctime" => self.changed = time(key, value)?,
            b"GNU.sparse.major" => self.sparse_major = number(key, value)?,
            b"GNU.sparse.minor" => self.sparse_minor = number(key, value)?,
            b"GNU.sparse.name" => self.sparse_path = owned,
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => self.sparse_size = number(key, value)?,
            b"GNU.sparse.map" => self.sparse_map = Some(value.to_vec()),
            // Version 0.0: the map's numbers are separate records, in order.
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => {
                let map = self.sparse_map.get_or_insert_default();
                map.extend_from_slice(value);
                map.push(b',');
            }
            _ => {}
        }
        Ok(())
    }
}

/// Converts a textual list to an attribute value; `None` for an empty text.
fn list_of(text: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    acl::from_text(text).map(|list| Some(acl::encode(&list))).map_err(|error| error.detail)
}

fn text<'a>(key: &[u8], value: &'a [u8]) -> Result<Option<&'a str>, String> {
    match std::str::from_utf8(value) {
        Ok("") => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(format!("expected a number as {}", String::from_utf8_lossy(key))),
    }
}

/// A decimal number; `None` for an empty value, which cancels a global header.
fn number<T: std::str::FromStr>(key: &[u8], value: &[u8]) -> Result<Option<T>, String> {
    let Some(text) = text(key, value)? else { return Ok(None) };
    let wrong = |_| format!("expected a number as {}, found {text:?}", String::from_utf8_lossy(key));
    text.parse().map(Some).map_err(wrong)
}

/// Seconds since 1970 with a decimal fraction; digits beyond nanoseconds are rounded down.
fn time(key: &[u8], value: &[u8]) -> Result<Option<Timestamp>, String> {
    let Some(text) = text(key, value)? else { return Ok(None) };
    let wrong = || format!("expected seconds as {}, found {text:?}", String::from_utf8_lossy(key));
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds: i64 = whole.parse().map_err(|_| wrong())?;
    let nine: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: i64 = nine.parse().map_err(|_| wrong())?;
    let beyond = fraction.bytes().skip(9).any(|byte| byte != b'0');
    let distance = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
    Ok(Some(Timestamp(if negative { -distance - i64::from(beyond) } else { distance })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_down_and_values_hold_any_byte() {
        let cases: [(&str, i64); 5] = [
            ("0", 0),
            ("1.5", 1_500_000_000),
            ("-1.5", -1_500_000_000),
            ("12.3456789019", 12_345_678_901),
            ("-0.0000000001", -1),
        ];
        for (text, expected) in cases {
            assert_eq!(time(b"mtime", text.as_bytes()), Ok(Some(Timestamp(expected))), "{text}");
        }
        assert!(time(b"mtime", b"1e9").is_err() && time(b"mtime", b"\xff").is_err());
        let mut extended = Extended::default();
        extended.take_pax(b"31 SCHILY.xattr.user.a=x\ny=\0\n12 z\n20\n11 uid=123\n").unwrap_err();
        let mut extended = Extended::default();
        extended.take_pax(b"29 SCHILY.xattr.user.a=x\ny=\0\n11 uid=123\n").unwrap();
        assert_eq!(extended.xattrs, BTreeMap::from([(b"user.a".to_vec(), b"x\ny=\0".to_vec())]));
        assert_eq!(extended.uid, Some(123));
        for bad in [&b"5 a=b\n"[..], b"999 a=b\n", b"x", b"7 ab=c", b"6 abc\n"] {
            assert!(Extended::default().take_pax(bad).is_err(), "{bad:?}");
        }
    }
}
