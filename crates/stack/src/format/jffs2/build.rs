//! Images from trees.

use std::io::Write;

use nandkit_codec::compression::{Compression, Level};
use nandkit_jffs2::layout::ByteOrder as Order;
use nandkit_jffs2::mkfs::{self, BuildOptions, BuildReport, OobPages};
use nandkit_units::FlashKind;
use nandkit_vfs::source::SourceTree;
use nandkit_vfs::{ErrorKind, FsError};

use crate::format::ByteOrder;
use crate::{StackError, presets, suggest};

/// How a JFFS2 image is to be. The defaults are those of mkfs.jffs2 on a little-endian host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jffs2Build {
    /// The chip that it is for: its erase blocks, and its kind.
    pub device: Option<String>,
    /// The order of bytes in numbers; `None` for little-endian.
    pub byte_order: Option<ByteOrder>,
    /// Bytes of an erase block: 4 KiB to 64 MiB; `None` for the device's, or 64 KiB.
    pub erase_size: Option<u32>,
    /// Bytes of file data in a node, at the most: the page of the system that mounts the image. `None` for 4096.
    pub page_size: Option<u32>,
    /// Bytes of the cleanmarker at the beginning of each block, 0 for none; `None` for none on NAND and 12 on all else.
    pub cleanmarker_size: Option<u32>,
    /// Puts the OOB behind each page, with cleanmarkers where Linux has them.
    pub oob: Option<OobOf>,
    /// Ends each block but the last in a summary.
    pub summaries: bool,
    /// Compressions in the order in which they are tried: none, zlib, lzo, rtime. Empty for zlib and rtime.
    pub compressions: Vec<String>,
    /// How hard to compress, 1 to 9; `None` for 3, by which images are still smaller than those of mkfs.jffs2 at its highest, in a fifteenth of the time of 9.
    pub level: Option<u8>,
    /// Whether all compressions are tried for each piece, and the smallest result is taken.
    pub smallest: bool,
    /// Leaves extended attributes out.
    pub no_xattrs: bool,
    /// Bytes to which the image is filled up, the OOB not counted; `None` for the end of the last block that is used.
    pub size: Option<u64>,
    /// Threads that compress; 0 for one for each processor. The image is the same with any number.
    pub threads: usize,
}

/// Whose pages and OOB areas an image with OOB has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OobOf {
    /// Those of the device.
    Device,
    /// These.
    Pages {
        /// Data bytes of a page.
        page_size: u32,
        /// Bytes of its OOB.
        oob_size: u32,
    },
}

/// Every compression that an image can be made with.
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
    let chip = asked.device.as_deref().map(presets::chip).transpose().map_err(|error| wrong("--device", error))?;
    let geometry = chip.map(|chip| chip.geometry.build());
    let nand = geometry.filter(|geometry| geometry.kind == FlashKind::Nand);
    let oob = match asked.oob {
        None => None,
        Some(OobOf::Pages { page_size, oob_size }) => Some(OobPages { page_size, oob_size }),
        Some(OobOf::Device) => {
            let pages = nand.map(|geometry| OobPages { page_size: geometry.page_size, oob_size: geometry.oob_size });
            let missing = || wrong("--oob", "whose pages? Expected a NAND with --device, or bytes as --oob=2048+64");
            Some(pages.ok_or_else(missing)?)
        }
    };
    let mut compressions = Vec::new();
    for name in &asked.compressions {
        let found = COMPRESSIONS.iter().find(|(known, _)| known == name);
        let known: Vec<&str> = COMPRESSIONS.iter().map(|(known, _)| *known).collect();
        let (_, compression) =
            found.ok_or_else(|| wrong("--compress", suggest::unknown("compression", name, &known)))?;
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

/// Writes a JFFS2 image of a tree to `sink`. `progress` hears how many bytes of files are done. Errors: an option that cannot be, a tree that the format cannot hold (which path),
/// an image that is larger than its device or than asked for; what the tree and the sink say.
pub fn build_jffs2(
    tree: &dyn SourceTree,
    asked: &Jffs2Build,
    sink: &mut (dyn Write + Send),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<BuildReport, StackError> {
    let (options, capacity) = options(asked)?;
    if let Some(capacity) = capacity.filter(|capacity| options.size > *capacity) {
        return Err(wrong("--size", format!("{} bytes, but the device has {capacity}", options.size)));
    }
    let report = mkfs::build(tree, &options, sink, progress).map_err(told)?;
    if let Some(capacity) = capacity.filter(|capacity| report.image_bytes > *capacity) {
        let detail =
            format!("the image has {} bytes, the device {capacity}; expected less to store", report.image_bytes);
        return Err(wrong("--device", detail));
    }
    Ok(report)
}

/// Refuses options that cannot be, before anything is read or written.
pub fn check_jffs2_build(asked: &Jffs2Build) -> Result<(), StackError> {
    options(asked).map(drop)
}

fn told(error: FsError) -> StackError {
    let source = error.source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    let detail = match error.kind {
        ErrorKind::Device => format!("{}{source}", error.detail),
        _ => error.detail,
    };
    StackError::new("image", detail)
}
