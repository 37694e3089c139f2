//! Packing a tree into a tar archive, for users who may not make devices or change owners.
//!
//! The archive has ustar headers, and PAX extended headers for whatever those cannot hold: long
//! names, fractions of seconds, large numbers, extended attributes (`SCHILY.xattr.NAME`), and
//! access control lists additionally as text (`SCHILY.acl.access`, `SCHILY.acl.default`). It stores
//! modification times only. The same tree yields the same bytes. Holes are written as zeroes, which
//! every reader understands, or stored as in GNU tar.

mod sparse;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::Range;

use nandkit_vfs::source::{SourceNode, SourceTree, path, to_read};
use nandkit_vfs::{FileKind, FileSystem, acl};
use tar::{EntryType, Header};

use crate::archive::{LISTS, xattr_key};
use crate::error::escaped;
use crate::inward::leads_out;
use crate::large::{Holes, LARGE};
use crate::salvage::{self, Damage};
use crate::{ExtractReport, MountLimits, MountedTree, Note, Result, TreeError};

/// Size of a header, and unit of all other sizes.
const BLOCK: usize = 512;

/// Longest name or target in a header, in bytes.
const NAME_MAX: usize = 100;

/// Largest number in a header: 7 octal digits for owners and devices; sizes and times have 11.
const SMALL_MAX: u64 = 0o7_777_777;
const LARGE_MAX: u64 = 0o77_777_777_777;

/// Packs a whole mounted file system into an uncompressed tar archive, with holes as `limits` say.
/// Errors: `Node` if the root cannot be read; `Host` from `out`. All other problems are in the
/// report, and the rest is packed; unreadable parts of a content become zeroes.
pub fn pack(fs: &dyn FileSystem, out: &mut dyn Write, limits: &MountLimits) -> Result<ExtractReport> {
    let tree = MountedTree::read(fs, fs.root(), limits).map_err(|error| TreeError::node(&[], error))?;
    let mut report = pack_tree(&tree, out, &PackOptions { holes: limits.holes, ..PackOptions::default() })?;
    report.refused.extend_from_slice(tree.refused());
    report.damaged.extend_from_slice(tree.damaged());
    report.refused.sort();
    report.damaged.sort();
    Ok(report)
}

/// Options for packing a tree.
#[derive(Clone, Copy, Debug)]
pub struct PackOptions {
    /// Whether to store holes.
    pub holes: Holes,
    /// Whether to write extended attributes, including access control lists.
    pub xattrs: bool,
    /// Whether to refuse symbolic links that lead out of the tree.
    pub inward_links_only: bool,
    /// Bytes that are read at a time; 0 counts as 1.
    pub piece_bytes: usize,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self { holes: Holes::Kept, xattrs: true, inward_links_only: false, piece_bytes: 1 << 20 }
    }
}

/// Returns the current node when its turn comes, if it may differ from the tree's; its content is
/// then read in that version. `None` means unchanged. An error says why it is left out.
pub type Turn<'a> = dyn Fn(usize) -> nandkit_vfs::Result<Option<SourceNode>> + 'a;

/// Packs a tree into a tar archive, like [`pack`]. Sockets are skipped, because an archive cannot
/// hold them.
pub fn pack_tree(tree: &dyn SourceTree, out: &mut dyn Write, options: &PackOptions) -> Result<ExtractReport> {
    pack_in_turn(tree, &|_| Ok(None), out, options)
}

/// Packs a tree that may change meanwhile: calls `turn` once for each node, in order. Name, parent
/// and hard links stay those of the tree.
pub fn pack_in_turn(
    tree: &dyn SourceTree,
    turn: &Turn<'_>,
    out: &mut dyn Write,
    options: &PackOptions,
) -> Result<ExtractReport> {
    nandkit_vfs::source::check(tree.nodes()).map_err(|error| TreeError::node(&[], error))?;
    let report = ExtractReport { owners: true, ..ExtractReport::default() };
    let (left_out, buffer) = (BTreeSet::new(), vec![0; options.piece_bytes.max(1)]);
    let mut packing = Packing { tree, turn, out, options: *options, left_out, buffer, report };
    let failed = |error| TreeError::host("archive", "writing", error);
    for (index, node) in tree.nodes().iter().enumerate() {
        packing.entry(index, node).map_err(failed)?;
    }
    packing.out.write_all(&[0; 2 * BLOCK]).map_err(failed)?;
    packing.out.flush().map_err(failed)?;
    Ok(packing.report)
}

