//! Arguments of `mount`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::image::ImageArguments;

const EXAMPLES: &str = "The image's file system is a directory like others until it is unmounted. Without --rw nothing is changed, neither in the image nor beside it. With --rw changes reach the file at
each fsync, after 32 MiB and after 5 seconds at the latest, through a journal: whatever happens, the image is as it was at one of these moments. It needs /dev/fuse, and
fusermount3 for users other than root.

Examples:
  nandkit mount dump.bin mnt
  nandkit mount dump.bin --region rootfs mnt
  nandkit mount rootfs.jffs2 mnt --rw && cp -a overlay/. mnt/ && nandkit umount mnt
  nandkit mount dump.bin mnt --overlay changes                     the image stays as it is; see nandkit overlay
  nandkit mount card.img mnt --uid 1000 --gid 1000
  nandkit mount card.img mnt --allow-other                         needs a line user_allow_other in /etc/fuse.conf
  nandkit mount dump.bin mnt --foreground                          until Ctrl-C";

/// Arguments of `mount`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("writing").args(["rw", "overlay"]).multiple(true)))]
pub struct MountArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The directory on which it is mounted.
    #[arg(value_name = "DIR")]
    pub point: PathBuf,
    /// Let programs change the image; with --overlay FILE, which says so too, the changes go into
    /// FILE, and the image stays as it is.
    #[arg(long)]
    pub rw: bool,
    /// Stay in the foreground, until it is unmounted or Ctrl-C; exit status 1 where not all could
    /// be kept.
    #[arg(long)]
    pub foreground: bool,
    /// Show everything as belonging to this user; what is made belongs to the owner of its
    /// directory.
    #[arg(long, value_name = "N")]
    pub uid: Option<u32>,
    /// Show everything as belonging to this group.
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// Let other users in, root too, by the files' own permissions; where root mounts they are in
    /// any case. /etc/fuse.conf must have a line user_allow_other.
    #[arg(long)]
    pub allow_other: bool,
    /// How new data are compressed in JFFS2: zlib (the default), lzo, rtime, none, priority, size.
    #[arg(long, value_name = "NAME", requires = "writing")]
    pub compress: Option<String>,
    /// Let programs change an image although parts of it are damaged; what can still be read of
    /// those may go.
    #[arg(long, requires = "writing")]
    pub even_if_damaged: bool,
}

const UMOUNT_EXAMPLES: &str = "Syncs, unmounts, and waits until the process of the mount has ended. umount(8) and fusermount3 -u do as well, but return before the last changes are in the image, and hear nothing of a
failure. Exit status 1: the image is in use, or not everything could be kept.

Examples:
  nandkit umount mnt
  nandkit umount mnt && cp rootfs.jffs2 /srv/tftp/
  nandkit umount --lazy mnt                          also where it is in use";

/// Arguments of `umount`.
#[derive(Debug, Args)]
#[command(after_help = UMOUNT_EXAMPLES)]
pub struct UmountArguments {
    /// The directories on which images are mounted.
    #[arg(value_name = "DIR", required = true)]
    pub points: Vec<PathBuf>,
    /// Take its name away also where it is in use or cannot be synced; it ends with its last user,
    /// and nobody waits for that.
    #[arg(long, short)]
    pub lazy: bool,
}
