//! The map in memory: data blocks, log blocks, and which pages have content.

use nandkit_cleaning::log_victim::{LogView, VictimRule};
use nandkit_cleaning::recycling::PeriodHistory;
use nandkit_units::{BlockIndex, PageAddress};

use crate::present::Present;

/// A log block.
///
/// The memory layout is fixed: `next` changes with each page, and a load of `next` and `block`
/// together right after a store of `next` alone would stall.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Log {
    pub lbn: u32,
    pub block: u32,
    pub last_write: u64,
    /// The next free page.
    pub next: u32,
    /// The written pages are 0, 1, 2 ... in this order and nothing else.
    pub in_order: bool,
    /// The block replaced another log block (a migration).
    pub migrated: bool,
    pub opened: u64,
    pub migrations: u64,
    pub history: PeriodHistory,
}

impl Log {
    /// Records that the next page holds page `offset` of the logical block; returns whether the log
    /// block is still in order.
    #[inline]
    pub fn note(&mut self, offset: u32, stamp: u64) -> bool {
        self.in_order &= offset == self.next;
        self.next += 1;
        self.last_write = stamp;
        self.in_order
    }
}

/// The map entries of one logical block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockView<'a> {
    present: &'a [u64],
    table: &'a [u16],
    log: u32,
    data: Option<u32>,
}

impl BlockView<'_> {
    /// The address of a page's current content.
    #[inline]
    pub fn locate(&self, offset: u32) -> Option<PageAddress> {
        let present = self.present.get(offset as usize / 64).is_some_and(|word| word >> (offset % 64) & 1 != 0);
        if !present {
            return None;
        }
        match self.table.get(offset as usize) {
            Some(&entry) if entry != 0 => Some(BlockIndex(self.log).page(u32::from(entry) - 1)),
            _ => self.data.map(|block| BlockIndex(block).page(offset)),
        }
    }
}

/// The position of each page in the log blocks: for each slot and page offset, the log page + 1, or
/// 0. A trimmed page keeps its entry, so that older versions do not come back (rule 8).
#[derive(Debug)]
pub(super) struct Places {
    np: usize,
    entries: Vec<u16>,
}

impl Places {
    #[inline]
    fn of(&self, slot: usize) -> &[u16] {
        self.entries.get(slot * self.np..(slot + 1) * self.np).unwrap_or(&[])
    }

    #[inline]
    fn of_mut(&mut self, slot: usize) -> &mut [u16] {
        self.entries.get_mut(slot * self.np..(slot + 1) * self.np).unwrap_or(&mut [])
    }

    /// Records that the newest version of a page lies at page `page` of the log block.
    #[inline]
    pub fn set(&mut self, slot: usize, offset: u32, page: u32) {
        debug_assert!((offset as usize) < self.np, "offset {offset} in a block of {} pages", self.np);
        if let Some(entry) = self.entries.get_mut(slot * self.np + offset as usize) {
            *entry = page as u16 + 1;
        }
    }
}

/// The map. A device without mapped blocks has all-zero tables, which take no memory until they are
/// written.
#[derive(Debug)]
pub(super) struct Map {
    /// For each logical block: its data block + 1, or 0.
    data: Vec<u32>,
    /// For each logical block: its log slot + 1, or 0.
    log_of: Vec<u16>,
    /// Whether a page has content (was written and not trimmed).
    pub present: Present,
    /// The log block in each slot.
    pub logs: Vec<Option<Log>>,
    pub places: Places,
    free_slots: Vec<u16>,
}

impl Map {
    pub fn new(lbns: u32, np: u32, slots: usize) -> Self {
        let present = Present::new(lbns, np);
        let (lbns, np) = (lbns as usize, np as usize);
        Self {
            data: vec![0; lbns],
            log_of: vec![0; lbns],
            present,
            logs: vec![None; slots],
            places: Places { np, entries: vec![0; slots * np] },
            free_slots: (0..slots as u16).rev().collect(),
        }
    }

    #[inline]
    pub fn data(&self, lbn: u32) -> Option<u32> {
        self.data.get(lbn as usize).and_then(|block| block.checked_sub(1))
    }

    pub fn set_data(&mut self, lbn: u32, block: u32) {
        if let Some(entry) = self.data.get_mut(lbn as usize) {
            *entry = block + 1;
        }
    }

