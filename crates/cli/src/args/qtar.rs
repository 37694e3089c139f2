//! The options of `qtar`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ImageArguments;
use super::image::bytes;

const EXAMPLES: &str = "Archives have the format of `nandkit extract --to-tar`. Files of a directory are read ahead in disk order by several threads; a file that changes while it is read \
is reported. On an emulated chip saved to a file, with F2FS on a translation layer that can remap, all files are joined into one by remapping in memory, and that one is read in large requests. Exit status 1 if anything was \
refused, damaged, changed or removed meanwhile.

Examples:
  nandkit qtar cf photos.tar photos
  nandkit qtar cf - /usr/src/linux | zstd > linux.tar.zst
  nandkit qtar cf card.tar card.nand
  nandkit qtar tf home.tar
  nandkit qtar xf home.tar out";

/// Arguments of `qtar`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct QtarArguments {
    /// What to do with the archive.
    #[command(subcommand)]
    pub action: QtarAction,
}

/// What to do with an archive.
#[derive(Debug, Subcommand)]
pub enum QtarAction {
    /// Make an archive from a directory or an image.
    #[command(name = "cf")]
    Create(Box<QtarCreateArguments>),
    /// Extract an archive into a directory.
    #[command(name = "xf")]
    Extract(QtarExtractArguments),
    /// List an archive.
    #[command(
        name = "tf",
        after_help = "Examples:\n  nandkit qtar tf home.tar\n  zstd -dc linux.tar.zst | nandkit qtar tf -"
    )]
    List {
        /// The archive, plain or compressed; - for standard input.
        #[arg(value_name = "ARCHIVE|-")]
        archive: PathBuf,
        /// Print JSON, and nothing else, on standard output.
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `qtar cf`.
#[derive(Debug, Args)]
#[command(
    mut_arg("image", |arg| arg.value_name("DIR|IMAGE").help("A directory of this host, or an image as in every other command")),
    after_help = "Examples:
  nandkit qtar cf photos.tar photos --exclude .cache
  nandkit qtar cf - /usr/src/linux | zstd > linux.tar.zst
  nandkit qtar cf card.tar card.nand
  nandkit qtar cf data.tar userdata.img --sparse"
)]
pub struct QtarCreateArguments {
    /// The archive, or - for standard output.
    #[arg(value_name = "ARCHIVE|-")]
    pub archive: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// Archive only this directory of the image, with everything below it.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Leave out this path of the directory, with everything below it. May be repeated.
    #[arg(long, value_name = "PATH")]
    pub exclude: Vec<String>,
    /// Store holes of files as holes, as `tar --sparse` does. By default holes are written as
    /// zeroes.
    #[arg(long, short = 'S')]
    pub sparse: bool,
    /// Leave out extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
    /// Refuse symbolic links that lead out of the archive.
    #[arg(long)]
    pub inward_links_only: bool,
    /// Read the files one by one as tar does, for comparison.
    #[arg(long)]
    pub one_by_one: bool,
    /// Memory for reading ahead, in bytes; at least 1M.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "128M")]
    pub memory: u64,
    /// Replace an existing ARCHIVE.
    #[arg(long)]
    pub force: bool,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `qtar xf`.
#[derive(Debug, Args)]
#[command(after_help = "Names that lead out of DIR are refused and listed.

Examples:
  nandkit qtar xf home.tar out
  nandkit qtar xf linux.tar.zst out --no-owners")]
pub struct QtarExtractArguments {
    /// The archive, plain or compressed; - for standard input.
    #[arg(value_name = "ARCHIVE|-")]
    pub archive: PathBuf,
    /// The target directory. It is created if missing, and must be empty unless --merge is given.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Write into a directory that is not empty; files of the same name are replaced.
    #[arg(long)]
    pub merge: bool,
    /// Do not set owners; by default root sets them.
    #[arg(long)]
    pub no_owners: bool,
    /// Leave out extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
    /// Refuse symbolic links that lead out of DIR.
    #[arg(long)]
    pub inward_links_only: bool,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}
