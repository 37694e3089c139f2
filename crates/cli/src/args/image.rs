//! The options of the commands that open or make images.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nandkit_stack::image::{BadMarks, ByteOrder, CodePage, OobLayoutChoice, OpenOptions, Swap};
use nandkit_units::parse_size;

const ANDROID: &str = "Android metadata files of the tree";

/// Parses a number of bytes: `4096`, `128K`, `128KiB`, `0x20000`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| format!("\"{text}\" is no hexadecimal number")),
        None => parse_size(text).map_err(|error| error.to_string()),
    }
}

pub(super) fn bytes32(text: &str) -> Result<u32, String> {
    let bytes = bytes(text)?;
    u32::try_from(bytes).map_err(|_| format!("{bytes} bytes are too many, expected at most {}", u32::MAX))
}

pub(super) fn pages(text: &str) -> Result<(u32, u32), String> {
    let wrong = || format!("\"{text}\" is no page size with an OOB size; expected bytes such as 2048+64");
    let (page, oob) = text.split_once('+').ok_or_else(wrong)?;
    Ok((bytes32(page)?, bytes32(oob)?))
}

pub(super) fn owner(text: &str) -> Result<(u32, u32), String> {
    let wrong = || format!("\"{text}\" is no owner; expected numbers UID:GID such as 0:0");
    let (uid, gid) = text.split_once(':').ok_or_else(wrong)?;
    // chown(2) reads the largest number as "do not change", so that it cannot be an owner.
    let number = |text: &str| text.parse().ok().filter(|number| *number != u32::MAX).ok_or_else(wrong);
    Ok((number(uid)?, number(gid)?))
}

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Endian {
    Little,
    Big,
}

impl Endian {
    /// The stack's type for it.
    pub const fn order(self) -> ByteOrder {
        match self {
            Self::Little => ByteOrder::Little,
            Self::Big => ByteOrder::Big,
        }
    }
}

const WHERE: &str = "Which part of the image, and its layout (detected unless given)";

/// The image, and what the caller knows about it.
#[derive(Clone, Debug, Args)]
pub struct ImageArguments {
    /// The image: a flash dump or a volume, raw, compressed, as an Android sparse image, as a qcow2
    /// disk or as console text (a hex dump); or an emulated chip that a run saved to a file.
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// A region of a whole-device dump, by name or number; `nandkit info` lists them.
    #[arg(long, value_name = "NAME|N", conflicts_with_all = ["offset", "size"], help_heading = WHERE)]
    pub region: Option<String>,
    /// Start of the part to use, in bytes without OOB: 1M, 0x100000.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = WHERE)]
    pub offset: Option<u64>,
    /// Length of the part to use, in bytes without OOB.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = WHERE)]
    pub size: Option<u64>,
    /// Erase block size in bytes, without OOB.
    #[arg(long, value_name = "BYTES", value_parser = bytes32, help_heading = WHERE)]
    pub erase_size: Option<u32>,
    /// NAND page size in bytes, without OOB.
    #[arg(long, value_name = "BYTES", value_parser = bytes32, help_heading = WHERE)]
    pub page_size: Option<u32>,
    /// OOB bytes after each page in the image; 0 for none.
    #[arg(long, value_name = "BYTES", value_parser = bytes32, help_heading = WHERE)]
    pub oob_size: Option<u32>,
    /// How a page stores data, ECC and OOB: the name of a layout, a TOML file that describes one,
    /// or none to read pages as they are. Default: detected by the ECC.
    #[arg(long, value_name = "NAME|FILE", help_heading = WHERE)]
    pub oob_layout: Option<OobLayoutChoice>,
    /// Which OOB bytes mark bad blocks: ignore, page0 (only the first page), last (the last page),
    /// byte=N. By default a marked block with intact content counts as good.
    #[arg(long, value_name = "WHICH", help_heading = WHERE)]
    pub bad_marks: Option<BadMarks>,
    /// Erase blocks missing from the dump, such as the bad blocks that `nanddump --bb=skipbad`
    /// skips: 3,17. Needs --erase-size.
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "erase_size", help_heading = WHERE)]
    pub missing_blocks: Vec<u32>,
    /// Byte order of numbers.
    #[arg(long, value_name = "ORDER", help_heading = WHERE)]
    pub endian: Option<Endian>,
    /// Code page of FAT short names, as for mount -o codepage=: 437, 850, 866, 932, 936; an unknown
    /// value lists all of them.
    #[arg(long, value_name = "PAGE", default_value = "437", hide_default_value = true, help_heading = WHERE)]
    pub codepage: CodePage,
    /// A UBIFS volume of UBI by its name, or all: a directory with each volume as a file. Default:
    /// the only volume with UBIFS if there is one, otherwise all.
    #[arg(long, value_name = "NAME|all", help_heading = WHERE)]
    pub volume: Option<String>,
    /// Ignore JFFS2 summaries and read every node.
    #[arg(long, help_heading = WHERE)]
    pub no_summary: bool,
    /// The other devices of an F2FS volume that spans several, in the order in which the volume
    /// lists them.
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', help_heading = WHERE)]
    pub devices: Vec<PathBuf>,
    /// Show an F2FS volume that was not unmounted as of its last checkpoint, without data fsynced
    /// later.
    #[arg(long, help_heading = WHERE)]
    pub no_recovery: bool,
    /// Further files of the same image: the other parts of a split Android sparse image, in any
    /// order; otherwise the files that follow IMAGE, in order (mtd partitions, split parts).
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', help_heading = WHERE)]
    pub join: Vec<PathBuf>,
    /// Undo a byte swap within each 16 or 32 bits of the dump.
    #[arg(long, value_name = "16|32", help_heading = WHERE)]
    pub swap: Option<Swap>,
    /// Apply the changes of this overlay file on top of the image (see `mount --overlay`).
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    pub overlay: Option<PathBuf>,
}

