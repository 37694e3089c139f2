//! LZ4 blocks and Zstandard frames made by other programs.

use nandkit_codec::compression::{Compression, Fault, decompress};
use proptest::prelude::*;

fn packed(method: Compression, bytes: &[u8]) -> Vec<u8> {
    match method {
        Compression::Lz4 => lz4_flex::block::compress(bytes),
        _ => zstd::bulk::compress(bytes, 3).unwrap(),
    }
}

proptest! {
    #[test]
    fn what_was_packed_comes_back(seed in any::<u8>(), length in 0..70_000_usize, zstd in any::<bool>()) {
        let method = if zstd { Compression::Zstd } else { Compression::Lz4 };
        let bytes: Vec<u8> = (0..length).map(|at| ((at * usize::from(seed)) >> (at % 7)) as u8).collect();
        let packed = packed(method, &bytes);
        let mut output = vec![0xA5; length];
        decompress(method, &packed, &mut output).unwrap();
        prop_assert_eq!(output, bytes);
        let longer = decompress(method, &packed, &mut vec![0; length + 1]);
        prop_assert_eq!(longer.unwrap_err().fault, Fault::OutputShort);
        if length > 0 {
            prop_assert!(decompress(method, &packed, &mut vec![0; length - 1]).is_err());
            prop_assert!(decompress(method, &packed[..packed.len() - 1], &mut vec![0; length]).is_err());
        }
    }

    #[test]
    fn noise_is_an_error_or_bytes(noise in prop::collection::vec(any::<u8>(), 0..300), length in 0..5000_usize) {
        for method in [Compression::Lz4, Compression::Zstd] {
            let _ = decompress(method, &noise, &mut vec![0; length]);
        }
    }
}

/// The block of lz4(1) and the frame of zstd(1) for the same text.
#[test]
fn known_streams() {
    let text = [b"flash ".as_slice(); 20].concat();
    let lz4 = [0x6F, b'f', b'l', b'a', b's', b'h', b' ', 6, 0, 90, 0x50, b'l', b'a', b's', b'h', b' '];
    let mut output = vec![0; text.len()];
    decompress(Compression::Lz4, &lz4, &mut output).unwrap();
    assert_eq!(output, text);
    // A frame with one raw block (RFC 8878, 3.1.1).
    let zstd = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 3, 0x19, 0, 0, b'a', b'b', b'c'];
    let mut output = [0; 3];
    decompress(Compression::Zstd, &zstd, &mut output).unwrap();
    assert_eq!(&output, b"abc");
}
