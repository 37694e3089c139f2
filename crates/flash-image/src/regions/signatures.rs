//! Formats that show themselves by a magic number, checked as far as the format allows. Looked for at every 512 bytes of data, where partitions begin.
//!
//! Sources: Linux `drivers/mtd/ubi/ubi-media.h`, `fs/squashfs/squashfs_fs.h`, `Documentation/driver-api/early-userspace/buffer-format.rst`; U-Boot
//! `include/image.h` (legacy image); the Devicetree specification 0.4, chapter 5 (FIT images are
//! such trees); RFC 1952 (gzip).

use nandkit_codec::checksum::{crc32, crc32_linux};

use super::number::{be32, le16, le32, le64};
use super::{Region, RegionSource, data_bytes, scan};
use crate::dump::DumpFlash;

const STEP: usize = 512;
/// Bytes that a probe is given: two blocks of 4 KiB, which hold both superblocks of a volume that
/// has two.
pub const PROBE_BYTES: usize = 8 << 10;
/// More pieces than a dump has; a hostile one may hold a magic number in every sector.
const FOUND_MAX: usize = 4096;

/// What begins at one place of a dump, as far as its first bytes tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The beginning of the region's name, in small letters; a number follows it.
    pub short: &'static str,
    /// The format for people.
    pub kind: &'static str,
    /// Details for people, perhaps none.
    pub detail: String,
    /// Its length in bytes, where the format says it. Formats made of many erase blocks do not:
    /// they go on to where something else begins.
    pub size: Option<u64>,
    /// Whether it is made of erase blocks that each show a signature.
    pub is_blockwise: bool,
}

/// Recognises a format in [`PROBE_BYTES`] bytes, fewer at the end of the dump.
pub type SignatureProbe = fn(&[u8]) -> Option<Signature>;

impl Signature {
    /// A signature without details, of a format that is not made of erase blocks.
    pub const fn new(short: &'static str, kind: &'static str, size: Option<u64>) -> Self {
        Self { kind, short, detail: String::new(), size, is_blockwise: false }
    }
}

/// A stretch of one format.
struct Stretch {
    at: u64,
    sign: Signature,
    /// Where the last sign of it was seen.
    last: u64,
    /// The smallest distance between two signs.
    distance: u64,
}

pub(super) fn find(device: &DumpFlash, probes: &[SignatureProbe]) -> Vec<Region> {
    let signature = |bytes: &[u8]| recognise(bytes).or_else(|| probes.iter().find_map(|probe| probe(bytes)));
    let mut found: Vec<Stretch> = Vec::new();
    scan(device, PROBE_BYTES, |at, piece, new| {
        for place in (0..new).step_by(STEP) {
            let (Some(bytes), at) = (piece.get(place..), at + place as u64) else { return };
            let sector = bytes.get(..STEP.min(bytes.len())).unwrap_or(&[]);
            if nandkit_units::is_erased(sector) {
                continue;
            }
            step(&mut found, at, signature(bytes));
        }
    });
    finish(device, found)
}

/// Takes a programmed sector into the list of stretches.
fn step(found: &mut Vec<Stretch>, at: u64, sign: Option<Signature>) {
    if let Some(open) = found.last_mut() {
        // Inside something that says its size nothing begins: a file system image holds whatever files hold.
        if open.sign.size.is_some_and(|size| at < open.at.saturating_add(size)) {
            return;
        }
        if open.sign.size.is_none() {
            match &sign {
                Some(sign) if sign.kind == open.sign.kind => {
                    open.distance = open.distance.min(at - open.last);
                    open.last = at;
                    return;
                }
                None => return,
                // Files in it may be images themselves: `finish` tells.
                Some(_) => {}
            }
        }
    }
    if let Some(sign) = sign
        && found.len() < FOUND_MAX
    {
        found.push(Stretch { at, last: at, distance: u64::MAX, sign });
    }
}

/// Stretches to regions: pieces of one block-wise format with content between them that only looked like another are joined.
fn finish(device: &DumpFlash, found: Vec<Stretch>) -> Vec<Region> {
    let block = u64::from(device.layout().block_size.max(1));
    let capacity = data_bytes(device);
    let mut joined: Vec<Stretch> = Vec::new();
    for next in found {
        let same = |stretch: &Stretch| stretch.sign.size.is_none() && stretch.sign.kind == next.sign.kind;
        let earlier = joined.iter().rposition(same).filter(|_| next.sign.is_blockwise);
        // What begins off the blocks of a block-wise format, with more of it behind, is content of its files.
        let between = |index: usize| joined.iter().skip(index + 1).all(|stretch| !stretch.at.is_multiple_of(block));
        match earlier.filter(|&index| between(index)) {
            Some(index) => {
                joined.truncate(index + 1);
                if let Some(open) = joined.last_mut() {
                    open.distance = open.distance.min(next.at - open.last).min(next.distance);
                    open.last = next.last;
                }
            }
            None => joined.push(next),
        }
    }
    let ends: Vec<u64> = joined.iter().skip(1).map(|next| next.at).chain([capacity]).collect();
    let mut regions: Vec<Region> = Vec::new();
    for (stretch, end) in joined.into_iter().zip(ends) {
        let number = regions.iter().filter(|region| region.name.starts_with(stretch.sign.short)).count();
        regions.push(stretch.into_region(number, end.min(capacity), block));
    }
    regions
}

