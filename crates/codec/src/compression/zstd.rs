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
pub(super) struct Compressor(Option<::zstd::bulk::Compressor<'static>>);

impl Compressor {
    /// The bytes produced; `None` if they do not fit.
    pub(super) fn compress(&mut self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        if self.0.is_none() {
            self.0 = ::zstd::bulk::Compressor::new(LEVEL).ok();
        }
        self.0.as_mut()?.compress_to_buffer(input, output).ok()
    }
}
