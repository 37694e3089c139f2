//! PEBs that fail, and LEBs that move to another PEB.

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::Result;

use super::UbiWriter;
use crate::copies::Claim;
use crate::layout::{LAYOUT_VOLUME, VidHeader, VolumeType};
use crate::medium::{Health, Soundness};
use crate::{Leb, Peb};

impl<F: Flash> UbiWriter<F> {
    /// Marks a PEB in no list bad.
    pub(super) fn retire(&mut self, peb: Peb) -> Result<()> {
        self.counters.failed += 1;
        self.ubi.counts.bad += 1;
        self.ubi.medium.mark_bad(peb)
    }

    /// Programs data of a LEB; if its PEB fails, what was in front of them moves with them to
    /// another.
    pub(super) fn program_or_move(&mut self, claim: Claim, offset: u32, data: &[u8]) -> Result<()> {
        let begin = self.ubi.geometry.data_offset;
        let at = begin.saturating_add(offset);
        if self.ubi.medium.program(claim.peb, at, data, self.cause)? == Health::Good {
            return Ok(());
        }
        let mut content = vec![0xFF; offset as usize];
        // What cannot be corrected is moved as it is: whoever wrote it has checksums.
        let (Soundness::Sound | Soundness::Uncorrectable) =
            self.ubi.medium.read(claim.peb, begin, &mut content, Cause::WearLevelling)?;
        content.extend_from_slice(data);
        let vid = VidHeader { is_copy: true, ..claim.vid }.with_data(&content);
        let moved = self.put(vid, &content)?;
        self.set_claim(moved);
        self.pebs.remove_used(claim.peb);
        self.retire(claim.peb)
    }

    /// Copies a LEB to the free PEB `to`, which is in no list, and erases its own. A LEB that
    /// cannot be read whole stays where it is.
    pub(super) fn move_leb(&mut self, claim: Claim, to: Peb) -> Result<()> {
        let Some(content) = self.content(&claim)? else {
            self.pebs.add_free(to);
            return Ok(());
        };
        let vid = match claim.vid.volume_type {
            VolumeType::Static => VidHeader { is_copy: true, ..claim.vid },
            VolumeType::Dynamic if content.is_empty() => VidHeader { is_copy: false, ..claim.vid }.without_data(),
            VolumeType::Dynamic => VidHeader { is_copy: true, ..claim.vid }.with_data(&content),
        };
        let Some(moved) = self.put_at(to, vid, &content, Cause::WearLevelling)? else { return self.retire(to) };
        self.set_claim(moved);
        self.pebs.remove_used(claim.peb);
        self.erase(claim.peb)
    }

    /// The bytes of a LEB that count, without erased ones at its end; `None` if some cannot be
    /// corrected.
    fn content(&self, claim: &Claim) -> Result<Option<Vec<u8>>> {
        let geometry = &self.ubi.geometry;
        let length = match claim.vid.volume_type {
            VolumeType::Static => claim.vid.data_size.min(geometry.leb_size()),
            VolumeType::Dynamic => geometry.leb_size() - claim.vid.data_pad.min(geometry.leb_size()),
        };
        let mut content = vec![0; length as usize];
        let soundness = self.ubi.medium.read(claim.peb, geometry.data_offset, &mut content, Cause::WearLevelling)?;
        if claim.vid.volume_type == VolumeType::Dynamic {
            content.truncate(self.written(&content));
        }
        Ok(soundness.is_sound().then_some(content))
    }

    /// The length of content up to its last unit with a bit programmed.
    pub(super) fn written(&self, content: &[u8]) -> usize {
        let end = content.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
        end.next_multiple_of(self.ubi.medium.write_unit() as usize).min(content.len())
    }

    /// Notes where a LEB is from now on.
    fn set_claim(&mut self, claim: Claim) {
        let leb = Leb(claim.vid.leb);
        if claim.vid.volume == LAYOUT_VOLUME {
            if let Some(copy) = self.ubi.table_copies.get_mut(leb.0 as usize) {
                *copy = Some(claim);
            }
        } else if let Some(volume) = self.ubi.volume_mut(claim.vid.volume) {
            volume.lebs.insert(leb, claim);
        }
    }

    /// The LEB in a PEB. Cost: looks at all LEBs.
    pub(super) fn claim_at(&self, peb: Peb) -> Option<Claim> {
        let lebs = self.ubi.volumes.iter().flat_map(|volume| volume.lebs.values());
        lebs.chain(self.ubi.table_copies.iter().flatten()).find(|claim| claim.peb == peb).copied()
    }
}
