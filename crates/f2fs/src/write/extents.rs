//! Extents of files that are being changed: dirty pages have no location yet.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, ExtentKind, FileExtent, FsError, Result};

use super::WritableVolume;
use crate::blocks::Blocks;
use crate::extents::on_device;
use crate::inode::Inode;

impl<D: BlockDevice> WritableVolume<D> {
    /// The next extent, according to memory and device. Errors: `NotSupported` (a draft or a device
    /// alias), `Corrupt`, `Device`.
    pub(crate) fn extent_now(&self, inode: &Inode, offset: u64) -> Result<Option<FileExtent>> {
        if self.drafted(inode.nid).is_some() {
            let detail = format!("inode {} is a draft: a part of its content is another file's", inode.nid.0);
            return Err(FsError::new(ErrorKind::NotSupported, detail));
        }
        let found = on_device(self, inode, offset)?;
        if inode.inline_data().is_some() {
            let waits = self.nodes.is_dirty(inode.nid);
            return Ok(found.map(|found| FileExtent { address: found.address.filter(|_| !waits), ..found }));
        }
        if inode.is_compressed() {
            return Ok(found);
        }
        let size = Blocks::geometry(self).block_size() as u64;
        let first = u32::try_from(offset / size).unwrap_or(u32::MAX);
        let pages = self.writer.locked_pages();
        let mut changed = pages.dirty_pages(inode.nid, first);
        let Some(start) = changed.next().map(|(page, ..)| u64::from(page)) else { return Ok(found) };
        match found {
            Some(found) if found.offset < start * size => {
                Ok(Some(FileExtent { length: found.length.min(start * size - found.offset), ..found }))
            }
            _ => {
                let more = changed.zip(start + 1..).take_while(|((page, ..), next)| u64::from(*page) == *next).count();
                let length = (1 + more as u64) * size;
                Ok(Some(FileExtent { offset: start * size, length, address: None, kind: ExtentKind::Delayed }))
            }
        }
    }
}
