//! Shortens a list of operations that shows a disagreement.

use super::execute::{Mismatch, execute};
use super::{Operation, Plan};
use crate::fs_suite::FsMaker;

/// Largest number of runs for one disagreement.
const RUNS_MAX: u32 = 400;

/// Leaves out parts, halves first, as long as a disagreement remains (Zeller and Hildebrandt 2002,
/// delta debugging, without its complements).
pub(super) fn shrink<M: FsMaker>(
    maker: &M,
    plan: &Plan,
    operations: &[Operation],
    mismatch: Mismatch,
) -> (Vec<Operation>, Mismatch) {
    let (mut shortest, mut last) = (operations.to_vec(), mismatch);
    let (mut part, mut runs) = (shortest.len().div_ceil(2), 0);
    while part > 0 && runs < RUNS_MAX {
        let (mut start, mut shrunk) = (0, false);
        while start < shortest.len() && runs < RUNS_MAX {
            let mut tried = shortest.clone();
            tried.drain(start..(start + part).min(shortest.len()));
            runs += 1;
            match execute(maker, plan, &tried) {
                Err(mismatch) => {
                    tried.truncate(mismatch.at + 1);
                    (shortest, last, shrunk) = (tried, mismatch, true);
                }
                Ok(_) => start += part,
            }
        }
        if !(shrunk && part == 1) {
            part = if part == 1 { 0 } else { part.div_ceil(2) };
        }
    }
    (shortest, last)
}
