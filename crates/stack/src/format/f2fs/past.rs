//! Deleted files of F2FS whose blocks are still free. The first query scans the whole volume.

use std::sync::OnceLock;

use nandkit_f2fs::{Blocks as _, NodeId, RescuedVolume};
use nandkit_vfs::{FsError, Result};

use super::readers::{Reader, SharedDump, boxed};
use crate::device_handle::DeviceHandle;
use crate::format::clock_at;

/// A device for the scan.
#[derive(Clone)]
pub(crate) enum PastDevice {
    /// A part of an image.
    Dump(SharedDump),
    /// A device in memory.
    Memory(DeviceHandle),
}

/// The deleted files found by a scan of the volume.
pub(crate) struct Past {
    devices: Vec<PastDevice>,
    found: OnceLock<std::result::Result<RescuedVolume<Reader>, FsError>>,
}

impl Past {
    /// Prepares a scan of these devices. Nothing is read yet.
    pub fn new(devices: Vec<PastDevice>) -> Self {
        Self { devices, found: OnceLock::new() }
    }

    /// All files whose nodes are found. Errors: those of the scan. Cost: the first call reads the
    /// whole volume.
    pub fn found(&self) -> Result<&RescuedVolume<Reader>> {
        let found = self.found.get_or_init(|| {
            let open = |device: &PastDevice| match device {
                PastDevice::Dump(dump) => boxed(dump.clone()),
                PastDevice::Memory(device) => boxed(device.clone()),
            };
            RescuedVolume::find(self.devices.iter().map(open).collect(), clock_at(0))
        });
        found.as_ref().map_err(|error| FsError::new(error.kind, error.detail.clone()))
    }
}

/// The path of an existing directory, without a leading `/`; `None` if it is not a directory or not
/// connected to the root.
pub(super) fn path_of(volume: &nandkit_f2fs::F2fs<Reader>, directory: NodeId) -> Option<Vec<u8>> {
    const DEPTH_MAX: usize = 4096;
    let (mut names, mut at) = (Vec::new(), directory);
    for _ in 0..DEPTH_MAX {
        if at == NodeId::ROOT {
            names.reverse();
            return Some(names.join(&b'/'));
        }
        volume.geometry().nat_block(at)?;
        let inode = volume.inode_at(at).ok()?;
        if inode.kind != nandkit_vfs::FileKind::Directory {
            return None;
        }
        names.push(inode.head.name()?.to_vec());
        at = NodeId(inode.head.parent.get());
    }
    None
}
