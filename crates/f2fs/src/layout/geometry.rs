//! The geometry of a volume, from its superblock.

use std::ops::Range;

use super::superblock::{DEVICES_MAX, EXTENSIONS_MAX, Features, Superblock};
use super::{BLOCKS_PER_SEGMENT, DentryRoom, MAGIC, NatEntry, SitEntry, node};
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::{BlockAddress, NodeId, SegmentIndex};

/// The fewest and most segments of a volume (f2fs_fs.h, F2FS_MIN_SEGMENTS, F2FS_MAX_SEGMENT).
const SEGMENTS: std::ops::RangeInclusive<u32> = 9..=8_388_608;
/// The payload must be smaller: a pack has 512 blocks, and its other parts need eight (super.c,
/// `sanity_check_raw_super`).
const PAYLOAD_LIMIT: u32 = BLOCKS_PER_SEGMENT - 8;
/// The size of a summary that shares a block with others.
const SUMMARY_BYTES_MIN: u32 = 4096;

/// The geometry of a volume. All areas are contiguous and below address 2^32; the reader checks
/// whether the device is large enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    log_block_size: u32,
    sit_address: u32,
    nat_address: u32,
    ssa_address: u32,
    main_address: u32,
    /// Address of the first checkpoint pack; the second follows one segment later.
    pub checkpoint_address: BlockAddress,
    /// Checkpoint blocks after the first that hold bitmaps.
    pub checkpoint_payload: u32,
    /// Blocks of all devices.
    pub block_count: u64,
    /// Segments per section.
    pub segments_per_section: u32,
    /// Sections per zone.
    pub sections_per_zone: u32,
    /// All segments, starting with segment 0.
    pub segments: u32,
    /// Segments of the SIT, both copies.
    pub sit_segments: u32,
    /// Segments of the NAT, both copies.
    pub nat_segments: u32,
    /// Segments of the SSA.
    pub ssa_segments: u32,
    /// Segments of the main area.
    pub main_segments: u32,
    /// The volume's features.
    pub features: Features,
    /// Whether casefolded directories refuse names that cannot be folded.
    pub strict_names: bool,
    /// Segments of each device; empty for one device.
    pub devices: Vec<u32>,
}

/// The bit for strict names in the encoding's flags.
const STRICT: u16 = 1;

impl Geometry {
    /// Checks a superblock as Linux does (super.c, `sanity_check_raw_super`,
    /// `sanity_check_area_boundary`) and derives the geometry.
    ///
    /// Returns `None`, and reports a finding, if it is not usable. A wrong checksum and unknown
    /// features are findings, but the geometry is returned.
    pub fn from_superblock(superblock: &Superblock, findings: Defects<'_>) -> Option<Self> {
        let features = superblock.features();
        if superblock.magic.get() != MAGIC {
            let detail = format!("no superblock of F2FS: {:#010x} in place of {MAGIC:#010x}", superblock.magic.get());
            findings(Defect::new(FindingKind::NotF2fs, detail));
            return None;
        }
        if features.has(Features::CHECKSUM) && superblock.computed_checksum() != superblock.checksum.get() {
            let (have, want) = (superblock.checksum.get(), superblock.computed_checksum());
            let detail = format!("the superblock's checksum is {have:#010x}; its bytes give {want:#010x}");
            findings(Defect::new(FindingKind::SuperblockChecksum, detail));
        }
        if features.unknown() != 0 {
            let detail = format!("features without a known name: {:#x}", features.unknown());
            findings(Defect::new(FindingKind::Unsupported, detail));
        }
        let checked =
            check_units(superblock).and_then(|()| check_areas(superblock)).and_then(|()| check_lists(superblock));
        if let Err(finding) = checked {
            findings(finding);
            return None;
        }
        Some(Self {
            log_block_size: superblock.log_block_size.get(),
            sit_address: superblock.sit_address.get(),
            nat_address: superblock.nat_address.get(),
            ssa_address: superblock.ssa_address.get(),
            main_address: superblock.main_address.get(),
            checkpoint_address: BlockAddress(superblock.checkpoint_address.get()),
            checkpoint_payload: superblock.checkpoint_payload.get(),
            block_count: superblock.block_count.get(),
            segments_per_section: superblock.segments_per_section.get(),
            sections_per_zone: superblock.sections_per_zone.get(),
            segments: superblock.segment_count.get(),
            sit_segments: superblock.segment_count_sit.get(),
            nat_segments: superblock.segment_count_nat.get(),
            ssa_segments: superblock.segment_count_ssa.get(),
            main_segments: superblock.segment_count_main.get(),
            features,
            strict_names: superblock.encoding_flags.get() & STRICT != 0,
            devices: device_segments(superblock),
        })
    }

