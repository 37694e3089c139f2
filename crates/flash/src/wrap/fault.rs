//! Scripted failures.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, PageAddress, ReadInto};

use super::{no_capability, offer_capabilities};
use crate::{Copyback, ErrorKind, Flash, FlashError, MultiPlane, Operation, PageProgram, PageRead, Result};

/// At which operations of its kind a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultWhen {
    /// The n-th operation of its kind, counted from 1 since the wrapper was made. A member of a multi-plane command counts as one.
    Nth(u64),
    /// Every n-th operation of its kind; never for 0.
    EveryNth(u64),
    /// Operations on this page (of a copy: its target).
    Page(PageAddress),
    /// Operations on any page of this block, and on the block.
    Block(BlockIndex),
    /// All.
    Always,
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The operation fails with this kind.
    Fail {
        /// The kind of the error.
        kind: ErrorKind,
        /// Whether the device below carries the operation out all the same before the failure is reported.
        carried_out: bool,
    },
    /// A read delivers the data byte at this offset of the page with the bits of `mask` inverted. Other operations take no notice.
    Flip {
        /// Byte of the page's data.
        offset: u32,
        /// Which bits.
        mask: u8,
    },
    /// The same in the OOB.
    FlipOob {
        /// Byte of the page's OOB.
        offset: u32,
        /// Which bits.
        mask: u8,
    },
}

/// One line of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which kind of operation it strikes.
    pub operation: Operation,
    /// Which of them.
    pub when: FaultWhen,
    /// How.
    pub effect: FaultEffect,
    /// How often at most.
    pub times: u64,
}

impl Fault {
    /// A fault that fails operations with `kind` before they touch the device, as often as `when` says.
    pub const fn fail(operation: Operation, when: FaultWhen, kind: ErrorKind) -> Self {
        Self { operation, when, effect: FaultEffect::Fail { kind, carried_out: false }, times: u64::MAX }
    }

    /// The same, at most `times` times.
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
    /// `inner` with these faults. Of several failures that strike at once the first wins; all flips apply.
    pub fn new(inner: F, faults: impl IntoIterator<Item = Fault>) -> Self {
        let faults = faults.into_iter().map(|fault| (fault, AtomicU64::new(0))).collect();
        Self { inner, faults, counts: Default::default() }
    }

    /// How often each fault of the script struck.
    pub fn struck(&self) -> Vec<u64> {
        self.faults.iter().map(|(_, struck)| struck.load(Relaxed)).collect()
    }

    /// How many operations of this kind there were.
    pub fn count(&self, operation: Operation) -> u64 {
        self.counts[operation as usize].load(Relaxed)
    }

    /// The device below.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// The device below.
    pub fn into_inner(self) -> F {
        self.inner
    }

    /// The faults that strike this operation.
    fn strike(&self, operation: Operation, at: PageAddress) -> impl Iterator<Item = FaultEffect> + '_ {
        let number = self.counts[operation as usize].fetch_add(1, Relaxed) + 1;
        self.faults.iter().filter_map(move |(fault, struck)| {
            let strikes = fault.operation == operation
                && match fault.when {
                    FaultWhen::Nth(n) => n == number,
                    FaultWhen::EveryNth(n) => n != 0 && number.is_multiple_of(n),
                    FaultWhen::Page(page) => page == at,
                    FaultWhen::Block(block) => block == at.block,
                    FaultWhen::Always => true,
                };
            let counted = |struck: u64| (struck < fault.times).then_some(struck + 1);
            (strikes && struck.fetch_update(Relaxed, Relaxed, counted).is_ok()).then_some(fault.effect)
        })
    }

    /// The first failure that strikes this operation.
    fn failure(&self, operation: Operation, at: PageAddress) -> Option<(ErrorKind, bool)> {
        let mut failure = None;
        for effect in self.strike(operation, at) {
            if let (None, FaultEffect::Fail { kind, carried_out }) = (failure, effect) {
                failure = Some((kind, carried_out));
            }
        }
        failure
    }

    /// Runs `operate` under the script.
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
    #[inline]
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }

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
                (FaultEffect::FlipOob { offset, mask }, _) => flip(read.oob, 0, offset, mask),
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

    #[inline]
    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.change(context, Operation::MarkBad, block.page(0), |inner| inner.mark_bad(context, block))
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.change(context, Operation::Sync, PageAddress::default(), |inner| inner.sync(context))
    }

    offer_capabilities!();
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

impl<F: Flash> FaultFlash<F> {
    /// Splits the members of a multi-plane command into those that are carried out and the first failure.
    fn split<M: Copy>(
        &self,
        operation: Operation,
        members: &[M],
        at: impl Fn(&M) -> PageAddress,
    ) -> (Vec<M>, Option<FlashError>) {
        let mut carried = Vec::with_capacity(members.len());
        let mut first = None;
        for member in members {
            match self.failure(operation, at(member)) {
                None => carried.push(*member),
                Some((kind, carried_out)) => {
                    if carried_out {
                        carried.push(*member);
                    }
                    first.get_or_insert_with(|| scripted(kind, operation, at(member)));
                }
            }
        }
        (carried, first)
    }
}

/// Carries a multi-plane command out and reports the scripted failure, if any, at the command's end.
fn finish(
    context: &Context,
    some_left: bool,
    failure: Option<FlashError>,
    operate: impl FnOnce() -> Result<Done>,
) -> Result<Done> {
    match failure {
        None => operate(),
        Some(failure) => {
            let done = if some_left { operate()? } else { Done::immediately(context) };
            Err(failure.after(done))
        }
    }
}

impl<F: Flash> MultiPlane for FaultFlash<F> {
    fn program_planes(&mut self, context: &Context, programs: &[(PageAddress, PageProgram<'_>)]) -> Result<Done> {
        let (carried, failure) = self.split(Operation::Program, programs, |(at, _)| *at);
        let Some(multi_plane) = self.inner.multi_plane() else {
            return Err(no_capability(Operation::Program, PageAddress::default()));
        };
        finish(context, !carried.is_empty(), failure, || multi_plane.program_planes(context, &carried))
    }

    fn erase_planes(&mut self, context: &Context, blocks: &[BlockIndex]) -> Result<Done> {
        let (carried, failure) = self.split(Operation::Erase, blocks, |block| block.page(0));
        let Some(multi_plane) = self.inner.multi_plane() else {
            return Err(no_capability(Operation::Erase, PageAddress::default()));
        };
        finish(context, !carried.is_empty(), failure, || multi_plane.erase_planes(context, &carried))
    }
}
