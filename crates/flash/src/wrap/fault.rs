//! Scripted failures.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nandkit_units::{BlockIndex, Context, Done, PageAddress, ReadInto};

use super::{forward_rest, no_capability};
use crate::{Copyback, ErrorKind, Flash, FlashError, Operation, PageProgram, PageRead, Result};

/// The operations of its kind that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultWhen {
    /// The n-th operation of its kind, counted from 1 since the wrapper was made.
    Nth(u64),
    /// Operations on this page (of a copy: its target).
    Page(PageAddress),
    /// Operations on any page of this block, and on the block.
    Block(BlockIndex),
    /// Every matching operation fails.
    Always,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The operation fails with this kind of error.
    Fail {
        /// The kind of the error.
        kind: ErrorKind,
        /// Whether the device below still executes the operation before the failure is reported.
        carried_out: bool,
    },
    /// A read delivers the data byte at this offset of the page with the bits in `mask` inverted.
    /// Other operations are not affected.
    Flip {
        /// Offset in the page's data.
        offset: u32,
        /// The bits to invert.
        mask: u8,
    },
}

/// One line of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of operation that it affects.
    pub operation: Operation,
    /// Which operations of that kind.
    pub when: FaultWhen,
    /// What the fault does.
    pub effect: FaultEffect,
    /// Most times it strikes.
    pub times: u64,
}

impl Fault {
    /// A fault that fails operations with `kind` before they reach the device, as often as `when`
    /// says.
    pub const fn fail(operation: Operation, when: FaultWhen, kind: ErrorKind) -> Self {
        Self { operation, when, effect: FaultEffect::Fail { kind, carried_out: false }, times: u64::MAX }
    }

    /// Limits the fault to `times` times.
    pub const fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// A flash device that fails by script.
#[derive(Debug)]
pub struct FaultFlash<F> {
    inner: F,
    faults: Vec<(Fault, AtomicU64)>,
    counts: [AtomicU64; 6],
}

impl<F: Flash> FaultFlash<F> {
    /// Wraps `inner` with these faults. If several failures apply, the first one wins; all flips
    /// apply.
    pub fn new(inner: F, faults: impl IntoIterator<Item = Fault>) -> Self {
        let faults = faults.into_iter().map(|fault| (fault, AtomicU64::new(0))).collect();
        Self { inner, faults, counts: Default::default() }
    }

    /// How often each fault of the script has struck.
    pub fn struck(&self) -> Vec<u64> {
        self.faults.iter().map(|(_, struck)| struck.load(Relaxed)).collect()
    }

    /// The number of operations of this kind.
    pub fn count(&self, operation: Operation) -> u64 {
        self.counts[operation as usize].load(Relaxed)
    }

    /// The device below.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// Unwraps the device below.
    pub fn into_inner(self) -> F {
        self.inner
    }

    /// The faults that affect this operation.
    fn strike(&self, operation: Operation, at: PageAddress) -> impl Iterator<Item = FaultEffect> + '_ {
        let number = self.counts[operation as usize].fetch_add(1, Relaxed) + 1;
        self.faults.iter().filter_map(move |(fault, struck)| {
            let strikes = fault.operation == operation
                && match fault.when {
                    FaultWhen::Nth(n) => n == number,
                    FaultWhen::Page(page) => page == at,
                    FaultWhen::Block(block) => block == at.block,
                    FaultWhen::Always => true,
                };
            let counted = |struck: u64| (struck < fault.times).then_some(struck + 1);
            (strikes && struck.fetch_update(Relaxed, Relaxed, counted).is_ok()).then_some(fault.effect)
        })
    }

    /// The first failure that affects this operation.
    fn failure(&self, operation: Operation, at: PageAddress) -> Option<(ErrorKind, bool)> {
        let mut failure = None;
        for effect in self.strike(operation, at) {
            if let (None, FaultEffect::Fail { kind, carried_out }) = (failure, effect) {
                failure = Some((kind, carried_out));
            }
        }
        failure
    }

    /// Executes `operate` under the script.
    fn change(
        &mut self,
        context: &Context,
        operation: Operation,
        at: PageAddress,
        operate: impl FnOnce(&mut F) -> Result<Done>,
    ) -> Result<Done> {
        match self.failure(operation, at) {
            None => operate(&mut self.inner),
            Some((kind, carried_out)) => {
                let done = if carried_out { operate(&mut self.inner)? } else { Done::immediately(context) };
                Err(scripted(kind, operation, at).after(done))
            }
        }
    }
}

#[cold]
fn scripted(kind: ErrorKind, operation: Operation, at: PageAddress) -> FlashError {
    FlashError::new(kind, operation, at, "a scripted fault")
}

fn flip(bytes: &mut [u8], first: u32, offset: u32, mask: u8) {
    if let Some(byte) = offset.checked_sub(first).and_then(|offset| bytes.get_mut(offset as usize)) {
        *byte ^= mask;
    }
}

impl<F: Flash> Flash for FaultFlash<F> {
    fn read(&self, context: &Context, at: PageAddress, mut read: PageRead<'_>) -> Result<Done> {
        let effects: Vec<FaultEffect> = self.strike(Operation::Read, at).collect();
        let done = self.inner.read(context, at, read.reborrow())?;
        let mut failure = None;
        for effect in effects {
            match (effect, &mut read.data) {
                (FaultEffect::Fail { kind, .. }, _) => failure = failure.or(Some(kind)),
                (FaultEffect::Flip { offset, mask }, ReadInto::Bytes(bytes)) => flip(bytes, read.column, offset, mask),
                (FaultEffect::Flip { offset, mask }, ReadInto::Content { content, .. }) => {
                    flip(content.to_bytes(), read.column, offset, mask);
                }
                (FaultEffect::Flip { .. }, ReadInto::Nothing { .. }) => {}
            }
        }
        match failure {
            None => Ok(done),
            Some(kind) => Err(scripted(kind, Operation::Read, at).after(done)),
        }
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.change(context, Operation::Program, at, |inner| inner.program(context, at, program))
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.change(context, Operation::Erase, block.page(0), |inner| inner.erase(context, block))
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.change(context, Operation::MarkBad, block.page(0), |inner| inner.mark_bad(context, block))
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.change(context, Operation::Sync, PageAddress::default(), |inner| inner.sync(context))
    }

    forward_rest!();
}

impl<F: Flash> Copyback for FaultFlash<F> {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.inner.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        self.change(context, Operation::Copy, to, |inner| match inner.copyback() {
            Some(copyback) => copyback.copy(context, from, to, oob),
            None => Err(no_capability(Operation::Copy, to)),
        })
    }
}
