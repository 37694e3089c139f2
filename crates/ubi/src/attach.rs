//! Attaching by scan: from the headers of all PEBs to volumes.

use std::collections::BTreeMap;

use nandkit_flash::Flash;
use nandkit_units::{Cause, Clock};
use nandkit_vfs::check::{Finding, Findings, Severity};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::claims::Claims;
use crate::copies::{Claim, has_right_data};
use crate::counts::PebCounts;
use crate::layout::{LAYOUT_LEBS, LAYOUT_VOLUME, VolumeRecord, VolumeType, flag};
use crate::medium::{Medium, Soundness};
use crate::scan::{self, Geometry};
use crate::table::{self, VolumeTable};
use crate::verified::Verified;
use crate::volume::{Volume, name_files};
use crate::{DamageKind, Leb, Peb};

/// An attached UBI device, for reading; a [`UbiWriter`](crate::write::UbiWriter) changes it.
#[derive(Debug)]
pub struct Ubi<F> {
    pub(crate) medium: Medium<F>,
    pub(crate) geometry: Geometry,
    pub(crate) image_sequence: u32,
    pub(crate) counts: PebCounts,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) damage: Vec<Finding>,
    /// The PEBs of the volume table's copies.
    pub(crate) table_copies: Vec<Option<Claim>>,
    /// PEBs that a writer leaves alone.
    pub(crate) aside: Vec<Peb>,
    marked: Vec<Peb>,
    /// Why the device cannot be written, if so.
    pub(crate) obstacle: Option<String>,
    /// The first byte that a cut dump lacks in the middle of a PEB in use.
    end: Option<u64>,
    verified: Verified,
}

impl<F: Flash> Ubi<F> {
    /// Attaches a device by reading the headers of all PEBs. Nothing is written.
    ///
    /// Errors: `Corrupt` if no PEB has a header that fits, or if two devices are there; `Device`.
    /// Damage is no error: see [`Ubi::damage`]. Cost: two short reads per PEB, and the data of
    /// copies.
    pub fn attach(flash: F, clock: Clock) -> Result<Self> {
        let medium = Medium { flash, clock };
        let scan = scan::scan(&medium)?;
        let mut claims = Claims::of(&medium, &scan)?;
        let layout = claims.lebs.remove(&LAYOUT_VOLUME).unwrap_or_default();
        claims.counts.used += layout.len() as u32;
        let copies: Vec<Option<Claim>> = (0..LAYOUT_LEBS).map(|leb| layout.get(&Leb(leb)).copied()).collect();
        let is_empty = claims.lebs.is_empty() && layout.is_empty();
        let table = match is_empty {
            // Formatted, and not attached since: Linux makes the table then.
            true => VolumeTable { is_whole: true, ..VolumeTable::default() },
            false => table::read(&medium, &scan.geometry, &copies, &mut |finding| claims.findings.add(finding))?,
        };
        if !table.is_whole {
            claims.obstacle = Some("no copy of the volume table is whole".to_owned());
        }
        let volumes = volumes(&mut claims, &scan.geometry, table);
        let Claims { counts, findings, aside, marked, obstacle, .. } = claims;
        Ok(Self {
            geometry: scan.geometry,
            image_sequence: scan.image_sequence,
            counts,
            volumes,
            damage: findings.into_list(),
            table_copies: copies,
            aside,
            marked,
            obstacle,
            end: None,
            verified: Verified::none_of(medium.pebs()),
            medium,
        })
    }

    /// Where headers and data lie in each PEB.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The number that all PEBs of the image have in common; 0 if they have none.
    pub const fn image_sequence(&self) -> u32 {
        self.image_sequence
    }

    /// What the PEBs hold.
    pub const fn counts(&self) -> &PebCounts {
        &self.counts
    }

    /// The volumes, by number.
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    /// What attaching found.
    pub fn damage(&self) -> &[Finding] {
        &self.damage
    }

    pub(crate) fn volume_mut(&mut self, number: u32) -> Option<&mut Volume> {
        self.volumes.iter_mut().find(|volume| volume.number == number)
    }

    /// Orders the volumes and names their files anew.
    pub(crate) fn rename_files(&mut self) {
        self.volumes.sort_by_key(|volume| volume.number);
        name_files(&mut self.volumes, &mut Findings::default());
    }

    /// Notes that the content of a PEB changes.
    pub(crate) fn forget_verified(&self, peb: Peb) {
        self.verified.remove(peb);
    }

    /// The PEBs that are marked bad and count all the same, since their headers are intact. Linux
    /// does not look at them.
    pub fn marked(&self) -> &[Peb] {
        &self.marked
    }

    /// Adds damage that the caller knows of, such as the end of a dump in the middle of a block.
    pub fn add_damage(&mut self, finding: Finding) {
        self.damage.push(finding);
    }

    /// Tells that the dump ends at this byte, in the middle of a PEB in use: what follows in that
    /// PEB cannot be read.
    pub fn ends_at(&mut self, byte: u64) {
        self.end = Some(byte);
    }

    /// Returns the device.
    pub fn into_flash(self) -> F {
        self.medium.flash
    }