    /// The geometry of a volume without a superblock: blocks of `1 << log_block_size` bytes; each
    /// of the first `block_count` except block 0 may hold a node or data, and the tables have no
    /// place.
    pub(crate) fn without_superblock(log_block_size: u32, block_count: u64, features: Features) -> Self {
        // No address reaches past the last whole segment of 2^32 blocks.
        let segments = block_count.div_ceil(u64::from(BLOCKS_PER_SEGMENT)).min((1 << 23) - 1) as u32;
        Self {
            log_block_size,
            sit_address: 0,
            nat_address: 0,
            ssa_address: 0,
            main_address: 1,
            checkpoint_address: BlockAddress(0),
            checkpoint_payload: 0,
            block_count,
            segments_per_section: 1,
            sections_per_zone: 1,
            segments,
            sit_segments: 0,
            nat_segments: 0,
            ssa_segments: 0,
            main_segments: segments,
            features,
            strict_names: false,
            devices: Vec::new(),
        }
    }

    /// The block range of each device; empty for a volume on one device. The first device also
    /// holds the superblocks, which precede all segments (super.c, `f2fs_scan_devices`).
    pub fn device_blocks(&self) -> impl Iterator<Item = Range<u64>> {
        let before = u64::from(self.checkpoint_address.0);
        self.devices.iter().enumerate().scan(0_u64, move |start, (number, segments)| {
            let before = if number == 0 { before } else { 0 };
            let place = *start..*start + before + u64::from(*segments) * u64::from(BLOCKS_PER_SEGMENT);
            *start = place.end;
            Some(place)
        })
    }

    /// Block size in bytes.
    #[inline]
    pub const fn block_size(&self) -> usize {
        1 << self.log_block_size
    }

    /// The base-2 logarithm of the block size.
    pub const fn log_block_size(&self) -> u32 {
        self.log_block_size
    }

    /// Blocks in one copy of the NAT.
    pub const fn nat_blocks(&self) -> u32 {
        self.nat_segments / 2 * BLOCKS_PER_SEGMENT
    }

    /// Blocks in one copy of the SIT.
    pub const fn sit_blocks(&self) -> u32 {
        self.sit_segments / 2 * BLOCKS_PER_SEGMENT
    }

    /// The first nid without an entry in the NAT.
    pub fn nid_end(&self) -> u64 {
        u64::from(self.nat_blocks()) * self.nat_entries() as u64
    }

    /// The NAT block that holds a node's entry, and the entry's index in it; `None` for a nid
    /// outside the NAT.
    pub fn nat_block(&self, nid: NodeId) -> Option<(u32, usize)> {
        let entries = self.nat_entries() as u32;
        let (block, index) = (nid.0 / entries, nid.0 % entries);
        (block < self.nat_blocks()).then_some((block, index as usize))
    }

    /// The address of one copy of a NAT block, below [`Geometry::nat_blocks`]: the copies alternate
    /// by segments (node.h, `current_nat_addr`).
    pub const fn nat_place(&self, block: u32, second: bool) -> BlockAddress {
        let segment = block / BLOCKS_PER_SEGMENT;
        let offset = block % BLOCKS_PER_SEGMENT + if second { BLOCKS_PER_SEGMENT } else { 0 };
        BlockAddress(self.nat_address.wrapping_add(segment.wrapping_mul(2 * BLOCKS_PER_SEGMENT)).wrapping_add(offset))
    }

    /// The SIT block that holds a segment's entry, and the entry's index in it.
    pub const fn sit_block(&self, segment: SegmentIndex) -> (u32, usize) {
        let entries = self.sit_entries() as u32;
        (segment.0 / entries, (segment.0 % entries) as usize)
    }

    /// The address of one copy of a SIT block, below [`Geometry::sit_blocks`]: the copies are
    /// halves of the area.
    pub const fn sit_place(&self, block: u32, second: bool) -> BlockAddress {
        let half = if second { self.sit_blocks() } else { 0 };
        BlockAddress(self.sit_address.wrapping_add(half).wrapping_add(block))
    }

