//! Files that another program shortens while they are mapped for a long time.

use std::fs::OpenOptions;

use nandkit_block::Access;
use nandkit_flash::{ErrorKind, Flash, PageProgram, PageRead};
use nandkit_units::{BlockIndex, Context, PageAddress};

use crate::{DumpFlash, DumpOptions, Image, ImageLayout};

const BLOCK: u32 = 4096;
const BLOCKS: u32 = 64;

/// A dump opened as for a mount, with the path of its file.
fn opened(access: Access, overlay: bool) -> (tempfile::TempDir, std::path::PathBuf, DumpFlash) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    std::fs::write(&path, vec![0x5A; (BLOCK * BLOCKS) as usize]).unwrap();
    let overlay = overlay.then(|| directory.path().join("overlay"));
    let options = DumpOptions { access, overlay, resident_max: Some(8 << 20), ..DumpOptions::read_only() };
    let device = DumpFlash::new(Image::open(&path, &options).unwrap(), ImageLayout::nor(BLOCK)).unwrap();
    (directory, path, device)
}

fn read(device: &DumpFlash, block: u32) -> Result<u8, ErrorKind> {
    let mut bytes = [0; 512];
    let read = device.read(&Context::default(), PageAddress::new(block, 0), PageRead::bytes(0, &mut bytes));
    read.map(|_| bytes[0]).map_err(|error| error.kind)
}

fn shorten(path: &std::path::Path) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(u64::from(BLOCK) * 3 + 100).unwrap();
}

#[test]
fn what_was_lost_is_an_error_and_what_is_left_can_be_read() {
    let (_directory, path, device) = opened(Access::ReadOnly, false);
    assert_eq!(read(&device, 40), Ok(0x5A));
    shorten(&path);
    assert_eq!(read(&device, 2), Ok(0x5A));
    // A hundred bytes of block 3 remain, and the kernel would show zeroes after them up to the end
    // of its page.
    for lost in [3, 40, BLOCKS - 1] {
        assert_eq!(read(&device, lost), Err(ErrorKind::Io), "block {lost}");
    }
    assert!(device.block_bytes(BlockIndex(40)).is_none() && device.page_bytes(PageAddress::new(40, 0)).is_none());
    assert!(device.read_data(0, &mut vec![0; (BLOCK * BLOCKS) as usize]).is_err());
}

#[test]
fn nothing_is_written_to_a_file_that_was_shortened() {
    for overlay in [false, true] {
        let (directory, path, mut device) = opened(Access::ReadWrite, overlay);
        let context = Context::default();
        device.erase(&context, BlockIndex(1)).unwrap();
        device.program(&context, PageAddress::new(1, 0), PageProgram::bytes(0, &[1; 4])).unwrap();
        let kept = std::fs::read(directory.path().join("overlay")).ok();
        shorten(&path);
        assert_eq!(device.sync(&context).unwrap_err().kind, ErrorKind::Io, "with overlay: {overlay}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), u64::from(BLOCK) * 3 + 100);
        assert_eq!(std::fs::read(directory.path().join("overlay")).ok(), kept);
        assert_eq!(read(&device, 40), Err(ErrorKind::Io), "with overlay: {overlay}");
        // A program needs the existing bytes.
        let programmed = device.program(&context, PageAddress::new(50, 0), PageProgram::bytes(0, &[0; 4]));
        assert_eq!(programmed.unwrap_err().kind, ErrorKind::Io);
        // Once the file is restored, the changes reach it.
        std::fs::write(&path, vec![0x5A; (BLOCK * BLOCKS) as usize]).unwrap();
        device.sync(&context).unwrap();
    }
}
