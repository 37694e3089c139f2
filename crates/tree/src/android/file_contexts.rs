//! SELinux labels by path pattern: `file_contexts`.
//!
//! One pattern per line, as libselinux reads it (file_contexts(5), selabel_file(5)):
//!
//! ```text
//! /system(/.*)?          u:object_r:system_file:s0
//! /system/bin/sh     --  u:object_r:shell_exec:s0
//! /system/secret         <<none>>
//! ```
//!
//! The pattern is a regular expression for the whole path. A file type may follow it: `--` regular
//! files, `-d` directories, `-l` links, `-c`, `-b`, `-p`, `-s`. Lines with a plain-text pattern
//! take precedence over the others; within each group the last match counts. Patterns use the
//! syntax of the crate regex: look-around and back-references are refused.

use std::collections::BTreeMap;

use nandkit_vfs::FileKind;
use nandkit_vfs::source::{SourceTree, path as path_of};
use regex::bytes::{Regex, RegexBuilder};

use super::{AndroidText, LABEL, xattr};
use crate::{Note, Result, TreeError};

/// Memory limit of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// The text for no label.
const NONE: &str = "<<none>>";

/// The label and file type of a line.
#[derive(Clone, Debug)]
struct Rule {
    kind: Option<FileKind>,
    label: Option<Vec<u8>>,
}

impl Rule {
    fn is_for(&self, kind: FileKind) -> bool {
        self.kind.is_none_or(|own| own == kind)
    }

    fn says(&self) -> Option<&[u8]> {
        self.label.as_deref()
    }
}

/// A parsed `file_contexts` file.
#[derive(Clone, Debug, Default)]
pub struct FileContexts {
    /// Rules with a plain-text pattern, in line order.
    exact: BTreeMap<Vec<u8>, Vec<Rule>>,
    /// All other rules: the literal prefix of matching paths, the pattern, and the rule.
    patterns: Vec<(Vec<u8>, Regex, Rule)>,
}

impl FileContexts {
    /// Parses a file. Errors: `Line` with the first invalid line.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let mut parsed = Self::default();
        for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let wrong = |what: String| TreeError::Line { line, what };
            let text = std::str::from_utf8(text).map_err(|_| wrong("expected text in UTF-8".into()))?;
            let fields: Vec<&str> = text.split_whitespace().collect();
            let (pattern, kind, label) = match fields.as_slice() {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [pattern, label] => (*pattern, None, *label),
                [pattern, kind, label] => (*pattern, Some(kind_of(kind).map_err(wrong)?), *label),
                _ => return Err(wrong(format!("expected PATTERN [KIND] LABEL, found {} fields", fields.len()))),
            };
            let label = label_of(label).map_err(wrong)?;
            let rule = Rule { kind, label };
            let (prefix, is_whole) = literal(pattern);
            if is_whole {
                parsed.exact.entry(prefix).or_default().push(rule);
                continue;
            }
            let built = RegexBuilder::new(&format!("^(?:{pattern})$"))
                .unicode(false)
                .dot_matches_new_line(true)
                .size_limit(PATTERN_BYTES_MAX)
                .build();
            let built = built.map_err(|error| {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default();
                wrong(format!("the pattern \"{pattern}\" cannot be used: {}", why.trim_start_matches("error: ")))
            })?;
            parsed.patterns.push((prefix, built, rule));
        }
        Ok(parsed)
    }

    /// The label of a path that includes the mount point, or that it has none; `None` if no line
    /// matches. Cost: a test of each pattern whose prefix fits.
    pub(super) fn label(&self, path: &[u8], kind: FileKind) -> Option<Option<&[u8]>> {
        let exact = self.exact.get(path).and_then(|rules| rules.iter().rev().find(|rule| rule.is_for(kind)));
        if let Some(rule) = exact {
            return Some(rule.says());
        }
        let fits = |(prefix, pattern, rule): &&(Vec<u8>, Regex, Rule)| {
            rule.is_for(kind) && path.starts_with(prefix) && pattern.is_match(path)
        };
        self.patterns.iter().rev().find(fits).map(|(_, _, rule)| rule.says())
    }

    /// Makes a file with the labels of a tree's nodes: one line per path, `<<none>>` for a node
    /// without label. Leaves out labels that the format cannot express.
    pub fn text_of(tree: &dyn SourceTree, mount_point: &[u8]) -> AndroidText {
        let nodes = tree.nodes();
        let mut made = AndroidText::default();
        for (index, node) in nodes.iter().enumerate() {
            let path = path_of(nodes, index);
            let label = match xattr(node, LABEL) {
                None => Ok(NONE),
                Some(value) => std::str::from_utf8(value.strip_suffix(b"\0").unwrap_or(value)).map_err(|_| ()),
            };
            match label.ok().filter(|label| label_of(label).is_ok()) {
                Some(label) => {
                    let pattern = pattern_of(&full_path(mount_point, &path));
                    made.text.extend_from_slice(format!("{pattern} {label}\n").as_bytes());
                }
                None => {
                    let reason = "a file_contexts has no words for its label".to_owned();
                    made.left_out.push(Note { path, reason });
                }
            }
        }
        made
    }
}

