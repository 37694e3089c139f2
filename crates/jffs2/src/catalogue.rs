//! The catalogue: the nodes in each erase block.

use std::collections::BTreeSet;

use nandkit_units::{BlockIndex, Nanos};

use crate::layout::{INODE_SIZE, MIN_DATA};
use crate::{Ino, NodeAddress};

/// The owner of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// No owner: cleanmarkers, padding, summaries, unknown nodes, gaps.
    None,
    /// The inode of an inode node, or the directory of a directory entry.
    Inode(Ino),
    /// The extended attribute with this number.
    Xattr(u32),
    /// The inode of a reference to an extended attribute.
    Xref(Ino),
}

/// How much of a node is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// Unknown: its inode was not loaded since the mount.
    Unchecked,
    /// Completely valid; the collector may copy it as it is.
    Pristine,
    /// Partly valid, or joinable with its neighbours: the collector rewrites its content.
    Normal,
    /// Completely obsolete.
    Obsolete,
}

/// A node in its block. 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef {
    /// When the user wrote its content, which moving does not change; for nodes found at mount, the
    /// time of the mount. In the scale of the volume's separation: nanoseconds, or user writes.
    pub written: Nanos,
    /// Offset in the block, in bytes.
    pub offset: u32,
    /// Bytes up to the next node, including padding.
    pub length: u32,
    owner: u32,
    owner_kind: u8,
    /// How much of it is valid.
    pub state: NodeState,
}

const _: () = assert!(size_of::<NodeRef>() == 24);

impl NodeRef {
    /// Makes a node.
    pub const fn new(offset: u32, length: u32, owner: Owner, state: NodeState, written: Nanos) -> Self {
        let (owner_kind, owner) = match owner {
            Owner::None => (0, 0),
            Owner::Inode(number) => (1, number.0),
            Owner::Xattr(number) => (2, number),
            Owner::Xref(number) => (3, number.0),
        };
        Self { written, offset, length, owner, owner_kind, state }
    }

    /// The node's owner.
    pub const fn owner(&self) -> Owner {
        match self.owner_kind {
            1 => Owner::Inode(Ino(self.owner)),
            2 => Owner::Xattr(self.owner),
            3 => Owner::Xref(Ino(self.owner)),
            _ => Owner::None,
        }
    }

    /// Whether the node is completely obsolete.
    pub const fn is_obsolete(&self) -> bool {
        matches!(self.state, NodeState::Obsolete)
    }
}

/// The list of a block, as in Linux's fs/jffs2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// Erased, with its cleanmarker if the medium uses one.
    Free,
    /// Nodes are being appended.
    Open,
    /// Full, with nothing or almost nothing obsolete.
    Clean,
    /// Full, with obsolete nodes.
    Dirty,
    /// Full, at least half of it obsolete.
    VeryDirty,
    /// Without valid nodes; erased when the collector takes it.
    Erasable,
    /// Without valid nodes, but their replacements are still in a write buffer.
    ErasableAfterFlush,
    /// To be erased next.
    #[default]
    ErasePending,
    /// The collector is working in it.
    Collecting,
    /// A program failed in it: it will be emptied, then retired.
    BadUsed,
    /// Bad.
    Bad,
}

impl Queue {
    /// All lists, in the order of declaration.
    pub const ALL: [Self; 11] = [
        Self::Free,
        Self::Open,
        Self::Clean,
        Self::Dirty,
        Self::VeryDirty,
        Self::Erasable,
        Self::ErasableAfterFlush,
        Self::ErasePending,
        Self::Collecting,
        Self::BadUsed,
        Self::Bad,
    ];
}

/// Whether this many obsolete bytes in a block are worth collecting: more than a node's header and
/// its least data (fs/jffs2/nodelist.h, `ISDIRTY`).
pub const fn is_dirty(bytes: u32) -> bool {
    bytes > INODE_SIZE + MIN_DATA
}

