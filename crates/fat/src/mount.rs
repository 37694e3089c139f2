//! Mounting, marking a volume as in use, sync and unmounting.

use std::collections::{HashMap, HashSet};

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Clock, Lba, Payload, ReadInto};
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::{FromBytes, IntoBytes};

use crate::allocate::FreeMap;
use crate::bpb::{FatKind, Geometry};
use crate::inode::{Inode, ROOT};
use crate::layout::{FsInfo, STATE_DIRTY, ShortEntry, attribute};
use crate::options::{Cache, FileSync, MountOptions};
use crate::recover::RecoveryReport;
use crate::sectors::{Mirrors, Sectors};
use crate::table::entry_value;
use crate::volume::MountedVolume;

/// Offset of the state byte in the boot sector on FAT12 and FAT16, and on FAT32.
const STATE: (usize, usize) = (37, 65);

/// Reads a device's boot sector. Errors: includes those of volumes that are only readable.
pub(crate) fn read_geometry<D: BlockDevice>(device: &D, clock: &Clock) -> Result<(Geometry, Box<[u8]>)> {
    let (geometry, sector) = read_numbers(device, clock)?;
    geometry.check_whole(device.geometry().capacity())?;
    Ok((geometry, sector))
}

/// Reads the boot sector of a device that need not contain the whole volume.
fn read_numbers<D: BlockDevice>(device: &D, clock: &Clock) -> Result<(Geometry, Box<[u8]>)> {
    let shape = device.geometry();
    let size = shape.sector_size.max(512);
    let mut sector = vec![0; size as usize].into_boxed_slice();
    if u64::from(size) > shape.capacity() {
        return Err(FsError::new(
            ErrorKind::Corrupt,
            format!("a device of {} bytes holds no FAT volume", shape.capacity()),
        ));
    }
    let context =
        nandkit_units::Context::at(clock.now()).for_cause(Cause::Metadata).in_area(nandkit_units::Area::Metadata);
    let done = device
        .read(&context, Lba(0), ReadInto::Bytes(&mut sector))
        .map_err(|error| FsError::device("reading the boot sector", error))?;
    clock.advance_to(done.completed);
    let geometry = Geometry::of_numbers(&sector)?;
    if !geometry.sector_size.is_multiple_of(shape.sector_size) {
        let detail = format!(
            "the volume's sectors of {} bytes are smaller than the device's of {} bytes",
            geometry.sector_size, shape.sector_size
        );
        return Err(FsError::new(ErrorKind::NotSupported, detail));
    }
    Ok((geometry, sector))
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Mounts the volume; repairs it if it was not unmounted, unless mounted read-only.
    pub fn mount(device: D, clock: Clock, options: MountOptions) -> Result<(Self, Option<RecoveryReport>)> {
        let (geometry, _) =
            if options.read_only { read_numbers(&device, &clock)? } else { read_geometry(&device, &clock)? };
        let (cache, data) = match options.cache {
            Cache::None => (1, false),
            Cache::Sectors { sectors, data, .. } => (sectors, data),
        };
        let mut sectors = Sectors::new(device, clock, cache, data, options.barriers);
        let active = geometry.active_fat.unwrap_or(0);
        let size = u64::from(sectors.size());
        sectors.set_mirrors(Mirrors {
            first: geometry.fat_start(active) / size,
            sectors: geometry.fat_bytes() / size,
            copies: if geometry.active_fat.is_some() { 0 } else { u64::from(geometry.fats - 1) },
            data: geometry.first_data_sector() * u64::from(geometry.sector_size) / size,
        });
        let free = FreeMap::new(0);
        let mut volume = Self {
            sectors,
            geometry,
            free,
            skipped: 0,
            options,
            inodes: HashMap::new(),
            next_inode: ROOT + 1,
            directories: HashMap::new(),
            directory_starts: HashMap::new(),
            freed: Vec::new(),
            preallocated: Default::default(),
            followed: 0,
            freed_slots: Vec::new(),
            moved: Vec::new(),
            shrunk: HashSet::new(),
            marked_dirty: false,
            waiting_since: None,
            broken: None,
        };
        let dirty = volume.is_dirty()?;
        let report = if dirty && !options.read_only { Some(volume.recover()?) } else { None };
        volume.open_root();
        volume.free = volume.load_free_map()?;
        volume.skipped = volume.count_skipped();
        volume.load_hint()?;
        Ok((volume, report))
    }

    /// Adds the root's inode, which has no entry.
    pub fn open_root(&mut self) {
        let mut raw = ShortEntry { attributes: attribute::DIRECTORY, ..ShortEntry::default() };
        raw.set_cluster(self.geometry.root_cluster);
        self.inodes.insert(ROOT, Inode::new(ROOT, 0, raw, None));
    }

    /// Whether the medium says that the volume was not unmounted.
    pub fn is_dirty(&mut self) -> Result<bool> {
        let kind = self.geometry.kind;
        let clean_bit = match kind {
            FatKind::Fat12 => return Ok(self.geometry.state & STATE_DIRTY != 0),
            FatKind::Fat16 => 0x8000,
            FatKind::Fat32 => 0x0800_0000,
        };
        // A cut while the mark is written may leave it in only some of its places.
        let copies = match self.geometry.active_fat {
            Some(active) => active..active + 1,
            None => 0..self.geometry.fats,
        };
        let mut dirty = self.geometry.state & STATE_DIRTY != 0;
        for copy in copies {
            dirty |= self.fat_entry_1(copy)? & clean_bit == 0;
        }
        Ok(dirty)
    }

    fn fat_entry_1(&mut self, copy: u32) -> Result<u32> {
        let kind = self.geometry.kind;
        let lba = self.geometry.fat_start(copy) / u64::from(self.sectors.size());
        let mut bytes = [0; 8];
        self.sectors.read(lba, 0, &mut bytes)?;
        let at = crate::table::entry_position(kind, 1).0 as usize;
        let mut raw = [0; 4];
        raw.iter_mut().zip(bytes.iter().skip(at)).for_each(|(to, from)| *to = *from);
        Ok(entry_value(kind, 1, raw))
    }

    /// Marks the volume as in use on the medium, durably before anything else of the batch.
    pub fn mark_dirty(&mut self) -> Result<()> {
        if !self.marked_dirty {
            self.set_state(true)?;
            self.marked_dirty = true;
            if self.options.barriers {
                self.sectors.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the state to the boot sector, and to entry 1 of each FAT if the type has bits for it.
    pub fn set_state(&mut self, dirty: bool) -> Result<()> {
        let size = self.sectors.size() as usize;
        let mut boot = vec![0; size];
        self.sectors.read_device(0, false, ReadInto::Bytes(&mut boot))?;
        let at = if self.geometry.kind == FatKind::Fat32 { STATE.1 } else { STATE.0 };
        if let Some(state) = boot.get_mut(at) {
            *state = if dirty { *state | STATE_DIRTY } else { *state & !STATE_DIRTY };
            self.geometry.state = *state;
        }
        self.sectors.write_device(0, false, Payload::Bytes(&boot))?;
        // The clean-shutdown bit: the highest used bit of the entry's last byte.
        let (offset, bit) = match self.geometry.kind {
            FatKind::Fat12 => return Ok(()),
            FatKind::Fat16 => (3, 0x80),
            FatKind::Fat32 => (7, 0x08),
        };
        self.sectors.set_bit_everywhere(
            self.geometry.fat_start(self.geometry.active_fat.unwrap_or(0)),
            offset,
            bit,
            !dirty,
        )
    }

    /// Takes the start of the search for free clusters from FSInfo.
    fn load_hint(&mut self) -> Result<()> {
        if let Some(info) = self.read_fs_info()? {
            self.free.set_hint(info.next.get());
        }
        Ok(())
    }

    fn fs_info_lba(&self) -> Option<u64> {
        let sector = u64::from(self.geometry.fs_info?);
        Some(sector * u64::from(self.geometry.sector_size) / u64::from(self.sectors.size()))
    }

    /// The FSInfo structure, if it is valid.
    pub fn read_fs_info(&mut self) -> Result<Option<FsInfo>> {
        let Some(lba) = self.fs_info_lba() else { return Ok(None) };
        let mut bytes = vec![0; self.sectors.size() as usize];
        self.sectors.read_device(lba, false, ReadInto::Bytes(&mut bytes))?;
        let Ok((info, _)) = FsInfo::read_from_prefix(&bytes) else { return Ok(None) };
        let good = info.lead.get() == FsInfo::LEAD && info.structure.get() == FsInfo::STRUCTURE;
        Ok(good.then_some(info))
    }

    /// Updates FSInfo. Its numbers are hints, so the order does not matter.
    fn write_fs_info(&mut self) -> Result<()> {
        let Some(lba) = self.fs_info_lba() else { return Ok(()) };
        let Some(mut info) = self.read_fs_info()? else { return Ok(()) };
        let (free, next) = (self.free_clusters(), self.free.hint());
        if info.free.get() == free && info.next.get() == next {
            return Ok(());
        }
        (info.free, info.next) = (free.into(), next.into());
        let mut bytes = vec![0; self.sectors.size() as usize];
        self.sectors.read_device(lba, false, ReadInto::Bytes(&mut bytes))?;
        if let Some(place) = bytes.get_mut(..size_of::<FsInfo>()) {
            place.copy_from_slice(info.as_bytes());
        }
        self.sectors.write_device(lba, false, Payload::Bytes(&bytes))
    }

    /// Makes everything durable.
    pub fn sync(&mut self) -> Result<()> {
        self.commit()?;
        self.flush()
    }

    /// Makes a file durable, and whatever else [`FileSync`] demands.
    pub fn sync_file(&mut self, number: u64) -> Result<()> {
        match self.options.file_sync {
            FileSync::Everything => self.commit()?,
            FileSync::OwnData => self.commit_file(number)?,
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        if self.marked_dirty {
            self.write_fs_info()?;
        }
        self.shrunk.clear();
        self.sectors.flush()
    }

    /// Makes everything durable and marks the volume as clean. Errors: after an unfinished change,
    /// nothing is written.
    pub fn unmount(&mut self) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.expect_whole(ErrorKind::Device)?;
        let mut nameless: Vec<u64> =
            self.inodes.iter().filter(|(_, inode)| !inode.linked).map(|(&number, _)| number).collect();
        // In a fixed order: what is written must not depend on a hash.
        nameless.sort_unstable();
        for number in nameless {
            self.inode_mut(number)?.retained = 0;
            self.drop_if_unused(number)?;
        }
        self.sync()?;
        if self.marked_dirty {
            self.set_state(false)?;
            self.marked_dirty = false;
            self.sectors.flush()?;
        }
        Ok(())
    }

    /// The volume's label: that of the root directory, else of the boot sector; empty if there is
    /// none.
    pub fn label(&mut self) -> Result<String> {
        let mut found = None;
        for slot in 0..self.directory(ROOT)?.end {
            let (lba, offset) = self.slot_position(ROOT, slot)?;
            let mut bytes = [0; 32];
            self.sectors.read(lba, offset, &mut bytes)?;
            if let Ok(raw) = ShortEntry::read_from_bytes(&bytes)
                && !matches!(raw.name[0], crate::layout::SLOT_FREE | crate::layout::SLOT_END)
                && raw.is_label()
            {
                found = Some(raw.name);
                break;
            }
        }
        let label = found.unwrap_or(self.geometry.label);
        let text = self.options.code_page.decode(&label).trim_end().to_string();
        Ok(if text == "NO NAME" { String::new() } else { text })
    }
}
