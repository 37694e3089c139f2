//! The options of `mkfs ubifs` and of `mkfs ubi`.

use std::path::PathBuf;

use clap::Args;
use nandkit_stack::format::ubifs::build::{UbiBuild, UbifsBuild};

use super::{Asked, TreeOptions};
use crate::args::image::{bytes, bytes32, owner};

const TREE: &str = "Options of the tree";
const VOLUME: &str = "Options of the volume";
const UBI: &str = "Options of UBI";

/// Options that both commands have.
#[derive(Debug, Args)]
pub struct VolumeArguments {
    /// The image.
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The tree: a directory, or a tar archive (plain, gzip, zstd or xz; - for standard input).
    #[arg(short = 'r', long, value_name = "DIR|TAR")]
    pub from: Option<PathBuf>,
    /// Replace an existing image.
    #[arg(long)]
    pub force: bool,
    /// The chip that the image is for (see `nandkit devices`): sets the sizes of pages and blocks,
    /// and the number of LEBs.
    #[arg(long, value_name = "PRESET", help_heading = VOLUME)]
    pub device: Option<String>,
    /// Smallest unit of output in bytes: the page of NAND, 1 or 8 on NOR; default: that of
    /// --device, or 2048.
    #[arg(short = 'm', long, visible_alias = "min-io-size", value_name = "BYTES", value_parser = bytes32, help_heading = VOLUME)]
    pub min_io: Option<u32>,
    /// The most LEBs of the volume, to which it grows; default: those of --device, or twice what
    /// the tree takes.
    #[arg(short = 'c', long, visible_alias = "max-leb-cnt", value_name = "N", help_heading = VOLUME)]
    pub max_lebs: Option<u32>,
    /// Compression: lzo, zlib, zstd or none; default: lzo.
    #[arg(short = 'x', long, visible_alias = "compr", value_name = "NAME", help_heading = VOLUME)]
    pub compress: Option<String>,
    /// Compression level; default: 9.
    #[arg(long, value_name = "1..9", value_parser = clap::value_parser!(u8).range(1..=9), help_heading = VOLUME)]
    pub level: Option<u8>,
    /// Children of an index node; default: 8.
    #[arg(short = 'f', long, value_name = "N", help_heading = VOLUME)]
    pub fanout: Option<u32>,
    /// Size of the journal in bytes; default: an eighth of the volume, at most 8 MiB.
    #[arg(short = 'j', long, visible_alias = "jrn-size", value_name = "BYTES", value_parser = bytes, help_heading = VOLUME)]
    pub journal_size: Option<u64>,
    /// LEBs for files that are removed while they are open; default: 1.
    #[arg(long, visible_alias = "orph-lebs", value_name = "N", help_heading = VOLUME)]
    pub orphan_lebs: Option<u32>,
    /// Bytes that only root can use.
    #[arg(short = 'R', long, visible_alias = "reserved", value_name = "BYTES", value_parser = bytes, default_value = "0", hide_default_value = true, help_heading = VOLUME)]
    pub reserved_size: u64,
    /// Let the first mount erase free space again: for flash programs that write pages of 0xFF.
    #[arg(short = 'F', long, help_heading = VOLUME)]
    pub space_fixup: bool,
    /// Leave out extended attributes.
    #[arg(long, help_heading = VOLUME)]
    pub no_xattrs: bool,
    /// Device nodes and owners missing from the tree: a table in the format of mkfs.ubifs.
    #[arg(short = 'D', long, visible_alias = "devtable", value_name = "FILE", requires = "from", help_heading = TREE)]
    pub device_table: Option<PathBuf>,
    /// Set owner and group of everything to 0.
    #[arg(short = 'U', long, help_heading = TREE)]
    pub squash_uids: bool,
    /// Set owner and group of everything.
    #[arg(long, value_name = "UID:GID", value_parser = owner, conflicts_with = "squash_uids", help_heading = TREE)]
    pub owner: Option<(u32, u32)>,
    /// Leave out this path of the tree, with everything below it. May be repeated.
    #[arg(long, value_name = "PATH", requires = "from", help_heading = TREE)]
    pub exclude: Vec<String>,
    /// Set all times to 1970-01-01.
    #[arg(long, help_heading = TREE)]
    pub faketime: bool,
    /// Number of compression threads; default: one per processor. The image does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = crate::args::threads)]
    pub threads: usize,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `mkfs ubifs`; the short options are those of mkfs.ubifs.
#[derive(Debug, Args)]
#[command(after_help = "The image is what mkfs.ubifs makes: a volume for `ubiupdatevol`, or for ubinize.

Examples:
  nandkit mkfs ubifs --from rootfs --device slc-256m image.ubifs
                                                then: ubiupdatevol /dev/ubi0_0 image.ubifs
  nandkit mkfs ubifs --from rootfs.tar.gz -m 2048 -e 126976 -c 2000 -x zlib image.ubifs")]
pub struct UbifsArguments {
    #[command(flatten)]
    of: VolumeArguments,
    /// Size of a LEB in bytes; default: a block without two pages for headers.
    #[arg(short = 'e', long, visible_alias = "leb", value_name = "BYTES", value_parser = bytes32, help_heading = VOLUME)]
    pub leb_size: Option<u32>,
}

/// Arguments of `mkfs ubi`; the short options are those of ubinize.
#[derive(Debug, Args)]
#[command(
    after_help = "The image is what mkfs.ubifs and ubinize make together: one volume, which takes the whole flash when it is attached for the first time.

Examples:
  nandkit mkfs ubi --from rootfs --device slc-256m image.ubi
                                                then: ubiformat /dev/mtd0 -f image.ubi
  nandkit mkfs ubi --from rootfs -p 128K -m 2048 -s 512 image.ubi"
)]
pub struct UbiArguments {
    #[command(flatten)]
    of: VolumeArguments,
    /// Size of an erase block in bytes; default: that of --device, or 128 KiB.
    #[arg(short = 'p', long, visible_alias = "peb-size", value_name = "BYTES", value_parser = bytes32, help_heading = UBI)]
    pub erase_size: Option<u32>,
    /// Size of a part of a page that can be written apart, in which a header stands; default: a
    /// page.
    #[arg(short = 's', long, visible_alias = "sub-page-size", value_name = "BYTES", value_parser = bytes32, help_heading = UBI)]
    pub sub_page: Option<u32>,
    /// The name of the volume; default: rootfs.
    #[arg(long, value_name = "NAME", default_value = "rootfs", hide_default_value = true, help_heading = UBI)]
    pub volume: String,
    /// The number of the image, which tells its blocks from those of an older one; default: 0,
    /// which ubiformat replaces.
    #[arg(short = 'Q', long, visible_alias = "image-seq", value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = UBI)]
    pub image_sequence: u32,
    /// The erase counter of each block; default: 0.
    #[arg(long, visible_alias = "erase-counter", value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u64).range(..=0x7FFF_FFFF), help_heading = UBI)]
    pub erases: u64,
}

