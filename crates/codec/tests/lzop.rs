//! LZO1X against lzop (Debian package lzop), which is liblzo2 with a container: lzop must read our
//! output, we must read lzop's, and ours must not be longer.

use std::path::Path;
use std::process::{Command, Output};

use nandkit_codec::checksum::crc32;
use nandkit_codec::compression::{Compression, Compressor, Level, decompress};

fn lzop(directory: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("lzop").current_dir(directory).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("lzop: {error}; it is in the Debian package lzop"));
    assert!(output.status.success(), "lzop {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn noise(index: u32) -> u32 {
    crc32(&index.to_le_bytes())
}

/// The kinds of content, each of `length` bytes.
fn kinds(length: usize) -> [(&'static str, Vec<u8>); 6] {
    let cut = |mut bytes: Vec<u8>| {
        bytes.truncate(length);
        bytes
    };
    let count = length as u32;
    let random = (0..count).map(|index| noise(index) as u8).collect();
    let line = |index: u32| {
        let (a, b) = (noise(index), noise(index * 7 + 1));
        let words = [
            "erase block",
            "page",
            "summary node",
            "is",
            "was",
            "written",
            "at offset",
            "of the partition",
            "and",
            "not",
        ];
        let word = |from: u32| words[from as usize % words.len()];
        format!("{} {} {} {} {}\n", word(a), b % 1000, word(a >> 8), word(b >> 8), word(b >> 16)).into_bytes()
    };
    let text = cut((0..count / 20 + 1).flat_map(line).collect());
    let table = |index: u32| [index, 0x0800_0000 + index * 12, noise(index) & 0xFF, noise(index / 5)];
    let table = cut((0..count / 16 + 1).flat_map(table).flat_map(u32::to_le_bytes).collect());
    // Few symbols give short matches at all distances; repeats far back give long ones.
    let few = cut((0..count).map(|index| b"abcd"[noise(index) as usize % 4]).collect());
    let far: Vec<u8> = (0..count).map(|index| noise(index % 40_000) as u8).collect();
    [("random", random), ("text", text), ("zero", vec![0; length]), ("table", table), ("few", few), ("far", far)]
}

/// Pages whose lengths are around the limits of the length fields, of pages, and of the window.
fn pages() -> Vec<(String, Vec<u8>)> {
    let short = (1..=40).chain(236..=242).chain(254..=260).chain(272..=276);
    let long = [511, 528, 800, 2048, 4095, 4096, 4097, 16_400, 49_150, 49_155, 65_536, 70_000];
    let named = |length| kinds(length).map(|(kind, bytes)| (format!("{kind}-{length}"), bytes));
    short.chain(long).flat_map(named).collect()
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    b << 16 | a
}

const MAGIC: &[u8] = b"\x89LZO\0\r\n\x1A\n";

/// A container without checksums of its content: the unpacked length, the packed length and the
/// stream of each block.
fn container(blocks: &[(usize, Vec<u8>)]) -> Vec<u8> {
    // Program, library and needed version, method LZO1X-1, level, flags, mode, time, no name.
    let (flags, mode, time, name) = ([0; 4], [0, 0, 0x81, 0xA4], [0; 8], [0]);
    let mut header = vec![0x10, 0x40, 0x20, 0xA0, 0x09, 0x40, 1, 5];
    header.extend(flags.into_iter().chain(mode).chain(time).chain(name));
    let mut bytes = [MAGIC, &header, &adler32(&header).to_be_bytes()].concat();
    for (plain, packed) in blocks {
        bytes.extend((*plain as u32).to_be_bytes());
        bytes.extend((packed.len() as u32).to_be_bytes());
        bytes.extend(packed);
    }
    bytes.extend([0; 4]);
    bytes
}

/// The only block of a container made by lzop, if it is packed. `plain` is its unpacked length.
fn block(file: &[u8], plain: usize) -> Option<&[u8]> {
    let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    assert!(file.starts_with(MAGIC));
    let (flags, name) = (number(17), usize::from(file[33]));
    let at = 34 + name + 4;
    assert_eq!(number(at), plain);
    let packed = number(at + 4);
    // Adler-32 of the plain bytes and, if there are any, of the packed ones; the CRC-32 of both
    // would be two more flags.
    assert_eq!(flags & 0x300, 0);
    let data = at + 8 + (flags & 3).count_ones() as usize * 4;
    (packed < plain).then(|| &file[data..data + packed])
}

#[test]
fn lzop_reads_what_we_write() {
    let (pages, mut compressor) = (pages(), Compressor::new());
    let directory = tempfile::tempdir().unwrap();
    for level in [1, 3, 7, 9] {
        let (mut blocks, mut expected) = (Vec::new(), Vec::new());
        for (_, page) in &pages {
            let mut packed = vec![0; page.len()];
            let Some(length) = compressor.compress(Compression::Lzo, Level::new(level), page, &mut packed) else {
                continue;
            };
            packed.truncate(length);
            blocks.push((page.len(), packed));
            expected.extend_from_slice(page);
        }
        assert!(blocks.len() > pages.len() / 4, "{}", blocks.len());
        std::fs::write(directory.path().join("ours.lzo"), container(&blocks)).unwrap();
        let output = lzop(directory.path(), &["-dc", "ours.lzo"]);
        assert!(output.stdout == expected, "level {level}: lzop reads something else");
    }
}

#[test]
fn we_read_what_lzop_writes_and_are_not_longer() {
    let (pages, mut compressor) = (pages(), Compressor::new());
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for (name, page) in &pages {
        std::fs::write(directory.path().join(name), page).unwrap();
    }
    // lzop's levels: lzo1x_1_15, lzo1x_1, lzo1x_999. The last number limits our length, in per cent
    // of lzop's.
    for (option, level, limit) in [("-1", 1, 103), ("-3", 3, 103), ("-9", 9, 100)] {
        lzop(directory.path(), &[&["-f", option], names.as_slice()].concat());
        let (mut ours, mut theirs) = (0, 0);
        for (name, page) in &pages {
            let file = std::fs::read(directory.path().join(format!("{name}.lzo"))).unwrap();
            let mut packed = vec![0; page.len()];
            let length = compressor.compress(Compression::Lzo, Level::new(level), page, &mut packed);
            let length = length.unwrap_or(page.len());
            let Some(stream) = block(&file, page.len()) else { continue };
            let mut output = vec![0xA5; page.len()];
            decompress(Compression::Lzo, stream, &mut output).unwrap();
            assert!(output == *page, "{name} {option}");
            assert!(
                level < 9 || length <= stream.len() + stream.len() / 100,
                "{name}: {length}, lzop {}",
                stream.len()
            );
            (ours, theirs) = (ours + length, theirs + stream.len());
        }
        println!("lzop {option}: {theirs} bytes, ours {ours}");
        assert!(ours * 100 <= theirs * limit, "lzop {option}: {theirs} bytes, ours {ours}");
    }
}
