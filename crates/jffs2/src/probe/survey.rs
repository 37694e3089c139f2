//! Surveying a dump for evidence of JFFS2's erase blocks of any size, in one pass from node to
//! node.
//!
//! Facts used: nodes never cross the end of an erase block, cleanmarkers are only at its beginning,
//! free flash is only at its end, and the last eight bytes of a summary give its offset in the
//! block (fs/jffs2/nodelist.h, scan.c, summary.h of Linux; mkfs.jffs2 of mtd-utils pads a block
//! with 0xFF if the next node does not fit).

use std::ops::Range;

use nandkit_flash::{Look, PageRead};
use nandkit_units::{BlockIndex, Context, is_erased};
use nandkit_vfs::probe::Depth;

use super::{ERASE_SIZE_MIN, any_node, stored_length};
use crate::layout::{
    ACCURATE, ByteOrder as Order, Header, INODE_SIZE, Inode, SUMMARY_MAGIC, SUMMARY_MARKER_SIZE, SUMMARY_SIZE, crc,
    node_type,
};
use crate::medium::{Cleanmarker, OOB_CLEANMARKER_SIZE, oob_cleanmarker};

/// Largest erase size tried, unless the image implies a larger one.
const ERASE_SIZE_MAX: u32 = 4 << 20;
/// Images up to this many bytes are surveyed completely.
const WHOLE_MAX: u64 = 64 << 20;
/// Number of sections surveyed in longer images, each a multiple of every erase size.
const STRETCHES: u64 = 16;
const STRETCH: u64 = ERASE_SIZE_MAX as u64;
/// Bytes per section at a glance.
const GLANCE: u64 = 64 << 10;
/// Bytes held in memory.
const HELD: usize = 256 << 10;
/// This many bytes of 0xFF end a stretch without nodes: file contents have shorter runs.
const BLANK_MIN: usize = 64;
/// Longest zero padding of a page whose rest has no space for a padding node.
const FILLER: u64 = 12;
/// Evidence in bits of a node ending at a given position: one in 32 by chance, for the shortest
/// nodes.
const NODE_BITS: u32 = 5;
/// Evidence in bits of padding or free flash ending at a given page boundary: one in 8 by chance.
const FILLED_BITS: u32 = 3;
/// Most facts of a kind that are kept; more would prove nothing else.
const REMEMBERED: usize = 1 << 16;

/// Counter-evidence for blocks of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Against {
    /// Nodes with a valid header that would cross the end of a block.
    pub(super) crossings: u32,
    /// Free flash inside a block with nodes after it.
    pub(super) gaps: u32,
    /// Cleanmarkers inside a block.
    pub(super) markers: u32,
    /// Summaries that imply another size.
    pub(super) summaries: u32,
    /// Evidence for this size and against its double: block ends that the double does not have, at
    /// which the next node begins.
    pub(super) seams: u32,
    /// How improbable these would be inside blocks of the double size, in bits: see [`NODE_BITS`]
    /// and [`FILLED_BITS`].
    pub(super) seam_bits: u32,
}

impl Against {
    /// The weight of the counter-evidence. Free flash before a node counts half: a writer that
    /// continues in a block after a mount may start at the next page.
    pub(super) const fn weight(&self) -> u64 {
        2 * (self.crossings as u64 + self.markers as u64 + self.summaries as u64) + self.gaps as u64
    }
}

