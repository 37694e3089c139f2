//! JFFS2 images from trees.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use nandkit_codec::compression::{Compression, Level};
use nandkit_jffs2::layout::ByteOrder as Order;
use nandkit_jffs2::mkfs::{self, BuildOptions, BuildReport, OobPages};
use nandkit_units::{FlashKind, format_bytes};
use nandkit_vfs::source::SourceTree;
use nandkit_vfs::{ErrorKind, FsError, Timestamp};

use crate::format::{BuildVolume, Built, ByteOrder, Fact};
use crate::{StackError, presets, suggest};

/// Options of a new JFFS2 image. The defaults are those of mkfs.jffs2 on a little-endian host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jffs2Build {
    /// The chip for the image, which sets erase size and flash type.
    pub device: Option<String>,
    /// Byte order of numbers; `None` for little-endian.
    pub byte_order: Option<ByteOrder>,
    /// Erase size in bytes, 4 KiB to 64 MiB; `None` for the device's, or 64 KiB.
    pub erase_size: Option<u32>,
    /// Largest amount of file data in a node, in bytes: the page size of the system that mounts the
    /// image. `None` for 4096.
    pub page_size: Option<u32>,
    /// Size of the cleanmarker at the beginning of each block in bytes, 0 for none; `None` for none
    /// on NAND and 12 otherwise.
    pub cleanmarker_size: Option<u32>,
    /// Writes the OOB after each page, with cleanmarkers where Linux puts them.
    pub oob: Option<OobOf>,
    /// Ends each block but the last with a summary.
    pub summaries: bool,
    /// Compressions in the order in which they are tried: none, zlib, lzo, rtime. Empty for zlib
    /// and rtime.
    pub compressions: Vec<String>,
    /// Compression level, 1 to 9; `None` for 3, which gives smaller images than the highest level
    /// of mkfs.jffs2 and takes 1/15 of the time of level 9.
    pub level: Option<u8>,
    /// Whether all compressions are tried for each piece of data, and the smallest result is used.
    pub smallest: bool,
    /// Leaves extended attributes out.
    pub no_xattrs: bool,
    /// Size to which the image is padded, in bytes without OOB; `None` for the end of the last used
    /// block.
    pub size: Option<u64>,
    /// Number of compression threads; 0 for one per processor. The image does not depend on it.
    pub threads: usize,
}

/// The page and OOB sizes of an image with OOB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OobOf {
    /// The OOB sizes of the device.
    Device,
    /// These sizes, whatever the device has.
    Pages {
        /// Data bytes of a page.
        page_size: u32,
        /// Bytes of its OOB.
        oob_size: u32,
    },
}

/// The compressions for images, by name.
const COMPRESSIONS: [(&str, Compression); 4] = [
    ("none", Compression::None),
    ("zlib", Compression::Zlib),
    ("lzo", Compression::Lzo),
    ("rtime", Compression::Rtime),
];

fn wrong(option: &str, detail: impl std::fmt::Display) -> StackError {
    StackError::new("image", format!("{option}: {detail}"))
}

