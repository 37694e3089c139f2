//! A volume: its record, and where its LEBs are.

use std::collections::BTreeMap;
use std::ops::Range;

use nandkit_vfs::check::{Finding, Findings};

use crate::copies::Claim;
use crate::layout::{VolumeRecord, VolumeType};
use crate::{DamageKind, Leb, Peb};

/// A volume of an attached device.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Its number.
    pub number: u32,
    /// Its record; made up of its headers if the volume table lost it.
    pub record: VolumeRecord,
    /// Its name as a file: that of the record, unless no file can have it, or another volume does.
    pub file_name: String,
    /// Whether the volume table names it.
    pub is_in_table: bool,
    /// Bytes per LEB that the volume uses.
    pub leb_size: u32,
    /// For static volumes: LEBs in use; otherwise 0.
    pub used_lebs: u32,
    pub(crate) lebs: BTreeMap<Leb, Claim>,
}

impl Volume {
    /// Number of LEBs with content.
    pub fn mapped(&self) -> usize {
        self.lebs.len()
    }

    /// The PEB that holds a LEB; `None` if the LEB is unmapped, so that it reads as erased.
    pub fn peb_of(&self, leb: Leb) -> Option<Peb> {
        self.lebs.get(&leb).map(|claim| claim.peb)
    }

    /// Bytes from the beginning to the end of the last LEB with content. For static volumes: the
    /// length of the content.
    pub fn length(&self) -> u64 {
        let leb_size = u64::from(self.leb_size);
        let last = match self.record.volume_type {
            VolumeType::Static => self.used_lebs.checked_sub(1).map(Leb),
            VolumeType::Dynamic => self.lebs.keys().next_back().copied(),
        };
        let Some(last) = last else { return 0 };
        u64::from(last.0) * leb_size + u64::from(self.content_of(last))
    }

    /// Bytes of content of a LEB. In a static volume the last one may be shorter.
    pub(crate) fn content_of(&self, leb: Leb) -> u32 {
        let claim = self.lebs.get(&leb).filter(|_| self.record.volume_type == VolumeType::Static);
        claim.map_or(self.leb_size, |claim| claim.vid.data_size.min(self.leb_size))
    }

    /// The LEBs of a static volume that are missing, as ranges: a hostile header may promise
    /// billions.
    pub(crate) fn missing(&self) -> Vec<Range<u32>> {
        let used = match self.record.volume_type {
            VolumeType::Static => self.used_lebs,
            VolumeType::Dynamic => 0,
        };
        let (mut gaps, mut next) = (Vec::new(), 0);
        for leb in self.lebs.keys().map(|leb| leb.0).filter(|leb| *leb < used).chain([used]) {
            if leb > next {
                gaps.push(next..leb);
            }
            next = leb.saturating_add(1);
        }
        gaps
    }
}

/// Gives each volume a name that a file can have and no other volume has, and tells each that its
/// record does not have.
pub(crate) fn name_files(volumes: &mut [Volume], findings: &mut Findings) {
    let mut taken: Vec<String> = Vec::new();
    for volume in volumes {
        let name = String::from_utf8(volume.record.name.clone()).unwrap_or_default();
        let is_usable = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0']);
        volume.file_name = match is_usable && !taken.contains(&name) {
            true => name,
            false => {
                let mut other = format!("volume-{}", volume.number);
                while taken.contains(&other) {
                    other.push('-');
                }
                let detail = format!(
                    "volume {} is called '{}', which no file can be or another volume is; here it is '{other}'",
                    volume.number,
                    volume.record.name.escape_ascii()
                );
                findings.add(Finding::new(DamageKind::Name, detail));
                other
            }
        };
        taken.push(volume.file_name.clone());
    }
}
