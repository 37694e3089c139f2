//! A volume mounted for reading.

use std::collections::BTreeMap;

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Clock};
use nandkit_vfs::{ErrorKind, FsError, InodeNumber, Result};

use crate::bits::msb_first;
use crate::block_cache::BlockCache;
use crate::blocks::{Blocks, Nodes};
use crate::checkpoint_state::CheckpointState;
use crate::compressed::Clusters;
use crate::device::DeviceBlocks;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::{Footer, Geometry, NatEntry, Superblock, inode};
use crate::node::checked::{address_of, check_node, decode_inode};
use crate::open::{self, WhichCopy};

/// How a volume is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Blocks of metadata (nodes, the NAT, directories) that are kept in memory.
    pub cached_blocks: usize,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self { cached_blocks: 8192 }
    }
}

/// An F2FS volume, mounted for reading only. Nothing is ever written to its devices.
#[derive(Debug)]
pub struct F2fs<D> {
    blocks: DeviceBlocks<D>,
    superblock: Superblock,
    superblock_copy: WhichCopy,
    state: CheckpointState,
    pack: WhichCopy,
    nat_journal: BTreeMap<NodeId, NatEntry>,
    cache: BlockCache,
    pub(crate) clusters: Clusters,
    checksum_seed: u32,
    notes: Vec<Defect>,
}

/// Pages of directories through a cache.
pub(crate) trait DirectorySource {
    /// A page that is in memory, where memory may know more than the device.
    fn changed_page(&self, _directory: NodeId, _page: u32) -> Option<Block> {
        None
    }

    /// The block of a page, from memory where it is there. Errors: `Device`, `Corrupt` (cut short).
    fn directory_block(&self, directory: NodeId, page: u32, at: BlockAddress) -> Result<Block>;
}

impl<D: BlockDevice> F2fs<D> {
    /// Mounts a volume that lies on one device.
    ///
    /// Errors: `Corrupt` (no F2FS, or neither superblock or checkpoint is whole: what and where), `NotSupported` (a block size that cannot be read), `InvalidArgument` (the volume
    /// lies on several devices), `Device`. Cost: reads the superblocks and both checkpoint packs' ends, nothing else.
    pub fn mount(device: D, clock: Clock, options: MountOptions) -> Result<Self> {
        Self::mount_several(vec![device], clock, options)
    }

    /// The same for a volume on several devices, in the order in which its superblock names them.
    pub fn mount_several(devices: Vec<D>, clock: Clock, options: MountOptions) -> Result<Self> {
        let mut notes = Vec::new();
        let opened = open::open(devices, clock, &mut |finding| notes.push(finding))?;
        let volume = Self {
            checksum_seed: inode::checksum_seed(&opened.superblock.uuid),
            nat_journal: opened.state.nat_journal.iter().copied().collect(),
            blocks: opened.blocks,
            superblock: opened.superblock,
            superblock_copy: opened.superblock_copy,
            state: opened.state,
            pack: opened.pack,
            cache: BlockCache::new(options.cached_blocks),
            clusters: Clusters::default(),
            notes,
        };
        volume.inode_at(NodeId::ROOT)?;
        Ok(volume)
    }

    /// What mounting found that does not stop it: damage that was worked around, data that are not shown.
    pub fn notes(&self) -> &[Defect] {
        &self.notes
    }

    /// The superblock in use, and which copy it is.
    pub fn superblock(&self) -> (&Superblock, WhichCopy) {
        (&self.superblock, self.superblock_copy)
    }

    /// The checkpoint in use, and in which pack it stands.
    pub fn checkpoint(&self) -> (&CheckpointState, WhichCopy) {
        (&self.state, self.pack)
    }

    /// The devices, in the superblock's order.
    pub fn into_devices(self) -> Vec<D> {
        self.blocks.devices.into_inner()
    }

    /// Looks at the first device.
    pub fn with_device<R>(&self, look: impl FnOnce(&D) -> R) -> Option<R> {
        self.blocks.devices.first().map(look)
    }

    /// An inode by the number that the file-system contract knows. Errors: `NotFound` for a number that nobody has, `Corrupt`, `Device`.
    pub fn inode(&self, number: InodeNumber) -> Result<Inode> {
        let absent = || FsError::new(ErrorKind::NotFound, format!("no inode {}", number.0));
        let nid = u32::try_from(number.0).map(NodeId).map_err(|_| absent())?;
        if self.geometry().nat_block(nid).is_none() || nid < NodeId::ROOT || self.entry(nid)?.is_free() {
            return Err(absent());
        }
        self.inode_at(nid)
    }

    /// An inode that something on the volume names. Errors: `Corrupt`, `Device`.
    pub(crate) fn inode_at(&self, nid: NodeId) -> Result<Inode> {
        decode_inode(self.geometry(), nid, self.node(nid)?)
    }

    fn read_block(&self, cause: Cause, at: BlockAddress) -> Result<Block> {
        let mut block = vec![0; self.geometry().block_size()];
        self.blocks.read(cause, at, &mut block)?;
        Ok(block.into())
    }
}

impl<D: BlockDevice> Blocks for F2fs<D> {
    fn geometry(&self) -> &Geometry {
        self.blocks.geometry()
    }

    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        self.blocks.read(cause, at, into)
    }
}

impl<D: BlockDevice> DirectorySource for F2fs<D> {
    fn directory_block(&self, _directory: NodeId, _page: u32, at: BlockAddress) -> Result<Block> {
        self.cached(Cause::Metadata, at)
    }
}

impl<D: BlockDevice> F2fs<D> {
    fn cached(&self, cause: Cause, at: BlockAddress) -> Result<Block> {
        if let Some(block) = self.cache.get(at) {
            return Ok(block);
        }
        let block = self.read_block(cause, at)?;
        self.cache.put(at, block.clone());
        Ok(block)
    }
}

impl<D: BlockDevice> Nodes for F2fs<D> {
    fn entry(&self, nid: NodeId) -> Result<NatEntry> {
        let Some((block, index)) = self.geometry().nat_block(nid) else {
            let detail = format!("{nid}, where nids end at {}", self.geometry().nid_end());
            return Err(Defect::new(FindingKind::Nat, detail).into_error());
        };
        if let Some(entry) = self.nat_journal.get(&nid) {
            return Ok(*entry);
        }
        let second = msb_first::get(&self.state.nat_map, block as usize);
        let block = self.cached(Cause::Metadata, self.geometry().nat_place(block, second))?;
        NatEntry::in_block(&block, index)
            .ok_or_else(|| FsError::new(ErrorKind::Corrupt, format!("no NAT entry of {nid}")))
    }

    fn node(&self, nid: NodeId) -> Result<Block> {
        let entry = self.entry(nid)?;
        let at = address_of(self.geometry(), nid, &entry)?;
        // What is in the cache as a node was checked; as another's, or as no node, its footer tells.
        if let Some(block) = self.cache.get(at) {
            let footer = Footer::of_block(&block);
            if footer.is_some_and(|footer| footer.nid() == nid && footer.ino() == entry.ino()) {
                return Ok(block);
            }
        }
        let block = self.read_block(Cause::Metadata, at)?;
        check_node((self.geometry(), self.checksum_seed), nid, &entry, at, &block)?;
        self.cache.put(at, block.clone());
        Ok(block)
    }
}
