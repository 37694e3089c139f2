//! The options of the commands that change images, and of `get`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::image::{ImageArguments, owner};

/// The image that is changed, and how.
#[derive(Debug, Args)]
pub struct ChangeArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// How new data are compressed in JFFS2: zlib (the default), lzo, rtime, none; priority for the
    /// first of lzo, zlib, rtime that helps, as Linux does; size for the smallest.
    #[arg(long, value_name = "NAME")]
    pub compress: Option<String>,
    /// Say what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Change an image although parts of it are damaged; what can still be read of those may go.
    #[arg(long)]
    pub even_if_damaged: bool,
    /// Print what was changed as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `put`.
#[derive(Debug, Args)]
#[command(
    after_help = "Owner, mode, time and extended attributes come along. A file that is there already keeps its inode and its other names. With -r what is in DIR goes into PATH: directories of the same name are
shared, anything else of the same name is replaced. An image that is shorter than its flash has no room; --size makes it as long as the flash.

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
    /// The path in the image; a file goes into it where it is a directory.
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// A whole tree.
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Everything belongs to this user and group.
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    pub owner: Option<(u32, u32)>,
    /// The file's mode, in octal.
    #[arg(long, value_name = "MODE", value_parser = octal, conflicts_with = "recursive")]
    pub mode: Option<u16>,
    /// Leave out extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
}

fn octal(text: &str) -> Result<u16, String> {
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("\"{text}\" is no octal mode; expected 644, 4755"))
}

/// Arguments of `get`.
#[derive(Debug, Args)]
#[command(
    after_help = "Mode and time come along, with -r all that `nandkit extract --path` brings. Exit status 1 where the file is damaged; then nothing is written.

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
    /// Where it goes: a file, a directory, or - for standard output; by default the present
    /// directory. With -r a directory that is empty or not there.
    #[arg(value_name = "TARGET")]
    pub target: Option<PathBuf>,
    /// A directory with all below it.
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// A content that was replaced or deleted and is still there, by its number in the list of
    /// `nandkit cat --versions`.
    #[arg(long, value_name = "N", conflicts_with = "recursive")]
    pub version: Option<u64>,
    /// Replace a file that exists; with -r write into a directory that holds something.
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
    /// What goes.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Directories with all below them.
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// A path that is not there is no error.
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
    /// What is moved, and last its new path, or the directory that it goes into.
    #[arg(value_name = "FROM... TO", required = true, num_args = 2..)]
    pub paths: Vec<OsString>,
    /// Refuse to replace what has the path already.
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
    /// Also those above; one that exists is no error.
    #[arg(short = 'p', long)]
    pub parents: bool,
    /// Their mode, in octal; 755 by default.
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
    /// What the new name leads to: a path of the image, with -s any text.
    #[arg(value_name = "TARGET")]
    pub target: OsString,
    /// The new name, or the directory that it goes into.
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// A symbolic link.
    #[arg(short = 's', long)]
    pub symbolic: bool,
    /// Replace what has the name already.
    #[arg(short = 'f', long)]
    pub force: bool,
}

/// Arguments of `chmod`.
#[derive(Debug, Args)]
#[command(after_help = "Clauses that name nobody are about all; there is no umask.

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
    /// What gets it.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Directories with all below them.
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

/// Arguments of `chown`.
#[derive(Debug, Args)]
#[command(
    after_help = "Names are those of /etc/passwd and /etc/group in the image, or on this machine where the image has none. The mode stays as it is.

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
    /// What gets it.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// Directories with all below them.
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
    /// What gets it.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
    /// The attribute, with its prefix: user., trusted., security.
    #[arg(short = 'n', long, value_name = "NAME", required_unless_present = "remove", conflicts_with = "remove")]
    pub name: Option<OsString>,
    /// Its value: text, or 0x and hexadecimal digits; empty by default.
    #[arg(short = 'v', long, value_name = "VALUE", requires = "name", allow_hyphen_values = true)]
    pub value: Option<OsString>,
    /// Take this attribute away.
    #[arg(short = 'x', long, value_name = "NAME")]
    pub remove: Option<OsString>,
}
