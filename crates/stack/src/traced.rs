//! The recyclings of one logical block, as a series for records.

use std::sync::{Arc, Mutex};

use nandkit_flash::Flash;
use nandkit_ftl::{BlockMapFtl, RecyclingKind};
use nandkit_units::{StatisticValue, Statistics};

use crate::device_handle::lock;

/// Largest number of recyclings, over all blocks, that a traced run keeps.
pub(crate) const EVENTS: usize = 1 << 22;

/// Collects `p` of each recycling of one logical block since the start of the run: the pages that a
/// migration copied; -1 for a merge of any kind.
pub(crate) struct TracedBlock<F: Flash> {
    pub ftl: Arc<Mutex<BlockMapFtl<F>>>,
    pub block: u32,
}

impl<F: Flash> Statistics for TracedBlock<F> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let ftl = lock(&self.ftl);
        let of_block = ftl.events().iter().filter(|event| event.lbn == self.block);
        let pages = of_block.map(|event| match event.kind {
            RecyclingKind::Migration => f64::from(event.p),
            _ => -1.0,
        });
        sink("traced_p", StatisticValue::Events(pages.collect()));
    }
}
