//! Changes of the volume table: volumes are made, removed, resized, renamed and filled.

use std::collections::BTreeMap;
use std::io::Read;

use nandkit_flash::Flash;
use nandkit_units::FlashKind;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::{Copying, UbiWriter};
use crate::Leb;
use crate::build::{empty_record, records_of};
use crate::layout::{LAYOUT_LEBS, LAYOUT_VOLUME, NAME_MAX, VidHeader, VolumeRecord, VolumeType, compatibility};
use crate::volume::Volume;

/// PEBs that UBI keeps for moving a LEB, and for changing one atomically (Linux
/// `drivers/mtd/ubi/ubi.h`: `WL_RESERVED_PEBS`, `EBA_RESERVED_PEBS`).
pub const MOVING_PEBS: u32 = 2;

/// A volume to be made.
#[derive(Clone, Debug)]
pub struct NewVolume {
    /// Its number; `None` takes the first free one.
    pub number: Option<u32>,
    /// Its name, which no other volume has.
    pub name: Vec<u8>,
    /// Its type.
    pub volume_type: VolumeType,
    /// Its size in bytes, rounded up to whole LEBs; `None` takes all PEBs that are available.
    pub bytes: Option<u64>,
    /// LEBs have a size that is a multiple of this.
    pub alignment: u32,
    /// Bits of [`flag`](crate::layout::flag).
    pub flags: u8,
}

impl<F: Flash> UbiWriter<F> {
    /// PEBs that no volume has and UBI does not need: as many LEBs can be given to volumes.
    ///
    /// Source: Linux `drivers/mtd/ubi`: `ubi_wl_init`, `ubi_eba_init`, `ubi_read_volume_table`.
    pub fn available_pebs(&self) -> u32 {
        let counts = &self.ubi.counts;
        let good = u64::from(counts.total.saturating_sub(counts.bad));
        let for_bad = match self.ubi.medium.flash.geometry().kind {
            FlashKind::Nand => {
                let limit = (u64::from(counts.total) * u64::from(self.options.bad_per_1024)).div_ceil(1024);
                limit.saturating_sub(counts.bad.into())
            }
            FlashKind::Nor => 0,
        };
        let volumes: u64 = self.ubi.volumes.iter().map(|volume| u64::from(volume.record.reserved_pebs)).sum();
        let taken = volumes + u64::from(LAYOUT_LEBS + MOVING_PEBS) + for_bad + self.ubi.aside.len() as u64;
        good.saturating_sub(taken) as u32
    }

