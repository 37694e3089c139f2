//! Thresholds of free blocks.

/// Numbers of free blocks (including those about to be erased) from which operations are allowed.
/// The values are those of `jffs2_calc_trigger_levels` in fs/jffs2/build.c, plus one block for each
/// region of a separation beyond the first, because each keeps a block open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Needed for deletions.
    pub deletion: u32,
    /// Needed for all other writes: 2 % of the device plus 100 bytes per block more.
    pub write: u32,
    /// The background collector works below this number.
    pub background: u32,
    /// The collector joins pieces of pages above this number.
    pub merge: u32,
    /// The collector takes blocks with failures first above this number.
    pub bad: u32,
    /// The background collector works from this many very dirty blocks on.
    pub very_dirty: u32,
    /// Collecting is in vain if fewer bytes than this can be gained.
    pub no_space: u64,
}

impl Levels {
    /// The levels of a device of `bytes` with this many blocks.
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

    /// As computed by Linux 6.1 for 32 MiB: 671,088 + 25,600 bytes are six blocks.
    #[test]
    fn levels_of_a_nandsim_partition() {
        let levels = Levels::new(32 << 20, 128 << 10, 256, 1);
        assert_eq!((levels.deletion, levels.write, levels.background, levels.merge), (2, 8, 9, 3));
        assert_eq!((levels.very_dirty, levels.no_space), (9, 131_072 + 335_544));
        assert_eq!(Levels::new(32 << 20, 128 << 10, 256, 3).write, 10);
    }
}
