//! Round trips of every method, and streams that must be refused.

use nandkit_codec::checksum::crc32;
use nandkit_codec::compression::{Compression, Compressor, Decompressor, Fault, Level, decompress};
use proptest::prelude::*;

/// Typical pages: noise, few symbols, repeats at varying distances, zeroes with some noise.
fn pages() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..5000);
    let few = prop::collection::vec(prop::sample::select(b"ab c".to_vec()), 0..9000);
    let words = prop::collection::vec((0..12_usize, 1..60_usize), 0..300).prop_map(|words| {
        let text: Vec<u8> = (0..800_u32).flat_map(|n| crc32(&n.to_le_bytes()).to_le_bytes()).collect();
        words.iter().flat_map(|&(word, length)| text[word * 250..][..length].to_vec()).collect()
    });
    let sparse = (1..70_000_usize, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..50));
    let sparse = sparse.prop_map(|(length, spots)| {
        let mut page = vec![0; length];
        spots.iter().for_each(|(at, byte)| page[at.index(length)] = *byte);
        page
    });
    prop_oneof![noise, few, words, sparse]
}

fn methods() -> impl Strategy<Value = Compression> {
    prop::sample::select(Compression::ALL)
}

/// Decompresses. Also asserts that an output one byte too short or too long is refused, unless the
/// method cannot tell.
fn unpack(method: Compression, packed: &[u8], length: usize) -> Vec<u8> {
    let mut output = vec![0xA5; length];
    let mut decompressor = Decompressor::new();
    decompressor.decompress(method, packed, &mut output).unwrap();
    let mut longer = vec![0; length + 1];
    let longer = decompressor.decompress(method, packed, &mut longer);
    assert_eq!(longer.is_ok(), method == Compression::Zero, "{longer:?}");
    if matches!(method, Compression::Zlib | Compression::None) && length > 0 {
        let error = decompressor.decompress(method, packed, &mut vec![0; length - 1]).unwrap_err();
        assert_eq!((error.fault, error.output_offset), (Fault::OutputFull, length - 1), "{error}");
    }
    output
}

proptest! {
    #[test]
    fn what_was_compressed_comes_back(page in pages(), method in methods(), level in 1..=9_u8, room in any::<prop::sample::Index>()) {
        let (mut compressor, level) = (Compressor::new(), Level::new(level));
        let mut packed = vec![0x5A; page.len()];
        if let Some(length) = compressor.compress(method, level, &page, &mut packed) {
            prop_assert!(method.can_compress());
            prop_assert!(length < page.len() || method == Compression::None);
            prop_assert_eq!(unpack(method, &packed[..length], page.len()), page.clone());
            // An output of exactly the right size suffices, and the working memory leaves no trace.
            prop_assert_eq!(compressor.compress(method, level, &page, &mut packed.clone()[..length]), Some(length));
        }
        let room = room.index(page.len() + 1);
        let mut packed = vec![0x5A; room];
        if let Some((consumed, produced)) = compressor.compress_prefix(method, level, &page, &mut packed) {
            prop_assert!(consumed > 0 && consumed <= page.len() && produced <= room);
            prop_assert!(produced < consumed || method == Compression::None);
            prop_assert_eq!(unpack(method, &packed[..produced], consumed), page[..consumed].to_vec());
        }
    }

    /// Any result is allowed, but there must be one, the same whatever the decompressor did before.
    #[test]
    fn hostile_streams_end(input in prop::collection::vec(any::<u8>(), 0..300), length in 0..3000_usize, method in methods()) {
        let (mut fresh, mut used) = (vec![0; length], vec![0xFF; length]);
        let mut decompressor = Decompressor::new();
        let _ = decompressor.decompress(method, &input[input.len() / 2..], &mut used);
        let result = decompress(method, &input, &mut fresh);
        prop_assert_eq!(&result, &decompressor.decompress(method, &input, &mut used));
        match result {
            Ok(()) => prop_assert_eq!(fresh, used),
            Err(error) => prop_assert!(error.input_offset <= input.len() && error.output_offset <= length),
        }
    }
}

fn text() -> Vec<u8> {
    (0..1000_u32)
        .flat_map(|line| {
            format!("block {line}: erased {} times, {}\n", line * line % 97, crc32(&line.to_le_bytes()) % 10)
                .into_bytes()
        })
        .collect()
}

