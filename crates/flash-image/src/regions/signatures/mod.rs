//! Formats recognized by a magic number, verified as far as the format allows. Searched at every
//! 512 data bytes, where partitions begin; SquashFS also in between, because OpenWrt puts it
//! directly after a kernel.

mod strangers;

use memchr::memmem;

pub use strangers::{Stranger, stranger};

use super::{Region, RegionSource, data_bytes, scan};
use crate::dump::DumpFlash;

const STEP: usize = 512;
/// Bytes passed to a probe: two blocks of 4 KiB, which contain both superblocks of a volume with
/// two.
pub const PROBE_BYTES: usize = 8 << 10;
/// Most pieces: more than a dump has; a hostile one may have a magic number in every sector.
const FOUND_MAX: usize = 4096;

/// A format recognized at one position of a dump by its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The prefix of the region's name, in lower case; a number follows it.
    pub short: &'static str,
    /// The name of the format for people.
    pub kind: &'static str,
    /// Details for people; may be empty.
    pub detail: String,
    /// Length in bytes, if the format stores it. Formats of many erase blocks do not: they extend
    /// to the beginning of the next format.
    pub size: Option<u64>,
    /// Whether it consists of erase blocks that each have a signature.
    pub is_blockwise: bool,
    /// Unproven facts about its ends: one sentence each.
    pub doubts: Vec<String>,
}

/// Recognizes a format in [`PROBE_BYTES`] bytes, or fewer at the end of the dump.
pub type SignatureProbe = fn(&[u8]) -> Option<Signature>;

impl Signature {
    /// A signature without details, for a format that does not consist of erase blocks.
    pub const fn new(short: &'static str, kind: &'static str, size: Option<u64>) -> Self {
        Self { kind, short, detail: String::new(), size, is_blockwise: false, doubts: Vec::new() }
    }
}

/// A range of one format.
struct Stretch {
    at: u64,
    sign: Signature,
    /// Position of its last signature.
    last: u64,
    /// The smallest distance between two signatures.
    distance: u64,
}

pub(super) fn find(device: &DumpFlash, probes: &[SignatureProbe], mut volumes: Vec<(u64, Signature)>) -> Vec<Region> {
    volumes.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let signature = |bytes: &[u8]| {
        let stranger = || stranger(bytes).map(Stranger::into_signature);
        probes.iter().find_map(|probe| probe(bytes)).or_else(stranger)
    };
    let mut found: Vec<Stretch> = Vec::new();
    scan(device, PROBE_BYTES, |at, piece, new| {
        let between = strangers::UNALIGNED.iter().flat_map(|magic| memmem::find_iter(piece, magic));
        let between = between.filter(|place| *place < new && !place.is_multiple_of(STEP));
        let mut places: Vec<usize> = (0..new).step_by(STEP).chain(between).collect();
        places.sort_unstable();
        for place in places {
            let (Some(bytes), at) = (piece.get(place..), at + place as u64) else { return };
            while let Some((start, sign)) = volumes.pop_if(|(start, _)| *start <= at) {
                step(&mut found, start, Some(sign));
            }
            let sector = bytes.get(..STEP.min(bytes.len())).unwrap_or(&[]);
            if nandkit_units::is_erased(sector) {
                continue;
            }
            let sign = signature(bytes).filter(|sign| place.is_multiple_of(STEP) || sign.size.is_some());
            if sign.is_some() || place.is_multiple_of(STEP) {
                step(&mut found, at, sign);
            }
        }
    });
    finish(device, found)
}

/// Adds a programmed sector to the list of ranges.
fn step(found: &mut Vec<Stretch>, at: u64, sign: Option<Signature>) {
    if let Some(open) = found.last_mut() {
        // Nothing begins inside a format with a known size: a file-system image contains whatever
        // its files do.
        if open.sign.size.is_some_and(|size| at < open.at.saturating_add(size)) {
            return;
        }
        if open.sign.size.is_none() {
            match &sign {
                Some(sign) if sign.kind == open.sign.kind => {
                    open.distance = open.distance.min(at - open.last);
                    open.last = at;
                    return;
                }
                None => return,
                // Files in it may be images themselves; `finish` decides.
                Some(_) => {}
            }
        }
    }
    if let Some(sign) = sign
        && found.len() < FOUND_MAX
    {
        found.push(Stretch { at, last: at, distance: u64::MAX, sign });
    }
}

/// Converts ranges to regions: pieces of one block-wise format separated by content that only
/// looked like another format are joined.
fn finish(device: &DumpFlash, found: Vec<Stretch>) -> Vec<Region> {
    let block = u64::from(device.layout().block_size.max(1));
    let capacity = data_bytes(device);
    let mut joined: Vec<Stretch> = Vec::new();
    for next in found {
        let same = |stretch: &Stretch| stretch.sign.size.is_none() && stretch.sign.kind == next.sign.kind;
        let earlier = joined.iter().rposition(same).filter(|_| next.sign.is_blockwise);
        // A format that begins off the block boundaries of a block-wise format that continues after
        // it is content of that format's files.
        let between = |index: usize| joined.iter().skip(index + 1).all(|stretch| !stretch.at.is_multiple_of(block));
        match earlier.filter(|&index| between(index)) {
            Some(index) => {
                joined.truncate(index + 1);
                if let Some(open) = joined.last_mut() {
                    open.distance = open.distance.min(next.at - open.last).min(next.distance);
                    open.last = next.last;
                }
            }
            None => joined.push(next),
        }
    }
    let ends: Vec<u64> = joined.iter().skip(1).map(|next| next.at).chain([capacity]).collect();
    let mut regions: Vec<Region> = Vec::new();
    for (stretch, end) in joined.into_iter().zip(ends) {
        let number = regions.iter().filter(|region| region.name.starts_with(stretch.sign.short)).count();
        regions.push(stretch.into_region(number, end.min(capacity), block));
    }
    regions
}

impl Stretch {
    fn into_region(self, number: usize, end: u64, block: u64) -> Region {
        let mut notes = Vec::new();
        let left = end.saturating_sub(self.at).max(1);
        let size = match self.sign.size {
            Some(size) if size > left => {
                notes.push(format!("its header says {size} bytes, {left} are there"));
                left
            }
            Some(size) => size,
            None => {
                notes.push(
                    "the format does not say its size: it is taken to go on to the next one, or the end".to_owned(),
                );
                left
            }
        };
        let mut kind = self.sign.kind.to_owned();
        if !self.sign.detail.is_empty() {
            kind = format!("{kind}, {}", self.sign.detail);
        }
        if self.sign.short == "ubi" && self.distance != u64::MAX {
            kind = format!("{kind}, blocks of {} bytes", self.distance);
        }
        if self.sign.is_blockwise && !self.at.is_multiple_of(block) {
            notes.push(format!(
                "it does not begin at a multiple of the block size {block}: another block size may be right"
            ));
        }
        // A name that ends in a digit is separated from the number.
        let gap = if self.sign.short.ends_with(|last: char| last.is_ascii_digit()) { "-" } else { "" };
        let name = format!("{}{gap}{number}", self.sign.short);
        Region { offset: self.at, size, name, kind, source: RegionSource::Signature, notes, doubts: self.sign.doubts }
    }
}