    /// Reads bytes of a LEB from `offset` on; an unmapped LEB, and what lies past its end, reads as
    /// erased. The first read of a static volume's LEB verifies its checksum, unless the volume
    /// says not to.
    ///
    /// Errors: `Corrupt` (unreadable, cut off, a wrong checksum, or a LEB that a static volume
    /// promises is missing), with the damaged bytes in `into`; `Device`.
    pub fn read_leb(&self, volume: &Volume, leb: Leb, offset: u32, into: &mut [u8]) -> Result<()> {
        into.fill(0xFF);
        let wrong = |what: &str| {
            let detail = format!("LEB {} of volume '{}' {what}", leb.0, volume.file_name);
            Err(FsError::new(ErrorKind::Corrupt, detail))
        };
        let Some(claim) = volume.lebs.get(&leb) else {
            return if leb.0 < volume.used_lebs { wrong("is missing") } else { Ok(()) };
        };
        let inside = into.len().min(volume.leb_size.saturating_sub(offset) as usize);
        let at = self.geometry.data_offset.saturating_add(offset);
        let piece = into.get_mut(..inside).unwrap_or_default();
        let soundness = self.medium.read(claim.peb, at, piece, Cause::UserData)?;
        if volume.record.volume_type == VolumeType::Static && volume.record.flags & flag::SKIP_CHECK == 0 {
            if !self.verified.has(claim.peb) {
                if !has_right_data(&self.medium, &self.geometry, claim)? {
                    return wrong(&format!("does not have the checksum of its header (PEB {})", claim.peb.0));
                }
                self.verified.add(claim.peb);
            }
            return Ok(());
        }
        let end = u64::from(claim.peb.0) * u64::from(self.geometry.peb_size) + u64::from(at) + inside as u64;
        if self.end.is_some_and(|missing| end > missing) {
            return wrong(&format!("is cut off: the dump ends in it (PEB {})", claim.peb.0));
        }
        match soundness {
            Soundness::Sound => Ok(()),
            Soundness::Uncorrectable => {
                wrong(&format!("has more bit errors than the flash corrects (PEB {})", claim.peb.0))
            }
        }
    }
}

/// The volumes of the table and those that only headers show, by number.
fn volumes<F: Flash>(claims: &mut Claims<'_, F>, geometry: &Geometry, table: VolumeTable) -> Vec<Volume> {
    let mut lebs = std::mem::take(&mut claims.lebs);
    let mut volumes = Vec::new();
    for (number, record) in table.records {
        let lebs = lebs.remove(&number).unwrap_or_default();
        volumes.push(volume(claims, geometry, number, record, lebs));
    }
    for (number, lebs) in lebs {
        let Some(record) = lebs.last_key_value().map(|(last, claim)| record_of(*last, claim)) else { continue };
        let detail = format!("{} PEBs of volume {number}, which the volume table does not name", lebs.len());
        let finding = Finding::new(DamageKind::UnknownVolume, detail);
        if table.is_whole {
            // The volume was removed, and its blocks wait for their erase.
            claims.counts.stale += lebs.len() as u32;
            claims.findings.add(finding);
        } else {
            claims.findings.add(Finding { severity: Severity::Fault, ..finding });
            volumes.push(Volume { is_in_table: false, ..volume(claims, geometry, number, record, lebs) });
        }
    }
    volumes.sort_by_key(|volume| volume.number);
    name_files(&mut volumes, &mut claims.findings);
    volumes
}

/// A volume of these LEBs, without those that contradict its record.
fn volume<F: Flash>(
    claims: &mut Claims<'_, F>,
    geometry: &Geometry,
    number: u32,
    record: VolumeRecord,
    mut lebs: BTreeMap<Leb, Claim>,
) -> Volume {
    // Of headers that disagree on the content's length, the newest is right.
    let newest = lebs.values().max_by_key(|claim| (claim.vid.sequence, std::cmp::Reverse(claim.peb)));
    let used_lebs = match record.volume_type {
        VolumeType::Static => newest.map_or(0, |claim| claim.vid.used_lebs),
        VolumeType::Dynamic => 0,
    };
    let wrong = |leb: &Leb, claim: &Claim| {
        let vid = &claim.vid;
        if leb.0 >= record.reserved_pebs {
            Some((
                DamageKind::BeyondVolume,
                format!("LEB {} of volume {number}, which has {}", leb.0, record.reserved_pebs),
            ))
        } else if vid.volume_type != record.volume_type || vid.data_pad != record.data_pad {
            let detail = format!("a header of volume {number} that contradicts the volume table");
            Some((DamageKind::Contradiction, detail))
        } else if vid.volume_type == VolumeType::Static && vid.used_lebs != used_lebs {
            let detail =
                format!("volume {number} with {} LEBs in use; its newest header has {used_lebs}", vid.used_lebs);
            Some((DamageKind::Contradiction, detail))
        } else {
            None
        }
    };
    let left_out: Vec<_> = lebs.iter().filter_map(|(leb, claim)| Some((*leb, wrong(leb, claim)?))).collect();
    for (leb, (kind, detail)) in left_out {
        if let Some(claim) = lebs.remove(&leb) {
            claims.leave_out(kind, claim.peb, &detail);
        }
    }
    claims.counts.used += lebs.len() as u32;
    let leb_size = geometry.leb_size() - record.data_pad;
    Volume { number, record, file_name: String::new(), is_in_table: true, leb_size, used_lebs, lebs }
}

/// A record for a volume that no volume table names. Its alignment is unknown; only the unused end
/// of its LEBs counts.
fn record_of(last: Leb, claim: &Claim) -> VolumeRecord {
    let vid = &claim.vid;
    let reserved_pebs = last.0.saturating_add(1).max(vid.used_lebs);
    let name = format!("volume-{}", vid.volume);
    VolumeRecord { data_pad: vid.data_pad, ..VolumeRecord::new(&name, vid.volume_type, reserved_pebs) }
}
