//! Detecting the layout of a dump: the one for which its code words are valid.

use std::sync::Arc;

use super::layout::OobLayout;
use super::page::CodewordState;

/// Programmed pages tried for each layout.
const PAGES_TRIED: usize = 32;
/// Pages examined to find them.
const PAGES_SEEN: u64 = 2048;
/// A matching layout has at least this many valid code words that cannot be due to chance.
const RIGHT_MIN: u32 = 4;
/// Codes that correct at least this many bits make no word valid by chance.
const STRONG_FROM: u32 = 4;
/// A layout is given up if none of this many code words is valid.
const GIVEN_UP: u32 = 16;

/// How well a dump fits a layout, judged by a sample of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutMatch {
    /// The layout.
    pub layout: Arc<OobLayout>,
    /// Code words tried: programmed ones, except those of a single byte value, which every code
    /// accepts.
    pub tried: u32,
    /// Valid code words, including correctable ones.
    pub right: u32,
    /// Valid code words that cannot be due to chance: for a weak code, only those without wrong
    /// bits.
    certain: u32,
}

impl LayoutMatch {
    /// Whether the code words prove the layout: half of them are valid, including four that cannot
    /// be due to chance. By chance, one of 2^22 is valid by the weakest code, but one of 2000 seems
    /// corrected, and many more in sparse data such as file-system tables.
    pub fn is_sure(&self) -> bool {
        self.certain >= RIGHT_MIN && 2 * self.right >= self.tried
    }
}

/// The layout of a dump with OOB after each page, whose first page is at `offset`; `None` if no
/// layout is proven by its code words. Cost: examines 2048 pages, and decodes 32 of them with each
/// layout.
pub fn find<'a>(
    bytes: &[u8],
    offset: usize,
    layouts: impl IntoIterator<Item = &'a Arc<OobLayout>>,
) -> Option<LayoutMatch> {
    let tried = layouts.into_iter().map(|layout| try_layout(bytes, offset, layout));
    // Of several, take the strongest code that explains equally much: a weaker one may be contained
    // in it.
    tried.filter(LayoutMatch::is_sure).max_by_key(|found| {
        (u64::from(found.right) * 1000 / u64::from(found.tried.max(1)), found.layout.correctable(), found.right)
    })
}

/// How well a dump fits a layout. Blocks marked bad count only if there are no others: their
/// content may be noise.
pub fn try_layout(bytes: &[u8], offset: usize, layout: &Arc<OobLayout>) -> LayoutMatch {
    let bytes = bytes.get(offset..).unwrap_or(&[]);
    let good = try_pages(bytes, layout, |page| !is_in_bad_block(bytes, layout, page));
    if good.tried > 0 { good } else { try_pages(bytes, layout, |_| true) }
}

/// Whether the first page of a page's block is marked bad according to this layout. Assumes 32
/// small pages or 64 large ones per block, as in most chips.
fn is_in_bad_block(bytes: &[u8], layout: &OobLayout, page: usize) -> bool {
    let (mark, block_pages) = if layout.page_size() <= 512 { (5, 32) } else { (0, 64) };
    let (first, stored) = (page - page % block_pages, layout.raw_bytes());
    let raw = bytes.get(first * stored..(first + 1) * stored).unwrap_or(&[]);
    layout.oob_byte(raw, mark).is_some_and(|byte| byte != 0xFF)
}

fn try_pages(bytes: &[u8], layout: &Arc<OobLayout>, counts: impl Fn(usize) -> bool) -> LayoutMatch {
    let mut found = LayoutMatch { layout: Arc::clone(layout), tried: 0, right: 0, certain: 0 };
    let stored = layout.raw_bytes();
    let pages = (bytes.len() / stored) as u64;
    let mut decoded = 0;
    for sample in 0..pages.min(PAGES_SEEN) {
        let page = (sample * pages / pages.min(PAGES_SEEN)) as usize;
        let Some(raw) = bytes.get(page * stored..(page + 1) * stored) else { continue };
        if nandkit_units::is_erased(raw) || !counts(page) {
            continue;
        }
        count(layout, raw, &mut found);
        decoded += 1;
        if decoded >= PAGES_TRIED || found.right == 0 && found.tried >= GIVEN_UP {
            break;
        }
    }
    found
}

fn count(layout: &OobLayout, raw: &[u8], found: &mut LayoutMatch) {
    let states = layout.decode(raw).codewords;
    for (number, state) in states.into_iter().enumerate() {
        let (message, _) = layout.gather(number, raw);
        if is_plain(&message) {
            continue;
        }
        match state {
            CodewordState::Erased(_) => {}
            CodewordState::Programmed(told) => {
                found.tried += 1;
                // Regular data, such as a counter, have an erased ECC in a Hamming code, as does a
                // dump without ECC.
                let bits = told.bits().filter(|_| !layout.has_erased_ecc(number, raw));
                found.right += u32::from(bits.is_some());
                let is_strong = layout.correctable() >= STRONG_FROM;
                found.certain += u32::from(bits.is_some_and(|bits| bits == 0 || is_strong));
            }
        }
    }
}

/// Whether nearly all bytes have one value: then the ECC of many codes is uniform too.
fn is_plain(message: &[u8]) -> bool {
    let first = message.get(message.len() / 2);
    message.iter().filter(|byte| Some(*byte) != first).count() < 8
}
