//! A tiny flash in memory, correct or with one planted bug: the suite's own test, and a device for
//! tests of layers above.
//!
//! It is written to be clear rather than fast: every page is two vectors, every rule a line.

use nandkit_flash::{
    Copyback, ErrorKind, Flash, FlashError, Interrupt, Operation, PageProgram, PageRead, Result, TornErase, TornPage,
};
use nandkit_units::{
    BlockIndex, Context, Done, FlashGeometry, FlashKind, Nanos, PageAddress, Payload, ReadInto, random,
};

use std::sync::atomic::{AtomicU64, Ordering};

/// One broken promise, planted into [`TinyFlash`]. [`FlashBug::ALL`] names the check of the suite
/// that must find each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say what is wrong")]
pub enum FlashBug {
    ColumnOffByOne,
    ReadIgnoresColumn,
    OverwriteAccepted,
    RefusedOverwriteChangesPage,
    EraseLeavesOob,
    EraseLeavesLastPage,
    ErasedReadsZero,
    EraseReachesNeighbour,
    CompletesBeforeIssued,
    TimeDependsOnChance,
    BlockRangeByOne,
    PageRangeByOne,
    ColumnRangeByOne,
    OobCut,
    OobTooLongAccepted,
    OrderIgnored,
    UnitIgnored,
    MarkBadForgotten,
    BadBlockProgrammed,
    OutsideIsGood,
    DescriptionOffsetLost,
    ContentTooShort,
    HugeColumnPanics,
    SharedRegister,
    CopyLosesOob,
    CopyAnywhere,
    TornWholeDoesNothing,
    TornNothingPrograms,
    WeakEraseForgotten,
    CutEraseReachesNeighbour,
    GeometryChanges,
    ColumnSumWraps,
    PartialProgramsUncounted,
    NorSetsBits,
    OobPaddedWithZeroes,
    SyncDropsFirstByte,
    BytesInvented,
    CopyInsideBlockFromPageZero,
    TornCopyDoesNothing,
    TornOutsideAccepted,
}

/// The device or suite on which a bug shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// NAND that keeps its bytes.
    Nand,
    /// NOR.
    Nor,
    /// A store without bytes ([`TinyFlash::without_bytes`]).
    WithoutBytes,
    /// The interruption suite.
    Interrupted,
}

