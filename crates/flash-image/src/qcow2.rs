//! Reading qcow2, QEMU's disk format: the current content, without snapshots.
//!
//! Source: QEMU, `docs/interop/qcow2.txt` (version 3, with compressed clusters and extended L2
//! entries). All numbers are big-endian. The disk is divided into clusters; L1 entries point to L2
//! tables of one cluster each, whose entries point to the clusters' bytes in the file.

use std::io::{Seek, Write};

use nandkit_codec::compression::inflate_raw;
use nandkit_codec::streams::Stream;

use crate::error::{ImageError, ImageErrorKind, Result};
use crate::holes::{Holes, Limits};

/// The magic number.
pub const MAGIC: [u8; 4] = *b"QFI\xFB";

/// The bits of an entry that are a file offset.
const OFFSET: u64 = 0x00FF_FFFF_FFFF_FE00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Subclusters per cluster in extended entries.
const SUBCLUSTERS: usize = 32;
/// Most bytes of a backing file's name in messages.
const NAME_MAX: usize = 1023;

/// The feature bit of an external data file; unknown feature bits are refused.
const DATA_FILE: u64 = 1 << 2;
const COMPRESSION_TYPE: u64 = 1 << 3;
const EXTENDED: u64 = 1 << 4;
/// Harmless feature bits: refcounts may be outdated (bit 0), or an error was detected before (bit
/// 1).
const HARMLESS: u64 = 0b11;

/// The result of unpacking a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qcow2Report {
    /// Size of the disk in bytes.
    pub bytes: u64,
    /// Number of internal snapshots, which are ignored.
    pub snapshots: u32,
}

/// Whether bytes are the beginning of a qcow2 file.
pub fn is_qcow2(beginning: &[u8]) -> bool {
    beginning.starts_with(&MAGIC) && matches!(be32(beginning, 4), Some(2 | 3))
}

