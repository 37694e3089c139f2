//! The LEB properties of the last commit, held against its index.
//!
//! Facts: Linux `fs/ubifs/lpt.c`, `fs/ubifs/lprops.c` (`dbg_check_lprops`).

use std::collections::BTreeMap;

use nandkit_vfs::Result;
use nandkit_vfs::check::{Finding, Findings};

use crate::damage::{self, DamageKind};
use crate::layout::{ALIGNMENT, LOG_LEB, Master, Superblock, flag};
use crate::lebs::Lebs;
use crate::lpt::{FANOUT, LebProperties, LptGeometry};
use crate::mount::Ubifs;
use crate::node::Place;
use crate::tree::Tree;

/// Where the tree of properties and what it describes lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Areas {
    pub geometry: LptGeometry,
    /// First LEB of the tree.
    pub lpt_first: u32,
    /// First LEB of the orphan area.
    pub orphans_first: u32,
    /// First LEB of the main area.
    pub main_first: u32,
    /// LEBs of the volume.
    pub leb_count: u32,
}

/// Most LEBs of the tree, and most saved numbers, whose bits 32 bits can count.
const COUNT_MAX: u32 = 1 << 20;

/// LEBs smaller than any that UBI has: a unit of bytes has too few bits.
const LEB_SIZE_MIN: u32 = 64;

impl Areas {
    /// The areas of a volume; `None` if the superblock's numbers contradict each other.
    pub fn of(superblock: &Superblock) -> Option<Self> {
        let [log, lpt, orphans] = [superblock.log_lebs, superblock.lpt_lebs, superblock.orphan_lebs].map(|of| of.get());
        let [leb_count, leb_count_max, saved] =
            [superblock.leb_count, superblock.leb_count_max, superblock.lsave_count].map(|of| of.get());
        let lpt_first = LOG_LEB.checked_add(log)?;
        let orphans_first = lpt_first.checked_add(lpt)?;
        let main_first = orphans_first.checked_add(orphans)?;
        let main = leb_count.checked_sub(main_first).filter(|main| *main > 0)?;
        let grows = leb_count_max.checked_sub(leb_count)?;
        let leb_size = superblock.leb_size.get();
        if !(1..=COUNT_MAX).contains(&lpt) || saved > COUNT_MAX || leb_size < LEB_SIZE_MIN {
            return None;
        }
        let is_big = superblock.flags.get() & flag::BIG_LPT != 0;
        let geometry = LptGeometry::new(lpt, is_big, leb_size, main, grows, leb_count_max, saved);
        Some(Self { geometry, lpt_first, orphans_first, main_first, leb_count })
    }
}

/// A node of the tree that is to be read.
struct Pending {
    level: u32,
    /// Its place among the nodes of its level.
    place: u32,
    leb: u32,
    offset: u32,
}

/// What the tree of properties holds.
#[derive(Default)]
pub(crate) struct Stated {
    pub lebs: BTreeMap<u32, LebProperties>,
    /// Where its nodes stand, by level and place in it: LEBs counted from the first one of the
    /// tree, and offsets.
    pub nodes: BTreeMap<(u32, u32), (u32, u32)>,
    /// Whether every node was read: LEBs without properties are empty then.
    pub is_whole: bool,
}

