//! Scanning blocks: from their summary, or node by node.
//!
//! The rules are those of Linux (fs/jffs2/scan.c), including the amount read: only the first 256
//! bytes of a block that begins blank, or with a cleanmarker followed by blank flash.

pub(crate) mod full;
mod ghosts;
pub(crate) mod node;
pub(crate) mod summary;
pub(crate) mod walk;

use nandkit_flash::{Flash, FlashError};
use nandkit_units::BlockIndex;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::damage::{Damage, DamageKind};
use crate::layout::{Compatibility, HEADER_SIZE, Header, XREF_SIZE, node_type};
use crate::medium::MOUNT;
use crate::medium::{Cleanmarker, Medium, OOB_CLEANMARKER_SIZE};
use node::What;

/// Number of leading blank bytes for which a block counts as blank (fs/jffs2/scan.c,
/// `EMPTY_SCAN_SIZE`).
const EMPTY: u32 = 256;
/// Number of leading blank bytes for which a block with a cleanmarker counts as blank.
const EMPTY_BEHIND_CLEANMARKER: usize = 32;
/// Leading pages whose OOB must be blank in a blank block (fs/jffs2/wbuf.c, `NR_OOB_SCAN_PAGES`).
const OOB_PAGES: u32 = 4;

/// A range of a block with its content. 24 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScannedRange {
    /// Offset in the block, in bytes.
    pub(crate) offset: u32,
    /// Bytes up to the next range.
    pub(crate) length: u32,
    /// The content.
    pub(crate) what: What,
}

/// The condition of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Marked bad.
    Bad,
    /// Blank, but not proven to be completely erased.
    Blank,
    /// Erased and ready for use.
    Ready,
    /// Looks blank but is not: must be erased.
    Unclean,
    /// Contains nodes, or remains of nodes.
    Written,
}

/// The result of scanning a block.
#[derive(Clone, Debug)]
pub(crate) struct BlockScan {
    pub(crate) condition: Condition,
    /// The ranges, without gaps from the block's beginning; the rest is free.
    pub(crate) found: Vec<ScannedRange>,
    pub(crate) damage: Vec<Damage>,
    /// Whether any node is marked obsolete in place.
    pub(crate) is_marked: bool,
    /// Offset and type of an unknown node that forbids something.
    pub(crate) forbids: Option<(u32, u16)>,
}

impl BlockScan {
    fn of(condition: Condition) -> Self {
        Self { condition, found: Vec::new(), damage: Vec::new(), is_marked: false, forbids: None }
    }
}

/// A scanner of blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a, F> {
    pub(crate) medium: &'a Medium<F>,
    pub(crate) summaries: bool,
}