    /// The address of the SSA block with the summary of a segment, below
    /// [`Geometry::main_segments`]. A volume with [`Features::READ_ONLY`] has none.
    pub const fn ssa(&self, segment: SegmentIndex) -> BlockAddress {
        BlockAddress(self.ssa_address.wrapping_add(segment.0 / summaries_per_block(self.features, self.log_block_size)))
    }

    /// Bytes per summary: a whole block, or 4096 with [`Features::PACKED_SSA`].
    pub const fn summary_bytes(&self) -> usize {
        self.block_size() / summaries_per_block(self.features, self.log_block_size) as usize
    }

    /// A segment's summary within its SSA block; empty if the block is too short.
    pub fn summary_in<'a>(&self, segment: SegmentIndex, block: &'a [u8]) -> &'a [u8] {
        let number = segment.0 % summaries_per_block(self.features, self.log_block_size);
        let start = number as usize * self.summary_bytes();
        block.get(start..start + self.summary_bytes()).unwrap_or_default()
    }

    /// The segment and block index of an address in the main area; `None` for any other address.
    /// All addresses from images are checked here.
    #[inline]
    pub fn main(&self, address: BlockAddress) -> Option<(SegmentIndex, u16)> {
        let offset = address.0.checked_sub(self.main_address)?;
        let segment = offset / BLOCKS_PER_SEGMENT;
        (segment < self.main_segments).then_some((SegmentIndex(segment), (offset % BLOCKS_PER_SEGMENT) as u16))
    }

    /// The first block of a segment below [`Geometry::main_segments`].
    pub const fn segment_start(&self, segment: SegmentIndex) -> BlockAddress {
        BlockAddress(self.main_address.wrapping_add(segment.0.wrapping_mul(BLOCKS_PER_SEGMENT)))
    }

    /// The first block of the main area.
    pub const fn main_address(&self) -> BlockAddress {
        BlockAddress(self.main_address)
    }

    /// The number of the first block after the main area; 2^32 on a volume of 16 TiB.
    pub const fn main_end(&self) -> u64 {
        self.main_address as u64 + self.main_segments as u64 * BLOCKS_PER_SEGMENT as u64
    }

    /// Addresses per direct node, and nids per indirect node: 1018 in 4 KiB.
    #[inline]
    pub const fn addresses_per_node(&self) -> u16 {
        ((self.block_size() - node::FOOTER_BYTES) / 4) as u16
    }

    /// Entries per NAT block: 455 in 4 KiB.
    pub const fn nat_entries(&self) -> usize {
        self.block_size() / size_of::<NatEntry>()
    }

    /// Entries per SIT block: 55 in 4 KiB.
    pub const fn sit_entries(&self) -> usize {
        self.block_size() / size_of::<SitEntry>()
    }

    /// Slots per directory block: 214 in 4 KiB.
    pub const fn dentries(&self) -> usize {
        DentryRoom::of(self.block_size()).slots
    }

    /// Blocks of nat_bits, at the end of a pack's segment, and bytes of each of the two bitmaps
    /// (node.c, `__get_nat_bitmaps`).
    pub const fn nat_bits_size(&self) -> (u32, usize) {
        let bitmap = self.nat_blocks() as usize / 8;
        ((bitmap * 2 + 8).div_ceil(self.block_size()) as u32, bitmap)
    }

    /// A volume with one segment per table and 100 in the main area.
    #[cfg(test)]
    pub(crate) fn for_tests(block_size: usize) -> Self {
        Self {
            log_block_size: block_size.trailing_zeros(),
            sit_address: 1536,
            nat_address: 2560,
            ssa_address: 3584,
            main_address: 4096,
            checkpoint_address: BlockAddress(512),
            checkpoint_payload: 0,
            block_count: 4096 + 100 * 512,
            segments_per_section: 1,
            sections_per_zone: 1,
            segments: 107,
            sit_segments: 2,
            nat_segments: 2,
            ssa_segments: 1,
            main_segments: 100,
            features: Features(0),
            strict_names: false,
            devices: Vec::new(),
        }
    }
}

fn refused(detail: String) -> Result<(), Defect> {
    Err(Defect::new(FindingKind::Superblock, detail))
}

