//! The map area: map pages, and the records of opening, closing and recovery.
//!
//! The map itself is rebuilt from the tags, so a map page has no content. It costs what a real map
//! page would cost, and its completion confirms the recycling before it.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, Described, Description, Payload};

use super::{Base, Label, MapArea};
use crate::chain::Chain;
use crate::failure::LayerResult;
use crate::tag::{NO_BLOCK, Role};

impl<F: Flash> Base<F> {
    pub fn map_area_has_room(&self) -> bool {
        self.map_area.block.is_some() && self.map_area.next < self.shape.np
    }

    /// Ensures that a program has completed after the last recycling.
    pub fn confirm_now(&mut self, chain: &mut Chain) -> LayerResult<()> {
        if self.is_confirmed() { Ok(()) } else { self.append_record(chain, Cause::Mapping, Role::Map, NO_BLOCK) }
    }

    /// The payload of a page without content.
    pub fn empty_page(&self) -> Payload<'static> {
        Payload::Described(Described { description: Description::default(), length: self.shape.page_size })
    }

    /// Writes the map pages that one recycling costs.
    pub fn append_map_pages(&mut self, chain: &mut Chain, pages: u32) -> LayerResult<()> {
        (0..pages).try_for_each(|_| self.append_record(chain, Cause::Mapping, Role::Map, NO_BLOCK))
    }

    /// Appends a record. A full map block is replaced by a new one (its erase counts as `Mapping`).
    pub fn append_record(&mut self, chain: &mut Chain, cause: Cause, role: Role, block: u32) -> LayerResult<()> {
        loop {
            if !self.map_area_has_room() {
                let fresh = self.allocate(chain, cause)?;
                if let Some(old) = self.map_area.block.replace(fresh) {
                    self.release(old);
                }
                self.map_area.next = 0;
            }
            let Some(area) = self.map_area.block else { continue };
            let at = BlockIndex(area).page(self.map_area.next);
            let label = Label { role, flags: 0, block, offset: 0 };
            match self.program(chain, Some(cause), at, label, &self.empty_page()) {
                Ok(()) => {
                    self.map_area.next += 1;
                    self.counters.map_pages += u64::from(role == Role::Map);
                    return Ok(());
                }
                Err(failure) if failure.is_bad_block() => {
                    self.release_bad(area);
                    self.map_area = MapArea::default();
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}
