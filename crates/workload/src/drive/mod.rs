//! Drivers: they apply a stream of operations, measure, count, and read everything back.

mod ahead;
mod block;
mod expected;
mod file;
mod file_check;
mod flusher;
mod ledger;
mod queue;

pub use block::{BlockDriver, PIECE_BYTES_MAX};
pub use file::FileDriver;

use nandkit_units::Described;

/// The first byte in which two contents of the same length differ.
fn first_difference(found: &[u8], expected: &[u8]) -> Option<usize> {
    if found == expected {
        return None;
    }
    found.iter().zip(expected).position(|(a, b)| a != b).or(Some(found.len().min(expected.len())))
}

/// Says, for a description and bytes that differ from it, whether they are an older version of the
/// same.
fn explain(expected: Described, found: &[u8]) -> String {
    let description = expected.description;
    let what = format!("expected record {} version {}", description.record, description.version);
    if nandkit_units::is_zeroed(found) {
        return format!("{what}, found zeroes");
    }
    if nandkit_units::is_erased(found) {
        return format!("{what}, found erased flash (all 0xFF)");
    }
    let mut older = vec![0; found.len()];
    for version in (description.version.saturating_sub(16)..description.version).rev() {
        nandkit_units::Description { version, ..description }.generate(&mut older);
        if older == found {
            return format!("{what}, found its older version {version}");
        }
    }
    format!("{what}, found other bytes")
}