struct Packing<'a> {
    tree: &'a dyn SourceTree,
    turn: &'a Turn<'a>,
    out: &'a mut dyn Write,
    options: PackOptions,
    /// Nodes that are missing in the archive.
    left_out: BTreeSet<usize>,
    /// Copy buffer.
    buffer: Vec<u8>,
    report: ExtractReport,
}

impl Packing<'_> {
    fn entry(&mut self, index: usize, node: &SourceNode) -> io::Result<()> {
        let nodes = self.tree.nodes();
        let present = match (self.turn)(index) {
            Ok(present) => present,
            Err(error) => {
                self.leave_out(index, error.to_string(), true);
                return Ok(());
            }
        };
        let node = present.as_ref().unwrap_or(node);
        let kind = entry_type(node);
        let runs = match kind {
            EntryType::Regular if self.options.holes == Holes::Kept => sparse::runs(self.tree, index, node.size),
            _ => Ok(None),
        };
        if let Some((reason, is_loss)) = self.refusal(index, node, runs.is_err()) {
            self.leave_out(index, reason, is_loss);
            return Ok(());
        }
        *self.counter(kind) += 1;
        let mut name = path(nodes, index);
        if node.kind == FileKind::Directory {
            name.extend_from_slice(if index == 0 { b"./" } else { b"/" });
        }
        let target = match node.hard_link_of {
            Some(first) => path(nodes, first),
            None => node.target.clone(),
        };
        let runs = runs.unwrap_or_default();
        let map = runs.as_ref().map_or_else(Vec::new, |runs| sparse::map(runs, node.size));
        let real_size = runs.is_some().then_some(node.size);
        let whole = (kind == EntryType::Regular).then_some(0..node.size);
        let runs = runs.unwrap_or_else(|| whole.into_iter().collect());
        let size = map.len() as u64 + runs.iter().map(|run| run.end - run.start).sum::<u64>();
        let records = records(node, &name, &target, (size, real_size), self.options.xattrs);
        if !records.is_empty() {
            let mut header = header(EntryType::XHeader, b"PaxHeader", records.len() as u64);
            header.set_mode(0o644);
            self.block(&mut header)?;
            self.padded(&records)?;
        }
        if real_size.is_some() {
            name = sparse::header_name(&name);
        }
        let mut header = header(kind, &name, size.min(LARGE_MAX));
        describe(&mut header, node, &target)?;
        self.block(&mut header)?;
        self.out.write_all(&map)?;
        if kind == EntryType::Regular { self.content(index, node, &runs) } else { Ok(()) }
    }

    fn leave_out(&mut self, index: usize, reason: String, is_loss: bool) {
        let list = if is_loss { &mut self.report.refused } else { &mut self.report.skipped };
        list.push(Note { path: path(self.tree.nodes(), index), reason });
        self.left_out.insert(index);
    }

    /// Why the archive cannot hold a node, and whether leaving it out is a loss; `None` for a node
    /// that the archive can hold. It is not a loss where no archive could hold the node.
    fn refusal(&self, index: usize, node: &SourceNode, too_many_runs: bool) -> Option<(String, bool)> {
        let levels = || path(self.tree.nodes(), index).iter().filter(|byte| **byte == b'/').count();
        if let Some(first) = node.hard_link_of {
            let is_loss = matches!(node.kind, FileKind::Regular | FileKind::Symlink);
            let first = self.left_out.contains(&first);
            return first.then(|| ("the first name of this file was left out".to_owned(), is_loss));
        }
        if node.kind == FileKind::Socket {
            Some(("a tar archive holds no sockets".to_owned(), false))
        } else if node.device >> 32 > SMALL_MAX || node.device & 0xffff_ffff > SMALL_MAX {
            Some(("a tar archive holds device numbers up to 2097151".to_owned(), false))
        } else if too_many_runs && node.size > LARGE {
            Some(("its map in a tar archive holds up to 1048575 runs of data".to_owned(), true))
        } else if self.options.inward_links_only && node.kind == FileKind::Symlink && leads_out(&node.target, levels())
        {
            Some((format!("the link leads out of the archive, to \"{}\"", escaped(&node.target)), true))
        } else {
            None
        }
    }

    fn counter(&mut self, kind: EntryType) -> &mut u64 {
        match kind {
            EntryType::Link => &mut self.report.hard_links,
            EntryType::Regular => &mut self.report.files,
            EntryType::Directory => &mut self.report.directories,
            EntryType::Symlink => &mut self.report.symlinks,
            _ => &mut self.report.specials,
        }
    }

    fn block(&mut self, header: &mut Header) -> io::Result<()> {
        header.set_cksum();
        self.out.write_all(header.as_bytes())
    }

    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        let padding = bytes.len().next_multiple_of(BLOCK) - bytes.len();
        self.out.write_all([0; BLOCK].get(..padding).unwrap_or_default())
    }

    /// Writes some runs of a file in sequence, padded at the end.
    fn content(&mut self, index: usize, node: &SourceNode, runs: &[Range<u64>]) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let mut copy = Copy { buffer, end: node.size, damage: Damage::default() };
        let mut bytes = 0;
        for run in runs {
            copy.run(self.tree, index, node.size, run.clone(), self.out)?;
            bytes += run.end - run.start;
        }
        let padding = (bytes.next_multiple_of(BLOCK as u64) - bytes) as usize;
        self.out.write_all([0; BLOCK].get(..padding).unwrap_or_default())?;
        self.report.bytes = self.report.bytes.saturating_add(node.size);
        self.buffer = std::mem::take(&mut copy.buffer);
        if let Some(reason) = copy.damage.note(node.size) {
            self.report.damaged.push(Note { path: path(self.tree.nodes(), index), reason });
        }
        Ok(())
    }
}

