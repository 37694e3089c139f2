//! Dividing a block's bytes into nodes, blank flash, and other stretches. Nodes are what Linux
//! accepts as nodes (fs/jffs2/scan.c).

use crate::layout::{ALIGNMENT, ByteOrder, HEADER_SIZE, Header, HeaderFault, MAGIC, padded};

/// A stretch of a block. Offsets are in bytes from the block's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    /// A node with a valid header that ends inside the block.
    Node {
        /// Offset of the first byte.
        start: u32,
        /// Offset of the next stretch.
        end: u32,
        /// Its header.
        header: Header,
    },
    /// Only 0xFF.
    Blank {
        /// Offset of the first byte.
        start: u32,
        /// Offset just past the last byte.
        end: u32,
    },
    /// Only zeroes: the padding of a page that was written before it was full.
    Zeroes {
        /// Offset of the first byte.
        start: u32,
        /// Offset just past the last byte.
        end: u32,
    },
    /// Bytes that are neither a node nor free flash.
    Junk {
        /// Offset of the first byte.
        start: u32,
        /// Offset just past the last byte.
        end: u32,
        /// Why no node begins at `start`.
        fault: Fault,
    },
}

/// Why no node begins at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The header is invalid.
    Header(HeaderFault),
    /// It would end past its block.
    TooLong(u32),
    /// Too few bytes are left for a header.
    Tail,
}

/// The number of leading bytes equal to `byte`.
pub(crate) fn run_of(bytes: &[u8], byte: u8) -> usize {
    let (chunks, rest) = bytes.as_chunks::<32>();
    let whole = chunks.iter().take_while(|chunk| **chunk == [byte; 32]).count() * 32;
    let rest = chunks.get(whole / 32).map_or(rest, |chunk| &chunk[..]);
    whole + rest.iter().take_while(|found| **found == byte).count()
}

/// An iterator over the stretches of a block.
pub(crate) struct Walk<'a> {
    order: ByteOrder,
    magic: u16,
    bytes: &'a [u8],
    at: u32,
}

impl<'a> Walk<'a> {
    /// Starts at the beginning, for nodes with this magic number. `bytes` is at most 2^26 bytes
    /// long, a multiple of four.
    pub(crate) const fn new(order: ByteOrder, magic: u16, bytes: &'a [u8]) -> Self {
        Self { order, magic, bytes, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at as usize..).unwrap_or(&[])
    }

    fn size(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    /// The header at the current position.
    fn header(&self) -> Result<Header, Fault> {
        let rest = self.rest();
        if rest.len() < HEADER_SIZE as usize {
            return Err(Fault::Tail);
        }
        let magic = rest.first_chunk().map_or(0, |bytes| self.order.u16(*bytes));
        if magic != self.magic {
            return Err(Fault::Header(HeaderFault::Magic(magic)));
        }
        let header = Header::decode(self.order, rest).ok_or(Fault::Tail)?;
        header.check(self.order).map_err(Fault::Header)?;
        if header.total_length > self.size() - self.at {
            return Err(Fault::TooLong(header.total_length));
        }
        Ok(header)
    }

    /// Length of the run of whole words of one byte value, in bytes.
    fn words_of(&self, byte: u8) -> u32 {
        let run = run_of(self.rest(), byte);
        u32::try_from(run - run % ALIGNMENT as usize).unwrap_or(0)
    }
}

impl Iterator for Walk<'_> {
    type Item = Stretch;

    fn next(&mut self) -> Option<Stretch> {
        let start = self.at;
        let first = *self.rest().first()?;
        if first == 0xFF || first == 0 {
            let length = self.words_of(first);
            if length > 0 {
                self.at += length;
                let end = self.at;
                return Some(if first == 0 { Stretch::Zeroes { start, end } } else { Stretch::Blank { start, end } });
            }
        }
        let fault = match self.header() {
            Ok(header) => {
                self.at += padded(header.total_length);
                return Some(Stretch::Node { start, end: self.at, header });
            }
            Err(fault) => fault,
        };
        // Advance to the next word, where anything may begin.
        self.at += ALIGNMENT;
        while self.at < self.size() && self.words_of(0xFF) == 0 && self.words_of(0) == 0 && self.header().is_err() {
            self.at += ALIGNMENT;
        }
        self.at = self.at.min(self.size());
        Some(Stretch::Junk { start, end: self.at, fault })
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header(HeaderFault::Magic(found)) => {
                write!(f, "begins with {found:#06x}, where a node has {MAGIC:#06x}")
            }
            Self::Header(HeaderFault::Crc) => write!(f, "the header's checksum does not fit it"),
            Self::Header(HeaderFault::Length(length)) => {
                write!(f, "a node of {length} bytes is shorter than its header")
            }
            Self::TooLong(length) => write!(f, "a node of {length} bytes would extend beyond its block"),
            Self::Tail => write!(f, "too short for a node, and not blank"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::node_type;

    #[test]
    fn a_block_is_cut_into_what_it_is() {
        for order in ByteOrder::ALL {
            let mut block = vec![0xFF; 256];
            let node = |length| Header::new(order, node_type::PADDING, length).encode(order);
            block[0..12].copy_from_slice(&node(14));
            block[16..20].fill(0);
            block[20..32].copy_from_slice(&node(20));
            block[31] ^= 1;
            block[40..52].copy_from_slice(&node(300));
            block[52..64].copy_from_slice(&node(12));
            block[252..256].fill(7);
            let found: Vec<Stretch> = Walk::new(order, MAGIC, &block).collect();
            let header = |at: usize| Header::decode(order, &block[at..]).unwrap();
            assert_eq!(
                found,
                [
                    Stretch::Node { start: 0, end: 16, header: header(0) },
                    Stretch::Zeroes { start: 16, end: 20 },
                    Stretch::Junk { start: 20, end: 32, fault: Fault::Header(HeaderFault::Crc) },
                    Stretch::Blank { start: 32, end: 40 },
                    Stretch::Junk { start: 40, end: 52, fault: Fault::TooLong(300) },
                    Stretch::Node { start: 52, end: 64, header: header(52) },
                    Stretch::Blank { start: 64, end: 252 },
                    Stretch::Junk { start: 252, end: 256, fault: Fault::Tail },
                ]
            );
        }
    }
}
