//! F2FS in the table of formats.

pub mod build;
mod change;
mod check;
mod costs;
mod devices;
mod extents;
mod history;
mod info;
mod mount;
mod past;
mod readers;
mod recovery;
mod repair;
mod rescue;
mod resize;
mod reuse;
mod segments;
pub mod spec;

use nandkit_f2fs::Blocks as _;
use nandkit_f2fs::segment_map::SegmentMap;
use nandkit_f2fs::write::Published;
use nandkit_flash_image::regions::{Signature, SignatureProbe};
use nandkit_units::{StatisticDefinition, Statistics};
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::probe::{Likeness, SURE};
use nandkit_vfs::{FileSystem, InodeNumber};
use toml::Table;

#[cfg(feature = "testing")]
pub use costs::{Curve, costs_of, has_times, remaps};

use self::recovery::Mounted;
use self::spec::F2fsSpec;
use super::detected::{Claims, DetectedFormat, View, is_left_over};
use super::emulate::{EmulateFormat, FormatSpec};
use super::extents::PlacedExtent;
use super::history::History;
use super::sectors::DumpSectors;
use super::{
    ChangeFormat, Format, FormatError, Keeps, Medium, MediumKind, OpenVolume, Opened, Opening, RepairFormat,
    RescueFormat, ResizeFormat, SegmentTable, VolumeInfo,
};
use crate::SpecError;
use crate::named::whole;

/// The format's name.
const NAME: &str = "f2fs";

/// F2FS in the table of formats.
pub static FORMAT: F2fsFormat = F2fsFormat;

/// F2FS.
pub struct F2fsFormat;

impl Format for F2fsFormat {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "F2FS"
    }

    fn medium(&self) -> MediumKind {
        MediumKind::Blocks
    }

    fn keeps(&self) -> Keeps {
        Keeps { history: true, extents: true, segments: true }
    }

    fn probe(&self, view: &View<'_>) -> Vec<DetectedFormat> {
        let file_bytes = view.image.bytes().len() as u64;
        let Ok(layout) = DumpSectors::layout_of_blocks(file_bytes, view.within.0, view.within.1) else {
            return Vec::new();
        };
        let Some(bytes) = view.bytes(&layout) else { return Vec::new() };
        let length = bytes.len() as u64;
        let Some(likeness) = nandkit_f2fs::probe(bytes, length) else { return Vec::new() };
        let end = likeness.extent.as_ref().map_or(0, |extent| extent.end);
        let described = format!("blocks of {} bytes", likeness.layout.block_size);
        let sure = likeness.points >= SURE;
        let fills = usize::try_from(end).ok().and_then(|end| bytes.get(end..)).is_none_or(is_left_over);
        let mut found = DetectedFormat::on_blocks(&FORMAT, likeness, layout, described);
        if end > length {
            let note = format!("the volume has {end} bytes, but only {length} are in the image");
            found.detection.notes.push(note);
        }
        // The superblock stores the length of the volume.
        found.claims = Claims { whole_image: sure && fills, ends_search: sure, ..Claims::default() };
        vec![found]
    }

    fn likeness(&self, beginning: &[u8], length: u64) -> Option<Likeness> {
        nandkit_f2fs::probe(beginning, length)
    }

    fn signature(&self) -> Option<SignatureProbe> {
        Some(|bytes| nandkit_f2fs::probe::signature(bytes).map(|size| Signature::new("f2fs", "F2FS", Some(size))))
    }

    fn open(&self, medium: Medium, how: &Opening<'_>) -> Result<Opened, FormatError> {
        let mounted = Mounted::open(medium, how)?;
        let notes = mounted.notes();
        Ok(Opened { volume: Box::new(mounted), notes })
    }

    fn info(&self, medium: Medium, how: &Opening<'_>) -> Result<VolumeInfo, FormatError> {
        let mounted = Mounted::inspect(medium, how)?;
        let mut notes = mounted.notes();
        notes.extend(mounted.damage().into_iter().map(|(_, finding)| finding.detail));
        Ok(VolumeInfo { facts: info::facts(&mounted.volume)?, notes })
    }

    fn check(&self, medium: Medium, how: &Opening<'_>) -> Result<Report, FormatError> {
        check::check(medium, how)
    }

    fn change(&self) -> Option<&dyn ChangeFormat> {
        Some(self)
    }

    fn repair(&self) -> Option<&dyn RepairFormat> {
        Some(self)
    }

    fn resize(&self) -> Option<&dyn ResizeFormat> {
        Some(self)
    }

    fn rescue(&self) -> Option<&dyn RescueFormat> {
        Some(self)
    }

    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        Some(self)
    }
}

impl EmulateFormat for F2fsFormat {
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, SpecError> {
        let spec: F2fsSpec = whole(table).map_err(|error| error.within("f2fs"))?;
        spec.check().map_err(|error| error.within("f2fs"))?;
        Ok(Box::new(spec))
    }

    fn statistics(&self) -> Vec<StatisticDefinition> {
        Published::definitions()
    }
}

impl OpenVolume for Mounted {
    fn fs(&self) -> &dyn FileSystem {
        &self.volume
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        let block_size = self.volume.geometry().block_size() as u32;
        let damaged = self.findings.iter().filter(|found| !recovery::is_note(found.kind));
        damaged.map(|found| found.clone().into_finding(block_size)).map(|finding| (finding.inode, finding)).collect()
    }

    fn extents(&self, inode: InodeNumber) -> Option<nandkit_vfs::Result<Vec<PlacedExtent>>> {
        extents::of_mounted(self, inode)
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn segments(&self) -> Option<nandkit_vfs::Result<Box<dyn SegmentTable>>> {
        let map = SegmentMap::read(&self.volume, self.volume.checkpoint_state().0);
        Some(map.map(|map| Box::new(map) as Box<dyn SegmentTable>))
    }
}