impl<F: Flash> Scan<'_, F> {
    /// Scans the blocks `from..to`, in order.
    pub(crate) fn blocks(&self, from: u32, to: u32, parallel: bool) -> Result<Vec<BlockScan>, FlashError> {
        if parallel {
            (from..to)
                .into_par_iter()
                .map_init(Vec::new, |buffer, block| self.block(BlockIndex(block), buffer))
                .collect()
        } else {
            let mut buffer = Vec::new();
            (from..to).map(|block| self.block(BlockIndex(block), &mut buffer)).collect()
        }
    }

    /// Scans a block. `buffer` is working memory for one block: bytes read are stored at their
    /// offset in the block.
    pub(crate) fn block(&self, block: BlockIndex, buffer: &mut Vec<u8>) -> Result<BlockScan, FlashError> {
        if self.medium.is_bad(block) {
            return Ok(BlockScan::of(Condition::Bad));
        }
        let shape = self.medium.shape();
        let in_oob = matches!(shape.cleanmarker, Cleanmarker::Oob { .. });
        let has_marker = in_oob && self.medium.has_cleanmarker(block, MOUNT)?;
        let mut damage = Vec::new();
        buffer.resize(shape.erase_size as usize, 0);
        if self.summaries
            && let Some(scan) = self.by_summary(block, buffer, &mut damage)?
        {
            return Ok(scan);
        }
        let first = EMPTY.next_multiple_of(shape.page_size.max(1)).min(shape.erase_size);
        let (begin, rest) = buffer.split_at_mut(first as usize);
        self.read(block, 0, begin, &mut damage)?;
        if let Some(condition) = self.looks_blank(block, begin, has_marker)? {
            let mut scan = BlockScan { damage, ..BlockScan::of(condition) };
            if condition == Condition::Ready && shape.cleanmarker == Cleanmarker::Inline {
                scan.found.push(ScannedRange { offset: 0, length: HEADER_SIZE, what: What::Cleanmarker });
            }
            return Ok(scan);
        }
        self.read(block, first, rest, &mut damage)?;
        let mut scan = full::block(self.medium.order(), shape, block, buffer);
        ghosts::lay(self.medium.order(), shape, block, buffer, &mut scan, &damage);
        scan.damage.append(&mut damage);
        scan.damage.sort();
        Ok(scan)
    }

    fn read(
        &self,
        block: BlockIndex,
        offset: u32,
        into: &mut [u8],
        damage: &mut Vec<Damage>,
    ) -> Result<(), FlashError> {
        let at = self.medium.shape().address(block, offset);
        self.medium.read_noting(at, into, MOUNT, &mut |at| damage.push(uncorrectable(block, at)))
    }

    /// Whether Linux would take the block for blank from its first read.
    fn looks_blank(&self, block: BlockIndex, bytes: &[u8], has_marker: bool) -> Result<Option<Condition>, FlashError> {
        let blank = walk::run_of(bytes.get(..EMPTY as usize).unwrap_or(bytes), 0xFF) >= bytes.len().min(EMPTY as usize);
        match self.medium.shape().cleanmarker {
            Cleanmarker::Oob { offset } if blank => {
                let condition = if has_marker { Condition::Ready } else { Condition::Blank };
                Ok(Some(if self.oob_is_blank(block, offset, has_marker)? { condition } else { Condition::Unclean }))
            }
            Cleanmarker::None if blank => Ok(Some(Condition::Ready)),
            Cleanmarker::Inline if blank => Ok(Some(Condition::Blank)),
            Cleanmarker::Inline => {
                let order = self.medium.order();
                let marker = Header::new(order, node_type::CLEANMARKER, HEADER_SIZE).encode(order);
                let behind = bytes.get(HEADER_SIZE as usize..EMPTY_BEHIND_CLEANMARKER);
                let ready =
                    bytes.starts_with(&marker) && behind.is_some_and(|bytes| walk::run_of(bytes, 0xFF) == bytes.len());
                Ok(ready.then_some(Condition::Ready))
            }
            _ => Ok(None),
        }
    }

    fn oob_is_blank(&self, block: BlockIndex, marker: u32, has_marker: bool) -> Result<bool, FlashError> {
        let pages = self.medium.shape().erase_size / self.medium.shape().page_size.max(1);
        for page in 0..OOB_PAGES.min(pages) {
            let mut oob = self.medium.read_oob(block, page, MOUNT)?;
            let from = marker as usize;
            if page == 0
                && has_marker
                && let Some(bytes) = oob.get_mut(from..from + OOB_CLEANMARKER_SIZE)
            {
                bytes.fill(0xFF);
            }
            if walk::run_of(&oob, 0xFF) != oob.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Scans a block by its summary, if it has a usable one; otherwise adds the reason to `damage`.
    fn by_summary(
        &self,
        block: BlockIndex,
        buffer: &mut [u8],
        damage: &mut Vec<Damage>,
    ) -> Result<Option<BlockScan>, FlashError> {
        let (shape, order) = (self.medium.shape(), self.medium.order());
        let tail = shape.page_size.max(crate::layout::SUMMARY_MARKER_SIZE).min(shape.erase_size);
        let mut unreadable = Vec::new();
        let (before, end) = buffer.split_at_mut((shape.erase_size - tail) as usize);
        self.read(block, shape.erase_size - tail, end, &mut unreadable)?;
        if !unreadable.is_empty() || !summary::is_marked(order, end) {
            // The full scan will find and report what is unreadable.
            return Ok(None);
        }
        let Some(length) = summary::length(order, end, shape.erase_size) else {
            damage.push(useless(
                block,
                shape.address(block, shape.erase_size - 8).0,
                "its offset lies outside the block",
            ));
            return Ok(None);
        };
        let start = shape.erase_size - length;
        if let Some(before) = before.get_mut(start as usize..) {
            self.read(block, start, before, &mut unreadable)?;
        }
        let bytes = buffer.get(start as usize..).unwrap_or(&[]);
        let mut failed = None;
        let mut references = Vec::new();
        let mut xref = |offset: u32| -> Option<What> {
            let mut bytes = [0; XREF_SIZE as usize];
            if let Err(error) = self.medium.read(shape.address(block, offset), &mut bytes, MOUNT).map(|_| ()) {
                failed = Some(error);
            }
            let header = Header::decode(order, &bytes)?;
            let checked = header.check(order).is_ok() && header.node_type == node_type::XREF;
            match checked.then(|| node::xref(order, &bytes, header.total_length)) {
                Some(Ok(found)) => Some(What::Xref { inode: found.inode, id: found.id, sequence: found.sequence }),
                Some(Err(bad)) => {
                    references.push(damage_of(shape.address(block, offset).0, block, bad));
                    None
                }
                None => {
                    let detail = "the summary tells of a reference here; its header is damaged".into();
                    references.push(Damage {
                        at: shape.address(block, offset),
                        block,
                        kind: DamageKind::Header,
                        inode: None,
                        detail,
                    });
                    None
                }
            }
        };
        let nodes = summary::nodes(order, bytes, shape.erase_size, shape.cleanmarker.size(), &mut xref);
        if let Some(error) = failed {
            return Err(error);
        }
        match nodes {
            Ok(mut found) => {
                for node in &mut found {
                    if let What::Dirent(name) = &mut node.what {
                        name.witness = node::Witness::Summary;
                    }
                }
                unreadable.append(&mut references);
                Ok(Some(BlockScan { found, damage: unreadable, ..BlockScan::of(Condition::Written) }))
            }
            Err(summary::Useless::Unknown(unknown)) if Compatibility::of(unknown) == Compatibility::Incompatible => {
                Ok(Some(BlockScan { forbids: Some((start, unknown)), ..BlockScan::of(Condition::Written) }))
            }
            Err(summary::Useless::Unknown(_)) => Ok(None),
            Err(summary::Useless::Damaged(what)) => {
                damage.push(useless(block, shape.address(block, start).0, &what));
                Ok(None)
            }
        }
    }
}

fn useless(block: BlockIndex, at: u32, what: &str) -> Damage {
    let detail = format!("the block is scanned instead: {what}");
    Damage { at: crate::NodeAddress(at), block, kind: DamageKind::Summary, inode: None, detail }
}

/// Converts a node's fault to damage.
pub(crate) fn damage_of(at: u32, block: BlockIndex, bad: node::Bad) -> Damage {
    Damage { at: crate::NodeAddress(at), block, kind: bad.kind, inode: bad.inode, detail: bad.detail }
}

pub(crate) fn uncorrectable(block: BlockIndex, at: crate::NodeAddress) -> Damage {
    let detail = "more bit errors than the device corrects".into();
    Damage { at, block, kind: DamageKind::Uncorrectable, inode: None, detail }
}
