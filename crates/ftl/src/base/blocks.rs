//! Allocating blocks, and retiring failed ones.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause};

use super::Base;
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::tag::{NO_BLOCK, Role};

impl<F: Flash> Base<F> {
    /// Takes a free block and erases it: no block is trusted to be erased (rule 4). A block that
    /// fails is marked bad, and the next one is tried.
    pub fn allocate(&mut self, chain: &mut Chain, cause: Cause) -> LayerResult<u32> {
        loop {
            let Some(block) = self.take_free(chain, cause)? else { return Err(Failure::Full) };
            if self.erase(chain, cause, block)? {
                return Ok(block);
            }
        }
    }

    fn take_free(&mut self, chain: &mut Chain, cause: Cause) -> LayerResult<Option<u32>> {
        if self.pool.is_empty() && !self.quarantine.is_empty() && self.map_area_has_room() {
            // A map page serves as the later program that frees the waiting blocks.
            self.append_record(chain, Cause::Mapping, Role::Map, NO_BLOCK)?;
        }
        if cause == Cause::WearLevelling {
            // Cold data go to the most-erased block.
            let Self { pool, erases, .. } = self;
            return Ok(pool.pop_most_worn(|block| erases.get(block as usize).copied().unwrap_or(0)));
        }
        Ok(self.pool.pop())
    }

    /// Erases an unused block; returns false if the erase failed and the block was marked bad.
    pub fn erase(&mut self, chain: &mut Chain, cause: Cause, block: u32) -> LayerResult<bool> {
        match self.flash.erase(&chain.next(Some(cause)), BlockIndex(block)) {
            Ok(done) => {
                chain.advance(done);
                self.counters.count_erase(done.busy);
                if let Some(erases) = self.erases.get_mut(block as usize) {
                    *erases = erases.saturating_add(1);
                }
                Ok(true)
            }
            Err(error) => {
                let failure = self.failed(chain, error);
                if !failure.is_bad_block() {
                    return Err(failure);
                }
                self.mark_bad(chain, block)?;
                Ok(false)
            }
        }
    }

    /// Retires a block permanently.
    #[cold]
    pub fn mark_bad(&mut self, chain: &mut Chain, block: u32) -> LayerResult<()> {
        self.counters.retired_blocks += 1;
        match self.flash.mark_bad(&chain.next(None), BlockIndex(block)) {
            Ok(done) => {
                chain.advance(done);
                Ok(())
            }
            Err(error) => Err(self.failed(chain, error)),
        }
    }
}