/// An erase block. Its five sums always add up to the erase size, except for blocks on `Bad`.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its nodes in address order, without gaps from the start of the block to its free part.
    pub nodes: Vec<NodeRef>,
    /// Bytes of valid nodes.
    pub used: u32,
    /// Bytes of obsolete nodes.
    pub dirty: u32,
    /// Bytes lost to padding and to obsolete nodes too small to be worth collecting.
    pub wasted: u32,
    /// Bytes of nodes not checked since the mount.
    pub unchecked: u32,
    /// Bytes after the last node.
    pub free: u32,
    /// The list that contains it.
    pub queue: Queue,
    /// Its position in that list: the head has the least.
    pub place: i64,
    /// When it became dirty, as a position in one list of `Dirty` and `VeryDirty` together.
    pub dirtied: i64,
    /// Erases since the mount: JFFS2 stores none, so a mount starts at 0 unless the device knows.
    pub erases: u32,
    /// When its first node was written.
    pub first_written: Nanos,
    /// When its last node was written.
    pub last_written: Nanos,
    /// When it was opened, in the scale of the volume's separation.
    pub opened: u64,
    /// On `ErasableAfterFlush`: bit n is set while write buffer n still holds the content it had
    /// when the block was put there.
    pub waits_for: u16,
    /// Its region in the separation.
    pub region: u8,
    /// A program failed in it: it is retired instead of being erased.
    pub failed: bool,
    /// The mount found no sign that it was completely erased: erasing it is recovery from an
    /// interrupted erase.
    pub unclean: bool,
}

impl Block {
    /// Makes an empty block.
    pub fn empty(erase_size: u32) -> Self {
        Self { free: erase_size, ..Self::default() }
    }

    /// The node at `offset`.
    pub fn node(&self, offset: u32) -> Option<&NodeRef> {
        self.nodes.get(self.place_of(offset)?)
    }

    /// The index of the node at `offset`.
    pub fn place_of(&self, offset: u32) -> Option<usize> {
        self.nodes.binary_search_by_key(&offset, |node| node.offset).ok()
    }

    /// The sum of all parts: the erase size.
    pub const fn total(&self) -> u32 {
        self.used + self.dirty + self.wasted + self.unchecked + self.free
    }

    /// Offset of its next node, in bytes.
    pub fn end(&self) -> u32 {
        self.nodes.last().map_or(0, |node| node.offset + node.length)
    }
}

/// All blocks, their lists, and sums over all blocks.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Size of a block in bytes.
    pub erase_size: u32,
    /// The blocks of the device. Only the methods here change their sums and lists.
    pub blocks: Vec<Block>,
    /// Sums over all blocks, in bytes.
    pub sums: Sums,
    /// Entries of position and block number, for each of [`Queue::ALL`].
    lists: [BTreeSet<(i64, u32)>; Queue::ALL.len()],
    last_place: i64,
    first_place: i64,
}

/// Sums over all blocks except bad ones, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Bytes of valid nodes.
    pub used: u64,
    /// Bytes of obsolete nodes.
    pub dirty: u64,
    /// Bytes lost to padding.
    pub wasted: u64,
    /// Bytes not checked since the mount.
    pub unchecked: u64,
    /// Free bytes.
    pub free: u64,
    /// Bytes in bad blocks.
    pub bad: u64,
}

/// Determines the list of a block that lost its last valid node.
pub struct Emptied<'a> {
    /// The write buffers that are not empty, one bit each: they may contain replacements of the
    /// block's content.
    pub waiting: u16,
    /// Whether to leave the block unerased for a while: one block in 128, at random.
    pub leave: &'a mut dyn FnMut() -> bool,
}

impl Catalogue {
    /// Makes a catalogue of the blocks that a mount found: with nodes, the five sums, `queue` and
    /// `place`; computes everything else.
    pub fn from_blocks(erase_size: u32, blocks: Vec<Block>) -> Self {
        let mut all = Self { erase_size, blocks, ..Self::default() };
        for (number, block) in all.blocks.iter_mut().enumerate() {
            all.lists[block.queue as usize].insert((block.place, number as u32));
            all.last_place = all.last_place.max(block.place);
            all.first_place = all.first_place.min(block.place);
            block.dirtied = block.place;
        }
        all.sums = all.summed();
        all
    }

