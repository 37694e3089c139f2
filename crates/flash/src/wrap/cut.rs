//! Power cuts by plan.

use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, PageAddress};

use super::cut_plan::{Cut, CutMoment, CutOutcome, CutPlan};
use super::{no_capability, offer_capabilities};
use crate::{
    Copyback, ErrorKind, Flash, FlashError, Interrupt, MultiPlane, Operation, PageProgram, PageRead, Result, TornErase,
    TornPage,
};

/// A flash device whose power goes when its plan says so. From then on every operation is `PowerLost` until [`CutFlash::power_on`].
///
/// Programs, copies and erases are the steps that a plan counts, refused ones included; a member of a multi-plane command is a step of its own. A cut
/// inside a multi-plane command leaves the members before its step whole, those after it untouched, and acknowledges none.
#[derive(Clone, Debug)]
pub struct CutFlash<F> {
    inner: F,
    plan: CutPlan,
    steps: u64,
    off: bool,
    outcomes: Vec<CutOutcome>,
}

/// What the plan says about a step.
enum Verdict {
    Go,
    GoThenCut,
    Before,
    Inside(TornPage, TornErase),
}

impl<F: Interrupt> CutFlash<F> {
    /// `inner` under a plan; the next step is number 1.
    pub const fn new(inner: F, plan: CutPlan) -> Self {
        Self { inner, plan, steps: 0, off: false, outcomes: Vec::new() }
    }

    /// How many steps there were.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether the power is gone.
    pub const fn is_off(&self) -> bool {
        self.off
    }

    /// The cuts that were made.
    pub fn outcomes(&self) -> &[CutOutcome] {
        &self.outcomes
    }

    /// The plan that makes the same cuts again, as the short text that [`CutPlan`] reads.
    pub fn replay(&self) -> String {
        CutPlan::replaying(&self.outcomes).to_string()
    }

    /// Another plan from now on. Steps go on counting.
    pub fn set_plan(&mut self, plan: CutPlan) {
        self.plan = plan;
    }

    /// The power comes back.
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

    /// The device below with its power back, where it was gone.
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

    /// One step: as it is, or cut.
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

    /// A multi-plane command: whole where no member is cut, else member by member.
    fn planes<M>(
        &mut self,
        operation: Operation,
        members: &[M],
        at: impl Fn(&M) -> PageAddress,
        whole: impl FnOnce(&mut F) -> Result<Done>,
        torn: impl Fn(&mut F, &M, TornPage, TornErase) -> Result<()>,
    ) -> Result<Done> {
        let mut cut = None;
        for (index, member) in members.iter().enumerate() {
            match self.judge(operation, at(member))? {
                Verdict::Go => {}
                verdict => {
                    cut = Some((index, verdict));
                    break;
                }
            }
        }
        let (index, verdict) = match cut {
            None => {
                self.check_power(operation, PageAddress::default())?;
                return whole(&mut self.inner);
            }
            // The last member completes the command.
            Some((index, Verdict::GoThenCut)) if index + 1 == members.len() => return whole(&mut self.inner),
            Some(cut) => cut,
        };
        for (number, member) in members.iter().enumerate().take(index + 1) {
            match verdict {
                Verdict::Inside(page, erase) if number == index => torn(&mut self.inner, member, page, erase)?,
                Verdict::Before if number == index => {}
                _ => torn(&mut self.inner, member, TornPage::Whole, TornErase::Whole)?,
            }
        }
        Err(power_lost(operation, members.get(index).map_or(PageAddress::default(), at)))
    }
}

#[cold]
fn power_lost(operation: Operation, at: PageAddress) -> FlashError {
    FlashError::new(ErrorKind::PowerLost, operation, at, "the power was cut by plan")
}

impl<F: Interrupt> Flash for CutFlash<F> {
    #[inline]
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }

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

    #[inline]
    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.check_power(Operation::MarkBad, block.page(0))?;
        self.inner.mark_bad(context, block)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.check_power(Operation::Sync, PageAddress::default())?;
        self.inner.sync(context)
    }

    offer_capabilities!();
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

impl<F: Interrupt> MultiPlane for CutFlash<F> {
    fn program_planes(&mut self, context: &Context, programs: &[(PageAddress, PageProgram<'_>)]) -> Result<Done> {
        self.planes(
            Operation::Program,
            programs,
            |(at, _)| *at,
            |inner| match inner.multi_plane() {
                Some(multi_plane) => multi_plane.program_planes(context, programs),
                None => Err(no_capability(Operation::Program, PageAddress::default())),
            },
            |inner, (at, program), page, _| inner.interrupt_program(context, *at, *program, page),
        )
    }

    fn erase_planes(&mut self, context: &Context, blocks: &[BlockIndex]) -> Result<Done> {
        self.planes(
            Operation::Erase,
            blocks,
            |block| block.page(0),
            |inner| match inner.multi_plane() {
                Some(multi_plane) => multi_plane.erase_planes(context, blocks),
                None => Err(no_capability(Operation::Erase, PageAddress::default())),
            },
            |inner, block, _, erase| inner.interrupt_erase(context, *block, erase),
        )
    }
}
