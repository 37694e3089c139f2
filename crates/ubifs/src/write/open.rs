//! Mounting for writing: what a power cut left is put in order, and every LEB of the main area gets
//! its properties by what the index uses of it.
//!
//! Source of the rules: Linux `fs/ubifs/super.c` (`mount_ubifs`), `recovery.c`, `replay.c`.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::random::Random;
use nandkit_units::{Cause, Clock};
use nandkit_vfs::check::Findings;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::buffers::HEADS;
use super::log::LogState;
use super::lpt::Lpt;
use super::space::Space;
use super::{WriteCounters, WriteOptions, Writer};
use crate::encode::{aligned, bytes_of, node, pad};
use crate::layout::{
    FORMAT_MAX, HEADER_SIZE, LOG_LEB, MASTER_DIRTY, MASTER_LEBS, MASTER_NO_ORPHANS, SUPERBLOCK_LEB, Superblock, flag,
    node_type,
};
use crate::lebs::Lebs;
use crate::lpt::{LebProperties, LptGeometry, LptPlaces};
use crate::mount::Ubifs;
use crate::pack::Packer;
use crate::properties::{Areas, Stated, read_properties};
use crate::replay::Bud;
use crate::sums::SpaceLimits;
use crate::superblock::{self, SUPERBLOCK_SIZE};
use crate::walk::{Rest, nodes_of};

/// The smallest unit in which UBIFS writes.
const UNIT_MIN: u32 = 8;
/// The smallest LEB that is written: it holds a superblock.
const LEB_SIZE_MIN: u32 = 2 * SUPERBLOCK_SIZE;

fn refused<T>(detail: impl Into<String>) -> Result<T> {
    Err(FsError::new(ErrorKind::ReadOnly, detail))
}

impl Ubifs {
    /// Mounts a volume for reading and writing: recovers what a power cut left, grows to the most
    /// LEBs that it may have, and marks the volume as in use. End it with [`Ubifs::unmount`].
    ///
    /// Errors: those of [`Ubifs::mount`]; `ReadOnly` if it cannot be written without a loss:
    /// damage, a medium for reading, a format that is not known; `NoSpace`, `Device`. Cost: that of
    /// a mount for reading, the tree of properties, and after a power cut a commit.
    pub fn mount_for_writing(mut lebs: Box<dyn Lebs>, clock: Clock, options: WriteOptions) -> Result<Self> {
        if lebs.writer().is_none() {
            return refused("the medium is for reading");
        }
        let mut volume = Self::mount(lebs)?;
        volume.lebs.writer_for(Cause::Recovery)?;
        volume.refuse_unknown()?;
        let was_in_use = volume.master.flags.get() & MASTER_DIRTY != 0;
        volume.grow()?;
        volume.writer = Some(Box::new(volume.new_writer(clock, options)?));
        volume.fix_up_space(was_in_use)?;
        match was_in_use {
            true => volume.recover()?,
            false => volume.go_on()?,
        }
        Ok(volume)
    }

    fn refuse_unknown(&self) -> Result<()> {
        if let Some(fault) = self.damage.iter().find(|finding| !finding.is_harmless()) {
            return refused(format!("the volume is damaged, and to write it would lose more: {}", fault.detail));
        }
        if !self.tree.is_whole() {
            return refused("a part of the index cannot be read, and to write the volume would lose it");
        }
        let format = self.superblock.format.get();
        if format > FORMAT_MAX {
            return refused(format!(
                "format {format} of UBIFS is written by newer programs; known are those up to {FORMAT_MAX}"
            ));
        }
        let known = flag::BIG_LPT | flag::SPACE_FIXUP | flag::DOUBLE_HASH | flag::ENCRYPTION;
        let unknown = self.superblock.flags.get() & !known & !1;
        if unknown != 0 {
            return refused(format!("the superblock has flags {unknown:#x}, which are not known"));
        }
        self.refuse_contradictions()
    }