/// The entry type of a node; sockets have none.
fn entry_type(node: &SourceNode) -> EntryType {
    match (node.hard_link_of, node.kind) {
        (Some(_), _) => EntryType::Link,
        (None, FileKind::Regular | FileKind::Socket) => EntryType::Regular,
        (None, FileKind::Directory) => EntryType::Directory,
        (None, FileKind::Symlink) => EntryType::Symlink,
        (None, FileKind::BlockDevice) => EntryType::Block,
        (None, FileKind::CharacterDevice) => EntryType::Char,
        (None, FileKind::Fifo) => EntryType::Fifo,
    }
}

/// Sets mode, owners, time, target and device in a header.
fn describe(header: &mut Header, node: &SourceNode, target: &[u8]) -> io::Result<()> {
    header.set_mode(node.mode.into());
    header.set_uid(if u64::from(node.uid) > SMALL_MAX { 0 } else { node.uid.into() });
    header.set_gid(if u64::from(node.gid) > SMALL_MAX { 0 } else { node.gid.into() });
    header.set_mtime(u64::try_from(node.modified.0.div_euclid(1_000_000_000)).unwrap_or(0).min(LARGE_MAX));
    for (to, from) in header.as_old_mut().linkname.iter_mut().zip(target) {
        *to = *from;
    }
    if matches!(header.entry_type(), EntryType::Block | EntryType::Char) {
        header.set_device_major((node.device >> 32) as u32)?;
        header.set_device_minor(node.device as u32)?;
    }
    Ok(())
}

/// A content being copied.
struct Copy {
    buffer: Vec<u8>,
    /// The header has promised the whole size: zeroes follow the end of the content.
    end: u64,
    damage: Damage,
}

