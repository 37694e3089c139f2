//! The options of `mkfs jffs2`.

use std::path::PathBuf;

use clap::Args;
use nandkit_stack::format::jffs2::build::{Jffs2Build, OobOf};

use super::{Asked, TreeOptions};
use crate::args::image::{Endian, bytes, bytes32, owner, pages};

const TREE: &str = "Options of the tree";
const IMAGE: &str = "Options of the image";

/// Arguments of `mkfs jffs2`; the short options are those of mkfs.jffs2.
#[derive(Debug, Args)]
#[command(
    after_help = "All times of a file are set to its modification time; times after SOURCE_DATE_EPOCH, if it is set, become that time.

Examples:
  nandkit mkfs jffs2 --from rootfs image.jffs2
  nandkit mkfs jffs2 --from rootfs.tar.gz --device nandsim-32m-128k --squash image.jffs2
  nandkit mkfs jffs2 --from rootfs --device nandsim-32m-128k --oob --summary image.nand
                                                then: nandwrite --oob /dev/mtd0 image.nand
  nandkit mkfs jffs2 --from rootfs --erase-size 128K --oob=2048+64 image.nand
  nandkit mkfs jffs2 --from rootfs --endian big --erase-size 64K --compress lzo,zlib --size 8M image.jffs2"
)]
pub struct Jffs2Arguments {
    /// The image.
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The tree: a directory, or a tar archive (plain, gzip, zstd or xz; - for standard input).
    #[arg(short = 'r', long, value_name = "DIR|TAR")]
    pub from: PathBuf,
    /// Replace an existing image.
    #[arg(long)]
    pub force: bool,
    /// The chip that the image is for (see `nandkit devices`): sets the erase block size and the
    /// flash type.
    #[arg(long, value_name = "PRESET", help_heading = IMAGE)]
    pub device: Option<String>,
    /// Erase block size in bytes; 64 KiB without --device.
    #[arg(short = 'e', long, visible_alias = "eraseblock", value_name = "BYTES", value_parser = bytes32, help_heading = IMAGE)]
    pub erase_size: Option<u32>,
    /// Page size of the system that mounts the image, in bytes: the most file data in one node;
    /// default: 4096.
    #[arg(short = 's', long, visible_alias = "pagesize", value_name = "BYTES", value_parser = bytes32, help_heading = IMAGE)]
    pub page_size: Option<u32>,
    /// Byte order of the system that mounts the image; default: little.
    #[arg(long, value_name = "ORDER", help_heading = IMAGE)]
    pub endian: Option<Endian>,
    /// Compressions in the order in which they are tried: zlib, lzo, rtime, none; default:
    /// zlib,rtime.
    #[arg(short = 'x', long, value_name = "NAME,...", value_delimiter = ',', help_heading = IMAGE)]
    pub compress: Vec<String>,
    /// Compression level; default: 3. Level 9 takes many times as long for an image a few per cent
    /// smaller.
    #[arg(long, value_name = "1..9", value_parser = clap::value_parser!(u8).range(1..=9), help_heading = IMAGE)]
    pub level: Option<u8>,
    /// Try all compressions for each piece of data, and keep the smallest result.
    #[arg(long, help_heading = IMAGE)]
    pub smallest: bool,
    /// Write no cleanmarkers into the blocks, as needed on NAND.
    #[arg(short = 'n', long, conflicts_with = "cleanmarker_size", help_heading = IMAGE)]
    pub no_cleanmarkers: bool,
    /// Size of a cleanmarker in bytes.
    #[arg(short = 'c', long, visible_alias = "cleanmarker", value_name = "BYTES", value_parser = bytes32, help_heading = IMAGE)]
    pub cleanmarker_size: Option<u32>,
    /// Write each page with its OOB after it, as `nandwrite --oob` and `nanddump --oob` do:
    /// cleanmarkers where Linux puts them, all else 0xFF. The sizes are in bytes; default: those of
    /// --device.
    #[arg(long, value_name = "PAGE+OOB", value_parser = pages, num_args = 0..=1, require_equals = true, conflicts_with = "cleanmarker_size", help_heading = IMAGE)]
    pub oob: Option<Option<(u32, u32)>>,
    /// End each block but the last with a summary, as sumtool does; Linux then mounts faster.
    #[arg(long, help_heading = IMAGE)]
    pub summary: bool,
    /// Pad the image with 0xFF to this many bytes, OOB not counted.
    #[arg(short = 'p', long, visible_alias = "pad", value_name = "BYTES", value_parser = bytes, help_heading = IMAGE)]
    pub size: Option<u64>,
    /// Leave out extended attributes.
    #[arg(long, help_heading = IMAGE)]
    pub no_xattrs: bool,
    /// Device nodes and owners missing from the tree: a table in the format of mkfs.jffs2.
    #[arg(short = 'D', long, visible_alias = "devtable", value_name = "FILE", help_heading = TREE)]
    pub device_table: Option<PathBuf>,
    /// Both --squash-uids and --squash-perms.
    #[arg(short = 'q', long, help_heading = TREE)]
    pub squash: bool,
    /// Set owner and group of everything to 0.
    #[arg(short = 'U', long, help_heading = TREE)]
    pub squash_uids: bool,
    /// Remove write permission of group and others, set-user-id and set-group-id.
    #[arg(short = 'P', long, help_heading = TREE)]
    pub squash_perms: bool,
    /// Set owner and group of everything.
    #[arg(long, value_name = "UID:GID", value_parser = owner, conflicts_with_all = ["squash", "squash_uids"], help_heading = TREE)]
    pub owner: Option<(u32, u32)>,
    /// Leave out this path of the tree, with everything below it. May be repeated.
    #[arg(long, value_name = "PATH", help_heading = TREE)]
    pub exclude: Vec<String>,
    /// Set all times to 1970-01-01.
    #[arg(short = 'f', long, help_heading = TREE)]
    pub faketime: bool,
    /// Number of compression threads; default: one per processor. The image does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = crate::args::threads)]
    pub threads: usize,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

impl Jffs2Arguments {
    /// The volume to make.
    pub fn asked(&self) -> Asked<'_> {
        Asked {
            image: &self.image,
            force: self.force,
            json: self.json,
            size: self.size,
            sparse: None,
            tree: TreeOptions {
                from: Some(&self.from),
                exclude: &self.exclude,
                device_table: self.device_table.as_deref(),
                squash_owners: self.squash || self.squash_uids,
                squash_permissions: self.squash || self.squash_perms,
                owner: self.owner,
                faketime: self.faketime,
                no_xattrs: self.no_xattrs,
                android: None,
            },
            build: Box::new(self.build()),
        }
    }

    fn build(&self) -> Jffs2Build {
        Jffs2Build {
            device: self.device.clone(),
            byte_order: self.endian.map(|endian| endian.order()),
            erase_size: self.erase_size,
            page_size: self.page_size,
            cleanmarker_size: if self.no_cleanmarkers { Some(0) } else { self.cleanmarker_size },
            oob: self.oob.map(|pages| match pages {
                None => OobOf::Device,
                Some((page_size, oob_size)) => OobOf::Pages { page_size, oob_size },
            }),
            summaries: self.summary,
            compressions: self.compress.clone(),
            level: self.level,
            smallest: self.smallest,
            no_xattrs: self.no_xattrs,
            size: self.size,
            threads: self.threads,
        }
    }
}
