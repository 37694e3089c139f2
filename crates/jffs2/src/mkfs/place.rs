//! Placing nodes into erase blocks.

use std::io::Write;

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::BuildOptions;
use crate::layout::{DIRENT_SIZE, HEADER_SIZE, Header, node_type, padded};
use crate::medium::{Cleanmarker, oob_cleanmarker};
use crate::write::{Collector, DIRENT_ENTRY, FRAME, INODE_ENTRY, XATTR_ENTRY, XREF_ENTRY};

/// Bytes passed to the sink at once.
const BUFFERED: usize = 1 << 20;

/// Statistics of a finished image.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Bytes of all blocks.
    pub bytes: u64,
    /// Bytes of OOB.
    pub oob_bytes: u64,
    /// Blocks with a summary.
    pub summaries: u64,
    /// Unused bytes at the ends of blocks.
    pub lost: u64,
}

/// Places nodes into the blocks of an image, in order of arrival.
pub(super) struct Placer<'a> {
    options: &'a BuildOptions,
    sink: &'a mut (dyn Write + Send),
    /// Blocks waiting for the sink, with the open one last.
    bytes: Vec<u8>,
    /// The amounts written and lost so far.
    totals: Totals,
    /// Bytes used in the open block, including padding; 0 if none is open.
    offset: u32,
    /// The nodes of the open block, for its summary.
    summary: Collector,
}

impl<'a> Placer<'a> {
    pub fn new(options: &'a BuildOptions, sink: &'a mut (dyn Write + Send)) -> Self {
        let summary = Collector::new(options.summaries);
        Self { options, sink, bytes: Vec::new(), totals: Totals::default(), offset: 0, summary }
    }

    /// The space for a node in the open block, or in an empty one if none is open, given an entry
    /// of `entry` bytes in the summary.
    pub fn room(&self, entry: u32) -> u32 {
        let offset = if self.offset == 0 { padded(self.options.cleanmarker_size) } else { self.offset };
        let kept = if self.summary.is_disabled() { 0 } else { padded(self.summary.size() + entry + FRAME) };
        (self.options.erase_size - offset).saturating_sub(kept)
    }

    /// Appends a node, in a new block if it does not fit the open one.
    pub fn put(&mut self, node: &[u8]) -> Result<()> {
        let length = u32::try_from(node.len()).unwrap_or(u32::MAX);
        let order = self.options.order;
        let entry = Header::decode(order, node).map_or(0, |header| entry_of(&header));
        if length > self.room(entry) && self.offset > 0 {
            self.close_block()?;
        }
        if length > self.room(entry) {
            // The node leaves no space for a summary, so its block has none.
            self.summary.disable();
        }
        if length > self.room(entry) {
            return Err(FsError::new(
                ErrorKind::InvalidArgument,
                format!(
                    "a node of {length} bytes does not fit an erase block of {} bytes; a larger erase size would hold it",
                    self.options.erase_size
                ),
            ));
        }
        self.open_block()?;
        self.summary.add(order, node, self.offset);
        self.bytes.extend_from_slice(node);
        let behind = padded(length) - length;
        self.bytes.extend(std::iter::repeat_n(0xFF, behind as usize));
        self.offset += padded(length);
        Ok(())
    }

    fn open_block(&mut self) -> Result<()> {
        let marker = self.options.cleanmarker_size;
        if self.offset > 0 {
            return Ok(());
        }
        if self.position() >= 1 << 32 {
            return Err(FsError::new(
                ErrorKind::NoSpace,
                "the image would be larger than the 4 GiB that JFFS2 can address",
            ));
        }
        if marker >= HEADER_SIZE {
            let header = Header::new(self.options.order, node_type::CLEANMARKER, marker).encode(self.options.order);
            self.bytes.extend_from_slice(&header);
            self.bytes.extend(std::iter::repeat_n(0xFF, (marker - HEADER_SIZE) as usize));
        }
        self.offset = marker;
        Ok(())
    }

    /// Closes the open block, with a summary if the image has them.
    pub fn close_block(&mut self) -> Result<()> {
        let left = self.options.erase_size - self.offset;
        let Self { options, offset, .. } = *self;
        if offset > 0
            && let Some(node) = self.summary.node(options.order, options.cleanmarker_size, offset, left)
        {
            self.bytes.extend_from_slice(&node);
            self.offset += left;
            self.totals.summaries += 1;
        }
        self.leave_block()
    }

    /// Closes the open block without a summary.
    fn leave_block(&mut self) -> Result<()> {
        if self.offset == 0 {
            return Ok(());
        }
        let left = self.options.erase_size - self.offset;
        self.totals.lost += u64::from(left);
        self.bytes.extend(std::iter::repeat_n(0xFF, left as usize));
        self.offset = 0;
        self.summary = Collector::new(self.options.summaries);
        if self.bytes.len() >= BUFFERED { self.hand_over() } else { Ok(()) }
    }

    fn position(&self) -> u64 {
        self.totals.bytes + self.bytes.len() as u64
    }

    /// Passes whole blocks to the sink.
    fn hand_over(&mut self) -> Result<()> {
        let oob_bytes = self.write_out().map_err(|error| FsError::device("the image cannot be written", error))?;
        self.totals.bytes += self.bytes.len() as u64;
        self.totals.oob_bytes += oob_bytes;
        self.bytes.clear();
        Ok(())
    }

    fn write_out(&mut self) -> std::io::Result<u64> {
        let Some(pages) = self.options.oob else {
            self.sink.write_all(&self.bytes)?;
            return Ok(0);
        };
        let plain = vec![0xFF; pages.oob_size as usize];
        let mut marked = plain.clone();
        if let Cleanmarker::Oob { offset } = Cleanmarker::of_nand(pages.page_size, pages.oob_size) {
            let room = marked.iter_mut().skip(offset as usize);
            room.zip(oob_cleanmarker(self.options.order)).for_each(|(to, byte)| *to = byte);
        }
        let mut taken = 0;
        for block in self.bytes.chunks(self.options.erase_size as usize) {
            for (number, page) in block.chunks(pages.page_size as usize).enumerate() {
                self.sink.write_all(page)?;
                self.sink.write_all(if number == 0 { &marked } else { &plain })?;
                taken += u64::from(pages.oob_size);
            }
        }
        Ok(taken)
    }

    /// Completes and pads the image. The last block has no summary, so that its rest can be
    /// written.
    pub fn finish(mut self) -> Result<Totals> {
        self.leave_block()?;
        let wanted = self.options.size;
        if wanted > 0 && self.position() > wanted {
            return Err(FsError::new(
                ErrorKind::NoSpace,
                format!("the tree takes {} bytes, more than the {wanted} of the image", self.position()),
            ));
        }
        while self.position() < wanted {
            // The rest of the image is erased blocks, with cleanmarkers if used.
            self.open_block()?;
            let left = self.options.erase_size - self.offset;
            self.bytes.extend(std::iter::repeat_n(0xFF, left as usize));
            self.offset = 0;
            if self.bytes.len() >= BUFFERED {
                self.hand_over()?;
            }
        }
        self.hand_over()?;
        Ok(self.totals)
    }
}

/// Size of a node's entry in a summary, in bytes.
fn entry_of(header: &Header) -> u32 {
    match header.node_type {
        node_type::INODE => INODE_ENTRY,
        node_type::DIRENT => DIRENT_ENTRY + header.total_length.saturating_sub(DIRENT_SIZE),
        node_type::XATTR => XATTR_ENTRY,
        _ => XREF_ENTRY,
    }
}
