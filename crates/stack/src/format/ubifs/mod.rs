//! UBIFS in the table of formats: a volume in a file of its own, as mkfs.ubifs makes it. Volumes in
//! UBI are opened by `ubi`, with what stands here.

pub mod build;
mod info;

use nandkit_flash::{Flash, Look as _};
use nandkit_flash_image::{DumpFlash, ImageLayout};
use nandkit_ubifs::{Lebs, Ubifs};
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{FileSystem, InodeNumber};

use super::detected::{Claims, DetectedFormat, View};
use super::{Format, FormatError, Medium, MediumKind, OpenVolume, Opened, Opening, VolumeInfo};

pub(super) use info::{facts, notes};

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
}

impl<L: Lebs> OpenVolume for Ubifs<L> {
    fn fs(&self) -> &dyn FileSystem {
        self
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        Ubifs::damage(self).iter().map(|finding| (finding.inode, finding.clone())).collect()
    }
}

/// A volume in a file: block n of the dump is LEB n.
struct DumpLebs(DumpFlash);

impl Lebs for DumpLebs {
    fn leb_size(&self) -> u32 {
        self.0.layout().block_size
    }

    fn leb_count(&self) -> u32 {
        self.0.geometry().blocks
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> nandkit_vfs::Result<()> {
        into.fill(0xFF);
        let inside = into.len().min(self.leb_size().saturating_sub(offset) as usize);
        if let Some(inside) = into.get_mut(..inside) {
            self.0.look_at(u64::from(leb) * u64::from(self.leb_size()) + u64::from(offset), inside);
        }
        Ok(())
    }
}

fn mount(medium: Medium) -> Result<Ubifs<DumpLebs>, FormatError> {
    match medium {
        Medium::Dump(dump) => Ok(Ubifs::mount(DumpLebs(dump.device))?),
        _ => Err(FormatError::Unfit("UBIFS stands on UBI, not on a bare device".to_owned())),
    }
}
