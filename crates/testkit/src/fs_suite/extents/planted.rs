//! File systems with faulty extents, which the suite must find.

use std::ops::{ControlFlow, Range};

use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, ExtentKind, Extents, FileExtent, FileSystem, FsError, InodeNumber,
    Result, Symlinks, VolumeStatus,
};

use super::super::{FsMaker, ModelMaker, VolumeSize};
use super::DeviceMaker;

/// The fault of the extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentFault {
    /// Asked for in the middle of an extent, the second half of the rest is left out.
    MiddleMissed,
    /// Data at the end of a file are in no extent.
    LastMissed,
    /// A hole is in an extent.
    HoleCovered,
    /// Every address is that of the following block.
    AddressOff,
    /// Only a sync has newer bytes where the address says.
    OldAddress,
    /// Data are called allocated and not written.
    DataUnwritten,
    /// The same extent is returned again and again, a little shorter.
    Overlaps,
    /// A directory has no extents, and no error.
    DirectoriesEmpty,
    /// There is always one more extent after the end.
    Endless,
    /// An extent has no bytes.
    NoLength,
    /// Delayed data have an address.
    DelayedWithAddress,
}

impl ExtentFault {
    /// All faults, each with the check that must find it.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::MiddleMissed, "pieces"),
        (Self::LastMissed, "pieces"),
        (Self::HoleCovered, "holes"),
        (Self::AddressOff, "pieces"),
        (Self::OldAddress, "changes"),
        (Self::DataUnwritten, "pieces"),
        (Self::Overlaps, "pieces"),
        (Self::DirectoriesEmpty, "refusals"),
        (Self::Endless, "refusals"),
        (Self::NoLength, "pieces"),
        (Self::DelayedWithAddress, "pieces"),
    ];
}

const BLOCK: u64 = 4096;
/// Bytes of the device for each inode.
const PER_INODE: u64 = 1 << 40;

/// The model file system with places for its bytes, and a fault. The device is what a clean copy of
/// the model holds: that of the last sync for [`ExtentFault::OldAddress`].
#[derive(Clone, Debug)]
pub struct Planted {
    model: ModelFileSystem,
    fault: Option<ExtentFault>,
    /// The model at the time of the first question.
    old: std::sync::Arc<std::sync::Mutex<Option<ModelFileSystem>>>,
}

/// Makes file systems with a fault.
#[derive(Clone, Copy, Debug)]
pub struct PlantedMaker {
    /// The planted fault; `None` for none.
    pub fault: Option<ExtentFault>,
}

impl FsMaker for PlantedMaker {
    type Fs = Planted;

    fn make(&self, volume: VolumeSize) -> Planted {
        let model = ModelMaker(ModelOptions::POSIX).make(volume);
        Planted { model, fault: self.fault, old: Default::default() }
    }

    fn remount(&self, mut fs: Planted) -> Planted {
        fs.model.remount();
        fs
    }

    fn clock(&self, fs: &Planted) -> Clock {
        fs.model.clock().clone()
    }
}

impl DeviceMaker for PlantedMaker {
    fn read_device(&self, fs: &Planted, address: u64, into: &mut [u8]) -> std::result::Result<(), String> {
        let mut old = fs.old.lock().map_err(|error| error.to_string())?;
        let old = old.get_or_insert_with(|| fs.model.clone());
        let model = if self.fault == Some(ExtentFault::OldAddress) { old } else { &fs.model };
        into.fill(0);
        let (inode, offset) = (InodeNumber(address / PER_INODE), address % PER_INODE);
        model.read(inode, offset, ReadInto::Bytes(into)).map(drop).map_err(|error| error.to_string())
    }
}

impl Extents for Planted {
    fn extent_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<FileExtent>> {
        use ExtentFault as Fault;
        let is_directory =
            |error: &FsError| self.fault == Some(Fault::DirectoriesEmpty) && error.kind == ErrorKind::IsADirectory;
        let data = match self.model.data_after(inode, offset / BLOCK * BLOCK) {
            Err(error) if is_directory(&error) => return Ok(None),
            data => data?,
        };
        let size = self.model.stat(inode)?.size;
        let of = |range: Range<u64>, address: u64, kind| FileExtent {
            offset: range.start,
            length: range.end - range.start,
            address: Some(inode.0 * PER_INODE + address),
            kind,
        };
        let Some(data) = data else {
            let more = self.fault == Some(Fault::Endless);
            return Ok(more.then(|| of(offset..offset.saturating_add(BLOCK), 0, ExtentKind::Unwritten)));
        };
        let start = data.start / BLOCK * BLOCK;
        let end = data.end.next_multiple_of(BLOCK);
        let whole = of(start..end, start, ExtentKind::Written);
        Ok(Some(match self.fault {
            Some(Fault::MiddleMissed) if offset > start => of(end..end + BLOCK, end, ExtentKind::Unwritten),
            Some(Fault::LastMissed) if data.end == size && size > 60 => return Ok(None),
            Some(Fault::HoleCovered) => of(offset / BLOCK * BLOCK..end, offset / BLOCK * BLOCK, ExtentKind::Written),
            Some(Fault::AddressOff) => of(start..end, start + BLOCK, ExtentKind::Written),
            Some(Fault::DataUnwritten) => of(start..end, start, ExtentKind::Unwritten),
            Some(Fault::Overlaps) => of(start.saturating_sub(BLOCK)..end, start, ExtentKind::Written),
            Some(Fault::NoLength) => of(start..start, start, ExtentKind::Written),
            Some(Fault::DelayedWithAddress) => of(start..end, start, ExtentKind::Delayed),
            _ => whole,
        }))
    }
}

impl FileSystem for Planted {
    fn root(&self) -> InodeNumber {
        self.model.root()
    }

    fn volume(&self) -> Result<VolumeStatus> {
        self.model.volume()
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.model.lookup(directory, name)
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        self.model.stat(inode)
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.model.read_dir(directory, cookie, sink)
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        self.model.read(inode, offset, into)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        self.model.data_after(inode, offset)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        self.model.changes()
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        self.model.symlinks()
    }

    fn extents(&self) -> Option<&dyn Extents> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs_suite::extents::{CHECK_NAMES, run};

    #[test]
    fn what_is_right_passes() {
        run(&PlantedMaker { fault: None }).unwrap();
    }

    #[test]
    fn every_fault_is_found_and_every_check_finds_one() {
        for (fault, check) in ExtentFault::ALL {
            let found = run(&PlantedMaker { fault: Some(fault) }).expect_err("a fault was planted");
            assert!(found.has(check), "{fault:?}: {found}");
        }
        // The checks of holes and pieces find wrong preallocated space, too; no fault is for it
        // alone.
        let with: Vec<_> = ExtentFault::ALL.iter().map(|(_, check)| *check).collect();
        let without: Vec<_> = CHECK_NAMES.into_iter().filter(|name| !with.contains(name)).collect();
        assert_eq!(without, ["allocated"]);
    }
}
