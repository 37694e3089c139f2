//! Volumes in memory, and the programs that judge them: fsck.vfat and mkfs.vfat (Debian package
//! dosfstools), mtools.

pub mod judges;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_block::RamDevice;
use nandkit_codec::code_page::CodePage;
use nandkit_fat::{Cache, Fat, FatKind, FormatOptions, MountOptions, format};
use nandkit_testkit::judges::{ToolOutput, tool};
use nandkit_units::{Clock, Context, Lba, Payload, ReadInto};
use nandkit_vfs::{FileSystem, InodeNumber};

/// The date 2001-09-09, which FAT can represent.
pub fn clock() -> Clock {
    Clock::starting_at(1_000_000_000_000_000_000)
}

/// A write-back cache, as on a system with some memory.
pub const WRITE_BACK: MountOptions = MountOptions {
    cache: Cache::Sectors {
        sectors: 256,
        write_back: nandkit_fat::WriteBack::Back { dirty_limit: 64, age_limit: nandkit_units::Nanos::from_secs(5) },
        data: true,
    },
    barriers: true,
    file_sync: nandkit_fat::FileSync::Everything,
    read_only: false,
    code_page: CodePage::CP437,
};

pub const WRITE_THROUGH: MountOptions = MountOptions { cache: Cache::None, ..WRITE_BACK };

pub fn ram(sector_size: u32, bytes: u64) -> RamDevice {
    RamDevice::with_sectors(sector_size, bytes / u64::from(sector_size)).unwrap()
}

/// A formatted device.
pub fn volume(kind: FatKind, sector_size: u32, cluster_size: Option<u32>, bytes: u64) -> RamDevice {
    let mut device = ram(sector_size, bytes);
    let options = FormatOptions { kind: Some(kind), cluster_size, volume_id: 0x1234_5678, ..FormatOptions::default() };
    format(&mut device, &clock(), &options).unwrap();
    device
}

pub fn mount<D: BlockDevice>(device: D, options: MountOptions) -> Fat<D> {
    Fat::mount(device, clock(), options).unwrap()
}

/// Runs a program; one that is not installed fails the test with its Debian package.
pub fn run(package: &str, program: &str, arguments: &[&str]) -> ToolOutput {
    tool(package, program, arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// A device with a file's content.
pub fn from_file(path: &Path, sector_size: u32) -> RamDevice {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    let mut device = ram(sector_size, bytes.len() as u64);
    for (lba, part) in bytes.chunks(sector_size as usize).enumerate() {
        if !nandkit_units::is_zeroed(part) {
            device.write(&Context::default(), Lba(lba as u64), Payload::Bytes(part)).unwrap();
        }
    }
    device
}

pub fn bytes_of(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    nandkit_units::random::Random::new(seed, "content").fill(&mut bytes);
    bytes
}

pub fn write_all<D: BlockDevice>(fat: &mut Fat<D>, inode: InodeNumber, offset: u64, bytes: &[u8]) {
    let taken = fat.changes().unwrap().write(inode, offset, Payload::Bytes(bytes)).unwrap();
    assert_eq!(taken, bytes.len());
}

pub fn read_all<D: BlockDevice>(fat: &Fat<D>, inode: InodeNumber) -> Vec<u8> {
    let mut bytes = vec![0; fat.stat(inode).unwrap().size as usize];
    let length = fat.read(inode, 0, ReadInto::Bytes(&mut bytes)).unwrap();
    assert_eq!(length, bytes.len());
    bytes
}
