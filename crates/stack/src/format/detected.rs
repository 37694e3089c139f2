//! Types of format detection: what a format is asked about, and what it answers.

use nandkit_flash_image::{Image, ImageLayout};
use nandkit_vfs::probe::{Depth, Fit, Likeness};

use super::{ByteOrder, Format, OpenOptions};

/// A range of data bytes: the first, and their number; `None` means up to the end.
pub type Within = (u64, Option<u64>);

/// A part of an image that a format is asked about.
pub struct View<'a> {
    /// The image.
    pub image: &'a Image,
    /// The part.
    pub within: Within,
    /// What the caller knows about the image.
    pub options: &'a OpenOptions,
    /// How thoroughly to search.
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

/// A possible format of an image or a region, with its evidence, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The format's name: `fat`.
    pub format: &'static str,
    /// Likelihood: up to 1000 points for the format, and up to 200 more for the layout.
    pub points: u32,
    /// The evidence, a sentence each.
    pub why: Vec<String>,
    /// Consequences for opening it, a sentence each.
    pub notes: Vec<String>,
    /// The layout in words.
    pub layout: String,
    /// Erase size in bytes without OOB; 0 for formats without erase blocks.
    pub erase_size: u32,
    /// All erase sizes that fit the content, the most likely first; a single one if the content
    /// proves it.
    pub erase_sizes: Vec<u32>,
    /// NAND page size in bytes without OOB; 0 if there are no pages.
    pub page_size: u32,
    /// OOB bytes per page in the dump.
    pub oob_size: u32,
    /// Byte order of numbers, for formats with two.
    pub byte_order: Option<ByteOrder>,
}

impl Detection {
    /// The properties by which placements differ.
    pub(crate) fn describes(&self) -> (&'static str, u32, u32, bool) {
        (self.format, self.page_size, self.oob_size, self.layout.ends_with("after each block"))
    }

    /// The detection in a line.
    pub fn text(&self) -> String {
        let notes = if self.notes.is_empty() { String::new() } else { format!("; {}", self.notes.join(", ")) };
        format!("{}, {}{notes}", self.format, self.layout)
    }
}

/// Bytes after a volume that partitioning may leave over: the blank rest of an alignment, or the
/// rest of a track with any content.
const BEHIND_VOLUME: usize = 1 << 20;
const TRACK: usize = 63 * 512;

/// Whether the bytes after a volume on blocks are left over by partitioning, so that the volume is
/// the whole image.
pub(super) fn is_left_over(behind: &[u8]) -> bool {
    let is_blank = || nandkit_units::is_erased(behind) || nandkit_units::is_zeroed(behind);
    behind.len() < TRACK || behind.len() < BEHIND_VOLUME && is_blank()
}

/// What a format claims about an image in addition to being detected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claims {
    /// The volume is the whole image, so that its content is not searched for regions: it may be a
    /// terabyte.
    pub whole_image: bool,
    /// The part holds no flash content, so that formats on flash are not tried.
    pub ends_search: bool,
    /// The part holds several volumes of the format, none of which fills it.
    pub several: bool,
    /// The image begins with something else, so that the volume cannot fill it.
    pub begins_otherwise: bool,
}

/// A detected format and layout, by which a part of an image can be opened.
#[derive(Clone, Debug)]
pub struct DetectedFormat {
    /// The format.
    pub format: &'static dyn Format,
    /// The layout, with the position of the part.
    pub layout: ImageLayout,
    /// The format's own points.
    pub score: u32,
    /// How its erase size fits.
    pub fit: Fit,
    /// Further claims about the image.
    pub claims: Claims,
    /// Doubts about its borders, a sentence each.
    pub doubts: Vec<String>,
    /// Bytes of the part that are not blank and do not belong to it, a sentence each.
    pub left_out: Vec<String>,
    /// The detection for reports.
    pub detection: Detection,
}

impl DetectedFormat {
    /// A volume on sectors, without erase blocks and pages.
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
