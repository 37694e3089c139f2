//! The emulated chip: the parts of this crate combined to one device behind the `flash` contract.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nandkit_flash::{Copyback, ErrorKind, Flash, FlashError, Operation, PageProgram, PageRead, Relocation, Result};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Pacing, PageAddress};

use crate::bad_blocks::BadBlocks;
use crate::bit_errors::BitErrors;
use crate::blocks::{BlockState, BlockTable, flag};
use crate::die_queues::Work;
use crate::flaws::Flaws;
use crate::rules::Rules;
use crate::spec::ChipSpec;
use crate::spec_error::SpecError;
use crate::statistics::{QueueCounters, QueueStatistics, ReadCounters, WriteCounters};
use crate::store::{AddressStore, ContentStore, DescribedStore, ShadowStore, SlotPage, Store};
use crate::timing::{Schedule, Times};
use crate::wear::{FailureScript, Failures};

/// A chip that stores every byte.
pub type ContentChip = NandChip<ContentStore>;
/// A chip that stores described data by description.
pub type DescribedChip = NandChip<DescribedStore>;
/// A chip that stores one tag per page.
pub type ShadowChip = NandChip<ShadowStore>;
/// A chip that stores the numbers of a layer's tags.
pub type AddressChip = NandChip<AddressStore>;

/// An emulated NAND or NOR chip over a store `S`.
///
/// The same spec, seed and calls give the same results, times and faults. `clone` makes a snapshot:
/// both share their pages until one writes to a block, which copies that block's page table, but
/// never the bytes.
#[derive(Debug)]
pub struct NandChip<S> {
    pub(crate) spec: Arc<ChipSpec>,
    pub(crate) geometry: FlashGeometry,
    pub(crate) seed: u64,
    pub(crate) rules: Rules,
    pub(crate) times: Times,
    pub(crate) blocks: BlockTable,
    pub(crate) store: S,
    pub(crate) slots: usize,
    pub(crate) flaws: Flaws,
    pub(crate) bad_blocks: BadBlocks,
    pub(crate) failures: Failures,
    pub(crate) bit_errors: BitErrors,
    pub(crate) script: FailureScript,
    pub(crate) scripted: bool,
    /// The time of each block's first program since its erase; empty if no bit errors are
    /// simulated.
    pub(crate) programmed_at: Vec<u64>,
    pub(crate) counters: WriteCounters,
    pub(crate) read_state: Mutex<ReadState>,
}

/// The state that reads change.
#[derive(Clone, Debug)]
pub(crate) struct ReadState {
    pub(crate) schedule: Schedule,
    pub(crate) counters: ReadCounters,
    /// Reads over the device's whole life: determines the outcome of garbage reads.
    pub(crate) read_number: u64,
    /// For each block; empty if no bit errors are simulated.
    pub(crate) reads_since_erase: Vec<u32>,
}

impl<S: Store> NandChip<S> {
    /// A chip as delivered. `seed` determines its faults. Memory is used only for what is
    /// programmed later.
    pub fn new(spec: &ChipSpec, seed: u64) -> std::result::Result<Self, SpecError> {
        spec.check()?;
        let geometry = spec.geometry.build();
        let aged = if spec.bit_errors.enabled { geometry.blocks as usize } else { 0 };
        Ok(Self {
            rules: Rules::new(spec),
            times: Times::new(spec),
            blocks: BlockTable::new(geometry.blocks),
            store: S::new(&geometry),
            slots: 0,
            flaws: Flaws::default(),
            bad_blocks: BadBlocks::new(spec, &geometry, seed),
            failures: Failures::new(spec, seed),
            bit_errors: BitErrors::new(spec, &geometry, seed),
            script: FailureScript::default(),
            scripted: false,
            programmed_at: vec![0; aged],
            counters: WriteCounters::default(),
            read_state: Mutex::new(ReadState {
                schedule: Schedule::new(&geometry, &spec.timing),
                counters: ReadCounters::default(),
                read_number: 0,
                reads_since_erase: vec![0; aged],
            }),
            spec: Arc::new(spec.clone()),
            geometry,
            seed,
        })
    }

    /// The chip's spec.
    pub fn spec(&self) -> &ChipSpec {
        &self.spec
    }

    /// The seed of the chip's faults.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of erases of a block; 0 outside the device.
    pub fn erase_count(&self, block: BlockIndex) -> u32 {
        self.blocks.get(block).erases
    }

    /// The erase count of every block, in order.
    pub fn erase_counts(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.blocks.erase_counts()
    }

    /// Whether any byte of the page was programmed since its block's erase.
    pub fn is_programmed(&self, at: PageAddress) -> bool {
        let state = self.blocks.get(at.block);
        match state.slot() {
            Some(slot) if at.page < state.next_page => {
                self.store.keep(SlotPage { slot, page: at.page }) != crate::store::SavedPage::Erased
            }
            _ => false,
        }
    }

