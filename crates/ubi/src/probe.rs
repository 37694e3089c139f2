//! Recognition of UBI: where devices stand in a dump, and the size of their PEBs. Nothing on flash
//! says that size, but every PEB begins with an erase counter header.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use nandkit_flash::{Flash, Look, PageRead};
use nandkit_units::{BlockIndex, Context, is_erased};
use nandkit_vfs::probe::{Depth, Fit, Layout, Likeness, SURE};

use crate::layout::{Decoded, EC_MAGIC, EcHeader, HEADER_SIZE, LAYOUT_VOLUME, VidHeader};

/// The smallest PEB in bytes.
pub const PEB_SIZE_MIN: u32 = 1 << 10;
/// The largest PEB in bytes that is tried.
pub const PEB_SIZE_MAX: u32 = 8 << 20;
/// The smallest page of NAND in bytes.
const PAGE_SIZE_MIN: u32 = 512;
/// The distance at which headers are looked for.
const STEP: usize = 512;
/// Bytes of a dump in which the first header is looked for: more than raw flash has.
const SEARCHED_MAX: u64 = 4 << 30;
/// Bytes that a quick look searches.
const GLANCE: u64 = 16 << 20;
/// Headers that are enough to know the size of PEBs.
const HEADERS_MAX: usize = 256;
/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;
/// Blocks in a row that are neither PEBs nor blank, within one device: damaged or bad ones.
const DAMAGED_MAX: u32 = 64;
/// PEBs that are looked at to tell the border of two devices from a block left of an older image.
const BORDER: u32 = 8;
/// Most devices of one dump.
const DEVICES_MAX: usize = 64;

/// A UBI device in a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Its bytes: from its first PEB to its last one, and the blank blocks behind it.
    pub range: Range<u64>,
    /// Bytes per PEB.
    pub peb_size: u32,
    /// Where identifier headers lie.
    pub vid_offset: u32,
    /// Where data lie.
    pub data_offset: u32,
    /// Its blocks.
    pub blocks: BlockCounts,
}

/// Blocks of one size, by what stands at the places of headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Blocks whose first bytes are not erased.
    pub used: u32,
    /// Blocks that begin with an erase counter header with the device's offsets.
    pub headed: u32,
    /// Blocks with a valid identifier header in its place.
    pub identified: u32,
    /// Blocks with either header, or both.
    pub known: u32,
    /// Of `headed`: blocks whose identifier header is neither valid nor blank.
    pub contradicted: u32,
}

impl BlockCounts {
    /// Whether a size fits beyond doubt: more than chance, and most blocks.
    fn is_good(&self) -> bool {
        self.headed >= 2 && self.identified > 0 && self.known > self.used / 2
    }

    /// How well a size fits: the more headers, and the fewer blocks without one, the better. Where
    /// the first headers of every second block are damaged, the second headers tell.
    fn quality(&self) -> u64 {
        let proof = u64::from(self.headed) + u64::from(self.identified);
        let against = u64::from(self.used) + u64::from(self.contradicted);
        1000 * proof * u64::from(self.known) / against.max(1)
    }
}

impl Survey {
    /// The sizes of a page that headers allow, the likeliest first: they lie in a page each, or in
    /// parts of one. None on NOR, where headers follow each other.
    pub fn page_sizes(&self) -> impl Iterator<Item = u32> {
        let own_pages = (self.data_offset == 2 * self.vid_offset).then_some(self.vid_offset);
        let sizes = own_pages.into_iter().chain([self.data_offset]);
        sizes.filter(|size| *size >= PAGE_SIZE_MIN && size.is_power_of_two())
    }

    /// How likely these bytes are UBI.
    pub fn likeness(&self) -> Likeness {
        let BlockCounts { used, headed, identified, contradicted, .. } = self.blocks;
        let share = |part: u32, of: u32| (1000 * u64::from(part) / u64::from(of.max(1))) as u32;
        let proof = identified.saturating_mul(100).min(400);
        let points = (share(headed, used) / 2 + proof + 100).saturating_sub(share(contradicted, headed));
        let evidence = vec![format!(
            "{headed} of {used} used blocks of {} bytes begin with a valid erase counter header, {identified} hold a valid volume identifier at {}",
            self.peb_size, self.vid_offset
        )];
        let layout = Layout {
            block_size: self.peb_size - self.data_offset,
            erase_size: self.peb_size,
            erase_sizes: vec![self.peb_size],
            erase_size_fit: if headed > 1 { Fit::Proven } else { Fit::Fits },
            byte_order: None,
        };
        Likeness { points: points.max(1), evidence, layout, extent: Some(self.range.clone()) }
    }

