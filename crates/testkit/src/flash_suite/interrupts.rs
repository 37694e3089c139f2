//! Checks of `trait Interrupt`: what interrupted programs, copies and erases leave.

use nandkit_flash::{ErrorKind, Flash, FlashError, Interrupt, PageProgram, TornErase, TornPage};
use nandkit_units::{BlockIndex, Context, FlashGeometry, Nanos, PageAddress, Payload, ReadInto};

use super::FlashOptions;
use super::bench::{PageBytes, same};
use crate::violation::{Violations, ensure, guarded};

const PAGES: [TornPage; 4] = [TornPage::Nothing, TornPage::Whole, TornPage::Prefix, TornPage::Garbage];
const ERASES: [TornErase; 4] = [TornErase::Nothing, TornErase::Whole, TornErase::Half, TornErase::Weak];

/// The names of the checks of [`run`].
pub const CHECKS: [&str; 4] = ["interrupted_program", "interrupted_copy", "interrupted_erase", "interrupt_misuse"];

/// Runs the checks of interruptions, [`CHECKS`].
pub fn run(
    mut make: impl FnMut(&FlashGeometry) -> Box<dyn Interrupt>,
    options: &FlashOptions,
) -> Result<(), Violations> {
    let [programs, copies, erases, misuses] = CHECKS;
    let mut found = Vec::new();
    for geometry in &options.geometries {
        let place = format!("{geometry:?}");
        let mut bench = |seed| Scene::new(make(geometry), options.keeps_bytes, seed);
        for (index, torn) in PAGES.into_iter().enumerate() {
            let seed = index as u64;
            found.extend(guarded(programs, &place, || program(&mut bench(seed)?, torn)));
            found.extend(guarded(copies, &place, || copy(&mut bench(seed)?, torn)));
        }
        for (index, torn) in ERASES.into_iter().enumerate() {
            found.extend(guarded(erases, &place, || erase(&mut bench(index as u64)?, torn)));
        }
        found.extend(guarded(misuses, &place, || misuse(&mut bench(9)?)));
    }
    Violations::or_ok(found)
}

/// A device with two good blocks of which the first pages are programmed.
struct Scene {
    flash: Box<dyn Interrupt>,
    keeps_bytes: bool,
    context: Context,
    blocks: [BlockIndex; 2],
    held: Vec<(PageAddress, PageBytes)>,
    seed: u64,
}

impl Scene {
    fn new(flash: Box<dyn Interrupt>, keeps_bytes: bool, seed: u64) -> Result<Self, String> {
        let good: Vec<BlockIndex> =
            (0..flash.geometry().blocks).map(BlockIndex).filter(|&block| !flash.is_bad(block)).collect();
        ensure!(good.len() >= 2, "the suite needs two good blocks");
        let mut scene = Self {
            flash,
            keeps_bytes,
            context: Context::at(Nanos(1000)),
            blocks: [good[0], good[good.len() - 1]],
            held: Vec::new(),
            seed,
        };
        // Copies must be possible between the two.
        for &to in &good[1..] {
            if scene.flash.copyback().is_some_and(|copyback| copyback.can_copy(good[0], to)) {
                scene.blocks[1] = to;
                break;
            }
        }
        for block in scene.blocks {
            scene.flash.erase(&scene.context, block).map_err(|error| error.to_string())?;
            let bytes = scene.program(block.page(0))?;
            scene.held.push((block.page(0), bytes));
        }
        Ok(scene)
    }

    fn random_page(&mut self) -> PageBytes {
        let mut random = nandkit_units::random::Random::new(self.seed, "interrupts");
        self.seed += 1000;
        let geometry = self.flash.geometry();
        let mut bytes = (vec![0; geometry.page_size as usize], vec![0; geometry.oob_size as usize]);
        random.fill(&mut bytes.0);
        random.fill(&mut bytes.1);
        bytes.1.iter_mut().take(2).for_each(|byte| *byte = 0xFF);
        bytes
    }