    /// The store, for inspection.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The slot and page of an address in the store; `None` before the first program of its block.
    pub fn place(&self, at: PageAddress) -> Option<SlotPage> {
        self.blocks.get(at.block).slot().map(|slot| SlotPage { slot, page: at.page })
    }

    /// Makes programs and erases fail by a test's script, in addition to random failures. Replaces
    /// an earlier script.
    pub fn script_failures(&mut self, script: FailureScript) {
        self.scripted = !script.is_empty();
        self.script = script;
    }

    /// Counts of operations that reads moved; all zero if reads never go first.
    pub fn queue_counters(&self) -> QueueCounters {
        self.queue_statistics().map_or(QueueCounters::default(), |counts| counts.snapshot())
    }

    /// Live counts of operations that reads moved; `None` if every die works in request order.
    pub fn queue_statistics(&self) -> Option<Arc<QueueStatistics>> {
        self.lock().schedule.queue_statistics()
    }

    /// Counts of programs, copies, erases and their failures.
    pub const fn write_counters(&self) -> WriteCounters {
        self.counters
    }

    /// Counts of reads.
    pub fn read_counters(&self) -> ReadCounters {
        self.lock().counters
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ReadState> {
        self.read_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn read_state_mut(&mut self) -> &mut ReadState {
        self.read_state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a block before a change, with the factory's verdict, and whether this erase
    /// cycle will see a failure.
    #[inline]
    pub(crate) fn state_for_change(&mut self, block: BlockIndex) -> BlockState {
        let state = self.blocks.get(block);
        if state.has(flag::SEEN) { state } else { self.first_look(block) }
    }

    #[cold]
    fn first_look(&mut self, block: BlockIndex) -> BlockState {
        let mut flags = flag::SEEN;
        if self.bad_blocks.is_factory_bad(block) {
            flags |= flag::FACTORY_BAD;
        }
        if self.failures.cycle_fails(block, self.blocks.get(block).erases) {
            flags |= flag::FAILS_THIS_CYCLE;
        }
        self.blocks.set(block, flags);
        self.blocks.get(block)
    }

    /// The slot of a block, allocated if needed.
    #[inline]
    pub(crate) fn slot_of(&mut self, block: BlockIndex, state: &BlockState) -> usize {
        state.slot().unwrap_or_else(|| self.new_slot(block))
    }

    #[cold]
    fn new_slot(&mut self, block: BlockIndex) -> usize {
        let slot = self.slots;
        self.slots += 1;
        self.store.add_slot();
        self.rules.add_slot();
        self.blocks.set_slot(block, slot);
        slot
    }
}

impl<S: Store> Clone for NandChip<S> {
    fn clone(&self) -> Self {
        Self {
            spec: Arc::clone(&self.spec),
            geometry: self.geometry,
            seed: self.seed,
            rules: self.rules.clone(),
            times: self.times.clone(),
            blocks: self.blocks.clone(),
            store: self.store.clone(),
            slots: self.slots,
            flaws: self.flaws.clone(),
            bad_blocks: self.bad_blocks.clone(),
            failures: self.failures.clone(),
            bit_errors: self.bit_errors.clone(),
            script: self.script.clone(),
            scripted: self.scripted,
            programmed_at: self.programmed_at.clone(),
            counters: self.counters,
            read_state: Mutex::new(self.lock().clone()),
        }
    }
}

#[cold]
pub(crate) fn misuse(operation: Operation, at: PageAddress, rule: &'static str) -> FlashError {
    FlashError::new(ErrorKind::Misuse, operation, at, rule)
}

impl<S: Store> Flash for NandChip<S> {
    #[inline]
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    #[inline]
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.read_page(context, at, read)
    }

    #[inline(always)]
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.program_page(context, at, &program)
    }

    #[inline]
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.erase_block(context, block)
    }

    #[inline]
    fn is_bad(&self, block: BlockIndex) -> bool {
        if block.0 >= self.geometry.blocks {
            return true;
        }
        let state = self.blocks.get(block);
        state.has(flag::BAD) || (!state.has(flag::SEEN) && self.bad_blocks.is_factory_bad(block))
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        if block.0 >= self.geometry.blocks {
            return Err(misuse(Operation::MarkBad, block.page(0), "the block is outside the device"));
        }
        self.state_for_change(block);
        self.blocks.set(block, flag::MARKED_BAD);
        let (transfer, array) = (self.times.transfer(1), self.times.program(0));
        Ok(self.schedule_write(context, (Work::Program, block.page(0)), (transfer, array)))
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }

    #[inline]
    fn copyback(&mut self) -> Option<&mut dyn Copyback> {
        if self.rules.has_copyback() { Some(self) } else { None }
    }

    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        if self.read_state_mut().schedule.queues().is_some() { Some(self) } else { None }
    }

    #[inline]
    fn relocation(&mut self) -> Option<&mut dyn Relocation> {
        if self.rules.is_nor() { None } else { Some(self) }
    }
}
