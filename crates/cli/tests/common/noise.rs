//! Contents without an inner order, the same in each run. What the system's random device gives is
//! another each time: a test that changes one byte of it finds the byte to be that already once in
//! 256 runs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// As much as the largest script takes.
const FILE_BYTES: usize = 4 << 20;

/// Bytes that differ with the seed. They compress a little; those of [`file`] do not.
pub fn noise(length: u32, seed: u32) -> Vec<u8> {
    (0..length).map(|at| ((at ^ seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A file of 4 MiB that no compressor makes smaller, for scripts, which know it as `$NOISE`:
/// `head -c 3000 $NOISE`, or from further in `dd if=$NOISE bs=3000 skip=3 count=1`.
pub fn file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("noise-{}", std::process::id()));
        let mut state = 1_u64;
        let bytes: Vec<u8> = (0..FILE_BYTES / 8).flat_map(|_| splitmix64(&mut state).to_le_bytes()).collect();
        // The name of the process is nobody else's, the one of the file is everybody's.
        std::fs::write(&path, bytes).expect("the noise is written");
        let shared = path.with_file_name("noise");
        std::fs::rename(&path, &shared).expect("the noise has its name");
        shared
    })
}

/// Steele, Lea, Flood 2014.
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