/// Checks block, sector, section and zone sizes.
fn check_units(superblock: &Superblock) -> Result<(), Defect> {
    let block = superblock.log_block_size.get();
    if !matches!(block, 12..=14) {
        let detail = format!("blocks of 2^{block} bytes; 4 KiB (2^12), 8 KiB and 16 KiB (2^14) can be read");
        return Err(Defect::new(FindingKind::Unsupported, detail));
    }
    if superblock.log_blocks_per_segment.get() != 9 {
        let have = superblock.log_blocks_per_segment.get();
        return refused(format!("2^{have} blocks a segment; expected 2^9"));
    }
    let (sector, sectors) = (superblock.log_sector_size.get(), superblock.log_sectors_per_block.get());
    if !(9..=block).contains(&sector) || sectors.checked_add(sector) != Some(block) {
        return refused(format!("2^{sectors} sectors of 2^{sector} bytes in a block of 2^{block}"));
    }
    let (segments, sections) = (superblock.segments_per_section.get(), superblock.sections_per_zone.get());
    if segments == 0 || sections == 0 {
        return refused(format!("{segments} segments a section and {sections} sections a zone; expected 1 or more"));
    }
    if superblock.section_count.get().checked_mul(segments) != Some(superblock.segment_count_main.get()) {
        return refused(format!(
            "{} sections of {segments} segments in a main area of {} segments",
            superblock.section_count.get(),
            superblock.segment_count_main.get()
        ));
    }
    if sections > superblock.section_count.get() {
        return refused(format!("zones of {sections} sections in a volume of {}", superblock.section_count.get()));
    }
    Ok(())
}

/// Checks that the areas have no gaps, fit in the volume, and are large enough for their content.
fn check_areas(superblock: &Superblock) -> Result<(), Defect> {
    let segments = superblock.segment_count.get();
    if !SEGMENTS.contains(&segments) {
        return refused(format!("{segments} segments; expected {} to {}", SEGMENTS.start(), SEGMENTS.end()));
    }
    if u64::from(segments) > superblock.block_count.get() / u64::from(BLOCKS_PER_SEGMENT) {
        return refused(format!("{segments} segments in {} blocks", superblock.block_count.get()));
    }
    let start = superblock.segment0_address.get();
    let areas = [
        ("checkpoint", superblock.checkpoint_address.get(), superblock.segment_count_checkpoint.get()),
        ("SIT", superblock.sit_address.get(), superblock.segment_count_sit.get()),
        ("NAT", superblock.nat_address.get(), superblock.segment_count_nat.get()),
        ("SSA", superblock.ssa_address.get(), superblock.segment_count_ssa.get()),
        ("main area", superblock.main_address.get(), superblock.segment_count_main.get()),
    ];
    let mut next = u64::from(start);
    for (name, address, segments) in areas {
        if u64::from(address) != next {
            return refused(format!("the {name} begins at block {address:#x}; the area before it ends at {next:#x}"));
        }
        next += u64::from(segments) * u64::from(BLOCKS_PER_SEGMENT);
    }
    let end = u64::from(start) + u64::from(segments) * u64::from(BLOCKS_PER_SEGMENT);
    if next > end || end > 1 << 32 {
        return refused(format!("the main area ends at block {next:#x}, the volume at {end:#x}"));
    }
    let (sit, nat) = (superblock.segment_count_sit.get(), superblock.segment_count_nat.get());
    if superblock.segment_count_checkpoint.get() != 2 || !pair(sit) || !pair(nat) {
        let checkpoint = superblock.segment_count_checkpoint.get();
        return refused(format!(
            "{checkpoint}, {sit} and {nat} segments of checkpoint, SIT and NAT; expected 2, even and even"
        ));
    }
    let main = superblock.segment_count_main.get();
    let per_block = (1u32 << superblock.log_block_size.get()) / size_of::<SitEntry>() as u32;
    if main.div_ceil(per_block) > sit / 2 * BLOCKS_PER_SEGMENT {
        return refused(format!("a SIT of {sit} segments for {main} segments of the main area"));
    }
    let packed = summaries_per_block(superblock.features(), superblock.log_block_size.get());
    let needed = main.div_ceil(packed).div_ceil(BLOCKS_PER_SEGMENT);
    if !superblock.features().has(Features::READ_ONLY) && needed > superblock.segment_count_ssa.get() {
        let ssa = superblock.segment_count_ssa.get();
        return refused(format!("an SSA of {ssa} segments for {main} segments of the main area"));
    }
    Ok(())
}