/// The path of a node, with its mount point.
pub(super) fn full_path(mount_point: &[u8], path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = [mount_point, path].into_iter().filter(|part| !part.is_empty()).collect();
    [b"/", parts.join(&b'/').as_slice()].concat()
}

fn kind_of(word: &str) -> std::result::Result<FileKind, String> {
    match word {
        "--" => Ok(FileKind::Regular),
        "-d" => Ok(FileKind::Directory),
        "-l" => Ok(FileKind::Symlink),
        "-c" => Ok(FileKind::CharacterDevice),
        "-b" => Ok(FileKind::BlockDevice),
        "-p" => Ok(FileKind::Fifo),
        "-s" => Ok(FileKind::Socket),
        other => Err(format!("expected a kind (--, -d, -l, -c, -b, -p or -s), found \"{other}\"")),
    }
}

/// Checks a label: user, role, type, and with MLS a level.
fn label_of(word: &str) -> std::result::Result<Option<Vec<u8>>, String> {
    let is_word = !word.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    let parts: Vec<&str> = word.splitn(4, ':').collect();
    match word {
        NONE => Ok(None),
        _ if is_word && parts.len() >= 3 && parts.iter().all(|part| !part.is_empty()) => Ok(Some(word.into())),
        _ => {
            Err(format!("expected a label as u:object_r:system_file:s0, or {NONE}, found \"{}\"", word.escape_debug()))
        }
    }
}

/// A pattern that matches only this path: bytes that are neither plain text nor `\` before a
/// special character are written as numbers.
fn pattern_of(path: &[u8]) -> String {
    let mut pattern = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b' ' | 0..0x20 | 0x7F.. => pattern += &format!("\\x{byte:02x}"),
            byte if byte.is_ascii_alphanumeric() || b"/_-,:;=@%~!\"'<>&`".contains(byte) => {
                pattern.push(char::from(*byte));
            }
            byte => pattern.extend(['\\', char::from(*byte)]),
        }
    }
    pattern
}

/// The literal prefix of all matching paths, and whether it is the whole pattern.
fn literal(pattern: &str) -> (Vec<u8>, bool) {
    let bytes = pattern.as_bytes();
    let (mut prefix, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let taken = match byte {
            b'\\' => match bytes.get(at + 1) {
                Some(b'x') => hexadecimal(bytes.get(at + 2..at + 4)).map(|byte| (byte, 4)),
                Some(sign) if sign.is_ascii_punctuation() => Some((*sign, 2)),
                _ => None,
            },
            b'.' | b'^' | b'$' | b'?' | b'*' | b'+' | b'|' | b'[' | b']' | b'(' | b')' | b'{' | b'}' => None,
            byte => Some((*byte, 1)),
        };
        let Some((byte, length)) = taken else {
            // The character before a repetition may be missing; `|` may occur anywhere later.
            if matches!(byte, b'?' | b'*' | b'+' | b'{') {
                prefix.pop();
            }
            return (if pattern.contains('|') { top_level(pattern, prefix) } else { prefix }, false);
        };
        prefix.push(byte);
        at += length;
    }
    (prefix, true)
}