    /// Makes an empty volume; returns its number.
    ///
    /// Errors: `Exists` (the number or the name is taken), `InvalidName`, `InvalidArgument`
    /// (number, alignment, size 0), `NoSpace`, `Device`.
    pub fn create_volume(&mut self, new: &NewVolume) -> Result<u32> {
        self.check_name(&new.name)?;
        let number = self.free_number(new.number)?;
        let (unit, leb_size) = (self.ubi.medium.write_unit(), self.ubi.geometry.leb_size());
        let fits =
            (1..=leb_size).contains(&new.alignment) && (new.alignment == 1 || new.alignment.is_multiple_of(unit));
        if !fits {
            let detail = format!("alignment {}; expected 1, or a multiple of {unit} up to {leb_size}", new.alignment);
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        let data_pad = leb_size % new.alignment;
        let reserved_pebs = match new.bytes {
            Some(bytes) => lebs_of(bytes, leb_size - data_pad)?,
            None => self.available_pebs().max(1),
        };
        self.expect_room(reserved_pebs)?;
        let record = VolumeRecord {
            reserved_pebs,
            alignment: new.alignment,
            data_pad,
            volume_type: new.volume_type,
            is_updating: false,
            name: new.name.clone(),
            flags: new.flags,
        };
        let leb_size = leb_size - data_pad;
        let volume = Volume {
            number,
            record,
            file_name: String::new(),
            is_in_table: true,
            leb_size,
            used_lebs: 0,
            lebs: BTreeMap::new(),
        };
        let mut volumes = self.ubi.volumes.clone();
        volumes.push(volume);
        self.change_table(volumes)?;
        Ok(number)
    }

    /// Removes a volume and erases its PEBs. Errors: `NotFound`, `Device`.
    pub fn remove_volume(&mut self, number: u32) -> Result<()> {
        let lebs = std::mem::take(&mut self.existing(number)?.lebs);
        let others = self.ubi.volumes.iter().filter(|volume| volume.number != number).cloned().collect();
        self.change_table(others)?;
        lebs.values().try_for_each(|claim| self.give_back(claim.peb))
    }

    /// Changes the size of a volume, in bytes, rounded up to whole LEBs. LEBs behind its end are
    /// lost. Errors: `NotFound`, `InvalidArgument` (size 0, or a static volume's content is
    /// larger), `NoSpace`, `Device`.
    pub fn resize_volume(&mut self, number: u32, bytes: u64) -> Result<()> {
        let volume = self.existing(number)?;
        let (before, leb_size, used_lebs) = (volume.record.reserved_pebs, volume.leb_size, volume.used_lebs);
        let reserved_pebs = lebs_of(bytes, leb_size)?;
        if reserved_pebs < used_lebs {
            let detail = format!("{reserved_pebs} LEBs; the content of this static volume takes {used_lebs}");
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        self.expect_room(reserved_pebs.saturating_sub(before))?;
        let volume = self.existing(number)?;
        let beyond = volume.lebs.split_off(&Leb(reserved_pebs));
        beyond.values().try_for_each(|claim| self.give_back(claim.peb))?;
        self.change_record(number, |record| record.reserved_pebs = reserved_pebs)
    }

    /// Renames volumes, all at once. A volume that has one of the new names and is not renamed is
    /// removed. Errors: `NotFound`, `InvalidName`, `InvalidArgument` (a number or a name twice),
    /// `Device`.
    pub fn rename_volumes(&mut self, renames: &[(u32, Vec<u8>)]) -> Result<()> {
        for (index, (number, name)) in renames.iter().enumerate() {
            self.volume(*number)?;
            expect_name(name)?;
            let earlier = renames.iter().take(index);
            if earlier.into_iter().any(|(other, taken)| other == number || taken == name) {
                let detail = format!("volume {number} or the name '{}' occurs twice", show(name));
                return Err(FsError::new(ErrorKind::InvalidArgument, detail));
            }
        }
        let new_name = |number: u32| renames.iter().find(|(renamed, _)| *renamed == number).map(|(_, name)| name);
        let replaced = |volume: &Volume| {
            new_name(volume.number).is_none() && renames.iter().any(|(_, name)| *name == volume.record.name)
        };
        let (gone, mut kept): (Vec<Volume>, Vec<Volume>) = self.ubi.volumes.iter().cloned().partition(replaced);
        for volume in &mut kept {
            if let Some(name) = new_name(volume.number) {
                volume.record.name.clone_from(name);
            }
        }
        self.change_table(kept)?;
        gone.iter().flat_map(|volume| volume.lebs.values()).try_for_each(|claim| self.give_back(claim.peb))
    }

    /// Replaces the content of a volume by `length` bytes. A cut during the update leaves the
    /// volume marked, so that Linux refuses to read it.
    ///
    /// Errors: `NotFound`, `NoSpace` (the content is larger than the volume, or PEBs are missing),
    /// `Device`; an error of `content` too, or its early end.
    pub fn update_volume(&mut self, number: u32, content: &mut dyn Read, length: u64) -> Result<()> {
        let volume = self.volume(number)?;
        let (leb_size, volume_type) = (volume.leb_size, volume.record.volume_type);
        let room = u64::from(volume.record.reserved_pebs) * u64::from(leb_size);
        if length > room {
            let detail = format!("{length} bytes do not fit in the volume '{}' of {room}", volume.file_name);
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        }
        self.change_record(number, |record| record.is_updating = true)?;
        let lebs = std::mem::take(&mut self.existing(number)?.lebs);
        lebs.values().try_for_each(|claim| self.give_back(claim.peb))?;
        let used_lebs = length.div_ceil(leb_size.max(1).into()) as u32;
        if volume_type == VolumeType::Static {
            self.existing(number)?.used_lebs = used_lebs;
        }
        let mut rest = length;
        for leb in (0..used_lebs).map(Leb) {
            let mut data = vec![0; rest.min(leb_size.into()) as usize];
            rest -= data.len() as u64;
            let early = |error: std::io::Error| {
                FsError::new(ErrorKind::InvalidArgument, format!("the new content cannot be read: {error}"))
            };
            content.read_exact(&mut data).map_err(early)?;
            match volume_type {
                VolumeType::Static => drop(self.map(number, leb, &data, Copying::Static { used_lebs })?),
                // Erased pages at the end are not written, so that a file system may write them.
                VolumeType::Dynamic => {
                    let unit = self.ubi.medium.write_unit() as usize;
                    data.resize(data.len().next_multiple_of(unit), 0xFF);
                    data.truncate(self.written(&data));
                    if !data.is_empty() {
                        self.map(number, leb, &data, Copying::No)?;
                    }
                }
            }
        }
        self.change_record(number, |record| record.is_updating = false)
    }

    fn existing(&mut self, number: u32) -> Result<&mut Volume> {
        let missing = || FsError::new(ErrorKind::NotFound, format!("no volume has number {number}"));
        self.ubi.volume_mut(number).ok_or_else(missing)
    }

    fn free_number(&self, asked: Option<u32>) -> Result<u32> {
        let limit = records_of(&self.ubi.geometry) as u32;
        let is_taken = |number: &u32| self.ubi.volumes.iter().any(|volume| volume.number == *number);
        match asked {
            Some(number) if is_taken(&number) => {
                Err(FsError::new(ErrorKind::Exists, format!("a volume has number {number}")))
            }
            Some(number) if number >= limit => {
                let detail = format!("volume number {number}; expected one below {limit}");
                Err(FsError::new(ErrorKind::InvalidArgument, detail))
            }
            Some(number) => Ok(number),
            None => {
                let full = || FsError::new(ErrorKind::NoSpace, format!("the device has its {limit} volumes"));
                (0..limit).find(|number| !is_taken(number)).ok_or_else(full)
            }
        }
    }

    fn check_name(&self, name: &[u8]) -> Result<()> {
        expect_name(name)?;
        match self.ubi.volumes.iter().any(|volume| volume.record.name == name) {
            true => Err(FsError::new(ErrorKind::Exists, format!("a volume has the name '{}'", show(name)))),
            false => Ok(()),
        }
    }

    /// Refuses more PEBs than are available.
    fn expect_room(&self, pebs: u32) -> Result<()> {
        let available = self.available_pebs();
        if pebs > available {
            let detail = format!("the volume needs {pebs} more blocks; {available} are available");
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        }
        Ok(())
    }

    fn change_record(&mut self, number: u32, change: impl Fn(&mut VolumeRecord)) -> Result<()> {
        let mut volumes = self.ubi.volumes.clone();
        volumes.iter_mut().filter(|volume| volume.number == number).for_each(|volume| change(&mut volume.record));
        self.change_table(volumes)
    }

    /// Writes the records of these volumes to both copies of the table, which then count.
    fn change_table(&mut self, volumes: Vec<Volume>) -> Result<()> {
        let records = records_of(&self.ubi.geometry);
        let record = |number| volumes.iter().find(|volume| volume.number == number && volume.is_in_table);
        let table: Vec<u8> = (0..records as u32)
            .flat_map(|number| record(number).map_or_else(empty_record, |volume| volume.record.encode()))
            .collect();
        for leb in 0..LAYOUT_LEBS {
            let vid = VidHeader {
                compatibility: compatibility::REJECT,
                volume: LAYOUT_VOLUME,
                leb,
                is_copy: true,
                ..VidHeader::new(VolumeType::Dynamic)
            };
            let new = self.put(vid.with_data(&table), &table)?;
            let old = self.ubi.table_copies.get_mut(leb as usize).and_then(|copy| copy.replace(new));
            if leb == 0 {
                self.ubi.volumes.clone_from(&volumes);
                self.ubi.rename_files();
            }
            old.map_or(Ok(()), |old| self.give_back(old.peb))?;
        }
        Ok(())
    }
}

/// The LEBs for a number of bytes.
fn lebs_of(bytes: u64, leb_size: u32) -> Result<u32> {
    let lebs = bytes.div_ceil(leb_size.max(1).into());
    let detail = || format!("a volume of {bytes} bytes; expected 1 to {} LEBs of {leb_size}", u32::MAX);
    let wrong = || FsError::new(ErrorKind::InvalidArgument, detail());
    u32::try_from(lebs).ok().filter(|lebs| *lebs > 0).ok_or_else(wrong)
}

fn expect_name(name: &[u8]) -> Result<()> {
    if (1..=NAME_MAX).contains(&name.len()) && !name.contains(&0) {
        return Ok(());
    }
    let detail = format!("the name '{}'; expected 1 to {NAME_MAX} bytes without zeroes", show(name));
    Err(FsError::new(ErrorKind::InvalidName, detail))
}

fn show(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}
