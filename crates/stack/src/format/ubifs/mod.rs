//! UBIFS in the table of formats: a volume in a file of its own, as mkfs.ubifs makes it, and on the
//! UBI of an emulated chip. Other volumes in UBI are opened by `ubi`, with what stands here.

pub mod build;
mod change;
mod counted;
mod info;
mod lebs;
mod mount;
mod repair;
pub mod spec;
mod ubi_lebs;

use std::sync::Arc;

use nandkit_flash_image::ImageLayout;
use nandkit_ubifs::Ubifs;
use nandkit_units::{StatisticDefinition, Statistics as _};
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{FileSystem, InodeNumber};
use toml::Table;

use self::spec::UbifsSpec;
use super::detected::{Claims, DetectedFormat, View};
use super::emulate::{EmulateFormat, FormatSpec};
use super::held_dump::HeldDump;
use super::{
    ChangeFormat, Format, FormatError, Medium, MediumKind, OpenVolume, Opened, Opening, RepairFormat, VolumeInfo,
};
use crate::SpecError;
use crate::named::whole;

pub(super) use change::{changing, compression};
pub(super) use info::{facts, notes};
use lebs::DumpLebs;
pub(super) use repair::{RepairedLebs, repaired};
pub(super) use ubi_lebs::{VolumeView, WritableLebs};

/// The format's name.
const NAME: &str = "ubifs";

/// UBIFS in the table of formats.
pub static FORMAT: UbifsFormat = UbifsFormat;

/// UBIFS.
pub struct UbifsFormat;

impl Format for UbifsFormat {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "UBIFS"
    }

    fn medium(&self) -> MediumKind {
        MediumKind::Flash
    }

    fn probe(&self, view: &View<'_>) -> Vec<DetectedFormat> {
        let (offset, size) = view.within;
        let whole = ImageLayout { offset, size, ..ImageLayout::nor(4096) };
        let Some(bytes) = view.bytes(&whole) else { return Vec::new() };
        let Some(likeness) = nandkit_ubifs::probe(bytes, bytes.len() as u64) else { return Vec::new() };
        let leb_size = likeness.layout.erase_size;
        // A size beyond the file is that of the flash, of which a part of a LEB is of no use.
        let is_beyond = |size: u64| offset.saturating_add(size) > view.image.bytes().len() as u64;
        let size = size.map(|size| if is_beyond(size) { size - size % u64::from(leb_size.max(1)) } else { size });
        let layout = view.options.with_blocks(ImageLayout { offset, size, ..ImageLayout::nor(leb_size) });
        let found =
            DetectedFormat::on_blocks(&FORMAT, likeness, layout, format!("LEBs of {leb_size} bytes, not in UBI"));
        vec![DetectedFormat { claims: Claims { whole_image: true, ..Claims::default() }, ..found }]
    }

    fn open(&self, medium: Medium, _: &Opening<'_>) -> Result<Opened, FormatError> {
        let volume = mount(medium)?;
        let notes = notes(&volume);
        Ok(Opened { notes, ..Opened::plain(volume) })
    }

    fn info(&self, medium: Medium, _: &Opening<'_>) -> Result<VolumeInfo, FormatError> {
        let volume = mount(medium)?;
        Ok(VolumeInfo { facts: facts(&volume), notes: notes(&volume) })
    }

    fn check(&self, medium: Medium, _: &Opening<'_>) -> Result<Report, FormatError> {
        Ok(mount(medium)?.check()?)
    }

    fn change(&self) -> Option<&dyn ChangeFormat> {
        Some(self)
    }

    fn repair(&self) -> Option<&dyn RepairFormat> {
        Some(self)
    }

    /// A volume in a file lacks the UBI around it.
    fn loads_onto_chips(&self) -> bool {
        false
    }

    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        Some(self)
    }
}

impl EmulateFormat for UbifsFormat {
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, SpecError> {
        let spec: UbifsSpec = whole(table).map_err(|error| error.within("ubifs"))?;
        spec.check().map_err(|error| error.within("ubifs"))?;
        Ok(Box::new(spec))
    }

    fn statistics(&self) -> Vec<StatisticDefinition> {
        counted::Counters::definitions()
    }
}

impl OpenVolume for Ubifs {
    fn fs(&self) -> &dyn FileSystem {
        self
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        Ubifs::damage(self).iter().map(|finding| (finding.inode, finding.clone())).collect()
    }
}

/// Mounts the volume of a dump for reading.
fn mount(medium: Medium) -> Result<Ubifs, FormatError> {
    match medium {
        Medium::Dump(dump) => {
            let lebs = DumpLebs::new(HeldDump::new(dump.device, &Arc::default(), false));
            Ok(Ubifs::mount(Box::new(lebs))?)
        }
        _ => Err(FormatError::Unfit("UBIFS stands on UBI, not on a bare device".to_owned())),
    }
}