/// JFFS2 needs this at the end of an erase block: a prefix that uses the space well. The measure is
/// the whole text at the prefix's ratio.
#[test]
fn a_prefix_uses_the_room() {
    let (page, mut compressor) = (text()[..4096].to_vec(), Compressor::new());
    for method in [Compression::Zlib, Compression::Rtime] {
        let whole = compressor.compress(method, Level::BEST, &page, &mut [0; 4096]).unwrap();
        for room in [100, whole / 4, whole / 2, whole - 50] {
            let mut output = vec![0; room];
            let (consumed, produced) = compressor.compress_prefix(method, Level::BEST, &page, &mut output).unwrap();
            assert!(consumed < page.len() && room - produced <= 8, "{method:?}: {consumed} to {produced} in {room}");
            assert_eq!(unpack(method, &output[..produced], consumed), page[..consumed]);
        }
    }
}

#[test]
fn one_changed_byte_in_a_zlib_stream_is_seen() {
    let page = &text()[..4096];
    let mut packed = vec![0; 4096];
    let length = Compressor::new().compress(Compression::Zlib, Level::LINUX, page, &mut packed).unwrap();
    let packed = &packed[..length];
    let mut decompressor = Decompressor::new();
    for at in 0..length {
        let mut bad = packed.to_vec();
        bad[at] ^= 0x10;
        let mut output = [0; 4096];
        match decompressor.decompress(Compression::Zlib, &bad, &mut output) {
            Ok(()) => assert!(
                at == length - 5 && output == *page,
                "only bits that fill up the last byte of deflate may change"
            ),
            Err(error) => assert!(error.input_offset <= length && error.output_offset <= 4096, "{error:?}"),
        }
        let error = decompressor.decompress(Compression::Zlib, &packed[..at], &mut [0; 4096]).unwrap_err();
        assert_eq!((error.fault, error.input_offset), (Fault::InputEnds, at), "{error}");
    }
}

/// One stream by hand for each instruction of LZO1X, from the table in
/// `docs/formats/compression.md`.
#[test]
fn lzo_instructions() {
    let abcd = [21, b'a', b'b', b'c', b'd'];
    let end = [0x11, 0, 0];
    let cases: [(&str, &[u8], &[u8]); 9] = [
        ("first literal, copy of 3 from 1 back", &[18, b'x', 0x40, 0], b"xxxx"),
        (
            "near copy of 8, then 2 literals",
            &[21, b'a', b'b', b'c', b'd', 0xE0 | 3 << 2 | 2, 0, b'y', b'z'],
            b"abcdabcdabcdyz",
        ),
        ("pair after 1 literal", &[21, b'a', b'b', b'c', b'd', 0x41, 0, b'y', 1 << 2, 0], b"abcddddydy"),
        ("long literals without a copy before", &[1, b'a', b'b', b'c', b'd'], b"abcd"),
        ("middle copy, extended", &[18, b'x', 0x20, 0, 1, 0, 0], &[b'x'; 290]),
        ("version 1, run of 4", &[17, 1, 18, b'x', 0x18, 0xFC, 0xFF, 0], b"x\0\0\0\0"),
        (
            "version 1, run of 31 and a literal",
            &[17, 1, 18, b'x', 0x1B, 0xFD, 0xFF, 3, b'y'],
            &[b"x".as_slice(), &[0; 31], b"y"].concat(),
        ),
        ("version 1, no run", &[17, 1, 21, b'a', b'b', b'c', b'd', 0x40 | 3 << 2, 0], b"abcdabc"),
        ("literals alone", &abcd, b"abcd"),
    ];
    for (what, stream, plain) in cases {
        let mut output = vec![0xA5; plain.len()];
        decompress(Compression::Lzo, &[stream, &end].concat(), &mut output)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(output, plain, "{what}");
    }
    let fault = |stream: &[u8], length| decompress(Compression::Lzo, stream, &mut vec![0; length]).unwrap_err();
    let refused = [
        (fault(&[18, b'x', 0x44, 0, 0x11, 0, 0], 4), Fault::Distance { distance: 2 }, 2, 1),
        (fault(&[18, b'x', 0x40, 0, 0x11, 0, 0], 3), Fault::OutputFull, 2, 1),
        (fault(&[18, b'x', 0x40, 0, 0x11, 0, 0], 5), Fault::OutputShort, 4, 4),
        (fault(&[18, b'x', 0x40, 0, 0x11, 0, 0, 9], 4), Fault::Trailing, 7, 4),
        (fault(&[18, b'x', 0x40, 0, 0x12, 0, 0], 4), Fault::Corrupt, 4, 4),
        (fault(&[18, b'x', 0x40, 0, 0x11, 0], 4), Fault::InputEnds, 4, 4),
        (fault(&[18, b'x', 0x18, 0xFC, 0xFF, 0, 0x11, 0, 0], 5), Fault::Distance { distance: 0x803F }, 2, 1),
        (fault(&[], 0), Fault::InputEnds, 0, 0),
    ];
    for (error, fault, input, output) in refused {
        assert_eq!((error.fault, error.input_offset, error.output_offset), (fault, input, output), "{error}");
    }
}