impl Stretch {
    fn into_region(self, number: usize, end: u64, block: u64) -> Region {
        let mut notes = Vec::new();
        let left = end.saturating_sub(self.at).max(1);
        let size = match self.sign.size {
            Some(size) if size > left => {
                notes.push(format!("its header says {size} bytes, {left} are there"));
                left
            }
            Some(size) => size,
            None => {
                notes.push(
                    "the format does not say its size: it is taken to go on to the next one, or the end".to_owned(),
                );
                left
            }
        };
        let mut kind = self.sign.kind.to_owned();
        if !self.sign.detail.is_empty() {
            kind = format!("{kind}, {}", self.sign.detail);
        }
        if self.sign.short == "ubi" && self.distance != u64::MAX {
            kind = format!("{kind}, blocks of {} bytes", self.distance);
        }
        if self.sign.is_blockwise && !self.at.is_multiple_of(block) {
            notes.push(format!(
                "it does not begin at a multiple of the block size {block}: another block size may be right"
            ));
        }
        let name = format!("{}{number}", self.sign.short);
        Region { offset: self.at, size, name, kind, source: RegionSource::Signature, notes }
    }
}

/// Formats that have no crate of their own.
fn recognise(bytes: &[u8]) -> Option<Signature> {
    match *bytes.first_chunk::<4>()? {
        [b'U', b'B', b'I', b'#'] => ubi(bytes),
        [b'h', b's', b'q', b's'] => squashfs(bytes),
        [0x27, 0x05, 0x19, 0x56] => legacy_image(bytes),
        [0xD0, 0x0D, 0xFE, 0xED] => device_tree(bytes),
        [b'0', b'7', b'0', b'7'] => cpio(bytes),
        [0x1F, 0x8B, 8, flags] if flags & 0xE0 == 0 => Some(Signature::new("gzip", "gzip data", None)),
        _ => None,
    }
}

/// An erase counter header with the right CRC over its first 60 bytes.
fn ubi(bytes: &[u8]) -> Option<Signature> {
    let right = be32(bytes, 60)? == crc32_linux(u32::MAX, bytes.get(..60)?);
    right.then(|| Signature { is_blockwise: true, ..Signature::new("ubi", "UBI", None) })
}

/// Version 4, whose superblock says how many bytes are used.
fn squashfs(bytes: &[u8]) -> Option<Signature> {
    let (block, log, major, used) = (le32(bytes, 12)?, le16(bytes, 22)?, le16(bytes, 28)?, le64(bytes, 40)?);
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
    right.then(|| Signature { detail: compression.to_owned(), ..Signature::new("squashfs", "SquashFS 4", Some(used)) })
}

/// A U-Boot image of the old kind: header of 64 bytes with a CRC over itself (its own field zeroed).
fn legacy_image(bytes: &[u8]) -> Option<Signature> {
    let mut header = bytes.get(..64)?.to_vec();
    header.get_mut(4..8)?.fill(0);
    let name = bytes.get(32..64)?;
    let name: String =
        name.iter().take_while(|byte| (0x20..0x7F).contains(*byte)).map(|&byte| char::from(byte)).collect();
    let size = u64::from(be32(bytes, 12)?) + 64;
    (crc32(&header) == be32(bytes, 4)?).then(|| Signature {
        detail: format!("\"{name}\""),
        ..Signature::new("uimage", "U-Boot legacy image", Some(size))
    })
}

/// A flattened device tree: a version in use, and parts that lie inside it.
fn device_tree(bytes: &[u8]) -> Option<Signature> {
    let (total, structure, strings) = (be32(bytes, 4)?, be32(bytes, 8)?, be32(bytes, 12)?);
    let (version, compatible) = (be32(bytes, 20)?, be32(bytes, 24)?);
    let right = structure >= 40
        && structure < total
        && strings < total
        && (16..=32).contains(&version)
        && compatible <= version;
    // The kind of tree shows in its strings only; a FIT image is one that holds "/images", a board's tree a small one.
    right.then(|| Signature::new("fdt", "device tree or FIT image", Some(u64::from(total))))
}

/// The new ASCII format, with or without checksums: 13 fields of eight hexadecimal digits.
fn cpio(bytes: &[u8]) -> Option<Signature> {
    let right =
        matches!(bytes.get(..6)?, b"070701" | b"070702") && bytes.get(6..110)?.iter().all(u8::is_ascii_hexdigit);
    right.then(|| Signature::new("cpio", "cpio archive", None))
}