impl FlashBug {
    /// Each bug with the name of the check that finds it, and on what.
    pub const ALL: [(Self, &'static str, Shows); 40] = [
        (Self::ColumnOffByOne, "partial_reads", Shows::Nand),
        (Self::ReadIgnoresColumn, "partial_reads", Shows::Nand),
        (Self::OverwriteAccepted, "no_overwrite", Shows::Nand),
        (Self::RefusedOverwriteChangesPage, "no_overwrite", Shows::Nand),
        (Self::EraseLeavesOob, "erase_clears", Shows::Nand),
        (Self::EraseLeavesLastPage, "erase_clears", Shows::Nand),
        (Self::ErasedReadsZero, "erase_clears", Shows::Nand),
        (Self::EraseReachesNeighbour, "isolation", Shows::Nand),
        (Self::CompletesBeforeIssued, "time", Shows::Nand),
        (Self::TimeDependsOnChance, "repeatable", Shows::Nand),
        (Self::BlockRangeByOne, "range", Shows::Nand),
        (Self::PageRangeByOne, "range", Shows::Nand),
        (Self::ColumnRangeByOne, "range", Shows::Nand),
        (Self::OobCut, "program_and_read_back", Shows::Nand),
        (Self::OobTooLongAccepted, "range", Shows::Nand),
        (Self::OrderIgnored, "page_order", Shows::Nand),
        (Self::UnitIgnored, "write_unit", Shows::Nand),
        (Self::MarkBadForgotten, "bad_blocks", Shows::Nand),
        (Self::BadBlockProgrammed, "bad_blocks", Shows::Nand),
        (Self::OutsideIsGood, "bad_blocks", Shows::Nand),
        (Self::DescriptionOffsetLost, "described", Shows::Nand),
        (Self::ContentTooShort, "content_reads", Shows::Nand),
        (Self::HugeColumnPanics, "no_panic", Shows::Nand),
        (Self::SharedRegister, "parallel_reads", Shows::Nand),
        (Self::CopyLosesOob, "copyback", Shows::Nand),
        (Self::CopyAnywhere, "copyback_misuse", Shows::Nand),
        (Self::TornWholeDoesNothing, "interrupted_program", Shows::Interrupted),
        (Self::TornNothingPrograms, "interrupted_program", Shows::Interrupted),
        (Self::WeakEraseForgotten, "interrupted_erase", Shows::Interrupted),
        (Self::CutEraseReachesNeighbour, "interrupted_erase", Shows::Interrupted),
        (Self::GeometryChanges, "geometry", Shows::Nand),
        (Self::ColumnSumWraps, "silly_arguments", Shows::Nand),
        (Self::PartialProgramsUncounted, "partial_programs", Shows::Nand),
        (Self::NorSetsBits, "nor_overwrite", Shows::Nor),
        (Self::OobPaddedWithZeroes, "oob", Shows::Nand),
        (Self::SyncDropsFirstByte, "sync", Shows::Nand),
        (Self::BytesInvented, "no_content", Shows::WithoutBytes),
        (Self::CopyInsideBlockFromPageZero, "model", Shows::Nand),
        (Self::TornCopyDoesNothing, "interrupted_copy", Shows::Interrupted),
        (Self::TornOutsideAccepted, "interrupt_misuse", Shows::Interrupted),
    ];
}

#[derive(Clone, Debug)]
struct TinyPage {
    data: Vec<u8>,
    oob: Vec<u8>,
    programs: u32,
    /// Which write units are programmed.
    units: Vec<bool>,
    /// Reads are uncorrectable.
    garbage: bool,
}

#[derive(Clone, Debug)]
struct TinyBlock {
    pages: Vec<TinyPage>,
    next_page: u32,
    bad: bool,
    weak: bool,
}

/// A small correct flash device in memory: NAND or NOR by its geometry, with copyback inside a
/// plane and interruptions.
///
/// Rules: ascending pages, no program over programmed units, [`TinyFlash::PARTIAL_PROGRAMS`]
/// programs of a page between erases. Times: fixed per kind.
#[derive(Debug)]
pub struct TinyFlash {
    geometry: FlashGeometry,
    blocks: Vec<TinyBlock>,
    /// Reads of bytes are `NoContent`.
    without_bytes: bool,
    bug: Option<FlashBug>,
    register: AtomicU64,
}

impl Clone for TinyFlash {
    fn clone(&self) -> Self {
        Self {
            geometry: self.geometry,
            blocks: self.blocks.clone(),
            without_bytes: self.without_bytes,
            bug: self.bug,
            register: AtomicU64::new(self.register.load(Ordering::Relaxed)),
        }
    }
}

const READ: Nanos = Nanos::from_micros(25);
const PROGRAM: Nanos = Nanos::from_micros(200);
const COPY: Nanos = Nanos::from_micros(225);
const ERASE: Nanos = Nanos::from_millis(2);

impl TinyFlash {
    /// How many programs a page takes between erases.
    pub const PARTIAL_PROGRAMS: u32 = 4;

    /// An erased device. The geometry must be possible and small: every page is kept from the
    /// start.
    pub fn new(geometry: FlashGeometry) -> Self {
        let page = TinyPage {
            data: vec![0xFF; geometry.page_size as usize],
            oob: vec![0xFF; geometry.oob_size as usize],
            programs: 0,
            units: vec![false; (geometry.page_size / geometry.write_unit) as usize],
            garbage: false,
        };
        let pages = vec![page; geometry.pages_per_block as usize];
        let block = TinyBlock { pages, next_page: 0, bad: false, weak: false };
        let blocks = vec![block; geometry.blocks as usize];
        Self { geometry, blocks, without_bytes: false, bug: None, register: AtomicU64::new(0) }
    }

