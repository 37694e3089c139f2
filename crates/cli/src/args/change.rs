//! The options of the commands that change images, and of `get`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::image::{ImageArguments, owner};

/// The image to change, and the options of every command that changes one.
#[derive(Debug, Args)]
pub struct ChangeArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// Compression of new data in JFFS2: zlib (the default), lzo, rtime, none; priority for the
    /// first of lzo, zlib, rtime that helps, as in Linux; size for the smallest result. In UBIFS:
    /// lzo, zlib, zstd, none; default: that of the volume.
    #[arg(long, value_name = "NAME")]
    pub compress: Option<String>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Change an image even if parts of it are damaged; data that is still readable in those parts
    /// may be lost.
    #[arg(long)]
    pub even_if_damaged: bool,
    /// Print the changes as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `put`.
#[derive(Debug, Args)]
#[command(
    after_help = "Owner, mode, time and extended attributes are copied. An existing file keeps its inode and its other names. With -r the content of DIR goes into PATH: directories of the same name are
merged, anything else of the same name is replaced. An image that is shorter than its flash has no free space; --size extends it to the size of the flash.

Examples:
  nandkit put dump.bin passwd /etc/passwd
  nandkit put dump.bin --region rootfs --owner 0:0 -r overlay /
  nandkit put dump.bin - /etc/motd < motd
  nandkit put rootfs.jffs2 --size 8M -r overlay.tar.gz / --dry-run"
)]
pub struct PutArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: ChangeArguments,
    /// A file, or - for standard input; with -r a directory or a tar archive.
    #[arg(value_name = "FILE|-|DIR|TAR")]
    pub source: PathBuf,
    /// The path in the image; if it is a directory, the file goes into it.
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// Put a whole tree.
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Set the owner and group of everything that is put.
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    pub owner: Option<(u32, u32)>,
    /// Mode of the file, in octal.
    #[arg(long, value_name = "MODE", value_parser = octal, conflicts_with = "recursive")]
    pub mode: Option<u16>,
    /// Leave out extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
}

fn octal(text: &str) -> Result<u16, String> {
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("\"{text}\" is no octal mode; expected a number such as 644 or 4755"))
}

/// Arguments of `get`.
#[derive(Debug, Args)]
#[command(
    after_help = "Mode and time are copied, with -r everything that `nandkit extract --path` copies. If the file is damaged, nothing is written and the exit status is 1.

Examples:
  nandkit get dump.bin /etc/passwd
  nandkit get dump.bin /etc/passwd - | head
  nandkit get dump.bin -r /etc etc
  nandkit get card.img /DCIM/_MG_0001.JPG --version 1"
)]
pub struct GetArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The file, or with -r the directory.
    #[arg(value_name = "PATH")]
    pub path: String,
    /// The destination: a file, a directory, or - for standard output; default: the current
    /// directory. With -r a directory that is empty or does not exist.
    #[arg(value_name = "TARGET")]
    pub target: Option<PathBuf>,
    /// Get a directory with everything below it.
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Get an older version that is still on the flash, by its number in the list of `nandkit cat
    /// --versions`.
    #[arg(long, value_name = "N", conflicts_with = "recursive")]
    pub version: Option<u64>,
    /// Replace an existing file; with -r write into a directory that is not empty.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `rm`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nandkit rm dump.bin -r /var/log /var/core")]
pub struct RmArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: ChangeArguments,
    /// The files or directories to remove.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Remove directories with everything below them.
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Ignore paths that do not exist.
    #[arg(short = 'f', long)]
    pub force: bool,
}

/// Arguments of `mv`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nandkit mv dump.bin /etc/rc.new /etc/rc\n  nandkit mv dump.bin /a /b /old")]
pub struct MvArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: ChangeArguments,
    /// The files to move, followed by the new path or the target directory.
    #[arg(value_name = "FROM... TO", required = true, num_args = 2..)]
    pub paths: Vec<OsString>,
    /// Refuse to replace an existing file.
    #[arg(short = 'n', long)]
    pub no_replace: bool,
}

/// Arguments of `mkdir`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nandkit mkdir dump.bin -p /opt/app/data -m 750")]
pub struct MkdirArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: ChangeArguments,
    /// The directories.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Create missing parent directories; existing directories are no error.
    #[arg(short = 'p', long)]
    pub parents: bool,
    /// Mode of the directories, in octal; default: 755.
    #[arg(short = 'm', long, value_name = "MODE", value_parser = octal, default_value = "755", hide_default_value = true)]
    pub mode: u16,
}

/// Arguments of `ln`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nandkit ln dump.bin -s ../lib/libc.so.6 /usr/lib/libc.so\n  nandkit ln dump.bin /bin/busybox /bin/sh"
)]
pub struct LnArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: ChangeArguments,
    /// The target of the link: a path in the image, or any text with -s.
    #[arg(value_name = "TARGET")]
    pub target: OsString,
    /// The new name, or the directory that gets it.
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// Make a symbolic link.
    #[arg(short = 's', long)]
    pub symbolic: bool,
    /// Replace an existing file.
    #[arg(short = 'f', long)]
    pub force: bool,
}

/// Arguments of `chmod`.
#[derive(Debug, Args)]
#[command(after_help = "A clause without u, g or o applies to all three; no umask is applied.

Examples:
  nandkit chmod dump.bin 4755 /bin/su
  nandkit chmod dump.bin u+x,go-w /etc/init.d/rcS
  nandkit chmod dump.bin -R a=rX /www")]
pub struct ChmodArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: ChangeArguments,
    /// Octal (644), or clauses (u+x,go-w).
    #[arg(value_name = "MODE", allow_hyphen_values = true)]
    pub mode: String,
    /// The files and directories to change.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Change directories with everything below them.
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

/// Arguments of `chown`.
#[derive(Debug, Args)]
#[command(
    after_help = "Names are looked up in /etc/passwd and /etc/group of the image, or of this machine if the image has none. The mode does not change.

Examples:
  nandkit chown dump.bin 0:0 /etc/passwd
  nandkit chown dump.bin -R www-data: /www"
)]
pub struct ChownArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: ChangeArguments,
    /// USER, USER:GROUP, :GROUP, or USER: for the user's own group; numbers or names.
    #[arg(value_name = "USER:GROUP")]
    pub owner: String,
    /// The files and directories to change.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Change directories with everything below them.
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

/// Arguments of `setfattr`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nandkit setfattr dump.bin -n user.version -v 7 /bin/app
  nandkit setfattr dump.bin -n security.capability -v 0x0100000200040000000000000000000000000000 /bin/ping
  nandkit setfattr dump.bin -x user.version /bin/app")]
pub struct SetfattrArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub change: ChangeArguments,
    /// The files and directories to change.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// The attribute, with its prefix: user., trusted., security.
    #[arg(short = 'n', long, value_name = "NAME", required_unless_present = "remove", conflicts_with = "remove")]
    pub name: Option<OsString>,
    /// The value: text, or 0x and hexadecimal digits; default: empty.
    #[arg(short = 'v', long, value_name = "VALUE", requires = "name", allow_hyphen_values = true)]
    pub value: Option<OsString>,
    /// Remove this attribute.
    #[arg(short = 'x', long, value_name = "NAME")]
    pub remove: Option<OsString>,
}
