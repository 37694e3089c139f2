//! From headers to the current PEB of each LEB: every PEB claims to be a LEB, or says nothing that
//! counts.

use std::collections::BTreeMap;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::check::{Finding, Findings};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::copies::{Claim, Why, choose};
use crate::counts::PebCounts;
use crate::layout::{
    Decoded, EcHeader, FASTMAP_DATA, FASTMAP_SUPERBLOCK, INTERNAL_VOLUME, LAYOUT_LEBS, LAYOUT_VOLUME, VOLUMES_MAX,
    compatibility,
};
use crate::medium::{Medium, Soundness};
use crate::scan::{Geometry, PebHeaders, Scan};
use crate::{DamageKind, Leb, Peb};

/// LEBs may have numbers up to this multiple of the PEBs that are there: a dump may lack most of
/// the flash, but a number is not worth terabytes of erased flash.
const LEBS_PER_PEB_MAX: u32 = 64;

/// The current LEBs of each volume, while PEBs are added one by one.
pub(crate) struct Claims<'a, F> {
    medium: &'a Medium<F>,
    geometry: Geometry,
    image_sequence: u32,
    pub counts: PebCounts,
    pub lebs: BTreeMap<u32, BTreeMap<Leb, Claim>>,
    pub findings: Findings,
    /// PEBs that a writer leaves alone: their content may be somebody's.
    pub aside: Vec<Peb>,
    /// PEBs that are marked bad and count, since their headers are intact.
    pub marked: Vec<Peb>,
    /// Why the device cannot be written, if so.
    pub obstacle: Option<String>,
}

impl<'a, F: Flash> Claims<'a, F> {
    /// Adds all PEBs of a scan. Errors: two devices are there; those of the flash.
    pub fn of(medium: &'a Medium<F>, scan: &Scan) -> Result<Self> {
        let counts = PebCounts { total: medium.pebs(), bad: scan.bad, erased: scan.erased, ..PebCounts::default() };
        let (geometry, image_sequence) = (scan.geometry, scan.image_sequence);
        let (lebs, findings) = (BTreeMap::new(), Findings::default());
        let (aside, marked, obstacle) = (Vec::new(), Vec::new(), None);
        let mut claims = Self { medium, geometry, image_sequence, counts, lebs, findings, aside, marked, obstacle };
        for headers in &scan.headers {
            claims.add(headers)?;
        }
        Ok(claims)
    }

    /// Tells something about a PEB.
    pub fn tell(&mut self, kind: DamageKind, peb: Peb, detail: &str) {
        let at = u64::from(peb.0) * u64::from(self.geometry.peb_size);
        self.findings.add(Finding::new(kind, format!("PEB {}: {detail}", peb.0)).at(at));
    }

    /// Tells that a PEB is left out, and why.
    pub fn leave_out(&mut self, kind: DamageKind, peb: Peb, detail: &str) {
        self.counts.damaged += 1;
        // Linux erases these (`drivers/mtd/ubi`: `scan_peb`, `ubi_eba_init`): two damaged headers
        // are what an interrupted erase leaves.
        if !matches!(kind, DamageKind::TornHeader | DamageKind::TwoHeaders | DamageKind::BeyondVolume) {
            self.aside.push(peb);
        }
        self.tell(kind, peb, detail);
    }

    fn add(&mut self, headers: &PebHeaders) -> Result<()> {
        let PebHeaders { peb, ec, vid, is_marked_bad } = *headers;
        if is_marked_bad {
            self.marked.push(peb);
            self.tell(DamageKind::Marked, peb, "marked bad, but its headers are intact: it counts as good");
        }
        if let Decoded::Header(ec) = ec {
            if let Some((kind, detail)) = self.foreign(&ec) {
                self.leave_out(kind, peb, &detail);
                return Ok(());
            }
            self.count_erases(peb, &ec);
        }
        match (ec, vid) {
            (Decoded::Header(_), Decoded::Header(vid)) => self.claim(Claim { peb, vid }),
            (Decoded::Header(_), Decoded::Erased) => {
                self.counts.free += 1;
                Ok(())
            }
            (Decoded::Erased | Decoded::Damaged, Decoded::Header(vid)) => {
                self.tell(DamageKind::EraseCounter, peb, "no valid erase counter header; the data are read");
                self.claim(Claim { peb, vid })
            }
            _ => self.nameless(peb, matches!(ec, Decoded::Header(_))),
        }
    }

    /// Why a PEB does not belong to this device, if so.
    fn foreign(&self, ec: &EcHeader) -> Option<(DamageKind, String)> {
        let (asked, here) = (self.image_sequence, ec.image_sequence);
        if asked != 0 && here != 0 && asked != here {
            let detail = format!("image sequence number {here:#x}; the other blocks have {asked:#x}");
            return Some((DamageKind::OtherImage, detail));
        }
        let Geometry { vid_offset, data_offset, .. } = self.geometry;
        ((ec.vid_offset, ec.data_offset) != (vid_offset, data_offset)).then(|| {
            let detail = format!(
                "identifier at {}, data at {}; the other blocks have them at {vid_offset} and {data_offset}",
                ec.vid_offset, ec.data_offset
            );
            (DamageKind::Contradiction, detail)
        })
    }