/// Facts about a stream of data bytes.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Number of nodes by byte order, as in [`Order::ALL`].
    pub(super) nodes: [u32; 2],
    /// Number of stretches that are neither nodes nor free.
    pub(super) breaks: u32,
    /// Their total length in bytes.
    pub(super) junk_bytes: u64,
    /// Total length of nodes in bytes.
    pub(super) node_bytes: u64,
    pub(super) summaries: u32,
    /// With OOB, the number of file nodes with valid and with invalid data: pages of 512+16 bytes
    /// and of 2048+64 bytes have most headers at the same positions.
    sound: u32,
    pub(super) unsound: u32,
    /// Sizes in bytes, with the counter-evidence for each.
    pub(super) sizes: Vec<(u32, Against)>,
    /// Offsets of cleanmarkers, in ascending order.
    pub(super) markers: Vec<u64>,
    /// Data offsets of pages with a cleanmarker in their OOB, in ascending order.
    pub(super) oob_markers: Vec<u64>,
    /// Erase sizes implied by summaries.
    pub(super) told: Vec<u32>,
    /// Ranges that are not free, in ascending order.
    used: Vec<(u64, u64)>,
    /// End of the surveyed part.
    pub(super) length: u64,
    /// Whether everything was surveyed.
    pub(super) whole: bool,
}

/// What precedes the current position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Unknown, in the middle of the dump: the bytes may be the rest of a node.
    Unknown,
    /// The beginning of the dump, or a node.
    Node,
    /// The padding of a page.
    Padding,
    /// Free flash after a node or padding.
    Free,
    Junk,
}

impl Survey {
    /// Surveys parts of a device, whose own erase size does not matter. `more` are sizes to judge
    /// in addition to the powers of two. Positions count from the device's beginning.
    pub(super) fn of(device: &dyn Look, parts: &[Range<u64>], depth: Depth, more: &[u32]) -> Self {
        let mut sizes: Vec<u32> = (ERASE_SIZE_MIN.ilog2()..=ERASE_SIZE_MAX.ilog2())
            .map(|power| 1 << power)
            .chain(more.iter().copied())
            .collect();
        sizes.retain(|size| *size > 0);
        sizes.sort_unstable();
        sizes.dedup();
        let capacity = device.geometry().capacity();
        let parts: Vec<Range<u64>> = parts.iter().map(|part| part.start..part.end.min(capacity)).collect();
        let length: u64 = parts.iter().map(|part| part.end.saturating_sub(part.start)).sum();
        let mut survey = Self {
            sizes: sizes.into_iter().map(|size| (size, Against::default())).collect(),
            length: parts.last().map_or(0, |part| part.end),
            ..Self::default()
        };
        let (step, stretch) = match depth {
            Depth::Thorough if length <= WHOLE_MAX => (length.max(1), length),
            Depth::Thorough => (stretch_step(length, STRETCH), STRETCH),
            Depth::Glance => (stretch_step(length, GLANCE), GLANCE),
        };
        survey.whole = stretch >= length;
        let mut held = Held::of(device);
        for part in &parts {
            let mut start = part.start;
            while start < part.end {
                let before = if start == part.start { Before::Node } else { Before::Unknown };
                survey.stretch(&mut held, start..start.saturating_add(stretch).min(part.end), before);
                survey.oob(device, start, start.saturating_add(stretch).min(part.end));
                start = start.saturating_add(step);
            }
        }
        survey
    }

    fn stretch(&mut self, held: &mut Held<'_>, Range { start, end }: Range<u64>, mut before: Before) {
        let mut at = start;
        while at < end {
            let bytes = held.from(at);
            if let Some((order, header)) = any_node(bytes) {
                match before {
                    Before::Free => self.gap(at),
                    Before::Node => self.seam(at, NODE_BITS),
                    Before::Padding => self.seam(at, FILLED_BITS),
                    Before::Unknown | Before::Junk => {}
                }
                self.node(held, at, order, &header);
                before = if header.node_type == node_type::PADDING { Before::Padding } else { Before::Node };
                at = at.saturating_add(stored_length(&header));
            } else if bytes.starts_with(&[0xFF; 4]) {
                at = held.end_of_erased(at);
                before = if matches!(before, Before::Node | Before::Padding) { Before::Free } else { before };
            } else if let zeroes @ 1..FILLER = zeroes(bytes) {
                at = at.saturating_add(zeroes.next_multiple_of(4));
                before = if before == Before::Node { Before::Padding } else { before };
            } else {
                let next = held.end_of_junk(at, end);
                if before != Before::Unknown {
                    self.breaks = self.breaks.saturating_add(1);
                    self.junk_bytes += next - at;
                }
                self.use_bytes(at, next);
                before = if before == Before::Unknown { before } else { Before::Junk };
                at = next;
            }
        }
    }

