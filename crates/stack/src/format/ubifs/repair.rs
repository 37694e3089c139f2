//! Repair of UBIFS volumes: in a file of their own, and for `ubi` in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use nandkit_flash_image::{DumpFlash, Image};
use nandkit_ubifs::{LebBytes, LebSink, Lebs, Ubifs};
use nandkit_vfs::check::Repair;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::UbifsFormat;
use super::lebs::DumpLebs;
use crate::format::detected::DetectedFormat;
use crate::format::held_dump::HeldDump;
use crate::format::{Checked, FormatError, Opening, RepairFormat, Repaired, RepairedImage};

/// The LEBs of a repaired volume; those that are missing are erased.
pub(in crate::format) type RepairedLebs = BTreeMap<u32, Vec<u8>>;

struct Memory(RepairedLebs);

impl LebSink for Memory {
    fn put(&mut self, leb: u32, bytes: &[u8]) -> Result<()> {
        self.0.insert(leb, bytes.to_vec());
        Ok(())
    }
}

/// Repairs a volume into memory, and checks what came out. Errors: those of the repair.
pub(in crate::format) fn repaired(lebs: Arc<dyn Lebs>) -> Result<(Repair, RepairedLebs)> {
    let leb_size = lebs.leb_size();
    let mut memory = Memory(RepairedLebs::new());
    let nandkit_ubifs::Repaired { mut repair, leb_count } = nandkit_ubifs::repair(lebs, &mut memory)?;
    let volume = Ubifs::mount(Box::new(LebBytes { bytes: joined(&memory.0, leb_size, leb_count), leb_size }))?;
    repair.remaining = volume.check()?.findings;
    Ok((repair, memory.0))
}

/// LEBs one behind the other.
fn joined(lebs: &RepairedLebs, leb_size: u32, leb_count: u32) -> Vec<u8> {
    let mut bytes = vec![0xFF; leb_count as usize * leb_size as usize];
    for (leb, content) in lebs {
        let to = bytes.chunks_mut(leb_size.max(1) as usize).nth(*leb as usize).unwrap_or_default();
        to.iter_mut().zip(content).for_each(|(to, from)| *to = *from);
    }
    bytes
}

impl RepairFormat for UbifsFormat {
    fn repair(
        &self,
        image: Image,
        found: &DetectedFormat,
        _: &Opening<'_>,
    ) -> std::result::Result<Repaired, FormatError> {
        let copy = Image::from_bytes(image.bytes().to_vec(), None)?;
        let dump = DumpFlash::new(copy, found.layout.clone())?.into_read_only();
        let lebs = DumpLebs::new(HeldDump::new(dump, &Arc::default(), false));
        let (leb_size, leb_count) = (lebs.leb_size(), lebs.leb_count());
        let (repair, lebs) = repaired(Arc::new(lebs))?;
        // The file keeps its length, what is left of it is erased; one that was cut off grows.
        let last = lebs.last_key_value().map_or(0, |(last, _)| last + 1);
        let is_at_end = found.layout.size.is_none_or(|size| {
            found.layout.offset.saturating_add(size + u64::from(leb_size)) > image.bytes().len() as u64
        });
        if last > leb_count && !is_at_end {
            let detail = format!("the repaired volume needs {last} LEBs, and its part of the image has {leb_count}");
            return Err(FsError::new(ErrorKind::NoSpace, detail).into());
        }
        let patch = Arc::from(joined(&lebs, leb_size, leb_count.max(last)));
        Ok(Repaired {
            checked: Checked { format: found.format.name(), report: repair.before },
            kept: repair.kept,
            mended: repair.mended,
            dropped: repair.dropped,
            remaining: repair.remaining,
            image: RepairedImage::patched(image, vec![(found.layout.offset, patch)], 0),
        })
    }
}