    /// Refuses numbers of superblock and master node by which something would be written where it
    /// does not belong.
    fn refuse_contradictions(&self) -> Result<()> {
        let (superblock, master) = (&self.superblock, &self.master);
        let Some(areas) = Areas::of(superblock) else {
            return refused("the superblock's numbers of LEBs contradict each other");
        };
        let (leb_size, unit) = (superblock.leb_size.get(), self.unit());
        if !unit.is_power_of_two() || !leb_size.is_multiple_of(unit) || leb_size < LEB_SIZE_MIN {
            return refused(format!("the superblock has LEBs of {leb_size} bytes that are written in units of {unit}"));
        }
        if superblock.log_lebs.get() < 2 || superblock.orphan_lebs.get() == 0 || superblock.fanout.get() < 3 {
            return refused("the superblock has too small a log, orphan area or fanout");
        }
        let is_place = |lebs: std::ops::Range<u32>, leb: u32, offset: u32| {
            lebs.contains(&leb) && offset <= leb_size && offset.is_multiple_of(unit)
        };
        let main = areas.main_first..areas.leb_count;
        let lpt = areas.lpt_first..areas.orphans_first;
        let is_sound = is_place(main, master.index_head_leb.get(), master.index_head_offset.get())
            && is_place(lpt.clone(), master.lpt_head_leb.get(), master.lpt_head_offset.get())
            && lpt.contains(&master.lpt_table_leb.get())
            && self.replayed.buds.iter().all(|bud| areas.main_first <= bud.leb && bud.leb < areas.leb_count);
        match is_sound {
            true => Ok(()),
            false => refused("the master node or the log names a place outside the area where it belongs"),
        }
    }

    /// Lets the volume grow to the LEBs that are there, and that it may have.
    fn grow(&mut self) -> Result<()> {
        let most = self.superblock.leb_count_max.get().min(self.lebs.leb_count());
        if self.superblock.leb_count.get() >= most {
            return Ok(());
        }
        self.superblock.leb_count = most.into();
        let flags = self.superblock.flags.get();
        self.write_superblock(flags)
    }

    /// Writes the superblock with these flags; what is not known of it stays.
    fn write_superblock(&mut self, flags: u32) -> Result<()> {
        self.superblock.flags = flags.into();
        let mut old = vec![0; SUPERBLOCK_SIZE as usize];
        self.lebs.read(SUPERBLOCK_LEB, 0, &mut old)?;
        let rest = old.split_off(HEADER_SIZE + size_of::<Superblock>());
        let (_, newest) = superblock::master(&self.lebs)?;
        let sequence = newest.max(self.replayed.sequence).saturating_add(1);
        self.replayed.sequence = sequence;
        let mut bytes = Vec::new();
        node(node_type::SUPERBLOCK, sequence, &[bytes_of(&self.superblock), &rest], &mut bytes);
        let end = bytes.len().next_multiple_of(self.unit() as usize);
        pad(&mut bytes, end);
        self.lebs.writer()?.change(SUPERBLOCK_LEB, &bytes)
    }

    fn unit(&self) -> u32 {
        self.superblock.min_io_size.get().max(UNIT_MIN)
    }

