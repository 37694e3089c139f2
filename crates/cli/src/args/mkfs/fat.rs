//! The options of `mkfs fat`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nandkit_stack::format::fat::build::FatBuild;
use nandkit_stack::format::fat::spec::{FatSpec, FatTypeName};

use super::{Asked, TreeOptions};
use crate::args::image::{bytes, bytes32};

const TREE: &str = "Options of the tree";
const VOLUME: &str = "Options of the volume";

/// Width of a FAT entry in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FatBits {
    /// FAT12.
    #[value(name = "12")]
    Twelve,
    /// FAT16.
    #[value(name = "16")]
    Sixteen,
    /// FAT32.
    #[value(name = "32")]
    ThirtyTwo,
}

/// Arguments of `mkfs fat`; the short options are those of mkfs.vfat.
#[derive(Debug, Args)]
#[command(
    after_help = "FAT holds only files and directories: symbolic links, devices and sockets of the tree are left out and counted; owners and modes are lost, except read-only; each hard link becomes a separate file.

Examples:
  nandkit mkfs fat --size 16M image.fat
  nandkit mkfs fat --from photos --size 64M -n PHOTOS photos.img
  nandkit mkfs fat --from boot.tar.gz --size 256M -F 32 -s 2K boot.img"
)]
pub struct FatArguments {
    /// The image.
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The tree: a directory, or a tar archive (plain, gzip, zstd or xz; - for standard input).
    #[arg(long, value_name = "DIR|TAR")]
    pub from: Option<PathBuf>,
    /// Replace an existing image.
    #[arg(long)]
    pub force: bool,
    /// Size of the volume in bytes.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = VOLUME)]
    pub size: u64,
    /// Bits of a FAT entry; default: the choice of mkfs.vfat for the size.
    #[arg(short = 'F', long, value_name = "BITS", help_heading = VOLUME)]
    pub bits: Option<FatBits>,
    /// Cluster size in bytes, a power of two up to 32 KiB; default: chosen by the size of the
    /// volume.
    #[arg(short = 's', long, value_name = "BYTES", value_parser = bytes32, help_heading = VOLUME)]
    pub cluster_size: Option<u32>,
    /// Volume label, up to 11 characters.
    #[arg(short = 'n', long, value_name = "TEXT", default_value = "", hide_default_value = true, help_heading = VOLUME)]
    pub label: String,
    /// Serial number in hexadecimal digits; default: 0.
    #[arg(short = 'i', long, value_name = "HEX", value_parser = serial, default_value = "0", hide_default_value = true, help_heading = VOLUME)]
    pub volume_id: u32,
    /// Leave out this path of the tree, with everything below it. May be repeated.
    #[arg(long, value_name = "PATH", requires = "from", help_heading = TREE)]
    pub exclude: Vec<String>,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

fn serial(text: &str) -> Result<u32, String> {
    let digits = text.replace('-', "");
    u32::from_str_radix(&digits, 16).map_err(|_| "expected up to 8 hexadecimal digits".to_owned())
}

impl FatArguments {
    /// The volume to make.
    pub fn asked(&self) -> Asked<'_> {
        Asked {
            image: &self.image,
            force: self.force,
            json: self.json,
            size: Some(self.size),
            sparse: None,
            tree: TreeOptions {
                from: self.from.as_deref(),
                exclude: &self.exclude,
                device_table: None,
                squash_owners: false,
                squash_permissions: false,
                owner: None,
                faketime: false,
                no_xattrs: true,
                android: None,
            },
            build: Box::new(self.build()),
        }
    }

    fn build(&self) -> FatBuild {
        let fat_type = match self.bits {
            None => FatTypeName::Auto,
            Some(FatBits::Twelve) => FatTypeName::Fat12,
            Some(FatBits::Sixteen) => FatTypeName::Fat16,
            Some(FatBits::ThirtyTwo) => FatTypeName::Fat32,
        };
        let cluster_size = self.cluster_size.unwrap_or(0);
        let layout = FatSpec { fat_type, cluster_size, label: self.label.clone(), ..FatSpec::default() };
        FatBuild { size: self.size, layout, volume_id: self.volume_id }
    }
}
