//! The check: what attaching found, and the content of static volumes by their checksums.

use nandkit_flash::Flash;
use nandkit_vfs::check::{Finding, Findings, Report};
use nandkit_vfs::{ErrorKind, Result};

use crate::DamageKind;
use crate::attach::Ubi;
use crate::copies::has_right_data;
use crate::layout::VolumeType;
use crate::volume::Volume;

impl<F: Flash> Ubi<F> {
    /// Checks the device. Errors: those of the device. Cost: reads all content.
    pub fn check(&self) -> Result<Report> {
        let mut findings = Findings::default();
        findings.extend(self.damage.iter().cloned());
        findings.extend(self.losses());
        for volume in &self.volumes {
            self.check_content(volume, &mut findings)?;
        }
        let counts = &self.counts;
        let counts = vec![
            ("files", self.volumes.len() as u64),
            ("directories", 1),
            ("pebs", u64::from(counts.total)),
            ("pebs_bad", counts.bad.into()),
            ("pebs_free", (counts.free + counts.erased).into()),
            ("pebs_used", counts.used.into()),
            ("pebs_stale", counts.stale.into()),
            ("pebs_damaged", counts.damaged.into()),
        ];
        Ok(Report { findings: findings.into_list(), counts, ..Report::default() })
    }

    /// What volumes lack: an interrupted update, missing LEBs of static volumes. Cost: none.
    pub fn losses(&self) -> Vec<Finding> {
        let mut losses = Vec::new();
        for volume in &self.volumes {
            if volume.record.is_updating {
                let detail = format!(
                    "the update of volume '{}' was interrupted: its content is a mixture, and Linux refuses to read it",
                    volume.file_name
                );
                losses.push(Finding::new(DamageKind::Update, detail).in_file(volume.file_name.as_bytes()));
            }
            if volume.record.volume_type == VolumeType::Static && volume.lebs.is_empty() {
                let detail =
                    format!("no LEB of the static volume '{}' is here: it is empty, or lost", volume.file_name);
                let finding = Finding::new(DamageKind::MissingLeb, detail).harmless();
                losses.push(finding.in_file(volume.file_name.as_bytes()));
            }
            for gap in volume.missing() {
                let lebs = match gap.end - gap.start {
                    1 => format!("LEB {}", gap.start),
                    _ => format!("LEBs {} to {}", gap.start, gap.end - 1),
                };
                let detail = format!("{lebs} of the static volume '{}' are not there", volume.file_name);
                losses.push(Finding::new(DamageKind::MissingLeb, detail).in_file(volume.file_name.as_bytes()));
            }
        }
        losses
    }

    /// Reads all content of a volume, and compares that of a static one with its checksums. The
    /// checksum of a copy in a dynamic volume held when the copy was made; since then the LEB may
    /// have been appended to.
    fn check_content(&self, volume: &Volume, findings: &mut Findings) -> Result<()> {
        let is_static = volume.record.volume_type == VolumeType::Static;
        let mut buffer = vec![0; if is_static { 0 } else { volume.leb_size as usize }];
        for (leb, claim) in &volume.lebs {
            let at = u64::from(claim.peb.0) * u64::from(self.geometry.peb_size);
            let mut tell = |kind: DamageKind, detail: String| {
                findings.add(Finding::new(kind, detail).at(at).in_file(volume.file_name.as_bytes()));
            };
            if is_static && !has_right_data(&self.medium, &self.geometry, claim)? {
                let detail = format!(
                    "LEB {} of volume '{}', PEB {}: the data do not have the checksum of their header",
                    leb.0, volume.file_name, claim.peb.0
                );
                tell(DamageKind::Data, detail);
            }
            if is_static {
                continue;
            }
            match self.read_leb(volume, *leb, 0, &mut buffer) {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Corrupt => tell(DamageKind::Unreadable, error.detail),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
