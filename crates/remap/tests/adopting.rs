//! The model file system with a device that remaps, as far as callers see it: places are copied.

use std::ops::{ControlFlow, Range};

use nandkit_units::{Clock, Nanos, Payload, ReadInto};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
use nandkit_vfs::{
    Adopt, AdoptedRange, AttributeChange, Attributes, Changes, DirectoryEntry, ErrorKind, ExtentKind, Extents,
    FileExtent, FileSystem, FsError, InodeNumber, NewNode, OpenFiles, RenameFlags, Result, VolumeStatus,
};

/// Bytes of a unit.
pub const UNIT: u64 = 4096;

/// Files up to this size have no unit of their own.
pub const INLINE_MAX: u64 = 3000;

pub struct Adopting {
    model: ModelFileSystem,
    clock: Clock,
    /// Bytes that may be shared at once, and those that are.
    pub room: u64,
    shared: u64,
    /// Reads of each file, by inode.
    pub reads: std::sync::Mutex<Vec<InodeNumber>>,
}

impl Adopting {
    pub fn new(room: u64) -> Self {
        let clock = Clock::default();
        let model = ModelFileSystem::new(ModelOptions::POSIX, clock.clone());
        Self { model, clock, room, shared: 0, reads: std::sync::Mutex::default() }
    }

    pub fn file(&mut self, name: &str, content: &[u8]) -> InodeNumber {
        let root = self.root();
        let inode = self.create(root, name.as_bytes(), &NewNode::FILE).unwrap();
        assert_eq!(Changes::write(self, inode, 0, Payload::Bytes(content)).unwrap(), content.len());
        inode
    }

    pub fn content(&self, inode: InodeNumber) -> Vec<u8> {
        let mut bytes = vec![0; self.model.stat(inode).unwrap().size as usize];
        self.model.read(inode, 0, ReadInto::Bytes(&mut bytes)).unwrap();
        bytes
    }

    pub fn names(&self) -> usize {
        let mut names = 0;
        let count = &mut |_: DirectoryEntry<'_>| {
            names += 1;
            ControlFlow::Continue(())
        };
        self.model.read_dir(self.model.root(), 0, count).unwrap();
        names
    }

    /// The writing side; each change is at a time of its own.
    fn inner(&mut self) -> &mut dyn Changes {
        self.clock.advance_to(Nanos(self.clock.now().0 + 1));
        self.model.changes().expect("the model can be changed")
    }
}

impl FileSystem for Adopting {
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
        self.reads.lock().unwrap().push(inode);
        self.model.read(inode, offset, into)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        self.model.data_after(inode, offset)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        Some(self)
    }

    fn extents(&self) -> Option<&dyn Extents> {
        Some(self)
    }
}

impl Extents for Adopting {
    fn extent_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<FileExtent>> {
        let size = self.model.stat(inode)?.size;
        if size <= INLINE_MAX {
            let rest =
                FileExtent { offset, length: size.saturating_sub(offset), address: None, kind: ExtentKind::Inline };
            return Ok((offset < size).then_some(rest));
        }
        let Some(data) = self.model.data_after(inode, offset)? else { return Ok(None) };
        let (start, end) = (data.start - data.start % UNIT, data.end.next_multiple_of(UNIT));
        Ok(Some(FileExtent { offset: start, length: end - start, address: Some(start), kind: ExtentKind::Written }))
    }
}

impl Changes for Adopting {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        self.inner().create(directory, name, node)
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.inner().write(inode, offset, data)
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        self.inner().set_attributes(inode, change)
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.inner().remove(directory, name)
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        self.inner().rename(from, to, flags)
    }

    /// What was cut off is room again only now, as behind a checkpoint.
    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        self.shared = 0;
        self.inner().sync(inode)
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        self.inner().open_files()
    }

    fn adopt(&mut self) -> Option<&mut dyn Adopt> {
        Some(self)
    }
}

impl Adopt for Adopting {
    fn unit(&mut self) -> u32 {
        UNIT as u32
    }

    fn adopt(&mut self, target: InodeNumber, places: &[AdoptedRange]) -> Result<()> {
        let wanted: u64 = places.iter().map(|place| place.length).sum();
        if self.shared + wanted > self.room {
            return Err(FsError::new(ErrorKind::NoSpace, "no room in the device's list"));
        }
        for place in places {
            let size = self.model.stat(place.source)?.size;
            assert!(size > INLINE_MAX, "a place of a file without units");
            assert!(place.offset % UNIT == 0 && place.source_offset % UNIT == 0 && place.length % UNIT == 0);
            assert!(place.source_offset + place.length <= size.next_multiple_of(UNIT), "behind the end: {place:?}");
        }
        self.shared += wanted;
        for place in places {
            let mut bytes = vec![0; place.length as usize];
            self.model.read(place.source, place.source_offset, ReadInto::Bytes(&mut bytes))?;
            self.inner().write(target, place.offset, Payload::Bytes(&bytes))?;
        }
        Ok(())
    }
}
