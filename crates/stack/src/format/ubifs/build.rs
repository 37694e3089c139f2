//! UBIFS volumes from trees: as files of their own, and in UBI images.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nandkit_codec::compression::{Compression, Level};
use nandkit_ubi::Geometry;
use nandkit_ubi::build::ImageHeaders;
use nandkit_ubi::layout::{VidHeader, VolumeRecord, VolumeType, flag};
use nandkit_ubifs::{BuildOptions, BuildReport, LebSink};
use nandkit_units::format_bytes;
use nandkit_vfs::source::SourceTree;
use nandkit_vfs::{ErrorKind, FsError};

use crate::format::{BuildVolume, Built, Fact};
use crate::{StackError, presets, suggest};

/// Options of a new volume. The defaults are those of mkfs.ubifs and ubinize.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UbifsBuild {
    /// The chip for the volume, which sets sizes and the number of LEBs.
    pub device: Option<String>,
    /// Smallest unit of output in bytes; `None` for the page of the device, or 2048.
    pub min_io_size: Option<u32>,
    /// Bytes of a PEB; `None` for the device's, or 128 KiB.
    pub peb_size: Option<u32>,
    /// Bytes of a LEB; `None` for those of a PEB without two pages for headers.
    pub leb_size: Option<u32>,
    /// The most LEBs; `None` for those of the device, or twice what the tree needs.
    pub leb_count_max: Option<u32>,
    /// Compression of data: none, lzo or zlib; `None` for lzo.
    pub compression: Option<String>,
    /// Compression level, 1 to 9; `None` for 9.
    pub level: Option<u8>,
    /// Children per index node; `None` for 8.
    pub fanout: Option<u32>,
    /// Bytes of the journal; `None` for an eighth of the volume, at most 8 MiB.
    pub journal_size: Option<u64>,
    /// LEBs for orphans; `None` for 1.
    pub orphan_lebs: Option<u32>,
    /// Bytes reserved for root.
    pub reserved_size: u64,
    /// Whether the first mount erases free space again.
    pub space_fixup: bool,
    /// Leaves extended attributes out.
    pub no_xattrs: bool,
    /// Number of compression threads; 0 for one per processor. The image does not depend on it.
    pub threads: usize,
    /// The UBI image around the volume; `None` for a volume in a file of its own.
    pub ubi: Option<UbiBuild>,
}

/// Options of the UBI image around a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UbiBuild {
    /// Bytes that can be written apart in a page, for headers; `None` for whole pages.
    pub sub_page_size: Option<u32>,
    /// The name of the volume.
    pub volume: String,
    /// The image sequence number.
    pub image_sequence: u32,
    /// The erase counter of each PEB.
    pub erase_counter: u64,
}

/// The compressions, by name.
pub(super) const COMPRESSIONS: [(&str, Compression); 4] =
    [("none", Compression::None), ("lzo", Compression::Lzo), ("zlib", Compression::Zlib), ("zstd", Compression::Zstd)];

/// PEBs that Linux takes for itself: the volume table, wear levelling, atomic changes
/// (`drivers/mtd/ubi`: `UBI_LAYOUT_VOLUME_EBS`, `WL_RESERVED_PEBS`, `EBA_RESERVED_PEBS`).
const RESERVED_PEBS: u32 = 4;
/// PEBs of 1024 that Linux holds back for bad ones (`CONFIG_MTD_UBI_BEB_LIMIT`).
const BAD_OF_1024: u32 = 20;
/// LEBs beside those of a small tree: superblock, log, properties, orphans, heads of the journal.
const LEBS_BESIDE: u64 = 40;

fn wrong(option: &str, detail: impl std::fmt::Display) -> StackError {
    StackError::new("image", format!("{option}: {detail}"))
}

