//! The options of `mkfs f2fs`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nandkit_stack::format::f2fs::build::F2fsBuild;

use super::{Asked, TreeOptions};
use crate::args::image::{AndroidOptions, bytes, bytes32, owner};

const TREE: &str = "Options of the tree";
const VOLUME: &str = "Options of the volume";

/// Sets of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FeatureSet {
    /// The features of Android's volumes: encrypt, extra_attr, project_quota, quota, verity; none
    /// of these with `-O ro`.
    Android,
}

/// Arguments of `mkfs f2fs`; the short options are those of mkfs.f2fs.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --from the volume is empty and equals that of mkfs.f2fs 1.15 with the same options block for block, with three exceptions: the version strings in the superblocks; the count of free segments if a section has several segments, which mkfs.f2fs gets wrong; and the space for users if zones are so large that Linux refuses the volumes of mkfs.f2fs. All times of a file are set to its modification time; times after SOURCE_DATE_EPOCH, \
if it is set, become that time. Without -U the UUID is computed from the tree, so that the same tree gives the same image.

Examples:
  nandkit mkfs f2fs --from rootfs image.f2fs
  nandkit mkfs f2fs --from rootfs.tar.gz --size 512M -l data image.f2fs
  nandkit mkfs f2fs --from rootfs -O extra_attr,inode_checksum,sb_checksum --owner 0:0 image.f2fs
  nandkit mkfs f2fs --from system --mount-point /system --fs-config fs_config --file-contexts file_contexts system.img
  nandkit mkfs f2fs --size 4G image.f2fs
  nandkit mkfs f2fs --from data --size 8G -g android --sparse userdata.simg     then: fastboot flash userdata userdata.simg"
)]
pub struct F2fsArguments {
    /// The image.
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The tree: a directory, or a tar archive (plain, gzip, zstd or xz; - for standard input).
    #[arg(long, value_name = "DIR|TAR", required_unless_present = "size")]
    pub from: Option<PathBuf>,
    /// Replace an existing image.
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Write an Android sparse image for `fastboot flash`.
    #[arg(long)]
    pub sparse: bool,
    /// Size of the volume in bytes; default: the smallest size that holds the tree and that Linux
    /// can write to.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = VOLUME)]
    pub size: Option<u64>,
    /// Volume label.
    #[arg(short = 'l', long, value_name = "TEXT", default_value = "", hide_default_value = true, help_heading = VOLUME)]
    pub label: String,
    /// UUID of the volume; default: computed from the tree.
    #[arg(short = 'U', long, value_name = "UUID", help_heading = VOLUME)]
    pub uuid: Option<String>,
    /// Features: encrypt, extra_attr, project_quota, inode_checksum, flexible_inline_xattr, quota,
    /// inode_crtime, lost_found, verity, sb_checksum, casefold, compression, ro.
    #[arg(short = 'O', long, value_name = "NAME,...", value_delimiter = ',', help_heading = VOLUME)]
    pub features: Vec<String>,
    /// A set of features, in addition to those of -O.
    #[arg(short = 'g', long, value_name = "SET", help_heading = VOLUME)]
    pub defaults: Option<FeatureSet>,
    /// Segments per section; default: 1.
    #[arg(short = 's', long, value_name = "N", help_heading = VOLUME)]
    pub segments_per_section: Option<u32>,
    /// Sections per zone; default: 1.
    #[arg(short = 'z', long, value_name = "N", help_heading = VOLUME)]
    pub sections_per_zone: Option<u32>,
    /// Overprovisioning in per cent; default: the value that leaves the most space.
    #[arg(short = 'o', long, value_name = "PERCENT", help_heading = VOLUME)]
    pub overprovision: Option<f64>,
    /// Additional extensions of files that are seldom written (cold).
    #[arg(short = 'e', long, value_name = "EXT,...", value_delimiter = ',', help_heading = VOLUME)]
    pub cold_extensions: Vec<String>,
    /// Additional extensions of files that are often written (hot).
    #[arg(short = 'E', long, value_name = "EXT,...", value_delimiter = ',', help_heading = VOLUME)]
    pub hot_extensions: Vec<String>,
    /// Sector size in bytes, as stored in the superblock; default: 512.
    #[arg(short = 'w', long, value_name = "BYTES", value_parser = bytes32, help_heading = VOLUME)]
    pub sector_size: Option<u32>,
    /// First sector of the volume on its disk, in units of 512 bytes; zones are aligned to the
    /// disk.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = VOLUME)]
    pub start_sector: u64,
    /// Reserve space in the tables for nodes in a fifth of all blocks.
    #[arg(short = 'i', long, help_heading = VOLUME)]
    pub extended_node_bitmap: bool,
    /// Place node logs at the end of the volume and data logs at its start.
    #[arg(short = 'a', long, help_heading = VOLUME)]
    pub heap: bool,
    /// Encoding of file names for case-insensitive directories: utf8 or utf8:strict.
    #[arg(short = 'C', long, value_name = "ENCODING", help_heading = VOLUME)]
    pub encoding: Option<String>,
    /// Time of everything that is not from the tree, in seconds since 1970; default: 0.
    #[arg(short = 'T', long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true, help_heading = VOLUME)]
    pub time: u64,
    /// Owner and group of the root directory of an empty volume; default: 0:0.
    #[arg(short = 'R', long, value_name = "UID:GID", value_parser = owner, conflicts_with = "from", help_heading = VOLUME)]
    pub root_owner: Option<(u32, u32)>,
    /// Leave out extended attributes.
    #[arg(long, requires = "from", help_heading = TREE)]
    pub no_xattrs: bool,
    /// Device nodes and owners missing from the tree: a table in the format of mkfs.jffs2.
    #[arg(long, value_name = "FILE", requires = "from", help_heading = TREE)]
    pub device_table: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub android: AndroidOptions,
    /// Both --squash-uids and --squash-perms.
    #[arg(long, requires = "from", help_heading = TREE)]
    pub squash: bool,
    /// Set owner and group of everything to 0.
    #[arg(long, requires = "from", help_heading = TREE)]
    pub squash_uids: bool,
    /// Remove write permission of group and others, set-user-id and set-group-id.
    #[arg(long, requires = "from", help_heading = TREE)]
    pub squash_perms: bool,
    /// Set owner and group of everything.
    #[arg(long, value_name = "UID:GID", value_parser = owner, requires = "from", conflicts_with_all = ["squash", "squash_uids"], help_heading = TREE)]
    pub owner: Option<(u32, u32)>,
    /// Leave out this path of the tree, with everything below it. May be repeated.
    #[arg(long, value_name = "PATH", requires = "from", help_heading = TREE)]
    pub exclude: Vec<String>,
    /// Set all times to 1970-01-01.
    #[arg(long, requires = "from", help_heading = TREE)]
    pub faketime: bool,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

impl F2fsArguments {
    /// The volume to make.
    pub fn asked(&self) -> Asked<'_> {
        Asked {
            image: &self.image,
            force: self.force,
            json: self.json,
            size: self.size,
            sparse: Some(self.sparse),
            tree: TreeOptions {
                from: self.from.as_deref(),
                exclude: &self.exclude,
                device_table: self.device_table.as_deref(),
                squash_owners: self.squash || self.squash_uids,
                squash_permissions: self.squash || self.squash_perms,
                owner: self.owner,
                faketime: self.faketime,
                no_xattrs: self.no_xattrs,
                android: self.from.is_some().then_some(&self.android),
            },
            build: Box::new(self.build()),
        }
    }

