//! The location of files: runs of clusters.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ExtentKind, FileExtent, Result};

use crate::volume::MountedVolume;

impl<D: BlockDevice> MountedVolume<D> {
    /// The next extent of a file at or after `offset`, up to the end of the cluster that holds its
    /// last byte. Errors: `NotFound`, `IsADirectory`, `Corrupt` (the chain is shorter than the
    /// size), `Device`.
    pub fn extent_after(&mut self, number: u64, offset: u64) -> Result<Option<FileExtent>> {
        let size = u64::from(self.file(number)?.raw.size.get());
        let cluster = u64::from(self.geometry.cluster_size());
        let first = offset / cluster;
        if first >= size.div_ceil(cluster) {
            return Ok(None);
        }
        self.ensure_chain(number)?;
        let (address, run) = self.locate(number, first * cluster)?;
        let count = (run / cluster).min(size.div_ceil(cluster) - first);
        let sector = u64::from(self.sectors.size());
        let waiting = self.sectors.waits_after(address / sector, count * cluster / sector);
        let (kind, count) = match waiting.map(|lba| (lba * sector - address) / cluster) {
            Some(0) => (ExtentKind::Delayed, 1),
            Some(before) => (ExtentKind::Written, before),
            None => (ExtentKind::Written, count),
        };
        let address = Some(address).filter(|_| kind == ExtentKind::Written);
        Ok(Some(FileExtent { offset: first * cluster, length: count * cluster, address, kind }))
    }
}