    fn count_erases(&mut self, peb: Peb, ec: &EcHeader) {
        let Some(erases) = ec.erases() else {
            self.tell(DamageKind::EraseCounter, peb, &format!("an impossible erase counter, {}", ec.erase_counter));
            return;
        };
        let counts = &mut self.counts;
        counts.erases_min = if counts.counted == 0 { erases } else { counts.erases_min.min(erases) };
        counts.erases_max = counts.erases_max.max(erases);
        counts.erases_sum = counts.erases_sum.saturating_add(erases);
        counts.counted += 1;
    }

    /// Tells a PEB whose LEB is unknown: harmless if no data follow the header.
    fn nameless(&mut self, peb: Peb, has_erase_counter: bool) -> Result<()> {
        let mut data = vec![0; self.geometry.leb_size() as usize];
        let soundness = self.medium.read(peb, self.geometry.data_offset, &mut data, Cause::Recovery)?;
        if soundness == Soundness::Sound && nandkit_units::is_erased(&data) {
            self.leave_out(DamageKind::TornHeader, peb, "a damaged header, and no data");
        } else {
            let detail = "a damaged header: which LEB of which volume these data are is unknown";
            let kind = if has_erase_counter { DamageKind::Header } else { DamageKind::TwoHeaders };
            self.leave_out(kind, peb, detail);
        }
        Ok(())
    }

    /// Adds a PEB that names its LEB.
    fn claim(&mut self, claim: Claim) -> Result<()> {
        let Claim { peb, vid } = claim;
        if vid.volume == LAYOUT_VOLUME {
            if vid.leb >= LAYOUT_LEBS {
                let detail = format!("LEB {} of the volume table, which has {LAYOUT_LEBS}", vid.leb);
                self.leave_out(DamageKind::Contradiction, peb, &detail);
                return Ok(());
            }
            return self.resolve(claim);
        }
        if vid.volume >= INTERNAL_VOLUME {
            self.internal(claim);
            return Ok(());
        }
        let leb_limit = self.counts.total.saturating_mul(LEBS_PER_PEB_MAX);
        let wrong = if vid.volume >= VOLUMES_MAX {
            Some(format!("volume {}; expected one below {VOLUMES_MAX}", vid.volume))
        } else if vid.leb.max(vid.used_lebs) >= leb_limit {
            Some(format!("LEB {} of {} in use; {} blocks are here", vid.leb, vid.used_lebs, self.counts.total))
        } else {
            vid.contradiction(self.geometry.leb_size()).map(str::to_owned)
        };
        match wrong {
            Some(detail) => {
                self.leave_out(DamageKind::Contradiction, peb, &format!("a header that cannot be true: {detail}"));
                Ok(())
            }
            None => self.resolve(claim),
        }
    }

    /// Adds a possible claim; of two for one LEB the newer one stays.
    fn resolve(&mut self, claim: Claim) -> Result<()> {
        let (volume, leb) = (claim.vid.volume, Leb(claim.vid.leb));
        let lebs = self.lebs.entry(volume).or_default();
        let Some(other) = lebs.insert(leb, claim) else { return Ok(()) };
        let choice = choose(self.medium, &self.geometry, other, claim)?;
        lebs.insert(leb, choice.winner);
        self.counts.stale += 1;
        let (winner, loser) = (choice.winner.peb, choice.loser.peb);
        match choice.why {
            Why::Newer => {}
            Why::TornCopy => {
                let detail = format!(
                    "the copy of LEB {} of volume {volume} is not whole; the older PEB {} counts",
                    leb.0, winner.0
                );
                self.tell(DamageKind::TornCopy, loser, &detail);
            }
            Why::Equal if volume == LAYOUT_VOLUME => return Err(self.two_devices(winner, loser)),
            Why::Equal => {
                let detail = format!(
                    "PEB {} is LEB {} of volume {volume} too, with the same sequence number; that one counts",
                    winner.0, leb.0
                );
                self.tell(DamageKind::Ambiguous, loser, &detail);
            }
        }
        Ok(())
    }

    /// The error if two devices stand one after the other, which only their places tell apart.
    #[cold]
    fn two_devices(&self, one: Peb, other: Peb) -> FsError {
        let at = |peb: Peb| u64::from(peb.0) * u64::from(self.geometry.peb_size);
        FsError::new(
            ErrorKind::Corrupt,
            format!(
                "two UBI devices: the blocks at {:#x} and {:#x} both hold the same copy of a volume table, with the same sequence number; expected `offset` and `size` of one device",
                at(one),
                at(other)
            ),
        )
    }

    /// Adds a PEB of an internal volume other than the volume table.
    fn internal(&mut self, claim: Claim) {
        let vid = &claim.vid;
        self.counts.has_fastmap |= matches!(vid.volume, FASTMAP_SUPERBLOCK | FASTMAP_DATA);
        self.counts.stale += 1;
        match vid.compatibility {
            compatibility::DELETE => {}
            compatibility::PRESERVE => self.aside.push(claim.peb),
            _ => self.obstacle = Some(format!("the internal volume {:#x} is not known", vid.volume)),
        }
        if !matches!(vid.compatibility, compatibility::DELETE | compatibility::READ_ONLY | compatibility::PRESERVE) {
            let detail = format!(
                "internal volume {:#x} with compatibility {}, for which Linux refuses the device; the rest is read",
                vid.volume, vid.compatibility
            );
            self.tell(DamageKind::Internal, claim.peb, &detail);
        }
    }
}
