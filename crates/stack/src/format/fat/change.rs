//! Changes of FAT volumes in images.

use std::sync::Arc;

use nandkit_fat::{Fat, MountOptions};
use nandkit_flash_image::{DumpFlash, Image};

use super::{FatFormat, repairs};
use crate::format::detected::DetectedFormat;
use crate::format::on_sectors::{OnSectors, shared};
use crate::format::sectors::DumpSectors;
use crate::format::{ChangeFormat, Changing, FormatError, OpenedForChanges};

impl ChangeFormat for FatFormat {
    fn open(&self, image: Image, found: &DetectedFormat, how: &Changing<'_>) -> Result<OpenedForChanges, FormatError> {
        let mut sectors = DumpSectors::new(DumpFlash::new(image, found.layout.clone())?);
        let held = if how.in_place { sectors.hold() } else { Arc::default() };
        let (mut device, sectors) = shared(sectors);
        let code_page = how.options.code_page;
        let mut bad = repairs::shared(&mut device, &how.clock, code_page);
        // No barriers are needed: a sync of the file is atomic, and a copy in memory has no power
        // cuts.
        let options = MountOptions { barriers: false, code_page, ..MountOptions::default() };
        let volume = Fat::mount(device, how.clock.clone(), options)?;
        let mut notes = Vec::new();
        if let Some(report) = volume.recovery() {
            notes.push(repairs::told(report));
            bad.extend(repairs::losses(report));
        }
        Ok(OpenedForChanges { volume: Box::new(OnSectors::new(volume, sectors)), notes, bad, held })
    }
}