    fn summed(&self) -> Sums {
        let mut sums = Sums::default();
        for block in &self.blocks {
            if block.queue == Queue::Bad {
                sums.bad += u64::from(self.erase_size);
                continue;
            }
            sums.used += u64::from(block.used);
            sums.dirty += u64::from(block.dirty);
            sums.wasted += u64::from(block.wasted);
            sums.unchecked += u64::from(block.unchecked);
            sums.free += u64::from(block.free);
        }
        sums
    }

    /// The node at an address.
    pub fn node(&self, at: NodeAddress) -> Option<&NodeRef> {
        self.block(at.block(self.erase_size))?.node(at.offset(self.erase_size))
    }

    /// A block.
    pub fn block(&self, block: BlockIndex) -> Option<&Block> {
        self.blocks.get(block.index())
    }

    /// The address of an offset in a block.
    pub const fn address(&self, block: BlockIndex, offset: u32) -> NodeAddress {
        NodeAddress(block.0 * self.erase_size + offset)
    }

    /// The number of blocks on a list.
    pub fn count(&self, queue: Queue) -> u32 {
        self.lists[queue as usize].len() as u32
    }

    /// The number of blocks that are free or will be after their erase; failed ones do not count,
    /// because they are retired.
    pub fn ready(&self) -> u32 {
        let pending = self.on(Queue::ErasePending).filter_map(|block| self.block(block)).filter(|block| !block.failed);
        self.count(Queue::Free) + pending.count() as u32
    }

    /// The first block on a list.
    pub fn head(&self, queue: Queue) -> Option<BlockIndex> {
        self.lists[queue as usize].first().map(|(_, block)| BlockIndex(*block))
    }

    /// The blocks on a list, in order.
    pub fn on(&self, queue: Queue) -> impl Iterator<Item = BlockIndex> + Clone {
        self.lists[queue as usize].iter().map(|(_, block)| BlockIndex(*block))
    }

    /// Moves a block to the end of a list.
    pub fn file(&mut self, block: BlockIndex, queue: Queue) {
        self.last_place += 1;
        self.place(block, queue, self.last_place);
    }

    /// Moves a block to the head of a list.
    pub fn file_first(&mut self, block: BlockIndex, queue: Queue) {
        self.first_place -= 1;
        self.place(block, queue, self.first_place);
    }

    fn place(&mut self, at: BlockIndex, queue: Queue, place: i64) {
        let Some(block) = self.blocks.get_mut(at.index()) else { return };
        self.lists[block.queue as usize].remove(&(block.place, at.0));
        let was_dirty = matches!(block.queue, Queue::Dirty | Queue::VeryDirty);
        if matches!(queue, Queue::Dirty | Queue::VeryDirty) && !was_dirty {
            block.dirtied = place;
        }
        (block.queue, block.place) = (queue, place);
        self.lists[queue as usize].insert((place, at.0));
    }

    /// Appends a written node to a block. Returns `None`, with nothing changed, if it does not
    /// start at the end of the last node or exceeds the free space.
    pub fn link(&mut self, at: BlockIndex, node: NodeRef) -> Option<NodeAddress> {
        let erase_size = self.erase_size;
        let block = self.blocks.get_mut(at.index())?;
        if node.offset != erase_size - block.free || node.length > block.free {
            return None;
        }
        let (own, all) = match node.state {
            NodeState::Unchecked => (&mut block.unchecked, &mut self.sums.unchecked),
            NodeState::Pristine | NodeState::Normal => (&mut block.used, &mut self.sums.used),
            NodeState::Obsolete => (&mut block.wasted, &mut self.sums.wasted),
        };
        *own += node.length;
        *all += u64::from(node.length);
        block.free -= node.length;
        self.sums.free -= u64::from(node.length);
        block.nodes.push(node);
        Some(self.address(at, node.offset))
    }

