//! Files of the UBIFS in a volume of UBI are changed: its LEBs, written.

use nandkit_flash::Flash;
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_ubi::write::UbiWriter;
use nandkit_ubi::{Leb, Volume};
use nandkit_ubifs::{LebWriter, Lebs};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::writing::{self, Attached};
use super::{UbiFormat, volume};
use crate::format::detected::DetectedFormat;
use crate::format::held_dump::HeldDump;
use crate::format::{ChangeFormat, Changing, FormatError, OpenedForChanges, ubifs};

impl ChangeFormat for UbiFormat {
    fn compresses(&self) -> bool {
        true
    }

    fn fills_up(&self) -> bool {
        true
    }

    fn open(
        &self,
        image: Image,
        found: &DetectedFormat,
        how: &Changing<'_>,
    ) -> std::result::Result<OpenedForChanges, FormatError> {
        let compression = ubifs::compression(how.compression)?;
        let Attached { mut writer, damage, held } = writing::attach(image, found, how.in_place, how.clock.clone())?;
        let device = writer.ubi();
        let Some(index) = volume::chosen(device, how.options)? else {
            return Err(volume::none_to_change(device, how.options));
        };
        let (note, chosen) = (volume::note(device, index), device.volumes().get(index));
        let Some((number, name)) = chosen.map(|volume| (volume.number, volume.file_name.clone())) else {
            return Err(volume::none_to_change(device, how.options));
        };
        writing::resize_as_asked(&mut writer, number)?;
        let lebs = WritableLebs::new(writer, number);
        let opened =
            ubifs::changing(lebs, dump_of, compression, &how.clock).map_err(|error| volume::of(&name, error))?;
        let bad = damage.into_iter().filter(|finding| !finding.is_harmless()).collect();
        let notes = note.into_iter().chain(opened.notes).collect();
        Ok(OpenedForChanges { notes, bad, held, ..opened })
    }
}

/// Ends the changes of a device.
fn dump_of(lebs: WritableLebs<HeldDump>) -> Result<DumpFlash> {
    Ok(lebs.into_device().finish()?.into_dump())
}

/// A volume of a device that is written.
#[derive(Debug)]
struct WritableLebs<F> {
    device: UbiWriter<F>,
    /// The volume's number.
    volume: u32,
}

impl<F: Flash> WritableLebs<F> {
    /// The volume of this number.
    const fn new(device: UbiWriter<F>, volume: u32) -> Self {
        Self { device, volume }
    }

    /// Returns the device.
    fn into_device(self) -> UbiWriter<F> {
        self.device
    }

    fn volume(&self) -> Option<&Volume> {
        self.device.ubi().volumes().iter().find(|volume| volume.number == self.volume)
    }
}

impl<F: Flash> Lebs for WritableLebs<F> {
    fn leb_size(&self) -> u32 {
        self.volume().map_or(0, |volume| volume.leb_size)
    }

    fn leb_count(&self) -> u32 {
        self.volume().map_or(0, |volume| volume.record.reserved_pebs)
    }

    fn mapped(&self) -> u32 {
        self.volume().map_or(0, |volume| volume.mapped() as u32)
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        let gone = || FsError::new(ErrorKind::NotFound, "the volume is gone");
        match self.device.ubi().read_leb(self.volume().ok_or_else(gone)?, Leb(leb), offset, into) {
            // Damaged bytes are delivered: nodes have checksums of their own.
            Err(error) if error.kind == ErrorKind::Corrupt => Ok(()),
            other => other,
        }
    }

    fn writer(&mut self) -> Option<&mut dyn LebWriter> {
        Some(self)
    }
}

impl<F: Flash> LebWriter for WritableLebs<F> {
    fn write(&mut self, leb: u32, offset: u32, data: &[u8]) -> Result<()> {
        self.device.write_leb(self.volume, Leb(leb), offset, data)
    }

    fn change(&mut self, leb: u32, data: &[u8]) -> Result<()> {
        self.device.change_leb(self.volume, Leb(leb), data)
    }

    fn map(&mut self, leb: u32) -> Result<()> {
        self.device.map_leb(self.volume, Leb(leb))
    }

    fn unmap(&mut self, leb: u32) -> Result<()> {
        self.device.unmap_leb(self.volume, Leb(leb))
    }

    fn sync(&mut self) -> Result<()> {
        self.device.sync()
    }
}
