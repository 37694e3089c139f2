//! The purpose of each step of the page-mapped layer, as seen from the flash below it, and power
//! cuts drawn by purpose.

use nandkit_codec::page_tag::{TagFormat, TagRead};
use nandkit_flash::wrap::{CutFlash, CutMoment, CutPlan};
use nandkit_flash::{Flash, FlashError, Operation, PageProgram, PageRead, Result};
use nandkit_nand_sim::ContentChip;
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Cause, Context, Done, FlashGeometry, PageAddress};

/// The cause with which a model asks for remaps, so that their journal lines can be told from
/// others.
pub const REMAP: Cause = Cause::Metadata;

/// The purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    HostWrite,
    /// A copy that gains space.
    Cleaning,
    /// A copy for the data's own sake: refresh and levelling.
    Moving,
    /// A page of the map, in a checkpoint or evicted from the cache.
    MapPage,
    /// A snapshot and its seal, and the erases of the previous half.
    Checkpoint,
    /// Lines of the journal other than remaps: trims, aliases that moved, replaced blocks.
    Lines,
    Remap,
    /// The opening of a superblock.
    Erase,
    /// The continuation of the journal in the other half with the first change after a start, which
    /// is all that a start writes.
    Start,
    /// All steps from a failed program or erase up to the first journal page after the mark of its
    /// block.
    Replacement,
}

impl Why {
    pub const ALL: [Self; 10] = [
        Self::HostWrite,
        Self::Cleaning,
        Self::Moving,
        Self::MapPage,
        Self::Checkpoint,
        Self::Lines,
        Self::Remap,
        Self::Erase,
        Self::Start,
        Self::Replacement,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::HostWrite => "host write",
            Self::Cleaning => "cleaning, copies",
            Self::Moving => "refresh, levelling",
            Self::MapPage => "map page",
            Self::Checkpoint => "checkpoint",
            Self::Lines => "journal lines",
            Self::Remap => "remap",
            Self::Erase => "erase",
            Self::Start => "recovery",
            Self::Replacement => "failed blocks",
        }
    }

    /// The number of steps of this kind of which one is cut; rare kinds are cut more often.
    const fn steps_per_cut(self) -> u64 {
        match self {
            Self::HostWrite => 400,
            Self::Start => 100,
            Self::Moving | Self::MapPage | Self::Erase => 50,
            Self::Cleaning | Self::Remap => 30,
            Self::Checkpoint | Self::Lines | Self::Replacement => 15,
        }
    }
}

/// The stage at which a failed block is being retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    None,
    Unmarked,
    Marked,
}

/// A chip that records the purpose of each step. Its power is cut by plan, or at random if a seed
/// is given.
pub struct CauseFlash {
    pub inner: CutFlash<ContentChip>,
    /// The cuts that were made.
    pub cuts: Vec<(Operation, Why, CutMoment)>,
    /// The steps that were erases.
    pub erases: Vec<u64>,
    /// The steps of recovery.
    pub recovery: Vec<u64>,
    lot: Option<Random>,
    left: usize,
    is_starting: bool,
    failed: Failed,
    tag: TagFormat,
}

impl CauseFlash {
    pub fn new(chip: ContentChip) -> Self {
        let tag = TagFormat::new(chip.geometry().page_size);
        let inner = CutFlash::new(chip, CutPlan::None);
        Self {
            inner,
            cuts: Vec::new(),
            erases: Vec::new(),
            recovery: Vec::new(),
            lot: None,
            left: 0,
            is_starting: false,
            failed: Failed::None,
            tag,
        }
    }

    /// From now on makes at most `most` random cuts.
    pub fn draw(&mut self, seed: u64, most: usize) {
        (self.lot, self.left) = (Some(Random::new(seed, "soak cuts")), most);
    }

    pub fn power_on(&mut self) {
        self.inner.power_on();
        self.start();
    }

    /// Called before the layer is attached again.
    pub fn start(&mut self) {
        (self.is_starting, self.failed) = (true, Failed::None);
    }

    fn why(&mut self, operation: Operation, context: &Context, oob: &[u8]) -> Why {
        let is_journal = context.device_cause == Some(Cause::Checkpoint)
            || context.device_cause == Some(Cause::Mapping) && operation == Operation::Program && oob.is_empty();
        self.is_starting &= context.device_cause == Some(Cause::Checkpoint);
        if self.is_starting {
            return Why::Start;
        }
        if self.failed != Failed::None {
            if self.failed == Failed::Marked && is_journal && operation == Operation::Program {
                self.failed = Failed::None;
            }
            return Why::Replacement;
        }
        match context.device_cause {
            Some(Cause::Checkpoint) => Why::Checkpoint,
            Some(Cause::Mapping) if is_journal && context.cause == REMAP => Why::Remap,
            _ if is_journal => Why::Lines,
            _ if operation == Operation::Erase => Why::Erase,
            cause => match self.role(oob) {
                3 => Why::MapPage,
                2 if cause == Some(Cause::WearLevelling) => Why::Moving,
                2 => Why::Cleaning,
                _ => Why::HostWrite,
            },
        }
    }

    /// The role in the first tag: the two lowest bits of what the layer keeps there.
    fn role(&self, oob: &[u8]) -> u64 {
        match oob.first_chunk().map(|image| self.tag.decode(image)) {
            Some(TagRead::Valid { payload, .. }) => payload & 3,
            _ => 0,
        }
    }

    fn step(
        &mut self,
        operation: Operation,
        context: &Context,
        oob: &[u8],
        go: impl FnOnce(&mut CutFlash<ContentChip>) -> Result<Done>,
    ) -> Result<Done> {
        if self.inner.is_off() {
            return go(&mut self.inner);
        }
        let why = self.why(operation, context, oob);
        if operation == Operation::Erase {
            self.erases.push(self.inner.steps() + 1);
        }
        if why == Why::Start {
            self.recovery.push(self.inner.steps() + 1);
        }
        if let Some(lot) = self.lot.as_mut().filter(|_| self.left > 0)
            && lot.below(why.steps_per_cut()) == 0
        {
            let moment = CutMoment::ALL[lot.below(CutMoment::ALL.len() as u64) as usize];
            self.inner.set_plan(CutPlan::at(self.inner.steps() + 1, moment));
            self.left -= 1;
        }
        let before = self.inner.outcomes().len();
        let result = go(&mut self.inner);
        if let Some(outcome) = self.inner.outcomes().get(before) {
            self.cuts.push((operation, why, outcome.cut.moment));
        }
        self.note_failure(&result);
        result
    }

    fn note_failure(&mut self, result: &Result<Done>) {
        use nandkit_flash::ErrorKind::{BadBlock, EraseFailed, ProgramFailed};
        let is_failure = |error: &FlashError| matches!(error.kind, BadBlock | EraseFailed | ProgramFailed);
        if result.as_ref().is_err_and(is_failure) {
            self.failed = Failed::Unmarked;
        }
    }
}

impl Flash for CauseFlash {
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.inner.read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.step(Operation::Program, context, program.oob, |inner| inner.program(context, at, program))
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.step(Operation::Erase, context, &[], |inner| inner.erase(context, block))
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        if self.failed == Failed::Unmarked {
            self.failed = Failed::Marked;
        }
        self.inner.mark_bad(context, block)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.inner.sync(context)
    }

    fn pacing(&mut self) -> Option<&mut dyn nandkit_units::Pacing> {
        self.inner.pacing()
    }
}
