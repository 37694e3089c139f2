//! The block device for the host.

use std::sync::atomic::AtomicU64;

use nandkit_flash::Flash;
use nandkit_units::{Cause, Context, Done, PageAddress, Payload};

use super::BlockMapFtl;
use crate::base::Base;
use crate::chain::Chain;
use crate::failure::LayerResult;
use crate::host::{Pages, UnsavedTrims};
use crate::layer::translation_layer;
use crate::statistics::{FtlCounters, RecyclingKind};
use crate::tag::flag;

impl<F: Flash> Pages for BlockMapFtl<F> {
    type Flash = F;

    #[inline]
    fn base(&self) -> &Base<F> {
        &self.base
    }
    fn base_mut(&mut self) -> &mut Base<F> {
        &mut self.base
    }
    #[inline]
    fn counters_mut(&mut self) -> &mut FtlCounters {
        &mut self.counters
    }
    fn host_reads(&self) -> &AtomicU64 {
        &self.host_reads
    }
    fn locate(&self, lbn: u32, offset: u32) -> Option<PageAddress> {
        self.map.locate(lbn, offset)
    }
    fn is_poisoned(&self, lbn: u32, offset: u32) -> bool {
        Self::is_poisoned(self, lbn, offset)
    }
    fn is_mapped(&self, lbn: u32) -> bool {
        self.map.data(lbn).is_some() || self.map.slot_of(lbn).is_some()
    }
    #[inline]
    fn write_page(&mut self, chain: &mut Chain, lbn: u32, offset: u32, data: &Payload<'_>) -> LayerResult<()> {
        Self::write_page(self, chain, lbn, offset, data)
    }
    #[inline(always)]
    fn append(&mut self, context: &Context, place: (u32, u32), data: &Payload<'_>) -> Option<LayerResult<Done>> {
        self.append_page(context, place, data)
    }
    fn forget(&mut self, lbn: u32, offset: u32) {
        self.map.set_present(lbn, offset, false);
        self.set_poisoned(lbn, offset, false);
        self.unsaved.insert(lbn, offset);
    }
    fn unsaved_mut(&mut self) -> &mut UnsavedTrims {
        &mut self.unsaved
    }
    fn write_tomb(&mut self, chain: &mut Chain, lbn: u32, offset: u32) -> LayerResult<()> {
        let nothing = self.base.empty_page();
        self.write_labelled(chain, lbn, offset, flag::TOMB, &nothing)
    }
    fn rewrite(&mut self, chain: &mut Chain, lbn: u32) -> LayerResult<()> {
        match self.map.slot_of(lbn) {
            Some(slot) => {
                self.note(slot, self.map.p(slot), RecyclingKind::Merge, false);
                self.merge(chain, slot)
            }
            None => self.move_data(chain, lbn, Cause::Cleaning),
        }
    }
}

translation_layer!(BlockMapFtl, super::BlockMapOptions, super::mount::LAYER);
