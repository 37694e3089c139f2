//! Encoding of replies. A client that negotiated structured replies gets them if they say more than
//! simple ones.

use crate::protocol::{ALLOCATION_CONTEXT_ID, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};

/// A simple reply: an error number, 0 for success.
pub fn simple(cookie: u64, error: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

fn header(flags: u16, kind: u16, cookie: u64, length: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// The header of a part of a read's data.
pub fn data(cookie: u64, offset: u64, length: u32, last: bool) -> Vec<u8> {
    let flags = if last { chunk::DONE } else { 0 };
    [&header(flags, chunk::OFFSET_DATA, cookie, length.saturating_add(8))[..], &offset.to_be_bytes()].concat()
}

/// An error with a message, and an offset if there is one.
pub fn error(cookie: u64, number: u32, message: &str, at: Option<u64>) -> Vec<u8> {
    let message = message.as_bytes();
    let message = message.get(..message.len().min(1024)).unwrap_or_default();
    let kind = if at.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
    let offset = at.map(u64::to_be_bytes);
    let offset = offset.as_ref().map_or(&[][..], |offset| &offset[..]);
    let length = 6 + message.len() + offset.len();
    let words = (message.len() as u16).to_be_bytes();
    [&header(chunk::DONE, kind, cookie, length as u32)[..], &number.to_be_bytes(), &words, message, offset].concat()
}

/// Extents of `base:allocation`: lengths, and whether the device holds data there.
pub fn block_status(cookie: u64, extents: &[(u32, bool)]) -> Vec<u8> {
    // Bit 0: a hole; bit 1: reads as zeroes.
    let entries = extents.iter().flat_map(|(length, holds)| [*length, if *holds { 0 } else { 3 }]);
    let entries: Vec<u8> = entries.flat_map(u32::to_be_bytes).collect();
    let length = 4 + entries.len() as u32;
    [&header(chunk::DONE, chunk::BLOCK_STATUS, cookie, length)[..], &ALLOCATION_CONTEXT_ID.to_be_bytes(), &entries]
        .concat()
}