impl VolumeArguments {
    fn asked(&self, build: UbifsBuild) -> Asked<'_> {
        Asked {
            image: &self.image,
            force: self.force,
            json: self.json,
            size: None,
            sparse: None,
            tree: TreeOptions {
                from: self.from.as_deref(),
                exclude: &self.exclude,
                device_table: self.device_table.as_deref(),
                squash_owners: self.squash_uids,
                squash_permissions: false,
                owner: self.owner,
                faketime: self.faketime,
                no_xattrs: self.no_xattrs,
                android: None,
            },
            build: Box::new(build),
        }
    }

    fn build(&self) -> UbifsBuild {
        UbifsBuild {
            device: self.device.clone(),
            min_io_size: self.min_io,
            peb_size: None,
            leb_size: None,
            leb_count_max: self.max_lebs,
            compression: self.compress.clone(),
            level: self.level,
            fanout: self.fanout,
            journal_size: self.journal_size,
            orphan_lebs: self.orphan_lebs,
            reserved_size: self.reserved_size,
            space_fixup: self.space_fixup,
            no_xattrs: self.no_xattrs,
            threads: self.threads,
            ubi: None,
        }
    }
}

impl UbifsArguments {
    /// The volume to make.
    pub fn asked(&self) -> Asked<'_> {
        self.of.asked(UbifsBuild { leb_size: self.leb_size, ..self.of.build() })
    }
}

impl UbiArguments {
    /// The volume to make.
    pub fn asked(&self) -> Asked<'_> {
        let ubi = UbiBuild {
            sub_page_size: self.sub_page,
            volume: self.volume.clone(),
            image_sequence: self.image_sequence,
            erase_counter: self.erases,
        };
        self.of.asked(UbifsBuild { peb_size: self.erase_size, ubi: Some(ubi), ..self.of.build() })
    }
}