    /// Marks bytes after the last node of a block as lost: padding, or the rest of the block.
    pub fn waste(&mut self, at: BlockIndex, length: u32, now: Nanos) {
        let offset = self.block(at).map_or(0, |block| self.erase_size - block.free);
        if length > 0 {
            self.link(at, NodeRef::new(offset, length, Owner::None, NodeState::Obsolete, now));
        }
    }

    /// Counts a block's wasted bytes as dirty.
    pub fn waste_to_dirty(&mut self, at: BlockIndex) {
        let Some(block) = self.blocks.get_mut(at.index()) else { return };
        let wasted = std::mem::take(&mut block.wasted);
        block.dirty += wasted;
        self.sums.wasted -= u64::from(wasted);
        self.sums.dirty += u64::from(wasted);
    }

    /// Closes a full open block and files it by its dirt (fs/jffs2/nodemgmt.c,
    /// `jffs2_close_nextblock`).
    pub fn close(&mut self, at: BlockIndex) {
        let Some(block) = self.block(at) else { return };
        if !is_dirty(block.wasted + block.dirty) {
            return self.file(at, Queue::Clean);
        }
        self.waste_to_dirty(at);
        let very = self.block(at).is_some_and(|block| self.is_very_dirty(block.dirty));
        self.file(at, if very { Queue::VeryDirty } else { Queue::Dirty });
    }

    const fn is_very_dirty(&self, dirty: u32) -> bool {
        dirty >= self.erase_size / 2
    }

    /// Sets the state of a valid node. Obsolete nodes stay obsolete.
    pub fn set_state(&mut self, at: NodeAddress, state: NodeState) {
        let (index, offset) = (at.block(self.erase_size).index(), at.offset(self.erase_size));
        let Some(block) = self.blocks.get_mut(index) else { return };
        let Some(node) = block.place_of(offset).and_then(|place| block.nodes.get_mut(place)) else { return };
        if node.is_obsolete() || matches!(state, NodeState::Obsolete) {
            return;
        }
        let length = node.length;
        if node.state == NodeState::Unchecked && state != NodeState::Unchecked {
            block.unchecked -= length;
            block.used += length;
            self.sums.unchecked -= u64::from(length);
            self.sums.used += u64::from(length);
        }
        node.state = state;
    }

    /// Marks a node as obsolete, and moves its block to another list if necessary
    /// (fs/jffs2/nodemgmt.c, `jffs2_mark_node_obsolete`). Blocks that are open, being collected, or
    /// failed stay on their list.
    pub fn mark_obsolete(&mut self, at: NodeAddress, emptied: &mut Emptied<'_>) {
        let number = at.block(self.erase_size);
        let erase_size = self.erase_size;
        let Some(block) = self.blocks.get_mut(number.index()) else { return };
        let Some(place) = block.place_of(at.offset(erase_size)) else { return };
        let Some(node) = block.nodes.get_mut(place).filter(|node| !node.is_obsolete()) else { return };
        let length = node.length;
        let (own, all) = match node.state {
            NodeState::Unchecked => (&mut block.unchecked, &mut self.sums.unchecked),
            _ => (&mut block.used, &mut self.sums.used),
        };
        node.state = NodeState::Obsolete;
        *own -= length;
        *all -= u64::from(length);
        let before = block.dirty;
        if block.queue != Queue::Open && (block.dirty > 0 || is_dirty(block.wasted + length)) {
            block.dirty += length;
            self.sums.dirty += u64::from(length);
            if block.queue != Queue::BadUsed {
                self.waste_to_dirty(number);
            }
        } else {
            block.wasted += length;
            self.sums.wasted += u64::from(length);
        }
        self.refile(number, before, emptied);
    }

    /// Moves a block to the list that matches its dirt; `before` is the previous amount of dirt.
    fn refile(&mut self, number: BlockIndex, before: u32, emptied: &mut Emptied<'_>) {
        let Some(block) = self.block(number) else { return };
        let dirty = block.dirty;
        match block.queue {
            Queue::Open | Queue::Bad | Queue::Free => {}
            Queue::Erasable | Queue::ErasePending | Queue::ErasableAfterFlush => {}
            _ if block.used == 0 && block.unchecked == 0 => self.file_emptied(number, emptied),
            Queue::Collecting | Queue::BadUsed => {}
            _ if is_dirty(dirty) && !is_dirty(before) => self.file(number, Queue::Dirty),
            _ if self.is_very_dirty(dirty) && !self.is_very_dirty(before) => self.file(number, Queue::VeryDirty),
            _ => {}
        }
    }

