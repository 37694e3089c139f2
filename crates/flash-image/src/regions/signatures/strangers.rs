//! Formats that nandkit recognizes but does not read: how to recognize them, their length if a
//! header stores it, and which tools read them.
//!
//! Sources: Linux `drivers/mtd/ubi/ubi-media.h`, `fs/ubifs/ubifs-media.h`,
//! `fs/squashfs/squashfs_fs.h`, `include/uapi/linux/cramfs_fs.h`,
//! `Documentation/filesystems/romfs.rst`, `fs/ext4/ext4.h`,
//! `Documentation/driver-api/early-userspace/buffer-format.rst`; U-Boot `include/image.h` (legacy
//! image); the Devicetree specification 0.4, chapter 5 (FIT images are such trees); OpenWrt
//! `tools/firmware-utils/src/trx.c`; yaffs2 `yaffs_guts.h` (object headers); QEMU
//! `docs/interop/qcow2.txt`; the LUKS on-disk formats 1 and 2; the exFAT specification 3.1; RFC
//! 1952 (gzip), RFC 8878 (zstd), the xz and LZ4 frame formats, APPNOTE.TXT (zip).

use nandkit_codec::checksum::{crc32, crc32_linux};

use super::Signature;
use crate::regions::number::{be32, le16, le32, le64};

/// A recognized foreign format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// The prefix of a region's name, in lower case.
    pub short: &'static str,
    /// The name of the format for people.
    pub kind: &'static str,
    /// Details for people; may be empty.
    pub detail: String,
    /// Length in bytes, if the format stores it.
    pub size: Option<u64>,
    /// What the user can do with it.
    pub next: &'static str,
}

/// Length and details; `None` if the check fails.
type Judged = Option<(Option<u64>, String)>;

/// A format: its magic number with its offset, and further checks.
struct Kind {
    short: &'static str,
    kind: &'static str,
    magic: &'static [u8],
    /// Offset of the magic number.
    at: usize,
    judge: fn(&[u8]) -> Judged,
    next: &'static str,
}

const UNPACK: &str = "unpack it first";
const TAKE_OUT: &str = "`nandkit export --region` takes it out of a dump, and nandkit opens what is inside that file";
const OTHER_TOOLS: &str = "other tools open it; `nandkit export --region` takes it out of a dump";

/// Magic numbers to search at every byte.
pub(super) const UNALIGNED: [&[u8]; 2] = [b"hsqs", b"sqsh"];

