//! A sound volume in memory, in which tests plant faults with valid checksums.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;
use std::sync::Arc;

use nandkit_block::RamDevice;
use nandkit_f2fs::CheckpointState;
use nandkit_f2fs::layout::inode::{checksum_seed, computed_checksum};
use nandkit_f2fs::layout::{CheckpointHead, Geometry, InodeHead, NatEntry, SitEntry, SummaryEntry, Superblock};
use nandkit_f2fs::{BlockAddress, F2fs, MountOptions, NodeId};
use nandkit_f2fs::{Blocks, Nodes};
use nandkit_units::Clock;
use nandkit_vfs::FileSystem;
use zerocopy::{FromBytes, IntoBytes};

pub const BLOCK: usize = 4096;
/// The first block of the pack in use after mkfs.
pub const PACK: usize = 512;

/// A volume, and what was known of it while it was sound.
#[derive(Clone)]
pub struct Planted {
    pub bytes: Vec<u8>,
    pub geometry: Geometry,
    pub state: CheckpointState,
    uuid: [u8; 16],
    sound: Arc<F2fs<RamDevice>>,
}

impl Planted {
    pub fn new(bytes: Vec<u8>) -> Self {
        let device = super::common::ram_of_bytes(&bytes);
        let volume = F2fs::mount(device, Clock::default(), MountOptions::default()).unwrap();
        let (geometry, state) = (volume.geometry().clone(), volume.checkpoint_state().0.clone());
        let uuid = volume.superblock().0.uuid;
        Self { bytes, geometry, state, uuid, sound: Arc::new(volume) }
    }

    /// Copies another one's state into the existing memory, since images are large.
    pub fn become_again(&mut self, other: &Self) {
        self.bytes.clone_from(&other.bytes);
        (self.geometry, self.state) = (other.geometry.clone(), other.state.clone());
    }

    /// The volume while it was sound.
    pub fn volume(&self) -> &F2fs<RamDevice> {
        &self.sound
    }

    pub fn device(&self) -> RamDevice {
        super::common::ram_of_bytes(&self.bytes)
    }