    /// Files a block without valid nodes, to be erased now or later.
    pub fn file_emptied(&mut self, number: BlockIndex, emptied: &mut Emptied<'_>) {
        if emptied.waiting != 0 {
            if let Some(block) = self.blocks.get_mut(number.index()) {
                block.waits_for = emptied.waiting;
            }
            self.file(number, Queue::ErasableAfterFlush);
        } else {
            self.file(number, if (emptied.leave)() { Queue::Erasable } else { Queue::ErasePending });
        }
    }

    /// Handles a programmed write buffer: blocks that waited only for it may be erased.
    pub fn flushed(&mut self, stream: usize, leave: &mut dyn FnMut() -> bool) {
        if self.lists[Queue::ErasableAfterFlush as usize].is_empty() {
            return;
        }
        let bit = 1_u16.checked_shl(stream as u32).unwrap_or(0);
        let waiting: Vec<BlockIndex> = self.on(Queue::ErasableAfterFlush).collect();
        for number in waiting {
            let Some(block) = self.blocks.get_mut(number.index()) else { continue };
            block.waits_for &= !bit;
            if block.waits_for == 0 {
                self.file(number, if leave() { Queue::Erasable } else { Queue::ErasePending });
            }
        }
    }

    /// Removes the nodes of a block that is about to be erased or retired, and counts it as free.
    pub fn clear(&mut self, at: BlockIndex) -> Vec<NodeRef> {
        let erase_size = self.erase_size;
        let Some(block) = self.blocks.get_mut(at.index()) else { return Vec::new() };
        self.sums.used -= u64::from(block.used);
        self.sums.dirty -= u64::from(block.dirty);
        self.sums.wasted -= u64::from(block.wasted);
        self.sums.unchecked -= u64::from(block.unchecked);
        self.sums.free += u64::from(erase_size - block.free);
        (block.used, block.dirty, block.wasted, block.unchecked, block.free) = (0, 0, 0, 0, erase_size);
        std::mem::take(&mut block.nodes)
    }

    /// Marks a cleared block as bad.
    pub fn retire(&mut self, at: BlockIndex) {
        self.file(at, Queue::Bad);
        self.sums.free -= u64::from(self.erase_size);
        self.sums.bad += u64::from(self.erase_size);
    }

