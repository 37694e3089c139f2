//! A device that refuses every change.

use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, PageAddress};

use crate::{ErrorKind, Flash, FlashError, Operation, PageProgram, PageRead, Result};

/// A flash device that can only be read. It offers neither copyback nor multi-plane operations: both only change things.
#[derive(Clone, Debug)]
pub struct ReadOnlyFlash<F> {
    inner: F,
}

impl<F: Flash> ReadOnlyFlash<F> {
    /// Guards `inner`.
    pub const fn new(inner: F) -> Self {
        Self { inner }
    }

    /// The device below.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// The device below, unguarded.
    pub fn into_inner(self) -> F {
        self.inner
    }
}

#[cold]
fn refused(context: &Context, operation: Operation, at: PageAddress) -> FlashError {
    FlashError::new(ErrorKind::ReadOnly, operation, at, "the device is open for reading only")
        .after(Done::immediately(context))
}

impl<F: Flash> Flash for ReadOnlyFlash<F> {
    #[inline]
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }

    #[inline]
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.inner.read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, _program: PageProgram<'_>) -> Result<Done> {
        Err(refused(context, Operation::Program, at))
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        Err(refused(context, Operation::Erase, block.page(0)))
    }

    #[inline]
    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        Err(refused(context, Operation::MarkBad, block.page(0)))
    }

    /// Nothing was changed through this wrapper, so there is nothing to make durable.
    fn sync(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }
}
