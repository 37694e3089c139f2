//! The store that keeps a 64-bit tag and the first 16 OOB bytes of each page: for translation
//! layers on large devices.
//!
//! OOB bytes from 16 on read as erased, whatever was programmed. Reads of data that were not
//! described return `NoContent`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nandkit_flash::PageProgram;
use nandkit_units::{Described, Description, FlashGeometry, Generator, PageAddress, Payload, ReadInto};

use super::pages::fill_oob;
use super::{NoContent, SavedPage, SlotPage, Store, StoreKind, deliver_described};
use crate::words::{PageWords, WordTables};

/// Number of OOB bytes kept.
const OOB_KEPT: usize = 16;
/// Words per page: the tag, and two for the OOB.
const WORDS: usize = 3;

/// Bits 63 and 62 of a tag give the kind of content; 0 is erased.
const KIND: u64 = 3 << 62;
const KIND_OOB_ONLY: u64 = 1 << 62;
const KIND_HASH: u64 = 2 << 62;
const KIND_DESCRIBED: u64 = 3 << 62;
/// The other bits: a fingerprint or a description.
const HASH: u64 = !KIND;

// A description in a tag: generator in bit 61, offset / 512 in 51..61, version in 31..51, record in
// 0..31; for data that fill the page. All ones: see `ShadowStore::wide`.
const GENERATOR_SHIFT: u32 = 61;
const OFFSET_SHIFT: u32 = 51;
const VERSION_SHIFT: u32 = 31;
const RECORD_BITS: u32 = 31;
const VERSION_BITS: u32 = 20;
/// Offsets are multiples of 512 below 512 KiB.
const SECTOR_SHIFT: u32 = 9;
const OFFSET_MASK: u32 = 0x3FF << SECTOR_SHIFT;
const WIDE: u64 = KIND_DESCRIBED | HASH;

/// A description that does not fit into a tag: its column, and the description.
type Wide = (u32, Described);

/// Keeps tags. Descriptions are kept exactly: packed into the tag if they fit, else in a separate
/// table.
#[derive(Clone, Debug)]
pub struct ShadowStore {
    words: WordTables<WORDS>,
    page_size: u32,
    wide: Arc<BTreeMap<(usize, u32), Wide>>,
}

#[inline(always)]
fn pack(description: &Description) -> Option<u64> {
    // The bits that do not fit into a tag. Called for each program, so one comparison covers the
    // three fields.
    let left_over = description.record >> RECORD_BITS
        | u64::from(description.version >> VERSION_BITS)
        | u64::from(description.offset & !OFFSET_MASK);
    if left_over != 0 {
        return None;
    }
    let generator = match description.generator {
        Generator::Zero => 0,
        Generator::Record => 1,
    };
    let tag = KIND_DESCRIBED
        | generator << GENERATOR_SHIFT
        | u64::from(description.offset) << (OFFSET_SHIFT - SECTOR_SHIFT)
        | u64::from(description.version) << VERSION_SHIFT
        | description.record;
    (tag != WIDE).then_some(tag)
}

fn unpack(tag: u64) -> Description {
    Description {
        record: tag & ((1 << RECORD_BITS) - 1),
        version: (tag >> VERSION_SHIFT) as u32 & ((1 << VERSION_BITS) - 1),
        offset: (tag >> (OFFSET_SHIFT - SECTOR_SHIFT)) as u32 & OFFSET_MASK,
        generator: if tag >> GENERATOR_SHIFT & 1 == 0 { Generator::Zero } else { Generator::Record },
    }
}

/// A non-cryptographic fingerprint that distinguishes contents. Four lanes make it run at memory
/// speed.
fn fingerprint(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9E37_79B1_85EB_CA87;
    let mut lanes = [1u64, 2, 3, 4];
    let mut chunks = bytes.chunks_exact(32);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            *lane = (*lane ^ word).wrapping_mul(PRIME).rotate_left(29);
        }
    }
    let rest =
        chunks.remainder().iter().fold(bytes.len() as u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME));
    lanes.into_iter().fold(rest, |sum, lane| nandkit_units::random::hash(sum, lane, 0))
}

/// The bytes of composed data, of which a tag only keeps a fingerprint.
#[cold]
fn bytes_of(data: Payload<'_>) -> Vec<u8> {
    let mut bytes = vec![0; data.len()];
    data.copy_to(&mut bytes);
    bytes
}

#[inline(always)]
fn store_entry(words: &PageWords<WORDS>, entry: [u64; WORDS]) {
    let [tag, low, high] = words;
    tag.store(entry[0], Relaxed);
    low.store(entry[1], Relaxed);
    high.store(entry[2], Relaxed);
}

#[inline(always)]
fn oob_words(oob: &[u8]) -> [u64; 2] {
    let mut bytes = [0xFF; OOB_KEPT];
    match oob.first_chunk::<OOB_KEPT>() {
        Some(first) => bytes = *first,
        None => bytes[..oob.len()].copy_from_slice(oob),
    }
    let both = u128::from_le_bytes(bytes);
    [both as u64, (both >> 64) as u64]
}

