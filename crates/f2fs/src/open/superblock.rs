//! Chooses between the two superblocks (f2fs.md, "Superblock").

use nandkit_block::BlockDevice;
use nandkit_units::{Area, Cause, Context};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::WhichCopy;
use crate::device::Devices;
use crate::findings::{Defect, Defects, FindingKind};
use crate::layout::superblock::SUPERBLOCK_OFFSET;
use crate::layout::{Geometry, Superblock};

/// A copy that could be read, with its defects.
struct Candidate {
    superblock: Option<(Superblock, Geometry)>,
    findings: Vec<Defect>,
    copy: WhichCopy,
}

impl Candidate {
    /// Whether its checksum is not wrong.
    fn is_whole(&self) -> bool {
        self.superblock.is_some() && self.findings.iter().all(|found| found.kind != FindingKind::SuperblockChecksum)
    }

    fn is_f2fs(&self) -> bool {
        self.findings.iter().all(|found| found.kind != FindingKind::NotF2fs)
    }
}

/// Chooses the first copy that passes all checks. The second copy is in block 1: if the first is
/// unreadable, block sizes are tried.
pub fn choose<D: BlockDevice>(
    devices: &Devices<D>,
    findings: Defects<'_>,
) -> Result<(Superblock, Geometry, WhichCopy)> {
    let first = candidate(devices, SUPERBLOCK_OFFSET as u64, WhichCopy::First)?;
    let sizes = match &first.superblock {
        Some((_, geometry)) => vec![geometry.block_size() as u64],
        None => vec![4096, 8192, 16384],
    };
    let mut candidates = vec![first];
    for size in sizes {
        let second = candidate(devices, size + SUPERBLOCK_OFFSET as u64, WhichCopy::Second)?;
        // A superblock with another block size is not the copy searched for.
        let fits = second.superblock.as_ref().is_none_or(|(_, geometry)| geometry.block_size() as u64 == size);
        if fits {
            candidates.push(second);
        }
    }
    let chosen = candidates.iter().position(Candidate::is_whole);
    let Some(chosen) = chosen else { return Err(refusal(candidates)) };
    for other in candidates.iter().enumerate().filter(|(number, _)| *number != chosen).map(|(_, other)| other) {
        let is_first = other.copy == WhichCopy::First;
        if !other.is_whole() && (is_first || chosen == 0) {
            let (bad, used) = if is_first { ("first", "second") } else { ("second", "first") };
            let why = other.findings.first().map_or_else(String::new, |finding| finding.detail.clone());
            let detail = format!("the {bad} superblock is not valid ({why}); the {used} one is used");
            findings(Defect::new(FindingKind::Superblock, detail));
        }
    }
    let chosen = candidates.swap_remove(chosen);
    chosen.findings.into_iter().for_each(findings);
    match chosen.superblock {
        Some((superblock, geometry)) => Ok((superblock, geometry, chosen.copy)),
        None => Err(FsError::new(ErrorKind::Corrupt, "no superblock")),
    }
}

/// The error if no copy is valid: the defects of the first one that is an F2FS superblock.
fn refusal(candidates: Vec<Candidate>) -> FsError {
    let ours = candidates.iter().find(|candidate| candidate.is_f2fs());
    let why = ours.or(candidates.first()).and_then(|candidate| candidate.findings.last().cloned());
    why.map_or_else(|| FsError::new(ErrorKind::Corrupt, "no superblock"), Defect::into_error)
}

fn candidate<D: BlockDevice>(devices: &Devices<D>, at: u64, copy: WhichCopy) -> Result<Candidate> {
    let mut block = vec![0; SUPERBLOCK_OFFSET + size_of::<Superblock>()];
    let context = Context::default().for_cause(Cause::Metadata).in_area(Area::Metadata);
    let mut findings = Vec::new();
    let read = devices.read(context, at, block.get_mut(SUPERBLOCK_OFFSET..).unwrap_or_default());
    let superblock = match read {
        Ok(()) => Superblock::of_block(&block),
        // A copy may be on sectors that the medium lost, or past the end if this is no volume at
        // all.
        Err(error) => {
            let kind = if error.kind == ErrorKind::Device { FindingKind::Superblock } else { FindingKind::NotF2fs };
            findings.push(Defect::new(kind, format!("no superblock can be read at byte {at}: {error}")));
            None
        }
    };
    let superblock = superblock.and_then(|superblock| {
        let geometry = Geometry::from_superblock(&superblock, &mut |finding| findings.push(finding))?;
        Some((superblock, geometry))
    });
    Ok(Candidate { superblock, findings, copy })
}