    fn program(&mut self, at: PageAddress) -> Result<PageBytes, String> {
        let bytes = self.random_page();
        let program = PageProgram::new(Payload::Bytes(&bytes.0), &bytes.1);
        self.flash.program(&self.context, at, program).map_err(|error| format!("plain program: {error}"))?;
        Ok(bytes)
    }

    fn read(&self, at: PageAddress) -> Result<PageBytes, FlashError> {
        let geometry = self.flash.geometry();
        let mut bytes = (vec![0; geometry.page_size as usize], vec![0; geometry.oob_size as usize]);
        let data = if self.keeps_bytes {
            ReadInto::Bytes(&mut bytes.0)
        } else {
            ReadInto::Nothing { length: geometry.page_size }
        };
        let read = nandkit_flash::PageRead { column: 0, data, oob: &mut bytes.1 };
        self.flash.read(&self.context, at, read)?;
        Ok(bytes)
    }

    fn erased(&self) -> PageBytes {
        let geometry = self.flash.geometry();
        (vec![0xFF; geometry.page_size as usize], vec![0xFF; geometry.oob_size as usize])
    }

    fn expect(&self, at: PageAddress, expected: &PageBytes, why: &str) -> Result<(), String> {
        let found = self.read(at).map_err(|error| format!("{why}: {error}"))?;
        if self.keeps_bytes {
            same(&found.0, &expected.0).map_err(|detail| format!("{why}: data of {at}: {detail}"))?;
        }
        let compared = if self.keeps_bytes { found.1.len() } else { found.1.len().min(16) };
        same(&found.1[..compared], &expected.1[..compared]).map_err(|detail| format!("{why}: OOB of {at}: {detail}"))
    }

    fn expect_held(&self, but: Option<BlockIndex>, why: &str) -> Result<(), String> {
        self.held
            .iter()
            .filter(|(at, _)| Some(at.block) != but)
            .try_for_each(|(at, bytes)| self.expect(*at, bytes, why))
    }

    /// The page after a cut program or copy of `new`.
    fn expect_torn(&self, at: PageAddress, new: &PageBytes, torn: TornPage) -> Result<(), String> {
        let why = format!("cut, {torn:?}");
        match torn {
            TornPage::Nothing => self.expect(at, &self.erased(), &why),
            TornPage::Whole => self.expect(at, new, &why),
            TornPage::Prefix if self.keeps_bytes => match self.read(at) {
                Err(error) if error.kind == ErrorKind::Uncorrectable => Ok(()),
                Err(error) => Err(format!("{why}: {error}")),
                Ok(found) => {
                    let end = found.0.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
                    same(&found.0[..end], &new.0[..end])
                        .map_err(|detail| format!("{why}: no prefix of the new data: {detail}"))
                }
            },
            TornPage::Prefix | TornPage::Garbage => match self.read(at) {
                Err(error) if error.kind != ErrorKind::Uncorrectable => Err(format!("{why}: {error}")),
                _ => Ok(()),
            },
        }
    }

    /// Checks that the block can be used as new after an erase.
    fn expect_usable(&mut self, block: BlockIndex) -> Result<(), String> {
        self.flash.erase(&self.context, block).map_err(|error| format!("erase after the cut: {error}"))?;
        for page in 0..self.flash.geometry().pages_per_block {
            self.expect(block.page(page), &self.erased(), "erased after the cut")?;
            let bytes = self.program(block.page(page))?;
            self.expect(block.page(page), &bytes, "programmed after the cut and an erase")?;
        }
        Ok(())
    }
}

fn program(scene: &mut Scene, torn: TornPage) -> Result<(), String> {
    let block = scene.blocks[1];
    let at = block.page(1 % scene.flash.geometry().pages_per_block);
    if at.page == 0 {
        scene.flash.erase(&scene.context, block).map_err(|error| error.to_string())?;
        scene.held.retain(|(held, _)| held.block != block);
    }
    let new = scene.random_page();
    let payload = PageProgram::new(Payload::Bytes(&new.0), &new.1);
    scene
        .flash
        .interrupt_program(&scene.context, at, payload, torn)
        .map_err(|error| format!("interrupt_program, {torn:?}: {error}"))?;
    scene.flash.power_on();
    scene.expect_torn(at, &new, torn)?;
    scene.expect_held(None, "after a cut program beside it")?;
    if torn == TornPage::Nothing {
        let bytes = scene.program(at).map_err(|error| format!("a page that the cut left untouched: {error}"))?;
        scene.expect(at, &bytes, "programmed after a cut that did nothing")?;
    }
    scene.expect_usable(block)?;
    scene.expect_held(Some(block), "after the block of the cut was used again")
}

