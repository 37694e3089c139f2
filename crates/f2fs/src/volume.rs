//! The mounted volume that all modules of the crate work on.

use std::ops::Range;

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Clock};
use nandkit_vfs::{Attributes, Changes, ErrorKind, FileExtent, FsError, InodeNumber, Result};

use crate::blocks::{Blocks, Nodes, Piece};
use crate::checkpoint_state::CheckpointState;
use crate::compressed::Clusters;
use crate::device::DeviceBlocks;
use crate::findings::Defect;
use crate::ids::{Block, BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::{Geometry, NatEntry, Superblock, inode};
use crate::meta::MetaBlocks;
use crate::nat::Nat;
use crate::node::cache::NodeCache;
use crate::node::checked::{address_of, check_node, decode_inode};
use crate::open::{self, WhichCopy};
use crate::{extents, read};

/// Options of a read-only mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Metadata blocks cached in memory: a quarter are nodes, the rest NAT and directory blocks,
    /// which a tree walk needs again for each name.
    pub cached_blocks: usize,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self { cached_blocks: 8192 }
    }
}

/// A mounted F2FS volume on the blocks `B`.
///
/// `W` holds what only writing needs: a [`Writer`](crate::write::Writer), or [`ReadOnly`]. Reading
/// takes `&self` and is the same code for both; changes take `&mut self`.
#[derive(Debug)]
pub struct MountedVolume<B, W> {
    pub(crate) device: B,
    pub(crate) superblock: Superblock,
    pub(crate) superblock_copy: WhichCopy,
    /// The last checkpoint and the pack that holds it.
    pub(crate) state: CheckpointState,
    pub(crate) pack: WhichCopy,
    pub(crate) nat: Nat,
    pub(crate) nodes: NodeCache,
    pub(crate) meta: MetaBlocks,
    pub(crate) clusters: Clusters,
    pub(crate) checksum_seed: u32,
    pub(crate) notes: Vec<Defect>,
    /// State that only writing needs.
    pub(crate) writer: W,
}

/// A volume mounted read-only; nothing is ever written to its devices.
pub type F2fs<D> = MountedVolume<DeviceBlocks<D>, ReadOnly>;

/// Marks a [`MountedVolume`] as read-only.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnly;

/// Block and node counts of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Blocks available to users.
    pub user_blocks: u64,
    /// Blocks of these that are in use or withheld from users.
    pub valid_blocks: u64,
    /// Nodes in use.
    pub valid_nodes: u64,
}

/// How a volume reads where memory may be newer than nodes and device. By default memory holds
/// nothing newer.
pub trait Access<B: Blocks + Send>: Send + Sync + Sized {
    /// Adds to an inode what its node does not record yet.
    fn show(&self, _inode: &mut Inode) {}

    /// An inode's attributes.
    fn attributes(inode: &Inode, geometry: &Geometry) -> Attributes {
        inode.attributes(geometry)
    }

    /// The current counts.
    fn counts(volume: &MountedVolume<B, Self>) -> Counts {
        let head = &volume.state.head;
        Counts {
            user_blocks: head.user_blocks.get(),
            valid_blocks: head.valid_blocks.get(),
            valid_nodes: head.valid_nodes.get().into(),
        }
    }

    /// A directory page, if it is in memory.
    fn directory_page(&self, _directory: NodeId, _page: u32) -> Option<Block> {
        None
    }

    /// The block of a directory page that is not in memory. Errors: `Device`, `Corrupt` (cut
    /// short).
    fn directory_block(
        volume: &MountedVolume<B, Self>,
        _directory: NodeId,
        _page: u32,
        at: BlockAddress,
    ) -> Result<Block> {
        volume.meta.get(&volume.device, at)
    }

    /// Reads bytes of a file or symlink into `into`. Errors: `Corrupt`, `Device`.
    fn read(volume: &MountedVolume<B, Self>, inode: &Inode, offset: u64, into: &mut [u8]) -> Result<()> {
        read::read(volume, &volume.clusters, inode, offset, into)
    }

    /// The next range of bytes of a file that holds data. Errors: `Corrupt`, `Device`.
    fn data_after(volume: &MountedVolume<B, Self>, inode: &Inode, offset: u64) -> Result<Option<Range<u64>>> {
        read::data_after(volume, inode, offset)
    }

    /// The next extent of a file. Errors: `NotSupported`, `Corrupt`, `Device`.
    fn extent_after(volume: &MountedVolume<B, Self>, inode: &Inode, offset: u64) -> Result<Option<FileExtent>> {
        extents::on_device(volume, inode, offset)
    }

    /// The interface for changes; `None` if the volume is read-only.
    fn changes(_volume: &mut MountedVolume<B, Self>) -> Option<&mut dyn Changes> {
        None
    }
}

impl<B: Blocks + Send> Access<B> for ReadOnly {}

