//! Error-free reads by byte offset, for format detection.

use nandkit_units::{BlockIndex, Context};

use crate::{Flash, PageRead};

/// Flash whose data can be read by their byte offset in the whole device.
pub trait Look: Flash {
    /// Copies data bytes from byte `offset` of the device on, across pages and blocks. Unreadable
    /// bytes, and bytes past the end, read as erased. Cost: one read per page, unless the device
    /// overrides it.
    fn look_at(&self, offset: u64, into: &mut [u8]) {
        let geometry = *self.geometry();
        into.fill(0xFF);
        let (page_size, pages) = (u64::from(geometry.page_size.max(1)), u64::from(geometry.pages_per_block.max(1)));
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let (page, column) = (at / page_size, at % page_size);
            let Ok(block) = u32::try_from(page / pages) else { return };
            let length = rest.len().min((page_size - column) as usize);
            let (part, tail) = rest.split_at_mut(length);
            let at_page = BlockIndex(block).page((page % pages) as u32);
            if self.read(&Context::default(), at_page, PageRead::bytes(column as u32, part)).is_err() {
                part.fill(0xFF);
            }
            (rest, at) = (tail, at.saturating_add(length as u64));
        }
    }
}
