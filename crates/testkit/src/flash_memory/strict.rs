//! A flash device that checks rules, takes time, fails on demand and can be cut.

use std::collections::BTreeSet;
use std::sync::Arc;

use nandkit_flash::{
    ErrorKind, Flash, FlashError, Interrupt, Operation, PageProgram, PageRead, Result, TornErase, TornPage,
};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, FlashKind, Nanos, PageAddress, ReadInto, random};

#[derive(Clone, Debug)]
struct Block {
    data: Vec<u8>,
    oob: Vec<u8>,
    /// By write unit: programmed since the erase. NAND only.
    programmed: Vec<bool>,
    /// By page: reads fail. NAND only.
    garbage: Vec<bool>,
    next_page: u32,
    /// An erase was cut: looks erased, holds nothing.
    weak: bool,
    bad: bool,
}

/// A flash device in memory that checks the rules of its kind, takes time, fails on demand and can
/// be cut. A copy shares its blocks until one of both writes.
#[derive(Clone, Debug)]
pub struct StrictFlash {
    geometry: FlashGeometry,
    consecutive: bool,
    blocks: Vec<Arc<Block>>,
    /// What an erase leaves, shared by all blocks that were not written since.
    erased: Arc<Block>,
    /// Bytes programmed in data areas.
    pub programmed_bytes: u64,
    /// How often each block was erased.
    pub erases: Vec<u32>,
    programs: u64,
    erasures: u64,
    /// Numbers of the programs and erases that fail, from 1 on.
    failing_programs: BTreeSet<u64>,
    failing_erases: BTreeSet<u64>,
    tears: u64,
}

/// The geometry of a NOR part with this number of blocks.
pub const fn nor(erase_size: u32, blocks: u32) -> FlashGeometry {
    FlashGeometry { kind: FlashKind::Nor, write_unit: 1, ..FlashGeometry::nand(erase_size, 0, 1, blocks) }
}

impl StrictFlash {
    /// An erased device.
    pub fn new(geometry: FlashGeometry) -> Self {
        let bytes = geometry.block_size() as usize;
        let erased = Arc::new(Block {
            data: vec![0xFF; bytes],
            oob: vec![0xFF; (geometry.oob_size * geometry.pages_per_block) as usize],
            programmed: vec![false; bytes / geometry.write_unit as usize],
            garbage: vec![false; geometry.pages_per_block as usize],
            next_page: 0,
            weak: false,
            bad: false,
        });
        let blocks = vec![Arc::clone(&erased); geometry.blocks as usize];
        let erases = vec![0; geometry.blocks as usize];
        let (failing_programs, failing_erases) = (BTreeSet::new(), BTreeSet::new());
        Self {
            geometry,
            consecutive: false,
            blocks,
            erased,
            programmed_bytes: 0,
            erases,
            programs: 0,
            erasures: 0,
            failing_programs,
            failing_erases,
            tears: 0,
        }
    }

    /// Makes the device refuse gaps between the programmed pages of a block: the strictest rule
    /// that a NAND chip has.
    pub fn without_gaps(self) -> Self {
        Self { consecutive: true, ..self }
    }

    /// Makes the n-th programs from now on fail.
    pub fn fail_programs(&mut self, nth: impl IntoIterator<Item = u64>) {
        let now = self.programs;
        self.failing_programs = nth.into_iter().map(|n| now + n).collect();
    }

    /// Makes the n-th erases from now on fail.
    pub fn fail_erases(&mut self, nth: impl IntoIterator<Item = u64>) {
        let now = self.erasures;
        self.failing_erases = nth.into_iter().map(|n| now + n).collect();
    }

    /// Leaves a block as an erase does that is cut when all pages but one are erased.
    pub fn keep_only(&mut self, block: BlockIndex, page: u32) {
        let pages = self.geometry.pages_per_block;
        self.clear(block, (0..pages).filter(|other| *other != page));
    }

    /// Leaves a block as an erase does that is cut at its very end.
    pub fn weaken(&mut self, block: BlockIndex) {
        self.block(block).weak = true;
    }

    /// Copies a block over another.
    pub fn put_copy(&mut self, of: BlockIndex, at: BlockIndex) {
        self.blocks[at.index()] = self.blocks[of.index()].clone();
    }

    /// Makes the programmed pages of a block uncorrectable.
    pub fn decay(&mut self, block: BlockIndex) {
        let page = self.geometry.page_size as usize;
        let block = self.block(block);
        for (garbage, data) in block.garbage.iter_mut().zip(block.data.chunks(page)) {
            *garbage = data.iter().any(|byte| *byte != 0xFF);
        }
    }

