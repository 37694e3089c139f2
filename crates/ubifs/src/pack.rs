//! Blocks of files as data nodes store them.

use nandkit_codec::compression::{Compression, Compressor, Level};

use crate::layout::compression;

/// Data of fewer bytes are not compressed (Linux `UBIFS_MIN_COMPR_LEN`).
const COMPRESSED_MIN: usize = 128;
/// What a compression has to spare (Linux `UBIFS_MIN_COMPRESS_DIFF`).
const SPARED_MIN: usize = 64;
/// Bytes of the header and of the checksum of a zlib stream, which UBIFS leaves out.
const ZLIB_FRAME: (usize, usize) = (2, 4);

/// Compresses blocks.
#[derive(Default)]
pub(crate) struct Packer {
    compressor: Compressor,
    packed: Vec<u8>,
}

impl Packer {
    /// The bytes as they are stored, and the code of their compression.
    pub fn pack<'a>(&'a mut self, bytes: &'a [u8], method: Compression, level: Level) -> (u16, &'a [u8]) {
        let (before, behind) = if method == Compression::Zlib { ZLIB_FRAME } else { (0, 0) };
        if method == Compression::None || bytes.len() < COMPRESSED_MIN {
            return (compression::NONE, bytes);
        }
        self.packed.resize(bytes.len(), 0);
        let length = self.compressor.compress(method, level, bytes, &mut self.packed);
        let packed = length.and_then(|length| self.packed.get(before..length.saturating_sub(behind)));
        match packed.filter(|packed| packed.len() + SPARED_MIN <= bytes.len()) {
            Some(packed) => (code_of(method), packed),
            None => (compression::NONE, bytes),
        }
    }
}

/// The code of a compression on flash.
pub(crate) const fn code_of(method: Compression) -> u16 {
    match method {
        Compression::Lzo => compression::LZO,
        Compression::Zlib => compression::ZLIB,
        Compression::Zstd => compression::ZSTD,
        _ => compression::NONE,
    }
}

/// The compression with a code on flash.
pub(crate) const fn method_of(code: u16) -> Compression {
    match code {
        compression::LZO => Compression::Lzo,
        compression::ZLIB => Compression::Zlib,
        compression::ZSTD => Compression::Zstd,
        _ => Compression::None,
    }
}