impl ShadowStore {
    /// The tag of a page: 0 if erased, different for different contents. Equal runs leave equal
    /// tags.
    pub fn tag(&self, place: SlotPage) -> u64 {
        self.words.words(place.slot).get(place.page as usize).map_or(0, |[tag, ..]| tag.load(Relaxed))
    }

    #[inline]
    fn entry(&self, place: SlotPage) -> Option<[u64; WORDS]> {
        let [tag, low, high] = self.words.words(place.slot).get(place.page as usize)?;
        Some([tag.load(Relaxed), low.load(Relaxed), high.load(Relaxed)])
    }

    #[inline]
    fn set_entry(&mut self, place: SlotPage, entry: [u64; WORDS]) {
        if let Some(words) = self.words.words_mut(place.slot).get(place.page as usize) {
            store_entry(words, entry);
        }
    }

    /// The tag for data programmed into a page without data.
    #[inline]
    fn tag_of(&mut self, place: SlotPage, column: u32, data: Payload<'_>) -> u64 {
        match data {
            Payload::Described(described) => {
                if column == 0
                    && described.length == self.page_size
                    && let Some(tag) = pack(&described.description)
                {
                    return tag;
                }
                self.tag_of_wide(place, column, described)
            }
            Payload::Bytes(bytes) => KIND_HASH | fingerprint(bytes) & HASH,
            Payload::Assembled(_) => KIND_HASH | fingerprint(&bytes_of(data)) & HASH,
        }
    }

    #[cold]
    fn tag_of_wide(&mut self, place: SlotPage, column: u32, described: Described) -> u64 {
        Arc::make_mut(&mut self.wide).insert((place.slot, place.page), (column, described));
        WIDE
    }

    /// Handles any program.
    #[inline(never)]
    fn program_otherwise(&mut self, place: SlotPage, program: PageProgram<'_>) {
        let old = self.entry(place).unwrap_or_default();
        if old[0] != 0 {
            return self.program_again(place, old, &program);
        }
        let tag =
            if program.data.is_empty() { KIND_OOB_ONLY } else { self.tag_of(place, program.column, program.data) };
        let [low, high] = oob_words(program.oob);
        self.set_entry(place, [tag, low, high]);
    }

    /// Programs a page that already has content: clears OOB bits, and stores a fingerprint of both
    /// data.
    #[cold]
    fn program_again(&mut self, place: SlotPage, old: [u64; WORDS], program: &PageProgram<'_>) {
        let oob = oob_words(program.oob);
        let tag = if program.data.is_empty() {
            old[0]
        } else if old[0] & KIND == KIND_OOB_ONLY {
            self.tag_of(place, program.column, program.data)
        } else {
            let before = self.describe(place, old[0]).map_or(old[0], |(column, described)| {
                nandkit_units::random::hash(
                    described.description.record,
                    u64::from(described.description.version),
                    column.into(),
                )
            });
            self.forget_wide(place);
            let new = match program.data {
                Payload::Bytes(bytes) => fingerprint(bytes),
                data @ Payload::Assembled(_) => fingerprint(&bytes_of(data)),
                Payload::Described(described) => nandkit_units::random::hash(
                    described.description.record,
                    u64::from(described.description.version),
                    u64::from(described.description.offset) << 32 | u64::from(described.length),
                ),
            };
            KIND_HASH | nandkit_units::random::hash(before, new, u64::from(program.column)) & HASH
        };
        self.set_entry(place, [tag, old[1] & oob[0], old[2] & oob[1]]);
    }

    fn describe(&self, place: SlotPage, tag: u64) -> Option<Wide> {
        if tag & KIND != KIND_DESCRIBED {
            return None;
        }
        if tag == WIDE {
            return self.wide.get(&(place.slot, place.page)).copied();
        }
        Some((0, Described { description: unpack(tag), length: self.page_size }))
    }

    #[inline]
    fn forget_wide(&mut self, place: SlotPage) {
        if !self.wide.is_empty() {
            Arc::make_mut(&mut self.wide).remove(&(place.slot, place.page));
        }
    }

    #[cold]
    fn forget_wide_slot(&mut self, slot: usize) {
        let keys: Vec<_> = self.wide.range((slot, 0)..=(slot, u32::MAX)).map(|(key, _)| *key).collect();
        if !keys.is_empty() {
            let wide = Arc::make_mut(&mut self.wide);
            keys.iter().for_each(|key| {
                wide.remove(key);
            });
        }
    }
}

impl Store for ShadowStore {
    const KIND: StoreKind = StoreKind::Shadow;

    fn new(geometry: &FlashGeometry) -> Self {
        Self {
            words: WordTables::new(geometry.pages_per_block as usize),
            page_size: geometry.page_size,
            wide: Arc::default(),
        }
    }

    fn add_slot(&mut self) {
        self.words.add();
    }