    fn node(&mut self, held: &mut Held<'_>, at: u64, order: Order, header: &Header) {
        let place = usize::from(order == Order::Big);
        if let Some(count) = self.nodes.get_mut(place) {
            *count = count.saturating_add(1);
        }
        let end = at.saturating_add(header.total_length.into());
        self.node_bytes += stored_length(header);
        self.use_bytes(at, at.saturating_add(stored_length(header)));
        let inside = end <= self.length;
        for (size, against) in self.sizes.iter_mut().filter(|_| inside) {
            let size = u64::from(*size);
            against.crossings = against.crossings.saturating_add(u32::from(at / size != (end - 1) / size));
        }
        // Linux marks a NOR block's cleanmarker as obsolete when it writes to the block.
        match header.node_type | ACCURATE {
            node_type::CLEANMARKER => {
                if self.markers.len() < REMEMBERED {
                    self.markers.push(at);
                }
                self.marker(at);
            }
            node_type::SUMMARY => self.summary(held, order, header, end),
            node_type::INODE if held.device.geometry().oob_size > 0 => {
                let sound = held.node(at, header.total_length).and_then(|bytes| has_sound_data(order, bytes));
                self.sound = self.sound.saturating_add(u32::from(sound == Some(true)));
                self.unsound = self.unsound.saturating_add(u32::from(sound == Some(false)));
            }
            _ => {}
        }
    }

    /// Records a cleanmarker, which is at the beginning of a block.
    fn marker(&mut self, at: u64) {
        for (_, against) in self.sizes.iter_mut().filter(|(size, _)| !at.is_multiple_of(u64::from(*size))) {
            against.markers = against.markers.saturating_add(1);
        }
    }

    /// Records a summary, which ends its block and gives its own offset in it.
    fn summary(&mut self, held: &mut Held<'_>, order: Order, header: &Header, end: u64) {
        self.summaries = self.summaries.saturating_add(1);
        let Some(place) = end.checked_sub(SUMMARY_MARKER_SIZE.into()).filter(|_| header.total_length > SUMMARY_SIZE)
        else {
            return;
        };
        let Some([o0, o1, o2, o3, m0, m1, m2, m3]) = held.from(place).first_chunk::<8>().copied() else { return };
        let size = order.u32([o0, o1, o2, o3]).saturating_add(header.total_length);
        if order.u32([m0, m1, m2, m3]) != SUMMARY_MAGIC
            || !(ERASE_SIZE_MIN..=1 << 26).contains(&size)
            || !end.is_multiple_of(size.into())
        {
            return;
        }
        if self.told.len() < REMEMBERED {
            self.told.push(size);
        }
        for (_, against) in self.sizes.iter_mut().filter(|(other, _)| *other != size) {
            against.summaries = against.summaries.saturating_add(1);
        }
    }

    /// Records a node after free flash: a block begins here, or a writer continued at a page.
    fn gap(&mut self, end: u64) {
        self.seam(end, FILLED_BITS);
        // A position that starts no block of any size proves nothing.
        if !self.sizes.iter().any(|(size, _)| end.is_multiple_of(u64::from(*size))) {
            return;
        }
        for (_, against) in self.sizes.iter_mut().filter(|(size, _)| !end.is_multiple_of(u64::from(*size))) {
            against.gaps = against.gaps.saturating_add(1);
        }
    }

