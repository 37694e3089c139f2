//! The options of the commands that open or make images.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nandkit_stack::image::{BadMarks, ByteOrder, CodePage, OobLayoutChoice, OpenOptions, Swap};
use nandkit_units::parse_size;

const ANDROID: &str = "Android's files about the tree";

/// A number of bytes: `4096`, `128K`, `128KiB`, `0x20000`.
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
    let wrong = || format!("\"{text}\" is no page with its OOB; expected bytes, as 2048+64");
    let (page, oob) = text.split_once('+').ok_or_else(wrong)?;
    Ok((bytes32(page)?, bytes32(oob)?))
}

pub(super) fn owner(text: &str) -> Result<(u32, u32), String> {
    let wrong = || format!("\"{text}\" is no owner; expected UID:GID in numbers, as 0:0");
    let (uid, gid) = text.split_once(':').ok_or_else(wrong)?;
    // chown(2) takes the last number for "as it was": it is nobody's.
    let number = |text: &str| text.parse().ok().filter(|number| *number != u32::MAX).ok_or_else(wrong);
    Ok((number(uid)?, number(gid)?))
}

/// The order of bytes in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Endian {
    Little,
    Big,
}

impl Endian {
    /// As the stack has it.
    pub const fn order(self) -> ByteOrder {
        match self {
            Self::Little => ByteOrder::Little,
            Self::Big => ByteOrder::Big,
        }
    }
}

const WHERE: &str = "Where in the image, and how it lies there (found out where not said)";

/// The image, and what is known of it.
#[derive(Clone, Debug, Args)]
pub struct ImageArguments {
    /// The image: a dump of flash or a volume, also compressed, as an Android sparse image, a qcow2
    /// disk or a text of a console; or a chip that a run has kept in a file.
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// A region of a whole-device dump, by name or number; `nandkit info` lists them.
    #[arg(long, value_name = "NAME|N", conflicts_with_all = ["offset", "size"], help_heading = WHERE)]
    pub region: Option<String>,
    /// First byte of the part that is meant (OOB not counted): 1M, 0x100000.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = WHERE)]
    pub offset: Option<u64>,
    /// Bytes of the part that is meant.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = WHERE)]
    pub size: Option<u64>,
    /// Bytes of an erase block, OOB not counted.
    #[arg(long, value_name = "BYTES", value_parser = bytes32, help_heading = WHERE)]
    pub erase_size: Option<u32>,
    /// Bytes of a NAND page, OOB not counted.
    #[arg(long, value_name = "BYTES", value_parser = bytes32, help_heading = WHERE)]
    pub page_size: Option<u32>,
    /// OOB bytes that follow each page in the image; 0 for none.
    #[arg(long, value_name = "BYTES", value_parser = bytes32, help_heading = WHERE)]
    pub oob_size: Option<u32>,
    /// Where pages keep data, ECC and OOB: the name of a layout, or a TOML file that describes one;
    /// none reads them as they stand. Without it the layout is found by the ECC.
    #[arg(long, value_name = "NAME|FILE", help_heading = WHERE)]
    pub oob_layout: Option<OobLayoutChoice>,
    /// Which bytes of the OOB mark bad blocks: ignore, page0 (the first page alone), last (the last
    /// page), byte=N. Without it whole content outweighs a mark.
    #[arg(long, value_name = "WHICH", help_heading = WHERE)]
    pub bad_marks: Option<BadMarks>,
    /// Erase blocks that the dump leaves out, as `nanddump --bb=skipbad` does with bad ones: 3,17;
    /// needs --erase-size.
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "erase_size", help_heading = WHERE)]
    pub missing_blocks: Vec<u32>,
    /// The order of bytes in numbers.
    #[arg(long, value_name = "ORDER", help_heading = WHERE)]
    pub endian: Option<Endian>,
    /// The code page of short names of FAT, as mount -o codepage= has it: 437, 850, 866, 932, 936;
    /// an unknown one lists all.
    #[arg(long, value_name = "PAGE", default_value = "437", hide_default_value = true, help_heading = WHERE)]
    pub codepage: CodePage,
    /// Do not believe summaries: look at every node.
    #[arg(long, help_heading = WHERE)]
    pub no_summary: bool,
    /// The files of all devices but the first of an F2FS volume that lies on several, in the order
    /// in which it names them.
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', help_heading = WHERE)]
    pub devices: Vec<PathBuf>,
    /// Show an F2FS volume that was not unmounted as its last checkpoint has it, without what was
    /// fsynced after it.
    #[arg(long, help_heading = WHERE)]
    pub no_recovery: bool,
    /// Further files of the same image: the other parts of a split Android sparse image in any
    /// order; else what follows IMAGE, in order, as mtd partitions and split parts do.
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', help_heading = WHERE)]
    pub join: Vec<PathBuf>,
    /// The bytes of each 16 or 32 bits of the dump are swapped: put them right.
    #[arg(long, value_name = "16|32", help_heading = WHERE)]
    pub swap: Option<Swap>,
    /// Lay the changes of this file over the image, as `mount --overlay` keeps them.
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    pub overlay: Option<PathBuf>,
}