    pub fn write(&self, path: &Path) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::create(path).unwrap();
        file.set_len(self.bytes.len() as u64).unwrap();
        for (number, block) in
            self.bytes.chunks(BLOCK).enumerate().filter(|(_, block)| !nandkit_units::is_zeroed(block))
        {
            file.write_all_at(block, (number * BLOCK) as u64).unwrap();
        }
    }

    /// The inode number at a path.
    pub fn nid(&self, path: &str) -> NodeId {
        let volume = self.volume();
        let parts = path.split('/').filter(|part| !part.is_empty());
        let found = parts.fold(volume.root(), |inode, name| {
            volume.lookup(inode, name.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"))
        });
        NodeId(found.0 as u32)
    }

    pub fn entry(&self, nid: NodeId) -> NatEntry {
        self.volume().entry(nid).unwrap()
    }

    /// The address of a node.
    pub fn at(&self, nid: NodeId) -> BlockAddress {
        BlockAddress(self.entry(nid).address.get())
    }

    pub fn block(&mut self, at: BlockAddress) -> &mut [u8] {
        &mut self.bytes[at.0 as usize * BLOCK..][..BLOCK]
    }

    pub fn word(&mut self, at: BlockAddress, byte: usize) -> u32 {
        u32::from_le_bytes(*self.block(at)[byte..].first_chunk().unwrap())
    }

    pub fn set_word(&mut self, at: BlockAddress, byte: usize, value: u32) {
        self.block(at)[byte..byte + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Changes the block of an inode and updates its checksum.
    pub fn inode(&mut self, nid: NodeId, change: impl FnOnce(&mut [u8])) {
        let at = self.at(nid);
        let seed = checksum_seed(&self.uuid);
        let block = self.block(at);
        change(block);
        if block[3] & 0x20 != 0 && block[360] >= 12 {
            let checksum = computed_checksum(seed, block).unwrap();
            block[368..372].copy_from_slice(&checksum.to_le_bytes());
        }
    }

    /// Changes the fixed part of an inode.
    pub fn head(&mut self, nid: NodeId, change: impl FnOnce(&mut InodeHead)) {
        self.inode(nid, |block| {
            let (mut head, _) = InodeHead::read_from_prefix(block).unwrap();
            change(&mut head);
            block[..size_of::<InodeHead>()].copy_from_slice(head.as_bytes());
        });
    }

    /// Changes the checkpoint's head in both blocks of the pack in use.
    pub fn checkpoint(&mut self, change: impl Fn(&mut CheckpointHead)) {
        let last = PACK + self.state.head.pack_blocks.get() as usize - 1;
        for number in [PACK, last] {
            self.checkpoint_block(number, &change);
        }
    }

    pub fn checkpoint_block(&mut self, number: usize, change: impl Fn(&mut CheckpointHead)) {
        let block = self.block(BlockAddress(number as u32));
        let mut head = CheckpointHead::of_block(block).unwrap();
        change(&mut head);
        block[..192].copy_from_slice(head.as_bytes());
        let sum = head.computed_checksum(block).unwrap();
        let place = head.checksum_offset.get() as usize;
        block[place..place + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Writes a pack of another state over the one in use.
    pub fn write_state(&mut self, change: impl FnOnce(&mut CheckpointState)) {
        let mut state = self.state.clone();
        change(&mut state);
        let pack = state.encode(&self.geometry, false);
        for (at, bytes) in pack.blocks.iter().chain([&pack.commit]) {
            self.block(*at).copy_from_slice(bytes);
        }
        self.state = state;
    }

    /// Changes a superblock, 0 or 1, and updates its checksum.
    pub fn superblock(&mut self, copy: usize, change: impl FnOnce(&mut Superblock)) {
        let place = copy * BLOCK + 1024;
        let (mut superblock, _) = Superblock::read_from_prefix(&self.bytes[place..]).unwrap();
        change(&mut superblock);
        superblock.checksum = superblock.computed_checksum().into();
        self.bytes[place..place + size_of::<Superblock>()].copy_from_slice(superblock.as_bytes());
    }

    /// The location of a nid's entry in the NAT, for nids that are not in the journal.
    pub fn nat_place(&self, nid: NodeId) -> (BlockAddress, usize) {
        assert!(self.state.nat_journal.iter().all(|(known, _)| *known != nid), "{nid} is in the journal");
        let (block, index) = self.geometry.nat_block(nid).unwrap();
        let second = nandkit_f2fs::testing::bits::msb_first::get(&self.state.nat_map, block as usize);
        (self.geometry.nat_place(block, second), index * 9)
    }

    pub fn nat(&mut self, nid: NodeId, change: impl FnOnce(&mut NatEntry)) {
        let (at, byte) = self.nat_place(nid);
        let place = &mut self.block(at)[byte..byte + 9];
        let mut entry = NatEntry::read_from_bytes(place).unwrap();
        change(&mut entry);
        place.copy_from_slice(entry.as_bytes());
    }

    /// The location of a segment's entry in the SIT, for segments that are not in the journal.
    pub fn sit_place(&self, at: BlockAddress) -> (BlockAddress, usize) {
        let (segment, _) = self.geometry.main(at).unwrap();
        assert!(self.state.sit_journal.iter().all(|(known, _)| *known != segment), "{segment} is in the journal");
        let (block, index) = self.geometry.sit_block(segment);
        let second = nandkit_f2fs::testing::bits::msb_first::get(&self.state.sit_map, block as usize);
        (self.geometry.sit_place(block, second), index * 74)
    }

    /// Changes the SIT entry of a block's segment.
    pub fn sit(&mut self, of: BlockAddress, change: impl FnOnce(&mut SitEntry)) {
        let (at, byte) = self.sit_place(of);
        let place = &mut self.block(at)[byte..byte + 74];
        let mut entry = SitEntry::read_from_bytes(place).unwrap();
        change(&mut entry);
        place.copy_from_slice(entry.as_bytes());
    }

    /// Marks a block as valid or free, and updates the count.
    pub fn mark(&mut self, at: BlockAddress, valid: bool) {
        let (_, block) = self.geometry.main(at).unwrap();
        self.sit(at, |entry| {
            nandkit_f2fs::testing::bits::msb_first::set(&mut entry.valid_map, block.into(), valid);
            let count = entry.counted_blocks() as u16;
            entry.count_and_type = (entry.count_and_type.get() & !0x3FF | count).into();
        });
    }

    /// Whether the block's summary is in the SSA rather than in the checkpoint.
    pub fn has_ssa(&self, at: BlockAddress) -> bool {
        let (segment, _) = self.geometry.main(at).unwrap();
        self.state.logs.iter().all(|log| log.segment != segment)
    }

    /// Changes the summary of a block that is in no log's segment.
    pub fn summary(&mut self, of: BlockAddress, change: impl FnOnce(&mut SummaryEntry)) {
        assert!(self.has_ssa(of));
        let (segment, block) = self.geometry.main(of).unwrap();
        let (ssa, byte) = (self.geometry.ssa(segment), usize::from(block) * 7);
        let place = &mut self.block(ssa)[byte..byte + 7];
        let mut entry = SummaryEntry::read_from_bytes(place).unwrap();
        change(&mut entry);
        place.copy_from_slice(entry.as_bytes());
    }

    /// The byte offset of a file's address in its inode, with 36 bytes of extra attributes or those
    /// that it has.
    pub fn address_byte(&mut self, nid: NodeId, page: usize) -> usize {
        let at = self.at(nid);
        let extra = if self.block(at)[3] & 0x20 != 0 { usize::from(self.block(at)[360]) } else { 0 };
        360 + extra + page * 4
    }

    /// The address of a page, from the inode.
    pub fn page(&mut self, nid: NodeId, page: usize) -> BlockAddress {
        let byte = self.address_byte(nid, page);
        let at = self.at(nid);
        BlockAddress(self.word(at, byte))
    }

    pub fn set_page(&mut self, nid: NodeId, page: usize, value: u32) {
        let byte = self.address_byte(nid, page);
        self.inode(nid, |block| block[byte..byte + 4].copy_from_slice(&value.to_le_bytes()));
    }

    /// Changes the entries of an inline directory. `change` receives the area.
    pub fn inline_area(&mut self, nid: NodeId, change: impl FnOnce(&mut [u8])) {
        let geometry = self.geometry.clone();
        self.inode(nid, |block| {
            let shape = nandkit_f2fs::layout::inode_shape(&geometry, geometry.features, block).unwrap();
            change(&mut block[shape.inline]);
        });
    }
}
