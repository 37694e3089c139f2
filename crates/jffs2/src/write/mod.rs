//! The writing side.
//!
//! Every change becomes a node at once. Nodes are appended to an open block (one for each region of
//! a separation); an incomplete page waits in the block's write buffer. Before each node,
//! `Jffs2::reserve` ensures that there is space, and runs the collector if not.

pub(crate) mod allocate;
pub(crate) mod attributes;
mod changes;
mod counters;
mod data;
mod directory;
mod format;
mod levels;
pub(crate) mod node;
mod options;
pub(crate) mod order;
mod summary;
mod xattr;

pub use counters::Counters;
pub use levels::Levels;
pub use options::{CompressionMode, Draws, TICK_BYTES, WriteOptions};

use std::sync::Arc;

use nandkit_cleaning::separation::{Base, Separator};
use nandkit_codec::compression::Compressor;
use nandkit_flash::FlashError;
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Nanos};
use nandkit_vfs::{ErrorKind, FsError};

use crate::catalogue::{Catalogue, Queue};
use crate::volume::Jffs2;
use counters::Published;
pub(crate) use summary::{Collector, DIRENT_ENTRY, FRAME, INODE_ENTRY, XATTR_ENTRY, XREF_ENTRY};

/// The state that only writing needs.
pub struct Writer {
    options: WriteOptions,
    levels: Levels,
    /// The open block of each region.
    open: Vec<OpenBlock>,
    compressor: Compressor,
    draws: Random,
    /// The count of ticks at the start.
    phase: u64,
    pub(crate) separator: Separator,
    pub(crate) counters: Counters,
    /// The counters as published to observers.
    published: Arc<Published>,
    /// The collector's position in the block on `Queue::Collecting`: an index in its list of nodes.
    pub(crate) cursor: usize,
    /// When the background collector may work next.
    background_next: Nanos,
    /// Whether all inodes have been checked since the mount.
    pub(crate) all_checked: bool,
}

/// The open block of a region.
#[derive(Debug, Default)]
struct OpenBlock {
    block: Option<BlockIndex>,
    summary: Collector,
    /// The nodes in the write buffer that must be programmed before others.
    first: order::First,
}

impl Writer {
    /// A writer for a newly mounted volume, on a device with pages of `page_size` bytes. Blocks
    /// that the mount left open are closed: a page interrupted by a power cut may look erased, but
    /// would not hold what is written to it. (Linux continues in the block with the most space, and
    /// so does this with [`WriteOptions::reopen`].)
    pub(crate) fn new(options: &WriteOptions, catalogue: &mut Catalogue, page_size: u32, now: Nanos) -> Self {
        let separator = Separator::new(options.separation);
        let regions = separator.regions();
        let bytes = u64::from(catalogue.erase_size) * catalogue.blocks.len() as u64;
        let levels = Levels::new(bytes, catalogue.erase_size, catalogue.blocks.len() as u32, regions);
        let left: Vec<BlockIndex> = catalogue.on(Queue::Open).chain(catalogue.on(Queue::Collecting)).collect();
        let mut open: Vec<OpenBlock> = (0..regions).map(|_| OpenBlock::default()).collect();
        for number in left {
            let Some(block) = catalogue.block(number) else { continue };
            let (free, is_open) = (block.free, block.queue == Queue::Open);
            if let Some(first) = open.first_mut().filter(|_| options.reopen && is_open) {
                // A page with content is not programmed again. The block's content is in no
                // summary.
                catalogue.waste(number, free % page_size.max(1), now);
                (first.block, first.summary) = (Some(number), Collector::new(false));
                continue;
            }
            catalogue.waste(number, free, now);
            catalogue.close(number);
        }
        if options.separation.base() == Base::Writes {
            // The time of the mount is no count of writes: all nodes are old.
            for node in catalogue.blocks.iter_mut().flat_map(|block| &mut block.nodes) {
                node.written = Nanos::ZERO;
            }
        }
        Self {
            options: *options,
            levels,
            open,
            compressor: Compressor::new(),
            draws: Random::new(options.seed, "jffs2"),
            phase: Random::new(options.seed, "jffs2 ticks").below(1 << 32),
            separator,
            counters: Counters::default(),
            published: Arc::default(),
            cursor: 0,
            background_next: now,
            all_checked: false,
        }
    }

    /// The options for writing.
    pub const fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// The thresholds of free blocks.
    pub const fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Whether to leave an emptied block unerased for a while: one block in 128, which the kernel
    /// decides by its tick count (fs/jffs2/nodemgmt.c).
    pub(crate) fn leaves(&mut self) -> bool {
        self.draws.below(128) == 0
    }

    /// When the background collector may work next.
    pub(crate) const fn background_next(&self) -> Nanos {
        self.background_next
    }

    pub(crate) const fn set_background_next(&mut self, instant: Nanos) {
        self.background_next = instant;
    }

    /// A number in `0..bound` for a policy, at this instant and after so many programmed bytes.
    pub(crate) fn draw(&mut self, bound: u32, now: Nanos, programmed_bytes: u64) -> u32 {
        let ticks = match self.options.draws {
            Draws::Work(tick) => programmed_bytes / tick.max(1),
            Draws::Ticks(tick) => now.get() / tick.get().max(1),
            Draws::Independent => return self.draws.below(u64::from(bound)) as u32,
        };
        (self.phase.wrapping_add(ticks) % u64::from(bound.max(1))) as u32
    }
}

impl<F> Jffs2<F> {
    /// The counters so far; `None` if mounted read-only.
    pub fn counters(&self) -> Option<&Counters> {
        self.writer.as_deref().map(|writer| &writer.counters)
    }

    pub(crate) fn writer(&mut self) -> Result<&mut Writer, FsError> {
        self.writer.as_deref_mut().ok_or_else(read_only)
    }
}

#[cold]
pub(crate) fn read_only() -> FsError {
    FsError::new(ErrorKind::ReadOnly, "the volume is mounted for reading only")
}

/// The error if all numbers of some kind are used up. Not `NoSpace`: a larger volume would not
/// help.
#[cold]
pub(crate) fn exhausted(what: impl Into<String>) -> FsError {
    FsError::new(ErrorKind::NotSupported, what)
}

#[cold]
pub(crate) fn device(error: FlashError) -> FsError {
    FsError::device("the flash", error)
}

#[cold]
pub(crate) fn corrupt(what: impl Into<String>) -> FsError {
    FsError::new(ErrorKind::Corrupt, what)
}