impl ImageArguments {
    /// The stack's options for opening the image.
    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            region: self.region.clone(),
            offset: self.offset,
            size: self.size,
            erase_size: self.erase_size,
            page_size: self.page_size,
            oob_size: self.oob_size,
            oob_layout: self.oob_layout.clone().unwrap_or_default(),
            bad_marks: self.bad_marks,
            missing_blocks: self.missing_blocks.clone(),
            byte_order: self.endian.map(Endian::order),
            code_page: self.codepage,
            volume: self.volume.clone(),
            no_summaries: self.no_summary,
            devices: self.devices.clone(),
            join: self.join.clone(),
            swap: self.swap,
            overlay: self.overlay.clone(),
            no_recovery: self.no_recovery,
            resident_max: None,
        }
    }
}

/// Arguments of `info`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nandkit info dump.bin
  nandkit info dump.bin --region 2 --json
  nandkit info super.img_sparsechunk.0 --join super.img_sparsechunk.1,super.img_sparsechunk.2
  nandkit info card.nand
  nandkit info userdata.img --segments
  nandkit info userdata.img --extents /app/base.apk")]
pub struct InfoArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// Show each segment of an F2FS volume as one character: how full it is, or its type.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "fill")]
    pub segments: Option<SegmentsName>,
    /// Show where a file is stored: its extents, their positions in the volume and, for F2FS, their
    /// segments.
    #[arg(long, value_name = "PATH")]
    pub extents: Option<String>,
    /// Width of the output of --segments in columns; default: the terminal's.
    #[arg(long, value_name = "N", requires = "segments")]
    pub width: Option<u16>,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// What `info --segments` shows about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SegmentsName {
    /// Share of valid blocks, in tenths.
    Fill,
    /// Type: hot, warm or cold, data or nodes.
    Types,
}

/// Arguments of `ls`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nandkit ls dump.bin
  nandkit ls -lR dump.bin /etc
  nandkit ls -l --xattrs system.img /bin
  nandkit ls dump.bin --deleted")]