impl UbifsBuild {
    /// The options for a tree whose files have so many bytes, and where headers and data lie.
    fn options(&self, content_bytes: u64) -> Result<(BuildOptions, Geometry), StackError> {
        let chip = self.device.as_deref().map(presets::chip).transpose().map_err(|error| wrong("`device`", error))?;
        let chip = chip.map(|chip| chip.geometry.build());
        let plain = BuildOptions::default();
        let min_io_size = self.min_io_size.or(chip.map(|chip| chip.write_unit)).unwrap_or(plain.min_io_size);
        let on_chip = chip.map(|chip| chip.page_size.saturating_mul(chip.pages_per_block));
        let peb_size = self.peb_size.or(on_chip).unwrap_or(128 << 10);
        let header_unit = self.ubi.as_ref().and_then(|ubi| ubi.sub_page_size).unwrap_or(min_io_size).max(64);
        let data_offset = header_unit.saturating_mul(2).next_multiple_of(min_io_size.max(1));
        let geometry = Geometry { peb_size, vid_offset: header_unit, data_offset };
        let room = peb_size.checked_sub(data_offset).filter(|room| *room > 0);
        let room = room.ok_or_else(|| wrong("`peb_size`", format!("{peb_size}: no room behind {data_offset}")))?;
        let leb_size = self.leb_size.unwrap_or(room);
        if self.ubi.is_some() && leb_size != room {
            return Err(wrong("`leb_size`", format!("{leb_size}; blocks of {peb_size} bytes have LEBs of {room}")));
        }
        let of_chip = chip.map(|chip| {
            let blocks = chip.blocks;
            blocks.saturating_sub(RESERVED_PEBS + blocks.saturating_mul(BAD_OF_1024).div_ceil(1024))
        });
        let of_tree = || {
            let lebs = content_bytes.div_ceil(u64::from(leb_size.max(1))) * 2 + LEBS_BESIDE;
            u32::try_from(lebs).unwrap_or(u32::MAX)
        };
        let compression = match self.compression.as_deref() {
            None => plain.compression,
            Some(name) => {
                let known = COMPRESSIONS.map(|(known, _)| known);
                let found = COMPRESSIONS.iter().find(|(known, _)| *known == name).map(|(_, compression)| *compression);
                found.ok_or_else(|| wrong("`compression`", suggest::unknown("compression", name, &known)))?
            }
        };
        let options = BuildOptions {
            min_io_size,
            leb_size,
            leb_count_max: self.leb_count_max.or(of_chip).unwrap_or_else(of_tree),
            compression,
            level: self.level.map_or(Level::BEST, Level::new),
            fanout: self.fanout.unwrap_or(plain.fanout),
            journal_size: self.journal_size,
            orphan_lebs: self.orphan_lebs.unwrap_or(plain.orphan_lebs),
            reserved_size: self.reserved_size,
            space_fixup: self.space_fixup,
            xattrs: !self.no_xattrs,
            threads: self.threads,
            ..plain
        };
        options.check().map_err(|error| wrong("mkfs ubifs", error.detail))?;
        Ok((options, geometry))
    }
}

impl BuildVolume for UbifsBuild {
    fn check(&self) -> Result<(), StackError> {
        let (_, geometry) = self.options(0)?;
        let Some(ubi) = &self.ubi else { return Ok(()) };
        let (record, headers) = (ubi.record(0), ubi.headers(geometry));
        if record.name.is_empty() || record.name.len() > nandkit_ubi::layout::NAME_MAX {
            return Err(wrong("`volume`", format!("'{}': expected 1 to 127 bytes", ubi.volume)));
        }
        headers.refusal().map_or(Ok(()), |why| Err(wrong("mkfs ubi", why)))
    }

    fn build(
        &self,
        tree: Option<&dyn SourceTree>,
        path: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Built, StackError> {
        let empty = nandkit_vfs::source::MemoryTree::from_builder(nandkit_vfs::source::MemoryTree::builder());
        let tree = tree.unwrap_or(&empty);
        let files = tree.nodes().iter().filter(|node| node.hard_link_of.is_none());
        let (options, geometry) = self.options(files.map(|node| node.size).fold(0, u64::saturating_add))?;
        let failed = |error: std::io::Error| wrong(&path.display().to_string(), format!("cannot write: {error}"));
        let file = File::options().write(true).open(path).map_err(failed)?;
        let (report, pebs) = match &self.ubi {
            None => {
                let mut sink = PlainSink { file, leb_size: options.leb_size, written: Vec::new() };
                let report = nandkit_ubifs::build(tree, &options, &mut sink, progress).map_err(told)?;
                sink.erase_the_rest(report.leb_count).map_err(failed)?;
                (report, None)
            }
            Some(ubi) => {
                let mut sink = UbiSink { file, headers: ubi.headers(geometry), pebs: nandkit_ubi::layout::LAYOUT_LEBS };
                let report = nandkit_ubifs::build(tree, &options, &mut sink, progress).map_err(told)?;
                sink.finish(&ubi.record(report.leb_count)).map_err(failed)?;
                (report, Some(sink.pebs))
            }
        };
        Ok(built(&report, pebs.map(|pebs| (pebs, geometry.peb_size))))
    }
}

impl UbiBuild {
    /// The record of the volume, which takes the whole flash at its first attach.
    fn record(&self, lebs: u32) -> VolumeRecord {
        let record = VolumeRecord::new(&self.volume, VolumeType::Dynamic, lebs);
        VolumeRecord { flags: flag::AUTORESIZE, ..record }
    }

