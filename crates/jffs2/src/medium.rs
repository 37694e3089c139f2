//! Byte access by address: the only module that calls [`Flash`].
//!
//! NOR takes bytes at once. NAND takes whole pages: partial pages wait in a write buffer, one for
//! each open block.

use nandkit_flash::{ErrorKind, Flash, FlashError, PageProgram, PageRead};
use nandkit_units::{
    BlockIndex, Cause, Clock, Context, FlashGeometry, FlashKind, Nanos, PageAddress, Priority, Stream,
};

use crate::NodeAddress;
use crate::layout::{ByteOrder, HEADER_SIZE, Header, MAGIC, node_type, padded};

/// The cause of reads during a mount.
pub(crate) const MOUNT: Cause = Cause::Recovery;

/// Where an erased block records that it was erased completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanmarker {
    /// Nowhere: images without OOB, and those made by mkfs.jffs2 with `--no-cleanmarkers`.
    None,
    /// A node of 12 bytes at the block's beginning: NOR.
    Inline,
    /// 8 bytes in the OOB of the block's first page, from this offset on: NAND.
    Oob {
        /// The offset in the OOB.
        offset: u32,
    },
}

/// Size of a cleanmarker in the OOB: a header without its checksum.
pub const OOB_CLEANMARKER_SIZE: usize = 8;

/// A cleanmarker in the OOB: the first eight bytes of a header with length eight (fs/jffs2/wbuf.c).
pub(crate) fn oob_cleanmarker(order: ByteOrder) -> [u8; OOB_CLEANMARKER_SIZE] {
    let header = Header::new(order, node_type::CLEANMARKER, OOB_CLEANMARKER_SIZE as u32).encode(order);
    let mut marker = [0; OOB_CLEANMARKER_SIZE];
    marker.copy_from_slice(&header[..OOB_CLEANMARKER_SIZE]);
    marker
}

impl Cleanmarker {
    /// The position that Linux uses on this kind of flash: after the bad-block marker where
    /// software Hamming ECC leaves space (large pages: from byte 2 on; 512-byte pages: from byte 8
    /// on; drivers/mtd/nand/raw/nand_base.c, the layouts of large and small pages).
    pub const fn of(geometry: &FlashGeometry) -> Self {
        match geometry.kind {
            FlashKind::Nor => Self::Inline,
            FlashKind::Nand => Self::of_nand(geometry.page_size, geometry.oob_size),
        }
    }

    /// The position on NAND with pages and OOB areas of these sizes in bytes.
    pub const fn of_nand(page_size: u32, oob_size: u32) -> Self {
        match (page_size, oob_size) {
            (_, 0..16) => Self::None,
            (0..=512, _) => Self::Oob { offset: 8 },
            _ => Self::Oob { offset: 2 },
        }
    }

    /// Number of data bytes that it takes in a block.
    pub const fn size(self) -> u32 {
        match self {
            Self::Inline => HEADER_SIZE,
            Self::None | Self::Oob { .. } => 0,
        }
    }
}

/// The properties of a device that JFFS2 needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of an erase block in bytes.
    pub erase_size: u32,
    /// Number of erase blocks.
    pub blocks: u32,
    /// Page size in bytes: the unit of the write buffer; 1 on NOR.
    pub page_size: u32,
    /// Most bytes per read: the device's page size.
    pub(crate) read_size: u32,
    /// Pages per block, of that size.
    pages_per_block: u32,
    /// Where cleanmarkers are.
    pub cleanmarker: Cleanmarker,
    /// The magic number of the volume's nodes; nodes with another one do not count, as in Linux.
    pub(crate) magic: u16,
}