    /// The features of -O and -g. The set of `-g android` is that of mkfs.f2fs 1.15
    /// (f2fs_format_main.c, `add_default_options`).
    fn features(&self) -> Vec<String> {
        let asked = &self.features;
        let set: &[&str] = match self.defaults {
            Some(FeatureSet::Android) if !asked.iter().any(|name| name == "ro") => {
                &["encrypt", "extra_attr", "project_quota", "quota", "verity"]
            }
            _ => &[],
        };
        asked.iter().cloned().chain(set.iter().map(|name| (*name).to_owned())).collect()
    }

    fn build(&self) -> F2fsBuild {
        F2fsBuild {
            size: self.size,
            label: self.label.clone(),
            uuid: self.uuid.clone(),
            features: self.features(),
            segments_per_section: self.segments_per_section,
            sections_per_zone: self.sections_per_zone,
            overprovision_percent: self.overprovision,
            cold_extensions: self.cold_extensions.clone(),
            hot_extensions: self.hot_extensions.clone(),
            sector_size: self.sector_size,
            start_sector: self.start_sector,
            extended_node_bitmap: self.extended_node_bitmap,
            heap: self.heap,
            encoding: self.encoding.clone(),
            time_seconds: self.time,
            root_owner: self.root_owner.unwrap_or_default(),
        }
    }
}
