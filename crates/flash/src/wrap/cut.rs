//! Planned power cuts.

use nandkit_units::{BlockIndex, Context, Done, PageAddress};

use super::cut_plan::{Cut, CutMoment, CutOutcome, CutPlan};
use super::{forward_rest, no_capability};
use crate::{
    Copyback, ErrorKind, Flash, FlashError, Interrupt, Operation, PageProgram, PageRead, Result, TornErase, TornPage,
};

/// A flash device whose power fails by a plan. From then on every operation fails with `PowerLost`
/// until [`CutFlash::power_on`].
///
/// The plan counts programs, copies and erases as steps, including refused ones.
#[derive(Clone, Debug)]
pub struct CutFlash<F> {
    inner: F,
    plan: CutPlan,
    steps: u64,
    off: bool,
    outcomes: Vec<CutOutcome>,
}

/// The plan's decision about a step.
enum Verdict {
    Go,
    GoThenCut,
    Before,
    Inside(TornPage, TornErase),
}

impl<F: Interrupt> CutFlash<F> {
    /// Wraps `inner` with a plan; the next step is number 1.
    pub const fn new(inner: F, plan: CutPlan) -> Self {
        Self { inner, plan, steps: 0, off: false, outcomes: Vec::new() }
    }

    /// The number of steps so far.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether the power is off.
    pub const fn is_off(&self) -> bool {
        self.off
    }

    /// The cuts made so far.
    pub fn outcomes(&self) -> &[CutOutcome] {
        &self.outcomes
    }

    /// A plan that repeats the same cuts, as text for [`CutPlan`].
    pub fn replay(&self) -> String {
        CutPlan::replaying(&self.outcomes).to_string()
    }

    /// Replaces the plan. Step numbers continue.
    pub fn set_plan(&mut self, plan: CutPlan) {
        self.plan = plan;
    }

    /// Turns the power on again.
    pub fn power_on(&mut self) {
        if self.off {
            self.off = false;
            self.inner.power_on();
        }
    }

    /// The device below, as the cut left it.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// Unwraps the device below, with its power on.
    pub fn into_inner(mut self) -> F {
        self.power_on();
        self.inner
    }

    fn judge(&mut self, operation: Operation, at: PageAddress) -> Result<Verdict> {
        self.check_power(operation, at)?;
        self.steps += 1;
        let Some(moment) = self.plan.moment_at(self.steps) else { return Ok(Verdict::Go) };
        self.outcomes.push(CutOutcome { cut: Cut { step: self.steps, moment }, operation, at });
        self.off = true;
        Ok(match moment {
            CutMoment::Before => Verdict::Before,
            CutMoment::Inside { page, erase } => Verdict::Inside(page, erase),
            CutMoment::After => Verdict::GoThenCut,
        })
    }

    #[inline]
    fn check_power(&self, operation: Operation, at: PageAddress) -> Result<()> {
        if self.off { Err(power_lost(operation, at)) } else { Ok(()) }
    }

    /// Executes one step, or cuts it.
    fn step(
        &mut self,
        operation: Operation,
        at: PageAddress,
        whole: impl FnOnce(&mut F) -> Result<Done>,
        torn: impl FnOnce(&mut F, TornPage, TornErase) -> Result<()>,
    ) -> Result<Done> {
        match self.judge(operation, at)? {
            Verdict::Go | Verdict::GoThenCut => whole(&mut self.inner),
            Verdict::Before => Err(power_lost(operation, at)),
            Verdict::Inside(page, erase) => {
                torn(&mut self.inner, page, erase)?;
                Err(power_lost(operation, at))
            }
        }
    }
}

#[cold]
fn power_lost(operation: Operation, at: PageAddress) -> FlashError {
    FlashError::new(ErrorKind::PowerLost, operation, at, "the power was cut by plan")
}

impl<F: Interrupt> Flash for CutFlash<F> {
    #[inline]
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.check_power(Operation::Read, at)?;
        self.inner.read(context, at, read)
    }

    #[inline]
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.step(
            Operation::Program,
            at,
            |inner| inner.program(context, at, program),
            |inner, page, _| inner.interrupt_program(context, at, program, page),
        )
    }

    #[inline]
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.step(
            Operation::Erase,
            block.page(0),
            |inner| inner.erase(context, block),
            |inner, _, erase| inner.interrupt_erase(context, block, erase),
        )
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.check_power(Operation::MarkBad, block.page(0))?;
        self.inner.mark_bad(context, block)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.check_power(Operation::Sync, PageAddress::default())?;
        self.inner.sync(context)
    }

    forward_rest!();
}

impl<F: Interrupt> Copyback for CutFlash<F> {
    #[inline]
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.inner.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        self.step(
            Operation::Copy,
            to,
            |inner| match inner.copyback() {
                Some(copyback) => copyback.copy(context, from, to, oob),
                None => Err(no_capability(Operation::Copy, to)),
            },
            |inner, page, _| inner.interrupt_copy(context, from, to, oob, page),
        )
    }
}
