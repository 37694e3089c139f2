//! A dump under a layer that changes it: what a mount changes waits for the first change of a user,
//! and changes do not pile up in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_flash::{Flash, PageProgram, PageRead, Result};
use nandkit_flash_image::DumpFlash;
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, PageAddress};

/// Largest amount of changes between two syncs, in bytes. Writing some earlier is safe for layers
/// that lose nothing by a power cut.
const HELD_MAX: u64 = 64 << 20;

/// A dump that is changed.
#[derive(Debug)]
pub(super) struct HeldDump {
    dump: DumpFlash,
    /// While this is set, nothing is written to the file.
    held: Arc<AtomicBool>,
    /// The amount of changes at which they are synced; `None` for a copy in memory.
    sync_at: Option<u64>,
}

impl HeldDump {
    /// A copy in memory, or the file itself (`in_place`). While `held` is set, nothing is written
    /// to the file.
    pub fn new(dump: DumpFlash, held: &Arc<AtomicBool>, in_place: bool) -> Self {
        Self { dump, held: Arc::clone(held), sync_at: in_place.then_some(HELD_MAX) }
    }

    /// The dump.
    pub const fn dump(&self) -> &DumpFlash {
        &self.dump
    }

    /// The dump, for a step that is not to be synced half way; [`HeldDump::stepped`] ends it.
    pub const fn dump_mut(&mut self) -> &mut DumpFlash {
        &mut self.dump
    }

    /// Returns the dump.
    pub fn into_dump(self) -> DumpFlash {
        self.dump
    }

    /// Ends a step: changes are synced if there are many. A failure is told by the next sync.
    pub fn stepped(&mut self, context: &Context) {
        let held = self.dump.held_bytes();
        if self.sync_at.is_some_and(|limit| held >= limit) && !self.held.load(Ordering::Acquire) {
            let is_synced = self.dump.sync(context).is_ok();
            self.sync_at = Some(if is_synced { HELD_MAX } else { held.saturating_add(HELD_MAX) });
        }
    }
}

impl Flash for HeldDump {
    fn geometry(&self) -> &FlashGeometry {
        self.dump.geometry()
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.dump.read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let done = self.dump.program(context, at, program)?;
        self.stepped(context);
        Ok(done)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.dump.erase(context, block)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.dump.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.dump.mark_bad(context, block)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        if self.held.load(Ordering::Acquire) {
            return Ok(Done::immediately(context));
        }
        self.dump.sync(context)
    }
}
