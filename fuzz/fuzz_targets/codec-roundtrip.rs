//! What was compressed comes back, whole and as a prefix, and nothing grows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandkit_codec::compression::{Compression, Compressor, Level, decompress};

fn check(method: Compression, packed: &[u8], page: &[u8]) {
    assert!(packed.len() < page.len() || method == Compression::None);
    let mut unpacked = vec![0xA5; page.len()];
    decompress(method, packed, &mut unpacked).unwrap();
    assert!(unpacked == page, "{method:?}");
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[method, level, low, high], page)) = bytes.split_first_chunk::<4>() else { return };
    let method = Compression::ALL[usize::from(method) % Compression::ALL.len()];
    let level = Level::new(level % 9 + 1);
    let mut compressor = Compressor::new();
    let mut packed = vec![0; page.len()];
    if let Some(length) = compressor.compress(method, level, page, &mut packed) {
        check(method, &packed[..length], page);
    }
    let mut room = vec![0; usize::from(u16::from_le_bytes([low, high])).min(page.len())];
    if let Some((consumed, produced)) = compressor.compress_prefix(method, level, page, &mut room) {
        check(method, &room[..produced], &page[..consumed]);
    }
});