    /// A device with a planted bug.
    pub fn with_bug(geometry: FlashGeometry, bug: FlashBug) -> Self {
        Self { bug: Some(bug), ..Self::new(geometry) }
    }

    /// Makes the device a store without bytes, which delivers times and OOB only.
    #[must_use]
    pub const fn without_bytes(mut self) -> Self {
        self.without_bytes = true;
        self
    }

    /// Adds blocks that the factory marked bad.
    pub fn with_bad_blocks(mut self, bad: &[BlockIndex]) -> Self {
        for block in bad {
            self.blocks[block.index()].bad = true;
        }
        self
    }

    fn has(&self, bug: FlashBug) -> bool {
        self.bug == Some(bug)
    }

    fn done(&self, context: &Context, span: Nanos) -> Done {
        let mut completed = context.issued + span;
        if self.has(FlashBug::CompletesBeforeIssued) {
            completed = Nanos(context.issued.0.saturating_sub(1));
        }
        if self.has(FlashBug::TimeDependsOnChance) {
            // The address of the device differs from device to device.
            completed += Nanos(random::hash(std::ptr::from_ref(self) as u64, context.issued.0, 0) % 64);
        }
        Done { completed, busy: span, corrected_bits: 0 }
    }

    /// The page's place, or the refusal.
    fn locate(&self, operation: Operation, at: PageAddress) -> Result<PageAddress> {
        let geometry = &self.geometry;
        if geometry.contains(at) {
            return Ok(at);
        }
        if self.has(FlashBug::BlockRangeByOne) && at.block.0 == geometry.blocks && at.page < geometry.pages_per_block {
            return Ok(PageAddress::new(0, at.page));
        }
        if self.has(FlashBug::PageRangeByOne) && at.block.0 < geometry.blocks && at.page == geometry.pages_per_block {
            return Ok(PageAddress::new((at.block.0 + 1) % geometry.blocks, 0));
        }
        Err(misuse(operation, at, "the address lies outside the device"))
    }

    fn check_lengths(
        &self,
        operation: Operation,
        at: PageAddress,
        column: u32,
        length: usize,
        oob_length: usize,
    ) -> Result<()> {
        let limit = u64::from(self.geometry.page_size) + u64::from(self.has(FlashBug::ColumnRangeByOne));
        let end = match self.bug {
            Some(FlashBug::HugeColumnPanics) => u64::from(column.checked_add(length as u32).expect("a planted panic")),
            Some(FlashBug::ColumnSumWraps) => u64::from(column.wrapping_add(length as u32)),
            _ => u64::from(column) + length as u64,
        };
        if end > limit {
            return Err(misuse(operation, at, "the data reach past the end of the page"));
        }
        if oob_length > self.geometry.oob_size as usize && !self.has(FlashBug::OobTooLongAccepted) {
            return Err(misuse(operation, at, "more OOB bytes than the page has"));
        }
        Ok(())
    }

    /// Checks every rule of a program; nothing changes.
    fn check_program(&self, at: PageAddress, program: &PageProgram<'_>) -> Result<()> {
        let refuse = |detail| Err(misuse(Operation::Program, at, detail));
        let (column, length) = (program.column as usize, program.data.len());
        self.check_lengths(Operation::Program, at, program.column, length, program.oob.len())?;
        let unit = self.geometry.write_unit as usize;
        let whole_units = column.is_multiple_of(unit) && length.is_multiple_of(unit);
        if !whole_units && !self.has(FlashBug::UnitIgnored) {
            return refuse("column and length must be multiples of the write unit");
        }
        let block = &self.blocks[at.block.index()];
        if block.bad && !self.has(FlashBug::BadBlockProgrammed) {
            return Err(FlashError::new(ErrorKind::BadBlock, Operation::Program, at, "the block is bad"));
        }
        let page = &block.pages[at.page as usize];
        if self.geometry.kind == FlashKind::Nor {
            let mut new = vec![0; length];
            program.data.copy_to(&mut new);
            let sets = new.iter().zip(&page.data[column..]).any(|(new, old)| new & !old != 0);
            return if sets && !self.has(FlashBug::NorSetsBits) {
                refuse("NOR programs only clear bits")
            } else {
                Ok(())
            };
        }
        if at.page + 1 < block.next_page && !self.has(FlashBug::OrderIgnored) {
            return refuse("pages of a block come in ascending order");
        }
        let touched = page.units.iter().skip(column / unit).take(length.div_ceil(unit));
        let too_many = page.programs >= Self::PARTIAL_PROGRAMS && !self.has(FlashBug::PartialProgramsUncounted);
        let over = touched.into_iter().any(|&programmed| programmed) || too_many;
        if over && !self.has(FlashBug::OverwriteAccepted) {
            return refuse("this part of the page was programmed since the block's erase");
        }
        Ok(())
    }

