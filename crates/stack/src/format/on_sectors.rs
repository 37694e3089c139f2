//! Volumes on sectors of a dump, open for changes.

use std::sync::{Arc, Mutex, PoisonError};

use nandkit_block::BlockDevice;
use nandkit_flash_image::DumpFlash;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, FsError, Result};

use super::sectors::DumpSectors;
use super::volume::{ChangingVolume, OpenVolume};
use crate::MountedFileSystem;
use crate::device_handle::DeviceHandle;

/// A volume, and the sectors that it works on, which are returned at the end.
pub(super) struct OnSectors<V> {
    volume: V,
    sectors: Arc<Mutex<DumpSectors>>,
}

/// Sectors as a trait object, so that each file system is compiled only once, and as their own
/// type.
pub(super) fn shared(sectors: DumpSectors) -> (Box<dyn BlockDevice>, Arc<Mutex<DumpSectors>>) {
    let sectors = Arc::new(Mutex::new(sectors));
    (Box::new(DeviceHandle::new(Arc::clone(&sectors))), sectors)
}

impl<V> OnSectors<V> {
    /// `volume` holds the other half of [`shared`].
    pub(super) const fn new(volume: V, sectors: Arc<Mutex<DumpSectors>>) -> Self {
        Self { volume, sectors }
    }
}

impl<V: FileSystem> OpenVolume for OnSectors<V> {
    fn fs(&self) -> &dyn FileSystem {
        &self.volume
    }
}

impl<V: MountedFileSystem + Changes> ChangingVolume for OnSectors<V> {
    fn changes(&mut self) -> &mut dyn Changes {
        &mut self.volume
    }

    fn unmount(&mut self) -> Result<()> {
        self.volume.unmount()
    }

    fn finish(mut self: Box<Self>) -> Result<DumpFlash> {
        self.volume.unmount()?;
        let Self { volume, sectors } = *self;
        drop(volume);
        let sectors = Arc::into_inner(sectors);
        let sectors = sectors.map(|sectors| sectors.into_inner().unwrap_or_else(PoisonError::into_inner));
        let sectors = sectors.ok_or_else(|| FsError::new(ErrorKind::Device, "the volume is still in use"))?;
        Ok(sectors.into_dump())
    }
}