impl Copy {
    /// Writes one run of a file of `size` bytes; holes inside it are written as zeroes without
    /// being read.
    fn run(
        &mut self,
        tree: &dyn SourceTree,
        index: usize,
        size: u64,
        run: Range<u64>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut offset = run.start;
        let mut data = offset..offset;
        while offset < run.end {
            let wanted = (run.end - offset).min(self.buffer.len() as u64) as usize;
            let chunk = self.buffer.get_mut(..wanted).unwrap_or_default();
            if data.end <= offset {
                data = to_read(tree.data_after(index, offset), offset..size);
            }
            if offset < self.end && data.start < offset + wanted as u64 {
                let end = salvage::read(tree, index, (offset, size), chunk, &mut self.damage);
                self.end = if self.damage.is_lost() { offset } else { end };
            } else {
                chunk.fill(0);
            }
            out.write_all(chunk)?;
            offset += wanted as u64;
        }
        Ok(())
    }
}

fn header(kind: EntryType, name: &[u8], size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    for (to, from) in header.as_old_mut().name.iter_mut().zip(name) {
        *to = *from;
    }
    header
}

/// The extended-header records for everything that the header cannot hold; empty if it holds all.
/// Takes the size in the archive, and that of a file stored with holes.
fn records(
    node: &SourceNode,
    name: &[u8],
    target: &[u8],
    (size, real_size): (u64, Option<u64>),
    xattrs: bool,
) -> Vec<u8> {
    let mut records = real_size.map_or_else(Vec::new, |size| sparse::records(name, size));
    let is_sparse = real_size.is_some();
    let mut add = |key: &[u8], value: Vec<u8>| records.push((key.to_vec(), value));
    let long = |text: &[u8]| text.len() > NAME_MAX;
    // Names in extended headers are UTF-8 by default (POSIX.1-2024, pax, "hdrcharset").
    let in_records = [(name, is_sparse || long(name)), (target, long(target))];
    if in_records.iter().any(|(text, is_in)| *is_in && std::str::from_utf8(text).is_err()) {
        add(b"hdrcharset", b"BINARY".to_vec());
    }
    if long(name) && !is_sparse {
        add(b"path", name.to_vec());
    }
    if long(target) {
        add(b"linkpath", target.to_vec());
    }
    if size > LARGE_MAX {
        add(b"size", size.to_string().into_bytes());
    }
    for (key, id) in [(b"uid", node.uid), (b"gid", node.gid)] {
        if u64::from(id) > SMALL_MAX {
            add(key, id.to_string().into_bytes());
        }
    }
    let (seconds, nanoseconds) = (node.modified.0.div_euclid(1_000_000_000), node.modified.0.rem_euclid(1_000_000_000));
    if nanoseconds != 0 || seconds < 0 || seconds as u64 > LARGE_MAX {
        add(b"mtime", decimal(node.modified.0));
    }
    if node.hard_link_of.is_none() && xattrs {
        for (attribute, value) in &node.xattrs {
            add(&xattr_key(attribute), value.clone());
        }
        // Extractors read access control lists only from these records. An invalid list stays an
        // attribute.
        for (key, name) in LISTS {
            let value = node.xattrs.iter().find(|(attribute, _)| attribute.as_slice() == name);
            if let Some(list) = value.and_then(|(_, value)| acl::parse(value).ok()) {
                add(key, acl::to_text(&list).into_bytes());
            }
        }
    }
    let mut text = Vec::new();
    for (key, value) in records {
        // The length includes its own digits.
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while rest + length.to_string().len() != length {
            length = rest + length.to_string().len();
        }
        text.extend_from_slice(length.to_string().as_bytes());
        text.push(b' ');
        text.extend_from_slice(&key);
        text.push(b'=');
        text.extend_from_slice(&value);
        text.push(b'\n');
    }
    text
}

/// Formats nanoseconds as seconds with a decimal fraction.
fn decimal(nanoseconds: i64) -> Vec<u8> {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let distance = nanoseconds.unsigned_abs();
    let text = format!("{sign}{}.{:09}", distance / 1_000_000_000, distance % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').as_bytes().to_vec()
}
