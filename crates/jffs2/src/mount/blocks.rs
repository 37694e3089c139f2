//! Assigning blocks to lists.

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::Collected;
use crate::catalogue::{Block, Catalogue, Queue, is_dirty};
use crate::layout::INODE_SIZE;
use crate::medium::{Cleanmarker, Shape};
use crate::scan::Condition;

/// Puts the blocks on their lists, as fs/jffs2/scan.c does at the end of a mount. Errors: `Corrupt`
/// if the device has no JFFS2 content and is not blank: Linux refuses to erase it too.
pub(super) fn file(shape: &Shape, collected: &mut Collected) -> Result<Catalogue> {
    let mut blocks = std::mem::take(&mut collected.blocks);
    // A block is reopened only if this much of it is free (`min_free`).
    let least = (2 * INODE_SIZE).max(shape.page_size);
    for (number, (block, condition)) in blocks.iter_mut().zip(&collected.conditions).enumerate() {
        // Linux puts each block at the head of its list.
        block.place = -(number as i64);
        block.queue = queue(block, *condition, shape);
        block.unclean = matches!(condition, Condition::Blank | Condition::Unclean);
    }
    let candidates = blocks.iter().enumerate().filter(|(_, block)| block.queue == Queue::Dirty && block.free > least);
    // The block with the most space, the first among equals.
    let open = candidates.max_by_key(|(number, block)| (block.free, usize::MAX - number)).map(|(number, _)| number);
    for (number, block) in blocks.iter_mut().enumerate() {
        if open == Some(number) {
            block.queue = Queue::Open;
            block.wasted += std::mem::take(&mut block.dirty);
        } else if block.queue == Queue::Dirty {
            close(block, shape.erase_size);
        }
    }
    let all_bad = collected.conditions.iter().all(|condition| *condition == Condition::Bad);
    let blank = collected
        .conditions
        .iter()
        .all(|condition| matches!(condition, Condition::Bad | Condition::Blank | Condition::Ready));
    // Linux ignores cleanmarkers, and so refuses a new volume whose first page was interrupted.
    let has_marker = shape.cleanmarker != Cleanmarker::None && collected.conditions.contains(&Condition::Ready);
    if !collected.is_jffs2 && !has_marker && (all_bad || !blank) {
        let text = "no JFFS2 node is on the device, and it is not blank: a wrong erase size, byte order or part of the device?";
        return Err(FsError::new(ErrorKind::Corrupt, text));
    }
    rotate(&mut blocks, collected.versions);
    Ok(Catalogue::from_blocks(shape.erase_size, blocks))
}

/// Here `Dirty` means: nodes, dirt, and possibly free flash after them.
fn queue(block: &mut Block, condition: Condition, shape: &Shape) -> Queue {
    let valid = block.used + block.unchecked;
    match condition {
        Condition::Bad => Queue::Bad,
        Condition::Blank | Condition::Unclean => Queue::ErasePending,
        Condition::Ready => Queue::Free,
        Condition::Written if block.dirty == 0 && block.nodes.len() == 1 && valid == shape.cleanmarker.size() => {
            Queue::Free
        }
        Condition::Written if valid == 0 => {
            waste_free(block, shape.erase_size);
            Queue::ErasePending
        }
        Condition::Written if !is_dirty(shape.erase_size - valid) => {
            waste_free(block, shape.erase_size);
            block.wasted += std::mem::take(&mut block.dirty);
            Queue::Clean
        }
        Condition::Written => Queue::Dirty,
    }
}

/// Counts a block's free rest as dirt, because nothing more will be written after its last node.
fn waste_free(block: &mut Block, erase_size: u32) {
    use crate::catalogue::{NodeRef, NodeState, Owner};
    if block.free == 0 {
        return;
    }
    let written = block.last_written;
    block.dirty += block.free;
    match block.nodes.last_mut().filter(|node| node.is_obsolete() && node.owner() == Owner::None) {
        Some(last) => last.length += block.free,
        None => block.nodes.push(NodeRef::new(
            erase_size - block.free,
            block.free,
            Owner::None,
            NodeState::Obsolete,
            written,
        )),
    }
    block.free = 0;
}

fn close(block: &mut Block, erase_size: u32) {
    waste_free(block, erase_size);
    block.dirty += std::mem::take(&mut block.wasted);
    block.queue = if block.dirty >= erase_size / 2 { Queue::VeryDirty } else { Queue::Dirty };
}

/// Rotates the lists, so that they begin elsewhere after each mount and no block is always first
/// (fs/jffs2/scan.c, `jffs2_rotate_lists`).
fn rotate(blocks: &mut [Block], by: u32) {
    for queue in [Queue::Clean, Queue::VeryDirty, Queue::Dirty, Queue::Erasable, Queue::ErasePending, Queue::Free] {
        let mut list: Vec<usize> =
            (0..blocks.len()).filter(|number| blocks.get(*number).is_some_and(|block| block.queue == queue)).collect();
        list.reverse();
        let count = list.len().max(1);
        list.rotate_left(by as usize % count);
        for (place, number) in list.into_iter().enumerate() {
            if let Some(block) = blocks.get_mut(number) {
                block.place = place as i64;
            }
        }
    }
}
