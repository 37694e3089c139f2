//! Stacks with power cuts: a chip that survives the layers on it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nandkit_flash::wrap::CutFlash;
pub use nandkit_flash::wrap::{Cut, CutMoment, CutOutcome, CutPlan};
use nandkit_flash::{Copyback, Flash, PageProgram, PageRead, Result as FlashResult};
use nandkit_nand_sim::{ChipSpec, ContentChip, QueueStatistics};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Nanos, PageAddress};

use crate::chip_file::EmulatedChip;
use crate::device_handle::lock;
pub use crate::frame::Existing;
use crate::{DeviceSpec, StackError, StackSpec};

/// A chip in memory whose power can be cut at a chosen step. Clones are handles on the same chip.
#[derive(Clone)]
pub struct CrashChip {
    geometry: FlashGeometry,
    chip: Arc<Mutex<Under>>,
    released: Arc<Condvar>,
}

struct Under {
    flash: CutFlash<ContentChip>,
    /// When its last operation ended.
    last: Nanos,
    /// After the cut, requests wait for [`CrashChip::release`], so that layers above do not see
    /// errors that they would not live to see after a real power cut.
    holds: bool,
}

impl CrashChip {
    /// Makes the chip of a stack in factory state. Error: the stack has no chip in memory.
    pub fn new(spec: &StackSpec, seed: u64) -> Result<Self, StackError> {
        match &spec.resolved()?.device {
            DeviceSpec::Chip { chip, file: None, .. } => Self::of(chip, seed),
            DeviceSpec::Chip { file: Some(_), .. } | DeviceSpec::Kept { .. } => {
                let detail =
                    "images and power cuts need a chip in memory, not one in a file; expected a chip in memory";
                Err(StackError::new("stack.device", detail))
            }
            DeviceSpec::Ram { .. } | DeviceSpec::Card { .. } => {
                let detail = "a device in memory has no flash: it takes no image, and has no programs and erases to cut; expected a chip";
                Err(StackError::new("stack.device", detail))
            }
        }
    }

    fn of(spec: &ChipSpec, seed: u64) -> Result<Self, StackError> {
        let chip = ContentChip::new(spec, seed).map_err(|error| StackError::new("stack.device", error.to_string()))?;
        Ok(Self::around(chip, Nanos::ZERO))
    }

    fn around(chip: ContentChip, last: Nanos) -> Self {
        let geometry = *chip.geometry();
        let flash = CutFlash::new(chip, CutPlan::None);
        let chip = Arc::new(Mutex::new(Under { flash, last, holds: false }));
        Self { geometry, chip, released: Arc::default() }
    }

    fn under(&self) -> MutexGuard<'_, Under> {
        lock(&self.chip)
    }

    /// An independent copy of the chip, with its power on. Cost: the pages that either one writes
    /// from then on.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let under = self.under();
        Self::around(under.flash.inner().clone(), under.last)
    }

    /// The number of programs, copies and erases so far.
    pub fn steps(&self) -> u64 {
        self.under().flash.steps()
    }

    /// Cuts the power at the `step`-th program, copy or erase of the chip's life. From then on all
    /// requests, including the interrupted one, wait until [`CrashChip::release`].
    pub fn cut_at(&self, step: u64, moment: CutMoment) {
        let mut under = self.under();
        under.flash.set_plan(CutPlan::At(Cut { step, moment }));
        under.holds = true;
    }

    /// Makes waiting and later requests fail instead of wait.
    pub fn release(&self) {
        self.under().holds = false;
        self.released.notify_all();
    }

    /// Whether the power is gone.
    pub fn is_off(&self) -> bool {
        self.under().flash.is_off()
    }

    /// The cut that happened, if any.
    pub fn outcome(&self) -> Option<CutOutcome> {
        self.under().flash.outcomes().last().copied()
    }

    /// Turns the power on and cancels planned cuts.
    pub fn power_on(&self) {
        let mut under = self.under();
        under.flash.set_plan(CutPlan::None);
        under.flash.power_on();
    }

    /// Runs one operation. If the power is off before or after it, the answer waits.
    fn operate(&self, operation: impl FnOnce(&mut CutFlash<ContentChip>) -> FlashResult<Done>) -> FlashResult<Done> {
        let mut under = self.under();
        let done = operation(&mut under.flash).inspect(|done| under.last = under.last.max(done.completed));
        while under.flash.is_off() && under.holds {
            under = self.released.wait(under).unwrap_or_else(PoisonError::into_inner);
        }
        done
    }
}

impl Flash for CrashChip {
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> FlashResult<Done> {
        self.operate(|flash| flash.read(context, at, read))
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> FlashResult<Done> {
        self.operate(|flash| flash.program(context, at, program))
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> FlashResult<Done> {
        self.operate(|flash| flash.erase(context, block))
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.under().flash.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> FlashResult<Done> {
        self.operate(|flash| flash.mark_bad(context, block))
    }

    fn sync(&mut self, context: &Context) -> FlashResult<Done> {
        self.operate(|flash| flash.sync(context))
    }

    fn copyback(&mut self) -> Option<&mut dyn Copyback> {
        let can = self.under().flash.copyback().is_some();
        can.then_some(self)
    }
}

impl Copyback for CrashChip {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.under().flash.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> FlashResult<Done> {
        self.operate(|flash| Copyback::copy(flash, context, from, to, oob))
    }
}

impl EmulatedChip for CrashChip {
    fn save(&mut self) -> FlashResult<Done> {
        Ok(Done::immediately(&Context::default()))
    }

    fn last_instant(&self) -> Nanos {
        self.under().last
    }

    fn seed(&self) -> u64 {
        self.under().flash.inner().seed()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.under().flash.inner().erase_counts().collect()
    }

    fn bad_blocks(&self) -> u32 {
        (0..self.geometry.blocks).filter(|block| self.is_bad(BlockIndex(*block))).count() as u32
    }

    fn queue_statistics(&self) -> Option<Arc<QueueStatistics>> {
        self.under().flash.inner().queue_statistics()
    }

    fn programmed_pages(&self) -> u64 {
        let under = self.under();
        let pages = (0..self.geometry.blocks)
            .flat_map(|block| (0..self.geometry.pages_per_block).map(move |page| BlockIndex(block).page(page)));
        pages.filter(|at| under.flash.inner().is_programmed(*at)).count() as u64
    }
}
