//! Devices in files: locks, refusals, and the state after reopening.

use nandkit_block::{Access, BlockDevice, BlockGeometry, ErrorKind, Extent, FileDevice, JournalledFile};
use nandkit_units::{Context, Lba, Payload, ReadInto};
use tempfile::TempDir;

fn geometry() -> BlockGeometry {
    BlockGeometry { sector_size: 512, sectors: 16, preferred_size: 4096, recycling_size: 8192 }
}

fn first_byte(device: &impl BlockDevice) -> u8 {
    let mut bytes = [0; 512];
    device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).unwrap();
    bytes[0]
}

#[test]
fn a_second_writer_is_refused_and_readers_share() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("device");
    let open = |access| JournalledFile::open(&path, access);
    let device = JournalledFile::create(&path, geometry()).unwrap();
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let error = open(access).unwrap_err();
        assert!(error.kind == ErrorKind::Io && error.to_string().contains("in use"), "{error}");
        assert_eq!(FileDevice::open(&path, 512, access).unwrap_err().kind, ErrorKind::Io);
    }
    drop(device);
    let readers = (open(Access::ReadOnly).unwrap(), open(Access::ReadOnly).unwrap());
    assert_eq!(open(Access::ReadWrite).unwrap_err().kind, ErrorKind::Io);
    assert_eq!(*readers.0.geometry(), geometry());
    drop(readers);
    open(Access::ReadWrite).unwrap();
}

#[test]
fn what_was_not_flushed_is_gone_and_what_was_is_there() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("device");
    let context = Context::default();
    let mut device = JournalledFile::create(&path, geometry()).unwrap();
    device.write(&context, Lba(0), Payload::Bytes(&[1; 512])).unwrap();
    device.flush(&context).unwrap();
    device.write(&context, Lba(0), Payload::Bytes(&[2; 512])).unwrap();
    assert_eq!(first_byte(&device), 2);
    drop(device);
    let mut device = JournalledFile::open(&path, Access::ReadOnly).unwrap();
    assert_eq!(first_byte(&device), 1);
    let error = device.write(&context, Lba(0), Payload::Bytes(&[3; 512])).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ReadOnly);
    assert!(device.trim().is_none() && device.flush(&context).is_ok());
}

#[test]
fn plain_files_are_sectors_and_nothing_else() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("image");
    std::fs::write(&path, vec![7; 3 * 512]).unwrap();
    let mut device = FileDevice::open(&path, 512, Access::ReadOnly).unwrap();
    assert_eq!((device.geometry().sectors, first_byte(&device)), (3, 7));
    let context = Context::default();
    assert_eq!(device.write(&context, Lba(0), Payload::Bytes(&[0; 512])).unwrap_err().kind, ErrorKind::ReadOnly);
    drop(device);
    let mut device = FileDevice::open(&path, 512, Access::ReadWrite).unwrap();
    device.write(&context, Lba(2), Payload::Bytes(&[9; 512])).unwrap();
    device.trim().unwrap().trim(&context, Lba(0), 1).unwrap();
    drop(device);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes.len(), bytes[0], bytes[600], bytes[1535]), (1536, 0, 7, 9));
}

#[test]
fn impossible_files_are_refused_in_words() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("odd");
    std::fs::write(&path, [1; 700]).unwrap();
    let error = FileDevice::open(&path, 512, Access::ReadOnly).unwrap_err();
    assert!(error.kind == ErrorKind::Corrupt && error.to_string().contains("700 bytes"), "{error}");
    assert_eq!(FileDevice::open(&path, 100, Access::ReadOnly).unwrap_err().kind, ErrorKind::OutOfRange);
    let error = JournalledFile::open(&path, Access::ReadWrite).unwrap_err();
    assert!(error.kind == ErrorKind::Corrupt && error.to_string().contains("odd"), "{error}");
    assert_eq!(
        FileDevice::open(&directory.path().join("none"), 512, Access::ReadOnly).unwrap_err().kind,
        ErrorKind::Io
    );
    assert_eq!(JournalledFile::create(&path, geometry()).unwrap_err().kind, ErrorKind::Io, "an existing file stays");
    // A character device opens at once; a pipe would wait for its other end.
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let error = FileDevice::open("/dev/null".as_ref(), 512, access).unwrap_err();
        assert!(error.kind == ErrorKind::Io && error.to_string().contains("no plain file"), "{error}");
    }
    let impossible = BlockGeometry { sectors: u64::MAX, ..geometry() };
    let fresh = directory.path().join("fresh");
    assert_eq!(FileDevice::create(&fresh, impossible).unwrap_err().kind, ErrorKind::OutOfRange);
    assert!(!fresh.exists(), "nothing half-made is left");
}

#[test]
fn a_file_tells_its_holes_and_a_trim_makes_one() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sparse.img");
    let geometry = BlockGeometry { sector_size: 512, sectors: 8192, preferred_size: 4096, recycling_size: 0 };
    let mut device = FileDevice::create(&path, geometry).unwrap();
    assert_eq!(device.extent(Lba(3), 100), Extent { sectors: 100, holds: false });
    let context = Context::default();
    device.write(&context, Lba(1024), Payload::Bytes(&[7; 128 << 10])).unwrap();
    device.flush(&context).unwrap();
    assert_eq!(device.extent(Lba(0), 8192), Extent { sectors: 1024, holds: false });
    assert_eq!(device.extent(Lba(1024), 8192 - 1024), Extent { sectors: 256, holds: true });
    assert_eq!(device.extent(Lba(1280), 10), Extent { sectors: 10, holds: false });
    // A range that does not start at a block of the host's file system is zeroed all the same.
    device.trim().unwrap().trim(&context, Lba(1025), 254).unwrap();
    let mut found = vec![1; 128 << 10];
    device.read(&context, Lba(1024), ReadInto::Bytes(&mut found)).unwrap();
    assert!(found[..512].iter().all(|&byte| byte == 7) && found[255 * 512..].iter().all(|&byte| byte == 7));
    assert!(found[512..255 * 512].iter().all(|&byte| byte == 0));
    let hole = (1024..1280).find(|&at| !device.extent(Lba(at), 1280 - at).holds);
    assert!(hole.is_some(), "a file system that knows holes makes one");
}

#[test]
fn the_last_sector_of_a_file_of_any_length_is_filled_up_with_zeroes() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("odd");
    std::fs::write(&path, [1; 700]).unwrap();
    let context = Context::default();
    let mut device = FileDevice::open_padded(&path, 512, Access::ReadWrite).unwrap();
    assert_eq!(device.geometry().sectors, 2);
    let mut bytes = [9; 1024];
    device.read(&context, Lba(0), ReadInto::Bytes(&mut bytes)).unwrap();
    assert!(bytes[..700] == [1; 700] && bytes[700..] == [0; 324]);
    let mut last = [0; 512];
    last[..188].fill(2);
    device.write(&context, Lba(1), Payload::Bytes(&last)).unwrap();
    last[188] = 2;
    let error = device.write(&context, Lba(1), Payload::Bytes(&last)).unwrap_err();
    assert!(error.kind == ErrorKind::OutOfRange && error.to_string().contains("ends after 188 bytes"), "{error}");
    device.trim().unwrap().trim(&context, Lba(0), 1).unwrap();
    let expected = [&[0; 512][..], &[2; 188]].concat();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    device.trim().unwrap().trim(&context, Lba(1), 1).unwrap();
    device.flush(&context).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [0; 700]);
}