    /// Whether the bytes are UBI beyond doubt.
    pub fn is_sure(&self) -> bool {
        self.blocks.identified > 0 && self.likeness().points >= SURE
    }
}

/// Whether UBI is on the bare flash of a chip: most blocks in use begin with an erase counter
/// header. Cost: a read of each block's first bytes.
pub fn is_on_chip(chip: &dyn Flash, context: &Context) -> bool {
    let (mut ours, mut others) = (0, 0);
    for block in (0..chip.geometry().blocks).map(BlockIndex).filter(|block| !chip.is_bad(*block)) {
        let mut header = [0; HEADER_SIZE];
        if chip.read(context, block.page(0), PageRead::bytes(0, &mut header)).is_err() {
            continue;
        }
        match EcHeader::decode(&header) {
            Decoded::Header(_) => ours += 1,
            Decoded::Damaged => others += 1,
            Decoded::Erased => {}
        }
    }
    ours > others
}

/// Whether bytes begin with an erase counter header.
pub fn begins_with_header(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|header| matches!(EcHeader::decode(header), Decoded::Header(_)))
}

/// The devices in a dump, from byte `from` on. `asked` is the size of PEBs, if known. Cost: a pass
/// over what stands before and between the devices, and two headers per PEB.
pub fn devices(device: &impl Look, from: u64, depth: Depth, asked: Option<u32>) -> Vec<Survey> {
    let (mut found, mut from): (Vec<Survey>, u64) = (Vec::new(), from);
    let mut search = HeaderSearch { device, found: VecDeque::new(), searched: from };
    while found.len() < DEVICES_MAX {
        let Some(next) = survey(&mut search, from, depth, asked) else { break };
        // A device that begins inside the one before it is the content of a volume.
        from = next.range.end;
        found.push(next);
    }
    found
}

/// The first device from byte `from` on.
fn survey(search: &mut HeaderSearch<'_, impl Look>, from: u64, depth: Depth, asked: Option<u32>) -> Option<Survey> {
    let device = search.device;
    let length = device.geometry().capacity();
    let searched = match depth {
        Depth::Glance => GLANCE,
        Depth::Thorough => SEARCHED_MAX,
    };
    let fits = alike(search.headers(from..length.min(from.saturating_add(searched))))
        .into_iter()
        .filter_map(|(offsets, headers)| fit(device, offsets, &headers, asked));
    // The first headers that fit blocks well: those in front of them are stray ones, those behind
    // may be images inside volumes. Otherwise what fits best.
    let fits: Vec<Fitted> = fits.collect();
    let good = fits.iter().find(|fit| fit.blocks.is_good());
    let Fitted { offsets, peb_size, start, .. } = *good.or(fits.iter().max_by_key(|fit| fit.blocks.quality()))?;
    let walk = Walk { device, offsets, peb_size, length };
    let range = walk.begin(start, from)..walk.end(start);
    // The first headers may all be those of free blocks: Linux takes blocks from the end first.
    let blocks = count(device, start..range.end, &offsets, peb_size);
    Some(Survey { range, peb_size, vid_offset: offsets.vid_offset, data_offset: offsets.data_offset, blocks })
}

/// A size of PEBs, and how it fits.
#[derive(Clone, Copy, Debug)]
struct Fitted {
    /// Any header of the device.
    offsets: EcHeader,
    peb_size: u32,
    start: u64,
    blocks: BlockCounts,
}

