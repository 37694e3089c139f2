//! The options of `mkfs`: a file for each format, which translates its options into [`Asked`].

mod f2fs;
mod fat;
mod jffs2;
mod ubifs;

use std::path::Path;

use clap::{Args, Subcommand};
use nandkit_stack::image::BuildVolume;

use super::image::AndroidOptions;

/// Arguments of `mkfs`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nandkit mkfs jffs2 --from rootfs --erase-size 128K image.jffs2\n  nandkit mkfs f2fs --from rootfs image.f2fs\n  nandkit mkfs ubi --from rootfs --device slc-256m image.ubi\n  nandkit mkfs fat --size 16M image.fat"
)]
pub struct MkfsArguments {
    /// The format.
    #[command(subcommand)]
    pub format: MkfsFormat,
}

/// The formats that `mkfs` can make.
#[derive(Debug, Subcommand)]
pub enum MkfsFormat {
    /// Make a JFFS2 image; the same tree and options give the same bytes.
    Jffs2(Box<jffs2::Jffs2Arguments>),
    /// Make an F2FS volume, empty or with a tree; the same tree and options give the same bytes.
    F2fs(Box<f2fs::F2fsArguments>),
    /// Make a UBIFS volume, empty or with a tree, in a file of its own; the same tree and options
    /// give the same bytes.
    Ubifs(Box<ubifs::UbifsArguments>),
    /// Make a UBI image with a UBIFS volume, empty or with a tree; the same tree and options give
    /// the same bytes.
    Ubi(Box<ubifs::UbiArguments>),
    /// Make a FAT volume, empty or with a tree; the same tree and options give the same bytes.
    Fat(Box<fat::FatArguments>),
}

impl MkfsFormat {
    /// The volume to make, in terms common to all formats.
    pub fn asked(&self) -> Asked<'_> {
        match self {
            Self::Jffs2(arguments) => arguments.asked(),
            Self::F2fs(arguments) => arguments.asked(),
            Self::Ubifs(arguments) => arguments.asked(),
            Self::Ubi(arguments) => arguments.asked(),
            Self::Fat(arguments) => arguments.asked(),
        }
    }
}

/// A volume to make.
pub struct Asked<'a> {
    /// The image.
    pub image: &'a Path,
    /// Whether an image that exists is replaced.
    pub force: bool,
    /// Whether the report is JSON.
    pub json: bool,
    /// Bytes of the volume.
    pub size: Option<u64>,
    /// Whether the image is packed; `None` where the format knows no packed images.
    pub sparse: Option<bool>,
    /// The tree.
    pub tree: TreeOptions<'a>,
    /// The format's own options.
    pub build: Box<dyn BuildVolume>,
}

/// The tree of a volume to make.
pub struct TreeOptions<'a> {
    /// A directory or an archive; `None` for an empty volume.
    pub from: Option<&'a Path>,
    /// Paths that are left out.
    pub exclude: &'a [String],
    /// A table of nodes and owners.
    pub device_table: Option<&'a Path>,
    /// Everything belongs to user 0 and group 0.
    pub squash_owners: bool,
    /// Group and others may not write, and nothing is set-user-id or set-group-id.
    pub squash_permissions: bool,
    /// Everything belongs to this user and group.
    pub owner: Option<(u32, u32)>,
    /// All times are 1970-01-01.
    pub faketime: bool,
    /// Extended attributes are left out.
    pub no_xattrs: bool,
    /// Android's files about the tree.
    pub android: Option<&'a AndroidOptions>,
}
