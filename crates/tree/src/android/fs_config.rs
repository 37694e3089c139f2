//! Owners, permissions and capabilities by path: `fs_config`.
//!
//! One path per line, as Android's image builders read it (AOSP, system/core, libcutils,
//! `canned_fs_config.cpp`, read for facts):
//!
//! ```text
//!  0 0 755 capabilities=0x0
//! system/bin/ping 0 2000 750 capabilities=0x2000
//! ```
//!
//! Fields are separated by single spaces: a path without leading `/`, user, group, permissions in
//! octal. The root's line begins with a space; paths below a mount point begin with it. Of the rest
//! of a line only `capabilities=` is used; labels (`selabel=`) and link targets, which some tools
//! write there, are ignored.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;

use nandkit_vfs::source::{SourceNode, SourceTree, components, path as path_of};

use super::{AndroidText, CAPABILITY, set_xattr, xattr};
use crate::error::escaped;
use crate::{Note, Result, TreeError};

/// VFS_CAP_REVISION_2 with VFS_CAP_FLAGS_EFFECTIVE (linux/capability.h).
const EFFECTIVE_2: u32 = 0x0200_0001;
/// Permission bits, with set-user-id, set-group-id and sticky.
const MODE_MAX: u32 = 0o7777;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    line: usize,
    uid: u32,
    gid: u32,
    mode: u16,
    capabilities: u64,
}

impl Entry {
    const fn says(&self) -> (u32, u32, u16, u64) {
        (self.uid, self.gid, self.mode, self.capabilities)
    }
}

/// A parsed `fs_config` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsConfig {
    entries: BTreeMap<Vec<u8>, Entry>,
}

impl FsConfig {
    /// Parses a file. Errors: `Line` with the first line that is invalid or contradicts an earlier
    /// line.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let mut entries = BTreeMap::new();
        for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            if text.trim_ascii().is_empty() {
                continue;
            }
            let (path, entry) = entry(line, text)?;
            match entries.entry(path) {
                MapEntry::Vacant(place) => drop(place.insert(entry)),
                MapEntry::Occupied(place) if place.get().says() == entry.says() => {}
                MapEntry::Occupied(place) => {
                    let what = format!(
                        "\"{}\" is in line {} with other values; expected a path once",
                        escaped(place.key()),
                        place.get().line
                    );
                    return Err(wrong(line, what));
                }
            }
        }
        Ok(Self { entries })
    }

    /// Applies the line with this key to a node; returns false if there is none.
    pub(super) fn apply(&self, key: &[u8], node: &mut SourceNode) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        (node.uid, node.gid, node.mode) = (entry.uid, entry.gid, entry.mode);
        let value = (entry.capabilities != 0).then(|| capability_value(entry.capabilities));
        set_xattr(node, CAPABILITY, value);
        true
    }

    /// Makes a file with the attributes of a tree's nodes. Leaves out paths with white space, and
    /// capabilities that are not a mask of effective ones, because the format cannot express them.
    pub fn text_of(tree: &dyn SourceTree, mount_point: &[u8]) -> AndroidText {
        let nodes = tree.nodes();
        let mut made = AndroidText::default();
        for (index, node) in nodes.iter().enumerate() {
            let path = path_of(nodes, index);
            let key = key(mount_point, &path);
            let capabilities = xattr(node, CAPABILITY).map_or(Some(0), capability_mask);
            let reason = match capabilities {
                _ if key.iter().any(u8::is_ascii_whitespace) => "an fs_config has no words for white space in a path",
                None => "an fs_config has no words for these capabilities",
                Some(mask) => {
                    made.text.extend_from_slice(&key);
                    let line = format!(" {} {} {:o} capabilities={mask:#x}\n", node.uid, node.gid, node.mode);
                    made.text.extend_from_slice(line.as_bytes());
                    continue;
                }
            };
            made.left_out.push(Note { path, reason: reason.to_owned() });
        }
        made
    }
}

/// The name of a tree's path in the file.
pub(super) fn key(mount_point: &[u8], path: &[u8]) -> Vec<u8> {
    match (mount_point, path) {
        (_, []) => Vec::new(),
        ([], path) => path.to_vec(),
        (mount_point, path) => [mount_point, path].join(&b'/'),
    }
}

fn wrong(line: usize, what: impl Into<String>) -> TreeError {
    TreeError::Line { line, what: what.into() }
}

