//! The shape of a volume, from its superblock.

use std::ops::Range;

use super::superblock::{DEVICES_MAX, EXTENSIONS_MAX, Features, Superblock};
use super::{BLOCKS_PER_SEGMENT, DentryRoom, MAGIC, NatEntry, SitEntry, node};
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::{BlockAddress, NodeId, SegmentIndex};

/// Fewest and most segments of a volume (f2fs_fs.h, F2FS_MIN_SEGMENTS, F2FS_MAX_SEGMENT).
const SEGMENTS: std::ops::RangeInclusive<u32> = 9..=8_388_608;
/// The payload is smaller: packs have 512 blocks, and the others of them need eight (super.c,
/// `sanity_check_raw_super`).
const PAYLOAD_LIMIT: u32 = BLOCKS_PER_SEGMENT - 8;
/// Bytes of a summary that shares a block with others.
const SUMMARY_BYTES_MIN: u32 = 4096;

/// The shape of a volume. All areas lie one behind the other below address 2^32; whether the device
/// is as long is its reader's to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    log_block_size: u32,
    sit_address: u32,
    nat_address: u32,
    ssa_address: u32,
    main_address: u32,
    /// Address of the first checkpoint pack; the second is a segment on.
    pub checkpoint_address: BlockAddress,
    /// Checkpoint blocks behind the first that hold bitmaps.
    pub checkpoint_payload: u32,
    /// Blocks of all devices.
    pub block_count: u64,
    /// Segments of a section.
    pub segments_per_section: u32,
    /// Sections of a zone.
    pub sections_per_zone: u32,
    /// All segments from segment 0 on.
    pub segments: u32,
    /// Segments of the SIT, both copies.
    pub sit_segments: u32,
    /// Segments of the NAT, both copies.
    pub nat_segments: u32,
    /// Segments of the SSA.
    pub ssa_segments: u32,
    /// Segments of the main area.
    pub main_segments: u32,
    /// What the volume may hold.
    pub features: Features,
    /// Directories without case hold no names that cannot be folded.
    pub strict_names: bool,
    /// Segments of each device; empty for one device.
    pub devices: Vec<u32>,
}

/// Of the encoding's flags.
const STRICT: u16 = 1;

impl Geometry {
    /// Checks a superblock as Linux does (super.c, `sanity_check_raw_super`,
    /// `sanity_check_area_boundary`) and takes the shape from it.
    ///
    /// `None` where no shape can be had; a finding says why. A wrong checksum and features without
    /// a name are found, and the shape is returned nevertheless.
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

