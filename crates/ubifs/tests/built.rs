//! Volumes of `mkfs` in memory.

use nandkit_ubifs::{BuildOptions, LebBytes, LebSink, build};
use nandkit_vfs::Result;
use nandkit_vfs::source::SourceTree;

/// The LEBs of a new volume, one behind the other.
pub struct Image {
    pub bytes: Vec<u8>,
    leb_size: u32,
}

impl Image {
    /// An empty one.
    pub fn new(leb_size: u32) -> Self {
        Self { bytes: Vec::new(), leb_size }
    }
}

impl LebSink for Image {
    fn put(&mut self, leb: u32, bytes: &[u8]) -> Result<()> {
        let (at, leb_size) = (leb as usize * self.leb_size as usize, self.leb_size as usize);
        let length = self.bytes.len().max(at + leb_size);
        self.bytes.resize(length, 0xFF);
        assert!(self.bytes[at..at + leb_size].iter().all(|byte| *byte == 0xFF), "LEB {leb} is written twice");
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// The volume of a tree.
pub fn built(tree: &dyn SourceTree, options: &BuildOptions) -> Result<LebBytes> {
    let mut image = Image::new(options.leb_size);
    let report = build(tree, options, &mut image, &|_| {})?;
    image.bytes.resize(report.leb_count as usize * options.leb_size as usize, 0xFF);
    Ok(LebBytes { bytes: image.bytes, leb_size: options.leb_size })
}
