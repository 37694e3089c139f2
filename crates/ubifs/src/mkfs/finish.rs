//! A volume that is made: its nodes, then the index and the areas in front of the main area.

use nandkit_vfs::Result;
use zerocopy::FromZeros;

use super::index;
use super::index::Leaf;
use super::lpt_area;
use super::main_area::MainArea;
use super::options::{Areas, main_lebs_min};
use super::{BuildOptions, LebSink};
use crate::encode::{aligned, bytes_of, node, number, pad};
use crate::layout::{
    HEADER_SIZE, Key, LOG_LEB, MASTER_LEBS, MASTER_NO_ORPHANS, MASTER_SIZE, Master, SUPERBLOCK_LEB, Superblock, flag,
    group, node_type,
};
use crate::pack::code_of;
use crate::sums::{SpaceLimits, SpaceSums};

/// Bytes of a superblock node.
const SUPERBLOCK_SIZE: usize = 4096;
/// The format that is written: without double hashes or encryption.
const FORMAT: u32 = 4;

/// What the superblock of a volume says besides its options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// The hash of names.
    pub key_hash: u8,
    /// Flags besides those that follow from the options.
    pub flags: u32,
    /// Version of the format.
    pub format: u32,
    /// User and group of the reserved space.
    pub reserved_for: (u32, u32),
}

impl Default for Identity {
    fn default() -> Self {
        Self { key_hash: 0, flags: 0, format: FORMAT, reserved_for: (0, 0) }
    }
}

/// A volume while it is made: nodes come first, whatever their order, [`NewVolume::finish`] last.
pub(crate) struct NewVolume<'a> {
    options: &'a BuildOptions,
    areas: Areas,
    area: MainArea<'a>,
    leaves: Vec<Leaf>,
    sequence: u64,
    /// The highest number of an inode.
    pub highest: u32,
}

impl<'a> NewVolume<'a> {
    /// A volume with these options, which were checked.
    pub fn new(options: &'a BuildOptions, sink: &'a mut dyn LebSink) -> Self {
        let areas = options.areas();
        let area = MainArea::new(options, sink, areas.main_first);
        Self { options, areas, area, leaves: Vec::new(), sequence: 0, highest: 0 }
    }

    /// The sequence number of the next node.
    pub fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Writes a node that is found by a key, and by a name if it is an entry. Errors: `NoSpace`,
    /// and those of the sink.
    pub fn put(&mut self, key: Key, name: &[u8], node: &[u8]) -> Result<()> {
        let place = self.area.put(node, false)?;
        self.leaves.push(Leaf::new(key, name, place));
        Ok(())
    }

    /// Writes a node of another volume, which gets the next sequence number. Errors: as
    /// [`NewVolume::put`].
    pub fn put_again(&mut self, key: Key, name: &[u8], node: &mut Vec<u8>) -> Result<()> {
        number(node, self.next_sequence(), group::NONE);
        self.put(key, name, node)?;
        node.clear();
        Ok(())
    }

    /// Writes the index and all areas in front of the main area; returns the bytes of the index,
    /// and the number of LEBs. Errors: as [`NewVolume::put`].
    pub fn finish(mut self, identity: &Identity) -> Result<(u64, u32)> {
        let (options, areas) = (self.options, &self.areas);
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
        let superblock = superblock(options, areas, leb_count, identity);
        front(options, &superblock, &master, &mut next, sink)?;
        Ok((written.bytes, leb_count))
    }
}

/// Writes superblock, master nodes and log. The start of the commit is the newest node, so that
/// nothing is replayed.
fn front(
    options: &BuildOptions,
    superblock: &Superblock,
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
    put(SUPERBLOCK_LEB, node_type::SUPERBLOCK, bytes_of(superblock), SUPERBLOCK_SIZE)?;
    for leb in MASTER_LEBS {
        put(leb, node_type::MASTER, bytes_of(master), MASTER_SIZE)?;
    }
    // The number of the first commit.
    put(LOG_LEB, node_type::COMMIT_START, &0_u64.to_le_bytes(), 0)
}

fn superblock(options: &BuildOptions, areas: &Areas, leb_count: u32, identity: &Identity) -> Superblock {
    let big = if areas.is_lpt_big { flag::BIG_LPT } else { 0 };
    let fixup = if options.space_fixup { flag::SPACE_FIXUP } else { 0 };
    Superblock {
        padding: [0; 2],
        key_hash: identity.key_hash,
        key_format: 0,
        flags: (big | fixup | identity.flags).into(),
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
        format: identity.format.into(),
        compression: code_of(options.compression).into(),
        padding1: [0; 2],
        reserved_uid: identity.reserved_for.0.into(),
        reserved_gid: identity.reserved_for.1.into(),
        reserved_size: options.reserved_size.into(),
        time_step_ns: 1.into(),
        uuid: options.uuid,
        read_only_format: 0.into(),
    }
}
