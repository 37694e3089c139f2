//! A volume of a UBI device as LEBs that UBIFS writes.

use nandkit_flash::Flash;
use nandkit_ubi::write::UbiWriter;
use nandkit_ubi::{Leb, Volume};
use nandkit_ubifs::{LebWriter, Lebs};
use nandkit_vfs::{ErrorKind, FsError, Result};

/// A volume of a device that is written.
#[derive(Debug)]
pub(in crate::format) struct WritableLebs<F> {
    device: UbiWriter<F>,
    /// The volume's number.
    volume: u32,
}

impl<F: Flash> WritableLebs<F> {
    /// The volume of this number.
    pub const fn new(device: UbiWriter<F>, volume: u32) -> Self {
        Self { device, volume }
    }

    /// The device.
    pub const fn device(&self) -> &UbiWriter<F> {
        &self.device
    }

    /// Returns the device.
    pub fn into_device(self) -> UbiWriter<F> {
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