    /// Writes bytes without regard to any rule, as for an image that another program has made.
    pub fn poke(&mut self, place: usize, bytes: &[u8]) {
        let size = self.geometry.block_size() as usize;
        self.block(BlockIndex((place / size) as u32)).data[place % size..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Puts an image in place of all bytes, block by block.
    pub fn poke_all(&mut self, bytes: &[u8]) {
        let size = self.geometry.block_size() as usize;
        bytes.chunks(size).enumerate().for_each(|(block, part)| self.poke(block * size, part));
    }

    /// All bytes, each page followed by its OOB. Uncorrectable pages have the bytes that a read
    /// delivers.
    pub fn dump(&self) -> Vec<u8> {
        let (page, oob) = (self.geometry.page_size as usize, self.geometry.oob_size as usize);
        let mut dump = Vec::with_capacity(self.blocks.len() * self.geometry.pages_per_block as usize * (page + oob));
        for block in &self.blocks {
            for (number, garbage) in block.garbage.iter().enumerate() {
                let start = dump.len();
                dump.extend_from_slice(&block.data[number * page..][..page]);
                if *garbage {
                    spoil(number as u32, &mut dump[start..]);
                }
                dump.extend_from_slice(&block.oob[number * oob..][..oob]);
            }
        }
        dump
    }

    /// Whether anything of a block was programmed since its erase.
    pub fn is_written(&self, block: BlockIndex) -> bool {
        self.blocks[block.index()].programmed.contains(&true)
    }

    /// How many programs there were, failed ones included.
    pub const fn programs(&self) -> u64 {
        self.programs
    }

    fn block(&mut self, block: BlockIndex) -> &mut Block {
        Arc::make_mut(&mut self.blocks[block.index()])
    }

    fn is_nor(&self) -> bool {
        self.geometry.kind == FlashKind::Nor
    }

    fn done(&self, context: &Context, span: u64) -> Done {
        Done { completed: context.issued + Nanos(span), busy: Nanos(span), corrected_bits: 0 }
    }

    fn check(&self, at: PageAddress, program: &PageProgram<'_>) -> Result<()> {
        let misuse = |detail| Err(FlashError::new(ErrorKind::Misuse, Operation::Program, at, detail));
        let (page, unit) = (self.geometry.page_size, self.geometry.write_unit);
        let length = program.data.len() as u32;
        if at.block.0 >= self.geometry.blocks || at.page >= self.geometry.pages_per_block {
            return misuse("outside the device");
        }
        if program.column + length > page || !program.column.is_multiple_of(unit) || !length.is_multiple_of(unit) {
            return misuse("not whole write units of the page");
        }
        let block = &self.blocks[at.block.index()];
        let from = (at.page * page + program.column) as usize;
        let mut bytes = vec![0; length as usize];
        program.data.copy_to(&mut bytes);
        if self.is_nor() {
            let old = &block.data[from..from + bytes.len()];
            if !block.weak && old.iter().zip(&bytes).any(|(old, new)| old & new != *new) {
                return misuse("a bit would go from 0 to 1");
            }
        } else if length > 0 {
            let units = from / unit as usize..(from + bytes.len()) / unit as usize;
            if block.programmed[units].iter().any(|programmed| *programmed) {
                return misuse("programmed already");
            }
            // Other units of the last page may still be programmed.
            if at.page + 1 < block.next_page {
                return misuse("pages of a block come in order");
            }
            if self.consecutive && at.page > block.next_page {
                return misuse("no page of a block is left out");
            }
        }
        Ok(())
    }

    fn apply(&mut self, at: PageAddress, program: &PageProgram<'_>, length: usize, garbage: bool) {
        let (page, unit, oob_size) = (self.geometry.page_size, self.geometry.write_unit, self.geometry.oob_size);
        let from = (at.page * page + program.column) as usize;
        let mut bytes = vec![0; program.data.len()];
        program.data.copy_to(&mut bytes);
        bytes.truncate(length);
        let (nor, seed) = (self.is_nor(), self.tears);
        let whole = program.data.len();
        let block = self.block(at.block);
        for (place, (to, byte)) in block.data[from..].iter_mut().zip(&bytes).enumerate() {
            *to &= byte | if nor && garbage { random::hash(seed, place as u64, 0) as u8 } else { 0 };
        }
        if !nor && whole > 0 {
            block.programmed[from / unit as usize..(from + whole) / unit as usize].fill(true);
            block.next_page = at.page + 1;
        }
        let oob = (at.page * oob_size) as usize;
        for (to, byte) in block.oob[oob..].iter_mut().zip(program.oob) {
            *to &= byte;
        }
        if !nor && (garbage || block.weak) {
            block.garbage[at.page as usize] = true;
        }
        if nor && block.weak {
            block.data[from] ^= 0x55;
        }
    }

    fn clear(&mut self, block: BlockIndex, pages: impl Iterator<Item = u32>) {
        let (page, oob, unit) =
            (self.geometry.page_size as usize, self.geometry.oob_size as usize, self.geometry.write_unit as usize);
        let block = self.block(block);
        for number in pages {
            let at = number as usize;
            block.data[at * page..(at + 1) * page].fill(0xFF);
            block.oob[at * oob..(at + 1) * oob].fill(0xFF);
            block.programmed[at * page / unit..(at + 1) * page / unit].fill(false);
            block.garbage[at] = false;
        }
    }
}

/// The bytes that a read of an uncorrectable page delivers.
fn spoil(page: u32, bytes: &mut [u8]) {
    for (place, byte) in bytes.iter_mut().enumerate().step_by(97) {
        *byte ^= random::hash(u64::from(page), place as u64, 1) as u8;
    }
}

impl nandkit_flash::Look for StrictFlash {}

impl Flash for StrictFlash {
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: PageAddress, mut read: PageRead<'_>) -> Result<Done> {
        let (page, oob) = (self.geometry.page_size, self.geometry.oob_size);
        let misuse = |detail| Err(FlashError::new(ErrorKind::Misuse, Operation::Read, at, detail));
        if at.block.0 >= self.geometry.blocks || at.page >= self.geometry.pages_per_block {
            return misuse("outside the device");
        }
        if read.column as usize + read.data.len() > page as usize || read.oob.len() > oob as usize {
            return misuse("outside the page");
        }
        let block = &self.blocks[at.block.index()];
        let from = (at.page * page + read.column) as usize;
        if let ReadInto::Bytes(into) = &mut read.data {
            let length = into.len();
            into.copy_from_slice(&block.data[from..from + length]);
        }
        let start = (at.page * oob) as usize;
        let length = read.oob.len();
        read.oob.copy_from_slice(&block.oob[start..start + length]);
        let done = self.done(context, 25_000 + 45 * read.data.len() as u64);
        if block.garbage[at.page as usize] {
            if let ReadInto::Bytes(into) = &mut read.data {
                spoil(at.page, into);
            }
            let error = FlashError::new(ErrorKind::Uncorrectable, Operation::Read, at, "torn");
            return Err(error.after(done));
        }
        Ok(done)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.check(at, &program)?;
        self.programs += 1;
        let done = self.done(context, 200_000 + 45 * program.data.len() as u64);
        if self.blocks[at.block.index()].bad {
            return Err(FlashError::new(ErrorKind::BadBlock, Operation::Program, at, "bad"));
        }
        if self.failing_programs.contains(&self.programs) {
            self.apply(at, &program, program.data.len(), true);
            let error = FlashError::new(ErrorKind::ProgramFailed, Operation::Program, at, "by script");
            return Err(error.after(done));
        }
        self.programmed_bytes += program.data.len() as u64;
        self.apply(at, &program, program.data.len(), false);
        Ok(done)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        if self.blocks.get(block.index()).is_none_or(|block| block.bad) {
            return Err(FlashError::at_block(ErrorKind::BadBlock, Operation::Erase, block, "bad"));
        }
        self.erasures += 1;
        let done = self.done(context, 2_000_000);
        if self.failing_erases.contains(&self.erasures) {
            let error = FlashError::at_block(ErrorKind::EraseFailed, Operation::Erase, block, "by script");
            return Err(error.after(done));
        }
        self.erases[block.index()] += 1;
        self.blocks[block.index()] = Arc::clone(&self.erased);
        Ok(done)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.blocks.get(block.index()).is_none_or(|block| block.bad)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.block(block).bad = true;
        Ok(self.done(context, 200_000))
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }
}

impl Interrupt for StrictFlash {
    fn interrupt_program(
        &mut self,
        _: &Context,
        at: PageAddress,
        program: PageProgram<'_>,
        torn: TornPage,
    ) -> Result<()> {
        self.check(at, &program)?;
        self.tears += 1;
        let length = program.data.len();
        match torn {
            TornPage::Nothing => {}
            TornPage::Whole => self.apply(at, &program, length, false),
            TornPage::Prefix => self.apply(at, &PageProgram { oob: &[], ..program }, length / 2, false),
            TornPage::Garbage => self.apply(at, &program, length, true),
        }
        Ok(())
    }

