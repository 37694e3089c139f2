//! A device that refuses every change.

use nandkit_units::{Content, Context, Done, Lba, Payload, ReadInto};

use crate::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Result};

/// A block device that can only be read. It offers neither trim nor remap, which only change
/// things.
#[derive(Clone, Debug)]
pub struct ReadOnlyDevice<D> {
    inner: D,
}

impl<D: BlockDevice> ReadOnlyDevice<D> {
    /// Guards `inner`.
    pub const fn new(inner: D) -> Self {
        Self { inner }
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Unwraps the device below.
    pub fn into_inner(self) -> D {
        self.inner
    }
}

impl<D: BlockDevice> BlockDevice for ReadOnlyDevice<D> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    #[inline]
    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.inner.read(context, at, into)
    }

    fn write(&mut self, _context: &Context, at: Lba, _data: Payload<'_>) -> Result<Done> {
        Err(BlockError::new(ErrorKind::ReadOnly, Operation::Write, at, "the device is open for reading only"))
    }

    #[inline]
    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        self.inner.read_parts(context, at, unit, into)
    }

    super::forward_extents!();

    /// Nothing was changed through this wrapper, so there is nothing to make durable.
    fn flush(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }
}
