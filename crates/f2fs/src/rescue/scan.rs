//! Finds nodes by the content of their own blocks.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nandkit_block::BlockDevice;
use nandkit_units::{Area, Cause, Clock, Context, Lba};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::blocks::Blocks;
use crate::device::Devices;
use crate::ids::{BlockAddress, NodeId};
use crate::layout::inode::{EXTRA_BYTES_MAX, cluster_pages, computed_checksum, flag};
use crate::layout::{ExtraAttributes, Features, Footer, Geometry, InodeHead, NAME_MAX, NodeOffset, Superblock};
use crate::open::choose_superblock;

/// Blocks per request.
const CHUNK: u64 = 256;
/// The most distinct differences between addresses and positions that are counted; a volume has
/// one.
const SHIFTS_MAX: usize = 1 << 12;
/// Base-2 logarithms of the block sizes that are tried without a superblock.
const LOG_BLOCK_SIZES: [u32; 2] = [12, 14];

/// The newest block of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRecord {
    /// Its address.
    pub at: BlockAddress,
    /// The low half of the checkpoint version in its footer; the high half may be a checksum.
    pub version: u32,
    /// Whether it is unknown which of two blocks of the node is newer.
    pub is_tied: bool,
    /// Whether a newer block of the node is damaged.
    pub is_older: bool,
    /// For inodes: the change time, to order blocks of one checkpoint.
    changed: (u64, u32),
    /// The contiguous piece of a log that contains the block.
    run: u64,
}

/// The blocks of a volume of which possibly only the main area is left.
#[derive(Debug)]
pub(super) struct ScannedBlocks<D> {
    devices: Devices<D>,
    geometry: Geometry,
    /// The difference between addresses and positions on the device, in blocks.
    shift: u64,
    /// The number of blocks on the device.
    count: u64,
}

impl<D: BlockDevice> Blocks for ScannedBlocks<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        let place = u64::from(at.0)
            .checked_sub(self.shift)
            .ok_or_else(|| FsError::new(ErrorKind::Corrupt, format!("{at} is before the start of the image")))?;
        let context = Context::default().for_cause(cause).in_area(Area::Main);
        self.devices.read(context, place << self.geometry.log_block_size(), into)
    }

    fn reaches(&self, at: BlockAddress) -> bool {
        u64::from(at.0).checked_sub(self.shift).is_some_and(|place| place < self.count)
    }
}

/// The result of a pass over all blocks.
#[derive(Debug)]
pub(super) struct Scan<D> {
    /// The blocks.
    pub blocks: ScannedBlocks<D>,
    /// The newest block of each node of each inode, by nid and ino.
    pub nodes: BTreeMap<(NodeId, NodeId), NodeRecord>,
    /// The inode that last used each nid, with the version.
    pub owners: BTreeMap<NodeId, (u32, NodeId)>,
    /// The superblock, if one is left.
    pub superblock: Option<Superblock>,
    /// The number of unreadable blocks.
    pub unreadable: u64,
}

impl<D: BlockDevice> Scan<D> {
    /// Reads each block once. Errors: `Corrupt` (no inode was found), `InvalidArgument` (the wrong
    /// number of devices), `Device`. Memory: about 80 bytes per node.
    pub fn new(devices: Vec<D>, clock: Clock) -> Result<Self> {
        let mut devices = Devices::new(devices, clock)?;
        if let Ok((superblock, geometry, _)) = choose_superblock(&devices, &mut |_| ()) {
            devices.arrange(&geometry, &mut |_| ())?;
            let seed = geometry.features.has(Features::INODE_CHECKSUM);
            let seed = seed.then(|| crate::layout::inode::checksum_seed(&superblock.uuid));
            let range = u64::from(geometry.main_address().0)..geometry.main_end();
            let size = geometry.log_block_size();
            let mut pass = Pass::new(&devices, size, seed, geometry.nid_end());
            pass.run(range.clone());
            if pass.inodes > 0 {
                let Pass { nodes, owners, unreadable, .. } = pass;
                let blocks = ScannedBlocks { devices, geometry, shift: 0, count: range.end };
                let superblock = Some(superblock);
                return Ok(Self { blocks, nodes, owners, superblock, unreadable });
            }
        }
        for size in LOG_BLOCK_SIZES {
            let count = devices.first().map_or(0, |device| device.geometry().capacity()) >> size;
            // Allow at most twice as many nids as blocks: mkfs.f2fs sizes the NAT for at most one
            // nid per block.
            let mut pass = Pass::new(&devices, size, None, count.saturating_mul(2).max(1 << 16));
            pass.run(0..count);
            if pass.inodes == 0 {
                continue;
            }
            let (shift, features) = (pass.shift(), pass.features());
            let Pass { mut nodes, owners, unreadable, .. } = pass;
            for record in nodes.values_mut() {
                let at = u64::from(record.at.0).saturating_add(shift);
                record.at = BlockAddress(u32::try_from(at).unwrap_or(u32::MAX));
            }
            let geometry = Geometry::without_superblock(size, count.saturating_add(shift), features);
            let blocks = ScannedBlocks { devices, geometry, shift, count };
            return Ok(Self { blocks, nodes, owners, superblock: None, unreadable });
        }
        Err(FsError::new(ErrorKind::Corrupt, "no inode of F2FS was found in any block"))
    }
}