    /// Puts a checked program into the page.
    fn apply(&mut self, at: PageAddress, program: &PageProgram<'_>) {
        let unit = self.geometry.write_unit as usize;
        let block = &mut self.blocks[at.block.index()];
        let weak = block.weak;
        block.next_page = block.next_page.max(at.page + 1);
        let page = &mut block.pages[at.page as usize];
        let (start, length) = (program.column as usize, program.data.len().min(page.data.len()));
        let mut bytes = vec![0; length];
        match (program.data, self.bug) {
            (Payload::Described(mut described), Some(FlashBug::DescriptionOffsetLost)) => {
                described.description.offset = 0;
                Payload::Described(described).copy_to(&mut bytes);
            }
            (payload, _) => payload.copy_to(&mut bytes),
        }
        for (into, byte) in page.data[start..].iter_mut().zip(bytes) {
            *into &= byte;
        }
        if self.bug == Some(FlashBug::OobPaddedWithZeroes) && !program.oob.is_empty() {
            page.oob.iter_mut().skip(program.oob.len()).for_each(|byte| *byte = 0);
        }
        let kept = if self.bug == Some(FlashBug::OobCut) { 8 } else { usize::MAX };
        for (into, byte) in page.oob.iter_mut().zip(program.oob).take(kept) {
            *into = *byte;
        }
        page.units.iter_mut().skip(start / unit).take(length.div_ceil(unit)).for_each(|programmed| *programmed = true);
        page.programs += 1;
        page.garbage |= weak;
    }

    fn check_erase(&self, block: BlockIndex) -> Result<BlockIndex> {
        let block = self.locate(Operation::Erase, block.page(0))?.block;
        if self.blocks[block.index()].bad {
            return Err(FlashError::at_block(ErrorKind::BadBlock, Operation::Erase, block, "the block is bad"));
        }
        Ok(block)
    }

    fn clear(&mut self, block: BlockIndex) {
        let bug = self.bug;
        let block = &mut self.blocks[block.index()];
        let spared = if bug == Some(FlashBug::EraseLeavesLastPage) { block.pages.len() - 1 } else { usize::MAX };
        for (_, page) in block.pages.iter_mut().enumerate().filter(|(index, _)| *index != spared) {
            page.data.fill(if bug == Some(FlashBug::ErasedReadsZero) { 0 } else { 0xFF });
            if bug != Some(FlashBug::EraseLeavesOob) {
                page.oob.fill(0xFF);
            }
            page.units.fill(false);
            page.programs = 0;
            page.garbage = false;
        }
        block.next_page = 0;
        block.weak = false;
    }

    fn neighbour(&self, block: BlockIndex) -> BlockIndex {
        BlockIndex((block.0 + 1) % self.geometry.blocks)
    }

