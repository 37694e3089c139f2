//! Mounting for writing, and the reasons to refuse it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use nandkit_block::BlockDevice;
use nandkit_units::Clock;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::idle::Idle;
use super::since_checkpoint::SinceCheckpoint;
use super::{Cleaners, WritableVolume, WriteOptions, Writer};
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::counters::Recovered;
use crate::counters::{Counters, Published};
use crate::device::WritableBlocks;
use crate::findings::FindingKind;
use crate::ids::NodeId;
use crate::layout::checkpoint::flag;
use crate::layout::{Features, Geometry};
use crate::nids::Nids;
use crate::open::{self, Opened};
use crate::pages::Pages;
use crate::quota::usage::Quotas;
use crate::segments::Segments;
use crate::segments::sit::Sit;
use crate::segments::sit_table::SitTable;

/// Why this program cannot write a volume that it can read; `None` if it can. Linux does not check
/// for unknown features, so a writer has to.
pub fn obstacle(geometry: &Geometry, state: &CheckpointState) -> Option<String> {
    let features = geometry.features;
    for (feature, why) in [
        (Features::READ_ONLY, "it was made to be read only: it has no summaries and no spare blocks"),
        (Features::ZONED, "it is on zoned devices, which are written zone by zone"),
        (Features::DEVICE_ALIAS, "its files may be aliases of whole devices"),
        (Features::PACKED_SSA, "its summaries are packed"),
    ] {
        if features.has(feature) {
            return Some(format!("{why} (feature {feature})"));
        }
    }
    if features.unknown() != 0 {
        return Some(format!("it has features without a known name: {:#x}", features.unknown()));
    }
    if geometry.block_size() != 4096 {
        return Some(format!(
            "its blocks have {} bytes; only blocks of 4096 bytes can be written",
            geometry.block_size()
        ));
    }
    for (bit, why) in [
        (flag::ERROR, "an error stopped its checkpoints; fsck.f2fs or a repair comes first"),
        (flag::DISABLED, "its checkpoints are disabled"),
        (flag::RESIZING, "a resize was in progress"),
    ] {
        if state.head.has(bit) {
            return Some(why.into());
        }
    }
    None
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Mounts a volume for writing. After an unclean unmount it recovers first and ends that with a
    /// checkpoint; otherwise the mount writes nothing.
    ///
    /// Errors: `NotSupported` if the volume can only be read ([`obstacle`]) or the device's sectors
    /// are too small; `Corrupt`, `InvalidArgument`, `Device`. Cost: reads superblocks, packs and
    /// the SIT; after an unclean unmount also the segments of the node logs; if the checkpoint
    /// marks quota files as untrusted, every inode.
    pub fn mount(devices: Vec<D>, clock: Clock, options: WriteOptions) -> Result<Self> {
        let mut notes = Vec::new();
        let opened = open::open(devices, clock, &mut |finding| notes.push(finding))?;
        Self::from_opened(opened, options, notes)
    }

    /// Like [`WritableVolume::mount`], for an opened volume whose findings are `notes`.
    pub(crate) fn from_opened(opened: Opened<D>, options: WriteOptions, mut notes: Vec<crate::Defect>) -> Result<Self> {
        let refused =
            |why: String| FsError::new(ErrorKind::NotSupported, format!("the volume cannot be written: {why}"));
        if let Some(why) = obstacle(&opened.blocks.geometry, &opened.state) {
            return Err(refused(why));
        }
        notes.retain(|finding| finding.kind != FindingKind::NotReplayed);
        let mut volume = Self::assemble(opened, options, notes)?;
        volume.open_quotas();
        volume.writer.recovered = volume.recover()?;
        if volume.untrusted_quotas().is_some() {
            volume.begin_anew()?;
        }
        volume.renew_quotas();
        Ok(volume)
    }

    fn assemble(opened: Opened<D>, options: WriteOptions, mut notes: Vec<crate::Defect>) -> Result<Self> {
        let Opened { blocks, superblock, superblock_copy, state, pack, checksum } = opened;
        let device = WritableBlocks::new(blocks, options.atomicity, &mut |finding| notes.push(finding))?;
        let device = device.with_depth(options.depth);
        let trimmed = state.head.has(flag::TRIMMED);
        let sit = Sit::read(&device, &state, trimmed, &mut |finding| notes.push(finding))?;
        let mut segments = Segments::open(&device, &state, sit)?;
        segments.options.lfs = options.lfs;
        segments.options.own_gaps = options.own_gaps;
        segments.options.plugs_holes = options.plugs_holes;
        segments.options.aged_gaps = options.aged_gaps;
        expect_counts(&segments)?;
        let names = super::names::state_of(&superblock, &state, options.making);
        let quotas = Quotas::new(superblock.quota_inodes.map(|field| NodeId(field.get())));
        let writer = Writer {
            checksum,
            sit: SitTable::new(state.sit_map.clone(), &state.sit_journal),
            nids: Nids::new(NodeId(state.head.next_free_nid.get())),
            pages: Mutex::new(Pages::new(options.pages)),
            orphans: BTreeSet::new(),
            since_checkpoint: SinceCheckpoint::new(options.strict_fsync),
            uncleared: BTreeSet::new(),
            drafts: BTreeMap::new(),
            names,
            quotas,
            counters: Counters::default(),
            published: Published::default(),
            cleaners: Cleaners::linux(&segments, state.head.elapsed_seconds.get()),
            lazy_times: Default::default(),
            moved_files: None,
            mapped: Vec::new(),
            reads: None,
            gather: None,
            idle: Idle::new(device.now()),
            segments,
            mounted_at: device.now(),
            elapsed_at_mount: state.head.elapsed_seconds.get(),
            options,
            written_blocks: 0,
            counted_blocks: 0,
            recovering: false,
            has_checkpoint: false,
            failed_places: BTreeSet::new(),
            stopped: None,
            recovered: Recovered::default(),
        };
        let (superblock, checkpoint) = ((superblock, superblock_copy), (state, pack));
        let volume = Self::new(device, superblock, checkpoint, [options.cached_blocks; 2], notes, writer);
        volume.inode_at(NodeId::ROOT)?;
        Ok(volume)
    }

    /// The blocks that users may have, which `statfs` shows as the total.
    pub fn user_blocks(&self) -> u64 {
        self.writer.segments.space.user_blocks.min(self.geometry().block_count)
    }
}

/// Refuses a SIT that claims more blocks than the checkpoint counts, or another number of nodes
/// (segment.c, `build_sit_entries`, refuses such volumes too).
fn expect_counts(segments: &Segments) -> Result<()> {
    let sit = segments.sit();
    let nodes: u64 = (0..sit.segments())
        .map(crate::ids::SegmentIndex)
        .filter(|&segment| sit.kind(segment).is_node())
        .map(|segment| u64::from(sit.valid(segment)))
        .sum();
    let space = &segments.space;
    if nodes != u64::from(space.valid_nodes) || sit.total_valid() > space.valid_blocks {
        let detail = format!(
            "the SIT has {nodes} nodes among {} valid blocks; the checkpoint counts {} and {}",
            sit.total_valid(),
            space.valid_nodes,
            space.valid_blocks
        );
        return Err(FsError::new(ErrorKind::Corrupt, detail));
    }
    Ok(())
}
