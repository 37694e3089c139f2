//! The headers of all PEBs, as they stand on flash.

use std::collections::BTreeMap;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::Peb;
use crate::layout::{Decoded, EcHeader, HEADER_SIZE, VidHeader};
use crate::medium::Medium;
use crate::probe::PEB_SIZE_MAX;

/// Where headers and data lie in each PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes per PEB.
    pub peb_size: u32,
    /// Offset of the volume identifier header.
    pub vid_offset: u32,
    /// Offset of the data.
    pub data_offset: u32,
}

impl Geometry {
    /// Bytes per LEB, before the alignment of a volume.
    pub const fn leb_size(&self) -> u32 {
        self.peb_size - self.data_offset
    }
}

/// The headers of a PEB that holds more than an erased one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PebHeaders {
    pub peb: Peb,
    pub ec: Decoded<EcHeader>,
    pub vid: Decoded<VidHeader>,
    pub is_marked_bad: bool,
}

/// The headers of all PEBs, and what most of them agree on.
pub(crate) struct Scan {
    pub geometry: Geometry,
    /// The image sequence number of most PEBs that have one; 0 if none has.
    pub image_sequence: u32,
    /// The PEBs with anything at the place of a header.
    pub headers: Vec<PebHeaders>,
    /// The number of PEBs that are marked bad.
    pub bad: u32,
    /// The number of PEBs whose two headers are erased flash.
    pub erased: u32,
}

/// Reads the headers of all PEBs. Errors: no PEB has a valid erase counter header that fits; those
/// of the device. Cost: two short reads per PEB; memory for each PEB that is not erased.
pub(crate) fn scan<F: Flash>(medium: &Medium<F>) -> Result<Scan> {
    let peb_size = medium.peb_size();
    let (mut offsets, mut sequences) = (BTreeMap::new(), BTreeMap::new());
    let good = || (0..medium.pebs()).map(Peb).filter(|peb| !medium.is_bad(*peb));
    let (mut count, mut misplaced) = (0, None);
    for peb in good() {
        count += 1;
        let Decoded::Header(ec) = read_header(medium, peb, 0, EcHeader::decode)? else { continue };
        if !ec.fits(peb_size) {
            misplaced.get_or_insert(ec);
            continue;
        }
        *offsets.entry((ec.vid_offset, ec.data_offset)).or_default() += 1;
        if ec.image_sequence != 0 {
            *sequences.entry(ec.image_sequence).or_default() += 1;
        }
    }
    let Some((vid_offset, data_offset)) = most_common(offsets) else {
        return Err(no_header(count, misplaced, peb_size));
    };
    let mut headers = Vec::new();
    for peb in good() {
        let ec = read_header(medium, peb, 0, EcHeader::decode)?;
        let vid = read_header(medium, peb, vid_offset, VidHeader::decode)?;
        if (ec, vid) != (Decoded::Erased, Decoded::Erased) {
            headers.push(PebHeaders { peb, ec, vid, is_marked_bad: false });
        }
    }
    let in_use = headers.len() as u32;
    // A mark may be wrong, or a page of ECC: headers with right checksums outweigh it.
    for peb in (0..medium.pebs()).map(Peb).filter(|peb| medium.is_bad(*peb)) {
        let ec = read_header(medium, peb, 0, EcHeader::decode)?;
        let vid = read_header(medium, peb, vid_offset, VidHeader::decode)?;
        if matches!((&ec, &vid), (Decoded::Header(_), Decoded::Header(_))) {
            headers.push(PebHeaders { peb, ec, vid, is_marked_bad: true });
        }
    }
    Ok(Scan {
        geometry: Geometry { peb_size, vid_offset, data_offset },
        image_sequence: most_common(sequences).unwrap_or(0),
        bad: medium.pebs() - count - (headers.len() as u32 - in_use),
        erased: count - in_use,
        headers,
    })
}

/// Reads and decodes a header. One with the right checksum is right, whatever the device says of
/// its bit errors.
fn read_header<F: Flash, T>(
    medium: &Medium<F>,
    peb: Peb,
    offset: u32,
    decode: impl Fn(&[u8; HEADER_SIZE]) -> Decoded<T>,
) -> Result<Decoded<T>> {
    let mut bytes = [0; HEADER_SIZE];
    let soundness = medium.read(peb, offset, &mut bytes, Cause::Recovery)?;
    Ok(match decode(&bytes) {
        Decoded::Erased if !soundness.is_sound() => Decoded::Damaged,
        found => found,
    })
}

/// The value that occurs most; of equally frequent ones the smallest.
fn most_common<T: Ord>(counts: BTreeMap<T, u64>) -> Option<T> {
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(value, _)| value)
}

/// The error if no header fits, which says what is there instead.
#[cold]
fn no_header(blocks: u32, misplaced: Option<EcHeader>, peb_size: u32) -> FsError {
    let detail = match misplaced {
        Some(EcHeader { vid_offset, data_offset, .. }) => {
            let detail = format!("the headers put volume identifiers at {vid_offset} and data at {data_offset}");
            match misplaced.is_some_and(|ec| ec.fits(PEB_SIZE_MAX)) {
                true => format!(
                    "{detail}; expected both, in this order, in blocks of {peb_size} bytes: is the erase size right?"
                ),
                false => format!("{detail}, which fits blocks of no size: they are not those of a UBI device"),
            }
        }
        None => format!(
            "none of {blocks} blocks of {peb_size} bytes begins with an erase counter header (`UBI#` with a valid checksum)"
        ),
    };
    FsError::new(ErrorKind::Corrupt, detail)
}
