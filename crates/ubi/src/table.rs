//! The volume table: two LEBs of the layout volume with the same records.
//!
//! Linux writes LEB 0 first, so where both are valid and differ, LEB 0 is newer (facts:
//! `drivers/mtd/ubi/vtbl.c`).

use std::collections::BTreeMap;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::Result;
use nandkit_vfs::check::Finding;

use crate::DamageKind;
use crate::build::records_of;
use crate::copies::Claim;
use crate::layout::{Decoded, LAYOUT_LEBS, RECORD_SIZE, VolumeRecord};
use crate::medium::{Medium, Soundness};
use crate::scan::Geometry;

/// The volume table of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeTable {
    /// The records in use, by volume.
    pub records: BTreeMap<u32, VolumeRecord>,
    /// Whether every record is known: volumes without one were removed.
    pub is_whole: bool,
}

/// Reads the volume table: the first copy that is whole, otherwise what is valid in either.
/// `copies` holds the PEB of each LEB of the layout volume, if known.
pub(crate) fn read<F: Flash>(
    medium: &Medium<F>,
    geometry: &Geometry,
    copies: &[Option<Claim>],
    tell: &mut dyn FnMut(Finding),
) -> Result<VolumeTable> {
    let (mut tables, mut told) = (Vec::new(), Vec::new());
    for leb in 0..LAYOUT_LEBS {
        let Some(claim) = copies.get(leb as usize).copied().flatten() else {
            told.push(format!("copy {leb} of the volume table is missing"));
            continue;
        };
        let (table, damaged) = read_copy(medium, geometry, claim)?;
        if damaged > 0 {
            told.push(format!("{damaged} records of copy {leb} of the volume table are damaged"));
        }
        tables.push(table);
    }
    if let [first, second] = tables.as_slice()
        && first.is_whole
        && second.is_whole
        && first.records != second.records
    {
        told.push("the copies of the volume table differ, as after a power cut: the first one counts".to_owned());
    }
    let whole = tables.iter().position(|table| table.is_whole);
    for detail in told {
        // Linux mends one copy by the other.
        let finding = Finding::new(DamageKind::VolumeTable, detail);
        tell(if whole.is_some() { finding.harmless() } else { finding });
    }
    if let Some(whole) = whole {
        return Ok(tables.swap_remove(whole));
    }
    let records = tables.into_iter().rev().flat_map(|table| table.records).collect();
    Ok(VolumeTable { records, is_whole: false })
}

/// Reads one copy; also returns how many of its records are damaged.
fn read_copy<F: Flash>(medium: &Medium<F>, geometry: &Geometry, claim: Claim) -> Result<(VolumeTable, u32)> {
    let mut bytes = vec![0; records_of(geometry) * RECORD_SIZE];
    // Each record has its checksum, which decides.
    let (Soundness::Sound | Soundness::Uncorrectable) =
        medium.read(claim.peb, geometry.data_offset, &mut bytes, Cause::Recovery)?;
    let (mut records, mut damaged) = (BTreeMap::new(), 0);
    for (volume, bytes) in (0..).zip(bytes.as_chunks().0) {
        match VolumeRecord::decode(bytes) {
            Decoded::Header(record) if is_possible(&record, geometry) => drop(records.insert(volume, record)),
            Decoded::Erased => {}
            Decoded::Header(_) | Decoded::Damaged => damaged += 1,
        }
    }
    Ok((VolumeTable { records, is_whole: damaged == 0 }, damaged))
}

/// Whether the alignment and the unused end of a record fit the LEBs.
fn is_possible(record: &VolumeRecord, geometry: &Geometry) -> bool {
    let leb_size = geometry.leb_size();
    (1..=leb_size).contains(&record.alignment) && record.data_pad == leb_size % record.alignment
}