impl Shape {
    /// Derives the shape from a device's geometry. The error says what JFFS2 does not support, and
    /// what it does.
    pub fn of(geometry: &FlashGeometry) -> Result<Self, String> {
        let erase_size = u32::try_from(geometry.block_size()).unwrap_or(u32::MAX);
        if !(4096..=1 << 26).contains(&erase_size) || !erase_size.is_multiple_of(4) {
            return Err(format!("erase blocks of {} bytes; JFFS2 takes 4 KiB to 64 MiB", geometry.block_size()));
        }
        if geometry.capacity() > 1 << 32 {
            return Err(format!(
                "the device has {} bytes; JFFS2 takes up to 4 GiB, for its addresses have 32 bits",
                geometry.capacity()
            ));
        }
        let nor = geometry.kind == FlashKind::Nor;
        Ok(Self {
            erase_size,
            blocks: geometry.blocks,
            page_size: if nor { geometry.write_unit } else { geometry.page_size },
            read_size: geometry.page_size,
            pages_per_block: geometry.pages_per_block,
            cleanmarker: Cleanmarker::of(geometry),
            magic: MAGIC,
        })
    }

    /// The block that contains an address.
    pub const fn block_of(&self, at: NodeAddress) -> BlockIndex {
        at.block(self.erase_size)
    }

    /// The address of an offset in a block.
    pub const fn address(&self, block: BlockIndex, offset: u32) -> NodeAddress {
        NodeAddress(block.0 * self.erase_size + offset)
    }
}

/// Whether the data read are reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Soundness {
    /// Reliable, as far as the device can tell.
    Sound,
    /// The device could not correct all bit errors: the bytes are damaged.
    Uncorrectable,
}

/// Bytes waiting to be programmed in an open block.
#[derive(Clone, Debug, Default)]
struct WriteBuffer {
    /// The block; `None` if the buffer is empty.
    block: Option<BlockIndex>,
    /// The page in the block.
    page: u32,
    /// The waiting bytes of the page.
    bytes: Vec<u8>,
    /// The cause of the write.
    cause: Cause,
}

/// A device as JFFS2 sees it: bytes at addresses, and the passing of time.
#[derive(Debug)]
pub struct Medium<F> {
    flash: F,
    clock: Clock,
    shape: Shape,
    order: ByteOrder,
    buffers: Vec<WriteBuffer>,
    programmed_bytes: u64,
}

impl<F: Flash> Medium<F> {
    /// A device with `streams` write buffers.
    pub fn new(flash: F, clock: Clock, shape: Shape, order: ByteOrder, streams: usize) -> Self {
        Self { flash, clock, shape, order, buffers: vec![WriteBuffer::default(); streams.max(1)], programmed_bytes: 0 }
    }

    /// The properties of the device that JFFS2 needs.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The byte order of the volume.
    pub const fn order(&self) -> ByteOrder {
        self.order
    }

    /// Sets the byte order once it is known.
    pub const fn set_order(&mut self, order: ByteOrder) {
        self.order = order;
    }

    /// The clock that device operations advance.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The flash device, for closing it.
    pub const fn flash(&self) -> &F {
        &self.flash
    }

    /// The flash device, for changes.
    pub const fn flash_mut(&mut self) -> &mut F {
        &mut self.flash
    }

    /// Returns the device; the content of write buffers is lost.
    pub fn into_flash(self) -> F {
        self.flash
    }

    fn context(&self, cause: Cause, stream: usize) -> Context {
        Context {
            cause,
            stream: Stream(u8::try_from(stream).unwrap_or(u8::MAX)),
            priority: Priority::Normal,
            ..Context::at(self.clock.now())
        }
    }

    fn page_of(&self, at: u32) -> (PageAddress, u32) {
        let pages = at / self.shape.read_size;
        let block = pages / self.shape.pages_per_block;
        (PageAddress::new(block, pages % self.shape.pages_per_block), at % self.shape.read_size)
    }

    /// Reads bytes, including those in write buffers. All bytes should be inside the device; bytes
    /// outside read as 0xFF.
    ///
    /// Errors: those of the device, except for uncorrectable pages, whose damaged bytes are
    /// returned. Time: that of the device, one page after another.
    pub fn read(&self, at: NodeAddress, into: &mut [u8], cause: Cause) -> Result<Soundness, FlashError> {
        let mut soundness = Soundness::Sound;
        self.read_noting(at, into, cause, &mut |_| soundness = Soundness::Uncorrectable)?;
        Ok(soundness)
    }

