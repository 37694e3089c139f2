//! Writes a repaired image.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use nandkit_flash_image::Image;

/// Bytes written at once; a piece of zeroes becomes a hole.
const PIECE: usize = 64 << 10;

/// A whole repaired image; bytes outside the opened part are unchanged.
#[derive(Debug)]
pub struct RepairedImage(Content);

#[derive(Debug)]
enum Content {
    /// The bytes of the image.
    Bytes(Vec<u8>),
    /// The original image, patches by offset (later ones override earlier ones), and the minimum
    /// length.
    Patched(Box<Image>, Vec<(u64, Arc<[u8]>)>, u64),
}

impl RepairedImage {
    /// An image of these bytes.
    pub(crate) const fn new(bytes: Vec<u8>) -> Self {
        Self(Content::Bytes(bytes))
    }

    /// An image with patches by offset (later ones override earlier ones). It is extended with
    /// zeroes to the minimum length.
    pub fn patched(image: Image, patches: Vec<(u64, Arc<[u8]>)>, least: u64) -> Self {
        Self(Content::Patched(Box::new(image), patches, least))
    }

    /// Writes the image to an empty file. Errors: those of the file.
    pub fn write_to(&self, file: &mut File) -> std::io::Result<()> {
        let (image, patches, least) = match &self.0 {
            Content::Bytes(bytes) => return file.write_all(bytes),
            Content::Patched(image, patches, least) => (image, patches, *least),
        };
        let bytes = image.bytes();
        let end = patches.iter().map(|(at, patch)| at.saturating_add(patch.len() as u64)).max().unwrap_or(0);
        file.set_len(end.max(least))?;
        write_sparse(file, bytes)?;
        patches.iter().try_for_each(|(at, patch)| file.write_all_at(patch, *at))
    }
}

/// Writes bytes to a new file from its beginning. Zeroes become holes; a longer file keeps its
/// length. Errors: those of the file.
pub fn write_sparse(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    let length = file.metadata()?.len();
    file.set_len(length.max(bytes.len() as u64))?;
    for (number, piece) in (0_u64..).zip(bytes.chunks(PIECE)) {
        if !nandkit_units::is_zeroed(piece) {
            file.seek(SeekFrom::Start(number * PIECE as u64))?;
            file.write_all(piece)?;
        }
    }
    Ok(())
}
