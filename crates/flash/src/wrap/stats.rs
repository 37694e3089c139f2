//! Counting every operation.

use std::sync::Arc;

use nandkit_units::{BlockIndex, Context, Done, PageAddress, StatisticValue, Statistics};

use super::{FlashCounters, FlashSnapshot, forward_rest, no_capability};
use crate::{CopyRun, Copyback, Flash, Move, Operation, PageProgram, PageRead, PageRun, Relocation, Result};

/// A flash device that counts. Cost: about 1 to 2 ns per operation.
#[derive(Debug)]
pub struct StatsFlash<F> {
    inner: F,
    page_size: u32,
    counters: Arc<FlashCounters>,
}

impl<F: Flash> StatsFlash<F> {
    /// Counts the operations on `inner`, from zero.
    pub fn new(inner: F) -> Self {
        let geometry = *inner.geometry();
        Self { inner, page_size: geometry.page_size, counters: Arc::new(FlashCounters::new(geometry.blocks)) }
    }

    /// The live counters, readable while the device is in use.
    pub const fn counters(&self) -> &Arc<FlashCounters> {
        &self.counters
    }

    /// The current counters.
    pub fn snapshot(&self) -> FlashSnapshot {
        self.counters.snapshot()
    }

    /// The device below.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// The device below; operations made directly on it are not counted.
    pub const fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    /// Unwraps the device below.
    pub fn into_inner(self) -> F {
        self.inner
    }
}

impl<F: Flash> Statistics for StatsFlash<F> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.counters.collect(sink);
    }
}

impl<F: Flash> Flash for StatsFlash<F> {
    #[inline]
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        let bytes = read.data.len() as u64;
        let result = self.inner.read(context, at, read);
        match &result {
            Ok(done) => self.counters.count_read(context, bytes, done),
            Err(error) => self.counters.count_failure(error),
        }
        result
    }

    #[inline(always)]
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let (bytes, oob_bytes) = (program.data.len() as u64, program.oob.len() as u64);
        match self.inner.program(context, at, program) {
            Ok(done) => {
                self.counters.count_program(context, bytes, oob_bytes, done.busy.0);
                Ok(done)
            }
            Err(error) => {
                self.counters.count_failure(&error);
                Err(error)
            }
        }
    }

    #[inline]
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let result = self.inner.erase(context, block);
        match &result {
            Ok(done) => self.counters.count_erase(context, block, done.busy.0),
            Err(error) => self.counters.count_failure(error),
        }
        result
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let result = self.inner.mark_bad(context, block);
        match &result {
            Ok(done) => self.counters.count_busy(context, done.busy.0),
            Err(error) => self.counters.count_failure(error),
        }
        result
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        let result = self.inner.sync(context);
        match &result {
            Ok(done) => self.counters.count_busy(context, done.busy.0),
            Err(error) => self.counters.count_failure(error),
        }
        result
    }

    forward_rest!();

    #[inline]
    fn relocation(&mut self) -> Option<&mut dyn Relocation> {
        if self.inner.relocation().is_some() { Some(self) } else { None }
    }
}

/// Counts reads and programs page by page, as if each had been a separate call.
impl<F: Flash> Relocation for StatsFlash<F> {
    fn keeps_described(&mut self) -> bool {
        self.inner.relocation().is_none_or(Relocation::keeps_described)
    }

    fn fetch(&mut self, context: &Context, from: &[PageAddress], oob: &mut [u8]) -> PageRun {
        let Some(relocation) = self.inner.relocation() else { return PageRun::begin(context) };
        let run = relocation.fetch(context, from, oob);
        let pages = run.pages as u64;
        self.counters.count_reads(context, pages, pages * u64::from(self.page_size), run.done.busy.0);
        if let Some(error) = &run.failed {
            self.counters.count_failure(error);
        }
        run
    }

    fn place(&mut self, context: &Context, moves: &[Move], parts: u32, oob: &[u8]) -> PageRun {
        let Some(relocation) = self.inner.relocation() else { return PageRun::begin(context) };
        let run = relocation.place(context, moves, parts, oob);
        let targets = moves.len().checked_div(parts as usize).unwrap_or(0);
        let (pages, oob_bytes) = (run.pages as u64, (oob.len() / targets.max(1)) as u64);
        let bytes = pages * u64::from(self.page_size);
        self.counters.count_programs(context, pages, bytes, pages * oob_bytes, run.done.busy.0);
        if let Some(error) = &run.failed {
            self.counters.count_failure(error);
        }
        run
    }
}

impl<F: Flash> Copyback for StatsFlash<F> {
    #[inline]
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.inner.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }

    #[inline]
    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        let result = match self.inner.copyback() {
            Some(copyback) => copyback.copy(context, from, to, oob),
            None => Err(no_capability(Operation::Copy, to)),
        };
        match &result {
            Ok(done) => {
                let oob_bytes = oob.map_or(0, |oob| oob.len() as u64);
                self.counters.count_copies(context, 1, u64::from(self.page_size), oob_bytes, done.busy.0);
            }
            Err(error) => self.counters.count_failure(error),
        }
        result
    }

    #[inline]
    fn copy_run(&mut self, context: &Context, from: &[PageAddress], to: PageAddress, oob: &[u8]) -> CopyRun {
        let Some(copyback) = self.inner.copyback() else {
            let failed = Some(no_capability(Operation::Copy, to));
            return CopyRun { copied: 0, done: Done::immediately(context), failed };
        };
        let run = copyback.copy_run(context, from, to, oob);
        let copies = run.copied as u64;
        if copies != 0 {
            let oob_bytes = (oob.len() / from.len().max(1)) as u64;
            let bytes = copies * u64::from(self.page_size);
            self.counters.count_copies(context, copies, bytes, copies * oob_bytes, run.done.busy.0);
        }
        if let Some(error) = &run.failed {
            self.counters.count_failure(error);
        }
        run
    }
}
