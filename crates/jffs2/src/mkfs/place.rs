//! Nodes one after the other into erase blocks.

use std::io::Write;

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::BuildOptions;
use crate::layout::{HEADER_SIZE, Header, node_type, padded};

/// Bytes that are handed to the sink at once.
const BUFFERED: usize = 1 << 20;

/// Puts nodes into the blocks of an image, in the order in which they come.
pub(super) struct Placer<'a> {
    options: &'a BuildOptions,
    sink: &'a mut (dyn Write + Send),
    /// Blocks that wait for the sink, the last one open.
    bytes: Vec<u8>,
    /// Bytes that the sink has taken.
    written: u64,
    /// Bytes of the open block, all nodes with their padding; 0 where none is open.
    offset: u32,
    /// Bytes at the ends of blocks that hold nothing.
    pub lost: u64,
}

impl<'a> Placer<'a> {
    pub fn new(options: &'a BuildOptions, sink: &'a mut (dyn Write + Send)) -> Self {
        Self { options, sink, bytes: Vec::new(), written: 0, offset: 0, lost: 0 }
    }

    /// Bytes that a node may take in the open block; those of an empty block where none is open.
    pub fn room(&self) -> u32 {
        let offset = if self.offset == 0 { padded(self.options.cleanmarker_size) } else { self.offset };
        self.options.erase_size - offset
    }

    /// Appends a node, in a new block where the open one has no room for it.
    pub fn put(&mut self, node: &[u8]) -> Result<()> {
        let length = u32::try_from(node.len()).unwrap_or(u32::MAX);
        if length > self.room() && self.offset > 0 {
            self.close_block()?;
        }
        if length > self.room() {
            return Err(FsError::new(
                ErrorKind::InvalidArgument,
                format!(
                    "a node of {length} bytes does not fit an erase block of {} bytes; a larger erase size would hold it",
                    self.options.erase_size
                ),
            ));
        }
        self.open_block()?;
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

    /// Ends the open block.
    pub fn close_block(&mut self) -> Result<()> {
        if self.offset == 0 {
            return Ok(());
        }
        let left = self.options.erase_size - self.offset;
        self.lost += u64::from(left);
        self.bytes.extend(std::iter::repeat_n(0xFF, left as usize));
        self.offset = 0;
        if self.bytes.len() >= BUFFERED { self.hand_over() } else { Ok(()) }
    }

    fn position(&self) -> u64 {
        self.written + self.bytes.len() as u64
    }

    fn hand_over(&mut self) -> Result<()> {
        self.sink.write_all(&self.bytes).map_err(|error| FsError::device("the image cannot be written", error))?;
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    /// Ends the image and fills it up; returns its size and what was lost at ends of blocks.
    pub fn finish(mut self) -> Result<(u64, u64)> {
        self.close_block()?;
        let wanted = self.options.size;
        if wanted > 0 && self.position() > wanted {
            return Err(FsError::new(
                ErrorKind::NoSpace,
                format!("the tree takes {} bytes and the image is to have {wanted}", self.position()),
            ));
        }
        while self.position() < wanted {
            // The rest of the image is erased blocks, with their cleanmarkers where there are any.
            self.open_block()?;
            let left = self.options.erase_size - self.offset;
            self.bytes.extend(std::iter::repeat_n(0xFF, left as usize));
            self.offset = 0;
            if self.bytes.len() >= BUFFERED {
                self.hand_over()?;
            }
        }
        self.hand_over()?;
        Ok((self.written, self.lost))
    }
}