    /// Records a node that begins where the previous one, and any padding after it, ended.
    fn seam(&mut self, at: u64, bits: u32) {
        for (_, against) in self.sizes.iter_mut().filter(|(size, _)| at % (2 * u64::from(*size)) == u64::from(*size)) {
            against.seams = against.seams.saturating_add(1);
            against.seam_bits = against.seam_bits.saturating_add(bits);
        }
    }

    fn use_bytes(&mut self, start: u64, end: u64) {
        if let Some((_, last)) = self.used.last_mut().filter(|(_, last)| start <= *last) {
            *last = end.max(*last);
        } else if self.used.len() < 16 * REMEMBERED {
            self.used.push((start, end));
        }
    }

    fn oob(&mut self, device: &dyn Look, start: u64, end: u64) {
        let geometry = device.geometry();
        let Cleanmarker::Oob { offset } = Cleanmarker::of_nand(geometry.page_size, geometry.oob_size) else { return };
        let markers = Order::ALL.map(oob_cleanmarker);
        let mut oob = vec![0xFF; geometry.oob_size as usize];
        let page_size = u64::from(geometry.page_size);
        for page in start / page_size..end / page_size {
            let block = u32::try_from(page / u64::from(geometry.pages_per_block)).unwrap_or(u32::MAX);
            let at = BlockIndex(block).page((page % u64::from(geometry.pages_per_block)) as u32);
            if device.read(&Context::default(), at, PageRead::oob(&mut oob)).is_err() || is_erased(&oob) {
                continue;
            }
            let marker = oob.get(offset as usize..).and_then(|rest| rest.first_chunk::<OOB_CLEANMARKER_SIZE>());
            let marked = marker.is_some_and(|marker| markers.contains(marker));
            if marked && self.oob_markers.len() < REMEMBERED {
                self.oob_markers.push(page * page_size);
                self.marker(page * page_size);
            }
        }
    }

    /// The share of consecutive nodes in everything that is not free, out of 1000.
    pub(super) fn quality(&self) -> u32 {
        let nodes: u64 = self.nodes.iter().map(|count| u64::from(*count)).sum();
        if nodes == 0 {
            return 0;
        }
        let chain = 1000 * nodes / (nodes + 8 * u64::from(self.breaks));
        let share = 1000 * self.node_bytes / (self.node_bytes + self.junk_bytes).max(1);
        let (sound, unsound) = (u64::from(self.sound), u64::from(self.unsound));
        let whole = if unsound == 0 { 1000 } else { 1000 * sound / (sound + unsound) };
        u32::try_from((chain * share / 1000 * whole / 1000).max(1)).unwrap_or(1000)
    }

    /// Whether every used block of this size begins at one of these positions; `false` if none is
    /// in use.
    pub(super) fn all_begin_at(&self, places: &[u64], size: u32) -> bool {
        let size = u64::from(size.max(1));
        let mut next = 0;
        let mut seen = false;
        for (start, end) in &self.used {
            let (first, last) = ((start / size).max(next), end.saturating_sub(1) / size);
            for block in first..=last {
                if places.binary_search(&(block * size)).is_err() {
                    return false;
                }
                seen = true;
            }
            next = next.max(last + 1);
        }
        seen
    }
}

/// The distance between the beginnings of sections.
fn stretch_step(length: u64, stretch: u64) -> u64 {
    (length / STRETCHES / stretch * stretch).max(stretch)
}

/// Whether the data of a file node match its checksum; `None` if it is no such node.
fn has_sound_data(order: Order, bytes: &[u8]) -> Option<bool> {
    let inode = Inode::decode(order, bytes)?;
    let data = bytes.get(INODE_SIZE as usize..)?.get(..inode.compressed_size as usize);
    Some(data.is_some_and(|data| crc(data) == inode.data_crc))
}

/// The number of leading zero bytes that may be page padding.
fn zeroes(bytes: &[u8]) -> u64 {
    bytes.iter().take(FILLER as usize).take_while(|byte| **byte == 0).count() as u64
}

