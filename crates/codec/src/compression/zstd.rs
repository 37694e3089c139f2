//! Zstandard frames.

use super::error::{Fault, Stop};

/// Keeps its working memory between calls.
#[derive(Default)]
pub(super) struct Decompressor(Option<::zstd::bulk::Decompressor<'static>>);

impl Decompressor {
    pub(super) fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
        let wrong = |fault| Stop::new(fault, 0, 0);
        if self.0.is_none() {
            self.0 = ::zstd::bulk::Decompressor::new().ok();
        }
        let Some(decompressor) = &mut self.0 else { return Err(wrong(Fault::Corrupt)) };
        match decompressor.decompress_to_buffer(input, output) {
            Ok(made) if made == output.len() => Ok(()),
            Ok(made) => Err(Stop::new(Fault::OutputShort, input.len(), made)),
            // The library gives no position, so the whole stream is reported.
            Err(_) => Err(wrong(Fault::Corrupt)),
        }
    }
}

/// The library's default level, which Linux's UBIFS and mkfs.ubifs use (`fs/ubifs/compress.c` takes
/// it from `crypto/zstd.c`).
const LEVEL: i32 = 3;

/// Keeps its working memory between calls.
#[derive(Default)]
pub(super) struct Compressor {
    library: Option<::zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
}

impl Compressor {
    /// The bytes produced; `None` if they do not fit.
    pub(super) fn compress(&mut self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        if self.library.is_none() {
            self.library = ::zstd::bulk::Compressor::new(LEVEL).ok();
        }
        // The library gives up where there is less room than for its worst case.
        self.packed.resize(::zstd::zstd_safe::compress_bound(input.len()), 0);
        let length = self.library.as_mut()?.compress_to_buffer(input, &mut self.packed).ok()?;
        output.get_mut(..length)?.copy_from_slice(self.packed.get(..length)?);
        Some(length)
    }
}