fn corrupt(detail: impl std::fmt::Display) -> ImageError {
    ImageError::new(ImageErrorKind::Corrupt, format!("qcow2: {detail}"))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A range of the file; `None` if the file does not contain all of it.
fn stretch(file: &[u8], at: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(at).ok()?;
    file.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

struct Header {
    size: u64,
    cluster_bits: u32,
    l1: Vec<u64>,
    extended: bool,
    zstd: bool,
    version: u32,
    snapshots: u32,
}

impl Header {
    const fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Size of an L2 entry in bytes.
    const fn entry(&self) -> u64 {
        if self.extended { 16 } else { 8 }
    }

    fn parse(file: &[u8]) -> Result<Self> {
        let short = || corrupt("it ends within the header");
        let word = |at: usize| be32(file, at).ok_or_else(short);
        let long = |at: usize| be64(file, at).ok_or_else(short);
        let (version, cluster_bits, size) = (word(4)?, word(20)?, long(24)?);
        if !is_qcow2(file) || !(9..=21).contains(&cluster_bits) {
            return Err(corrupt(format!(
                "version {version}, clusters of 2^{cluster_bits} bytes; expected version 2 or 3, and 2^9 to 2^21"
            )));
        }
        refuse_backing(file, long(8)?, word(16)?)?;
        if word(32)? != 0 {
            return Err(corrupt("its content is encrypted; expected the disk as `qemu-img convert -O raw` writes it"));
        }
        let features = if version == 3 { long(72)? } else { 0 };
        if features & DATA_FILE != 0 {
            return Err(corrupt(
                "its content is in an external data file; expected the disk as `qemu-img convert -O raw` writes it",
            ));
        }
        if features & !(HARMLESS | COMPRESSION_TYPE | EXTENDED) != 0 {
            return Err(corrupt(format!("it needs features {features:#x} that are not known")));
        }
        let kind = match features & COMPRESSION_TYPE {
            0 => 0,
            _ => *file.get(104).ok_or_else(short)?,
        };
        if kind > 1 {
            return Err(corrupt(format!("compression type {kind}; expected 0 (deflate) or 1 (zstd)")));
        }
        let mut header = Self {
            size,
            cluster_bits,
            l1: Vec::new(),
            extended: features & EXTENDED != 0,
            zstd: kind == 1,
            version,
            snapshots: word(60)?,
        };
        header.read_l1(file, long(40)?, word(36)?)?;
        Ok(header)
    }

    fn read_l1(&mut self, file: &[u8], at: u64, entries: u32) -> Result<()> {
        let covered = self.cluster() * (self.cluster() / self.entry());
        let needed = self.size.div_ceil(covered);
        if u64::from(entries) < needed {
            return Err(corrupt(format!(
                "a disk of {} bytes needs {needed} L1 entries, {entries} are there",
                self.size
            )));
        }
        let table = stretch(file, at, needed.saturating_mul(8))
            .ok_or_else(|| corrupt(format!("the L1 table at {at:#x} is not wholly in the file")))?;
        self.l1 = table.as_chunks::<8>().0.iter().map(|entry| u64::from_be_bytes(*entry) & OFFSET).collect();
        // Each L2 table is one cluster of the file, and no two are the same.
        let tables = self.l1.iter().filter(|entry| **entry != 0).count() as u64;
        if tables.saturating_mul(self.cluster()) > file.len() as u64 {
            return Err(corrupt(format!("{tables} L2 tables do not fit into the file")));
        }
        Ok(())
    }
}

/// Refuses a disk that needs a backing file.
fn refuse_backing(file: &[u8], at: u64, length: u32) -> Result<()> {
    if at == 0 {
        return Ok(());
    }
    let name = stretch(file, at, u64::from(length)).unwrap_or_default();
    let name = name.get(..name.len().min(NAME_MAX)).unwrap_or_default().escape_ascii();
    Err(corrupt(format!(
        "the rest of the disk is in the backing file \"{name}\", which is not opened; expected both in one, as `qemu-img convert -O raw` writes them"
    )))
}

/// Writes the disk to `to`, which must be empty; zeroes and unwritten parts become holes. The
/// caller must then set the length of `to` to [`Qcow2Report::bytes`].
///
/// Errors: `Corrupt` if it is no qcow2 file, is inconsistent, ends too early, or needs another file
/// or a key; `Io`, also beyond the limits. Cost: proportional to the content; memory for the L1
/// table, which is in the file, and one cluster.
pub fn unpack(file: &[u8], to: &mut (impl Write + Seek), limits: Limits) -> Result<Qcow2Report> {
    let header = Header::parse(file)?;
    if header.size > limits.length {
        return Err(corrupt(format!("the disk has {} bytes; at most {} are expected", header.size, limits.length)));
    }
    let mut disk = Disk {
        file,
        header: &header,
        to: Holes::new(to, limits),
        left: file.len() as u64,
        unpacked: vec![0; 1 << header.cluster_bits],
    };
    let per_table = header.cluster() / header.entry();
    for (number, &table) in (0_u64..).zip(&header.l1).filter(|(_, table)| **table != 0) {
        let bytes = stretch(file, table, header.cluster())
            .ok_or_else(|| corrupt(format!("the L2 table at {table:#x} is not wholly in the file")))?;
        for (index, entry) in (number * per_table..).zip(bytes.chunks_exact(header.entry() as usize)) {
            let at = index * header.cluster();
            if at >= header.size {
                break;
            }
            let (entry, parts) = (be64(entry, 0).unwrap_or(0), be64(entry, 8).unwrap_or(0));
            disk.cluster(at, entry, parts)?;
        }
    }
    Ok(Qcow2Report { bytes: header.size, snapshots: header.snapshots })
}

struct Disk<'a, T> {
    file: &'a [u8],
    header: &'a Header,
    to: Holes<'a, T>,
    /// File bytes that clusters may still refer to: no byte belongs to two of them.
    left: u64,
    unpacked: Vec<u8>,
}

impl<T: Write + Seek> Disk<'_, T> {
    fn cluster(&mut self, at: u64, entry: u64, parts: u64) -> Result<()> {
        let length = self.header.cluster().min(self.header.size - at);
        if entry & COMPRESSED != 0 {
            return self.compressed(at, length, entry);
        }
        let host = entry & OFFSET;
        let is_zero = self.header.version == 3 && !self.header.extended && entry & ZERO != 0;
        if host == 0 || is_zero {
            return Ok(());
        }
        self.left = self.left.checked_sub(length).ok_or_else(|| corrupt("several clusters have the same place"))?;
        let bytes = stretch(self.file, host, length);
        let bytes =
            bytes.ok_or_else(|| corrupt(format!("the cluster of byte {at} at {host:#x} is not wholly in the file")))?;
        if !self.header.extended {
            return self.put(at, bytes);
        }
        let part = (self.header.cluster() as usize / SUBCLUSTERS).max(1);
        for (number, bytes) in bytes.chunks(part).enumerate() {
            if parts >> number & 1 == 1 && parts >> (number + SUBCLUSTERS) & 1 == 0 {
                self.put(at + (number * part) as u64, bytes)?;
            }
        }
        Ok(())
    }

    /// Reads a compressed cluster: the entry holds a byte offset, and the number of further
    /// 512-byte sectors that the data reach into; the end of the file may cut off the last one.
    fn compressed(&mut self, at: u64, length: u64, entry: u64) -> Result<()> {
        let split = 62 - (self.header.cluster_bits - 8);
        let host = entry & ((1 << split) - 1);
        let sectors = (entry & (COMPRESSED - 1)) >> split;
        let most = ((sectors + 1) * 512 - host % 512).min((self.file.len() as u64).saturating_sub(host));
        let packed = stretch(self.file, host, most).unwrap_or_default();
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let whole = match self.header.zstd {
            true => {
                let mut into = &mut unpacked[..];
                let read = Stream::Zstd.unpack(packed, &mut into).map(|told| told.bytes);
                // The rest of the last sector belongs to another cluster.
                read.is_ok_and(|bytes| bytes == self.header.cluster()) || into.is_empty()
            }
            false => inflate_raw(packed, &mut unpacked),
        };
        let put = match whole {
            true => self.put(at, unpacked.get(..length as usize).unwrap_or(&unpacked)),
            false => Err(corrupt(format!("the compressed cluster of byte {at} at {host:#x} is damaged or cut off"))),
        };
        self.unpacked = unpacked;
        put
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.to.go_to(at);
        self.to.write_all(bytes).map_err(|error| ImageError {
            source: Some(error),
            ..ImageError::new(ImageErrorKind::Io, format!("qcow2: cannot unpack the cluster of byte {at}"))
        })
    }
}
