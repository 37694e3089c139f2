//! Handles on a dump that is changed, shared by the volume and the code that stores the result.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nandkit_flash::{Flash, PageProgram, PageRead, Result};
use nandkit_flash_image::DumpFlash;
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, PageAddress};

/// A handle on a dump. Reads run as concurrently as on the dump itself.
pub(super) struct DumpHandle {
    geometry: FlashGeometry,
    dump: Arc<RwLock<DumpFlash>>,
}

impl DumpHandle {
    /// A handle on a dump that the caller keeps.
    pub(super) fn new(dump: Arc<RwLock<DumpFlash>>) -> Self {
        let geometry = *dump.read().unwrap_or_else(PoisonError::into_inner).geometry();
        Self { geometry, dump }
    }

    fn held(&self) -> RwLockReadGuard<'_, DumpFlash> {
        self.dump.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, DumpFlash> {
        self.dump.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flash for DumpHandle {
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.held().read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.alone().program(context, at, program)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.alone().erase(context, block)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.held().is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.alone().mark_bad(context, block)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.alone().sync(context)
    }
}