/// The table of all formats. Containers come before formats that may begin with the same bytes.
static KINDS: [Kind; 26] = [
    Kind {
        short: "end-mark",
        kind: "OpenWrt's mark 0xDEADC0DE",
        magic: &[0xDE, 0xAD, 0xC0, 0xDE],
        at: 0,
        judge: |_| Some((None, "what stands behind it is to be erased at the first boot".to_owned())),
        next: OTHER_TOOLS,
    },
    Kind {
        short: "ubi",
        kind: "UBI",
        magic: b"UBI#",
        at: 0,
        judge: ubi,
        next: "no erase blocks fit what its headers say: they are damaged, or the first block is not whole",
    },
    Kind {
        short: "ubifs",
        kind: "UBIFS",
        magic: &[0x31, 0x18, 0x10, 0x06],
        at: 0,
        judge: ubifs,
        next: "its files can be read where its superblock is whole and stands at its beginning",
    },
    Kind {
        short: "squashfs",
        kind: "SquashFS",
        magic: b"hsqs",
        at: 0,
        judge: squashfs,
        next: "unsquashfs takes its files out",
    },
    Kind {
        short: "squashfs",
        kind: "SquashFS, big-endian",
        magic: b"sqsh",
        at: 0,
        judge: squashfs_big,
        next: "unsquashfs takes its files out",
    },
    Kind {
        short: "cramfs",
        kind: "cramfs",
        magic: &[0x45, 0x3D, 0xCD, 0x28],
        at: 0,
        judge: |bytes| cramfs(bytes, le32),
        next: OTHER_TOOLS,
    },
    Kind {
        short: "cramfs",
        kind: "cramfs, big-endian",
        magic: &[0x28, 0xCD, 0x3D, 0x45],
        at: 0,
        judge: |bytes| cramfs(bytes, be32),
        next: OTHER_TOOLS,
    },
    Kind {
        short: "romfs",
        kind: "romfs",
        magic: b"-rom1fs-",
        at: 0,
        judge: |bytes| sized(u64::from(be32(bytes, 8)?)),
        next: OTHER_TOOLS,
    },
    Kind { short: "exfat", kind: "exFAT", magic: b"EXFAT   ", at: 3, judge: exfat, next: OTHER_TOOLS },
    Kind { short: "ntfs", kind: "NTFS", magic: b"NTFS    ", at: 3, judge: ntfs, next: OTHER_TOOLS },
    Kind { short: "ext4-", kind: "ext2, ext3 or ext4", magic: &[0x53, 0xEF], at: 1080, judge: ext, next: OTHER_TOOLS },
    Kind {
        short: "uimage",
        kind: "U-Boot legacy image",
        magic: &[0x27, 0x05, 0x19, 0x56],
        at: 0,
        judge: legacy_image,
        next: OTHER_TOOLS,
    },
    Kind { short: "trx", kind: "TRX firmware", magic: b"HDR0", at: 0, judge: trx, next: OTHER_TOOLS },
    Kind {
        short: "fdt",
        kind: "device tree or FIT image",
        magic: &[0xD0, 0x0D, 0xFE, 0xED],
        at: 0,
        judge: device_tree,
        next: OTHER_TOOLS,
    },
    Kind { short: "cpio", kind: "cpio archive", magic: b"0707", at: 0, judge: cpio, next: UNPACK },
    Kind {
        short: "luks",
        kind: "LUKS, encrypted",
        magic: b"LUKS\xBA\xBE",
        at: 0,
        judge: luks,
        next: "open it with cryptsetup, and give nandkit the device",
    },
    Kind { short: "qcow2-", kind: "qcow2", magic: b"QFI\xFB", at: 0, judge: qcow2, next: TAKE_OUT },
    Kind { short: "gzip", kind: "gzip data", magic: &[0x1F, 0x8B, 8], at: 0, judge: gzip, next: TAKE_OUT },
    Kind {
        short: "xz",
        kind: "xz data",
        magic: &[0xFD, b'7', b'z', b'X', b'Z', 0],
        at: 0,
        judge: plain,
        next: TAKE_OUT,
    },
    Kind { short: "zstd", kind: "zstd data", magic: &[0x28, 0xB5, 0x2F, 0xFD], at: 0, judge: plain, next: TAKE_OUT },
    Kind { short: "lz4-", kind: "LZ4 data", magic: &[0x04, 0x22, 0x4D, 0x18], at: 0, judge: plain, next: TAKE_OUT },
    Kind {
        short: "lz4-",
        kind: "LZ4 data, legacy frame",
        magic: &[0x02, 0x21, 0x4C, 0x18],
        at: 0,
        judge: plain,
        next: TAKE_OUT,
    },
    Kind { short: "bzip2-", kind: "bzip2 data", magic: b"BZh", at: 0, judge: bzip2, next: TAKE_OUT },
    Kind { short: "zip", kind: "zip archive", magic: b"PK\x03\x04", at: 0, judge: plain, next: UNPACK },
    Kind {
        short: "yaffs2-",
        kind: "YAFFS2, little-endian",
        magic: &[0xFF, 0xFF],
        at: 8,
        judge: |bytes| yaffs2(bytes, le32),
        next: OTHER_TOOLS,
    },
    Kind {
        short: "yaffs2-",
        kind: "YAFFS2, big-endian",
        magic: &[0xFF, 0xFF],
        at: 8,
        judge: |bytes| yaffs2(bytes, be32),
        next: OTHER_TOOLS,
    },
];

/// The foreign format that begins with these bytes, if any.
pub fn stranger(bytes: &[u8]) -> Option<Stranger> {
    KINDS.iter().find_map(|kind| {
        let here = bytes.get(kind.at..)?.starts_with(kind.magic);
        let (size, detail) = here.then(|| (kind.judge)(bytes)).flatten()?;
        Some(Stranger { short: kind.short, kind: kind.kind, detail, size, next: kind.next })
    })
}

