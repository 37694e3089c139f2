//! Options for building an image.

use nandkit_codec::compression::{Compression, Level};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::layout::{ByteOrder, HEADER_SIZE};
use crate::medium::Cleanmarker;

/// The pages of a NAND image that includes OOB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OobPages {
    /// Data bytes per page: a power of two from 256 to 64 KiB that divides the erase size.
    pub page_size: u32,
    /// OOB bytes per page: 16 to 64 KiB, so that a cleanmarker and the error-correcting code fit.
    pub oob_size: u32,
}

/// Options for building an image. The defaults are those of mkfs.jffs2 on a little-endian host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// The byte order of numbers.
    pub order: ByteOrder,
    /// Size of an erase block in bytes: 4 KiB to 64 MiB.
    pub erase_size: u32,
    /// Most bytes of file data per node: the page size of the system that will mount the image. A
    /// power of two from 512 to 64 KiB.
    pub page_size: u32,
    /// Length of the cleanmarker at the beginning of each block in bytes; 0 for none, as on NAND
    /// (whose cleanmarkers are in the OOB).
    pub cleanmarker_size: u32,
    /// If given, each page of the image is followed by its OOB, as in the files of `nanddump --oob`
    /// that `nandwrite --oob` accepts. The first page of each block has the cleanmarker there, at
    /// Linux's position; all other OOB bytes are 0xFF, and `cleanmarker_size` must be 0.
    pub oob: Option<OobPages>,
    /// Whether each block except the last ends in a summary, from which Linux learns its nodes
    /// without reading the whole block. The last block stays open, so that its rest can be written.
    pub summaries: bool,
    /// Compression methods in the order of trial: the first one that makes a piece shorter is used,
    /// or with `smallest` the one with the shortest result.
    pub compressions: Vec<Compression>,
    /// The compression effort.
    pub level: Level,
    /// Whether to try all of `compressions` for each piece.
    pub smallest: bool,
    /// Whether to include extended attributes.
    pub xattrs: bool,
    /// Bytes to which the image is padded with 0xFF, without OOB: a multiple of the erase size; 0
    /// for the end of the last used block.
    pub size: u64,
    /// Number of compressing threads; 0 for one per processor. The image does not depend on it.
    pub threads: usize,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            order: ByteOrder::Little,
            erase_size: 64 << 10,
            page_size: 4096,
            cleanmarker_size: HEADER_SIZE,
            oob: None,
            summaries: false,
            compressions: vec![Compression::Zlib, Compression::Rtime],
            level: Level::BEST,
            smallest: false,
            xattrs: true,
            size: 0,
            threads: 0,
        }
    }
}

fn wrong(text: String) -> Result<()> {
    Err(FsError::new(ErrorKind::InvalidArgument, text))
}

impl BuildOptions {
    /// Refuses impossible options: names the option, its value, and what was expected.
    pub fn check(&self) -> Result<()> {
        if !(4096..=1 << 26).contains(&self.erase_size) || !self.erase_size.is_multiple_of(4) {
            return wrong(format!(
                "the erase size is {} bytes; expected a multiple of 4 from 4 KiB to 64 MiB",
                self.erase_size
            ));
        }
        if !self.page_size.is_power_of_two() || !(512..=65_536).contains(&self.page_size) {
            return wrong(format!(
                "the page size is {} bytes; expected a power of two from 512 to 65536",
                self.page_size
            ));
        }
        let marker = self.cleanmarker_size;
        if marker != 0 && (marker < HEADER_SIZE || !marker.is_multiple_of(4) || marker > self.erase_size / 8) {
            return wrong(format!(
                "the cleanmarker is {marker} bytes; expected 0, or a multiple of 4 from {HEADER_SIZE} to {}",
                self.erase_size / 8
            ));
        }
        self.check_oob()?;
        if !self.size.is_multiple_of(u64::from(self.erase_size)) || self.size > 1 << 32 {
            return wrong(format!(
                "the image size is {} bytes; expected a multiple of the erase size, {}, up to 4 GiB",
                self.size, self.erase_size
            ));
        }
        let is_written = |method: &Compression| method.can_compress() && *method != Compression::Zstd;
        if let Some(method) = self.compressions.iter().find(|method| !is_written(method)) {
            return wrong(format!("{method:?} can be read, but not written; expected zlib, lzo, rtime or none"));
        }
        Ok(())
    }

    fn check_oob(&self) -> Result<()> {
        let Some(OobPages { page_size, oob_size }) = self.oob else { return Ok(()) };
        let sizes = (256..=65_536).contains(&page_size) && oob_size <= 65_536;
        if !sizes || !page_size.is_power_of_two() || !self.erase_size.is_multiple_of(page_size) {
            return wrong(format!(
                "the flash has pages of {page_size} bytes with {oob_size} of OOB; expected a power of two from 256 to 65536 that divides the erase size, {}, and at most 65536",
                self.erase_size
            ));
        }
        if Cleanmarker::of_nand(page_size, oob_size) == Cleanmarker::None {
            return wrong(format!("an OOB of {oob_size} bytes has no room for a cleanmarker; expected at least 16"));
        }
        if self.cleanmarker_size != 0 {
            return wrong(format!(
                "a cleanmarker of {} bytes in the pages and another one in the OOB; expected 0 with an OOB",
                self.cleanmarker_size
            ));
        }
        Ok(())
    }
}
