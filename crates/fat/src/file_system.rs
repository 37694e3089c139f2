//! The file-system contract on top of a volume.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_block::BlockDevice;
use nandkit_units::{Clock, Payload, ReadInto};
use nandkit_vfs::{
    Allocation, AttributeChange, Attributes, Changes, DirectoryEntry, ErrorKind, Extents, Features, FileExtent,
    FileSystem, InodeNumber, NewNode, OpenFiles, RenameFlags, Result, VolumeStatus,
};

use crate::bpb::Geometry;
use crate::deleted::DeletedEntry;
use crate::inode::ROOT;
use crate::layout::FILE_SIZE_MAX;
use crate::names::NAME_MAX;
use crate::options::MountOptions;
use crate::recover::RecoveryReport;
use crate::volume::MountedVolume;

/// Directory entries copied per step of a listing.
const LISTING_PART: usize = 128;

/// A mounted FAT volume.
///
/// Inode numbers are valid from mount to unmount. A lock serializes reads, because they fill the
/// sector cache and the indexes.
#[derive(Debug)]
pub struct Fat<D> {
    volume: Mutex<MountedVolume<D>>,
    recovery: Option<RecoveryReport>,
}

impl<D: BlockDevice> Fat<D> {
    /// Mounts a volume. A volume that was not unmounted is repaired first, unless mounted
    /// read-only.
    ///
    /// Errors: `Corrupt` (what and where), `NotSupported` (the volume's sectors are smaller than
    /// the device's), `Device`. Cost: reads the FAT once; a repair reads every directory.
    pub fn mount(device: D, clock: Clock, options: MountOptions) -> Result<Self> {
        let (volume, recovery) = MountedVolume::mount(device, clock, options)?;
        Ok(Self { volume: Mutex::new(volume), recovery })
    }

    fn volume(&self) -> MutexGuard<'_, MountedVolume<D>> {
        self.volume.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn volume_mut(&mut self) -> &mut MountedVolume<D> {
        self.volume.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes everything durable and marks the volume as clean: the next mount needs no repair. The
    /// volume remains usable; the next change marks it as in use again. Retained files without a
    /// name are freed.
    pub fn unmount(&mut self) -> Result<()> {
        self.volume_mut().unmount()
    }

    /// Returns the device as it is: without [`Fat::unmount`], changes in memory are lost as in a
    /// power cut.
    pub fn into_device(self) -> D {
        self.volume.into_inner().unwrap_or_else(PoisonError::into_inner).sectors.into_device()
    }

    /// Calls `look` with the device below.
    pub fn with_device<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(self.volume().sectors.device())
    }

    /// The device below. Writing to the volume's sectors directly damages the file system.
    pub fn device_mut(&mut self) -> &mut D {
        self.volume_mut().sectors.device_mut()
    }

    /// The clock that provides time stamps, and that device operations advance.
    pub fn clock(&self) -> Clock {
        self.volume().sectors.clock().clone()
    }

    /// The layout of the volume.
    pub fn geometry(&self) -> Geometry {
        self.volume().geometry.clone()
    }

    /// The label; empty if there is none.
    pub fn label(&self) -> Result<String> {
        self.volume().label()
    }

    /// Deleted entries, with the amount of their content in free clusters. Errors: `Device`. Cost:
    /// reads all directories and the FAT once.
    pub fn deleted(&self) -> Result<Vec<DeletedEntry>> {
        self.volume().deleted()
    }

    /// The readable beginning of a deleted file. Errors: `InvalidArgument` (a directory),
    /// `FileTooBig` (more than [`crate::CONTENT_MAX`] bytes), `Device`.
    pub fn deleted_content(&self, entry: &DeletedEntry) -> Result<Vec<u8>> {
        self.volume().deleted_content(entry)
    }

    /// The path of an existing inode without a leading `/`; `None` if it has none.
    pub fn path_of(&self, inode: InodeNumber) -> Option<String> {
        self.volume().path_of(inode.0)
    }

    /// The repairs made at mount; `None` if the volume had been unmounted.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.as_ref()
    }
}

