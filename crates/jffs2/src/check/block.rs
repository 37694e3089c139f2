//! Checking every byte of a block.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause};
use nandkit_vfs::{FsError, Result};

use super::BlockReport;
use crate::Ino;
use crate::damage::{Damage, DamageKind};
use crate::layout::{ACCURATE, ByteOrder, DIRENT_SIZE, HEADER_SIZE, Header, INODE_SIZE, XATTR_SIZE, node_type};
use crate::medium::{Cleanmarker, OOB_CLEANMARKER_SIZE, Soundness};
use crate::scan::node::{self, Bad, What};
use crate::scan::walk::{Stretch, Walk, run_of};
use crate::scan::{ScannedRange, full, summary, uncorrectable};
use crate::stored_data::decompressed;
use crate::volume::Jffs2;
use nandkit_vfs::check::Kind as _;

/// Number of leading blank bytes after which Linux takes a block for blank.
const LOOKS_BLANK: u32 = 256;

const MARKED: &str = "the node is marked obsolete in place, which whoever wrote the block does not do";

/// Checks one block. `bytes` is working memory.
pub(super) fn check<F: Flash>(volume: &Jffs2<F>, block: BlockIndex, bytes: &mut Vec<u8>) -> Result<BlockReport> {
    let (medium, shape) = (&volume.medium, volume.medium.shape());
    let mut report = BlockReport::default();
    bytes.resize(shape.erase_size as usize, 0);
    let mut note = |at| report.damage.push(uncorrectable(block, at));
    let read = medium.read_noting(shape.address(block, 0), bytes, Cause::Recovery, &mut note);
    read.map_err(device)?;
    // First the nodes, as a mount finds them; then everything that a mount ignores.
    let scan = full::block(medium.order(), shape, block, bytes);
    report.damage.extend(scan.damage);
    let mut listed = BTreeMap::new();
    for found in &scan.found {
        report.nameless.note(volume, shape.address(block, found.offset), found);
        listed.insert(found.offset, found.clone());
    }
    let free_from = scan.found.last().map_or(0, |last| last.offset + last.length);
    let mut owners = Vec::new();
    for stretch in Walk::new(medium.order(), shape.magic, bytes) {
        match stretch {
            Stretch::Node { start, end, header } => {
                owners.extend(owner(medium.order(), bytes, start, end, &header));
                let last = end == free_from && end < shape.erase_size;
                Node { volume, bytes, listed: &listed, block, start, end, header, last }.check(&mut report);
            }
            Stretch::Blank { start, end } => report.bytes.blank += u64::from(end - start),
            Stretch::Zeroes { .. } => {}
            Stretch::Junk { start, end, .. } => report.bytes.damaged += u64::from(end - start),
        }
    }
    attribute(volume, &owners, &mut report.damage)?;
    if looks_blank(medium.order(), shape.cleanmarker, bytes) {
        for damage in report.damage.iter_mut().filter(|damage| damage.kind != DamageKind::Uncorrectable) {
            damage.kind = DamageKind::FreeSpace;
        }
        if let Some(first) = scan.found.iter().find(|found| !matches!(found.what, What::Obsolete | What::Cleanmarker)) {
            let detail = "a node in a block that begins blank: it is not looked for, and will be written over".into();
            let at = shape.address(block, first.offset);
            report.damage.push(Damage { at, block, kind: DamageKind::FreeSpace, inode: None, detail });
        }
    }
    if let Cleanmarker::Oob { offset } = shape.cleanmarker {
        check_oob(volume, block, offset, &mut report)?;
    }
    Ok(report)
}

/// Size of the pieces in which a page with errors is read again: the size of the smallest code
/// words.
const PIECE: u32 = 256;

/// Offset and length of a node in its block, and its inode.
type OwnedNode = (u32, u32, Ino);

/// The inode of a node of file data, if its header says so.
fn owner(order: ByteOrder, bytes: &[u8], start: u32, end: u32, header: &Header) -> Option<OwnedNode> {
    let node = bytes.get(start as usize..end as usize).filter(|_| header.node_type == node_type::INODE)?;
    let inode = match node::inode(order, node, header.total_length) {
        Ok(inode) => inode.inode,
        Err(bad) => bad.inode?,
    };
    Some((start, end, inode))
}

/// Adds the inodes whose nodes are in uncorrectable pages. Pages are read again in pieces, because
/// often only one of a page's code words is bad.
fn attribute<F: Flash>(volume: &Jffs2<F>, owners: &[OwnedNode], damage: &mut Vec<Damage>) -> Result<()> {
    let shape = volume.medium.shape();
    let (pages, mut others): (Vec<Damage>, Vec<Damage>) =
        std::mem::take(damage).into_iter().partition(|damage| damage.kind == DamageKind::Uncorrectable);
    for page in pages {
        let start = page.at.offset(shape.erase_size);
        let mut inodes = BTreeSet::new();
        let mut bytes = [0; PIECE as usize];
        for piece in (start..start.saturating_add(shape.read_size).min(shape.erase_size)).step_by(PIECE as usize) {
            let into = bytes.get_mut(..shape.read_size.min(PIECE) as usize).unwrap_or_default();
            let read = volume.medium.read(shape.address(page.block, piece), into, Cause::Recovery).map_err(device)?;
            if read == Soundness::Uncorrectable {
                let touches = |(first, end, _): &&OwnedNode| *first < piece + PIECE && piece < *end;
                inodes.extend(owners.iter().filter(touches).map(|(.., inode)| *inode));
            }
        }
        if inodes.is_empty() {
            others.push(page);
        } else {
            others.extend(inodes.into_iter().map(|inode| Damage { inode: Some(inode), ..page.clone() }));
        }
    }
    *damage = others;
    Ok(())
}

