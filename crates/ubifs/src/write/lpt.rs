//! The tree of LEB properties while a volume is written: where its nodes stand, and which are to be
//! written at the next commit.
//!
//! Source of the rules: Linux `fs/ubifs/lpt_commit.c`.

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::space::Space;
use crate::lebs::LebWriter;
use crate::lpt::{FANOUT, LptGeometry, LptPlace, LptPlaces};

/// A node of the tree.
#[derive(Clone, Copy, Debug, Default)]
struct LptNode {
    /// Where it stands; `None` if it was never written, so that all is empty below it.
    place: Option<LptPlace>,
    is_dirty: bool,
}

/// The tree of LEB properties.
#[derive(Debug)]
pub(crate) struct Lpt {
    geometry: LptGeometry,
    /// First LEB of the tree.
    first: u32,
    leb_size: u32,
    unit: u32,
    /// Nodes by level, the root first, the leaves last.
    levels: Vec<Vec<LptNode>>,
    /// Free and dirty bytes of the LEBs of the tree.
    table: Vec<(u32, u32)>,
    places: LptPlaces,
}

fn short() -> FsError {
    FsError::new(ErrorKind::NoSpace, "the area of LEB properties is full")
}

impl Lpt {
    /// The tree of a volume whose leaves were read, with the places of its nodes: `of_node` tells
    /// them by level and number in the level. `table` is what the flash says of the tree's LEBs;
    /// `None` makes it from scratch at the next commit.
    pub fn new(
        geometry: LptGeometry,
        (first, leb_size, unit): (u32, u32, u32),
        places: LptPlaces,
        table: Vec<(u32, u32)>,
        of_node: &dyn Fn(u32, u32) -> Option<LptPlace>,
    ) -> Self {
        let node = |level: u32, number: u32| LptNode { place: of_node(level, number), is_dirty: false };
        let width = |level: u32| {
            let below = FANOUT.saturating_pow(geometry.height - level);
            geometry.leaves.div_ceil(below.max(1)).max(1)
        };
        let levels = (0..=geometry.height).map(|level| (0..width(level)).map(|number| node(level, number)).collect());
        Self { geometry, first, leb_size, unit, levels: levels.collect(), table, places }
    }

    /// Where its parts stand, with LEBs of the volume.
    pub fn places(&self) -> LptPlaces {
        self.places.within(self.first, self.geometry.is_big)
    }

    /// Writes what differs from the flash; returns the LEBs to unmap once the commit is complete.
    /// `saved` are the LEBs that a big tree names for the next mount. Errors: those of the device.
    pub fn commit(&mut self, space: &mut Space, saved: &[u32], writer: &mut dyn LebWriter) -> Result<Vec<u32>> {
        for leaf in space.take_changed() {
            self.mark(leaf);
        }
        if self.room() <= 2 * self.geometry.written_bytes(self.leb_size, self.unit) {
            for node in self.levels.iter_mut().flatten() {
                node.is_dirty = true;
            }
        }
        if !self.levels.iter().flatten().any(|node| node.is_dirty) {
            return Ok(Vec::new());
        }
        let mut output = Output { lpt: self, bytes: Vec::new(), start: 0, writer };
        output.start = output.lpt.places.head.1;
        output.nodes(space)?;
        output.tables(saved)
    }

    /// Where the content of each LEB of the tree ends.
    pub fn used(&self) -> Vec<(u32, u32)> {
        (self.first..).zip(&self.table).map(|(leb, (free, _))| (leb, self.leb_size - free)).collect()
    }

    /// Marks a leaf and the nodes above it.
    fn mark(&mut self, leaf: u32) {
        let mut number = leaf as usize;
        for level in self.levels.iter_mut().rev() {
            level.get_mut(number).into_iter().for_each(|node| node.is_dirty = true);
            number /= FANOUT as usize;
        }
    }

    /// Bytes that can be written: behind the head, and in empty LEBs.
    fn room(&self) -> u64 {
        let (head, offset) = self.places.head;
        let room = (0..).zip(&self.table).map(|(leb, (free, _))| match leb == head {
            true => self.leb_size.saturating_sub(offset),
            false if *free == self.leb_size => self.leb_size,
            false => 0,
        });
        room.map(u64::from).sum()
    }

    /// Makes the tree's LEBs with nothing in use empty, and returns them.
    fn free_lebs(&mut self) -> Vec<u32> {
        let (head, _) = self.places.head;
        let mut freed = Vec::new();
        for (leb, (free, dirty)) in (0..).zip(&mut self.table) {
            if leb != head && *free < self.leb_size && *free + *dirty >= self.leb_size {
                (*free, *dirty) = (self.leb_size, 0);
                freed.push(self.first + leb);
            }
        }
        freed
    }

    /// Counts bytes in a LEB of the tree that are out of use.
    fn drop_bytes(&mut self, place: Option<LptPlace>, bytes: u32) {
        let entry = place.and_then(|(leb, _)| self.table.get_mut(leb as usize));
        entry.into_iter().for_each(|(free, dirty)| *dirty = (*dirty + bytes).min(self.leb_size - *free));
    }
}

