//! The end of a build: the index, and the areas in front of the main area.

use nandkit_vfs::Result;
use zerocopy::FromZeros;

use super::index;
use super::lpt_area;
use super::options::{Areas, main_lebs_min};
use super::{BuildOptions, BuildReport, Builder, LebSink};
use crate::encode::{aligned, bytes_of, node, pad};
use crate::layout::{
    HEADER_SIZE, LOG_LEB, MASTER_LEBS, MASTER_NO_ORPHANS, MASTER_SIZE, Master, SUPERBLOCK_LEB, Superblock, flag,
    node_type,
};
use crate::pack::code_of;
use crate::sums::{SpaceLimits, SpaceSums};

/// Bytes of a superblock node.
const SUPERBLOCK_SIZE: usize = 4096;
/// The format that is written: without double hashes or encryption.
const FORMAT: u32 = 4;

impl Builder<'_> {
    /// Writes the index and all areas in front of the main area.
    pub(super) fn finish(mut self, areas: &Areas) -> Result<BuildReport> {
        let options = self.options;
        let gc_leb = self.area.empty()?;
        let mut sequence = self.sequence;
        let mut next = || {
            sequence += 1;
            sequence
        };
        let written = index::write(&mut self.leaves, options.fanout, &mut self.area, &mut next)?;
        let index_head = self.area.pad_head();
        self.area.close()?;
        while self.area.head().0 < areas.main_first + main_lebs_min() {
            self.area.empty()?;
        }
        let leb_count = self.area.head().0;
        let (properties, sink) = self.area.finish();
        let geometry = options.lpt(areas, leb_count);
        let lpt_first = areas.main_first - areas.lpt_lebs;
        // The orphans' area comes between the tree and the main area.
        let lpt_first = lpt_first - options.orphan_lebs;
        let lpt = lpt_area::write(&geometry, options, &properties, lpt_first, areas.main_first, sink)?;
        let limits = SpaceLimits::new(options.leb_size, options.min_io_size);
        let sums = SpaceSums::of(&properties, limits);
        let mut master = Master::new_zeroed();
        master.highest_inode.set(self.highest.into());
        master.flags.set(MASTER_NO_ORPHANS);
        master.log_leb.set(LOG_LEB);
        (master.root_leb, master.root_offset) = (written.root.leb.into(), written.root.offset.into());
        master.root_length.set(written.root.length);
        master.gc_leb.set(gc_leb);
        (master.index_head_leb, master.index_head_offset) = (index_head.0.into(), index_head.1.into());
        master.index_size.set(written.bytes);
        master.scan_leb.set(areas.main_first);
        master.leb_count.set(leb_count);
        sums.enter(&mut master);
        lpt.enter(&mut master);
        front(options, areas, leb_count, &master, &mut next, sink)?;
        let report = BuildReport { index_bytes: written.bytes, leb_count, ..self.report };
        Ok(BuildReport { leb_count_max: options.leb_count_max, leb_size: options.leb_size, ..report })
    }
}

/// Writes superblock, master nodes and log. The start of the commit is the newest node, so that
/// nothing is replayed.
fn front(
    options: &BuildOptions,
    areas: &Areas,
    leb_count: u32,
    master: &Master,
    next: &mut dyn FnMut() -> u64,
    sink: &mut dyn LebSink,
) -> Result<()> {
    let mut put = |leb: u32, node_type: u8, body: &[u8], size: usize| {
        let mut bytes = Vec::new();
        let rest = vec![0; size.saturating_sub(HEADER_SIZE + body.len())];
        node(node_type, next(), &[body, &rest], &mut bytes);
        let end = aligned(bytes.len()).next_multiple_of(options.min_io_size as usize);
        pad(&mut bytes, end);
        sink.put(leb, &bytes)
    };
    let superblock = superblock(options, areas, leb_count);
    put(SUPERBLOCK_LEB, node_type::SUPERBLOCK, bytes_of(&superblock), SUPERBLOCK_SIZE)?;
    for leb in MASTER_LEBS {
        put(leb, node_type::MASTER, bytes_of(master), MASTER_SIZE)?;
    }
    // The number of the first commit.
    put(LOG_LEB, node_type::COMMIT_START, &0_u64.to_le_bytes(), 0)
}

fn superblock(options: &BuildOptions, areas: &Areas, leb_count: u32) -> Superblock {
    let big = if areas.is_lpt_big { flag::BIG_LPT } else { 0 };
    let fixup = if options.space_fixup { flag::SPACE_FIXUP } else { 0 };
    Superblock {
        padding: [0; 2],
        key_hash: 0,
        key_format: 0,
        flags: (big | fixup).into(),
        min_io_size: options.min_io_size.into(),
        leb_size: options.leb_size.into(),
        leb_count: leb_count.into(),
        leb_count_max: options.leb_count_max.into(),
        bud_bytes_max: areas.bud_bytes_max.into(),
        log_lebs: areas.log_lebs.into(),
        lpt_lebs: areas.lpt_lebs.into(),
        orphan_lebs: options.orphan_lebs.into(),
        journal_heads: 1.into(),
        fanout: options.fanout.into(),
        lsave_count: super::options::SAVED.into(),
        format: FORMAT.into(),
        compression: code_of(options.compression).into(),
        padding1: [0; 2],
        reserved_uid: 0.into(),
        reserved_gid: 0.into(),
        reserved_size: options.reserved_size.into(),
        time_step_ns: 1.into(),
        uuid: options.uuid,
        read_only_format: 0.into(),
    }
}