    fn new_writer(&mut self, clock: Clock, options: WriteOptions) -> Result<Writer> {
        let contradiction = "the superblock's numbers of LEBs contradict each other";
        let Some(areas) = Areas::of(&self.superblock) else { return refused(contradiction) };
        let (leb_size, unit) = (self.superblock.leb_size.get(), self.unit());
        let mut findings = Findings::default();
        let stated = read_properties(&self.lebs, &self.master, &areas, &mut findings)?;
        if !stated.is_whole {
            return refused("a part of the properties of LEBs cannot be read");
        }
        let lpt = self.open_lpt(&areas, &stated)?;
        let limits = SpaceLimits::new(leb_size, unit);
        let empty = LebProperties { free: leb_size, dirty: 0, is_index: false };
        let of_flash = |leb: u32| stated.lebs.get(&leb).copied().unwrap_or(empty);
        let on_flash: Vec<LebProperties> = (areas.main_first..areas.leb_count).map(of_flash).collect();
        let space = Space::new(areas.main_first, limits, self.properties(&areas, &stated), &on_flash);
        let (_, newest) = superblock::master(&self.lebs)?;
        let master = &self.master;
        let log_end = self.replayed.log.end.unwrap_or((master.log_leb.get(), 0));
        let log = LogState {
            lebs: self.superblock.log_lebs.get(),
            head: (log_end.0, log_end.1.next_multiple_of(unit)),
            tail: master.log_leb.get(),
            buds: self.replayed.buds.iter().map(|bud| (bud.leb, bud.start)).collect(),
            bud_bytes_max: self.superblock.bud_bytes_max.get().max(u64::from(leb_size) * (HEADS as u64 + 2)),
            leb_size,
            unit,
        };
        Ok(Writer {
            areas,
            unit,
            sequence: newest.max(self.replayed.sequence),
            commit: master.commit.get(),
            highest_inode: u32::try_from(master.highest_inode.get())
                .unwrap_or(u32::MAX)
                .max(self.replayed.highest_inode),
            space,
            log,
            lpt,
            index_head: (master.index_head_leb.get(), master.index_head_offset.get()),
            old_index: self.tree.take_obsolete(),
            collector_leb: None,
            master_offset: 0,
            orphans: BTreeSet::new(),
            has_orphan_nodes: master.flags.get() & MASTER_NO_ORPHANS == 0,
            retained: BTreeMap::new(),
            wants_commit: false,
            is_changed: false,
            is_full: false,
            broken: None,
            clock,
            packer: Packer::default(),
            options,
            random: Random::new(options.seed, "victims of UBIFS"),
            counters: WriteCounters::default(),
        })
    }

    fn open_lpt(&self, areas: &Areas, stated: &Stated) -> Result<Lpt> {
        let master = &self.master;
        let relative = |leb: u32, offset: u32| (leb.saturating_sub(areas.lpt_first), offset);
        let places = LptPlaces {
            root: relative(master.lpt_leb.get(), master.lpt_offset.get()),
            head: relative(master.lpt_head_leb.get(), master.lpt_head_offset.get()),
            table: relative(master.lpt_table_leb.get(), master.lpt_table_offset.get()),
            saved: relative(master.lpt_saved_leb.get(), master.lpt_saved_offset.get()),
        };
        let leb_size = self.superblock.leb_size.get();
        let geometry: LptGeometry = areas.geometry;
        let mut bytes = vec![0; geometry.table_size.min(leb_size) as usize];
        self.lebs.read(master.lpt_table_leb.get(), master.lpt_table_offset.get(), &mut bytes)?;
        let sound = |table: &Vec<(u32, u32)>| {
            let (head, offset) = places.head;
            table.iter().all(|(free, dirty)| free.checked_add(*dirty).is_some_and(|sum| sum <= leb_size))
                && (head as usize) < table.len()
                && offset <= leb_size
        };
        let Some(table) = geometry.read_table(&bytes).filter(sound) else {
            return refused("the table of the LEBs of the tree of properties cannot be read");
        };
        let of_node = |level, number| stated.nodes.get(&(level, number)).copied();
        Ok(Lpt::new(geometry, (areas.lpt_first, leb_size, self.unit()), places, table, &of_node))
    }