/// The number of segments that share an SSA block (f2fs-tools g-dev-test, fsck/f2fs.h,
/// `SUMS_PER_BLOCK`).
const fn summaries_per_block(features: Features, log_block_size: u32) -> u32 {
    if features.has(Features::PACKED_SSA) { (1 << log_block_size) / SUMMARY_BYTES_MIN } else { 1 }
}

const fn pair(segments: u32) -> bool {
    segments > 0 && segments.is_multiple_of(2)
}

/// Checks extensions, payload, reserved numbers and devices.
fn check_lists(superblock: &Superblock) -> Result<(), Defect> {
    let (cold, hot) = (superblock.extension_count.get(), u32::from(superblock.hot_extension_count));
    if cold.saturating_add(hot) > EXTENSIONS_MAX as u32 {
        return refused(format!("{cold} cold and {hot} hot extensions; at most {EXTENSIONS_MAX} together"));
    }
    let payload = superblock.checkpoint_payload.get();
    if payload >= PAYLOAD_LIMIT {
        return refused(format!("{payload} blocks of checkpoint payload; expected less than {PAYLOAD_LIMIT}"));
    }
    let reserved = [superblock.root_ino.get(), superblock.node_ino.get(), superblock.meta_ino.get()];
    if reserved != [NodeId::ROOT.0, NodeId::NODES.0, NodeId::META.0] {
        return refused(format!("reserved inodes {reserved:?}; expected [3, 1, 2]"));
    }
    let devices = device_segments(superblock);
    let sum: u64 = devices.iter().map(|&segments| u64::from(segments)).sum();
    if !devices.is_empty() && sum != u64::from(superblock.segment_count.get()) {
        return refused(format!(
            "devices of {sum} segments together; the volume has {}",
            superblock.segment_count.get()
        ));
    }
    Ok(())
}

/// Segments of the devices whose path is not empty.
fn device_segments(superblock: &Superblock) -> Vec<u32> {
    let named = superblock.devices.iter().take(DEVICES_MAX).take_while(|device| device.path.first() != Some(&0));
    named.map(|device| device.segments.get()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_nat_and_sit_lie_as_the_format_says() {
        let geometry = Geometry { nat_segments: 6, ..Geometry::for_tests(4096) };
        assert_eq!(geometry.nat_place(5, false).0, 2560 + 5);
        assert_eq!(geometry.nat_place(5, true).0, 2560 + 5 + 512);
        // 2 k - k mod 512 (f2fs.md, "NAT").
        assert_eq!(geometry.nat_place(515, false).0, 2560 + 2 * 515 - 3);
        assert_eq!(geometry.sit_place(7, true).0, 1536 + 512 + 7);
        assert_eq!(geometry.nat_block(NodeId(455 * 3 + 1)), Some((3, 1)));
        assert_eq!(geometry.nat_block(NodeId(455 * 1536)), None);
        assert_eq!(geometry.nat_block(NodeId(455 * 1536 - 1)), Some((1535, 454)));
    }

    #[test]
    fn only_addresses_of_the_main_area_pass() {
        let geometry = Geometry::for_tests(4096);
        assert_eq!(geometry.main(BlockAddress(4096 + 513)), Some((SegmentIndex(1), 1)));
        for outside in [0, 4095, 4096 + 100 * 512, u32::MAX - 2] {
            assert_eq!(geometry.main(BlockAddress(outside)), None);
        }
        assert_eq!((geometry.addresses_per_node(), geometry.dentries()), (1018, 214));
        let packed = Geometry { features: Features::PACKED_SSA, ..Geometry::for_tests(16384) };
        assert_eq!((packed.ssa(SegmentIndex(7)).0, packed.summary_bytes()), (3584 + 1, 4096));
        let block: Vec<u8> = (0..4).flat_map(|number| [number; 4096]).collect();
        assert_eq!(packed.summary_in(SegmentIndex(7), &block), [3; 4096]);
        assert_eq!(packed.summary_in(SegmentIndex(7), &block[..16383]), [0; 0]);
        let large = Geometry::for_tests(16384);
        assert_eq!((large.ssa(SegmentIndex(7)).0, large.summary_bytes()), (3584 + 7, 16384));
        assert_eq!((large.addresses_per_node(), large.nat_entries(), large.sit_entries()), (4090, 1820, 221));
    }
}
