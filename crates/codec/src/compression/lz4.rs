//! LZ4 blocks without a frame; decompression only.

use lz4_flex::block::{DecompressError, decompress_into};

use super::error::{Fault, Stop};

pub(super) fn decompress(input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
    match decompress_into(input, output) {
        Ok(made) if made == output.len() => Ok(()),
        Ok(made) => Err(Stop::new(Fault::OutputShort, input.len(), made)),
        // The library gives no position, so the whole stream is reported.
        Err(DecompressError::OutputTooSmall { .. }) => Err(Stop::new(Fault::OutputFull, 0, 0)),
        Err(DecompressError::ExpectedAnotherByte) => Err(Stop::new(Fault::InputEnds, 0, 0)),
        Err(_) => Err(Stop::new(Fault::Corrupt, 0, 0)),
    }
}
