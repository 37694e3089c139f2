//! Which PEB holds the current content of a LEB, if several claim it.
//!
//! Rule (facts: Linux `drivers/mtd/ubi/attach.c`, `ubi_compare_lebs`): the larger sequence number
//! is newer. If the newer one is a copy that UBI made, a power cut may have interrupted it, so its
//! checksum decides.

use std::cmp::Ordering;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::Peb;
use crate::layout::{VidHeader, checksum};
use crate::medium::{Medium, Soundness};
use crate::scan::Geometry;

/// A PEB with its identifier header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub peb: Peb,
    pub vid: VidHeader,
}

/// The decision between two PEBs.
pub(crate) struct Choice {
    pub winner: Claim,
    pub loser: Claim,
    pub why: Why,
}

/// Why the winner won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is newer.
    Newer,
    /// The newer one is an interrupted copy.
    TornCopy,
    /// Nothing decides: it is the one with the lower PEB number.
    Equal,
}

/// Chooses between two PEBs that claim the same LEB. Cost: reads the data of the newer one if it is
/// a copy.
pub(crate) fn choose<F: Flash>(medium: &Medium<F>, geometry: &Geometry, a: Claim, b: Claim) -> Result<Choice> {
    let (newer, older) = match a.vid.sequence.cmp(&b.vid.sequence) {
        Ordering::Greater => (a, b),
        Ordering::Less => (b, a),
        Ordering::Equal => {
            let (winner, loser) = if a.peb < b.peb { (a, b) } else { (b, a) };
            return Ok(Choice { winner, loser, why: Why::Equal });
        }
    };
    if newer.vid.is_copy && !has_right_data(medium, geometry, &newer)? {
        return Ok(Choice { winner: older, loser: newer, why: Why::TornCopy });
    }
    Ok(Choice { winner: newer, loser: older, why: Why::Newer })
}

/// Whether the data of a PEB have the checksum of its header.
pub(crate) fn has_right_data<F: Flash>(medium: &Medium<F>, geometry: &Geometry, claim: &Claim) -> Result<bool> {
    if claim.vid.data_size > geometry.leb_size() {
        return Ok(false);
    }
    let mut data = vec![0; claim.vid.data_size as usize];
    // Data with the right checksum are right, whatever the device says of its own.
    let (Soundness::Sound | Soundness::Uncorrectable) =
        medium.read(claim.peb, geometry.data_offset, &mut data, Cause::Recovery)?;
    Ok(checksum(&data) == claim.vid.data_checksum)
}
