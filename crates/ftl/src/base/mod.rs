//! The common base of the block-mapped layers: free blocks, tagged programs and copies, the map
//! area, bad blocks.
//!
//! Rule numbers refer to `docs/design/02-block-map-protocol.md`.

mod blocks;
mod copy;
mod doubt;
mod fill;
mod map_area;
mod run;
mod scan;

pub(crate) use copy::Copied;
pub(crate) use doubt::Doubt;
pub(crate) use fill::Filling;
pub(crate) use scan::{Kind, Mark, ScannedBlock, erase_all};

use nandkit_cleaning::allocation::{AllocationRule, FreePool};
use nandkit_flash::{ErrorKind, Flash, PageProgram};
use nandkit_units::{BlockIndex, Cause, Content, Context, Done, Nanos, PageAddress, Payload};

use crate::chain::Chain;
use crate::failure::{Failure, Halt, LayerResult, is_block_failure};
use crate::shape::Shape;
use crate::statistics::BaseCounters;
use crate::tag::{self, Role};

/// The tag with which a page is programmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub role: Role,
    pub flags: u8,
    pub block: u32,
    pub offset: u32,
}

impl Label {
    /// The label as bits of a tag.
    #[inline]
    pub const fn packed(self) -> u64 {
        tag::pack(self.role, self.flags, self.block, self.offset)
    }

    pub const fn unpacked(packed: u64) -> Self {
        let (role, flags, block, offset) = tag::unpack(packed);
        Self { role, flags, block, offset }
    }
}

/// The append-only block that receives map pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MapArea {
    pub block: Option<u32>,
    pub next: u32,
}

/// A block with superseded content that waits for a later program to complete (rule 5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    block: u32,
    retire: bool,
}

#[derive(Debug)]
pub(crate) struct Base<F> {
    pub flash: F,
    pub shape: Shape,
    pub pool: FreePool,
    pub erases: Vec<u32>,
    pub sequence: u64,
    pub map_area: MapArea,
    pub counters: BaseCounters,
    /// The completion time of the last change of the flash (rule 2).
    pub last_change: Nanos,
    /// The failure after which the state in memory lags behind the flash.
    halted: Option<Halt>,
    /// The first program or erase that failed since attaching. After many failures, the last error
    /// alone explains little.
    first_failure: Option<String>,
    /// Pages whose content was read once during recovery and must not be read again, because a
    /// second read might return something else.
    pub held: Vec<(PageAddress, Content)>,
    /// Buffer for composing a page, kept to reuse its memory.
    pub read_modify: Content,
    use_copyback: bool,
    reach: [(BlockIndex, BlockIndex, bool); 2],
    quarantine: Vec<Waiting>,
    scratch: Content,
    run: run::CopyList,
}

impl<F: Flash> Base<F> {
    pub fn new(flash: F, shape: Shape, rule: AllocationRule, copyback: bool) -> Self {
        Self {
            flash,
            shape,
            pool: FreePool::new(rule, shape.blocks as usize),
            erases: vec![0; shape.blocks as usize],
            sequence: 0,
            map_area: MapArea::default(),
            counters: BaseCounters::default(),
            last_change: Nanos::ZERO,
            halted: None,
            first_failure: None,
            held: Vec::new(),
            read_modify: Content::new(),
            use_copyback: copyback,
            reach: [(BlockIndex(u32::MAX), BlockIndex(u32::MAX), false); 2],
            quarantine: Vec::with_capacity(8),
            scratch: Content::new(),
            run: run::CopyList::default(),
        }
    }

    /// Programs a page with a fresh sequence number. Its completion confirms the changes before it
    /// (rule 5).
    #[inline(always)]
    pub fn program(
        &mut self,
        chain: &mut Chain,
        cause: Option<Cause>,
        at: PageAddress,
        label: Label,
        data: &Payload<'_>,
    ) -> LayerResult<()> {
        let oob = self.next_oob(label);
        match self.flash.program(&chain.next(cause), at, PageProgram::new(*data, &oob)) {
            Ok(done) => {
                chain.advance(done);
                self.confirm(chain)
            }
            Err(error) => Err(self.failed(chain, error)),
        }
    }

