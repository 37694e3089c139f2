//! A volume on an emulated chip whose counters can be read while it is in use.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_flash::Flash;
use nandkit_ubi::write::WriteCounters as UbiCounters;
use nandkit_ubifs::{Ubifs, WriteCounters};
use nandkit_units::{Better, Payload, ReadInto, StatisticDefinition, StatisticValue, Statistics};
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, DirectoryEntry, FileSystem, InodeNumber, Links, NewNode, OpenFiles,
    RenameFlags, Result, Symlinks, VolumeStatus, XattrChanges, Xattrs,
};

use super::ubi_lebs::WritableLebs;
use crate::mounted::MountedFileSystem;

/// A chip as UBI writes it. It is a trait object, so that UBIFS is compiled only once.
pub(super) type Chip = Box<dyn Flash>;

/// The volume of a chip.
pub(super) type ChipLebs = WritableLebs<Chip>;

/// Counters of UBIFS and of the UBI below it, as of the last change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    ubifs: WriteCounters,
    ubi: UbiCounters,
}

/// A count: its name, its unit, which direction is better, what it means, and its value.
type Count = (&'static str, &'static str, Better, &'static str, u64);

impl Counters {
    fn counts(&self) -> [Count; 8] {
        let Self { ubifs, ubi } = *self;
        let (lower, neither) = (Better::Lower, Better::Neither);
        [
            ("commits", "", neither, "commits, each of which writes the changed nodes of the index", ubifs.commits),
            ("collected_lebs", "", lower, "logical erase blocks collected, of files and of the index", ubifs.collected),
            ("moved_bytes", "B", lower, "bytes of nodes that the collector moved", ubifs.moved_bytes),
            ("index_nodes", "", lower, "index nodes written", ubifs.index_nodes),
            (
                "gap_lebs",
                "",
                neither,
                "logical erase blocks of the index that a commit wrote in their gaps, since too few were empty",
                ubifs.gap_lebs,
            ),
            ("ubi_erases", "", lower, "blocks that UBI erased", ubi.erases),
            ("ubi_levelled", "", lower, "logical erase blocks that UBI moved to level wear", ubi.levelled),
            ("ubi_failed", "", lower, "blocks that failed and that UBI marked bad", ubi.failed),
        ]
    }
}

impl Statistics for Counters {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.counts().into_iter().for_each(|(name, .., value)| sink(name, StatisticValue::Count(value)));
    }

    fn definitions() -> Vec<StatisticDefinition> {
        let define = |(name, unit, better, text, _): Count| StatisticDefinition {
            name: name.to_string(),
            unit,
            better,
            text: text.to_string(),
        };
        Self::default().counts().into_iter().map(define).collect()
    }
}

/// A volume that publishes its counters after each change.
pub(super) struct Counted {
    fs: Ubifs,
    published: Arc<Mutex<Counters>>,
}

impl Counted {
    pub fn new(fs: Ubifs) -> Self {
        let counted = Self { fs, published: Arc::default() };
        counted.publish();
        counted
    }

    /// The counters for observers.
    pub fn statistics(&self) -> Arc<dyn Statistics> {
        Arc::clone(&self.published) as Arc<dyn Statistics>
    }

    /// Publishes the counters. Cost: an uncontended lock and a copy.
    fn publish(&self) {
        let ubi = self.fs.lebs().downcast_ref().map(|lebs: &ChipLebs| lebs.device().counters());
        let now = Counters { ubifs: self.fs.write_counters(), ubi: ubi.unwrap_or_default() };
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Ubifs) -> Result<T>) -> Result<T> {
        let result = change(&mut self.fs);
        self.publish();
        result
    }
}

impl MountedFileSystem for Counted {
    fn unmount(&mut self) -> Result<()> {
        // The counters of a volume end with its writer.
        self.change(|fs| if fs.clock().is_some() { fs.sync(None) } else { Ok(()) })?;
        self.fs.unmount()
    }
}

impl FileSystem for Counted {
    fn root(&self) -> InodeNumber {
        self.fs.root()
    }

    fn volume(&self) -> Result<VolumeStatus> {
        self.fs.volume()
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.fs.lookup(directory, name)
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        self.fs.stat(inode)
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.fs.read_dir(directory, cookie, sink)
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        self.fs.read(inode, offset, into)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        self.fs.data_after(inode, offset)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        Some(self)
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        self.fs.symlinks()
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.fs.xattrs()
    }
}

impl Changes for Counted {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        self.change(|fs| fs.create(directory, name, node))
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.change(|fs| fs.write(inode, offset, data))
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        self.change(|fs| fs.set_attributes(inode, change))
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.change(|fs| fs.remove(directory, name))
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        self.change(|fs| fs.rename(from, to, flags))
    }

    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        self.change(|fs| fs.sync(inode))
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        self.fs.open_files()
    }

    fn links(&mut self) -> Option<&mut dyn Links> {
        self.fs.links()
    }

    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        self.fs.xattr_changes()
    }
}
