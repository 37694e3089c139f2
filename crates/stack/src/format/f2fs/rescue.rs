//! Rescue from F2FS volumes whose superblocks, checkpoints or tables are lost.

use nandkit_f2fs::RescuedVolume;
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_vfs::{ErrorKind, FileSystem};

use super::F2fsFormat;
use super::devices::{device_names, told};
use super::recovery::{Reader, all_boxed, shared};
use crate::format::detected::Within;
use crate::format::rescue::{Doubt, RescueFormat, RescuedFile, RescuedFiles};
use crate::format::sectors::DumpSectors;
use crate::format::{FormatError, Opening};

impl RescueFormat for F2fsFormat {
    fn rescue(&self, image: Image, within: Within, how: &Opening<'_>) -> Result<Box<dyn RescuedFiles>, FormatError> {
        let layout = DumpSectors::layout_of_blocks(image.bytes().len() as u64, within.0, within.1)?;
        let part = DumpFlash::new(image, layout)?.into_read_only();
        let named = device_names(&part);
        let devices = all_boxed(shared(part, how)?);
        let volume = RescuedVolume::find(devices, how.clock.clone()).map_err(|error| match error.kind {
            ErrorKind::Corrupt => {
                FormatError::Unfit(format!("this is not F2FS, or nothing is left of the volume: {}", error.detail))
            }
            _ => told(&error, &named),
        })?;
        Ok(Box::new(volume))
    }
}

impl RescuedFiles for RescuedVolume<Reader> {
    fn fs(&self) -> &dyn FileSystem {
        self
    }

    fn files(&self) -> Vec<RescuedFile> {
        let told = |doubt: nandkit_f2fs::Doubt| Doubt { kind: doubt.name(), detail: doubt.to_string() };
        let files = RescuedVolume::files(self).map(|file| RescuedFile {
            inode: file.inode,
            kind: file.kind,
            size: file.size,
            doubts: file.doubts.into_iter().map(told).collect(),
        });
        files.collect()
    }

    fn notes(&self) -> Vec<String> {
        RescuedVolume::notes(self)
    }
}