/// A pass over blocks.
struct Pass<'a, D> {
    devices: &'a Devices<D>,
    log_block_size: u32,
    checksum_seed: Option<u32>,
    nid_end: u64,
    nodes: BTreeMap<(NodeId, NodeId), NodeRecord>,
    owners: BTreeMap<NodeId, (u32, NodeId)>,
    /// The newest versions of nodes whose blocks are damaged.
    damaged: BTreeMap<NodeId, u32>,
    shifts: BTreeMap<u64, u64>,
    /// Position, version and run of the last node seen, and where its log continues.
    last: Option<(u64, u32, u64, u64)>,
    inodes: u64,
    with_extra: u64,
    with_words: u64,
    compressed: u64,
    unreadable: u64,
}

impl<'a, D: BlockDevice> Pass<'a, D> {
    const fn new(devices: &'a Devices<D>, log_block_size: u32, checksum_seed: Option<u32>, nid_end: u64) -> Self {
        Self {
            devices,
            log_block_size,
            checksum_seed,
            nid_end,
            nodes: BTreeMap::new(),
            owners: BTreeMap::new(),
            damaged: BTreeMap::new(),
            shifts: BTreeMap::new(),
            last: None,
            inodes: 0,
            with_extra: 0,
            with_words: 0,
            compressed: 0,
            unreadable: 0,
        }
    }

