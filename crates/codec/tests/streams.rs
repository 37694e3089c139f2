//! Streams, with gzip, xz, zstd, lz4 and bzip2 as judges.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use nandkit_codec::streams::{Stream, Unpacked};

/// The output of a program for bytes on its standard input.
fn filtered(command: &[&str], input: &[u8]) -> Vec<u8> {
    let (program, words) = command.split_first().unwrap();
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} (Debian package of this name): {error}"));
    let mut pipe = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

/// Noise, zeroes and text.
fn content(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let mut bytes = vec![0; length];
    bytes[..length / 3].fill_with(&mut noise);
    bytes[length / 2..].iter_mut().zip(b"flash storage ".iter().cycle()).for_each(|(to, from)| *to = *from);
    bytes
}

fn unpacked(stream: Stream, packed: &[u8]) -> io::Result<(Vec<u8>, Unpacked)> {
    let mut bytes = Vec::new();
    stream.unpack(packed, &mut bytes).map(|told| (bytes, told))
}

const COMMANDS: [&[&str]; 13] = [
    &["gzip", "-1"],
    &["gzip", "-9n"],
    &["xz", "-0"],
    &["xz", "-6", "--check=sha256"],
    &["xz", "--block-size=65536", "--arm", "--lzma2=preset=1"],
    &["zstd", "-1"],
    &["zstd", "-19", "--no-check"],
    &["lz4", "-1"],
    &["lz4", "-9", "-BD", "-B4"],
    &["lz4", "--no-frame-crc", "-BX"],
    &["lz4", "-B7", "--no-frame-crc"],
    &["bzip2", "-1"],
    &["bzip2", "-9"],
];

fn stream_of(command: &[&str]) -> Stream {
    Stream::ALL.into_iter().find(|stream| stream.program() == command[0]).unwrap()
}

#[test]
fn what_the_programs_write_is_read() {
    for command in COMMANDS {
        let stream = stream_of(command);
        for length in [0, 1, 5000, 3 << 20] {
            let bytes = content(length);
            let packed = filtered(command, &bytes);
            assert_eq!(Stream::of(&packed), Some(stream), "{command:?}");
            let (ours, told) = unpacked(stream, &packed).unwrap_or_else(|error| panic!("{command:?}: {error}"));
            assert!(ours == bytes, "{command:?}, {length} bytes");
            assert_eq!(told, Unpacked { bytes: length as u64, consumed: packed.len() }, "{command:?}");
        }
    }
}

#[test]
fn legacy_frames_of_lz4_have_no_end_mark_and_no_checksum() {
    for length in [0, 1, 5000, 20 << 20] {
        let bytes = content(length);
        let packed = filtered(&["lz4", "-l", "-1"], &bytes);
        assert_eq!(Stream::of(&packed), Some(Stream::Lz4));
        let expected = Unpacked { bytes: length as u64, consumed: packed.len() };
        for (padding, more) in [(&[][..], 0), (&[0; 4096], 4096), (&[0xFF; 40], 40)] {
            let (ours, told) = unpacked(Stream::Lz4, &[&packed, padding].concat()).unwrap();
            assert!(ours == bytes && told == expected, "{length} bytes, {more} behind: {told:?}");
        }
        let twice = [&packed[..], &packed, &filtered(&["lz4"], b"more")].concat();
        assert!(unpacked(Stream::Lz4, &twice).unwrap().0 == [&bytes[..], &bytes, b"more"].concat());
    }
    let packed = filtered(&["lz4", "-l"], &content(5000));
    for length in 5..packed.len() {
        assert!(unpacked(Stream::Lz4, &packed[..length]).is_err(), "{length}");
    }
    // A block that claims more than 8 MiB.
    let mut bomb = vec![0x1F, 7, 1, 0];
    bomb.extend([0xFF; 40_000]);
    bomb.extend([0, 0]);
    let framed = [&[0x02, 0x21, 0x4C, 0x18][..], &(bomb.len() as u32).to_le_bytes(), &bomb].concat();
    assert!(unpacked(Stream::Lz4, &framed).is_err());
}

#[test]
fn frames_that_follow_each_other_are_one_and_what_follows_is_left() {
    for command in COMMANDS {
        let stream = stream_of(command);
        let (first, second) = (content(70_000), content(1234));
        let mut packed = [filtered(command, &first), filtered(command, &second)].concat();
        let whole = packed.len();
        packed.extend(b"something else");
        let (ours, told) = unpacked(stream, &packed).unwrap();
        assert!(ours == [first, second].concat(), "{command:?}");
        assert_eq!(told.consumed, whole, "{command:?}");
    }
    for stream in [Stream::Zstd, Stream::Lz4] {
        let skipped = [&[0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3], &filtered(&[stream.program()], b"inside")[..]];
        let skipped = skipped.concat();
        assert_eq!((Stream::of(&skipped), unpacked(stream, &skipped).unwrap().0), (Some(stream), b"inside".to_vec()));
    }
}

#[test]
fn every_prefix_of_a_frame_and_every_wrong_byte_is_an_error() {
    let bytes = content(3000);
    for command in COMMANDS {
        let stream = stream_of(command);
        let packed = filtered(command, &bytes);
        for length in 1..packed.len() {
            assert!(unpacked(stream, &packed[..length]).is_err(), "{command:?}, {length} of {}", packed.len());
        }
        let checks = !command.iter().any(|word| word.starts_with("--no"));
        for at in (0..packed.len()).step_by(7) {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x10;
            let read = unpacked(stream, &damaged);
            // Names and times in headers, and frames without a checksum, do not reveal damage.
            let told = read.is_err() || read.is_ok_and(|(ours, told)| ours == bytes || told.consumed < packed.len());
            assert!(told || !checks, "{command:?}, byte {at}");
        }
    }
}

#[test]
fn the_writer_ends_a_bomb_and_memory_is_bounded() {
    struct Room(u64);
    impl Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for command in [&["gzip"][..], &["xz", "-0"], &["zstd"], &["lz4"]] {
        let bomb = filtered(command, &vec![0; 16 << 20]);
        assert!(bomb.len() < 1 << 20, "{command:?}");
        let ended = stream_of(command).unpack(&bomb, &mut Room(1 << 20)).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::FileTooLarge, "{command:?}");
    }
    let wide = filtered(&["zstd", "--long=31"], &content(3000));
    assert!(unpacked(Stream::Zstd, &wide).unwrap_err().to_string().contains("too much memory"));
    let mut large = filtered(&["xz", "--lzma2=dict=1MiB"], &content(3000));
    // The size of the dictionary is in the block's header, with a CRC-32 after it.
    let at = large.windows(2).position(|pair| pair == [0x21, 1]).unwrap();
    large[at + 2] = 40;
    let header = 12..12 + (usize::from(large[12]) + 1) * 4 - 4;
    let sum = nandkit_codec::checksum::crc32(&large[header.clone()]);
    large[header.end..header.end + 4].copy_from_slice(&sum.to_le_bytes());
    assert!(unpacked(Stream::Xz, &large).unwrap_err().to_string().contains("memory"));
}