/// Nodes on their way to the head of the tree.
struct Output<'a> {
    lpt: &'a mut Lpt,
    /// What is to be written from `start` of the head's LEB on.
    bytes: Vec<u8>,
    start: u32,
    writer: &'a mut dyn LebWriter,
}

impl Output<'_> {
    fn nodes(&mut self, space: &Space) -> Result<()> {
        let geometry = self.lpt.geometry;
        for level in (0..=geometry.height).rev() {
            let count = self.lpt.levels.get(level as usize).map_or(0, Vec::len) as u32;
            for number in 0..count {
                let Some(node) = self.node(level, number).filter(|node| node.is_dirty) else { continue };
                let bytes = match level == geometry.height {
                    true => geometry.leaf(number, &space.leaf(number), self.lpt.leb_size),
                    false => geometry.inner(LptGeometry::inner_number(level, number), &self.children(level, number)),
                };
                self.lpt.drop_bytes(node.place, bytes.len() as u32);
                let place = self.put(&bytes)?;
                let node = self.lpt.levels.get_mut(level as usize).and_then(|nodes| nodes.get_mut(number as usize));
                node.into_iter().for_each(|node| *node = LptNode { place: Some(place), is_dirty: false });
                if level == 0 {
                    self.lpt.places.root = place;
                }
            }
        }
        Ok(())
    }

    fn node(&self, level: u32, number: u32) -> Option<LptNode> {
        self.lpt.levels.get(level as usize)?.get(number as usize).copied()
    }

    /// The places of a node's children; those never written are told by the LEB behind the tree's.
    fn children(&self, level: u32, number: u32) -> Vec<LptPlace> {
        let none = (self.lpt.geometry.lebs, 0);
        let child = |child| self.node(level + 1, number * FANOUT + child).and_then(|node| node.place).unwrap_or(none);
        (0..FANOUT).map(child).collect()
    }

    /// Writes the saved numbers and the table, and what remains.
    fn tables(&mut self, saved: &[u32]) -> Result<Vec<u32>> {
        let geometry = self.lpt.geometry;
        if geometry.is_big {
            let old = self.lpt.places.saved;
            self.lpt.drop_bytes(Some(old), geometry.saved_size);
            self.lpt.places.saved = self.put(&geometry.saved(saved.iter().copied()))?;
        }
        let old = self.lpt.places.table;
        self.lpt.drop_bytes(Some(old), geometry.table_size);
        // The table counts itself: its bytes are known once its place is.
        let place = self.put(&vec![0; geometry.table_size as usize])?;
        let (used, end) = (self.bytes.len(), self.bytes.len().next_multiple_of(self.lpt.unit as usize));
        self.count_padding((end - used) as u32);
        // What this commit left with nothing in use is empty for the next one.
        let freed = self.lpt.free_lebs();
        let table = geometry.table(&self.lpt.table);
        let start = used.saturating_sub(table.len());
        self.bytes.iter_mut().skip(start).zip(&table).for_each(|(to, from)| *to = *from);
        self.bytes.resize(end, 0xFF);
        self.flush()?;
        self.lpt.places.table = place;
        Ok(freed)
    }

    /// Appends a node, in the next empty LEB if this one has no room.
    fn put(&mut self, node: &[u8]) -> Result<LptPlace> {
        let room = self.lpt.leb_size as usize - self.start as usize - self.bytes.len();
        if node.len() > room {
            let end = self.bytes.len().next_multiple_of(self.lpt.unit as usize);
            self.count_padding((end - self.bytes.len()) as u32);
            self.bytes.resize(end, 0xFF);
            self.flush()?;
            self.next_leb()?;
        }
        let place = (self.lpt.places.head.0, self.start + self.bytes.len() as u32);
        self.bytes.extend_from_slice(node);
        let entry = self.lpt.table.get_mut(place.0 as usize);
        entry.into_iter().for_each(|(free, _)| *free = free.saturating_sub(node.len() as u32));
        Ok(place)
    }

    fn count_padding(&mut self, padding: u32) {
        let entry = self.lpt.table.get_mut(self.lpt.places.head.0 as usize);
        entry.into_iter().for_each(|(free, dirty)| {
            *free = free.saturating_sub(padding);
            *dirty += padding;
        });
    }

    fn flush(&mut self) -> Result<()> {
        let leb = self.lpt.places.head.0;
        if !self.bytes.is_empty() {
            self.writer.write(self.lpt.first + leb, self.start, &self.bytes)?;
        }
        self.start += self.bytes.len() as u32;
        self.bytes.clear();
        self.lpt.places.head = (leb, self.start);
        Ok(())
    }

    fn next_leb(&mut self) -> Result<()> {
        let is_empty = |(_, (free, _)): &(u32, &(u32, u32))| *free == self.lpt.leb_size;
        let (leb, _) = (0..).zip(&self.lpt.table).find(is_empty).ok_or_else(short)?;
        // A cut may have left it mapped.
        self.writer.unmap(self.lpt.first + leb)?;
        self.lpt.places.head = (leb, 0);
        self.start = 0;
        Ok(())
    }
}