    fn headers(&self, geometry: Geometry) -> ImageHeaders {
        ImageHeaders { geometry, image_sequence: self.image_sequence, erase_counter: self.erase_counter }
    }
}

fn device(error: std::io::Error) -> FsError {
    FsError::new(ErrorKind::Device, format!("cannot write the image: {error}"))
}

/// A volume in a file: LEB n at n times the LEB size.
struct PlainSink {
    file: File,
    leb_size: u32,
    written: Vec<bool>,
}

impl LebSink for PlainSink {
    fn put(&mut self, leb: u32, bytes: &[u8]) -> nandkit_vfs::Result<()> {
        let mut whole = bytes.to_vec();
        whole.resize(self.leb_size as usize, 0xFF);
        let place = leb as usize;
        self.written.resize(self.written.len().max(place + 1), false);
        self.written.get_mut(place).into_iter().for_each(|written| *written = true);
        self.file.write_all_at(&whole, u64::from(leb) * u64::from(self.leb_size)).map_err(device)
    }
}

impl PlainSink {
    fn erase_the_rest(&self, lebs: u32) -> std::io::Result<()> {
        let erased = vec![0xFF; self.leb_size as usize];
        for leb in (0..lebs).filter(|leb| !self.written.get(*leb as usize).is_some_and(|written| *written)) {
            self.file.write_all_at(&erased, u64::from(leb) * u64::from(self.leb_size))?;
        }
        Ok(())
    }
}

/// A UBI image with one volume: LEBs are in the PEBs in which they come.
struct UbiSink {
    file: File,
    headers: ImageHeaders,
    /// PEBs so far, with those of the volume table.
    pebs: u32,
}

impl LebSink for UbiSink {
    fn put(&mut self, leb: u32, bytes: &[u8]) -> nandkit_vfs::Result<()> {
        let peb = self.headers.peb(&VidHeader { leb, ..VidHeader::new(VolumeType::Dynamic) }, bytes);
        self.file.write_all_at(&peb, u64::from(self.pebs) * peb.len() as u64).map_err(device)?;
        self.pebs += 1;
        Ok(())
    }
}

impl UbiSink {
    fn finish(&self, record: &VolumeRecord) -> std::io::Result<()> {
        self.file.write_all_at(&self.headers.table(&[Some(record)]).concat(), 0)
    }
}

fn built(report: &BuildReport, ubi: Option<(u32, u32)>) -> Built {
    let (blocks, size, unit) = match ubi {
        Some((pebs, peb_size)) => (pebs, peb_size, "PEBs"),
        None => (report.leb_count, report.leb_size, "LEBs"),
    };
    let image_bytes = u64::from(blocks) * u64::from(size);
    let line = format!(
        "{} names, {} of files in {}, {blocks} {unit} of {}; grows to {} LEBs",
        report.names,
        format_bytes(report.content_bytes),
        format_bytes(image_bytes),
        format_bytes(size.into()),
        report.leb_count_max,
    );
    let mut facts = vec![
        Fact::member("format", if ubi.is_some() { "ubi" } else { super::NAME }),
        Fact::member("inodes", report.inodes),
        Fact::member("names", report.names),
        Fact::member("data_nodes", report.data_nodes),
        Fact::member("content_bytes", report.content_bytes),
        Fact::member("index_bytes", report.index_bytes),
        Fact::member("image_bytes", image_bytes),
        Fact::member("leb_size", report.leb_size),
        Fact::member("leb_count", report.leb_count),
        Fact::member("leb_count_max", report.leb_count_max),
    ];
    facts.extend(ubi.into_iter().flat_map(|(pebs, size)| [Fact::member("pebs", pebs), Fact::member("peb_size", size)]));
    Built { line, facts }
}

fn told(error: FsError) -> StackError {
    let source = error.source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    StackError::new("image", format!("{}{source}", error.detail))
}