/// The size that fits headers with common offsets best.
fn fit(device: &impl Look, offsets: EcHeader, headers: &[(u64, EcHeader)], asked: Option<u32>) -> Option<Fitted> {
    let length = device.geometry().capacity();
    let powers = (PEB_SIZE_MIN.ilog2()..=PEB_SIZE_MAX.ilog2()).map(|power| 1 << power);
    let sizes: Vec<u32> = asked.map_or_else(|| powers.chain(distance(headers)).collect(), |size| vec![size]);
    let is_possible = |size: &u32| offsets.fits(*size) && u64::from(*size) <= length;
    let fitted = sizes.into_iter().filter(is_possible).map(|peb_size| {
        let start = most_common_phase(headers, peb_size);
        let end = headers.last().map_or(start, |(at, _)| at + 1);
        Fitted { offsets, peb_size, start, blocks: count(device, start..end, &offsets, peb_size) }
    });
    // Half the size has as many headers if the second half of each PEB is blank; twice the size has
    // half of them.
    fitted.max_by_key(|fitted| (fitted.blocks.quality(), fitted.peb_size))
}

/// A search for erase counter headers, which passes over each byte once: where they stand, and what
/// they say.
struct HeaderSearch<'a, D> {
    device: &'a D,
    /// Headers that were found and may be asked for again.
    found: VecDeque<(u64, EcHeader)>,
    /// The first byte that was not searched.
    searched: u64,
}

impl<D: Look> HeaderSearch<'_, D> {
    /// The first headers of a range, which begins at or behind the earlier ones.
    fn headers(&mut self, range: Range<u64>) -> Vec<(u64, EcHeader)> {
        self.found.retain(|(at, _)| *at >= range.start);
        self.searched = self.searched.max(range.start);
        let mut chunk = vec![0; CHUNK + HEADER_SIZE];
        while self.searched < range.end && self.found.len() < HEADERS_MAX {
            let length = (range.end - self.searched).min(CHUNK as u64);
            self.device.look_at(self.searched, &mut chunk);
            for place in (0..length as usize).step_by(STEP) {
                let Some(bytes) = chunk.get(place..).and_then(|rest| rest.first_chunk()) else { break };
                if bytes.starts_with(&EC_MAGIC.to_be_bytes())
                    && let Decoded::Header(ec) = EcHeader::decode(bytes)
                {
                    self.found.push_back((self.searched + place as u64, ec));
                }
            }
            self.searched += length;
        }
        let inside = self.found.iter().filter(|(at, _)| *at < range.end);
        inside.take(HEADERS_MAX).copied().collect()
    }
}

/// The headers by their offsets, in the order in which the first of each stands.
fn alike(headers: Vec<(u64, EcHeader)>) -> Vec<(EcHeader, Vec<(u64, EcHeader)>)> {
    let offsets = |ec: &EcHeader| (ec.vid_offset, ec.data_offset);
    let mut groups: Vec<(EcHeader, Vec<(u64, EcHeader)>)> = Vec::new();
    for (at, ec) in headers {
        match groups.iter_mut().find(|(first, _)| offsets(first) == offsets(&ec)) {
            Some((_, group)) => group.push((at, ec)),
            None => groups.push((ec, vec![(at, ec)])),
        }
    }
    groups
}

/// The most common distance of two headers, for blocks whose size is no power of two.
fn distance(headers: &[(u64, EcHeader)]) -> Option<u32> {
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    for (one, next) in headers.iter().zip(headers.iter().skip(1)) {
        *counts.entry(next.0 - one.0).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count)?.0;
    u32::try_from(most).ok().filter(|size| (PEB_SIZE_MIN..=PEB_SIZE_MAX).contains(size))
}

/// The first header of those that stand where most do, modulo the size of a block.
fn most_common_phase(headers: &[(u64, EcHeader)], peb_size: u32) -> u64 {
    let phase = |at: u64| at % u64::from(peb_size.max(1));
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    headers.iter().for_each(|(at, _)| *counts.entry(phase(*at)).or_default() += 1);
    let first = headers.iter().max_by_key(|(at, _)| (counts.get(&phase(*at)).copied(), std::cmp::Reverse(*at)));
    first.map_or(0, |(at, _)| *at)
}

fn header_at<T>(device: &impl Look, at: u64, decode: impl Fn(&[u8; HEADER_SIZE]) -> Decoded<T>) -> Decoded<T> {
    let mut bytes = [0; HEADER_SIZE];
    device.look_at(at, &mut bytes);
    decode(&bytes)
}

