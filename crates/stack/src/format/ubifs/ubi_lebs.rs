//! A volume of a UBI device as LEBs that UBIFS reads and writes.

use nandkit_flash::Flash;
use nandkit_ubi::write::UbiWriter;
use nandkit_ubi::{Leb, Ubi, Volume};
use nandkit_ubifs::{LebWriter, Lebs};
use nandkit_units::Cause;
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

    fn view(&self) -> VolumeView<'_, F> {
        let device = self.device.ubi();
        VolumeView { device, volume: device.volumes().iter().find(|volume| volume.number == self.volume) }
    }
}

/// A volume of an attached device, as who reads its LEBs sees it.
pub(in crate::format) struct VolumeView<'a, F> {
    /// The device.
    pub device: &'a Ubi<F>,
    /// The volume; `None` if it is gone.
    pub volume: Option<&'a Volume>,
}

impl<F: Flash> VolumeView<'_, F> {
    /// Bytes per LEB.
    pub fn leb_size(&self) -> u32 {
        self.volume.map_or(0, |volume| volume.leb_size)
    }

    /// Number of LEBs.
    pub fn leb_count(&self) -> u32 {
        self.volume.map_or(0, |volume| volume.record.reserved_pebs)
    }

    /// Number of LEBs that are mapped.
    pub fn mapped(&self) -> u32 {
        self.volume.map_or(0, |volume| volume.mapped() as u32)
    }

    /// Reads bytes of a LEB. Damaged ones are delivered: nodes have checksums of their own.
    pub fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        let gone = || FsError::new(ErrorKind::NotFound, "the volume is gone");
        match self.device.read_leb(self.volume.ok_or_else(gone)?, Leb(leb), offset, into) {
            Err(error) if error.kind == ErrorKind::Corrupt => Ok(()),
            other => other,
        }
    }
}

impl<F: Flash + 'static> Lebs for WritableLebs<F> {
    fn leb_size(&self) -> u32 {
        self.view().leb_size()
    }

    fn leb_count(&self) -> u32 {
        self.view().leb_count()
    }

    fn mapped(&self) -> u32 {
        self.view().mapped()
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        self.view().read(leb, offset, into)
    }

    fn writer(&mut self) -> Option<&mut dyn LebWriter> {
        Some(self)
    }
}

impl<F: Flash + 'static> LebWriter for WritableLebs<F> {
    fn set_cause(&mut self, cause: Cause) {
        self.device.set_cause(cause);
    }

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
