//! Marsaglia's xorshift64 with shifts 13, 7, 17, and jumps over many steps.
//!
//! A step is linear over the field of two elements: the state as a vector of 64 bits times a
//! matrix. The matrix of 2^k steps is the square of that of 2^(k-1) steps, so any number of steps
//! takes at most as many products as it has bits.

use std::sync::LazyLock;

/// A matrix by columns: the image of each bit of the state.
type Matrix = [u64; 64];

/// Number of precomputed powers of two of steps: enough for 32-bit numbers of bytes.
const POWERS: usize = 29;
/// Fewer steps than this are faster one by one.
const SINGLE_STEPS: u32 = 256;

static POWERS_OF_TWO: LazyLock<Vec<Matrix>> = LazyLock::new(|| {
    let single: Matrix = std::array::from_fn(|bit| step(1 << bit));
    std::iter::successors(Some(single), |last| Some(last.map(|column| product(last, column)))).take(POWERS).collect()
});

/// The next state.
#[inline]
pub const fn step(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

/// The state after `steps` steps. Cost: about 1 ns per step up to a few hundred, then a few
/// microseconds for any number.
pub fn steps(mut state: u64, steps: u32) -> u64 {
    if steps < SINGLE_STEPS {
        return (0..steps).fold(state, |state, _| step(state));
    }
    let (low, high) = (steps & ((1 << (POWERS - 1)) - 1), steps >> (POWERS - 1));
    for (bit, matrix) in POWERS_OF_TWO.iter().enumerate() {
        let times = if bit == POWERS - 1 { high } else { low >> bit & 1 };
        for _ in 0..times {
            state = product(matrix, state);
        }
    }
    state
}

fn product(matrix: &Matrix, state: u64) -> u64 {
    matrix.iter().enumerate().fold(0, |sum, (bit, column)| sum ^ column & (state >> bit & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_are_as_many_single_ones() {
        let mut state = 0x9E37_79B9_7F4A_7C15;
        let first = state;
        let mut gone = 0;
        for end in [0, 1, 255, 256, 257, 1000, 65_537, 1 << 20] {
            while gone < end {
                (state, gone) = (step(state), gone + 1);
            }
            assert_eq!(steps(first, end), state, "{end}");
        }
        for (a, b) in [(1 << 28, 3), ((1 << 28) - 1, 1 << 28), (u32::MAX - 300, 300)] {
            assert_eq!(steps(steps(first, a), b), steps(first, a + b), "{a} + {b}");
        }
    }
}
