//! FAT in the table of formats.

pub mod build;
mod change;
mod history;
mod info;
mod mount;
mod repairs;
pub mod spec;

use nandkit_block::BlockDevice;
use nandkit_fat::{Fat, MountOptions};
use nandkit_flash_image::regions::{Signature, SignatureProbe};
use nandkit_vfs::FileSystem;
use nandkit_vfs::check::Report;
use nandkit_vfs::probe::Likeness;
use toml::Table;

use self::spec::FatSpec;
use super::detected::{Claims, DetectedFormat, View, is_left_over};
use super::emulate::{EmulateFormat, FormatSpec};
use super::history::History;
use super::sectors::DumpSectors;
use super::{ChangeFormat, Format, FormatError, Keeps, Medium, MediumKind, OpenVolume, Opened, Opening, VolumeInfo};
use crate::SpecError;
use crate::named::whole;

/// FAT in the table of formats.
pub static FORMAT: FatFormat = FatFormat;

/// FAT.
pub struct FatFormat;

impl Format for FatFormat {
    fn name(&self) -> &'static str {
        "fat"
    }

    fn title(&self) -> &'static str {
        "FAT"
    }

    fn medium(&self) -> MediumKind {
        MediumKind::Blocks
    }

    fn keeps(&self) -> Keeps {
        Keeps { history: true, extents: true, ..Keeps::default() }
    }

    fn probe(&self, view: &View<'_>) -> Vec<DetectedFormat> {
        let Ok(layout) = DumpSectors::layout(view.within.0, view.within.1) else { return Vec::new() };
        let Some(bytes) = view.bytes(&layout) else { return Vec::new() };
        let length = bytes.len() as u64;
        let Some(likeness) = nandkit_fat::probe(bytes, length) else { return Vec::new() };
        let behind = likeness.extent.as_ref().and_then(|extent| bytes.get(usize::try_from(extent.end).ok()?..));
        let fills = likeness.extent.is_some() && behind.is_none_or(is_left_over);
        let found = DetectedFormat::on_blocks(&FORMAT, likeness, layout, "sectors".to_owned());
        vec![DetectedFormat { claims: Claims { whole_image: fills, ..Claims::default() }, ..found }]
    }

    fn likeness(&self, beginning: &[u8], length: u64) -> Option<Likeness> {
        nandkit_fat::probe(beginning, length)
    }

    fn signature(&self) -> Option<SignatureProbe> {
        Some(|bytes| nandkit_fat::signature(bytes).map(|size| Signature::new("fat-", "FAT", Some(size))))
    }

    fn open(&self, medium: Medium, how: &Opening<'_>) -> Result<Opened, FormatError> {
        let (volume, notes) = mount(medium, how)?;
        Ok(Opened { notes, ..Opened::plain(volume) })
    }

    fn info(&self, medium: Medium, how: &Opening<'_>) -> Result<VolumeInfo, FormatError> {
        let (volume, notes) = mount(medium, how)?;
        Ok(VolumeInfo { facts: info::facts(&volume)?, notes })
    }

    fn check(&self, medium: Medium, how: &Opening<'_>) -> Result<Report, FormatError> {
        Ok(nandkit_fat::check(&mut medium.into_blocks()?, &how.clock, how.options.code_page)?)
    }

    fn change(&self) -> Option<&dyn ChangeFormat> {
        Some(self)
    }

    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        Some(self)
    }
}

impl EmulateFormat for FatFormat {
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, SpecError> {
        let spec: FatSpec = whole(table).map_err(|error| error.within("fat"))?;
        spec.check()?;
        Ok(Box::new(spec))
    }

    fn restricts_names(&self) -> bool {
        true
    }
}

impl<D: BlockDevice> OpenVolume for Fat<D> {
    fn fs(&self) -> &dyn FileSystem {
        self
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }
}

/// A mounted volume, and notes about it.
type Told = (Fat<Box<dyn BlockDevice>>, Vec<String>);

/// Mounts a volume for reading; notes say why it cannot be changed.
fn mount(medium: Medium, how: &Opening<'_>) -> Result<Told, FormatError> {
    let options = MountOptions { read_only: true, code_page: how.options.code_page, ..MountOptions::default() };
    let device = medium.into_blocks()?;
    let capacity = device.geometry().capacity();
    let volume = Fat::mount(device, how.clock.clone(), options)?;
    let geometry = volume.geometry();
    let mut notes = Vec::new();
    if geometry.bytes() > capacity {
        notes.push(format!(
            "the volume has {} bytes, but only {capacity} are in the image: files after them cannot be read, and nothing can be changed",
            geometry.bytes()
        ));
    }
    if !geometry.is_signed {
        notes.push(
            "the boot sector has no signature 0x55 0xAA: the volume can be read, as in Linux, but not changed"
                .to_owned(),
        );
    }
    Ok((volume, notes))
}