impl Stranger {
    pub(super) fn into_signature(self) -> Signature {
        let is_blockwise = self.short == "ubi";
        Signature { detail: self.detail, is_blockwise, ..Signature::new(self.short, self.kind, self.size) }
    }
}

fn plain(_: &[u8]) -> Judged {
    Some((None, String::new()))
}

fn sized(size: u64) -> Judged {
    (size > 0).then(|| (Some(size), String::new()))
}

/// Checks an erase counter header: valid CRC over its first 60 bytes.
fn ubi(bytes: &[u8]) -> Judged {
    let right = be32(bytes, 60)? == crc32_linux(u32::MAX, bytes.get(..60)?);
    right.then(|| (None, String::new()))
}

/// Checks a node: valid CRC over everything after the CRC, up to its length; the superblock comes
/// first.
fn ubifs(bytes: &[u8]) -> Judged {
    let (sum, length, node_type) = (le32(bytes, 4)?, le32(bytes, 16)? as usize, *bytes.get(20)?);
    let right = length >= 24 && crc32_linux(u32::MAX, bytes.get(8..length)?) == sum;
    let superblock = node_type == 6 && length >= 68;
    let geometry = || Some(u64::from(le32(bytes, 36)?) * u64::from(le32(bytes, 40)?));
    right.then(|| (superblock.then(geometry).flatten(), String::new()))
}

/// Checks version 4, whose superblock stores the number of used bytes, and earlier versions.
fn squashfs(bytes: &[u8]) -> Judged {
    let (block, log, major, used) = (le32(bytes, 12)?, le16(bytes, 22)?, le16(bytes, 28)?, le64(bytes, 40)?);
    if (1..=3).contains(&major) {
        return old_squashfs(major, u64::from(le32(bytes, 8)?));
    }
    let right = major == 4 && (12..=20).contains(&log) && block == 1 << log && used >= 96;
    let compression = match le16(bytes, 20)? {
        1 => "gzip",
        2 => "lzma",
        3 => "lzo",
        4 => "xz",
        5 => "lz4",
        6 => "zstd",
        _ => "unknown compression",
    };
    right.then(|| (Some(used), format!("version 4, {compression}")))
}

fn squashfs_big(bytes: &[u8]) -> Judged {
    let major = u16::from_be_bytes(*bytes.get(28..)?.first_chunk()?);
    (1..=3).contains(&major).then(|| old_squashfs(major, u64::from(be32(bytes, 8)?))).flatten()
}

/// Checks versions 1 to 3: the number of used bytes is 32 bits wide if the number fits, after three
/// numbers; a few firmware tools leave it 0.
fn old_squashfs(major: u16, used: u64) -> Judged {
    Some(((used >= 64).then_some(used), format!("version {major}")))
}

/// Checks the signature after four numbers, and a size.
fn cramfs(bytes: &[u8], number: fn(&[u8], usize) -> Option<u32>) -> Judged {
    (bytes.get(16..32)? == b"Compressed ROMFS").then_some(())?;
    sized(u64::from(number(bytes, 4)?))
}

fn exfat(bytes: &[u8]) -> Judged {
    let (sectors, shift) = (le64(bytes, 72)?, *bytes.get(108)?);
    let right = bytes.get(510..512)? == [0x55, 0xAA] && (9..=12).contains(&shift);
    right.then(|| (sectors.checked_shl(shift.into()), String::new()))
}

fn ntfs(bytes: &[u8]) -> Judged {
    let (sector, sectors) = (u64::from(le16(bytes, 11)?), le64(bytes, 40)?);
    let right = bytes.get(510..512)? == [0x55, 0xAA] && sector.is_power_of_two();
    // One more sector holds a copy of the first.
    right.then(|| (sectors.checked_add(1).and_then(|all| all.checked_mul(sector)), String::new()))
}

