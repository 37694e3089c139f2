//! Detecting layouts: the plausible ones, ranked by the file's length and its marks only, with the
//! evidence. The content is judged where formats are known.

use nandkit_units::{BlockIndex, FlashGeometry};

use crate::layout::{ImageLayout, OobPlacement};
use crate::oob;

pub use nandkit_units::ByteOrder;

/// A plausible layout, before any format is considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The layout.
    pub layout: ImageLayout,
    /// 0 to 200: how well the file's length and the positions of bad-block marks fit.
    pub points: u32,
    /// The evidence for it.
    pub evidence: Vec<String>,
}

/// Pages of chips in use: data bytes, OOB bytes, and the block sizes that occur with them. Sources:
/// the tables and ID decoders of Linux (`drivers/mtd/nand/raw/nand_ids.c`, `nand_samsung.c`,
/// `nand_hynix.c`, `nand_toshiba.c`), the manufacturers' data sheets.
const NAND_PAGES: [(u32, &[u32], &[u32]); 5] = [
    (512, &[16], &[16 << 10]),
    (2048, &[64, 112, 128], &[128 << 10, 256 << 10]),
    (4096, &[128, 218, 224, 232, 256], &[256 << 10, 512 << 10, 1 << 20]),
    (8192, &[436, 448, 512, 640, 744], &[1 << 20, 2 << 20]),
    (16_384, &[1280, 1664, 1872, 2208], &[2 << 20, 4 << 20]),
];

/// Erase sizes of NOR, and of anything dumped without OOB: serial NOR has 4, 32 and 64 KiB,
/// parallel NOR 64 to 256 KiB (also several chips in parallel).
const PLAIN_BLOCKS: [u32; 9] =
    [64 << 10, 128 << 10, 4 << 10, 256 << 10, 32 << 10, 16 << 10, 8 << 10, 512 << 10, 1 << 20];

/// Most pages examined to judge a layout.
const SAMPLED_PAGES: u64 = 256;

/// The plausible layouts of an image, the most common first: without OOB for every erase size from
/// 4 KiB to 1 MiB, NAND without OOB for the usual pages, and with OOB after each page. Cost: at
/// most 256 pages for each of about forty layouts, whatever the size of the image.
pub fn candidates(bytes: &[u8]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = PLAIN_BLOCKS.iter().map(|&block| judge(bytes, ImageLayout::nor(block))).collect();
    for (page, _, blocks) in NAND_PAGES {
        found.extend(blocks.iter().map(|&block| judge(bytes, ImageLayout::nand(block, page))));
    }
    for (page, oobs, blocks) in NAND_PAGES {
        for &oob in oobs {
            found.extend(blocks.iter().map(|&block| judge(bytes, ImageLayout::nand_oob(block, page, oob))));
        }
    }
    found.retain(|candidate| bytes.len() as u64 >= candidate.layout.stored_page());
    found
}

/// The pages in use, as data and OOB bytes.
pub fn pages() -> impl Iterator<Item = (u32, u32)> {
    NAND_PAGES.into_iter().flat_map(|(page, oobs, _)| oobs.iter().map(move |oob| (page, *oob)))
}

/// Judges a layout: how well the length of an image, and its marks, fit. Cost: at most 256 pages
/// examined.
pub fn judge(bytes: &[u8], layout: ImageLayout) -> Candidate {
    let (mut points, mut evidence) = (0, Vec::new());
    let length = bytes.len() as u64;
    if length.is_multiple_of(layout.stored_block()) {
        // A length that is a multiple of 2112 * 64 says a lot, a multiple of a power of two nearly
        // nothing.
        points += if layout.oob == OobPlacement::None { 10 } else { 60 };
        let blocks = length / layout.stored_block();
        evidence.push(format!("the file is {blocks} whole blocks of {} bytes", layout.stored_block()));
    }
    let offset = usize::try_from(layout.offset).unwrap_or(usize::MAX);
    if let Some(found) = layout.ecc.as_ref().map(|ecc| oob::try_layout(bytes, offset, ecc)) {
        points += (140 * u64::from(found.right) / u64::from(found.tried.max(1))) as u32;
        evidence.push(format!(
            "{} of {} sampled code words are right, or can be corrected, by the OOB layout {}",
            found.right,
            found.tried,
            found.layout.name()
        ));
    } else if layout.oob == OobPlacement::AfterPage {
        let marks = Marks::look(bytes, &layout);
        points += marks.points();
        if marks.points() > 0 {
            evidence.push(format!(
                "the bad-block mark of {} of {} sampled programmed pages is 0xFF, the data byte before it of {}",
                marks.erased, marks.sampled, marks.erased_before
            ));
        }
    }
    Candidate { layout, points, evidence }
}

/// Whether the bytes at the positions of marks look like marks: 0xFF although the page is
/// programmed, while their neighbours are not.
#[derive(Default)]
struct Marks {
    sampled: u64,
    erased: u64,
    erased_before: u64,
}

impl Marks {
    fn look(bytes: &[u8], layout: &ImageLayout) -> Self {
        let stored = layout.stored_page() as usize;
        let pages = (bytes.len() / stored.max(1)) as u64;
        let mut marks = Self::default();
        for sample in 0..pages.min(SAMPLED_PAGES) {
            let page = (sample * pages / pages.min(SAMPLED_PAGES)) as usize;
            let Some(bytes) = bytes.get(page * stored..(page + 1) * stored) else { continue };
            let (data, oob) = bytes.split_at(layout.page_size as usize);
            // The end of a page is often padding: a page counts as programmed if its last bytes
            // are.
            let Some(tail) = data.get(data.len().saturating_sub(16)..).filter(|tail| !nandkit_units::is_erased(tail))
            else {
                continue;
            };
            marks.sampled += 1;
            marks.erased += u64::from(oob.get(layout.marker_byte() as usize) == Some(&0xFF));
            marks.erased_before += u64::from(tail.last() == Some(&0xFF));
        }
        marks
    }

    fn points(&self) -> u32 {
        if self.sampled < 8 {
            return 0;
        }
        (140 * self.erased.saturating_sub(self.erased_before) / self.sampled) as u32
    }
}

/// The layouts ranked by themselves, for an image without a known format: the best first.
pub fn by_layout(candidates: &[Candidate]) -> Vec<&Candidate> {
    let mut ranked: Vec<&Candidate> = candidates.iter().collect();
    ranked.sort_by_key(|candidate| std::cmp::Reverse(candidate.points));
    ranked
}

/// At most `most` blocks, spread evenly over the device, in ascending order and including the
/// first.
pub fn sample_blocks(geometry: &FlashGeometry, most: u32) -> impl Iterator<Item = BlockIndex> + use<> {
    let blocks = u64::from(geometry.blocks);
    let count = u64::from(most).min(blocks);
    (0..count).map(move |sample| BlockIndex((sample * blocks / count) as u32))
}
