//! Blocks as `cleaning::victim` sees them.

use nandkit_cleaning::victim::{BlockView, Queue as List};
use nandkit_units::BlockIndex;

use crate::catalogue::{Block, Catalogue, Queue};

/// The lists that victims are chosen from.
const LISTS: [(Queue, List); 5] = [
    (Queue::BadUsed, List::BadUsed),
    (Queue::Erasable, List::Erasable),
    (Queue::VeryDirty, List::VeryDirty),
    (Queue::Dirty, List::Dirty),
    (Queue::Clean, List::Clean),
];

fn view(number: BlockIndex, block: &Block, queue: List) -> BlockView {
    BlockView {
        block: number.0,
        valid: u64::from(block.used) + u64::from(block.unchecked),
        invalid: u64::from(block.dirty) + u64::from(block.wasted),
        free: u64::from(block.free),
        erases: block.erases,
        written: block.last_written,
        first_written: block.first_written,
        queue,
        place: block.place,
        dirtied: block.dirtied,
        region: block.region,
        ..BlockView::default()
    }
}

/// All blocks that could be collected now, including those with failures if `with_bad`.
pub(super) fn views(catalogue: &Catalogue, with_bad: bool) -> impl Iterator<Item = BlockView> + Clone {
    let lists = LISTS.into_iter().filter(move |(queue, _)| with_bad || *queue != Queue::BadUsed);
    lists.flat_map(move |(queue, list)| {
        let blocks = catalogue.on(queue).filter_map(|number| Some((number, catalogue.block(number)?)));
        blocks.map(move |(number, block)| view(number, block, list))
    })
}