/// The number of leading 0xFF bytes. Cost: a comparison at memory speed.
fn erased_run(bytes: &[u8]) -> usize {
    let mut whole = 0;
    for chunk in bytes.chunks_exact(512) {
        if !is_erased(chunk) {
            break;
        }
        whole += chunk.len();
    }
    let rest = bytes.get(whole..).unwrap_or(&[]);
    whole + rest.iter().position(|byte| *byte != 0xFF).unwrap_or(rest.len())
}

/// Offsets of words that may begin a node or free flash: the magic numbers in both byte orders, old
/// and new, or 0xFF. Cost: bytes without 0x19 and 0xFF, such as the zeroes of an empty file system,
/// are skipped at memory speed.
fn may_end_junk(words: &[[u8; 4]]) -> impl Iterator<Item = usize> {
    let (bytes, mut next) = (words.as_flattened(), 0);
    std::iter::from_fn(move || {
        loop {
            let number = (next + memchr::memchr2(0x19, 0xFF, bytes.get(next..)?)?) / 4;
            next = 4 * (number + 1);
            let word = u32::from_le_bytes(*words.get(number)?);
            if word == u32::MAX || matches!(word & 0xFFFF, 0x1985 | 0x1984 | 0x8519 | 0x8419) {
                return Some(4 * number);
            }
        }
    })
}

/// A window of a device's bytes.
pub(super) struct Held<'a> {
    device: &'a dyn Look,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Held<'a> {
    pub(super) const fn of(device: &'a dyn Look) -> Self {
        Self { device, start: 0, bytes: Vec::new() }
    }

    /// The bytes from `at` on: at least some hundred, 0xFF past the end.
    pub(super) fn from(&mut self, at: u64) -> &[u8] {
        let inside = at.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        let enough = inside.filter(|offset| offset + 2 * BLANK_MIN <= self.bytes.len());
        let offset = match enough {
            Some(offset) => offset,
            None => {
                self.bytes.resize(HELD, 0xFF);
                self.device.look_at(at, &mut self.bytes);
                self.start = at;
                0
            }
        };
        self.bytes.get(offset..).unwrap_or(&[])
    }

    /// All bytes of a node.
    pub(super) fn node(&mut self, at: u64, length: u32) -> Option<&[u8]> {
        let length = length as usize;
        if self.from(at).len() < length {
            // The window ends before the node does: read from the node on.
            self.bytes.clear();
        }
        self.from(at).get(..length)
    }

    fn end(&self) -> u64 {
        self.device.geometry().capacity()
    }

    /// The end of a run of whole words of 0xFF.
    pub(super) fn end_of_erased(&mut self, mut at: u64) -> u64 {
        let end = self.end();
        while at < end {
            let bytes = self.from(at);
            let (length, found) = (bytes.len(), erased_run(bytes));
            at += (found - found % 4) as u64;
            if found < length {
                break;
            }
        }
        at.min(end)
    }

    /// The beginning of the next node or free flash after other bytes.
    pub(super) fn end_of_junk(&mut self, at: u64, end: u64) -> u64 {
        let mut next = at + 4;
        while next < end {
            let bytes = self.from(next);
            // Search the window at once; its end is searched again with the following bytes.
            let count = (bytes.len().saturating_sub(2 * BLANK_MIN) + 4).div_ceil(4);
            let words = bytes.as_chunks::<4>().0;
            let words = words.get(..count).unwrap_or(words);
            let is_end = |place: &usize| {
                let rest = bytes.get(*place..).unwrap_or(&[]);
                match rest.first() {
                    Some(0xFF) => is_erased(rest.get(..BLANK_MIN).unwrap_or(rest)),
                    _ => any_node(rest).is_some(),
                }
            };
            // Words first: few words in other data can begin a node.
            if let Some(place) = may_end_junk(words).find(is_end) {
                return (next + place as u64).min(end);
            }
            next += 4 * count as u64;
        }
        end
    }
}