fn entry(line: usize, text: &[u8]) -> Result<(Vec<u8>, Entry)> {
    let space = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (path, rest) = text.split_at(space);
    let path = components(path).map_err(|error| wrong(line, error.detail))?.join(&b'/');
    let fields: Vec<&[u8]> = rest.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).collect();
    let [uid, gid, mode, more @ ..] = fields.as_slice() else {
        let what = format!("expected PATH UID GID MODE, found {} fields behind the path", fields.len());
        return Err(wrong(line, what));
    };
    let number = |name: &str, field: &[u8], radix: u32, max: u32| {
        let digits = std::str::from_utf8(field).ok().filter(|text| !text.starts_with('+'));
        let value = digits.and_then(|text| u32::from_str_radix(text, radix).ok()).filter(|value| *value <= max);
        value.ok_or_else(|| {
            let max = if radix == 8 { format!("octal {max:o}") } else { max.to_string() };
            wrong(line, format!("expected a number up to {max} as {name}, found \"{}\"", escaped(field)))
        })
    };
    let capabilities = match more.iter().find_map(|field| field.strip_prefix(b"capabilities=")) {
        None => 0,
        Some(field) => mask(field).ok_or_else(|| {
            let what = format!("expected a number of 64 bits behind capabilities=, found \"{}\"", escaped(field));
            wrong(line, what)
        })?,
    };
    let entry = Entry {
        line,
        uid: number("user", uid, 10, u32::MAX)?,
        gid: number("group", gid, 10, u32::MAX)?,
        mode: number("permissions", mode, 8, MODE_MAX)? as u16,
        capabilities,
    };
    Ok((path, entry))
}

/// Parses a mask in hexadecimal, octal or decimal, like strtoll(3) with base 0.
fn mask(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok().filter(|text| !text.starts_with('+'))?;
    let parse = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => parse(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => parse(text, 8),
        None => parse(text, 10),
    }
}

/// The attribute value of effective capabilities (`struct vfs_cap_data`: permitted and inheritable
/// ones, the lower halves first).
fn capability_value(mask: u64) -> Vec<u8> {
    [EFFECTIVE_2, mask as u32, 0, (mask >> 32) as u32, 0].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The capability mask of an attribute value that has nothing else.
fn capability_mask(value: &[u8]) -> Option<u64> {
    let word = |at: usize| value.get(at..)?.first_chunk().map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
    let mask = word(4)? | word(12)? << 32;
    (capability_value(mask) == value).then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_android_reads_them_and_wrong_ones_named() {
        let text = b" 0 0 755 selabel=u:object_r:rootfs:s0 capabilities=0x0\n\nsystem/bin/ping 0 2000 0750 capabilities=0x2000\nsystem/bin/ls 0 2000 755 toybox\r\n/a 1 2 7777 capabilities=010\n";
        let parsed = FsConfig::parse(text).unwrap();
        let says = |key: &[u8]| parsed.entries.get(key).map(Entry::says);
        assert_eq!(says(b""), Some((0, 0, 0o755, 0)));
        assert_eq!(says(b"system/bin/ping"), Some((0, 2000, 0o750, 0x2000)));
        assert_eq!(says(b"system/bin/ls"), Some((0, 2000, 0o755, 0)));
        assert_eq!(says(b"a"), Some((1, 2, 0o7777, 8)));
        for (text, expected) in [
            ("a 0 0", "line 1: expected PATH UID GID MODE"),
            ("\na 0 0 8", "line 2: expected a number up to octal 7777 as permissions"),
            ("a 0 -1 7", "line 1: expected a number up to 4294967295 as group"),
            ("a +0 1 7", "as user"),
            ("a 0 0 7 capabilities=x", "line 1: expected a number of 64 bits"),
            ("a 0 0 7\na 0 0 6", "line 2: \"a\" is in line 1"),
            ("../a 0 0 7", "line 1: path"),
        ] {
            let error = FsConfig::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn capabilities_are_a_mask_or_have_no_word() {
        for mask in [1, 0x2000, 1 << 40 | 7] {
            assert_eq!(capability_mask(&capability_value(mask)), Some(mask));
        }
        let mut other = capability_value(1);
        other[0] = 0;
        assert_eq!((capability_mask(&other), capability_mask(&other[..12])), (None, None));
    }
}