    /// Checks a copy; the second half is what it programs.
    fn check_copy(
        &mut self,
        from: PageAddress,
        to: PageAddress,
        oob: Option<&[u8]>,
    ) -> Result<(PageAddress, PageAddress, Vec<u8>, Vec<u8>)> {
        let from = self.locate(Operation::Copy, from)?;
        let to = self.locate(Operation::Copy, to)?;
        if !self.can_copy(from.block, to.block) && !self.has(FlashBug::CopyAnywhere) {
            return Err(misuse(Operation::Copy, to, "copies stay inside a plane"));
        }
        let inside = from.block == to.block && self.has(FlashBug::CopyInsideBlockFromPageZero);
        let source = &self.blocks[from.block.index()].pages[if inside { 0 } else { from.page as usize }];
        if source.garbage {
            return Err(FlashError::new(ErrorKind::Uncorrectable, Operation::Copy, from, "the source is damaged"));
        }
        let (data, mut new_oob) = (source.data.clone(), source.oob.clone());
        if self.has(FlashBug::CopyLosesOob) {
            new_oob.fill(0xFF);
        }
        if let Some(oob) = oob {
            self.check_lengths(Operation::Copy, to, 0, 0, oob.len())?;
            new_oob[..oob.len()].copy_from_slice(oob);
        }
        self.check_program(to, &PageProgram::new(Payload::Bytes(&data), &new_oob))?;
        Ok((from, to, data, new_oob))
    }

    /// Leaves a checked program in the given state.
    fn tear(&mut self, at: PageAddress, program: &PageProgram<'_>, torn: TornPage) {
        let torn = match (torn, self.bug) {
            (TornPage::Whole, Some(FlashBug::TornWholeDoesNothing)) => TornPage::Nothing,
            (TornPage::Nothing, Some(FlashBug::TornNothingPrograms)) => TornPage::Whole,
            (torn, _) => torn,
        };
        match torn {
            TornPage::Nothing => {}
            TornPage::Whole => self.apply(at, program),
            TornPage::Prefix => {
                let unit = self.geometry.write_unit as usize;
                let half = program.data.len() / 2;
                if let Some(part) = program.data.part(0, half) {
                    self.apply(at, &PageProgram { column: program.column, data: part, oob: &[] });
                    let page = &mut self.blocks[at.block.index()].pages[at.page as usize];
                    let first = program.column as usize / unit;
                    page.units.iter_mut().skip(first).take(program.data.len().div_ceil(unit)).for_each(|u| *u = true);
                }
            }
            TornPage::Garbage => {
                self.apply(at, program);
                self.blocks[at.block.index()].pages[at.page as usize].garbage = true;
            }
        }
    }
}

#[cold]
fn misuse(operation: Operation, at: PageAddress, detail: &'static str) -> FlashError {
    FlashError::new(ErrorKind::Misuse, operation, at, detail)
}

impl Flash for TinyFlash {
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: PageAddress, mut read: PageRead<'_>) -> Result<Done> {
        let mut at = self.locate(Operation::Read, at)?;
        let length = read.data.len();
        self.check_lengths(Operation::Read, at, read.column, length, read.oob.len())?;
        if self.has(FlashBug::SharedRegister) {
            self.register.store(u64::from(at.block.0) << 32 | u64::from(at.page), Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_micros(20));
            let register = self.register.load(Ordering::SeqCst);
            at = PageAddress::new((register >> 32) as u32, register as u32);
        }
        let page = &self.blocks[at.block.index()].pages[at.page as usize];
        let start = match self.bug {
            Some(FlashBug::ReadIgnoresColumn) => 0,
            Some(FlashBug::ColumnOffByOne) if read.column > 0 => read.column as usize - 1,
            _ => (read.column as usize).min(page.data.len()),
        };
        let bytes = &page.data[start..(start + length).min(page.data.len())];
        let wants_bytes = !matches!(read.data, ReadInto::Nothing { .. }) && length > 0;
        if self.without_bytes && wants_bytes && !self.has(FlashBug::BytesInvented) {
            return Err(FlashError::new(ErrorKind::NoContent, Operation::Read, at, "bytes are not kept"));
        }
        match (&mut read.data, self.bug) {
            (ReadInto::Content { content, .. }, Some(FlashBug::ContentTooShort)) => {
                content.set_bytes(bytes.len() / 2).copy_from_slice(&bytes[..bytes.len() / 2]);
            }
            (into, _) => into.deliver(Payload::Bytes(bytes)),
        }
        for (into, byte) in read.oob.iter_mut().zip(&page.oob) {
            *into = *byte;
        }
        let done = self.done(context, READ + Nanos(25 * length as u64));
        if page.garbage {
            let error = FlashError::new(ErrorKind::Uncorrectable, Operation::Read, at, "the page is damaged");
            return Err(error.after(done));
        }
        Ok(done)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let at = self.locate(Operation::Program, at)?;
        if let Err(error) = self.check_program(at, &program) {
            if self.has(FlashBug::RefusedOverwriteChangesPage) && self.blocks[at.block.index()].next_page > at.page {
                self.apply(at, &PageProgram::bytes(0, &[0]));
            }
            return Err(error);
        }
        self.apply(at, &program);
        self.geometry.channels += u32::from(self.has(FlashBug::GeometryChanges));
        Ok(self.done(context, PROGRAM))
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let block = self.check_erase(block)?;
        self.clear(block);
        if self.has(FlashBug::EraseReachesNeighbour) {
            self.clear(self.neighbour(block));
        }
        Ok(self.done(context, ERASE))
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.blocks.get(block.index()).map_or(!self.has(FlashBug::OutsideIsGood), |block| block.bad)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let block = self.locate(Operation::MarkBad, block.page(0))?.block;
        self.blocks[block.index()].bad = !self.has(FlashBug::MarkBadForgotten);
        Ok(self.done(context, PROGRAM))
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        if self.has(FlashBug::SyncDropsFirstByte) {
            self.blocks.iter_mut().for_each(|block| block.pages[0].data[0] = 0);
        }
        Ok(Done::immediately(context))
    }