    /// Like [`Medium::read`]; also reports the first address of each uncorrectable piece.
    pub fn read_noting(
        &self,
        at: NodeAddress,
        into: &mut [u8],
        cause: Cause,
        uncorrectable: &mut dyn FnMut(NodeAddress),
    ) -> Result<(), FlashError> {
        let end = u64::from(self.shape.blocks) * u64::from(self.shape.erase_size);
        let inside = usize::try_from(end.saturating_sub(u64::from(at.0))).unwrap_or(usize::MAX).min(into.len());
        let (inside, outside) = into.split_at_mut(inside);
        outside.fill(0xFF);
        let (mut from, mut left) = (at.0, inside);
        while !left.is_empty() {
            let (page, column) = self.page_of(from);
            let length = left.len().min((self.shape.read_size - column) as usize);
            let (piece, rest) = std::mem::take(&mut left).split_at_mut(length);
            let context = self.context(cause, 0);
            match self.flash.read(&context, page, PageRead::bytes(column, piece)) {
                Ok(done) => self.clock.advance_to(done.completed),
                Err(error) if error.kind == ErrorKind::Uncorrectable => {
                    self.clock.advance_to(error.completed.max(context.issued));
                    uncorrectable(NodeAddress(from));
                }
                Err(error) => return Err(error),
            }
            self.overlay(from, piece);
            from = from.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
            left = rest;
        }
        Ok(())
    }

    /// Overlays the content of write buffers on bytes that were read.
    fn overlay(&self, at: u32, piece: &mut [u8]) {
        for buffer in &self.buffers {
            let Some(block) = buffer.block else { continue };
            let start = self.shape.address(block, buffer.page * self.shape.page_size).0;
            let end = start.saturating_add(buffer.bytes.len() as u32);
            let (from, to) = (at.max(start), at.saturating_add(piece.len() as u32).min(end));
            if from < to {
                let source = &buffer.bytes[(from - start) as usize..(to - start) as usize];
                piece[(from - at) as usize..(to - at) as usize].copy_from_slice(source);
            }
        }
    }

    /// Reads the OOB of a page from offset 0 on; fewer bytes if the device has fewer.
    pub fn read_oob(&self, block: BlockIndex, page: u32, cause: Cause) -> Result<Vec<u8>, FlashError> {
        let mut oob = vec![0xFF; self.flash.geometry().oob_size as usize];
        let context = self.context(cause, 0);
        match self.flash.read(&context, block.page(page), PageRead::oob(&mut oob)) {
            Ok(done) => self.clock.advance_to(done.completed),
            Err(error) if error.kind == ErrorKind::Uncorrectable => {
                self.clock.advance_to(error.completed.max(context.issued));
            }
            Err(error) => return Err(error),
        }
        Ok(oob)
    }

    /// Whether the block records that it was erased completely. Always true if the medium has no
    /// cleanmarkers.
    pub fn has_cleanmarker(&self, block: BlockIndex, cause: Cause) -> Result<bool, FlashError> {
        match self.shape.cleanmarker {
            Cleanmarker::None => Ok(true),
            Cleanmarker::Inline => {
                let mut bytes = [0; HEADER_SIZE as usize];
                let sound = self.read(self.shape.address(block, 0), &mut bytes, cause)?;
                Ok(sound == Soundness::Sound && bytes == self.cleanmarker_node())
            }
            Cleanmarker::Oob { offset } => {
                let oob = self.read_oob(block, 0, cause)?;
                let from = offset as usize;
                Ok(oob.get(from..from + OOB_CLEANMARKER_SIZE) == Some(&self.cleanmarker_oob()[..]))
            }
        }
    }

    fn cleanmarker_node(&self) -> [u8; HEADER_SIZE as usize] {
        Header::new(self.order, node_type::CLEANMARKER, HEADER_SIZE).encode(self.order)
    }

