//! From how many blocks on what may happen.

/// From how many free blocks (those about to be erased included) on what may happen. Values as
/// `jffs2_calc_trigger_levels` in fs/jffs2/build.c has them, and one block more for each region of
/// a separation beyond the first, since each holds a block open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// What deletions need.
    pub deletion: u32,
    /// What all other writes need: 2 % of the device and 100 bytes a block more.
    pub write: u32,
    /// Under it the background collector works.
    pub background: u32,
    /// Above it the collector joins pieces of pages.
    pub merge: u32,
    /// Above it the collector takes blocks with failures first.
    pub bad: u32,
    /// From so many very dirty blocks on the background collector works.
    pub very_dirty: u32,
    /// With fewer bytes to win than these, collecting is in vain.
    pub no_space: u64,
}

impl Levels {
    /// For a device of `bytes` in so many blocks.
    pub const fn new(bytes: u64, erase_size: u32, blocks: u32, regions: u8) -> Self {
        let deletion = 1 + regions as u32;
        let overhead = bytes / 50 + blocks as u64 * 100;
        let write = deletion + overhead.div_ceil(erase_size as u64) as u32;
        Self {
            deletion,
            write,
            background: write + 1,
            merge: deletion + 1,
            bad: 0,
            very_dirty: write + 1,
            no_space: erase_size as u64 + bytes / 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.1 computes them for 32 MiB: 671,088 + 25,600 bytes are six blocks.
    #[test]
    fn levels_of_a_nandsim_partition() {
        let levels = Levels::new(32 << 20, 128 << 10, 256, 1);
        assert_eq!((levels.deletion, levels.write, levels.background, levels.merge), (2, 8, 9, 3));
        assert_eq!((levels.very_dirty, levels.no_space), (9, 131_072 + 335_544));
        assert_eq!(Levels::new(32 << 20, 128 << 10, 256, 3).write, 10);
    }
}