fn copy(scene: &mut Scene, torn: TornPage) -> Result<(), String> {
    let [from, to] = scene.blocks;
    let pages = scene.flash.geometry().pages_per_block;
    let can = scene.flash.copyback().is_some_and(|copyback| copyback.can_copy(from, to));
    if !can || pages < 2 {
        return Ok(());
    }
    let new = scene.held[0].1.clone();
    scene
        .flash
        .interrupt_copy(&scene.context, from.page(0), to.page(1), None, torn)
        .map_err(|error| format!("interrupt_copy, {torn:?}: {error}"))?;
    scene.flash.power_on();
    scene.expect_torn(to.page(1), &new, torn)?;
    scene.expect_held(None, "after a cut copy")?;
    scene.expect_usable(to)
}

fn erase(scene: &mut Scene, torn: TornErase) -> Result<(), String> {
    let block = scene.blocks[1];
    scene
        .flash
        .interrupt_erase(&scene.context, block, torn)
        .map_err(|error| format!("interrupt_erase, {torn:?}: {error}"))?;
    scene.flash.power_on();
    scene.expect_held(Some(block), &format!("after a cut erase of another block, {torn:?}"))?;
    let pages = scene.flash.geometry().pages_per_block;
    match torn {
        TornErase::Nothing => scene.expect_held(None, "after an erase that the cut kept from happening")?,
        TornErase::Whole | TornErase::Weak => {
            for page in 0..pages {
                scene.expect(block.page(page), &scene.erased(), &format!("cut erase, {torn:?}"))?;
            }
        }
        TornErase::Half => {
            for page in 0..pages {
                match scene.read(block.page(page)) {
                    Err(error) if error.kind != ErrorKind::Uncorrectable => return Err(error.to_string()),
                    _ => {}
                }
            }
        }
    }
    if torn == TornErase::Whole {
        let bytes = scene.program(block.page(0)).map_err(|error| format!("after a whole erase: {error}"))?;
        scene.expect(block.page(0), &bytes, "programmed after a whole erase that was cut")?;
    }
    if torn == TornErase::Weak && scene.keeps_bytes {
        let bytes = scene.random_page();
        let payload = PageProgram::new(Payload::Bytes(&bytes.0), &bytes.1);
        let programmed = scene.flash.program(&scene.context, block.page(0), payload).is_ok();
        let found = scene.read(block.page(0));
        let clean = programmed && found.is_ok_and(|found| found == bytes);
        ensure!(!clean, "a weakly erased block took a program as if it had been erased");
    }
    scene.expect_usable(block)
}

/// The rules of a program hold for an interrupted one, too.
fn misuse(scene: &mut Scene) -> Result<(), String> {
    let geometry = *scene.flash.geometry();
    let bytes = scene.random_page();
    let payload = PageProgram::new(Payload::Bytes(&bytes.0), &bytes.1);
    let outside = PageAddress::new(geometry.blocks, 0);
    let expect = |result: Result<(), FlashError>, what: &str| match result {
        Err(error) if error.kind == ErrorKind::Misuse => Ok(()),
        other => Err(format!("{what}: expected Misuse, got {other:?}")),
    };
    let context = scene.context;
    for torn in PAGES {
        let result = scene.flash.interrupt_program(&context, outside, payload, torn);
        expect(result, "an interrupted program outside the device")?;
    }
    for torn in ERASES {
        let result = scene.flash.interrupt_erase(&context, outside.block, torn);
        expect(result, "an interrupted erase outside the device")?;
    }
    scene.flash.power_on();
    scene.expect_held(None, "after refused interruptions")
}
