//! The options of `mkfs jffs2`.

use std::path::PathBuf;

use clap::Args;
use nandkit_stack::format::jffs2::build::{Jffs2Build, OobOf};

use super::{Asked, TreeOptions};
use crate::args::image::{Endian, bytes, bytes32, owner, pages};

const TREE: &str = "What the tree is to be";
const IMAGE: &str = "What the image is to be";

/// Arguments of `mkfs jffs2`; the short options are those of mkfs.jffs2.
#[derive(Debug, Args)]
#[command(
    after_help = "All times of a file are that of its modification; later ones than SOURCE_DATE_EPOCH, where it is set, become that time.

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
    /// Replace an image that exists.
    #[arg(long)]
    pub force: bool,
    /// The chip that the image is for (see `nandkit devices`): its erase size and kind.
    #[arg(long, value_name = "PRESET", help_heading = IMAGE)]
    pub device: Option<String>,
    /// Bytes of an erase block; 64 KiB without --device.
    #[arg(short = 'e', long, visible_alias = "eraseblock", value_name = "BYTES", value_parser = bytes32, help_heading = IMAGE)]
    pub erase_size: Option<u32>,
    /// Bytes of the page of the system that mounts it: most bytes of a file in a node; 4096 by
    /// default.
    #[arg(short = 's', long, visible_alias = "pagesize", value_name = "BYTES", value_parser = bytes32, help_heading = IMAGE)]
    pub page_size: Option<u32>,
    /// The order of bytes in numbers, that of the system that mounts it; little by default.
    #[arg(long, value_name = "ORDER", help_heading = IMAGE)]
    pub endian: Option<Endian>,
    /// Compressions, in the order in which they are tried: zlib, lzo, rtime, none; zlib,rtime by
    /// default.
    #[arg(short = 'x', long, value_name = "NAME,...", value_delimiter = ',', help_heading = IMAGE)]
    pub compress: Vec<String>,
    /// How hard to compress; 3 by default. 9 takes many times as long for an image a few percent
    /// smaller.
    #[arg(long, value_name = "1..9", value_parser = clap::value_parser!(u8).range(1..=9), help_heading = IMAGE)]
    pub level: Option<u8>,
    /// Try all compressions for each piece, and take the smallest result.
    #[arg(long, help_heading = IMAGE)]
    pub smallest: bool,
    /// No cleanmarkers in the blocks, as NAND has it.
    #[arg(short = 'n', long, conflicts_with = "cleanmarker_size", help_heading = IMAGE)]
    pub no_cleanmarkers: bool,
    /// Bytes of a cleanmarker.
    #[arg(short = 'c', long, visible_alias = "cleanmarker", value_name = "BYTES", value_parser = bytes32, help_heading = IMAGE)]
    pub cleanmarker_size: Option<u32>,
    /// Each page is followed by its OOB, as `nandwrite --oob` takes it and `nanddump --oob` makes
    /// it: cleanmarkers where Linux has them, all else 0xFF. The page and its OOB in bytes; those
    /// of --device without them.
    #[arg(long, value_name = "PAGE+OOB", value_parser = pages, num_args = 0..=1, require_equals = true, conflicts_with = "cleanmarker_size", help_heading = IMAGE)]
    pub oob: Option<Option<(u32, u32)>>,
    /// Each block but the last ends in a summary, by which Linux mounts faster, as sumtool makes
    /// them.
    #[arg(long, help_heading = IMAGE)]
    pub summary: bool,
    /// Fill the image up to this many bytes with 0xFF, the OOB not counted.
    #[arg(short = 'p', long, visible_alias = "pad", value_name = "BYTES", value_parser = bytes, help_heading = IMAGE)]
    pub size: Option<u64>,
    /// Leave out extended attributes.
    #[arg(long, help_heading = IMAGE)]
    pub no_xattrs: bool,
    /// Nodes and owners that the tree lacks: a table as mkfs.jffs2 takes it.
    #[arg(short = 'D', long, visible_alias = "devtable", value_name = "FILE", help_heading = TREE)]
    pub device_table: Option<PathBuf>,
    /// Both --squash-uids and --squash-perms.
    #[arg(short = 'q', long, help_heading = TREE)]
    pub squash: bool,
    /// Everything belongs to user 0 and group 0.
    #[arg(short = 'U', long, help_heading = TREE)]
    pub squash_uids: bool,
    /// Group and others may not write, and nothing is set-user-id or set-group-id.
    #[arg(short = 'P', long, help_heading = TREE)]
    pub squash_perms: bool,
    /// Everything belongs to this user and group.
    #[arg(long, value_name = "UID:GID", value_parser = owner, conflicts_with_all = ["squash", "squash_uids"], help_heading = TREE)]
    pub owner: Option<(u32, u32)>,
    /// Leave out this path of the tree, with all below it. May be given several times.
    #[arg(long, value_name = "PATH", help_heading = TREE)]
    pub exclude: Vec<String>,
    /// All times are 1970-01-01.
    #[arg(short = 'f', long, help_heading = TREE)]
    pub faketime: bool,
    /// Threads that compress; without it one for each processor. The image does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = crate::args::threads)]
    pub threads: usize,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

impl Jffs2Arguments {
    /// What is asked for.
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
