//! The options of `qtar`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ImageArguments;
use super::image::bytes;

const EXAMPLES: &str = "Archives are those of `nandkit extract --to-tar`. Of a directory, files are read ahead in the order in which they lie on the disk, by several threads, and each is one version of the file \
or told. Of a chip that a run has kept in a file, with F2FS on a layer that can remap, all files become one by remapping, in memory, and that is read in large requests. Exit status 1 where anything was \
refused, is damaged, was changed or has gone.

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
    /// What is done with the archive.
    #[command(subcommand)]
    pub action: QtarAction,
}

/// What is done with an archive.
#[derive(Debug, Subcommand)]
pub enum QtarAction {
    /// Make an archive of a directory, or of an image's files.
    #[command(name = "cf")]
    Create(Box<QtarCreateArguments>),
    /// Write an archive's files into a directory.
    #[command(name = "xf")]
    Extract(QtarExtractArguments),
    /// List an archive.
    #[command(
        name = "tf",
        after_help = "Examples:\n  nandkit qtar tf home.tar\n  zstd -dc linux.tar.zst | nandkit qtar tf -"
    )]
    List {
        /// The archive, also compressed, or - for standard input.
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
    mut_arg("image", |arg| arg.value_name("DIR|IMAGE").help("A directory of this host, or an image: as every command that reads images takes them")),
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
    /// Of an image only this directory, and what is below it.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Of a directory leave out this path of it, and what is below it; may be given several times.
    #[arg(long, value_name = "PATH")]
    pub exclude: Vec<String>,
    /// Keep holes of files in the archive, as `tar --sparse` does. Without it their zeroes are
    /// written.
    #[arg(long, short = 'S')]
    pub sparse: bool,
    /// Leave out extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
    /// Refuse symbolic links that lead out of the archive.
    #[arg(long)]
    pub inward_links_only: bool,
    /// Read the files one by one, as tar does: to compare with.
    #[arg(long)]
    pub one_by_one: bool,
    /// Bytes of memory for what is read ahead, 1M at least.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "128M")]
    pub memory: u64,
    /// Replace ARCHIVE where it is there.
    #[arg(long)]
    pub force: bool,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `qtar xf`.
#[derive(Debug, Args)]
#[command(after_help = "Names that lead out of DIR are refused by name.

Examples:
  nandkit qtar xf home.tar out
  nandkit qtar xf linux.tar.zst out --no-owners")]
pub struct QtarExtractArguments {
    /// The archive, also compressed, or - for standard input.
    #[arg(value_name = "ARCHIVE|-")]
    pub archive: PathBuf,
    /// The directory; made where it is missing, and empty unless --merge is given.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Into a directory that holds something; files of the same name are replaced.
    #[arg(long)]
    pub merge: bool,
    /// Leave owners as they come; by default they are set if the user is root.
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
