//! A device under test with the steps that checks share.

use nandkit_flash::{ErrorKind, Flash, FlashError, PageProgram, PageRead};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, FlashKind, Nanos, PageAddress, Payload, ReadInto};

use super::FlashOptions;
use crate::violation::ensure;

/// Data and OOB of a page.
pub type PageBytes = (Vec<u8>, Vec<u8>);

pub struct Bench<'a> {
    pub flash: Box<dyn Flash>,
    pub geometry: FlashGeometry,
    pub options: &'a FlashOptions,
    pub random: Random,
    pub now: Nanos,
    make: &'a mut dyn FnMut(&FlashGeometry) -> Box<dyn Flash>,
}

impl<'a> Bench<'a> {
    pub fn new(
        make: &'a mut dyn FnMut(&FlashGeometry) -> Box<dyn Flash>,
        geometry: &FlashGeometry,
        options: &'a FlashOptions,
    ) -> Self {
        let flash = make(geometry);
        let random = Random::new(options.seed, "flash suite");
        Self { flash, geometry: *geometry, options, random, now: Nanos(1_000_000), make }
    }

    /// Makes another device, in the state at the start of the check.
    pub fn another(&mut self) -> Box<dyn Flash> {
        (self.make)(&self.geometry)
    }

    pub fn context(&self) -> Context {
        Context::at(self.now)
    }

    pub fn is_nor(&self) -> bool {
        self.geometry.kind == FlashKind::Nor
    }

    /// The first, the last and some other good blocks, in ascending order; erased.
    pub fn blocks(&mut self, most: usize) -> Result<Vec<BlockIndex>, String> {
        let good: Vec<BlockIndex> =
            (0..self.geometry.blocks).map(BlockIndex).filter(|&block| !self.flash.is_bad(block)).collect();
        ensure!(good.len() >= 2, "the suite needs two good blocks, the device has {}", good.len());
        let count = most.clamp(1, good.len());
        let mut picked: Vec<BlockIndex> = good[..count - 1].to_vec();
        picked.push(good[good.len() - 1]);
        for &block in &picked {
            self.erase(block)?;
        }
        Ok(picked)
    }

    /// Some blocks from all over the device, good or bad, as they are.
    pub fn blocks_untouched(&self) -> Vec<BlockIndex> {
        let step = (self.geometry.blocks / 16).max(1);
        (0..self.geometry.blocks).step_by(step as usize).map(BlockIndex).collect()
    }

    pub fn erase(&mut self, block: BlockIndex) -> Result<Done, String> {
        let context = self.context();
        let done = self.flash.erase(&context, block).map_err(|error| format!("a plain erase was refused: {error}"))?;
        self.now = self.now.max(done.completed);
        Ok(done)
    }

    pub fn program(&mut self, at: PageAddress, program: PageProgram<'_>) -> Result<Done, String> {
        let context = self.context();
        let done = self
            .flash
            .program(&context, at, program)
            .map_err(|error| format!("a plain program was refused: {error}"))?;
        self.now = self.now.max(done.completed);
        Ok(done)
    }

    /// Random data and OOB for a page.
    pub fn random_page(&mut self) -> PageBytes {
        let mut data = vec![0; self.geometry.page_size as usize];
        let mut oob = vec![0; self.geometry.oob_size as usize];
        self.random.fill(&mut data);
        self.random.fill(&mut oob);
        // The first two OOB bytes hold the factory's bad-block marker on real parts: keep them
        // good.
        oob.iter_mut().take(2).for_each(|byte| *byte = 0xFF);
        (data, oob)
    }

    /// Programs random bytes into a whole page and returns them.
    pub fn fill_page(&mut self, at: PageAddress) -> Result<PageBytes, String> {
        let (data, oob) = self.random_page();
        self.program(at, PageProgram::new(Payload::Bytes(&data), &oob))?;
        Ok((data, oob))
    }

    pub fn erased_page(&self) -> PageBytes {
        (vec![0xFF; self.geometry.page_size as usize], vec![0xFF; self.geometry.oob_size as usize])
    }

    /// What the device delivers for a whole page.
    pub fn read_page(&self, at: PageAddress) -> Result<PageBytes, FlashError> {
        let (mut data, mut oob) = self.erased_page();
        data.fill(0xA5);
        oob.fill(0xA5);
        let into = if self.options.keeps_bytes {
            ReadInto::Bytes(&mut data)
        } else {
            ReadInto::Nothing { length: self.geometry.page_size }
        };
        self.flash.read(&self.context(), at, PageRead { column: 0, data: into, oob: &mut oob })?;
        Ok((data, oob))
    }

    /// Compares a whole page with what it must hold.
    pub fn expect_page(&self, at: PageAddress, expected: &PageBytes, why: &str) -> Result<(), String> {
        let (data, oob) = self.read_page(at).map_err(|error| format!("{why}: {error}"))?;
        if self.options.keeps_bytes {
            same(&data, &expected.0).map_err(|detail| format!("{why}: data of {at}: {detail}"))?;
        }
        let compared = if self.options.keeps_bytes { oob.len() } else { oob.len().min(16) };
        same(&oob[..compared], &expected.1[..compared]).map_err(|detail| format!("{why}: OOB of {at}: {detail}"))
    }

    /// Whether the result is an error of this kind.
    pub fn expect_error(result: Result<Done, FlashError>, kind: ErrorKind, what: &str) -> Result<(), String> {
        match result {
            Err(error) if error.kind == kind => Ok(()),
            Err(error) => Err(format!("{what}: expected {kind:?}, got: {error}")),
            Ok(_) => Err(format!("{what}: expected {kind:?}, but it succeeded")),
        }
    }

    /// Whether the result is `Misuse`.
    pub fn expect_misuse(result: Result<Done, FlashError>, what: &str) -> Result<(), String> {
        Self::expect_error(result, ErrorKind::Misuse, what)
    }
}

/// Compares two byte strings. Errors: the first place where they differ, or their lengths.
pub fn same(found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} bytes, expected {}", found.len(), expected.len()));
    }
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(index) => Err(format!("byte {index} is {:#04x}, expected {:#04x}", found[index], expected[index])),
    }
}