    /// The properties of all LEBs of the main area. What is in use is counted; what is free is what
    /// the flash says, or where a bud ends.
    fn properties(&self, areas: &Areas, stated: &Stated) -> Vec<LebProperties> {
        let (leb_size, unit) = (self.superblock.leb_size.get(), self.unit());
        let mut used = BTreeMap::<u32, (u32, u32)>::new();
        let mut count = |place: crate::node::Place| {
            let of = used.entry(place.leb).or_default();
            let bytes = aligned(place.length as usize) as u32;
            *of = (of.0.saturating_add(bytes), of.1.max(place.offset.saturating_add(bytes)));
        };
        self.tree.all().for_each(|(_, place)| count(place));
        let is_index = |leb: &u32| stated.lebs.get(leb).is_some_and(|leb| leb.is_index);
        (areas.main_first..areas.leb_count).filter(is_index).for_each(|leb| {
            self.tree.clean_places_in(leb).into_iter().for_each(&mut count);
        });
        let buds: BTreeMap<u32, &Bud> = self.replayed.buds.iter().map(|bud| (bud.leb, bud)).collect();
        let empty = LebProperties { free: leb_size, dirty: 0, is_index: false };
        let of_leb = |leb: u32| {
            let stated = stated.lebs.get(&leb).copied().unwrap_or(empty);
            let (bytes, end) = used.get(&leb).copied().unwrap_or_default();
            let written = match buds.get(&leb) {
                Some(bud) => bud.end,
                None => leb_size.saturating_sub(stated.free),
            };
            let end = written.max(end).checked_next_multiple_of(unit);
            let written = end.unwrap_or(leb_size).min(leb_size);
            LebProperties { free: leb_size - written, dirty: written.saturating_sub(bytes), is_index: stated.is_index }
        };
        (areas.main_first..areas.leb_count).map(of_leb).collect()
    }

    /// Erases what a flash programmer wrote as pages of 0xFF behind the content of LEBs, once.
    fn fix_up_space(&mut self, was_in_use: bool) -> Result<()> {
        let flags = self.superblock.flags.get();
        if flags & flag::SPACE_FIXUP == 0 {
            return Ok(());
        }
        if was_in_use || !self.replayed.buds.is_empty() {
            return refused("free space was to be erased before the volume was written, and it was written");
        }
        let (tail, log_end) = (self.master.log_leb.get(), self.replayed.log.end.map_or(0, |(_, end)| end));
        let log = (LOG_LEB..).take(self.superblock.log_lebs.get() as usize);
        let mut ends: Vec<(u32, u32)> = log.map(|leb| (leb, if leb == tail { log_end } else { 0 })).collect();
        for leb in MASTER_LEBS {
            ends.push((leb, nodes_of(&self.lebs, leb, 0)?.end()));
        }
        let writer = self.writer()?;
        ends.extend(writer.lpt.used());
        ends.extend((writer.areas.orphans_first..writer.areas.main_first).map(|leb| (leb, 0)));
        let main = writer.areas.main_first..writer.areas.leb_count;
        let leb_size = writer.log.leb_size;
        ends.extend(main.map(|leb| (leb, leb_size - writer.space.get(leb).map_or(0, |leb| leb.free))));
        for (leb, end) in ends {
            match end {
                0 => self.lebs.writer()?.unmap(leb)?,
                end if end < leb_size => self.cut(leb, end)?,
                _ => {}
            }
        }
        self.write_superblock(flags & !flag::SPACE_FIXUP)
    }

    /// Writes the beginning of a LEB anew, padded to a unit; nothing stands behind it then.
    fn cut(&mut self, leb: u32, end: u32) -> Result<()> {
        let mut bytes = vec![0; end as usize];
        self.lebs.read(leb, 0, &mut bytes)?;
        let end = bytes.len().next_multiple_of(self.unit() as usize);
        pad(&mut bytes, end);
        self.lebs.writer()?.change(leb, &bytes)
    }

    /// Goes on after a clean end: with the master marked as in use, and the heads where they were.
    fn go_on(&mut self) -> Result<()> {
        self.take_lebs()?;
        let ends = MASTER_LEBS.map(|leb| nodes_of(&self.lebs, leb, 0));
        let [first, second] = ends;
        let (first, second) = (first?, second?);
        let unit = self.unit();
        let is_even = first.end() == second.end() && [&first, &second].iter().all(|of| of.rest(unit) == Rest::Erased);
        self.writer()?.master_offset = if is_even { first.end().next_multiple_of(unit) } else { 0 };
        self.update_master(self.master.log_leb.get())?;
        self.write_master(true)?;
        self.lebs.writer()?.sync()?;
        for bud in self.replayed.buds.clone() {
            let end = bud.end.next_multiple_of(unit);
            let leb_size = self.writer()?.log.leb_size;
            let is_open = end < leb_size && !bud.is_torn && (bud.head as usize) < HEADS;
            self.lebs.seek(bud.head as usize, is_open.then_some(bud.leb), if is_open { end } else { 0 });
        }
        Ok(())
    }

