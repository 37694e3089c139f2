//! A mounted volume: what all rooms of the crate work on.

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

/// How a volume is mounted for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Blocks of metadata that are kept in memory: a quarter of them nodes, the others of the NAT
    /// and of directories, to which a walk comes back for each name.
    pub cached_blocks: usize,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self { cached_blocks: 8192 }
    }
}

/// A mounted F2FS volume on the blocks `B`. `W` is what writing needs: a
/// [`Writer`](crate::write::Writer), or [`ReadOnly`]. Those who read share it, and code of reading
/// stands once for both; who changes it has it alone.
#[derive(Debug)]
pub struct MountedVolume<B, W> {
    pub(crate) device: B,
    pub(crate) superblock: Superblock,
    pub(crate) superblock_copy: WhichCopy,
    /// The last checkpoint, and in which pack it stands.
    pub(crate) state: CheckpointState,
    pub(crate) pack: WhichCopy,
    pub(crate) nat: Nat,
    pub(crate) nodes: NodeCache,
    pub(crate) meta: MetaBlocks,
    pub(crate) clusters: Clusters,
    pub(crate) checksum_seed: u32,
    pub(crate) notes: Vec<Defect>,
    /// Everything that only writing needs.
    pub(crate) writer: W,
}

/// A volume that is mounted for reading only. Nothing is ever written to its devices.
pub type F2fs<D> = MountedVolume<DeviceBlocks<D>, ReadOnly>;

/// In a [`MountedVolume`]: nothing is written.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnly;

/// Counts of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Blocks that users may have.
    pub user_blocks: u64,
    /// Of these, in use or kept from users.
    pub valid_blocks: u64,
    /// Nodes in use.
    pub valid_nodes: u64,
}

/// What a volume shows where memory may know more than nodes and device; by default memory knows
/// nothing.
pub trait Access<B: Blocks + Send>: Send + Sync + Sized {
    /// Adds to an inode what its node does not say yet.
    fn show(&self, _inode: &mut Inode) {}

    /// An inode's attributes.
    fn attributes(inode: &Inode, geometry: &Geometry) -> Attributes {
        inode.attributes(geometry)
    }

    /// What is in use.
    fn counts(volume: &MountedVolume<B, Self>) -> Counts {
        let head = &volume.state.head;
        Counts {
            user_blocks: head.user_blocks.get(),
            valid_blocks: head.valid_blocks.get(),
            valid_nodes: head.valid_nodes.get().into(),
        }
    }

    /// A page of a directory that is in memory.
    fn directory_page(&self, _directory: NodeId, _page: u32) -> Option<Block> {
        None
    }

    /// The block of a page that is not. Errors: `Device`, `Corrupt` (cut short).
    fn directory_block(
        volume: &MountedVolume<B, Self>,
        _directory: NodeId,
        _page: u32,
        at: BlockAddress,
    ) -> Result<Block> {
        volume.meta.get(&volume.device, at)
    }

    /// Fills `into` from a file or link. Errors: `Corrupt`, `Device`.
    fn read(volume: &MountedVolume<B, Self>, inode: &Inode, offset: u64, into: &mut [u8]) -> Result<()> {
        read::read(volume, &volume.clusters, inode, offset, into)
    }

    /// The next range of bytes of a file that has data. Errors: `Corrupt`, `Device`.
    fn data_after(volume: &MountedVolume<B, Self>, inode: &Inode, offset: u64) -> Result<Option<Range<u64>>> {
        read::data_after(volume, inode, offset)
    }

    /// The next extent of a file. Errors: `NotSupported`, `Corrupt`, `Device`.
    fn extent_after(volume: &MountedVolume<B, Self>, inode: &Inode, offset: u64) -> Result<Option<FileExtent>> {
        extents::on_device(volume, inode, offset)
    }

    /// How it is changed; `None` where it is read only.
    fn changes(_volume: &mut MountedVolume<B, Self>) -> Option<&mut dyn Changes> {
        None
    }
}

impl<B: Blocks + Send> Access<B> for ReadOnly {}

impl<D: BlockDevice> F2fs<D> {
    /// Mounts a volume that lies on one device, for reading.
    ///
    /// Errors: `Corrupt` (no F2FS, or neither superblock or checkpoint is whole: what and where),
    /// `NotSupported` (a block size that cannot be read), `InvalidArgument` (the volume lies on
    /// several devices), `Device`. Cost: reads the superblocks and both checkpoint packs' ends,
    /// nothing else.
    pub fn mount(device: D, clock: Clock, options: MountOptions) -> Result<Self> {
        Self::mount_several(vec![device], clock, options)
    }

    /// Mounts a volume on several devices, in the order in which its superblock names them.
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

    /// The devices, in the superblock's order.
    pub fn into_devices(self) -> Vec<D> {
        self.device.devices.into_inner()
    }

    /// Looks at the first device.
    pub fn with_device<R>(&self, look: impl FnOnce(&D) -> R) -> Option<R> {
        self.device.devices.first().map(look)
    }
}

impl<B, W> MountedVolume<B, W> {
    /// A volume of which superblock and checkpoint are known, each with the copy that counts. It
    /// keeps so many unchanged nodes in memory, and so many other blocks.
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

    /// What mounting found that does not stop it: damage that was worked around, data that are not
    /// shown.
    pub fn notes(&self) -> &[Defect] {
        &self.notes
    }

    /// The superblock in use, and which copy it is.
    pub fn superblock(&self) -> (&Superblock, WhichCopy) {
        (&self.superblock, self.superblock_copy)
    }

    /// The last checkpoint, and in which pack it stands.
    pub fn checkpoint_state(&self) -> (&CheckpointState, WhichCopy) {
        (&self.state, self.pack)
    }
}

impl<B: Blocks + Send, W: Access<B>> MountedVolume<B, W> {
    /// An inode by the number that the file-system contract knows, as it is now. Errors: `NotFound`
    /// for a number that nobody has, `Corrupt`, `Device`.
    pub fn inode(&self, number: InodeNumber) -> Result<Inode> {
        let absent = || FsError::new(ErrorKind::NotFound, format!("no inode {}", number.0));
        let nid = u32::try_from(number.0).map(NodeId).map_err(|_| absent())?;
        let is_known = self.nodes.is_dirty(nid);
        if !is_known && (self.geometry().nat_block(nid).is_none() || nid < NodeId::ROOT || self.entry(nid)?.is_free()) {
            return Err(absent());
        }
        self.inode_at(nid)
    }

    /// An inode that something on the volume names, as it is now. Errors: `Corrupt`, `Device`.
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