    fn cleanmarker_oob(&self) -> [u8; OOB_CLEANMARKER_SIZE] {
        oob_cleanmarker(self.order)
    }

    /// The OOB of a block's first page with its cleanmarker, from offset 0 on; empty if the medium
    /// has none there.
    pub(crate) fn oob_marker(&self) -> Vec<u8> {
        let Cleanmarker::Oob { offset } = self.shape.cleanmarker else { return Vec::new() };
        let mut oob = vec![0xFF; offset as usize];
        oob.extend_from_slice(&self.cleanmarker_oob());
        oob
    }

    /// Whether the block is marked bad.
    pub fn is_bad(&self, block: BlockIndex) -> bool {
        self.flash.is_bad(block)
    }

    /// Marks a block bad.
    pub fn mark_bad(&mut self, block: BlockIndex) -> Result<(), FlashError> {
        let context = self.context(Cause::Metadata, 0);
        self.clock.advance_to(self.flash.mark_bad(&context, block)?.completed);
        Ok(())
    }

    /// Erases a block and writes its cleanmarker. Bytes waiting for the block in a write buffer are
    /// dropped.
    ///
    /// Errors: `EraseFailed`, `ProgramFailed`, `BadBlock` mean that the block must be retired;
    /// others: those of the device.
    pub fn erase(&mut self, block: BlockIndex, cause: Cause) -> Result<(), FlashError> {
        for buffer in &mut self.buffers {
            if buffer.block == Some(block) {
                buffer.block = None;
                buffer.bytes.clear();
            }
        }
        let context = self.context(cause, 0);
        let erased = self.flash.erase(&context, block);
        self.pass(&context, erased)?;
        match self.shape.cleanmarker {
            Cleanmarker::None => Ok(()),
            Cleanmarker::Inline => {
                let node = self.cleanmarker_node();
                self.program(self.shape.address(block, 0), &node, cause, 0)
            }
            Cleanmarker::Oob { offset } => {
                let mut oob = vec![0xFF; offset as usize];
                oob.extend_from_slice(&self.cleanmarker_oob());
                let program = PageProgram { oob: &oob, ..PageProgram::bytes(0, &[]) };
                let context = self.context(cause, 0);
                let programmed = self.flash.program(&context, block.page(0), program);
                self.pass(&context, programmed)
            }
        }
    }

    fn pass(&self, context: &Context, result: Result<nandkit_units::Done, FlashError>) -> Result<(), FlashError> {
        match result {
            Ok(done) => {
                self.clock.advance_to(done.completed);
                Ok(())
            }
            Err(error) => {
                self.clock.advance_to(error.completed.max(context.issued));
                Err(error)
            }
        }
    }

    /// Programs bytes aligned to the write unit, in one block.
    fn program(&mut self, at: NodeAddress, bytes: &[u8], cause: Cause, stream: usize) -> Result<(), FlashError> {
        let (mut from, mut left) = (at.0, bytes);
        while !left.is_empty() {
            let (page, column) = self.page_of(from);
            let length = left.len().min((self.shape.read_size - column) as usize);
            let (piece, rest) = left.split_at(length);
            let context = self.context(cause, stream);
            let programmed = self.flash.program(&context, page, PageProgram::bytes(column, piece));
            self.pass(&context, programmed)?;
            self.programmed_bytes += length as u64;
            // The last page of 4 GiB ends where the numbers do.
            from = from.saturating_add(length as u32);
            left = rest;
        }
        Ok(())
    }

