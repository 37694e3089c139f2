//! An observer before each change.

use std::fmt;

use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, PageAddress};

use super::{no_capability, offer_capabilities};
use crate::{Copyback, Flash, Interrupt, MultiPlane, Operation, PageProgram, PageRead, Result, TornErase, TornPage};

/// The change that is about to happen.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are the arguments of the operations of the contract")]
pub enum WitnessStep<'a> {
    Program { at: PageAddress, program: PageProgram<'a> },
    Copy { from: PageAddress, to: PageAddress, oob: Option<&'a [u8]> },
    Erase { block: BlockIndex },
}

impl WitnessStep<'_> {
    /// The torn states in which a cut inside this step can leave a device: each a pair for [`WitnessStep::interrupt_on`], of which the step uses the half that
    /// concerns it.
    pub const fn torn_states(&self) -> [(TornPage, TornErase); 4] {
        [
            (TornPage::Nothing, TornErase::Nothing),
            (TornPage::Whole, TornErase::Whole),
            (TornPage::Prefix, TornErase::Half),
            (TornPage::Garbage, TornErase::Weak),
        ]
    }

    /// Cuts this step on `flash`, commonly a snapshot that the observer cloned.
    pub fn interrupt_on<F: Interrupt + ?Sized>(
        &self,
        flash: &mut F,
        context: &Context,
        page: TornPage,
        erase: TornErase,
    ) -> Result<()> {
        match *self {
            Self::Program { at, program } => flash.interrupt_program(context, at, program, page),
            Self::Copy { from, to, oob } => flash.interrupt_copy(context, from, to, oob, page),
            Self::Erase { block } => flash.interrupt_erase(context, block, erase),
        }
    }
}

/// A flash device that calls an observer with the device below before each program, copy and erase. The observer may clone
/// it and try every cut from there, so that one run of a workload is enough for an exhaustive search.
///
/// A member of a multi-plane command is observed as a step of its own, all of them before the command.
pub struct WitnessFlash<F, O> {
    inner: F,
    observer: O,
}

impl<F: fmt::Debug, O> fmt::Debug for WitnessFlash<F, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WitnessFlash").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F: Flash, O: FnMut(&F, &Context, &WitnessStep<'_>) + Send + Sync> WitnessFlash<F, O> {
    /// Shows each change of `inner` to `observer` first.
    pub const fn new(inner: F, observer: O) -> Self {
        Self { inner, observer }
    }

    /// The device below.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// The device below and the observer.
    pub fn into_parts(self) -> (F, O) {
        (self.inner, self.observer)
    }
}

impl<F: Flash, O: FnMut(&F, &Context, &WitnessStep<'_>) + Send + Sync> Flash for WitnessFlash<F, O> {
    #[inline]
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }

    #[inline]
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.inner.read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        (self.observer)(&self.inner, context, &WitnessStep::Program { at, program });
        self.inner.program(context, at, program)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        (self.observer)(&self.inner, context, &WitnessStep::Erase { block });
        self.inner.erase(context, block)
    }

    #[inline]
    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }

    #[inline]
    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.inner.mark_bad(context, block)
    }

    #[inline]
    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.inner.sync(context)
    }

    offer_capabilities!();
}

impl<F: Flash, O: FnMut(&F, &Context, &WitnessStep<'_>) + Send + Sync> Copyback for WitnessFlash<F, O> {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.inner.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        (self.observer)(&self.inner, context, &WitnessStep::Copy { from, to, oob });
        match self.inner.copyback() {
            Some(copyback) => copyback.copy(context, from, to, oob),
            None => Err(no_capability(Operation::Copy, to)),
        }
    }
}

impl<F: Flash, O: FnMut(&F, &Context, &WitnessStep<'_>) + Send + Sync> MultiPlane for WitnessFlash<F, O> {
    fn program_planes(&mut self, context: &Context, programs: &[(PageAddress, PageProgram<'_>)]) -> Result<Done> {
        for &(at, program) in programs {
            (self.observer)(&self.inner, context, &WitnessStep::Program { at, program });
        }
        match self.inner.multi_plane() {
            Some(multi_plane) => multi_plane.program_planes(context, programs),
            None => Err(no_capability(Operation::Program, PageAddress::default())),
        }
    }

    fn erase_planes(&mut self, context: &Context, blocks: &[BlockIndex]) -> Result<Done> {
        for &block in blocks {
            (self.observer)(&self.inner, context, &WitnessStep::Erase { block });
        }
        match self.inner.multi_plane() {
            Some(multi_plane) => multi_plane.erase_planes(context, blocks),
            None => Err(no_capability(Operation::Erase, PageAddress::default())),
        }
    }
}