    #[inline(always)]
    fn program(&mut self, place: SlotPage, program: &PageProgram<'_>) {
        // Nearly every program: a whole described page, into an erased one.
        if let Payload::Described(described) = program.data
            && described.length == self.page_size
            && program.column == 0
            && let Some(packed) = pack(&described.description)
            && let Some(words) = self.words.words_mut(place.slot).get(place.page as usize)
            && words[0].load(Relaxed) == 0
        {
            let [low, high] = oob_words(program.oob);
            return store_entry(words, [packed, low, high]);
        }
        // By value: a caller with the program in registers must not have to store it for the slow
        // path.
        self.program_otherwise(place, *program);
    }

    #[inline]
    fn copy(&mut self, from: SlotPage, to: SlotPage, oob: Option<&[u8]>) {
        let Some([mut tag, mut low, mut high]) = self.entry(from) else { return };
        if tag == WIDE
            && let Some((column, described)) = self.describe(from, tag)
        {
            self.tag_of_wide(to, column, described);
        }
        if tag == 0 {
            (low, high) = (u64::MAX, u64::MAX);
        }
        if let Some(oob) = oob {
            // An erased mask byte passes the source's byte through; `oob` replaces, so its bytes
            // are stored as they are.
            let kept = oob.len().min(OOB_KEPT);
            let mask = if kept == OOB_KEPT { u128::MAX } else { (1u128 << (kept * 8)) - 1 };
            let [new_low, new_high] = oob_words(oob);
            let (mask_low, mask_high) = (mask as u64, (mask >> 64) as u64);
            low = low & !mask_low | new_low & mask_low;
            high = high & !mask_high | new_high & mask_high;
            if tag & KIND == 0 && !oob.is_empty() {
                tag |= KIND_OOB_ONLY;
            }
        }
        self.set_entry(to, [tag, low, high]);
    }

    #[inline]
    fn copy_run(&mut self, slot: usize, from: &[PageAddress], to: SlotPage, oob: &[u8]) {
        let (images, _) = oob.as_chunks::<OOB_KEPT>();
        let first = to.page as usize;
        let end = first + from.len();
        let plain = self.wide.is_empty() && oob.len() == from.len() * OOB_KEPT;
        // From here on, only this store uses the target's table.
        self.words.words_mut(to.slot);
        let (source, target) = (self.words.words(slot), self.words.words(to.slot));
        let (true, Some(target)) = (plain, target.get(first..end)) else {
            return super::copy_each(self, slot, from, to, oob);
        };
        for ((into, from), image) in target.iter().zip(from).zip(images) {
            let mut tag = source.get(from.page as usize).map_or(0, |[tag, ..]| tag.load(Relaxed));
            if tag & KIND == 0 {
                tag |= KIND_OOB_ONLY;
            }
            let [low, high] = oob_words(image);
            store_entry(into, [tag, low, high]);
        }
    }

    #[inline]
    fn erase(&mut self, slot: usize) {
        // Only tags: the OOB of a page without a tag is ignored.
        for [tag, ..] in self.words.words_mut(slot) {
            tag.store(0, Relaxed);
        }
        if !self.wide.is_empty() {
            self.forget_wide_slot(slot);
        }
    }

    fn erase_page(&mut self, place: SlotPage) {
        self.forget_wide(place);
        self.set_entry(place, [0; WORDS]);
    }

    fn read(&self, place: SlotPage, column: u32, into: &mut ReadInto<'_>, oob: &mut [u8]) -> Result<(), NoContent> {
        let [tag, low, high] = self.entry(place).unwrap_or_default();
        if tag == 0 {
            into.deliver_fill(0xFF);
            oob.fill(0xFF);
            return Ok(());
        }
        let kept = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
        fill_oob(oob, &kept);
        match (self.describe(place, tag), tag & KIND) {
            (Some((start, described)), _) => deliver_described(into, column, start, described),
            (None, KIND_OOB_ONLY) => into.deliver_fill(0xFF),
            (None, _) if into.is_empty() || matches!(into, ReadInto::Nothing { .. }) => {}
            (None, _) => return Err(NoContent),
        }
        Ok(())
    }

    fn keep(&self, place: SlotPage) -> SavedPage {
        let [tag, low, high] = self.entry(place).unwrap_or_default();
        if tag == 0 {
            return SavedPage::Erased;
        }
        let oob = (u128::from(low) | u128::from(high) << 64).to_le_bytes().to_vec();
        match self.describe(place, tag) {
            Some((column, described)) => SavedPage::Described(column, described, oob),
            None => SavedPage::Tag(tag, oob),
        }
    }

    fn bring_back(&mut self, place: SlotPage, kept: &SavedPage) -> Result<(), NoContent> {
        match kept {
            SavedPage::Erased => Ok(()),
            SavedPage::Bytes(bytes, oob) => {
                self.program(place, &PageProgram::new(Payload::Bytes(bytes), oob));
                Ok(())
            }
            SavedPage::Described(column, described, oob) => {
                self.program(place, &PageProgram { column: *column, data: Payload::Described(*described), oob });
                Ok(())
            }
            SavedPage::Tag(tag, oob) => {
                let [low, high] = oob_words(oob);
                self.set_entry(place, [*tag, low, high]);
                Ok(())
            }
        }
    }
}