    /// Appends bytes at `at`, which must follow the bytes last appended to this stream's block (or
    /// start a page of another block, with an empty buffer). On NAND an incomplete page waits in
    /// the buffer.
    ///
    /// Errors: those of the device. After an error, none of the bytes count as written, the buffer
    /// still has its earlier content, and [`Medium::waiting`] returns it.
    pub fn append(&mut self, stream: usize, at: NodeAddress, bytes: &[u8], cause: Cause) -> Result<(), FlashError> {
        let page_size = self.shape.page_size;
        if page_size <= 1 || self.buffers.get(stream).is_none() {
            return self.program(at, bytes, cause, stream);
        }
        let block = self.shape.block_of(at);
        let offset = at.offset(self.shape.erase_size);
        let buffer = &self.buffers[stream];
        let mut waiting = buffer.bytes.clone();
        let follows = buffer.block == Some(block) && buffer.page * page_size + waiting.len() as u32 == offset;
        let begins = waiting.is_empty() && offset.is_multiple_of(page_size);
        if !follows && !begins {
            let page = block.page(offset / page_size);
            let detail = "appended bytes do not follow what waits in the write buffer";
            return Err(FlashError::new(ErrorKind::Misuse, nandkit_flash::Operation::Program, page, detail));
        }
        let mut start = offset - waiting.len() as u32;
        waiting.extend_from_slice(bytes);
        let whole = waiting.len() - waiting.len() % page_size as usize;
        for page in waiting[..whole].chunks(page_size as usize) {
            self.program(self.shape.address(block, start), page, cause, stream)?;
            start += page_size;
        }
        waiting.drain(..whole);
        let full = start >= self.shape.erase_size && waiting.is_empty();
        let buffer = &mut self.buffers[stream];
        buffer.block = (!full).then_some(block);
        buffer.page = start / page_size;
        buffer.bytes = waiting;
        buffer.cause = cause;
        Ok(())
    }

    /// The bytes waiting in a stream's write buffer, and their block.
    pub fn waiting(&self, stream: usize) -> Option<(BlockIndex, &[u8])> {
        let buffer = self.buffers.get(stream)?;
        let block = buffer.block?;
        (!buffer.bytes.is_empty()).then_some((block, &buffer.bytes))
    }

    /// Whether any write buffer is non-empty.
    pub fn is_waiting(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.block.is_some() && !buffer.bytes.is_empty())
    }

    /// Drops the content of a stream's write buffer: after a failed program, once its nodes have
    /// been written elsewhere.
    pub fn drop_waiting(&mut self, stream: usize) {
        if let Some(buffer) = self.buffers.get_mut(stream) {
            buffer.block = None;
            buffer.bytes.clear();
        }
    }

    /// Pads the waiting page, with a padding node if there is space for one, else with zeroes, and
    /// programs it. Returns the address and length of the padding; `None` if the buffer was empty.
    /// Errors: those of [`Medium::append`].
    pub fn flush_padded(&mut self, stream: usize) -> Result<Option<(NodeAddress, u32)>, FlashError> {
        let Some((block, waiting)) = self.waiting(stream) else { return Ok(None) };
        let page_size = self.shape.page_size;
        let mut bytes = waiting.to_vec();
        // Nodes start at multiples of four; the bytes up to there belong to the last node.
        bytes.resize(padded(bytes.len() as u32) as usize, 0xFF);
        let (begins, cause) = (bytes.len() as u32, self.buffers[stream].cause);
        let padding = page_size.saturating_sub(begins);
        if padding > HEADER_SIZE {
            bytes.extend_from_slice(&Header::new(self.order, node_type::PADDING, padding).encode(self.order));
        }
        bytes.resize(page_size as usize, 0);
        let start = self.shape.address(block, self.buffers[stream].page * page_size);
        self.program(start, &bytes, cause, stream)?;
        self.drop_waiting(stream);
        Ok((padding > 0).then_some((NodeAddress(start.0 + begins), padding)))
    }

    /// Makes everything programmed so far durable on the device.
    pub fn sync(&mut self) -> Result<(), FlashError> {
        let context = self.context(Cause::UserData, 0);
        let synced = self.flash.sync(&context);
        self.pass(&context, synced)
    }

    /// The bytes of data that were programmed since the mount.
    pub const fn programmed_bytes(&self) -> u64 {
        self.programmed_bytes
    }

    /// The instant on the clock.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }
}