    /// The shape of a volume of which no superblock is left: blocks of `1 << log_block_size` bytes,
    /// any of the first `block_count` but the very first may hold a node or data, and no table has
    /// a place.
    pub(crate) fn without_superblock(log_block_size: u32, block_count: u64, features: Features) -> Self {
        // Behind the last whole segment of 2^32 blocks no address reaches.
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

    /// The blocks of each device; nothing for a volume on one. The first device also has the
    /// superblocks, which stand before all segments (super.c, `f2fs_scan_devices`).
    pub fn device_blocks(&self) -> impl Iterator<Item = Range<u64>> {
        let before = u64::from(self.checkpoint_address.0);
        self.devices.iter().enumerate().scan(0_u64, move |start, (number, segments)| {
            let before = if number == 0 { before } else { 0 };
            let place = *start..*start + before + u64::from(*segments) * u64::from(BLOCKS_PER_SEGMENT);
            *start = place.end;
            Some(place)
        })
    }

    /// Bytes of a block.
    #[inline]
    pub const fn block_size(&self) -> usize {
        1 << self.log_block_size
    }

    /// The block size as a power of two.
    pub const fn log_block_size(&self) -> u32 {
        self.log_block_size
    }

    /// Blocks of one copy of the NAT.
    pub const fn nat_blocks(&self) -> u32 {
        self.nat_segments / 2 * BLOCKS_PER_SEGMENT
    }

    /// Blocks of one copy of the SIT.
    pub const fn sit_blocks(&self) -> u32 {
        self.sit_segments / 2 * BLOCKS_PER_SEGMENT
    }

    /// The first nid that the NAT has no entry for.
    pub fn nid_end(&self) -> u64 {
        u64::from(self.nat_blocks()) * self.nat_entries() as u64
    }

    /// The block of the NAT with a node's entry, and the entry's index there; `None` for a nid that
    /// the NAT has no room for.
    pub fn nat_block(&self, nid: NodeId) -> Option<(u32, usize)> {
        let entries = self.nat_entries() as u32;
        let (block, index) = (nid.0 / entries, nid.0 % entries);
        (block < self.nat_blocks()).then_some((block, index as usize))
    }

    /// The place of one copy of a NAT block below [`Geometry::nat_blocks`]: the copies alternate by
    /// segments (node.h, `current_nat_addr`).
    pub const fn nat_place(&self, block: u32, second: bool) -> BlockAddress {
        let segment = block / BLOCKS_PER_SEGMENT;
        let offset = block % BLOCKS_PER_SEGMENT + if second { BLOCKS_PER_SEGMENT } else { 0 };
        BlockAddress(self.nat_address.wrapping_add(segment.wrapping_mul(2 * BLOCKS_PER_SEGMENT)).wrapping_add(offset))
    }

    /// The block of the SIT with a segment's entry, and the entry's index there.
    pub const fn sit_block(&self, segment: SegmentIndex) -> (u32, usize) {
        let entries = self.sit_entries() as u32;
        (segment.0 / entries, (segment.0 % entries) as usize)
    }

    /// The place of one copy of a SIT block below [`Geometry::sit_blocks`]: the copies are halves
    /// of the area.
    pub const fn sit_place(&self, block: u32, second: bool) -> BlockAddress {
        let half = if second { self.sit_blocks() } else { 0 };
        BlockAddress(self.sit_address.wrapping_add(half).wrapping_add(block))
    }

    /// The block of the SSA with the summary of a segment below [`Geometry::main_segments`]. A
    /// volume with [`Features::READ_ONLY`] has none.
    pub const fn ssa(&self, segment: SegmentIndex) -> BlockAddress {
        BlockAddress(self.ssa_address.wrapping_add(segment.0 / summaries_per_block(self.features, self.log_block_size)))
    }

    /// Bytes of a summary: those of a block, and 4096 with [`Features::PACKED_SSA`].
    pub const fn summary_bytes(&self) -> usize {
        self.block_size() / summaries_per_block(self.features, self.log_block_size) as usize
    }

    /// The summary of a segment within the SSA's block; empty where that is too short.
    pub fn summary_in<'a>(&self, segment: SegmentIndex, block: &'a [u8]) -> &'a [u8] {
        let number = segment.0 % summaries_per_block(self.features, self.log_block_size);
        let start = number as usize * self.summary_bytes();
        block.get(start..start + self.summary_bytes()).unwrap_or_default()
    }

    /// Segment and block within it of an address of the main area; `None` for any other: the door
    /// for addresses from images.
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

    /// The number of the first block behind the main area: behind all addresses where a volume has
    /// 16 TiB.
    pub const fn main_end(&self) -> u64 {
        self.main_address as u64 + self.main_segments as u64 * BLOCKS_PER_SEGMENT as u64
    }

    /// Addresses of a direct node, and nids of an indirect one: 1018 in 4 KiB.
    #[inline]
    pub const fn addresses_per_node(&self) -> u16 {
        ((self.block_size() - node::FOOTER_BYTES) / 4) as u16
    }

    /// Entries of a NAT block: 455 in 4 KiB.
    pub const fn nat_entries(&self) -> usize {
        self.block_size() / size_of::<NatEntry>()
    }

    /// Entries of a SIT block: 55 in 4 KiB.
    pub const fn sit_entries(&self) -> usize {
        self.block_size() / size_of::<SitEntry>()
    }

    /// Slots of a directory's block: 214 in 4 KiB.
    pub const fn dentries(&self) -> usize {
        DentryRoom::of(self.block_size()).slots
    }

    /// Blocks of nat_bits, at the end of a pack's segment, and bytes of each of its two bitmaps
    /// (node.c, `__get_nat_bitmaps`).
    pub const fn nat_bits_size(&self) -> (u32, usize) {
        let bitmap = self.nat_blocks() as usize / 8;
        ((bitmap * 2 + 8).div_ceil(self.block_size()) as u32, bitmap)
    }

    /// A volume of one segment of each table and 100 of the main area.
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

/// Block, sector, section and zone.
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

/// The areas: without gaps, within the volume, and large enough for what they describe.
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
            "{checkpoint}, {sit} and {nat} segments of checkpoint, SIT and NAT; expected 2 and even numbers"
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

/// How many segments share a block of the SSA (f2fs-tools g-dev-test, fsck/f2fs.h,
/// `SUMS_PER_BLOCK`).
const fn summaries_per_block(features: Features, log_block_size: u32) -> u32 {
    if features.has(Features::PACKED_SSA) { (1 << log_block_size) / SUMMARY_BYTES_MIN } else { 1 }
}

const fn pair(segments: u32) -> bool {
    segments > 0 && segments.is_multiple_of(2)
}

/// Extensions, payload, reserved numbers, devices.
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
