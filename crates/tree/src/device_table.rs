//! Device tables: nodes and attributes for a tree whose builder may not make devices or change
//! owners.
//!
//! One entry per line, as mkfs.jffs2 and mkfs.ubifs read it (mtd-utils, jffsX-utils/mkfs.jffs2.c
//! and ubifs-utils/common/devtable.c, read for facts):
//!
//! ```text
//! #name     type  mode  uid  gid  major  minor  start  inc  count
//! /dev      d     755   0    0    -      -      -      -    -
//! /dev/mtd  c     640   0    0    90     0      0      2    4
//! ```
//!
//! The type is one of `f`, `d`, `c`, `b`, `p`, and `l` for an existing link. The mode is octal,
//! everything else decimal; `-` and missing fields at the end mean the default (mode 755, owner 0,
//! numbers 0). A count makes that many devices: `start`, `start + 1`, ... is appended to the name,
//! and minor numbers are `inc` apart. An entry for an existing node changes its owner and mode;
//! regular files and links must exist. Unlike in mkfs.jffs2, `/` means the root, and a line that
//! cannot be executed, for instance because its directory is missing, is an error instead of being
//! skipped.

use nandkit_vfs::source::{SourceNode, TreeBuilder, components};
use nandkit_vfs::{FileKind, FsError};

use crate::error::{escaped, show};
use crate::{Adjustments, Result, TreeError};

/// Most devices per line.
const COUNT_MAX: u64 = 1 << 16;

/// The fields after name and type, in order.
const NUMBERS: [&str; 8] = ["mode", "uid", "gid", "major", "minor", "start", "inc", "count"];

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    line: usize,
    path: Vec<u8>,
    kind: FileKind,
    mode: u16,
    uid: u32,
    gid: u32,
    major: u32,
    minor: u32,
    start: u32,
    step: u32,
    count: u32,
}

/// A parsed device table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceTable {
    entries: Vec<Entry>,
}

impl DeviceTable {
    /// Parses a table. Errors: `DeviceTable` with the first invalid line.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let lines = text.split(|byte| *byte == b'\n').enumerate();
        let mut entries = Vec::new();
        for (index, line) in lines {
            let fields: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).collect();
            match fields.as_slice() {
                [] => {}
                [first, ..] if first.starts_with(b"#") => {}
                fields => entries.push(entry(index + 1, fields)?),
            }
        }
        Ok(Self { entries })
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Applies the entries in order.
    pub(crate) fn apply<C>(&self, builder: &mut TreeBuilder<C>, adjustments: &Adjustments) -> Result<()> {
        for entry in &self.entries {
            entry.apply(builder, adjustments)?;
        }
        Ok(())
    }
}

fn wrong(line: usize, what: impl Into<String>) -> TreeError {
    TreeError::DeviceTable { line, what: what.into() }
}

