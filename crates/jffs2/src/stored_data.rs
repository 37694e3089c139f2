//! Decompressing a node's data by its compression number.

use nandkit_codec::compression::{Compression, LzmaProperties, decompress};

use crate::layout::{self, compression};

/// Most uncompressed bytes of a node. Linux writes pages of 4 KiB (64 KiB on some machines).
const DECOMPRESSED_MAX: u32 = 1 << 20;

/// The uncompressed data; empty for a hole, which may have any size. The error says what is wrong.
pub(crate) fn decompressed(node: &layout::Inode, data: &[u8]) -> Result<Vec<u8>, String> {
    let method = match node.compression {
        compression::NONE => Compression::None,
        compression::ZERO => Compression::Zero,
        compression::RTIME => Compression::Rtime,
        // Since 2.6 Linux swaps the two names of linux/jffs2.h (fs/jffs2/compr_rubin.c, the two
        // `jffs2_compressor`s), and has written them so.
        compression::RUBIN_MIPS => Compression::DynRubin,
        compression::DYNAMIC_RUBIN => Compression::RubinMips,
        compression::ZLIB => Compression::Zlib,
        compression::LZO => Compression::Lzo,
        compression::LZMA => Compression::Lzma(LzmaProperties::ZERO),
        compression::LZMA_WITH_HEADER => Compression::Lzma(lzma_properties(data)?),
        unknown => return Err(format!("compression method {unknown} is unknown")),
    };
    if method == Compression::Zero {
        return Ok(Vec::new());
    }
    let size = node.data_size;
    if method == Compression::None && size as usize != data.len() {
        return Err(format!("{} bytes are stored without compression; the node says {size}", data.len()));
    }
    if size > DECOMPRESSED_MAX && method != Compression::None {
        return Err(format!("the data would decompress to {size} bytes; the limit is {DECOMPRESSED_MAX}"));
    }
    let mut content = vec![0; size as usize];
    let packed = if node.compression == compression::LZMA_WITH_HEADER {
        data.get(LZMA_HEADER..).unwrap_or_default()
    } else {
        data
    };
    decompress(method, packed, &mut content).or_else(|error| {
        // Some vendors store LZMA under zlib's number: without a zlib header, it may be that.
        let is_zlib = method != Compression::Zlib || begins_as_zlib(data);
        let is_lzma = !is_zlib && lzma_under_another_number(data, &mut content);
        if is_lzma { Ok(()) } else { Err(error.to_string()) }
    })?;
    Ok(content)
}

/// Size of an LZMA header without the length: properties and dictionary.
const LZMA_HEADER: usize = 5;

fn lzma_properties(data: &[u8]) -> Result<LzmaProperties, String> {
    let byte = data.first().copied().unwrap_or(u8::MAX);
    LzmaProperties::of_byte(byte).ok_or_else(|| format!("its LZMA has the invalid properties {byte:#04x}"))
}

/// RFC 1950, 2.2: deflate, and a check of the first two bytes.
fn begins_as_zlib(data: &[u8]) -> bool {
    data.first_chunk().is_some_and(|first| first[0] & 0xF == 8 && u16::from_be_bytes(*first).is_multiple_of(31))
}

/// Tries LZMA without and with a header.
fn lzma_under_another_number(data: &[u8], content: &mut [u8]) -> bool {
    let raw = Compression::Lzma(LzmaProperties::ZERO);
    let with_header = || {
        let method = Compression::Lzma(lzma_properties(data).ok()?);
        Some((method, data.get(LZMA_HEADER..)?))
    };
    decompress(raw, data, content).is_ok()
        || with_header().is_some_and(|(method, packed)| decompress(method, packed, content).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number 3, called RUBINMIPS, is decoded by Linux with the node's own frequencies: equal
    /// shares make the code the bits themselves.
    #[test]
    fn rubin_has_its_numbers_as_linux_has_them() {
        let mut data = vec![128; 8];
        data.extend([0b1010_0110, 0b0000_1111, 0, 0]);
        let node = layout::Inode { compression: compression::RUBIN_MIPS, data_size: 2, ..layout::Inode::default() };
        assert_eq!(decompressed(&node, &data).unwrap(), [0b0110_0101, 0b1111_0000]);
        let other = layout::Inode { compression: compression::DYNAMIC_RUBIN, ..node };
        assert_ne!(decompressed(&other, &data).unwrap_or_default(), [0b0110_0101, 0b1111_0000]);
    }

    /// liblzma's stream of this text, with `lc = lp = pb = 0`, and with the usual 3, 0, 2.
    const TEXT: &str = "flash translation layer and flash file system, flash again. ";
    const RAW: &[u8] = &[
        0x00, 0x33, 0x1C, 0x8F, 0xAA, 0x48, 0xE1, 0xA8, 0x6C, 0xC4, 0x2C, 0x19, 0xFF, 0x7C, 0x04, 0x09, 0x2B, 0x6E,
        0x2C, 0x82, 0xA8, 0xEB, 0x9C, 0x7D, 0x8F, 0x0C, 0x68, 0xD9, 0x56, 0x06, 0x43, 0x54, 0x0B, 0x69, 0x64, 0xA6,
        0x06, 0x61, 0xCD, 0xFF, 0x0E, 0xD1, 0x59, 0x54, 0xFB, 0x7D, 0x80, 0x2B, 0x97, 0x3B, 0xB7, 0x09, 0xEB, 0x46,
        0x19, 0x26, 0x85, 0x6D, 0xFF, 0xDE, 0x5A, 0xA0, 0x00,
    ];
    const USUAL: &[u8] = &[
        0x00, 0x33, 0x1B, 0x08, 0x48, 0x59, 0x49, 0x3E, 0x65, 0xC5, 0x5B, 0x0A, 0x30, 0xED, 0x4B, 0x0F, 0x45, 0x7C,
        0x3F, 0x71, 0x29, 0xF3, 0xDA, 0x5F, 0x88, 0xB0, 0xFC, 0x64, 0x15, 0x21, 0x31, 0x05, 0xE0, 0x9D, 0xEC, 0xC3,
        0x36, 0xA7, 0x14, 0xFF, 0x3B, 0xF6, 0x41, 0x83, 0x69, 0x2F, 0x93, 0x83, 0x14, 0x42, 0x3A, 0x59, 0xA9, 0x17,
        0xCB, 0x48, 0x7C, 0x11, 0xC9, 0x5F, 0xFF, 0xD2, 0xC6, 0x50, 0x00,
    ];

    /// OpenWrt's number 8, number 0x15 with a header, and both under zlib's number.
    #[test]
    fn lzma_is_read_under_all_its_numbers() {
        let text = TEXT.repeat(6).into_bytes();
        let with_header = [&[0x5D, 0, 0x20, 0, 0][..], USUAL].concat();
        let node = |number| layout::Inode { compression: number, data_size: text.len() as u32, ..Default::default() };
        let cases = [
            (compression::LZMA, RAW),
            (compression::LZMA_WITH_HEADER, &with_header),
            (compression::ZLIB, RAW),
            (compression::ZLIB, &with_header),
        ];
        for (number, data) in cases {
            assert_eq!(decompressed(&node(number), data).as_deref(), Ok(&text[..]), "number {number}");
            assert!(decompressed(&node(number), &data[..20]).is_err());
        }
        assert!(decompressed(&node(compression::LZMA_WITH_HEADER), &[0xFF; 40]).is_err());
    }
}