impl ImageArguments {
    /// As the stack takes them.
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
    /// Show each segment of an F2FS volume as a character: how full it is, or of which type.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "fill")]
    pub segments: Option<SegmentsName>,
    /// Show where a file lies: its runs of bytes, their places in the volume and, of F2FS, their
    /// segments.
    #[arg(long, value_name = "PATH")]
    pub extents: Option<String>,
    /// Columns of what --segments shows; without it those of the terminal.
    #[arg(long, value_name = "N", requires = "segments")]
    pub width: Option<u16>,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// What `info --segments` shows of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SegmentsName {
    /// Valid blocks in tenths.
    Fill,
    /// Hot, warm and cold data and nodes.
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
    /// What to list; by default the root directory.
    #[arg(value_name = "PATH", default_value = "/", hide_default_value = true)]
    pub path: String,
    /// Modes, numbers of links, owners, sizes or device numbers, times in UTC, targets of links.
    #[arg(short = 'l', long)]
    pub long: bool,
    /// Also what is below, with whole paths.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Extended attributes too, SELinux labels among them, as getfattr(1) writes values.
    #[arg(long, conflicts_with = "deleted")]
    pub xattrs: bool,
    /// Names that were deleted or replaced and are still on the flash.
    #[arg(long)]
    pub deleted: bool,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cat`.
#[derive(Debug, Args)]
#[command(
    after_help = "What of a file is damaged comes as zeroes, with a message that says where and why, and exit status 1.

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
    /// A content that was replaced or deleted and is still on the flash, by its number in the list
    /// of --versions.
    #[arg(long, value_name = "N")]
    pub version: Option<u64>,
    /// List the contents that are still on the flash, the present one last.
    #[arg(long, conflicts_with = "version")]
    pub versions: bool,
    /// Print the list as JSON, and nothing else, on standard output.
    #[arg(long, requires = "versions", conflicts_with = "version")]
    pub json: bool,
}

/// Android's files about a tree: what `mkfs f2fs` reads and `extract` writes.
#[derive(Debug, Default, Args)]
pub struct AndroidOptions {
    /// Owners, permissions and capabilities by path, as Android's fs_config has them: lines of
    /// PATH UID GID MODE [capabilities=MASK].
    #[arg(long, value_name = "FILE", help_heading = ANDROID)]
    pub fs_config: Option<PathBuf>,
    /// SELinux labels by pattern, as Android's file_contexts has them: lines of
    /// a pattern, perhaps a kind (`-d`, `--`), and a label.
    #[arg(long, value_name = "FILE", help_heading = ANDROID)]
    pub file_contexts: Option<PathBuf>,
    /// Where the tree is mounted on the device, with which paths in both files begin.
    #[arg(long, value_name = "PATH", default_value = "/", hide_default_value = true, help_heading = ANDROID)]
    pub mount_point: String,
}

/// Arguments of `getfattr`.
#[derive(Debug, Args)]
#[command(
    after_help = "Values are text in quotes, or 0x and hexadecimal digits; a zero byte at the end of a text is not shown.
Exit status 1 where an attribute that was asked for is not there.

Examples:
  nandkit getfattr system.img /bin/sh
  nandkit getfattr system.img -n security.selinux /bin/sh /bin/ls"
)]
pub struct GetfattrArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// What is looked at. A link itself, not what it leads to.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<String>,
    /// Only this attribute, with its prefix: user., trusted., security.
    #[arg(short = 'n', long, value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `extract`.
#[derive(Debug, Args)]
#[command(
    after_help = "Names that lead out of DIR are refused by name. What the user's rights do not allow (owners, devices) is left out with a message; so are sockets in an \
archive, which holds none, as with GNU tar. Damaged parts of files become zeroes. Exit status 1 where anything was refused, is damaged or has lost its name.

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
    /// The directory; made where it is missing, and empty unless --merge is given.
    #[arg(value_name = "DIR", required_unless_present = "to_tar", conflicts_with = "to_tar")]
    pub directory: Option<PathBuf>,
    /// Write a tar archive instead, to FILE or with - to standard output: with owners, devices and
    /// attributes whatever the user's rights.
    #[arg(long, value_name = "FILE|-")]
    pub to_tar: Option<PathBuf>,
    /// Keep holes of files in the archive, as `tar --sparse` does: GNU tar, libarchive, Python and
    /// Go read that, BusyBox does not. Without it their zeroes are written.
    #[arg(long, short = 'S', requires = "to_tar")]
    pub sparse: bool,
    /// Only this directory of the image, and what is below it.
    #[arg(long, value_name = "PATH", default_value = "/", hide_default_value = true)]
    pub path: String,
    /// Into a directory that holds something; files of the same name are replaced. With --to-tar:
    /// replace FILE.
    #[arg(long, visible_alias = "force")]
    pub merge: bool,
    /// Leave owners as they come; by default they are set if the user is root. An archive has them
    /// in any case.
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
#[command(after_help = "Exit status 1 where anything is witnessed to be damaged.

Examples:
  nandkit check dump.bin
  nandkit check card.nand --json
  nandkit check dump.bin --repair repaired.bin
  nandkit check userdata.img --repair repaired.img")]
pub struct CheckArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// Write an image of JFFS2 or F2FS without what is provably bad to OUT, which must not exist.
    /// What is whole and has lost its name gets one in lost+found.
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
