//! A RAM block device and a file system, both with stated times.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Result, Trim};
use nandkit_units::{Clock, Content, Context, Done, Lba, Nanos, Payload, ReadInto};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, DirectoryEntry, FileSystem, InodeNumber, NewNode, RenameFlags, VolumeStatus,
};
use nandkit_workload::Progress;

pub fn keep_going(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Keeps each sector's bytes; each operation takes 10 us on one of `servers` servers.
pub struct RamDevice {
    pub geometry: BlockGeometry,
    pub sectors: BTreeMap<u64, Vec<u8>>,
    servers: Mutex<Vec<Nanos>>,
    pub writes: Vec<(u64, usize)>,
}

pub const SERVICE: Nanos = Nanos(10_000);

impl RamDevice {
    pub fn new(sector_size: u32, sectors: u64, servers: usize) -> Self {
        let geometry = BlockGeometry { sector_size, sectors, preferred_size: sector_size, recycling_size: 0 };
        Self { geometry, sectors: BTreeMap::new(), servers: Mutex::new(vec![Nanos::ZERO; servers]), writes: Vec::new() }
    }

    fn serve(&self, context: &Context) -> Done {
        let mut servers = self.servers.lock().unwrap();
        let free = servers.iter_mut().min().unwrap();
        *free = (*free).max(context.issued) + SERVICE;
        Done { completed: *free, busy: SERVICE, corrected_bits: 0 }
    }

    fn check(&self, operation: Operation, at: Lba, bytes: usize) -> Result<()> {
        if self.geometry.holds(at, bytes) {
            return Ok(());
        }
        Err(BlockError::new(ErrorKind::OutOfRange, operation, at, "outside"))
    }
}

impl BlockDevice for RamDevice {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, mut into: ReadInto<'_>) -> Result<Done> {
        self.check(Operation::Read, at, into.len())?;
        let size = self.geometry.sector_size as usize;
        let mut bytes = vec![0; into.len()];
        for (sector, chunk) in bytes.chunks_mut(size).enumerate() {
            if let Some(stored) = self.sectors.get(&(at.0 + sector as u64)) {
                chunk.copy_from_slice(stored);
            }
        }
        into.deliver(Payload::Bytes(&bytes));
        Ok(self.serve(context))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.check(Operation::Write, at, data.len())?;
        self.writes.push((at.0, data.len()));
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        for (sector, chunk) in bytes.chunks(self.geometry.sector_size as usize).enumerate() {
            self.sectors.insert(at.0 + sector as u64, chunk.to_vec());
        }
        Ok(self.serve(context))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        Ok(self.serve(context))
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        Some(self)
    }
}

impl Trim for RamDevice {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        (at.0..at.0 + sectors).for_each(|sector| {
            self.sectors.remove(&sector);
        });
        Ok(self.serve(context))
    }
}

/// The model file system, on which each write takes 1 ms and each other change 1 us.
pub struct SlowFileSystem {
    pub model: ModelFileSystem,
    pub clock: Clock,
    /// Flips a bit of every read that covers byte 0 of a file, when set.
    pub corrupts_reads: bool,
    /// The longest read or write that it was asked for.
    pub longest: AtomicUsize,
}

impl SlowFileSystem {
    pub fn new() -> Self {
        let clock = Clock::default();
        Self {
            model: ModelFileSystem::new(ModelOptions::POSIX, clock.clone()),
            clock,
            corrupts_reads: false,
            longest: 0.into(),
        }
    }

    fn pass(&self, span: Nanos) {
        self.clock.advance_by(span);
    }

    fn inner(&mut self) -> &mut dyn Changes {
        self.clock.advance_by(Nanos::from_micros(1));
        self.model.changes().unwrap()
    }

    pub fn free_bytes(&self) -> u64 {
        let volume = self.volume().unwrap();
        volume.blocks_free * u64::from(volume.block_size)
    }
}

type FsResult<T> = nandkit_vfs::Result<T>;

impl FileSystem for SlowFileSystem {
    fn root(&self) -> InodeNumber {
        self.model.root()
    }
    fn volume(&self) -> FsResult<VolumeStatus> {
        self.model.volume()
    }
    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> FsResult<InodeNumber> {
        self.model.lookup(directory, name)
    }
    fn stat(&self, inode: InodeNumber) -> FsResult<Attributes> {
        self.model.stat(inode)
    }
    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> FsResult<()> {
        self.model.read_dir(directory, cookie, sink)
    }
    fn read(&self, inode: InodeNumber, offset: u64, mut into: ReadInto<'_>) -> FsResult<usize> {
        self.pass(Nanos::from_micros(100));
        self.longest.fetch_max(into.len(), Ordering::Relaxed);
        let length = u32::try_from(into.len()).unwrap();
        let mut content = Content::new();
        let read = self.model.read(inode, offset, ReadInto::Content { content: &mut content, length })?;
        let bytes = content.to_bytes();
        if self.corrupts_reads && offset == 0 && read > 0 {
            bytes[0] ^= 1;
        }
        if let ReadInto::Bytes(target) = &mut into {
            let there = read.min(target.len()).min(bytes.len());
            target[..there].copy_from_slice(&bytes[..there]);
        }
        Ok(read)
    }
    fn changes(&mut self) -> Option<&mut dyn Changes> {
        Some(self)
    }
}

impl Changes for SlowFileSystem {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> FsResult<InodeNumber> {
        self.inner().create(directory, name, node)
    }
    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> FsResult<usize> {
        self.pass(Nanos::from_millis(1));
        self.longest.fetch_max(data.len(), Ordering::Relaxed);
        self.model.changes().unwrap().write(inode, offset, data)
    }
    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> FsResult<Attributes> {
        self.inner().set_attributes(inode, change)
    }
    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> FsResult<()> {
        self.inner().remove(directory, name)
    }
    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> FsResult<()> {
        self.inner().rename(from, to, flags)
    }
    fn sync(&mut self, inode: Option<InodeNumber>) -> FsResult<()> {
        self.inner().sync(inode)
    }
}
