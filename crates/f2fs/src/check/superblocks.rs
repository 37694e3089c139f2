//! Checks both superblocks.

use nandkit_block::BlockDevice;
use nandkit_units::{Area, Cause, Context};

use super::report::{Draft, WHOLE_VOLUME};
use crate::device::Devices;
use crate::findings::FindingKind;
use crate::ids::NodeId;
use crate::layout::superblock::SUPERBLOCK_OFFSET;
use crate::layout::{Features, Superblock};
use zerocopy::IntoBytes;

/// The encoding of names in casefolded directories; Linux knows no other (super.c,
/// `f2fs_sb_encoding_map`).
const UTF8: u16 = 1;

/// A superblock with its own fields repaired as far as possible.
pub(super) fn mended(superblock: &Superblock) -> Superblock {
    let mut mended = superblock.clone();
    if superblock.features().has(Features::CASEFOLD) {
        mended.encoding = UTF8.into();
    }
    if superblock.features().has(Features::CHECKSUM) {
        mended.checksum = mended.computed_checksum().into();
    }
    mended
}

/// Removes quota files from a superblock: a kind without a file is not counted (super.c,
/// `f2fs_enable_quotas`).
pub(super) fn forget_quotas(superblock: &mut Superblock, inodes: &[NodeId]) {
    for field in &mut superblock.quota_inodes {
        if inodes.contains(&NodeId(field.get())) {
            *field = 0.into();
        }
    }
}

/// The superblock at a byte of the volume, without any check.
fn at<D: BlockDevice>(devices: &Devices<D>, byte: u64) -> Option<Superblock> {
    let mut block = vec![0; SUPERBLOCK_OFFSET + size_of::<Superblock>()];
    let context = Context::default().for_cause(Cause::Metadata).in_area(Area::Metadata);
    devices.read(context, byte + SUPERBLOCK_OFFSET as u64, block.get_mut(SUPERBLOCK_OFFSET..)?).ok()?;
    Superblock::of_block(&block)
}

/// Whether anything shows that either superblock existed; then a problem is damage rather than
/// another format.
pub(super) fn any<D: BlockDevice>(devices: &Devices<D>) -> bool {
    let magic = crate::layout::MAGIC;
    [0, 4096, 8192, 16384].into_iter().any(|byte| at(devices, byte).is_some_and(|found| found.magic.get() == magic))
}

/// Compares the copies, and checks the one in use.
pub(super) fn check<D: BlockDevice>(devices: &Devices<D>, used: &Superblock, report: &mut Draft) {
    let block = 1_u64 << used.log_block_size.get().min(14);
    let (first, second) = (at(devices, 0), at(devices, block));
    // An invalid copy was already reported.
    let whole = |copy: &Superblock| {
        let mut told = 0;
        crate::layout::Geometry::from_superblock(copy, &mut |finding| {
            told += u32::from(finding.kind != FindingKind::Unsupported);
        })
        .is_some()
            && told == 0
    };
    if let (Some(first), Some(second)) = (first, second)
        && whole(&first)
        && whole(&second)
        && let Some(place) = first.as_bytes().iter().zip(second.as_bytes()).position(|(one, other)| one != other)
    {
        report.fault(FindingKind::Superblock, WHOLE_VOLUME, || {
            format!("the two superblocks differ, first at byte {place}")
        });
    }
    check_features(used, report);
}

/// Reports contradictions within a superblock.
pub(super) fn check_features(used: &Superblock, report: &mut Draft) {
    let features = used.features();
    let encoding = used.encoding.get();
    if features.has(Features::CASEFOLD) && encoding != UTF8 {
        report.fault(FindingKind::Superblock, WHOLE_VOLUME, || {
            format!("names without case in encoding {encoding}; expected 1, UTF-8 of Unicode 12.1")
        });
    }
    let needing = [
        Features::PROJECT_QUOTA,
        Features::INODE_CHECKSUM,
        Features::FLEXIBLE_INLINE_XATTR,
        Features::CREATION_TIME,
        Features::COMPRESSION,
    ];
    if !features.has(Features::EXTRA_ATTRIBUTES) && needing.iter().any(|feature| features.has(*feature)) {
        report.fault(FindingKind::Superblock, WHOLE_VOLUME, || {
            format!("the features {features}, one of which needs extra_attr")
        });
    }
    if used.stop_reasons.iter().any(|&count| count != 0) || used.errors.iter().any(|&bits| bits != 0) {
        report.harmless(FindingKind::State, WHOLE_VOLUME, || {
            let stops = used.stop_reasons().into_iter().map(|(reason, count)| format!("{reason} ({count})"));
            let told: Vec<String> = stops.chain(used.errors()).collect();
            format!("the superblock records errors that Linux found on this volume: {}", told.join(", "))
        });
    }
}