fn entry(line: usize, fields: &[&[u8]]) -> Result<Entry> {
    let [name, kind, numbers @ ..] = fields else {
        return Err(wrong(line, "expected at least a name and a type, found only a name"));
    };
    if !name.starts_with(b"/") {
        return Err(wrong(line, format!("expected a name that starts with \"/\", found \"{}\"", escaped(name))));
    }
    let path = components(name).map_err(|error| wrong(line, error.detail))?.join(&b'/');
    let kind = match *kind {
        b"f" => FileKind::Regular,
        b"d" => FileKind::Directory,
        b"c" => FileKind::CharacterDevice,
        b"b" => FileKind::BlockDevice,
        b"p" => FileKind::Fifo,
        b"l" => FileKind::Symlink,
        other => {
            let what = format!("expected a type (f, d, c, b, p or l), found \"{}\"", escaped(other));
            return Err(wrong(line, what));
        }
    };
    if numbers.len() > NUMBERS.len() {
        let what = format!("expected at most 10 fields (name type {}), found {}", NUMBERS.join(" "), fields.len());
        return Err(wrong(line, what));
    }
    let number = |index: usize, default: u32, radix: u32, max: u32| -> Result<u32> {
        let Some(field) = numbers.get(index).filter(|field| **field != b"-") else { return Ok(default) };
        let parsed = std::str::from_utf8(field).ok().and_then(|text| u32::from_str_radix(text, radix).ok());
        parsed.filter(|value| *value <= max && !field.starts_with(b"+")).ok_or_else(|| {
            let name = NUMBERS.get(index).copied().unwrap_or_default();
            let (digits, max) = if radix == 8 { ("an octal", format!("{max:o}")) } else { ("a", max.to_string()) };
            wrong(line, format!("expected {digits} number up to {max} as {name}, or -, found \"{}\"", escaped(field)))
        })
    };
    let entry = Entry {
        line,
        path,
        kind,
        mode: u16::try_from(number(0, 0o755, 8, 0o7777)?).unwrap_or(0),
        uid: number(1, 0, 10, u32::MAX)?,
        gid: number(2, 0, 10, u32::MAX)?,
        major: number(3, 0, 10, u32::MAX)?,
        minor: number(4, 0, 10, u32::MAX)?,
        start: number(5, 0, 10, u32::MAX)?,
        step: number(6, 1, 10, u32::MAX)?,
        count: number(7, 0, 10, u32::MAX)?,
    };
    let last = u64::from(entry.count.saturating_sub(1));
    let highest = (u64::from(entry.start) + last).max(u64::from(entry.minor) + last * u64::from(entry.step));
    if u64::from(entry.count) > COUNT_MAX || highest > u64::from(u32::MAX) {
        let what = format!("expected at most {COUNT_MAX} devices with numbers of 32 bits, found count {}", entry.count);
        return Err(wrong(line, what));
    }
    Ok(entry)
}

impl Entry {
    fn is_device(&self) -> bool {
        matches!(self.kind, FileKind::CharacterDevice | FileKind::BlockDevice)
    }

    fn apply<C>(&self, builder: &mut TreeBuilder<C>, adjustments: &Adjustments) -> Result<()> {
        let failed = |error: FsError| wrong(self.line, error.detail);
        let parent = self.path.iter().rposition(|byte| *byte == b'/').and_then(|end| self.path.get(..end));
        if let Some(parent) = parent
            && builder.get_mut(parent).map_err(failed)?.is_none()
        {
            let (parent, path) = (show(parent), show(&self.path));
            let what = format!(
                "no parent directory: {parent}, for {path}, is not there; expected a line \"{parent} d 755 0 0\" before this one"
            );
            return Err(wrong(self.line, what));
        }
        if self.is_device() && self.count > 0 {
            for index in 0..self.count {
                let mut path = self.path.clone();
                path.extend_from_slice((u64::from(self.start) + u64::from(index)).to_string().as_bytes());
                let minor = self.minor.wrapping_add(index.wrapping_mul(self.step));
                builder.put(&path, adjustments.timed(self.node(minor)), None).map_err(failed)?;
            }
            return Ok(());
        }
        if let Some(node) = builder.get_mut(&self.path).map_err(failed)? {
            if node.kind != self.kind {
                let what = format!("{} is in the tree as a {:?}, not a {:?}", show(&self.path), node.kind, self.kind);
                return Err(wrong(self.line, what));
            }
            (node.mode, node.uid, node.gid) = (self.mode, self.uid, self.gid);
            if self.is_device() && (self.major, self.minor) != (0, 0) {
                node.device = self.node(self.minor).device;
            }
            return Ok(());
        }
        if matches!(self.kind, FileKind::Regular | FileKind::Symlink) {
            let what = format!("expected {} in the tree: a table makes no files and no links", show(&self.path));
            return Err(wrong(self.line, what));
        }
        builder.put(&self.path, adjustments.timed(self.node(self.minor)), None).map_err(failed)
    }

    fn node(&self, minor: u32) -> SourceNode {
        let node = match self.is_device() {
            true => SourceNode::device(self.kind, self.mode, self.major, minor),
            false => SourceNode::new(self.kind, self.mode),
        };
        node.owned_by(self.uid, self.gid)
    }
}