    #[inline]
    pub fn slot_of(&self, lbn: u32) -> Option<usize> {
        self.log_of.get(lbn as usize).and_then(|slot| slot.checked_sub(1)).map(usize::from)
    }

    #[inline]
    pub fn log(&self, slot: usize) -> Option<&Log> {
        self.logs.get(slot)?.as_ref()
    }

    #[inline]
    pub fn log_mut(&mut self, slot: usize) -> Option<&mut Log> {
        self.logs.get_mut(slot)?.as_mut()
    }

    /// The log page for each offset; see [`Places`].
    #[inline]
    pub fn table(&self, slot: usize) -> &[u16] {
        self.places.of(slot)
    }

    #[inline]
    pub fn table_mut(&mut self, slot: usize) -> &mut [u16] {
        self.places.of_mut(slot)
    }

    pub fn free_slots(&self) -> usize {
        self.free_slots.len()
    }

    pub fn open_logs(&self) -> usize {
        self.logs.len() - self.free_slots.len()
    }

    /// Adds a log block; `None` if no slot is free.
    pub fn open_log(&mut self, log: Log) -> Option<usize> {
        let slot = usize::from(self.free_slots.pop()?);
        if let Some(entry) = self.log_of.get_mut(log.lbn as usize) {
            *entry = slot as u16 + 1;
        }
        self.table_mut(slot).fill(0);
        if let Some(entry) = self.logs.get_mut(slot) {
            *entry = Some(log);
        }
        Some(slot)
    }

    /// Removes a log block.
    pub fn close_log(&mut self, slot: usize) {
        if let Some(log) = self.logs.get_mut(slot).and_then(Option::take) {
            if let Some(entry) = self.log_of.get_mut(log.lbn as usize) {
                *entry = 0;
            }
            self.free_slots.push(slot as u16);
        }
    }

    #[inline]
    pub fn is_present(&self, lbn: u32, offset: u32) -> bool {
        self.present.get(lbn, offset)
    }

    #[inline]
    pub fn set_present(&mut self, lbn: u32, offset: u32, present: bool) {
        self.present.set(lbn, offset, present);
    }

    /// The extent of a logical block's content; see [`Present::extent`].
    pub fn extent(&self, lbn: u32) -> (u32, bool) {
        self.present.extent(lbn)
    }

    /// The address of a page's current content.
    #[inline]
    pub fn locate(&self, lbn: u32, offset: u32) -> Option<PageAddress> {
        self.view(lbn).locate(offset)
    }

    /// A view of one logical block, for looking up many of its pages.
    #[inline]
    pub fn view(&self, lbn: u32) -> BlockView<'_> {
        let (table, log) = match self.slot_of(lbn) {
            Some(slot) => (self.table(slot), self.log(slot).map_or(0, |log| log.block)),
            None => (&[][..], 0),
        };
        BlockView { present: self.present.words_of(lbn), table, log, data: self.data(lbn) }
    }

    /// Whether a migration must copy page `offset` of a log block: it is current, or it was trimmed
    /// and would otherwise expose an older version in the data block (rule 8).
    #[inline]
    pub fn carries(&self, lbn: u32, has_data: bool, offset: u32, entry: u16) -> bool {
        entry != 0 && (has_data || self.is_present(lbn, offset))
    }

    /// The number of pages that a migration of this log block would copy: `p` in P4.
    pub fn p(&self, slot: usize) -> u32 {
        let Some(log) = self.log(slot) else { return 0 };
        let has_data = self.data(log.lbn).is_some();
        (0u32..)
            .zip(self.table(slot))
            .filter(|(offset, entry)| self.carries(log.lbn, has_data, *offset, **entry))
            .count() as u32
    }

    /// The open log blocks, for choosing a victim. Counts valid pages only if the rule needs them.
    pub fn views(&self, rule: VictimRule) -> impl Iterator<Item = LogView> + '_ {
        self.logs.iter().enumerate().filter_map(move |(slot, log)| {
            let log = log.as_ref()?;
            let valid = if rule == VictimRule::FewestValid { self.valid(slot, log) } else { 0 };
            Some(LogView { slot, opened: log.opened, last_write: log.last_write, valid })
        })
    }

    fn valid(&self, slot: usize, log: &Log) -> u32 {
        (0u32..).zip(self.table(slot)).filter(|(o, entry)| **entry != 0 && self.is_present(log.lbn, *o)).count() as u32
    }
}
