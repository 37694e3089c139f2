//! Detecting the byte order of a volume.

use nandkit_flash::{Flash, FlashError};
use nandkit_units::BlockIndex;

use crate::layout::{ByteOrder, HEADER_SIZE, Header};
use crate::medium::MOUNT;
use crate::medium::Medium;
use crate::scan::walk::{Stretch, Walk};

/// Most blocks without a node at their beginning that are searched completely.
const DEEP: usize = 16;

/// The byte order of the first node found; `None` if there is no node.
pub(crate) fn of_first_node<F: Flash>(medium: &Medium<F>) -> Result<Option<ByteOrder>, FlashError> {
    let shape = medium.shape();
    let mut strange = Vec::new();
    for number in 0..shape.blocks {
        let block = BlockIndex(number);
        if medium.is_bad(block) {
            continue;
        }
        let mut first = [0; HEADER_SIZE as usize];
        let _ = medium.read(shape.address(block, 0), &mut first, MOUNT)?;
        match ByteOrder::ALL.into_iter().find(|order| begins_with_node(*order, &first)) {
            Some(order) => return Ok(Some(order)),
            None if first != [0xFF; HEADER_SIZE as usize] => strange.push(block),
            None => {}
        }
    }
    for block in strange.into_iter().take(DEEP) {
        let mut bytes = vec![0; shape.erase_size as usize];
        let _ = medium.read(shape.address(block, 0), &mut bytes, MOUNT)?;
        let count =
            |order| Walk::new(order, shape.magic, &bytes).filter(|found| matches!(found, Stretch::Node { .. })).count();
        let (little, big) = (count(ByteOrder::Little), count(ByteOrder::Big));
        if little != big {
            return Ok(Some(if little > big { ByteOrder::Little } else { ByteOrder::Big }));
        }
    }
    Ok(None)
}

fn begins_with_node(order: ByteOrder, bytes: &[u8]) -> bool {
    Header::decode(order, bytes).is_some_and(|header| header.check(order).is_ok())
}