fn device(error: nandkit_flash::FlashError) -> FsError {
    FsError::device("the flash, while checking", error)
}

/// Whether a mount takes the block for blank and reads no further.
fn looks_blank(order: ByteOrder, cleanmarker: Cleanmarker, bytes: &[u8]) -> bool {
    let blank = run_of(bytes, 0xFF) >= LOOKS_BLANK as usize;
    let behind = bytes.get(HEADER_SIZE as usize..32).is_some_and(|bytes| run_of(bytes, 0xFF) == bytes.len());
    // Only a marker of the usual size: blank bytes after a longer one prove nothing.
    let marker = Header::new(order, node_type::CLEANMARKER, HEADER_SIZE).encode(order);
    blank || cleanmarker == Cleanmarker::Inline && behind && bytes.starts_with(&marker)
}

/// Checks that the cleanmarker in the OOB is intact or absent.
fn check_oob<F: Flash>(volume: &Jffs2<F>, block: BlockIndex, offset: u32, report: &mut BlockReport) -> Result<()> {
    let oob = volume.medium.read_oob(block, 0, Cause::Recovery).map_err(device)?;
    let from = offset as usize;
    let Some(marker) = oob.get(from..from + OOB_CLEANMARKER_SIZE) else { return Ok(()) };
    let whole = volume.medium.has_cleanmarker(block, Cause::Recovery).map_err(device)?;
    if whole {
        return Ok(());
    }
    if run_of(marker, 0xFF) != marker.len() {
        let at = volume.medium.shape().address(block, 0);
        let detail = format!("the OOB holds {marker:02x?} where a cleanmarker would be");
        report.damage.push(Damage { at, block, kind: DamageKind::Cleanmarker, inode: None, detail });
    }
    Ok(())
}

/// A node with a valid header, and its context.
struct Node<'a, F> {
    volume: &'a Jffs2<F>,
    /// The whole block.
    bytes: &'a [u8],
    /// The nodes that a mount finds in the block, by offset.
    listed: &'a BTreeMap<u32, ScannedRange>,
    block: BlockIndex,
    start: u32,
    end: u32,
    header: Header,
    /// Only free flash follows it.
    last: bool,
}