    fn copyback(&mut self) -> Option<&mut dyn Copyback> {
        Some(self)
    }
}

impl Copyback for TinyFlash {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        let geometry = &self.geometry;
        from.0 < geometry.blocks
            && to.0 < geometry.blocks
            && geometry.die_of(from) == geometry.die_of(to)
            && geometry.plane_of(from) == geometry.plane_of(to)
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        let (_, to, data, oob) = self.check_copy(from, to, oob)?;
        self.apply(to, &PageProgram::new(Payload::Bytes(&data), &oob));
        Ok(self.done(context, COPY))
    }
}

impl Interrupt for TinyFlash {
    fn interrupt_program(
        &mut self,
        _context: &Context,
        at: PageAddress,
        program: PageProgram<'_>,
        torn: TornPage,
    ) -> Result<()> {
        if self.has(FlashBug::TornOutsideAccepted) && !self.geometry.contains(at) {
            return Ok(());
        }
        let at = self.locate(Operation::Program, at)?;
        self.check_program(at, &program)?;
        self.tear(at, &program, torn);
        Ok(())
    }

    fn interrupt_copy(
        &mut self,
        _context: &Context,
        from: PageAddress,
        to: PageAddress,
        oob: Option<&[u8]>,
        torn: TornPage,
    ) -> Result<()> {
        let (_, to, data, oob) = self.check_copy(from, to, oob)?;
        if !self.has(FlashBug::TornCopyDoesNothing) {
            self.tear(to, &PageProgram::new(Payload::Bytes(&data), &oob), torn);
        }
        Ok(())
    }

    fn interrupt_erase(&mut self, _context: &Context, block: BlockIndex, torn: TornErase) -> Result<()> {
        let block = self.check_erase(block)?;
        if self.has(FlashBug::CutEraseReachesNeighbour) && torn == TornErase::Half {
            for index in 0..self.geometry.blocks {
                self.blocks[index as usize].pages[0].garbage = true;
            }
        }
        match torn {
            TornErase::Nothing => {}
            TornErase::Whole => self.clear(block),
            TornErase::Weak => {
                self.clear(block);
                self.blocks[block.index()].weak = !self.has(FlashBug::WeakEraseForgotten);
            }
            TornErase::Half => {
                let pages = &mut self.blocks[block.index()].pages;
                let half = pages.len() / 2;
                let (erased, rest) = pages.split_at_mut(half);
                for page in erased {
                    page.data.fill(0xFF);
                    page.oob.fill(0xFF);
                }
                rest.iter_mut().for_each(|page| page.garbage = true);
            }
        }
        Ok(())
    }

    fn power_on(&mut self) {}
}
