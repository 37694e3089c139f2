//! The block device for the host.

use std::sync::atomic::AtomicU64;

use nandkit_flash::Flash;
use nandkit_units::{PageAddress, Payload};

use super::FastFtl;
use crate::base::Base;
use crate::chain::Chain;
use crate::failure::LayerResult;
use crate::host::{Pages, UnsavedTrims};
use crate::layer::translation_layer;
use crate::statistics::FtlCounters;
use crate::tag::flag;

impl<F: Flash> Pages for FastFtl<F> {
    type Flash = F;

    #[inline]
    fn base(&self) -> &Base<F> {
        &self.base
    }
    fn base_mut(&mut self) -> &mut Base<F> {
        &mut self.base
    }
    fn counters_mut(&mut self) -> &mut FtlCounters {
        &mut self.counters
    }
    fn host_reads(&self) -> &AtomicU64 {
        &self.host_reads
    }
    fn locate(&self, lbn: u32, offset: u32) -> Option<PageAddress> {
        self.state.locate(lbn, offset)
    }
    fn is_poisoned(&self, lbn: u32, offset: u32) -> bool {
        self.state.is_poisoned(lbn, offset)
    }
    fn is_mapped(&self, lbn: u32) -> bool {
        self.state.present.extent(lbn).0 > 0
    }
    fn write_page(&mut self, chain: &mut Chain, lbn: u32, offset: u32, data: &Payload<'_>) -> LayerResult<()> {
        Self::write_page(self, chain, lbn, offset, data)
    }
    fn forget(&mut self, lbn: u32, offset: u32) {
        self.state.present.set(lbn, offset, false);
        self.state.set_poisoned(lbn, offset, false);
        self.unsaved.insert(lbn, offset);
    }
    fn unsaved_mut(&mut self) -> &mut UnsavedTrims {
        &mut self.unsaved
    }
    fn write_tomb(&mut self, chain: &mut Chain, lbn: u32, offset: u32) -> LayerResult<()> {
        let nothing = self.base.empty_page();
        // A stream of this logical block ends here: its pages must stay the newest at their
        // offsets.
        if let Some(log) = self.state.sequential.filter(|log| log.lbn == lbn) {
            self.finish_sequential(chain, log)?;
        }
        while !self.write_random(chain, lbn, offset, flag::TOMB, &nothing)? {}
        Ok(())
    }
    fn rewrite(&mut self, chain: &mut Chain, lbn: u32) -> LayerResult<()> {
        self.full_merge(chain, lbn, None)
    }
}

translation_layer!(FastFtl, super::FastOptions, super::mount::LAYER);
