//! Builds the superblock of a new volume.

use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use super::MkfsOptions;
use super::geometry::NewGeometry;
use crate::ids::NodeId;
use crate::layout::superblock::SUPERBLOCK_OFFSET;
use crate::layout::{Features, Geometry, Superblock};

/// The version of mkfs.f2fs that new volumes match (`major_ver`, `minor_ver`).
const TOOLS_VERSION: (u16, u16) = (1, 15);
const LOG_BLOCK_SIZE: u32 = 12;
/// The offset of the checksum.
const CHECKSUM_OFFSET: u32 = (size_of::<Superblock>() - 4) as u32;
/// The encoding UTF-8 of Unicode 12.1 (`s_encoding`).
const UTF8: u16 = 1;

/// The features for the superblock: with project quotas, mkfs.f2fs also sets the feature for user
/// and group quotas, whose inodes stay 0.
fn recorded_features(asked: Features) -> Features {
    if asked.has(Features::PROJECT_QUOTA) { asked.with(Features::QUOTA_INODES) } else { asked }
}

/// The superblock, and the geometry that a reader derives from it. `quotas`: the quota files'
/// inodes by kind.
pub fn superblock(new: &NewGeometry, options: &MkfsOptions, quotas: [NodeId; 3]) -> Result<(Superblock, Geometry)> {
    let mut superblock = Superblock::empty();
    set_shape(&mut superblock, new, options);
    superblock.uuid = options.uuid;
    for (to, unit) in superblock.volume_name.iter_mut().zip(options.label.encode_utf16()) {
        *to = unit.into();
    }
    let (cold, hot) = options.extensions();
    superblock.extension_count = (cold.len() as u32).into();
    superblock.hot_extension_count = hot.len() as u8;
    for (to, name) in superblock.extensions.iter_mut().zip(cold.iter().chain(&hot)) {
        copy(to, name.as_bytes());
    }
    // Leave room for a NUL.
    for version in [&mut superblock.version, &mut superblock.initial_version] {
        copy(version, options.maker.as_bytes().get(..255).unwrap_or(options.maker.as_bytes()));
    }
    superblock.features = recorded_features(options.features).0.into();
    superblock.quota_inodes = quotas.map(|inode| inode.0.into());
    if let Some(strict) = options.encoding {
        (superblock.encoding, superblock.encoding_flags) = (UTF8.into(), u16::from(strict).into());
    }
    if options.features.has(Features::CHECKSUM) {
        superblock.checksum_offset = CHECKSUM_OFFSET.into();
        superblock.checksum = superblock.computed_checksum().into();
    }
    let mut found = None;
    let geometry = Geometry::from_superblock(&superblock, &mut |finding| found = Some(finding));
    match (geometry, found) {
        (Some(geometry), None) => Ok((superblock, geometry)),
        (_, Some(finding)) => Err(finding.into_error()),
        (None, None) => Err(FsError::new(ErrorKind::InvalidArgument, "no volume can have this geometry")),
    }
}

fn set_shape(superblock: &mut Superblock, new: &NewGeometry, options: &MkfsOptions) {
    // Every count is below 2^32, since a volume has at most 2^32 blocks.
    let field = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).into();
    (superblock.major_version, superblock.minor_version) = (TOOLS_VERSION.0.into(), TOOLS_VERSION.1.into());
    let log_sector = options.sector_size.trailing_zeros();
    superblock.log_sector_size = log_sector.into();
    superblock.log_sectors_per_block = (LOG_BLOCK_SIZE - log_sector.min(LOG_BLOCK_SIZE)).into();
    superblock.log_block_size = LOG_BLOCK_SIZE.into();
    superblock.log_blocks_per_segment = 9.into();
    superblock.segments_per_section = options.segments_per_section.into();
    superblock.sections_per_zone = options.sections_per_zone.into();
    superblock.block_count = new.block_count.into();
    superblock.section_count = field(new.sections);
    superblock.segment_count = field(new.segments);
    superblock.segment_count_checkpoint = 2.into();
    superblock.segment_count_sit = field(new.sit);
    superblock.segment_count_nat = field(new.nat);
    superblock.segment_count_ssa = field(new.ssa);
    superblock.segment_count_main = field(new.main);
    superblock.segment0_address = field(new.segment0_address);
    superblock.checkpoint_address = field(new.segment0_address);
    let sit = new.segment0_address + 2 * 512;
    superblock.sit_address = field(sit);
    superblock.nat_address = field(sit + new.sit * 512);
    superblock.ssa_address = field(sit + (new.sit + new.nat) * 512);
    superblock.main_address = field(new.main_address());
    superblock.checkpoint_payload = field(new.checkpoint_payload);
    (superblock.root_ino, superblock.node_ino, superblock.meta_ino) =
        (NodeId::ROOT.0.into(), NodeId::NODES.0.into(), NodeId::META.0.into());
}

fn copy(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// The block that contains a superblock.
pub fn block(superblock: &Superblock) -> Vec<u8> {
    let mut block = vec![0; 1 << LOG_BLOCK_SIZE];
    if let Some(place) = block.get_mut(SUPERBLOCK_OFFSET..) {
        copy(place, superblock.as_bytes());
    }
    block
}