impl<F: Flash> Node<'_, F> {
    fn check(&self, report: &mut BlockReport) {
        let length = self.header.total_length;
        let all = self.bytes.get(self.start as usize..self.end as usize).unwrap_or(&[]);
        let (node, alignment) = all.split_at_checked(length as usize).unwrap_or((all, &[]));
        self.check_padding(alignment, length, report);
        if self.header.is_obsolete() {
            report.bytes.obsolete += u64::from(length);
            if self.volume.medium.shape().page_size > 1 {
                self.add(report, DamageKind::Header, None, MARKED.into());
            }
            return;
        }
        let damaged = report
            .damage
            .iter()
            .any(|damage| damage.at.0 == self.volume.medium.shape().address(self.block, self.start).0);
        match self.contents(node, report) {
            Ok(()) if !damaged => report.nodes += 1,
            Ok(()) => {}
            Err(_) if damaged => {}
            Err(bad) => {
                let rest = self.bytes.get(self.start as usize..).unwrap_or(&[]);
                let written_so = node::was_written_so(self.volume.medium.order(), rest);
                let torn = self.last && bad.kind != DamageKind::Summary && !written_so;
                let detail = if torn {
                    format!("the last write in the block: {}: {}", bad.kind.name(), bad.detail)
                } else {
                    bad.detail
                };
                let kind = if torn { DamageKind::Torn } else { bad.kind };
                self.add(report, kind, bad.inode, detail);
            }
        }
    }

    /// Checks that the padding from `offset` of the node on is empty.
    fn check_padding(&self, padding: &[u8], offset: u32, report: &mut BlockReport) {
        if uniform(padding) {
            return;
        }
        let at = self.volume.medium.shape().address(self.block, self.start + offset);
        let detail = format!("{padding:02x?} behind what the node holds, where blank flash or zeroes should be");
        report.damage.push(Damage { at, block: self.block, kind: DamageKind::FreeSpace, inode: None, detail });
    }

    fn add(&self, report: &mut BlockReport, kind: DamageKind, inode: Option<Ino>, detail: String) {
        let at = self.volume.medium.shape().address(self.block, self.start);
        report.damage.push(Damage { at, block: self.block, kind, inode, detail });
    }

    /// Checks the complete content of the node.
    fn contents(&self, node: &[u8], report: &mut BlockReport) -> std::result::Result<(), Bad> {
        let (order, length) = (self.volume.medium.order(), self.header.total_length);
        let mut count = |fixed: u32| report.bytes.content += u64::from(length.saturating_sub(fixed));
        match self.header.node_type {
            node_type::INODE => {
                count(INODE_SIZE);
                let inode = node::inode(order, node, length)?;
                let data = node::data(&inode, node)?;
                let bad = |detail| Bad { kind: DamageKind::Data, inode: Some(inode.inode), detail };
                decompressed(&inode, data).map(|_| ()).map_err(bad)
            }
            node_type::DIRENT => {
                count(DIRENT_SIZE);
                node::dirent(order, node, length).map(|_| ())
            }
            node_type::XATTR => {
                count(XATTR_SIZE);
                let xattr = node::xattr(order, node, length)?;
                let bad = |bad| Bad { inode: self.volume.user_of(xattr.id), ..bad };
                // The length of an attribute node includes the padding after the value.
                let content = XATTR_SIZE + u32::from(xattr.name_length) + 1 + u32::from(xattr.value_length);
                self.check_padding(node.get(content as usize..).unwrap_or(&[]), content, report);
                node::xattr_content(&xattr, node).map(|_| ()).map_err(bad)
            }
            node_type::XREF => node::xref(order, node, length).map(|_| ()),
            node_type::SUMMARY => self.summary(node, report),
            node_type::CLEANMARKER => Ok(()),
            node_type::PADDING => {
                let body = node.get(HEADER_SIZE as usize..).unwrap_or(&[]);
                if uniform(body) {
                    return Ok(());
                }
                Err(Bad { kind: DamageKind::FreeSpace, inode: None, detail: "a padding node holds something".into() })
            }
            _ => {
                count(HEADER_SIZE);
                Ok(())
            }
        }
    }

    /// Checks that a summary lists exactly the content of its block.
    fn summary(&self, node: &[u8], report: &mut BlockReport) -> std::result::Result<(), Bad> {
        let (bytes, listed) = (self.bytes, self.listed);
        let (order, shape) = (self.volume.medium.order(), self.volume.medium.shape());
        let bad = |detail: String| Err(Bad { kind: DamageKind::Summary, inode: None, detail });
        if self.end != shape.erase_size {
            return bad(format!("it ends {} bytes before its block", shape.erase_size - self.end));
        }
        let mut xref = |offset: u32| -> Option<What> {
            let mut bytes = *bytes.get(offset as usize..)?.first_chunk::<{ crate::layout::XREF_SIZE as usize }>()?;
            // The type as it was written, even if marked obsolete since: the mark is covered by the
            // checksum.
            let written = Header::decode(order, &bytes)?.node_type | ACCURATE;
            bytes.get_mut(2..4)?.copy_from_slice(&order.bytes16(written));
            let found = node::xref(order, &bytes, crate::layout::XREF_SIZE).ok()?;
            Some(What::Xref { inode: found.inode, id: found.id, sequence: found.sequence })
        };
        let told = match summary::nodes(order, node, shape.erase_size, shape.cleanmarker.size(), &mut xref) {
            Ok(told) => told,
            Err(summary::Useless::Damaged(what)) => return bad(what),
            Err(summary::Useless::Unknown(_)) => return Ok(()),
        };
        let is_node = |found: &&ScannedRange| !matches!(found.what, What::Obsolete | What::Summary | What::Unknown);
        let told: BTreeMap<u32, &ScannedRange> =
            told.iter().filter(is_node).map(|found| (found.offset, found)).collect();
        for found in listed.values().filter(is_node) {
            if told.get(&found.offset) != Some(&found) {
                return bad(format!(
                    "it does not tell of the node at {:#x} of the block, or tells something else",
                    found.offset
                ));
            }
        }
        for found in told.values() {
            let place = bytes.get(found.offset as usize..).unwrap_or(&[]);
            // Writers of summaries do not mark nodes in place (fs/jffs2/os-linux.h,
            // `jffs2_can_mark_obsolete`).
            let marked =
                Header::decode(order, place).is_some_and(|header| header.check(order).is_ok() && header.is_obsolete());
            if marked && shape.page_size <= 1 {
                let at = shape.address(self.block, found.offset);
                report.damage.push(Damage {
                    at,
                    block: self.block,
                    kind: DamageKind::Header,
                    inode: None,
                    detail: MARKED.into(),
                });
            }
            if !listed.contains_key(&found.offset) && !covers(bytes, found) {
                return bad(format!("it tells of a node at {:#x} of the block, where none is", found.offset));
            }
        }
        Ok(())
    }
}

/// Whether there is anything at the position of a summary's entry: damage there is reported
/// separately.
fn covers(bytes: &[u8], found: &ScannedRange) -> bool {
    let place = bytes.get(found.offset as usize..(found.offset + found.length) as usize).unwrap_or(&[]);
    run_of(place, 0xFF) != place.len()
}

/// Whether all bytes are 0xFF, or all are zero.
fn uniform(bytes: &[u8]) -> bool {
    run_of(bytes, 0xFF) == bytes.len() || run_of(bytes, 0) == bytes.len()
}