fn hexadecimal(digits: Option<&[u8]>) -> Option<u8> {
    let digits =
        std::str::from_utf8(digits?).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

/// Keeps the prefix unless the pattern has a `|` outside of all parentheses, or brackets, which
/// quote special characters.
fn top_level(pattern: &str, prefix: Vec<u8>) -> Vec<u8> {
    let (mut depth, mut escape) = (0_i32, false);
    for byte in pattern.bytes() {
        match byte {
            _ if escape => escape = false,
            b'\\' => escape = true,
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'[' => return Vec::new(),
            b'|' if depth <= 0 => return Vec::new(),
            _ => {}
        }
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::escaped;

    fn label(contexts: &FileContexts, path: &[u8]) -> Option<Option<String>> {
        let found = contexts.label(path, FileKind::Regular)?;
        Some(found.map(|label| String::from_utf8(label.to_vec()).unwrap()))
    }

    #[test]
    fn plain_paths_come_first_then_the_last_pattern_that_fits() {
        let text = b"# all\n/bin/sh -- u:r:exact:s0\n/.*  u:r:all:s0\n/bin(/.*)? u:r:bin:s0\n/bin/.*\\.so u:r:so:s0\n\n/bin/a\\.b <<none>>\n/dev(/.*)? -d u:r:dev:s0\n/x|/yz? u:r:either:s0\n/q[(]|/w u:r:bracket:s0\n/tm?p u:r:tmp:s0\n/a\\x20b u:r:space:s0\n";
        let contexts = FileContexts::parse(text).unwrap();
        let some = |label: &str| Some(Some(format!("u:r:{label}:s0")));
        for (path, expected) in [
            (&b"/bin/sh"[..], some("exact")),
            (b"/bin/shx", some("bin")),
            (b"/bin", some("bin")),
            (b"/bin/l.so", some("so")),
            (b"/bin/lxso", some("bin")),
            (b"/bin/a.b", Some(None)),
            (b"/bin/axb", some("bin")),
            (b"/dev/x", some("all")),
            (b"/x", some("either")),
            (b"/y", some("either")),
            (b"/yz", some("either")),
            (b"/w", some("bracket")),
            (b"/tp", some("tmp")),
            (b"/a b", some("space")),
            (b"/\xFF\n", some("all")),
            (b"nothing", None),
        ] {
            assert_eq!(label(&contexts, path), expected, "{}", escaped(path));
        }
        assert_eq!(contexts.label(b"/bin/sh", FileKind::Directory), Some(Some(&b"u:r:bin:s0"[..])));
        assert_eq!(contexts.label(b"/dev/x", FileKind::Directory), Some(Some(&b"u:r:dev:s0"[..])));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, expected) in [
            ("/a", "line 1: expected PATTERN [KIND] LABEL, found 1 fields"),
            ("\n/a -x u:r:t:s0", "line 2: expected a kind"),
            ("/a u:r", "line 1: expected a label"),
            ("/a u::t:s0", "line 1: expected a label"),
            ("/a( u:r:t:s0", "line 1: the pattern \"/a(\" cannot be used: unclosed group"),
            ("/(?=a).* u:r:t:s0", "look-around"),
            ("/(x{1000}){1000} u:r:t:s0", "cannot be used"),
        ] {
            let error = FileContexts::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert!(FileContexts::parse(b"/a\xFF u:r:t:s0").is_err());
    }

    #[test]
    fn the_pattern_of_a_path_fits_it_alone() {
        let all: Vec<u8> = (1..=255).collect();
        for path in [&b"/a.b (c)\n|d\\e"[..], b"/\xC3\xA4\xFF+*", &[b"/", all.as_slice()].concat()] {
            let pattern = pattern_of(path);
            assert_eq!(literal(&pattern), (path.to_vec(), true), "{pattern}");
            let regex = RegexBuilder::new(&format!("^(?:{pattern})$")).unicode(false).build().unwrap();
            assert!(regex.is_match(path) && !regex.is_match(b"/aXb (c)\n|d\\e"), "{pattern}");
            assert!(!pattern.contains(char::is_whitespace), "{pattern}");
        }
    }
}
