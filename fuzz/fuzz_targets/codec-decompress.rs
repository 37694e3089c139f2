//! Hostile streams into bounded output: a result, within the bounds it names, and the same the
//! second time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandkit_codec::compression::{Compression, Decompressor, decompress};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[method, low, high], stream)) = bytes.split_first_chunk::<3>() else { return };
    let method = Compression::ALL[usize::from(method) % Compression::ALL.len()];
    let length = usize::from(u16::from_le_bytes([low, high]));
    let (mut first, mut second) = (vec![0; length], vec![0xFF; length]);
    let result = decompress(method, stream, &mut first);
    let mut decompressor = Decompressor::new();
    let _ = decompressor.decompress(method, bytes, &mut second);
    assert_eq!(result, decompressor.decompress(method, stream, &mut second));
    match result {
        Ok(()) => assert_eq!(first, second),
        Err(error) => assert!(error.input_offset <= stream.len() && error.output_offset <= length, "{error:?}"),
    }
});