impl<D: BlockDevice> FileSystem for Fat<D> {
    fn root(&self) -> InodeNumber {
        InodeNumber(ROOT)
    }

    fn volume(&self) -> Result<VolumeStatus> {
        let volume = self.volume();
        Ok(VolumeStatus {
            block_size: volume.geometry.cluster_size(),
            blocks: u64::from(volume.usable_clusters()),
            blocks_free: u64::from(volume.free_clusters().saturating_sub(volume.preallocated.to_others(None))),
            inodes: 0,
            inodes_free: 0,
            // Each UTF-16 unit takes up to three bytes of UTF-8.
            name_max: NAME_MAX as u32 * 3,
            file_size_max: FILE_SIZE_MAX,
            features: Features { modified_step_ns: 2_000_000_000, ..Features::default() },
        })
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.volume().lookup(directory.0, name).map(|(_, inode)| InodeNumber(inode))
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        self.volume().attributes(inode.0)
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        // A cookie is the entry's slot plus one. The lock is not held while `sink` runs, so that it
        // may use the file system.
        let mut from = u32::try_from(cookie).unwrap_or(u32::MAX);
        loop {
            let mut volume = self.volume();
            let part = volume.directory(directory.0)?.entries.range(from..).take(LISTING_PART);
            let part: Vec<_> = part.map(|(&slot, entry)| (slot, entry.clone())).collect();
            let kinds = part.iter().map(|(_, entry)| volume.inode(entry.inode).map(|inode| inode.kind()));
            let kinds: Vec<_> = kinds.collect::<Result<_>>()?;
            drop(volume);
            if part.is_empty() {
                return Ok(());
            }
            for ((slot, entry), kind) in part.into_iter().zip(kinds) {
                from = slot.saturating_add(1);
                let shown = DirectoryEntry {
                    name: entry.name.as_bytes(),
                    inode: InodeNumber(entry.inode),
                    kind,
                    cookie: u64::from(from),
                };
                if sink(shown).is_break() {
                    return Ok(());
                }
            }
        }
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        self.volume().read_file(inode.0, offset, into)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        if self.volume_mut().options.read_only { None } else { Some(self) }
    }

    fn extents(&self) -> Option<&dyn Extents> {
        Some(self)
    }
}

impl<D: BlockDevice> Extents for Fat<D> {
    fn extent_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<FileExtent>> {
        self.volume().extent_after(inode.0, offset)
    }
}

impl<D: BlockDevice> Changes for Fat<D> {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        self.volume_mut().change(|volume| volume.create(directory.0, name, node)).map(InodeNumber)
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.volume_mut().change(|volume| volume.write_file(inode.0, offset, data))
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        self.volume_mut().change(|volume| {
            volume.set_attributes(inode.0, change)?;
            volume.attributes(inode.0)
        })
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.volume_mut().change(|volume| volume.remove(directory.0, name))
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        self.volume_mut().change(|volume| volume.rename((from.0.0, from.1), (to.0.0, to.1), flags))
    }

    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        // A caller that asks for durability must learn that there is none, not that the volume is
        // read-only.
        self.volume_mut().expect_whole(ErrorKind::Device)?;
        self.volume_mut().change(|volume| {
            let Some(inode) = inode else { return volume.sync() };
            volume.inode(inode.0)?;
            volume.sync_file(inode.0)
        })
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        Some(self)
    }

    fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        Some(self)
    }
}

impl<D: BlockDevice> Allocation for Fat<D> {
    fn allocate(&mut self, inode: InodeNumber, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        self.volume_mut().change(|volume| volume.preallocate(inode.0, offset, length, keep_size))
    }
}

impl<D: BlockDevice> OpenFiles for Fat<D> {
    fn retain(&mut self, inode: InodeNumber) -> Result<()> {
        let inode = self.volume_mut().inode_mut(inode.0)?;
        inode.retained = inode.retained.saturating_add(1);
        Ok(())
    }

    fn release(&mut self, inode: InodeNumber) -> Result<()> {
        let count = &mut self.volume_mut().inode_mut(inode.0)?.retained;
        *count = count.saturating_sub(1);
        self.volume_mut().change(|volume| volume.drop_if_unused(inode.0))
    }
}