fn options(asked: &Jffs2Build) -> Result<(BuildOptions, Option<u64>), StackError> {
    let plain = BuildOptions::default();
    let chip = asked.device.as_deref().map(presets::chip).transpose().map_err(|error| wrong("`device`", error))?;
    let geometry = chip.map(|chip| chip.geometry.build());
    let nand = geometry.filter(|geometry| geometry.kind == FlashKind::Nand);
    let oob = match asked.oob {
        None => None,
        Some(OobOf::Pages { page_size, oob_size }) => Some(OobPages { page_size, oob_size }),
        Some(OobOf::Device) => {
            let pages = nand.map(|geometry| OobPages { page_size: geometry.page_size, oob_size: geometry.oob_size });
            let missing = || {
                wrong(
                    "`oob`",
                    "the page size is not known; expected a NAND chip as `device`, or sizes such as `oob`=2048+64",
                )
            };
            Some(pages.ok_or_else(missing)?)
        }
    };
    let mut compressions = Vec::new();
    for name in &asked.compressions {
        let found = COMPRESSIONS.iter().find(|(known, _)| known == name);
        let known: Vec<&str> = COMPRESSIONS.iter().map(|(known, _)| *known).collect();
        let (_, compression) =
            found.ok_or_else(|| wrong("`compressions`", suggest::unknown("compression", name, &known)))?;
        compressions.push(*compression);
    }
    let built = BuildOptions {
        order: match asked.byte_order {
            Some(ByteOrder::Big) => Order::Big,
            _ => Order::Little,
        },
        erase_size: asked
            .erase_size
            .or(geometry.map(|geometry| geometry.page_size.saturating_mul(geometry.pages_per_block)))
            .unwrap_or(plain.erase_size),
        page_size: asked.page_size.unwrap_or(plain.page_size),
        cleanmarker_size: asked.cleanmarker_size.unwrap_or(match (nand, oob) {
            (None, None) => plain.cleanmarker_size,
            _ => 0,
        }),
        oob,
        summaries: asked.summaries,
        compressions: if compressions.is_empty() { plain.compressions } else { compressions },
        level: asked.level.map_or(Level::LINUX, Level::new),
        smallest: asked.smallest,
        xattrs: !asked.no_xattrs,
        size: asked.size.unwrap_or(0),
        threads: asked.threads,
    };
    built.check().map_err(|error| wrong("mkfs jffs2", error.detail))?;
    Ok((built, geometry.map(|geometry| geometry.capacity())))
}

impl BuildVolume for Jffs2Build {
    fn check(&self) -> Result<(), StackError> {
        options(self).map(drop)
    }

    fn build(
        &self,
        tree: Option<&dyn SourceTree>,
        path: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Built, StackError> {
        let (options, capacity) = options(self)?;
        if let Some(capacity) = capacity.filter(|capacity| options.size > *capacity) {
            return Err(wrong("`size`", format!("{} bytes, but the device has {capacity}", options.size)));
        }
        let tree = tree.ok_or_else(|| wrong("mkfs jffs2", "an image needs a tree; expected one"))?;
        let failed = |error: std::io::Error| wrong(&path.display().to_string(), format!("cannot write: {error}"));
        let file = File::options().write(true).open(path).map_err(failed)?;
        let mut sink = BufWriter::with_capacity(1 << 20, file);
        let report = mkfs::build(tree, &options, &mut sink, progress).map_err(told)?;
        if let Some(capacity) = capacity.filter(|capacity| report.image_bytes > *capacity) {
            let detail =
                format!("the image has {} bytes, but the device {capacity}; expected less data", report.image_bytes);
            return Err(wrong("`device`", detail));
        }
        sink.flush().map_err(failed)?;
        Ok(built(&report))
    }

    fn holds_time(&self, time: Timestamp) -> bool {
        u32::try_from(time.0.div_euclid(1_000_000_000)).is_ok()
    }

    fn times_not_held(&self) -> &'static str {
        "before 1970 or after 2106, which JFFS2 cannot hold"
    }
}

fn built(report: &BuildReport) -> Built {
    let oob = match report.oob_bytes {
        0 => String::new(),
        bytes => format!(", with {} of OOB", format_bytes(bytes)),
    };
    let line = format!(
        "{} names, {} of files in {}, {} blocks of {}{oob}",
        report.names,
        format_bytes(report.content_bytes),
        format_bytes(report.image_bytes),
        report.image_bytes.div_ceil(u64::from(report.erase_size.max(1))),
        format_bytes(report.erase_size.into()),
    );
    let facts = vec![
        Fact::member("format", super::NAME),
        Fact::member("inodes", report.inodes),
        Fact::member("names", report.names),
        Fact::member("data_nodes", report.data_nodes),
        Fact::member("content_bytes", report.content_bytes),
        Fact::member("image_bytes", report.image_bytes),
        Fact::member("oob_bytes", report.oob_bytes),
        Fact::member("summary_blocks", report.summary_blocks),
        Fact::member("lost_bytes", report.lost_bytes),
        Fact::member("times_clamped", report.times_clamped),
        Fact::member("erase_size", report.erase_size),
    ];
    Built { line, facts }
}

fn told(error: FsError) -> StackError {
    let source = error.source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    let detail = match error.kind {
        ErrorKind::Device => format!("{}{source}", error.detail),
        _ => error.detail,
    };
    StackError::new("image", detail)
}
