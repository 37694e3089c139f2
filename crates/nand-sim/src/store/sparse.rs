//! A page's bytes without their zeroes.
//!
//! File-system metadata is mostly zeroes, but rarely only at the end of a page, and rarely
//! repeated: of the byte pages that FAT leaves on a chip after small transactions (postmark-small
//! on k9l8g08u0m), trailing zeroes are 5 %, equal pages 0.01 %, and chunks of 32 zero bytes 81 %.

use std::sync::Arc;

/// Size of a chunk in bytes.
const CHUNK: usize = 32;

/// Chunks of the largest page that is examined: 16 KiB.
const CHUNKS_MAX: usize = 512;

/// Bytes without their all-zero chunks.
#[derive(Clone, Debug)]
pub struct Sparse {
    /// Number of bytes represented.
    length: u32,
    /// A bit map of the kept chunks, lowest bit first; then the kept chunks, of which the last may
    /// be short.
    image: Arc<[u8]>,
}

impl Sparse {
    /// The bytes without zero chunks; `None` if that saves at most a quarter. Cost: one pass over
    /// the bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let count = bytes.len().div_ceil(CHUNK);
        let length = u32::try_from(bytes.len()).ok()?;
        let mut map = [0_u8; CHUNKS_MAX / 8];
        let map = map.get_mut(..count.div_ceil(8))?;
        let (whole, rest) = bytes.as_chunks::<CHUNK>();
        let mut kept = 0;
        for (bits, chunks) in map.iter_mut().zip(whole.chunks(8)) {
            for (bit, chunk) in chunks.iter().enumerate() {
                *bits |= u8::from(chunk.iter().fold(0, |any, byte| any | byte) != 0) << bit;
            }
            kept += bits.count_ones() as usize;
        }
        if !rest.is_empty()
            && let Some(last) = map.last_mut()
        {
            *last |= 1 << (whole.len() % 8);
            kept += 1;
        }
        if kept * 4 > count * 3 {
            return None;
        }
        let mut image = Vec::with_capacity(map.len() + kept * CHUNK);
        image.extend_from_slice(map);
        for (bits, chunks) in map.iter().zip(whole.chunks(8)) {
            let is_kept = |(bit, _): &(usize, _)| bits >> bit & 1 == 1;
            chunks.iter().enumerate().filter(is_kept).for_each(|(_, chunk)| image.extend_from_slice(chunk));
        }
        image.extend_from_slice(rest);
        Some(Self { length, image: Arc::from(image) })
    }

    /// The bit map and the kept chunks, as [`read`] expects them.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// The number of bytes represented, and the image.
    pub fn into_image(self) -> (u32, Arc<[u8]>) {
        (self.length, self.image)
    }
}

/// Writes the bytes of an image that represents `length` bytes, from `column` on, to `into`; bytes
/// past the end are unprogrammed, 0xFF.
pub fn read(image: &[u8], length: usize, column: usize, into: &mut [u8]) {
    let there = length.saturating_sub(column).min(into.len());
    let (inside, behind) = into.split_at_mut(there);
    inside.fill(0);
    behind.fill(0xFF);
    let (map, mut kept) = image.split_at(length.div_ceil(CHUNK).div_ceil(8).min(image.len()));
    for (index, bits) in map.iter().enumerate() {
        for bit in (0..8).filter(|bit| bits >> bit & 1 == 1) {
            let (chunk, rest) = kept.split_at(CHUNK.min(kept.len()));
            kept = rest;
            let start = (index * 8 + bit) * CHUNK;
            // The part of the chunk after the column.
            let skipped = column.saturating_sub(start).min(chunk.len());
            let from = (start + skipped).saturating_sub(column);
            if let (Some(chunk), Some(target)) = (chunk.get(skipped..), inside.get_mut(from..)) {
                let length = chunk.len().min(target.len());
                target[..length].copy_from_slice(&chunk[..length]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_units::random::Random;

    #[test]
    fn any_part_reads_as_it_was() {
        let mut random = Random::new(1, "sparse");
        let mut made = 0;
        for round in 0..600 {
            let mut bytes = vec![0; [0, 1, 31, 32, 33, 255, 256, 512, 2000, 2048, 16_384][round % 11]];
            for _ in 0..random.below(1 + bytes.len() as u64 / 64) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = 1 + random.below(255) as u8;
            }
            let Some(sparse) = Sparse::new(&bytes) else { continue };
            made += 1;
            let (length, image) = sparse.into_image();
            let mut whole = vec![1; length as usize];
            read(&image, bytes.len(), 0, &mut whole);
            assert_eq!(whole, bytes);
            for _ in 0..20 {
                let column = random.below(bytes.len() as u64 + 40) as usize;
                let mut found = vec![0xA5; random.below(600) as usize];
                read(&image, bytes.len(), column, &mut found);
                let expected = |at: usize| bytes.get(column + at).copied().unwrap_or(0xFF);
                assert!(found.iter().enumerate().all(|(at, byte)| *byte == expected(at)), "{column}+{}", found.len());
            }
        }
        assert!(made > 200, "{made}");
    }

    #[test]
    fn only_what_saves_memory_is_taken_apart() {
        let kept = |bytes: &[u8]| Sparse::new(bytes).map(|sparse| sparse.image.len());
        assert_eq!(kept(&[0; 2048]), Some(8));
        assert_eq!(kept(&[1; 2048]), None);
        let mut quarter = [1; 2048];
        quarter[512..1024].fill(0);
        assert_eq!(kept(&quarter), Some(8 + 1536));
        quarter[512] = 1;
        assert_eq!(kept(&quarter), None);
        assert_eq!(kept(&[0; 16_384 + 32]), None);
    }
}