    fn interrupt_copy(
        &mut self,
        _: &Context,
        _: PageAddress,
        to: PageAddress,
        _: Option<&[u8]>,
        _: TornPage,
    ) -> Result<()> {
        Err(FlashError::new(ErrorKind::Misuse, Operation::Copy, to, "no copyback here"))
    }

    fn interrupt_erase(&mut self, _: &Context, block: BlockIndex, torn: TornErase) -> Result<()> {
        self.tears += 1;
        let pages = self.geometry.pages_per_block;
        match torn {
            TornErase::Nothing => {}
            TornErase::Whole => {
                self.clear(block, 0..pages);
                self.block(block).next_page = 0;
            }
            TornErase::Half if self.is_nor() => {
                let size = self.geometry.block_size() as usize;
                self.block(block).data[size / 3..].fill(0xFF);
            }
            TornErase::Half => {
                let seed = self.tears;
                let draw = move |page: &u32| random::hash(seed, u64::from(*page), 2) % 3;
                self.clear(block, (0..pages).filter(|page| draw(page) == 0));
                let block = self.block(block);
                (0..pages).filter(|page| draw(page) == 1).for_each(|page| block.garbage[page as usize] = true);
            }
            TornErase::Weak => {
                self.clear(block, 0..pages);
                let block = self.block(block);
                (block.next_page, block.weak) = (0, true);
            }
        }
        Ok(())
    }

    fn power_on(&mut self) {}
}