    /// Compares all sums and lists with the nodes; the error says what differs. For tests: one pass
    /// over all nodes.
    pub fn recount(&self) -> Result<(), String> {
        for (number, block) in self.blocks.iter().enumerate() {
            if !self.lists[block.queue as usize].contains(&(block.place, number as u32)) {
                return Err(format!("block {number} is not on its list {:?}", block.queue));
            }
            if block.queue == Queue::Bad {
                continue;
            }
            let of = |states: &[NodeState]| -> u32 {
                block.nodes.iter().filter(|node| states.contains(&node.state)).map(|node| node.length).sum()
            };
            let found = (of(&[NodeState::Pristine, NodeState::Normal]), of(&[NodeState::Unchecked]));
            let obsolete = of(&[NodeState::Obsolete]);
            if found != (block.used, block.unchecked)
                || obsolete != block.dirty + block.wasted
                || block.total() != self.erase_size
            {
                return Err(format!("block {number}: nodes make {found:?} and {obsolete}, counted are {block:?}"));
            }
            let mut end = 0;
            for node in &block.nodes {
                if node.offset != end || node.length == 0 {
                    return Err(format!("block {number}: a node at {:#x}, expected at {end:#x}", node.offset));
                }
                end += node.length;
            }
            if end != self.erase_size - block.free {
                return Err(format!("block {number}: nodes end at {end:#x}, {:#x} are free", block.free));
            }
        }
        let listed: usize = self.lists.iter().map(BTreeSet::len).sum();
        if listed != self.blocks.len() {
            return Err(format!("{listed} blocks on lists, {} blocks", self.blocks.len()));
        }
        if self.sums != self.summed() {
            return Err(format!("sums {:?}, counted {:?}", self.sums, self.summed()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 4096;

    fn node(offset: u32, length: u32) -> NodeRef {
        NodeRef::new(offset, length, Owner::Inode(Ino(2)), NodeState::Pristine, Nanos::ZERO)
    }

    /// A block of eight nodes of 512 bytes, closed, and a free block.
    fn full() -> Catalogue {
        let free = || Block { queue: Queue::Free, ..Block::empty(SIZE) };
        let mut all = Catalogue::from_blocks(SIZE, vec![free(), free()]);
        all.file(BlockIndex(0), Queue::Open);
        for offset in (0..SIZE).step_by(512) {
            all.link(BlockIndex(0), node(offset, 512)).unwrap();
        }
        all.close(BlockIndex(0));
        all
    }

    #[test]
    fn a_block_goes_from_list_to_list_as_it_gets_dirty() {
        let mut all = full();
        assert_eq!(all.head(Queue::Clean), Some(BlockIndex(0)));
        let mut shown = Vec::new();
        for offset in (0..SIZE).step_by(512) {
            let mut leave = || false;
            let mut emptied = Emptied { waiting: 0b10, leave: &mut leave };
            all.mark_obsolete(NodeAddress(offset), &mut emptied);
            all.recount().unwrap();
            shown.push(all.blocks[0].queue);
        }
        use Queue::{Dirty, ErasableAfterFlush, VeryDirty};
        assert_eq!(shown, [Dirty, Dirty, Dirty, VeryDirty, VeryDirty, VeryDirty, VeryDirty, ErasableAfterFlush]);
        all.flushed(0, &mut || false);
        assert_eq!(all.blocks[0].queue, ErasableAfterFlush);
        all.flushed(1, &mut || true);
        assert_eq!(all.blocks[0].queue, Queue::Erasable);
        assert_eq!(all.clear(BlockIndex(0)).len(), 8);
        all.file(BlockIndex(0), Queue::Free);
        all.recount().unwrap();
        assert_eq!((all.sums.free, all.count(Queue::Free)), (2 * u64::from(SIZE), 2));
        assert_eq!(all.on(Queue::Free).collect::<Vec<_>>(), [BlockIndex(1), BlockIndex(0)]);
    }

    #[test]
    fn little_dirt_is_waste_until_it_is_worth_collecting() {
        let free = Block { queue: Queue::Free, ..Block::empty(SIZE) };
        let mut all = Catalogue::from_blocks(SIZE, vec![free]);
        all.file(BlockIndex(0), Queue::Open);
        for offset in [0, 100, 200] {
            all.link(BlockIndex(0), node(offset, 100)).unwrap();
        }
        all.waste(BlockIndex(0), 96, Nanos::ZERO);
        assert_eq!(all.link(BlockIndex(0), node(300, 4)), None);
        all.link(BlockIndex(0), node(396, SIZE - 396)).unwrap();
        all.close(BlockIndex(0));
        assert_eq!((all.blocks[0].wasted, all.blocks[0].queue), (96, Queue::Clean));
        let mut leave = || false;
        let mut emptied = Emptied { waiting: 0, leave: &mut leave };
        all.mark_obsolete(NodeAddress(0), &mut emptied);
        assert_eq!((all.blocks[0].wasted, all.blocks[0].dirty, all.blocks[0].queue), (196, 0, Queue::Clean));
        all.mark_obsolete(NodeAddress(100), &mut emptied);
        all.mark_obsolete(NodeAddress(100), &mut emptied);
        assert_eq!((all.blocks[0].wasted, all.blocks[0].dirty, all.blocks[0].queue), (0, 296, Queue::Dirty));
        all.recount().unwrap();
        all.blocks[0].used += 4;
        assert!(all.recount().unwrap_err().contains("block 0"));
    }
}