fn ext(bytes: &[u8]) -> Judged {
    let number = |at: usize| le32(bytes, 1024 + at);
    let (inodes, blocks, first, shift) = (number(0)?, number(4)?, number(20)?, number(24)?);
    let right = inodes > 0 && blocks > first && first <= 1 && shift <= 6 && number(32)? > 0 && number(40)? > 0;
    right.then(|| (Some(u64::from(blocks) << (10 + shift)), String::new()))
}

/// Checks a legacy U-Boot image: 64-byte header with a CRC over itself (its own field zeroed).
fn legacy_image(bytes: &[u8]) -> Judged {
    let mut header = bytes.get(..64)?.to_vec();
    header.get_mut(4..8)?.fill(0);
    let name = bytes.get(32..64)?;
    let name: String =
        name.iter().take_while(|byte| (0x20..0x7F).contains(*byte)).map(|&byte| char::from(byte)).collect();
    let size = u64::from(be32(bytes, 12)?) + 64;
    (crc32(&header) == be32(bytes, 4)?).then(|| (Some(size), format!("\"{name}\"")))
}

/// Checks a length that includes the header, and the positions of parts inside it.
fn trx(bytes: &[u8]) -> Judged {
    let (length, version) = (le32(bytes, 4)?, le16(bytes, 14)?);
    let inside = (0..3).all(|part| le32(bytes, 16 + 4 * part).is_some_and(|place| place < length));
    ((1..=2).contains(&version) && length >= 28 && inside).then(|| (Some(length.into()), String::new()))
}

/// Checks a flattened device tree: a version in use, and parts that lie inside it.
fn device_tree(bytes: &[u8]) -> Judged {
    let (total, structure, strings) = (be32(bytes, 4)?, be32(bytes, 8)?, be32(bytes, 12)?);
    let (version, compatible) = (be32(bytes, 20)?, be32(bytes, 24)?);
    let right = structure >= 40
        && structure < total
        && strings < total
        && (16..=32).contains(&version)
        && compatible <= version;
    // Only its strings tell the kind of tree; a FIT image contains "/images", a board's tree is
    // small.
    right.then(|| (Some(u64::from(total)), String::new()))
}

/// Checks the new ASCII format, with or without checksums: 13 fields of eight hexadecimal digits.
fn cpio(bytes: &[u8]) -> Judged {
    let right =
        matches!(bytes.get(..6)?, b"070701" | b"070702") && bytes.get(6..110)?.iter().all(u8::is_ascii_hexdigit);
    right.then(|| (None, String::new()))
}

fn luks(bytes: &[u8]) -> Judged {
    let version = u16::from_be_bytes(*bytes.get(6..)?.first_chunk()?);
    (1..=2).contains(&version).then(|| (None, format!("version {version}")))
}

fn qcow2(bytes: &[u8]) -> Judged {
    let version = be32(bytes, 4)?;
    (2..=3).contains(&version).then(|| (None, format!("version {version}")))
}

fn gzip(bytes: &[u8]) -> Judged {
    (bytes.get(3)? & 0xE0 == 0).then(|| (None, String::new()))
}

/// Checks a level, and the beginning of a block: the digits of pi.
fn bzip2(bytes: &[u8]) -> Judged {
    let right = bytes.get(3)?.is_ascii_digit() && bytes.get(4..10)? == [0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
    right.then(|| (None, String::new()))
}

/// Checks an object header of a file, a symbolic link or a directory, with a parent, a name and a
/// matching mode.
fn yaffs2(bytes: &[u8], number: fn(&[u8], usize) -> Option<u32>) -> Judged {
    let (kind, parent, mode) = (number(bytes, 0)?, number(bytes, 4)?, number(bytes, 268)?);
    let name = bytes.get(10..266)?;
    let length = name.iter().position(|byte| *byte == 0)?;
    let is_name = length > 0 && name.get(..length)?.iter().all(|byte| *byte >= 0x20 && *byte != b'/');
    let of_kind = [(1, 0x8000), (2, 0xA000), (3, 0x4000)].contains(&(kind, mode & 0xF000));
    let right =
        of_kind && mode <= 0xFFFF && (1..0x0004_0000).contains(&parent) && (is_name || length == 0 && kind == 3);
    right.then(|| (None, String::new()))
}
