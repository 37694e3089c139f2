//! Levels, buckets and pages of a directory (f2fs.md, "Directories", "Levels"; dir.c).

/// The most levels (f2fs.h, MAX_DIR_HASH_DEPTH).
pub const LEVELS_MAX: u32 = 63;
/// From this level on, the number of buckets stays the same and their size doubles.
const HALF: u32 = LEVELS_MAX / 2;
const BUCKETS_MAX: u64 = 1 << (HALF - 1);

/// The number of buckets of a level.
pub fn buckets(level: u32, directory_level: u8) -> u64 {
    let exponent = level.saturating_add(u32::from(directory_level));
    if exponent < HALF { 1 << exponent } else { BUCKETS_MAX }
}

/// The number of blocks per bucket.
pub const fn bucket_blocks(level: u32) -> u64 {
    if level < HALF { 2 } else { 4 }
}

/// First page and number of pages of a hash's bucket in a level; `None` if the pages exceed 32
/// bits.
pub fn bucket_pages(level: u32, directory_level: u8, hash: u32) -> Option<std::ops::Range<u32>> {
    let before: u64 = (0..level).map(|level| buckets(level, directory_level) * bucket_blocks(level)).sum();
    let bucket = u64::from(hash) % buckets(level, directory_level);
    let start = before + bucket * bucket_blocks(level);
    let end = start + bucket_blocks(level);
    Some(u32::try_from(start).ok()?..u32::try_from(end).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_one_another() {
        assert_eq!(bucket_pages(0, 0, 77), Some(0..2));
        assert_eq!(bucket_pages(1, 0, 7), Some(4..6));
        assert_eq!(bucket_pages(2, 0, 7), Some(12..14));
        assert_eq!(bucket_pages(0, 2, 7), Some(6..8));
        assert_eq!(bucket_pages(1, 2, 0), Some(8..10));
        assert_eq!(buckets(40, 255), 1 << 30);
        assert_eq!(bucket_pages(62, 0, 0), None);
    }
}
