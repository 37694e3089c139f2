//! Options that choose a part of an image and describe its layout.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use nandkit_flash_image::oob::OobLayout;
use nandkit_flash_image::{BadMarker, ImageLayout, OobPlacement};
use nandkit_vfs::Timestamp;

use crate::SpecError;

pub use nandkit_codec::code_page::CodePage;
pub use nandkit_flash_image::detect::ByteOrder;

/// Which part of an image to open, and what is known about its layout. By default everything is
/// detected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// A region's name, or its number in the list of regions.
    pub region: Option<String>,
    /// First data byte of the part, OOB not counted.
    pub offset: Option<u64>,
    /// Data bytes of the part.
    pub size: Option<u64>,
    /// Data bytes of an erase block.
    pub erase_size: Option<u32>,
    /// Data bytes of a NAND page.
    pub page_size: Option<u32>,
    /// OOB bytes that follow each page in the image; 0 for none.
    pub oob_size: Option<u32>,
    /// How pages store data, ECC and OOB.
    pub oob_layout: OobLayoutChoice,
    /// Which OOB bytes mark bad blocks; `None`: those of the convention, unless the block has
    /// intact content.
    pub bad_marks: Option<BadMarks>,
    /// Erase blocks missing from the dump, such as the bad blocks that `nanddump --bb=skipbad`
    /// skips, counted from the beginning of the flash. Needs `erase_size`.
    pub missing_blocks: Vec<u32>,
    /// The order of bytes in numbers.
    pub byte_order: Option<ByteOrder>,
    /// Code page of short names; only for FAT.
    pub code_page: CodePage,
    /// A volume of UBI with UBIFS, by its name, or `all` for a directory with each volume as a
    /// file. By default the only volume with UBIFS if there is one, otherwise all; only for UBI.
    pub volume: Option<String>,
    /// Ignore summaries and scan every node; only for JFFS2.
    pub no_summaries: bool,
    /// The other devices of a volume that spans several, in the order in which its superblock lists
    /// them; only for F2FS.
    pub devices: Vec<PathBuf>,
    /// Further files of the same image: the other parts of a split Android sparse image, in any
    /// order; otherwise the files that follow the first one, in order.
    pub join: Vec<PathBuf>,
    /// The unit in which the bytes of the dump are swapped.
    pub swap: Option<Swap>,
    /// An overlay file whose changes are applied on top of the image.
    pub overlay: Option<PathBuf>,
    /// Show an F2FS volume as of its last checkpoint, without data fsynced later.
    pub no_recovery: bool,
    /// Largest number of bytes of the image file to keep in this process's memory, for images that
    /// are open for long. `None`: all bytes that were read.
    pub resident_max: Option<u64>,
}

impl OpenOptions {
    /// The key of the first given option that describes a flash dump. For an emulated chip such
    /// options are wrong, since its file has the geometry.
    pub fn first_given(&self) -> Option<&'static str> {
        [
            (self.region.is_some(), "region"),
            (self.offset.is_some(), "offset"),
            (self.size.is_some(), "size"),
            (self.erase_size.is_some(), "erase_size"),
            (self.page_size.is_some(), "page_size"),
            (self.oob_size.is_some(), "oob_size"),
            (self.oob_layout != OobLayoutChoice::Detect, "oob_layout"),
            (self.bad_marks.is_some(), "bad_marks"),
            (!self.missing_blocks.is_empty(), "missing_blocks"),
            (self.byte_order.is_some(), "byte_order"),
            (self.overlay.is_some(), "overlay"),
            (!self.devices.is_empty(), "devices"),
            (!self.join.is_empty(), "join"),
            (self.swap.is_some(), "swap"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// How the pages of a dump store data, ECC and OOB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OobLayoutChoice {
    /// By the known layout whose ECC fits the dump; as stored if none fits.
    #[default]
    Detect,
    /// As stored in the dump, without correction.
    AsStored,
    /// By the known layout of this name, or by the layout in the TOML file of this path.
    Named(String),
    /// By this layout.
    Known(Arc<OobLayout>),
}

impl FromStr for OobLayoutChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "none" => Self::AsStored,
            name => Self::Named(name.to_owned()),
        })
    }
}

/// Which bytes of a dump's OOB mark bad blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadMarks {
    /// No byte is a mark.
    Ignore,
    /// The conventional byte, only in the first page.
    FirstPage,
    /// The conventional byte in the last page.
    LastPage,
    /// This byte of the OOB, in the first two pages.
    Byte(u32),
}

impl FromStr for BadMarks {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let byte = || text.strip_prefix("byte=")?.parse().ok().map(Self::Byte);
        match text {
            "ignore" => Ok(Self::Ignore),
            "page0" => Ok(Self::FirstPage),
            "last" => Ok(Self::LastPage),
            _ => byte().ok_or_else(|| SpecError::form(format!("{text}: expected ignore, page0, last or byte=N"))),
        }
    }
}

/// In which units the bytes of a dump are swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The two bytes of each 16 bits are swapped.
    Bits16,
    /// The four bytes of each 32 bits are in reverse order.
    Bits32,
}

impl Swap {
    pub(crate) const ALL: [Self; 2] = [Self::Bits16, Self::Bits32];

    /// Size of the unit in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bits16 => 16,
            Self::Bits32 => 32,
        }
    }

    /// A command that restores the byte order.
    pub(crate) const fn tool(self) -> &'static str {
        match self {
            Self::Bits16 => "dd conv=swab if=DUMP of=IMAGE",
            Self::Bits32 => "objcopy -I binary -O binary --reverse-bytes=4 DUMP IMAGE",
        }
    }
}

impl FromStr for Swap {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let found = Self::ALL.into_iter().find(|swap| swap.bits().to_string() == text);
        found.ok_or_else(|| SpecError::form(format!("{text}: expected 16 or 32")))
    }
}

impl OpenOptions {
    /// Applies the missing blocks, bad-block marks and OOB layout of the options to a layout.
    pub(crate) fn with_blocks(&self, layout: ImageLayout) -> ImageLayout {
        let marker = match self.bad_marks {
            None => layout.marker,
            Some(BadMarks::Ignore) => BadMarker::Ignore,
            Some(BadMarks::FirstPage) => BadMarker::Byte { offset: layout.marker_byte(), pages: 1 },
            Some(BadMarks::LastPage) => BadMarker::LastPage,
            Some(BadMarks::Byte(offset)) => BadMarker::Byte { offset, pages: 2 },
        };
        let missing = match self.missing_blocks.as_slice() {
            [] => layout.missing,
            known => known.to_vec(),
        };
        let fits = |ecc: &Arc<OobLayout>| {
            layout.oob != OobPlacement::None && (ecc.page_size(), ecc.oob_size()) == (layout.page_size, layout.oob_size)
        };
        let ecc = match &self.oob_layout {
            OobLayoutChoice::Known(ecc) => Some(ecc).filter(|ecc| fits(ecc)).cloned(),
            _ => None,
        };
        ImageLayout { marker, missing, ecc, ..layout }
    }
}

/// Options for changing an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeOptions {
    /// Compression of new data, for formats that compress: `none`, `zlib`, `lzo`, `rtime`,
    /// `priority` (Linux's order) or `size` (the smallest result). `None` for zlib, which every
    /// kernel with JFFS2 reads unless it was configured without it.
    pub compression: Option<String>,
    /// The current time, for the time stamps of changes.
    pub now: Timestamp,
    /// Whether the file is locked and may be replaced; otherwise the changes are only tried.
    pub for_good: bool,
}