impl Ubifs {
    /// Tells where the properties of LEBs differ from what the index of the last commit uses.
    /// Errors: those of the device. Cost: reads the index and the tree of properties again.
    pub(crate) fn check_properties(&self, findings: &mut Findings) -> Result<()> {
        let Some(areas) = Areas::of(&self.superblock) else {
            let detail = "the superblock's numbers of LEBs contradict each other: properties are not checked";
            findings.add(Finding::new(DamageKind::Properties, detail));
            return Ok(());
        };
        let mut used = BTreeMap::<u32, (u64, bool)>::new();
        let mut count = |place: Place, is_index: bool| {
            let of = used.entry(place.leb).or_default();
            of.0 += u64::from(place.length).next_multiple_of(ALIGNMENT.into());
            of.1 |= is_index;
        };
        let mut lost = Findings::default();
        let (fanout, see) = (self.superblock.fanout.get(), &mut |place| count(place, true));
        let tree = Tree::load_with(&self.lebs, &self.master, fanout, &mut lost, see)?;
        if !lost.into_list().is_empty() {
            // What the lost part of the index uses is unknown; mounting has told it.
            return Ok(());
        }
        tree.all().for_each(|(_, place)| count(place, false));
        let stated = read_properties(&self.lebs, &self.master, &areas, findings)?;
        let empty = LebProperties { free: self.superblock.leb_size.get(), dirty: 0, is_index: false };
        for (leb, properties) in &stated.lebs {
            self.compare(*leb, properties, used.remove(leb).unwrap_or_default(), findings);
        }
        for (leb, used) in used.into_iter().filter(|_| stated.is_whole) {
            self.compare(leb, &empty, used, findings);
        }
        Ok(())
    }

    fn compare(&self, leb: u32, stated: &LebProperties, used: (u64, bool), findings: &mut Findings) {
        let (bytes, holds_index) = used;
        let taken = i64::from(self.superblock.leb_size.get()) - i64::from(stated.free) - i64::from(stated.dirty);
        let kind = |is_index: bool| if is_index { "index" } else { "files" };
        let what = if taken != bytes as i64 {
            format!("{taken} bytes are in use by its properties, {bytes} by the index")
        } else if bytes > 0 && stated.is_index != holds_index {
            format!("its properties say {}, it holds {}", kind(stated.is_index), kind(holds_index))
        } else {
            return;
        };
        let place = Place { leb, offset: 0, length: 0 };
        findings.add(damage::at(DamageKind::Properties, &self.lebs, place, &format!("LEB {leb}: {what}")));
    }
}

/// Reads the tree of properties. Parts that cannot be read are told.
pub(crate) fn read_properties(
    lebs: &dyn Lebs,
    master: &Master,
    areas: &Areas,
    findings: &mut Findings,
) -> Result<Stated> {
    let geometry = &areas.geometry;
    let mut stated = Stated { is_whole: true, ..Stated::default() };
    // Nodes that several parents lead to would take any time.
    let mut left = u64::from(lebs.leb_size()) * u64::from(lebs.mapped());
    let (leb, offset) = (master.lpt_leb.get(), master.lpt_offset.get());
    let mut pending = vec![Pending { level: 0, place: 0, leb, offset }];
    while let Some(Pending { level, place, leb, offset }) = pending.pop() {
        let is_leaf = level == geometry.height;
        let size = if is_leaf { geometry.leaf_size } else { geometry.inner_size };
        let mut bytes = vec![0; size as usize];
        let is_inside = (areas.lpt_first..areas.lpt_first + geometry.lebs).contains(&leb)
            && u64::from(offset) + u64::from(size) <= lebs.leb_size().into();
        left = left.saturating_sub(size.into());
        if is_inside && left > 0 {
            lebs.read(leb, offset, &mut bytes)?;
        }
        stated.nodes.insert((level, place), (leb.saturating_sub(areas.lpt_first), offset));
        let read = match is_leaf {
            true => geometry.read_leaf(&bytes, place).map(|properties| {
                let first = areas.main_first.saturating_add(place.saturating_mul(FANOUT));
                stated.lebs.extend((first..areas.leb_count).zip(properties));
            }),
            false => {
                let number = LptGeometry::inner_number(level, place);
                geometry.read_inner(&bytes, number).map(|children| {
                    let places = place.saturating_mul(FANOUT)..;
                    let there = places.zip(children).filter_map(|(place, child)| Some((place, child?)));
                    pending.extend(there.map(|(place, (leb, offset))| Pending {
                        level: level + 1,
                        place,
                        leb: areas.lpt_first.saturating_add(leb),
                        offset,
                    }));
                })
            }
        };
        if read.is_none() {
            stated.is_whole = false;
            let detail = "a node of the tree of properties that cannot be read";
            let place = Place { leb, offset, length: size };
            findings.add(damage::at(DamageKind::Properties, lebs, place, detail));
        }
    }
    Ok(stated)
}
