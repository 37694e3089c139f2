//! Arguments of `mount`.

use std::path::PathBuf;

use clap::Args;

use super::image::ImageArguments;

const EXAMPLES: &str = "The image's file system is a directory like others until it is unmounted. Without --rw nothing is changed, neither in the image nor beside it. With --rw changes reach the file at
each fsync, after 32 MiB and after 5 seconds at the latest, through a journal: whatever happens, the image is as it was at one of these moments. It needs /dev/fuse, and
fusermount3 for users other than root.

Examples:
  nandkit mount dump.bin mnt
  nandkit mount dump.bin --region rootfs mnt
  nandkit mount rootfs.jffs2 mnt --rw && cp -a overlay/. mnt/ && umount mnt
  nandkit mount card.img mnt --uid 1000 --gid 1000
  nandkit mount dump.bin mnt --foreground                          until Ctrl-C";

/// Arguments of `mount`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MountArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The directory on which it is mounted.
    #[arg(value_name = "DIR")]
    pub point: PathBuf,
    /// Let programs change the image.
    #[arg(long)]
    pub rw: bool,
    /// Stay in the foreground, until it is unmounted or Ctrl-C; exit status 1 where not all could be kept.
    #[arg(long)]
    pub foreground: bool,
    /// Show everything as belonging to this user; what is made belongs to the owner of its directory.
    #[arg(long, value_name = "N")]
    pub uid: Option<u32>,
    /// Show everything as belonging to this group.
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// How new data are compressed in JFFS2: zlib (the default), lzo, rtime, none, priority, size.
    #[arg(long, value_name = "NAME", requires = "rw")]
    pub compress: Option<String>,
    /// Let programs change an image although parts of it are damaged; what can still be read of those may go.
    #[arg(long, requires = "rw")]
    pub even_if_damaged: bool,
    /// This is the process in the background, whose standard output is read by the one in the foreground.
    #[arg(long, hide = true)]
    pub in_background: bool,
}