impl<D: BlockDevice> F2fs<D> {
    /// Mounts a volume on a single device for reading.
    ///
    /// Errors: `Corrupt` (not F2FS, or no valid superblock or checkpoint, with its location),
    /// `NotSupported` (an unsupported block size), `InvalidArgument` (the volume spans several
    /// devices), `Device`. Cost: reads only the superblocks and both ends of each checkpoint pack.
    pub fn mount(device: D, clock: Clock, options: MountOptions) -> Result<Self> {
        Self::mount_several(vec![device], clock, options)
    }

    /// Mounts a volume on several devices for reading, given in the order of its superblock.
    pub fn mount_several(devices: Vec<D>, clock: Clock, options: MountOptions) -> Result<Self> {
        let mut notes = Vec::new();
        let opened = open::open(devices, clock, &mut |finding| notes.push(finding))?;
        let (superblock, checkpoint) = ((opened.superblock, opened.superblock_copy), (opened.state, opened.pack));
        let nodes = options.cached_blocks / 4;
        let cached = [nodes, options.cached_blocks - nodes];
        let volume = Self::new(opened.blocks, superblock, checkpoint, cached, notes, ReadOnly);
        volume.inode_at(NodeId::ROOT)?;
        Ok(volume)
    }

    /// Gives the devices back, in the superblock's order.
    pub fn into_devices(self) -> Vec<D> {
        self.device.devices.into_inner()
    }

    /// Calls `look` with the first device.
    pub fn with_device<R>(&self, look: impl FnOnce(&D) -> R) -> Option<R> {
        self.device.devices.first().map(look)
    }
}

impl<B, W> MountedVolume<B, W> {
    /// Builds a volume from a superblock and a checkpoint, each with the copy in use.
    /// `cached_nodes` and `cached_others` limit the unchanged nodes and other blocks in memory.
    pub(crate) fn new(
        device: B,
        (superblock, superblock_copy): (Superblock, WhichCopy),
        (state, pack): (CheckpointState, WhichCopy),
        [cached_nodes, cached_others]: [usize; 2],
        notes: Vec<Defect>,
        writer: W,
    ) -> Self {
        Self {
            device,
            checksum_seed: inode::checksum_seed(&superblock.uuid),
            superblock,
            superblock_copy,
            nat: Nat::new(state.nat_map.clone(), &state.nat_journal),
            state,
            pack,
            nodes: NodeCache::new(cached_nodes),
            meta: MetaBlocks::new(cached_others),
            clusters: Clusters::default(),
            notes,
            writer,
        }
    }

    /// Defects that the mount found but that did not stop it: damage that was worked around, data
    /// that is not shown.
    pub fn notes(&self) -> &[Defect] {
        &self.notes
    }

    /// The superblock and which copy is in use.
    pub fn superblock(&self) -> (&Superblock, WhichCopy) {
        (&self.superblock, self.superblock_copy)
    }

    /// The last checkpoint and which pack holds it.
    pub fn checkpoint_state(&self) -> (&CheckpointState, WhichCopy) {
        (&self.state, self.pack)
    }
}

impl<B: Blocks + Send, W: Access<B>> MountedVolume<B, W> {
    /// The current inode with a number of the file-system contract. Errors: `NotFound` (no such
    /// inode), `Corrupt`, `Device`.
    pub fn inode(&self, number: InodeNumber) -> Result<Inode> {
        let absent = || FsError::new(ErrorKind::NotFound, format!("no inode {}", number.0));
        let nid = u32::try_from(number.0).map(NodeId).map_err(|_| absent())?;
        let is_known = self.nodes.is_dirty(nid);
        if !is_known && (self.geometry().nat_block(nid).is_none() || nid < NodeId::ROOT || self.entry(nid)?.is_free()) {
            return Err(absent());
        }
        self.inode_at(nid)
    }

    /// The current inode that something on the volume refers to. Errors: `Corrupt`, `Device`.
    pub fn inode_at(&self, ino: NodeId) -> Result<Inode> {
        let mut inode = decode_inode(self.geometry(), ino, self.node(ino)?)?;
        self.writer.show(&mut inode);
        Ok(inode)
    }
}

impl<B: Blocks, W: Sync> Blocks for MountedVolume<B, W> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        self.device.read(cause, at, into)
    }

    fn read_together(&self, cause: Cause, pieces: &mut [Piece<'_>]) -> Result<()> {
        self.device.read_together(cause, pieces)
    }
}

impl<B: Blocks, W: Sync> Nodes for MountedVolume<B, W> {
    fn entry(&self, nid: NodeId) -> Result<NatEntry> {
        self.nat.entry(&self.meta, &self.device, nid)
    }

    fn node(&self, nid: NodeId) -> Result<Block> {
        if let Some(block) = self.nodes.get(nid) {
            return Ok(block);
        }
        let entry = self.entry(nid)?;
        let at = address_of(self.geometry(), nid, &entry)?;
        let mut block = vec![0; self.geometry().block_size()];
        self.device.read(Cause::Metadata, at, &mut block)?;
        check_node((self.geometry(), self.checksum_seed), nid, &entry, at, &block)?;
        let block = Block::from(block);
        self.nodes.keep(nid, block.clone());
        Ok(block)
    }
}
