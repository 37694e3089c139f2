//! What a part of an image may be: what formats are asked, and what they answer.

use nandkit_flash_image::{Image, ImageLayout};
use nandkit_vfs::probe::{Depth, Fit, Likeness};

use super::{ByteOrder, Format, OpenOptions};

/// A stretch of data bytes: first, and how many; all the rest without a number.
pub type Within = (u64, Option<u64>);

/// A part of an image that a format is asked about.
pub struct View<'a> {
    /// The image.
    pub image: &'a Image,
    /// The part.
    pub within: Within,
    /// What the caller knows of the image.
    pub options: &'a OpenOptions,
    /// How much is to be looked through.
    pub depth: Depth,
}

impl<'a> View<'a> {
    /// The bytes of the part, by this layout.
    pub(crate) fn bytes(&self, layout: &ImageLayout) -> Option<&'a [u8]> {
        let bytes = self.image.bytes().get(usize::try_from(layout.offset).ok()?..)?;
        let length =
            layout.size.map_or(bytes.len(), |size| usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len()));
        bytes.get(..length)
    }
}

/// What an image, or a region of one, may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The format's name: `fat`.
    pub format: &'static str,
    /// How likely: of 1000 for the format, and up to 200 more for the layout.
    pub points: u32,
    /// What speaks for it, a sentence each.
    pub why: Vec<String>,
    /// What follows for opening it, a sentence each.
    pub notes: Vec<String>,
    /// The layout in words.
    pub layout: String,
    /// Data bytes of an erase block; 0 where the format knows none.
    pub erase_size: u32,
    /// All erase sizes that the content fits, the likeliest first: one where the content proves it.
    pub erase_sizes: Vec<u32>,
    /// Data bytes of a NAND page; 0 where there are none.
    pub page_size: u32,
    /// OOB bytes of a page in the dump.
    pub oob_size: u32,
    /// The order of bytes in numbers, where the format has two.
    pub byte_order: Option<ByteOrder>,
}

impl Detection {
    /// What tells placements apart.
    pub(crate) fn describes(&self) -> (&'static str, u32, u32, bool) {
        (self.format, self.page_size, self.oob_size, self.layout.ends_with("after each block"))
    }

    /// The detection in a line.
    pub fn text(&self) -> String {
        let notes = if self.notes.is_empty() { String::new() } else { format!("; {}", self.notes.join(", ")) };
        format!("{}, {}{notes}", self.format, self.layout)
    }
}

/// Bytes behind a volume that partitioning leaves over: the rest of an alignment, which is blank,
/// or of a track, whatever it holds.
const BEHIND_VOLUME: usize = 1 << 20;
const TRACK: usize = 63 * 512;

/// Whether what stands behind a volume on blocks is what partitioning leaves over, so that the
/// volume is the whole image.
pub(super) fn is_left_over(behind: &[u8]) -> bool {
    let is_blank = || nandkit_units::is_erased(behind) || nandkit_units::is_zeroed(behind);
    behind.len() < TRACK || behind.len() < BEHIND_VOLUME && is_blank()
}

/// What a format claims of the image beside being found in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claims {
    /// The volume is the whole image: what its files hold is nobody's region, and is not read, a
    /// terabyte perhaps.
    pub whole_image: bool,
    /// What stands in its files is no flash, so that no format on flash is looked for in the part.
    pub ends_search: bool,
    /// The part holds several volumes of the format, none of which is the whole of it.
    pub several: bool,
    /// The image begins with something else, so that the volume cannot be the whole of it.
    pub begins_otherwise: bool,
}

/// A format and a layout by which a part of an image can be opened.
#[derive(Clone, Debug)]
pub struct DetectedFormat {
    /// The format.
    pub format: &'static dyn Format,
    /// The layout, the part's place included.
    pub layout: ImageLayout,
    /// The format's own points.
    pub score: u32,
    /// How its erase size fits.
    pub fit: Fit,
    /// What it claims beside.
    pub claims: Claims,
    /// What is not proven of its ends, a sentence each.
    pub doubts: Vec<String>,
    /// What of the part is not its own, though it is not blank: a sentence each.
    pub left_out: Vec<String>,
    /// The same for people.
    pub detection: Detection,
}

impl DetectedFormat {
    /// A volume on sectors, which knows neither erase blocks nor pages.
    pub(crate) fn on_blocks(
        format: &'static dyn Format,
        likeness: Likeness,
        layout: ImageLayout,
        described: String,
    ) -> Self {
        let detection = Detection {
            format: format.name(),
            points: likeness.points,
            why: likeness.evidence,
            notes: Vec::new(),
            layout: described,
            erase_size: 0,
            erase_sizes: Vec::new(),
            page_size: 0,
            oob_size: 0,
            byte_order: None,
        };
        let fit = likeness.layout.erase_size_fit;
        Self {
            format,
            layout,
            score: likeness.points,
            fit,
            claims: Claims::default(),
            doubts: Vec::new(),
            left_out: Vec::new(),
            detection,
        }
    }
}