/// Looks at the blocks of one size that begin in a range.
fn count(device: &impl Look, range: Range<u64>, offsets: &EcHeader, peb_size: u32) -> BlockCounts {
    let mut counts = BlockCounts::default();
    for at in range.step_by(peb_size.max(PEB_SIZE_MIN) as usize) {
        let ec = match header_at(device, at, EcHeader::decode) {
            Decoded::Erased => continue,
            other => other.header(),
        };
        counts.used += 1;
        let places = |ec: &EcHeader| (ec.vid_offset, ec.data_offset);
        let is_headed = match ec {
            Some(ec) if places(&ec) != places(offsets) => continue,
            ec => ec.is_some(),
        };
        let vid = header_at(device, at + u64::from(offsets.vid_offset), VidHeader::decode);
        let is_identified = matches!(vid, Decoded::Header(_));
        counts.headed += u32::from(is_headed);
        counts.identified += u32::from(is_identified);
        counts.known += u32::from(is_headed || is_identified);
        counts.contradicted += u32::from(is_headed && vid == Decoded::Damaged);
    }
    counts
}

/// A walk over PEBs to the ends of a device.
struct Walk<'a, D> {
    device: &'a D,
    /// Any header of the device.
    offsets: EcHeader,
    peb_size: u32,
    length: u64,
}

impl<D: Look> Walk<'_, D> {
    fn ec(&self, at: u64) -> Option<EcHeader> {
        header_at(self.device, at, EcHeader::decode).header()
    }

    fn vid(&self, at: u64) -> Option<VidHeader> {
        header_at(self.device, at.saturating_add(self.offsets.vid_offset.into()), VidHeader::decode).header()
    }

    /// The first byte: PEBs in front that lost their erase counter header belong to the device.
    fn begin(&self, start: u64, from: u64) -> u64 {
        let step = u64::from(self.peb_size);
        let mut begin = start;
        while let Some(before) = begin.checked_sub(step).filter(|before| *before >= from)
            && self.vid(before).is_some()
        {
            begin = before;
        }
        begin
    }

    /// The end: behind the last PEB, and behind the blank blocks that follow it.
    fn end(&self, start: u64) -> u64 {
        let step = u64::from(self.peb_size);
        let sequence = self.ec(start).map_or(0, |ec| ec.image_sequence);
        let mut tables = Vec::new();
        let (mut end, mut damaged, mut at) = (start, 0, start);
        while at < self.length && damaged <= DAMAGED_MAX {
            let (ec, vid) = (self.ec(at), self.vid(at));
            let is_second = vid.is_some_and(|vid| is_second_table(&vid, &mut tables));
            if at > start && (is_second || self.is_other_image(at, sequence)) {
                break;
            }
            if ec.is_some() || vid.is_some() {
                (end, damaged) = (at + step, 0);
            } else if !self.is_blank(at) {
                damaged += 1;
            } else if damaged == 0 {
                end = at + step;
            }
            at += step;
        }
        end.min(self.length)
    }

    /// Whether a block is erased as a whole, as far as it is there.
    fn is_blank(&self, at: u64) -> bool {
        let mut bytes = vec![0; self.peb_size as usize];
        self.device.look_at(at, &mut bytes);
        is_erased(&bytes)
    }

    /// Whether another image begins here: this PEB has another sequence number, and the next ones
    /// do not have the device's.
    fn is_other_image(&self, at: u64, sequence: u32) -> bool {
        let here = |at: u64| self.ec(at).map(|ec| ec.image_sequence).filter(|here| *here != 0);
        let is_other = |here: u32| sequence != 0 && here != sequence;
        let mut next = (0..u64::from(BORDER)).map(|index| at + index * u64::from(self.peb_size));
        here(at).is_some_and(is_other) && next.all(|at| here(at).is_none_or(is_other))
    }
}

/// Whether this is the same copy of a volume table as an earlier one, with the same sequence
/// number: that of another device. `seen` holds the earlier ones.
fn is_second_table(vid: &VidHeader, seen: &mut Vec<(u32, u64)>) -> bool {
    let key = (vid.leb, vid.sequence);
    if vid.volume != LAYOUT_VOLUME || seen.contains(&key) {
        return vid.volume == LAYOUT_VOLUME;
    }
    seen.push(key);
    false
}