pub struct LsArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The file or directory to list; default: the root directory.
    #[arg(value_name = "PATH", default_value = "/", hide_default_value = true)]
    pub path: String,
    /// Show modes, link counts, owners, sizes or device numbers, times in UTC, and link targets.
    #[arg(short = 'l', long)]
    pub long: bool,
    /// List subdirectories too, with full paths.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Show extended attributes, including SELinux labels, with values as getfattr(1) prints them.
    #[arg(long, conflicts_with = "deleted")]
    pub xattrs: bool,
    /// List deleted and replaced names that are still on the flash.
    #[arg(long)]
    pub deleted: bool,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cat`.
#[derive(Debug, Args)]
#[command(
    after_help = "Damaged parts of a file are written as zeroes; a message says where and why, and the exit status is 1.

Examples:
  nandkit cat dump.bin /etc/passwd
  nandkit cat dump.bin /etc/passwd --versions
  nandkit cat dump.bin /etc/passwd --version 3 > passwd.old"
)]
pub struct CatArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The file.
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Write an older version that is still on the flash, by its number in the list of --versions.
    #[arg(long, value_name = "N")]
    pub version: Option<u64>,
    /// List the versions of the content that are still on the flash, the current one last.
    #[arg(long, conflicts_with = "version")]
    pub versions: bool,
    /// Print the list as JSON, and nothing else, on standard output.
    #[arg(long, requires = "versions", conflicts_with = "version")]
    pub json: bool,
}

/// Android's metadata files of a tree: `mkfs f2fs` reads them, `extract` writes them.
#[derive(Debug, Default, Args)]
pub struct AndroidOptions {
    /// Owners, permissions and capabilities by path in Android's fs_config format: lines of PATH
    /// UID GID MODE [capabilities=MASK].
    #[arg(long, value_name = "FILE", help_heading = ANDROID)]
    pub fs_config: Option<PathBuf>,
    /// SELinux labels by pattern in Android's file_contexts format: lines of a pattern, an optional
    /// file type (`-d`, `--`) and a label.
    #[arg(long, value_name = "FILE", help_heading = ANDROID)]
    pub file_contexts: Option<PathBuf>,
    /// Mount point of the tree on the device; the paths in both files begin with it.
    #[arg(long, value_name = "PATH", default_value = "/", hide_default_value = true, help_heading = ANDROID)]
    pub mount_point: String,
}

/// Arguments of `getfattr`.
#[derive(Debug, Args)]
#[command(
    after_help = "Values are printed as quoted text, without a trailing zero byte, or as 0x and hexadecimal digits.
Exit status 1 if a requested attribute does not exist.

Examples:
  nandkit getfattr system.img /bin/sh
  nandkit getfattr system.img -n security.selinux /bin/sh /bin/ls"
)]
pub struct GetfattrArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The files. Of a symbolic link, the link itself is read.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<String>,
    /// Show only this attribute, with its prefix: user., trusted., security.
    #[arg(short = 'n', long, value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `extract`.
#[derive(Debug, Args)]
#[command(
    after_help = "Names that lead out of DIR are refused and listed. Owners and devices that the user may not create are left out with a message; so are sockets in an \
archive, as with GNU tar. Damaged parts of files are written as zeroes. Exit status 1 if anything was refused, is damaged or has lost its name.

Examples:
  nandkit extract dump.bin out
  nandkit extract dump.bin --region rootfs out
  nandkit extract dump.bin --to-tar - | tar tv
  nandkit extract userdata.img --sparse --to-tar data.tar
  nandkit extract dump.bin etc --path /etc --no-owners
  nandkit extract system.img out --mount-point /system --fs-config fs_config --file-contexts file_contexts"
)]
pub struct ExtractArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The target directory. It is created if missing, and must be empty unless --merge is given.
    #[arg(value_name = "DIR", required_unless_present = "to_tar", conflicts_with = "to_tar")]
    pub directory: Option<PathBuf>,
    /// Write a tar archive instead, to FILE or with - to standard output. It holds owners, devices
    /// and attributes, whatever the user's rights.
    #[arg(long, value_name = "FILE|-")]
    pub to_tar: Option<PathBuf>,
    /// Store holes of files as holes, as `tar --sparse` does. GNU tar, libarchive, Python and Go
    /// can read that, BusyBox cannot. By default holes are written as zeroes.
    #[arg(long, short = 'S', requires = "to_tar")]
    pub sparse: bool,
    /// Extract only this directory of the image, with everything below it.
    #[arg(long, value_name = "PATH", default_value = "/", hide_default_value = true)]
    pub path: String,
    /// Write into a directory that is not empty; files of the same name are replaced. With
    /// --to-tar: replace FILE.
    #[arg(long, visible_alias = "force")]
    pub merge: bool,
    /// Do not set owners; by default root sets them. An archive always holds them.
    #[arg(long, conflicts_with = "to_tar")]
    pub no_owners: bool,
    /// Leave out extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub android: AndroidOptions,
    /// Refuse symbolic links that lead out of DIR or the archive.
    #[arg(long)]
    pub inward_links_only: bool,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status 1 if damage is found.

Examples:
  nandkit check dump.bin
  nandkit check card.nand --json
  nandkit check dump.bin --repair repaired.bin
  nandkit check userdata.img --repair repaired.img")]
pub struct CheckArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// Write a repaired JFFS2, F2FS or UBIFS image to OUT, which must not exist. It leaves out what
    /// is provably bad; intact files that lost their name appear in lost+found.
    #[arg(long, value_name = "OUT")]
    pub repair: Option<PathBuf>,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decimal_or_hexadecimal() {
        for (text, expected) in
            [("4096", Some(4096)), ("128K", Some(131_072)), ("0x20000", Some(131_072)), ("0xg", None), ("x", None)]
        {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
        assert_eq!(bytes32("8G").unwrap_err(), "8589934592 bytes are too many, expected at most 4294967295");
        assert_eq!((pages("2K+64"), pages("2048").is_err()), (Ok((2048, 64)), true));
        assert_eq!((owner("0:5"), owner("root:root").is_err(), owner("1").is_err()), (Ok((0, 5)), true, true));
    }
}
