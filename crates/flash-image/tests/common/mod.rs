//! Makes dumps: random data, data that look like JFFS2, and either with OOB between the pages.
#![allow(dead_code, reason = "each test file uses its part")]

use nandkit_units::random::Random;

/// Random data with JFFS2-like nodes: whole blocks of nodes that do not cross block boundaries,
/// with the last quarter of the blocks erased.
pub fn jffs2_like(block_size: usize, blocks: usize, big: bool, random: &mut Random) -> Vec<u8> {
    let mut image = vec![0xFF; block_size * blocks];
    for block in image.chunks_mut(block_size).take(blocks - blocks / 4) {
        let mut at = 0;
        while block.len() - at > 200 {
            let length = (random.between(68, 3000) as usize / 4 * 4).min(block.len() - at);
            random.fill(&mut block[at..at + length]);
            block[at..at + 12].copy_from_slice(&node_header(0xE002, length as u32, big));
            at += length;
        }
    }
    image
}

/// The header of a node: magic, type, length, and their CRC.
fn node_header(kind: u16, length: u32, big: bool) -> [u8; 12] {
    let mut header = [0; 12];
    let put = |into: &mut [u8], value: u32| {
        let bytes = value.to_be_bytes();
        let length = into.len();
        into.copy_from_slice(&bytes[4 - length..]);
        if !big {
            into.reverse();
        }
    };
    put(&mut header[..2], 0x1985);
    put(&mut header[2..4], u32::from(kind));
    put(&mut header[4..8], length);
    let crc = plain_crc(0, &header[..8]);
    put(&mut header[8..], crc);
    header
}

/// CRC-32 bit by bit, started at `seed` and not inverted: what JFFS2 (0) and UBI (all ones) use.
pub fn plain_crc(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// CRC-32 as zip uses it.
pub fn zip_crc(bytes: &[u8]) -> u32 {
    !plain_crc(u32::MAX, bytes)
}

/// Inserts OOB after each page: two bytes 0xFF, then, for pages that are not erased, something like
/// an error-correcting code.
pub fn with_oob(data: &[u8], page_size: usize, oob_size: usize, random: &mut Random) -> Vec<u8> {
    let mut image = Vec::new();
    for page in data.chunks(page_size) {
        let mut oob = vec![0xFF; oob_size];
        if page.iter().any(|&byte| byte != 0xFF) {
            let code = oob_size / 2;
            random.fill(&mut oob[code..]);
        }
        image.extend_from_slice(page);
        image.extend_from_slice(&oob);
    }
    image
}
