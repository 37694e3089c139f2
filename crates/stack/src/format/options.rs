//! Which part of an image is meant, and how its bytes lie.

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

/// Which part of an image is to be opened, and what is known of it that detection need not find
/// out. The default leaves all to detection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// A region's name, or its number in the list of regions.
    pub region: Option<String>,
    /// First data byte of the part (OOB not counted).
    pub offset: Option<u64>,
    /// Data bytes of the part.
    pub size: Option<u64>,
    /// Data bytes of an erase block.
    pub erase_size: Option<u32>,
    /// Data bytes of a NAND page.
    pub page_size: Option<u32>,
    /// OOB bytes that follow each page in the image; 0 for none.
    pub oob_size: Option<u32>,
    /// Where pages keep data, ECC and OOB.
    pub oob_layout: OobLayoutChoice,
    /// Which bytes of the OOB mark bad blocks; `None`: those of the convention, where whole content
    /// does not outweigh them.
    pub bad_marks: Option<BadMarks>,
    /// Erase blocks that the dump leaves out, as `nanddump --bb=skipbad` does with bad ones:
    /// counted from the flash's beginning. Needs
    /// `erase_size`.
    pub missing_blocks: Vec<u32>,
    /// The order of bytes in numbers.
    pub byte_order: Option<ByteOrder>,
    /// The code page of short names: only FAT has it.
    pub code_page: CodePage,
    /// Scan every node although the image holds summaries.
    pub no_summaries: bool,
    /// The files of all devices but the first of a volume that lies on several, in the order in
    /// which its superblock names them: only F2FS has that.
    pub devices: Vec<PathBuf>,
    /// Further files of the same image: the other parts of a split Android sparse image in any
    /// order, else what follows the first file, in order.
    pub join: Vec<PathBuf>,
    /// In which units the bytes of the dump are swapped.
    pub swap: Option<Swap>,
    /// A file with changes that are laid over the image.
    pub overlay: Option<PathBuf>,
    /// Show an F2FS volume as its last checkpoint has it, without what was fsynced behind it.
    pub no_recovery: bool,
    /// So many bytes of the image's file stay in this process's memory at the most: for who has an
    /// image open for long. Without it, as many as were read.
    pub resident_max: Option<u64>,
}

impl OpenOptions {
    /// The key of the first option given that says something about a dump of flash, which a chip of
    /// nandkit's knows itself.
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

/// Where the pages of a dump keep data, ECC and OOB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OobLayoutChoice {
    /// By the shipped layout by which the code words of the dump are right; as they stand in the
    /// dump where none is.
    #[default]
    Detect,
    /// As they stand in the dump: nothing is corrected.
    AsStored,
    /// By the shipped layout of this name, or by that in the TOML file of this path.
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
    /// None: what stands there is something else.
    Ignore,
    /// The convention's byte of the first page.
    FirstPage,
    /// The convention's byte of the last page.
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
    /// The two bytes of each 16 bits.
    Bits16,
    /// The four bytes of each 32 bits are in the reverse order.
    Bits32,
}

impl Swap {
    pub(crate) const ALL: [Self; 2] = [Self::Bits16, Self::Bits32];

    /// Bits of the unit.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bits16 => 16,
            Self::Bits32 => 32,
        }
    }

    /// A command that puts the bytes right.
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
    /// A layout with what the options know of its blocks.
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

/// How an image is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeOptions {
    /// How new data are compressed, in formats that compress: `none`, `zlib`, `lzo`, `rtime`,
    /// `priority` (Linux's order) or `size` (the smallest). `None` for zlib, which every kernel
    /// with JFFS2 reads unless it was configured not to.
    pub compression: Option<String>,
    /// The present: the time of what is made or changed.
    pub now: Timestamp,
    /// Whether the file is locked and may be replaced; else the changes are only tried.
    pub for_good: bool,
}
