//! zlib streams (RFC 1950, RFC 1951) of whole buffers, by libdeflate.

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, DecompressionError};

use super::error::{Fault, Stop};
use super::{Level, prefix};

/// A matcher for the last used level, and memory for prefixes.
#[derive(Default)]
pub(super) struct Compressor {
    matcher: Option<(Level, libdeflater::Compressor)>,
    whole: Vec<u8>,
}

impl Compressor {
    pub(super) fn compress(&mut self, level: Level, input: &[u8], output: &mut [u8]) -> Option<usize> {
        self.matcher(level).zlib_compress(input, output).ok().filter(|&produced| produced < input.len())
    }

    /// Compresses the whole input if it fits, else a prefix.
    pub(super) fn compress_prefix(&mut self, level: Level, input: &[u8], output: &mut [u8]) -> Option<(usize, usize)> {
        let mut memory = std::mem::take(&mut self.whole);
        memory.resize(input.len(), 0);
        let produced = self.compress(level, input, &mut memory);
        let result = produced.and_then(|whole| match output.get_mut(..whole) {
            Some(room) => {
                room.copy_from_slice(memory.get(..whole)?);
                Some((input.len(), whole))
            }
            None => {
                let matcher = self.matcher(level);
                let pack = |prefix: &[u8], room: &mut [u8]| matcher.zlib_compress(prefix, room).ok();
                prefix::longest(input, output, whole, &mut memory, pack)
            }
        });
        self.whole = memory;
        result
    }

    fn matcher(&mut self, level: Level) -> &mut libdeflater::Compressor {
        let fresh = || {
            // libdeflate has levels up to 12; the last ones search for the cheapest parse, as
            // expected of the best level.
            let own = if level == Level::BEST { 12 } else { i32::from(level.get()) };
            libdeflater::Compressor::new(CompressionLvl::new(own).unwrap_or_default())
        };
        if self.matcher.as_ref().is_none_or(|(last, _)| *last != level) {
            self.matcher = None;
        }
        &mut self.matcher.get_or_insert_with(|| (level, fresh())).1
    }
}

/// Fills `output` from a deflate stream without a header (RFC 1951), ignoring bytes after its end.
/// Returns whether the stream has exactly that many bytes.
pub fn inflate_raw(input: &[u8], output: &mut [u8]) -> bool {
    libdeflater::Decompressor::new().deflate_decompress(input, output).is_ok_and(|length| length == output.len())
}

#[derive(Default)]
pub(super) struct Decompressor(Option<libdeflater::Decompressor>);

impl Decompressor {
    pub(super) fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
        let inflater = self.0.get_or_insert_with(libdeflater::Decompressor::new);
        match inflater.zlib_decompress(input, output) {
            Ok(made) if made == output.len() => Ok(()),
            Ok(made) => Err(Stop::new(Fault::OutputShort, input.len(), made)),
            Err(DecompressionError::InsufficientSpace) => Err(locate(input, output, Fault::OutputFull)),
            Err(DecompressionError::BadData) => Err(locate(input, output, Fault::Corrupt)),
        }
    }
}

/// Finds the position of a fault: libdeflate does not report it, so a counting inflater processes
/// the stream again.
fn locate(input: &[u8], output: &mut [u8], fault: Fault) -> Stop {
    let mut inflater = Decompress::new(true);
    let status = inflater.decompress(input, output, FlushDecompress::Finish);
    // Both totals are at most the buffers' lengths.
    let (read, made) = (inflater.total_in() as usize, inflater.total_out() as usize);
    match status {
        // Neither a fault nor the end: more input is needed.
        Ok(Status::Ok | Status::BufError) if read == input.len() => Stop::new(Fault::InputEnds, read, made),
        _ => Stop::new(fault, read, made),
    }
}