    /// Reads a range of blocks.
    fn run(&mut self, range: std::ops::Range<u64>) {
        let size = 1_usize << self.log_block_size;
        let mut buffer = vec![0; CHUNK as usize * size];
        let mut at = range.start;
        while at < range.end {
            let hole = self.hole_at(at);
            if hole > 0 {
                at = at.saturating_add(hole);
                continue;
            }
            let count = CHUNK.min(range.end - at);
            let chunk = buffer.get_mut(..count as usize * size).unwrap_or_default();
            if self.read(at, chunk) {
                chunk.chunks(size).zip(at..).for_each(|(block, at)| self.look(at, block));
            } else {
                for (block, at) in chunk.chunks_mut(size).zip(at..) {
                    match self.read(at, block) {
                        true => self.look(at, block),
                        false => self.unreadable += 1,
                    }
                }
            }
            at += count;
        }
        let damaged = std::mem::take(&mut self.damaged);
        for ((nid, _), record) in &mut self.nodes {
            record.is_older = damaged.get(nid).is_some_and(|version| is_later(*version, record.version));
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let context = Context::default().for_cause(Cause::Recovery).in_area(Area::Main);
        self.devices.read(context, at << self.log_block_size, into).is_ok()
    }

    /// How many blocks from here on the device knows to be zeroes; holes of a sparse file are not
    /// read.
    fn hole_at(&self, at: u64) -> u64 {
        let Some(device) = self.devices.only() else { return 0 };
        let per_block = (1_u64 << self.log_block_size) / u64::from(device.geometry().sector_size).max(1);
        let (first, sectors) = (at.saturating_mul(per_block.max(1)), device.geometry().sectors);
        if per_block == 0 || first >= sectors {
            return 0;
        }
        let extent = device.extent(Lba(first), sectors - first);
        if extent.holds { 0 } else { extent.sectors / per_block }
    }

    /// Examines a block that claims to be a node.
    fn look(&mut self, at: u64, block: &[u8]) {
        let Some(footer) = Footer::of_block(block) else { return };
        let (nid, ino) = (footer.nid(), footer.ino());
        let is_inode = nid == ino;
        let known = nid >= NodeId::ROOT
            && ino >= NodeId::ROOT
            && u64::from(nid.0) < self.nid_end
            && u64::from(ino.0) < self.nid_end
            && is_inode == (footer.offset() == NodeOffset::INODE)
            && footer.checkpoint.get() != 0;
        if !known {
            return;
        }
        let version = footer.checkpoint.get() as u32;
        if is_inode && !self.is_inode(block) {
            let newest = self.damaged.entry(nid).or_insert(version);
            *newest = if is_later(version, *newest) { version } else { *newest };
            return;
        }
        let run = match self.last {
            Some((place, before, run, next)) if place + 1 == at && before == version && next == 1 => run,
            _ => at,
        };
        let next = u64::from(footer.next().0);
        self.count_shift(next, at);
        let step = next.wrapping_sub(at).wrapping_sub(self.likeliest_shift());
        self.last = Some((at, version, run, step));
        let head = if is_inode { InodeHead::of_block(block) } else { None };
        let changed = head.map_or((0, 0), |head| (head.changed.get(), head.changed_ns.get()));
        // Only the first 2^32 blocks have addresses.
        let Ok(place) = u32::try_from(at) else { return };
        let record = NodeRecord { at: BlockAddress(place), version, is_tied: false, is_older: false, changed, run };
        self.take(nid, ino, record);
    }

    fn take(&mut self, nid: NodeId, ino: NodeId, record: NodeRecord) {
        let owner = self.owners.entry(nid).or_insert((record.version, ino));
        if owner.1 == ino || !is_later(owner.0, record.version) {
            *owner = (record.version, ino);
        }
        let Some(held) = self.nodes.get_mut(&(nid, ino)) else {
            self.nodes.insert((nid, ino), record);
            return;
        };
        if held.version != record.version {
            if is_later(record.version, held.version) {
                *held = record;
            }
            return;
        }
        // Within a log the later block follows the earlier one; elsewhere an inode's change time
        // decides.
        if held.run == record.run {
            *held = NodeRecord { is_tied: held.is_tied, ..record };
            return;
        }
        match record.changed.cmp(&held.changed) {
            Ordering::Greater => *held = record,
            Ordering::Less => {}
            Ordering::Equal => *held = NodeRecord { is_tied: true, ..record },
        }
    }

    /// Whether a block can be an inode's; notes what it says of the volume's features.
    fn is_inode(&mut self, block: &[u8]) -> bool {
        let Some(head) = InodeHead::in_block(block) else { return false };
        if head.file_kind().is_none() || head.name_length.get() > NAME_MAX as u32 {
            return false;
        }
        let extra = ExtraAttributes::of_block(block);
        if let Some(extra) = &extra {
            let bytes = extra.bytes.get();
            if !(4..=EXTRA_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(4) {
                return false;
            }
            let stored = extra.checksum(Features::INODE_CHECKSUM);
            if let (Some(seed), Some(stored)) = (self.checksum_seed, stored)
                && computed_checksum(seed, block) != Some(stored)
            {
                return false;
            }
            let is_compressed = head.has_flag(flag::COMPRESSED) && cluster_pages(extra).is_ok();
            self.with_extra += 1;
            self.with_words += u64::from(extra.xattr_words.get() != 0);
            self.compressed += u64::from(is_compressed && extra.bytes.get() >= EXTRA_BYTES_MAX);
        }
        self.inodes += 1;
        true
    }

    /// Counts the difference between the address of the next node and the position after this one.
    fn count_shift(&mut self, next: u64, at: u64) {
        let Some(shift) = next.checked_sub(at + 1) else { return };
        if self.shifts.len() < SHIFTS_MAX || self.shifts.contains_key(&shift) {
            *self.shifts.entry(shift).or_insert(0) += 1;
        }
    }

    /// The difference assumed during the pass: 0 if any node confirms it, else the most frequent
    /// one.
    fn likeliest_shift(&self) -> u64 {
        if self.shifts.contains_key(&0) { 0 } else { self.shift() }
    }

    /// The difference between addresses and positions, in blocks: nearly every node says that its
    /// log continues directly after it.
    fn shift(&self) -> u64 {
        let most = self.shifts.iter().max_by_key(|(shift, count)| (**count, std::cmp::Reverse(**shift)));
        most.map_or(0, |(shift, _)| *shift)
    }

    /// The features that determine the shape of inodes, inferred from the inodes.
    fn features(&self) -> Features {
        let mut features = Features(0);
        for (has, feature) in [
            (self.with_extra > 0, Features::EXTRA_ATTRIBUTES),
            (self.with_extra > 0, Features::CREATION_TIME),
            (self.with_words * 2 > self.with_extra, Features::FLEXIBLE_INLINE_XATTR),
            (self.compressed > 0, Features::COMPRESSION),
        ] {
            features = if has { features.with(feature) } else { features };
        }
        features
    }
}

/// Whether one version is later than another; compares by difference, since versions wrap.
pub(super) const fn is_later(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}