    /// Puts in order what a power cut left, and commits it.
    fn recover(&mut self) -> Result<()> {
        self.writer()?.master_offset = 0;
        self.write_recovered_master()?;
        self.cut_torn()?;
        self.shorten_log()?;
        self.take_lebs()?;
        self.writer()?.has_orphan_nodes = true;
        self.commit()
    }

    /// Cuts off what stands behind the ends of buds, and of the areas that a commit was writing.
    fn cut_torn(&mut self) -> Result<()> {
        let buds: BTreeMap<u32, Bud> = self.replayed.buds.iter().map(|bud| (bud.leb, *bud)).collect();
        for bud in buds.values().filter(|bud| bud.is_torn) {
            match bud.end {
                0 => self.lebs.writer()?.unmap(bud.leb)?,
                end => self.cut(bud.leb, end)?,
            }
        }
        let lpt_head = self.writer()?.lpt.places().head;
        let index_head = self.writer()?.index_head;
        for (leb, end) in [index_head, lpt_head] {
            let leb_size = self.writer()?.log.leb_size;
            let mut rest = vec![0; leb_size.saturating_sub(end) as usize];
            self.lebs.read(leb, end, &mut rest)?;
            if nandkit_units::is_erased(&rest) {
                continue;
            }
            let mut bytes = vec![0; end as usize];
            self.lebs.read(leb, 0, &mut bytes)?;
            match end {
                0 => self.lebs.writer()?.unmap(leb)?,
                _ => self.lebs.writer()?.change(leb, &bytes)?,
            }
        }
        Ok(())
    }

    /// Gathers the log in its first LEB, so that commits that are cut again and again do not use
    /// it up (Linux `ubifs_consolidate_log`).
    fn shorten_log(&mut self) -> Result<()> {
        let (tail, unit) = (self.writer()?.log.tail, self.unit());
        let mut bytes: Vec<u8> = self.replayed.log.nodes.concat();
        let end = bytes.len().next_multiple_of(unit as usize);
        pad(&mut bytes, end);
        if bytes.len() > self.writer()?.log.leb_size as usize {
            return refused("the log names more LEBs than one of its own can hold");
        }
        self.lebs.writer()?.change(tail, &bytes)?;
        let log = (LOG_LEB..).take(self.superblock.log_lebs.get() as usize);
        for leb in log.filter(|leb| *leb != tail) {
            self.lebs.writer()?.unmap(leb)?;
        }
        self.writer()?.log.head = (tail, bytes.len() as u32);
        Ok(())
    }

    /// Takes the LEBs that are not to be collected, and finds an empty one for the collector.
    fn take_lebs(&mut self) -> Result<()> {
        let wanted = self.master.gc_leb.get();
        let buds: Vec<u32> = self.replayed.buds.iter().map(|bud| bud.leb).collect();
        let writer = self.writer()?;
        writer.space.take(writer.index_head.0, true);
        buds.iter().for_each(|leb| writer.space.take(*leb, true));
        let full = writer.log.leb_size;
        let has_nothing = |leb: &LebProperties| !leb.is_index && leb.free + leb.dirty == full;
        let is_free = !writer.space.is_taken(wanted) && writer.space.get(wanted).is_some_and(|leb| has_nothing(&leb));
        let freeable = writer.space.freeable(false);
        let found = is_free.then_some(wanted).or_else(|| writer.space.find_empty()).or(freeable.first().copied());
        let Some(leb) = found else { return refused("no LEB is free for the collector: the volume is full") };
        self.lebs.writer()?.unmap(leb)?;
        let writer = self.writer()?;
        writer.space.set_empty(leb);
        writer.space.take(leb, true);
        writer.collector_leb = Some(leb);
        Ok(())
    }
}
