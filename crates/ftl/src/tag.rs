//! The OOB tag of every page that the block-mapped layers program: which logical page it holds, and
//! when it was written. Its layout is that of [`nandkit_codec::page_tag`]; the sequence number
//! counts over the whole device.
//!
//! | bits of the tag's own 48 | field |
//! | --- | --- |
//! | 0..8 | role (3 bits) and flags |
//! | 8..32 | logical block; of a mark: physical block; of a map record: which translation layer |
//! | 32..48 | page offset in the logical block |

pub(crate) use nandkit_codec::page_tag::TAG_BYTES;
use nandkit_codec::page_tag::{TagRead as RawRead, WORD_MAX};

/// The largest value of the block field means no block.
pub(crate) const NO_BLOCK: u32 = (1 << 24) - 1;
/// The role of a page: the low three bits of the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Role {
    /// The device was closed properly.
    Close = 0,
    /// A host page, in a log block or in place.
    Host = 1,
    /// A page that a migration copied to its new log block.
    LogCopy = 2,
    /// A page that a merge copied in place into a new data block.
    DataCopy = 3,
    /// A page of the map.
    Map = 4,
    /// Recovery: everything the named physical block held before this record is dead.
    Kill = 5,
    /// Recovery: the named physical block was written last before the cut and must be rewritten.
    Retire = 6,
    /// The device was opened; any recovery is finished.
    Open = 7,
}

impl Role {
    const ALL: [Self; 8] =
        [Self::Close, Self::Host, Self::LogCopy, Self::DataCopy, Self::Map, Self::Kill, Self::Retire, Self::Open];

    /// Whether a merge or migration wrote the page.
    pub const fn is_copy(self) -> bool {
        matches!(self, Self::LogCopy | Self::DataCopy)
    }

    /// Whether the page belongs to the map area.
    pub const fn is_record(self) -> bool {
        matches!(self, Self::Close | Self::Map | Self::Kill | Self::Retire | Self::Open)
    }
}

/// The flags next to the role.
pub(crate) mod flag {
    /// The log block replaced another log block. (FAST: the page lies in place.)
    pub const MIGRATED: u8 = 0x08;
    /// The last page of a copy: the block is complete.
    pub const LAST: u8 = 0x10;
    /// The page's content was lost before it was copied.
    pub const POISON: u8 = 0x20;
    /// The page has no content: it was trimmed, or fills a gap.
    pub const TOMB: u8 = 0x40;
    /// With `LAST`: the data block holds every page, and none is `POISON` or `TOMB`.
    pub const FULL: u8 = 0x80;
}

/// The tag of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub role: Role,
    pub flags: u8,
    pub block: u32,
    pub offset: u32,
    pub sequence: u64,
}

impl Tag {
    /// Whether a flag is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What the OOB of a page contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagRead {
    /// Nothing was programmed.
    Blank,
    /// No valid tag: the page is torn or lost.
    Bad,
    Valid(Tag),
}

/// Highest accepted sequence number: beyond it the numbers would soon wrap around, and new pages
/// would look old.
pub const SEQUENCE_END: u64 = WORD_MAX - (1 << 32);

/// Packs the fields except the sequence number into bits 0..48.
#[inline]
pub(crate) const fn pack(role: Role, flags: u8, block: u32, offset: u32) -> u64 {
    (role as u8 | flags) as u64 | (block as u64) << 8 | ((offset & 0xFFFF) as u64) << 32
}

/// Reverses [`pack`].
pub(crate) const fn unpack(packed: u64) -> (Role, u8, u32, u32) {
    let first = packed as u8;
    // In range: three bits, eight roles.
    let role = Role::ALL[(first & 7) as usize];
    (role, first & !7, (packed >> 8) as u32 & NO_BLOCK, (packed >> 32) as u32 & 0xFFFF)
}

/// The position of the tag in the OOB, which depends on the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TagFormat(nandkit_codec::page_tag::TagFormat);

impl TagFormat {
    pub const fn new(page_size: u32) -> Self {
        Self(nandkit_codec::page_tag::TagFormat::new(page_size))
    }

    /// The OOB image of a tag: its packed fields and a sequence number. Called for each page.
    #[inline(always)]
    pub fn image(self, packed: u64, sequence: u64) -> [u8; TAG_BYTES] {
        self.0.image(packed, sequence)
    }

    /// Decodes an OOB image.
    pub fn decode(self, image: &[u8; TAG_BYTES]) -> TagRead {
        match self.0.decode(image) {
            RawRead::Blank => TagRead::Blank,
            RawRead::Bad => TagRead::Bad,
            RawRead::Valid { payload, sequence } => {
                let (role, flags, block, offset) = unpack(payload);
                TagRead::Valid(Tag { role, flags, block, offset, sequence })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After the last number they would wrap around, and new pages would look older than all
    /// others.
    #[test]
    fn a_chip_whose_numbers_end_is_refused() {
        use nandkit_flash::{Flash, PageProgram};
        use nandkit_nand_sim::{ChipSpec, ContentChip};
        use nandkit_units::{BlockIndex, Context};

        let mut spec = ChipSpec::default();
        spec.geometry.blocks = 64;
        for (sequence, opens) in [(SEQUENCE_END, true), (SEQUENCE_END + 1, false)] {
            let mut chip = ContentChip::new(&spec, 1).unwrap();
            let tag = Tag { role: Role::Open, flags: 0, block: 1, offset: 0, sequence };
            let oob = encode(TagFormat::new(spec.geometry.page_size), tag);
            let program = PageProgram { oob: &oob, ..PageProgram::bytes(0, &[]) };
            chip.program(&Context::default(), BlockIndex(40).page(0), program).unwrap();
            let attached = crate::BlockMapFtl::attach(chip, crate::BlockMapOptions::default());
            assert_eq!(attached.is_ok(), opens, "{:?}", attached.err());
        }
    }

    fn encode(format: TagFormat, tag: Tag) -> [u8; TAG_BYTES] {
        format.image(pack(tag.role, tag.flags, tag.block, tag.offset), tag.sequence)
    }

    const TAG: Tag = Tag {
        role: Role::DataCopy,
        flags: flag::LAST | flag::FULL,
        block: 0x12_3456,
        offset: 0xABCD,
        sequence: 0x1234_5678_9ABC,
    };

    #[test]
    fn every_role_and_flag_comes_back() {
        for page_size in [512, 2048, 16_384] {
            let format = TagFormat::new(page_size);
            for role in Role::ALL {
                for flags in [0, flag::MIGRATED, flag::LAST | flag::FULL, flag::POISON, flag::TOMB] {
                    let tag = Tag { role, flags, ..TAG };
                    let image = encode(format, tag);
                    assert_eq!(format.decode(&image), TagRead::Valid(tag));
                }
            }
            assert_eq!(format.decode(&[0xFF; TAG_BYTES]), TagRead::Blank);
        }
    }
}
