//! Which layout a dump has: the one by which its code words are right.

use std::sync::Arc;

use super::layout::OobLayout;
use super::page::CodewordState;

/// Programmed pages that are tried for each layout.
const PAGES_TRIED: usize = 32;
/// Pages looked at to find them.
const PAGES_SEEN: u64 = 2048;
/// A layout that is right has at least so many code words of which chance makes none right.
const RIGHT_MIN: u32 = 4;
/// Codes that correct so many bits correct no word by chance.
const STRONG_FROM: u32 = 4;
/// A layout of which none of so many code words is right is given up.
const GIVEN_UP: u32 = 16;

/// How a dump fits a layout, by a sample of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutMatch {
    /// The layout.
    pub layout: Arc<OobLayout>,
    /// Code words that were tried: programmed, and not of one byte value alone, since every code
    /// has those.
    pub tried: u32,
    /// Those that are right, or right but for as many bits as the code corrects.
    pub right: u32,
    /// Those that chance does not make: of a code that corrects few bits, the ones without a wrong
    /// bit.
    certain: u32,
}

impl LayoutMatch {
    /// Whether the code words speak for the layout: half of them, and four of which chance makes
    /// none. By chance one of 2^22 is right by the weakest code, but one of 2000 seems corrected,
    /// and of sparse data, as tables of a file system are, many more.
    pub fn is_sure(&self) -> bool {
        self.certain >= RIGHT_MIN && 2 * self.right >= self.tried
    }
}

/// The layout of a dump with each page's OOB after its data, from its first page at `offset` on;
/// `None` where no code words speak for one. Cost: a look at 2048 pages, and 32 decoded by each
/// layout.
pub fn find<'a>(
    bytes: &[u8],
    offset: usize,
    layouts: impl IntoIterator<Item = &'a Arc<OobLayout>>,
) -> Option<LayoutMatch> {
    let tried = layouts.into_iter().map(|layout| try_layout(bytes, offset, layout));
    // Of several, the one with the strongest code that explains as much: a weak one may lie inside.
    tried.filter(LayoutMatch::is_sure).max_by_key(|found| {
        (u64::from(found.right) * 1000 / u64::from(found.tried.max(1)), found.layout.correctable(), found.right)
    })
}

/// How a dump fits a layout. Blocks that are marked bad count only where nothing else does: what
/// they hold may be noise.
pub fn try_layout(bytes: &[u8], offset: usize, layout: &Arc<OobLayout>) -> LayoutMatch {
    let bytes = bytes.get(offset..).unwrap_or(&[]);
    let good = try_pages(bytes, layout, |page| !is_in_bad_block(bytes, layout, page));
    if good.tried > 0 { good } else { try_pages(bytes, layout, |_| true) }
}

/// Whether the first page of a page's block is marked bad, by this layout. Blocks have 32 small
/// pages or 64 large ones, as most parts have them.
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
                // Even data, a counter say, have an erased ECC by a Hamming code, and so has a dump
                // in which nobody wrote one.
                let bits = told.bits().filter(|_| !layout.has_erased_ecc(number, raw));
                found.right += u32::from(bits.is_some());
                let is_strong = layout.correctable() >= STRONG_FROM;
                found.certain += u32::from(bits.is_some_and(|bits| bits == 0 || is_strong));
            }
        }
    }
}

/// Whether nearly all bytes are of one value: then the ECC of many a code is as plain.
fn is_plain(message: &[u8]) -> bool {
    let first = message.get(message.len() / 2);
    message.iter().filter(|byte| Some(*byte) != first).count() < 8
}
