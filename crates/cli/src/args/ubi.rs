//! The options of `ubi`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::image::{ImageArguments, bytes, bytes32};

const EXAMPLES: &str = "The image is a dump of a flash with UBI, with or without OOB, or what ubinize made. Changes keep the erase counters, the sequence numbers and all other volumes, and happen as a whole or not at all. The size \
of an image that is shorter than its flash is told by --size.

Examples:
  nandkit ubi info flash.bin
  nandkit ubi update flash.bin kernel zImage
  nandkit ubi mkvol flash.bin logs 8M && nandkit ubi rename flash.bin logs storage
  nandkit ubi extract flash.bin rootfs copy.ubifs";

/// Arguments of `ubi`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UbiArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: UbiAction,
}

/// What to do with a UBI device.
#[derive(Debug, Subcommand)]
pub enum UbiAction {
    /// Show the device, its wear and its volumes, with what stands in each.
    #[command(after_help = "Example:\n  nandkit ubi info flash.bin --json")]
    Info(UbiShowArguments),
    /// List the volumes with the bytes of their content.
    #[command(after_help = "Example:\n  nandkit ubi ls flash.bin")]
    Ls(UbiShowArguments),
    /// Write the content of a volume to a file, with its exact length.
    Extract(UbiExtractArguments),
    /// Make an empty volume.
    Mkvol(UbiMakeArguments),
    /// Remove a volume.
    Rmvol(UbiRemoveArguments),
    /// Change the size of a volume.
    Rsvol(UbiResizeArguments),
    /// Rename volumes, all at once.
    Rename(UbiRenameArguments),
    /// Replace the content of a volume by a file.
    Update(UbiUpdateArguments),
    /// Make an image of several volumes from a description, as ubinize does.
    Ubinize(UbinizeArguments),
}

/// The image to change, and the options of every command that changes volumes.
#[derive(Debug, Args)]
pub struct UbiChangeArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Change the device even if parts of it are damaged.
    #[arg(long)]
    pub even_if_damaged: bool,
    /// Print the changes as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `ubi info` and `ubi ls`.
#[derive(Debug, Args)]
pub struct UbiShowArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `ubi extract`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nandkit ubi extract flash.bin kernel - | sha256sum")]
pub struct UbiExtractArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    pub name: String,
    /// The file to write, or - for standard output; default: a file with the volume's name.
    #[arg(value_name = "FILE|-")]
    pub target: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `ubi mkvol`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nandkit ubi mkvol flash.bin logs 8M\n  nandkit ubi mkvol flash.bin fpga 4M --static --number 9\n  nandkit ubi mkvol flash.bin rest"
)]
pub struct UbiMakeArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: UbiChangeArguments,
    /// Its name.
    #[arg(value_name = "VOLUME")]
    pub name: String,
    /// Its size in bytes, rounded up to whole LEBs; default: all that is available.
    #[arg(value_name = "SIZE", value_parser = bytes)]
    pub bytes: Option<u64>,
    /// Its number; default: the first free one.
    #[arg(long, value_name = "N")]
    pub number: Option<u32>,
    /// A volume whose content is written as a whole, with checksums.
    #[arg(long = "static")]
    pub is_static: bool,
    /// Make the size of its LEBs a multiple of this, in bytes.
    #[arg(long, value_name = "BYTES", value_parser = bytes32, default_value = "1", hide_default_value = true)]
    pub alignment: u32,
    /// Do not check the content of a static volume when it is opened.
    #[arg(long, requires = "is_static")]
    pub skip_check: bool,
}

/// Arguments of `ubi rmvol`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nandkit ubi rmvol flash.bin data")]
pub struct UbiRemoveArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: UbiChangeArguments,
    /// The volumes.
    #[arg(value_name = "VOLUME", required = true)]
    pub names: Vec<String>,
}

/// Arguments of `ubi rsvol`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nandkit ubi rsvol flash.bin data 16M")]
pub struct UbiResizeArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: UbiChangeArguments,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    pub name: String,
    /// Its new size in bytes, rounded up to whole LEBs. What is behind it is lost.
    #[arg(value_name = "SIZE", value_parser = bytes)]
    pub bytes: u64,
}

/// Arguments of `ubi rename`.
#[derive(Debug, Args)]
#[command(
    after_help = "A volume that has one of the new names and is not renamed is removed.\n\nExample:\n  nandkit ubi rename flash.bin rootfs_a rootfs_b rootfs_b rootfs_a"
)]
pub struct UbiRenameArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: UbiChangeArguments,
    /// The old and the new name of each volume.
    #[arg(value_name = "OLD NEW", required = true, num_args = 2..)]
    pub names: Vec<String>,
}

/// Arguments of `ubi update`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nandkit ubi update flash.bin kernel zImage")]
pub struct UbiUpdateArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: UbiChangeArguments,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    pub name: String,
    /// Its new content: a file, or - for standard input.
    #[arg(value_name = "FILE|-")]
    pub source: PathBuf,
}

/// Arguments of `ubi ubinize`.
#[derive(Debug, Args)]
#[command(
    after_help = "The description has a section for each volume: [NAME], then mode=ubi, image=FILE, vol_id, vol_type, vol_name, vol_size, vol_alignment, vol_flags=autoresize,skip-check, a line each. The image equals that of ubinize with the same options.

Example:
  nandkit ubi ubinize volumes.ini image.ubi --peb-size 128K --min-io-size 2048"
)]
pub struct UbinizeArguments {
    /// The description.
    #[arg(value_name = "DESCRIPTION")]
    pub description: PathBuf,
    /// The image to make.
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Size of an erase block in bytes.
    #[arg(short = 'p', long, value_name = "BYTES", value_parser = bytes32)]
    pub peb_size: u32,
    /// The smallest unit of writing: the page of NAND, 1 on NOR.
    #[arg(short = 'm', long, value_name = "BYTES", value_parser = bytes32)]
    pub min_io_size: u32,
    /// The unit in which headers are written, where a page has several; default: --min-io-size.
    #[arg(short = 's', long, value_name = "BYTES", value_parser = bytes32)]
    pub sub_page_size: Option<u32>,
    /// Where volume identifiers lie; default: behind the first unit of headers.
    #[arg(short = 'O', long, value_name = "BYTES", value_parser = bytes32)]
    pub vid_offset: Option<u32>,
    /// The erase counter of each block.
    #[arg(short = 'e', long, value_name = "N", default_value_t = 0)]
    pub erase_counter: u64,
    /// The image sequence number, by which blocks of two images are told apart; 0 for none.
    #[arg(short = 'Q', long, value_name = "N", default_value_t = 0)]
    pub image_sequence: u32,
    /// Replace an existing file.
    #[arg(long)]
    pub force: bool,
}