    /// Programs a page as a whole request of one program. Requires that no block waits for its
    /// completion ([`Base::is_plain`]); errors must be passed to [`Base::failed`].
    #[inline(always)]
    pub fn program_alone(
        &mut self,
        context: &Context,
        at: PageAddress,
        label: Label,
        data: &Payload<'_>,
    ) -> nandkit_flash::Result<Done> {
        let oob = self.next_oob(label);
        let issued = context.issued.max(self.last_change);
        let done = self.flash.program(&Context { issued, ..*context }, at, PageProgram::new(*data, &oob))?;
        self.last_change = issued.max(done.completed);
        Ok(Done { completed: self.last_change, busy: done.busy, corrected_bits: 0 })
    }

    /// Whether a program needs no further work: the layer is running, and nothing waits for its
    /// completion.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.halted.is_none() && self.is_confirmed()
    }

    #[inline]
    fn next_oob(&mut self, label: Label) -> [u8; tag::TAG_BYTES] {
        self.sequence += 1;
        self.shape.tag.image(label.packed(), self.sequence)
    }

    /// Records a flash failure; any failure that does not concern a single block stops the layer.
    #[cold]
    pub fn failed(&mut self, chain: &mut Chain, error: nandkit_flash::FlashError) -> Failure {
        chain.advance_to(error.completed);
        if is_block_failure(error.kind) && self.first_failure.is_none() {
            self.first_failure = Some(error.to_string());
        }
        match error.kind {
            ErrorKind::ProgramFailed => self.counters.program_failures += 1,
            ErrorKind::EraseFailed => self.counters.erase_failures += 1,
            ErrorKind::Uncorrectable | ErrorKind::NoContent => {}
            kind if is_block_failure(kind) => {}
            kind => {
                let why = format!("an earlier operation failed half-way: {error}; attach the device again to recover");
                self.halted = Some(Halt { kind, why });
            }
        }
        error.into()
    }

    /// Stops the layer because recovery found no block to write to. Existing data stay readable.
    #[cold]
    pub fn halt_full(&mut self) {
        let BaseCounters { program_failures, erase_failures, .. } = self.counters;
        let cause = self.first_failure.as_ref().map_or_else(String::new, |first| {
            format!(" ({program_failures} programs and {erase_failures} erases have failed, first: {first})")
        });
        let why = format!("no good free block was left when the device was attached{cause}: it can only be read");
        self.halted = Some(Halt { kind: ErrorKind::ReadOnly, why });
    }

    /// Frees a block once the next program has completed.
    pub fn release(&mut self, block: u32) {
        self.quarantine.push(Waiting { block, retire: false });
    }

    /// Marks a block bad once the next program has completed.
    pub fn release_bad(&mut self, block: u32) {
        self.quarantine.push(Waiting { block, retire: true });
    }

    /// Whether no block waits for a later program.
    #[inline]
    pub fn is_confirmed(&self) -> bool {
        self.quarantine.is_empty()
    }

    /// Frees the blocks that waited for a program to complete.
    #[inline]
    fn confirm(&mut self, chain: &mut Chain) -> LayerResult<()> {
        if self.quarantine.is_empty() { Ok(()) } else { self.confirm_waiting(chain) }
    }

    fn confirm_waiting(&mut self, chain: &mut Chain) -> LayerResult<()> {
        while let Some(waiting) = self.quarantine.pop() {
            if waiting.retire {
                self.mark_bad(chain, waiting.block)?;
            } else {
                self.put_into_pool(waiting.block);
            }
        }
        Ok(())
    }

    pub fn put_into_pool(&mut self, block: u32) {
        let erases = self.erases.get(block as usize).copied().unwrap_or(u32::MAX);
        self.pool.push(block, erases);
    }

    /// Starts the operation chain of a request that changes the flash.
    #[inline]
    pub fn begin<'a>(&self, context: &'a Context) -> Chain<'a> {
        Chain::after(self.last_change, context)
    }

    /// Ends a request's operation chain, whether it succeeded or not.
    #[inline]
    pub fn end(&mut self, chain: &Chain) {
        self.last_change = chain.done().completed;
    }

    /// Refuses changes if the state in memory lags behind the flash.
    #[inline]
    pub fn check_running(&self) -> LayerResult<()> {
        match &self.halted {
            None => Ok(()),
            Some(halt) => Err(Failure::Halted(Box::new(halt.clone()))),
        }
    }
}
