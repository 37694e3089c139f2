//! Arguments of `mount`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::image::ImageArguments;

const EXAMPLES: &str = "The files of the image appear in DIR until it is unmounted. Without --rw nothing changes, neither the image nor any other file. With --rw changes reach the image file at
each fsync, and otherwise after 32 MiB or 5 seconds, through a journal: after a crash the image has its state of one of these moments. mount needs /dev/fuse, and
fusermount3 for users other than root.

Examples:
  nandkit mount dump.bin mnt
  nandkit mount dump.bin --region rootfs mnt
  nandkit mount rootfs.jffs2 mnt --rw && cp -a overlay/. mnt/ && nandkit umount mnt
  nandkit mount dump.bin mnt --overlay changes                     the image does not change; see nandkit overlay
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
    /// The mount point.
    #[arg(value_name = "DIR")]
    pub point: PathBuf,
    /// Allow changes to the image. With --overlay FILE, which implies --rw, the changes go into
    /// FILE and the image does not change.
    #[arg(long)]
    pub rw: bool,
    /// Stay in the foreground until the image is unmounted or Ctrl-C is pressed; exit status 1 if
    /// some changes could not be written.
    #[arg(long)]
    pub foreground: bool,
    /// Show this user as the owner of every file. A new file gets the stored owner of its
    /// directory.
    #[arg(long, value_name = "N")]
    pub uid: Option<u32>,
    /// Show this group as the group of every file.
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// Give other users, including root, access by the permissions of the files; always on if root
    /// mounts. /etc/fuse.conf must have a line user_allow_other.
    #[arg(long)]
    pub allow_other: bool,
    /// Compression of new data in JFFS2: zlib (the default), lzo, rtime, none, priority, size; in
    /// UBIFS: lzo, zlib, zstd, none (default: that of the volume).
    #[arg(long, value_name = "NAME", requires = "writing")]
    pub compress: Option<String>,
    /// Allow changes to an image even if parts of it are damaged; data that is still readable in
    /// those parts may be lost.
    #[arg(long, requires = "writing")]
    pub even_if_damaged: bool,
}

const UMOUNT_EXAMPLES: &str = "Syncs, unmounts, and waits until the mount process has ended. umount(8) and fusermount3 -u work too, but they return before the last changes are in the image and do not report a
failure. Exit status 1: the image is in use, or some changes could not be written.

Examples:
  nandkit umount mnt
  nandkit umount mnt && cp rootfs.jffs2 /srv/tftp/
  nandkit umount --lazy mnt                          even if it is in use";

/// Arguments of `umount`.
#[derive(Debug, Args)]
#[command(after_help = UMOUNT_EXAMPLES)]
pub struct UmountArguments {
    /// The mount points.
    #[arg(value_name = "DIR", required = true)]
    pub points: Vec<PathBuf>,
    /// Detach the mount even if it is in use or cannot be synced. It ends when its last user is
    /// done; the command does not wait for that.
    #[arg(long, short)]
    pub lazy: bool,
}
