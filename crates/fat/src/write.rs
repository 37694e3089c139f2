//! Writing files: first space, then data, then the entry.

use nandkit_block::BlockDevice;
use nandkit_units::{Described, Description, Payload};
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::little_endian::U32;

use crate::layout::{FILE_SIZE_MAX, attribute};
use crate::table::Link;
use crate::time;
use crate::volume::MountedVolume;

fn too_big() -> FsError {
    FsError::new(ErrorKind::FileTooBig, format!("a FAT file holds at most {FILE_SIZE_MAX} bytes"))
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Writes to a file; returns the number of bytes written.
    pub fn write_file(&mut self, number: u64, offset: u64, payload: Payload<'_>) -> Result<usize> {
        let size = u64::from(self.file(number)?.raw.size.get());
        if payload.is_empty() {
            return Ok(0);
        }
        if offset >= FILE_SIZE_MAX {
            return Err(too_big());
        }
        let mut length = (payload.len() as u64).min(FILE_SIZE_MAX - offset);
        length = self.room_for(number, offset, length)?;
        if offset + length > size {
            self.settle_size(number)?;
        }
        self.extend_chain(number, offset + length)?;
        if offset + length > size {
            self.sectors.note_data_first();
        }
        if offset > size {
            self.fill_zero(number, size, offset, size)?;
        }
        match payload.part(0, length as usize) {
            Some(part) if payload.part(payload.len(), 0).is_some() => self.put_data(number, offset, part, size)?,
            // A description whose later parts cannot be described.
            _ => {
                let mut bytes = vec![0; payload.len()];
                payload.copy_to(&mut bytes);
                let part = bytes.get(..length as usize).unwrap_or_default();
                self.put_data(number, offset, Payload::Bytes(part), size)?;
            }
        }
        self.set_size(number, size.max(offset + length))?;
        Ok(length as usize)
    }

    /// How many of `length` bytes at `offset` fit. Errors: `NoSpace` if none do.
    fn room_for(&mut self, number: u64, offset: u64, length: u64) -> Result<u64> {
        let cluster_size = u64::from(self.geometry.cluster_size());
        let have = u64::from(self.ensure_chain(number)?.len());
        let missing = (offset + length).div_ceil(cluster_size).saturating_sub(have);
        if missing > u64::from(self.available(Some(number))) && !self.freed.is_empty() {
            self.commit()?;
        }
        let available = self.available(Some(number));
        if missing <= u64::from(available) {
            return Ok(length);
        }
        let end = (have + u64::from(available)) * cluster_size;
        if end <= offset {
            let detail = format!("{missing} clusters needed, {available} free");
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        }
        Ok(end - offset)
    }

    /// Gives a file clusters for `size` bytes; the caller ensures that there are enough.
    fn extend_chain(&mut self, number: u64, size: u64) -> Result<()> {
        let cluster_size = u64::from(self.geometry.cluster_size());
        let chain = self.ensure_chain(number)?;
        let missing = size.div_ceil(cluster_size).saturating_sub(u64::from(chain.len())) as u32;
        let last = chain.last();
        if missing == 0 {
            return Ok(());
        }
        if last.is_none() {
            self.settle(number, true)?;
        }
        if let Some(last) = last {
            // The medium still has another successor (the file was truncated in this batch), and
            // one batch cannot contain both changes.
            if matches!(self.base_link(last)?, Link::Next(_)) {
                self.commit()?;
            }
        }
        let clusters = self.allocate(missing, last.and_then(|last| last.checked_add(1)))?;
        self.preallocated.keep(number, missing);
        self.sectors.note_data_first();
        let first = clusters.first().copied().unwrap_or(0);
        match last {
            Some(last) => self.set_link(last, Link::Next(first))?,
            None => self.inode_mut(number)?.raw.set_cluster(first),
        }
        let chain = self.inode_mut(number)?.chain.get_or_insert_default();
        clusters.iter().for_each(|&cluster| chain.push(cluster));
        Ok(())
    }

    /// Writes zeroes from `from` to `to`; the file's bytes from `valid` on need not be read.
    fn fill_zero(&mut self, number: u64, from: u64, to: u64, valid: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let length = (to - at).min(64 << 20) as u32;
            let zeroes = Described { description: Description::default(), length };
            self.put_data(number, at, Payload::Described(zeroes), valid)?;
            at += u64::from(length);
        }
        Ok(())
    }

    /// Writes bytes into clusters of the file. Its bytes from `valid` on need not be read.
    fn put_data(&mut self, number: u64, offset: u64, payload: Payload<'_>, valid: u64) -> Result<()> {
        let size = u64::from(self.sectors.size());
        let mut at = 0;
        while at < payload.len() {
            let left = (payload.len() - at) as u64;
            let file_offset = offset + at as u64;
            let (address, run) = self.locate(number, file_offset)?;
            let (lba, skip) = (address / size, address % size);
            let available = run.min(left);
            let taken = if skip > 0 || available < size {
                let taken = available.min(size - skip);
                let worth_reading = file_offset - skip < valid;
                self.put_part(lba, skip as usize, payload.part(at, taken as usize), worth_reading)?;
                taken
            } else {
                let taken = available / size * size;
                if let Some(part) = payload.part(at, taken as usize) {
                    self.sectors.write_data(lba, part)?;
                }
                taken
            };
            at += taken as usize;
        }
        Ok(())
    }

    fn put_part(&mut self, lba: u64, skip: usize, part: Option<Payload<'_>>, worth_reading: bool) -> Result<()> {
        let mut sector = if worth_reading {
            self.sectors.read_data_sector(lba)?
        } else {
            vec![0; self.sectors.size() as usize].into_boxed_slice()
        };
        if let Some(part) = part
            && let Some(place) = sector.get_mut(skip..skip + part.len())
        {
            part.copy_to(place);
        }
        self.sectors.write_data(lba, Payload::Bytes(&sector))
    }

    /// Sets a file's size and time of change, and adds its entry to the running batch.
    pub fn set_size(&mut self, number: u64, size: u64) -> Result<()> {
        let now = self.now();
        let inode = self.inode_mut(number)?;
        inode.raw.size = U32::new(size as u32);
        inode.raw.attributes |= attribute::ARCHIVE;
        time::set_modified(&mut inode.raw, now);
        time::set_accessed(&mut inode.raw, now);
        self.update_entry(number)
    }

    /// Truncates or extends a file.
    pub fn resize(&mut self, number: u64, size: u64) -> Result<()> {
        let old = u64::from(self.file(number)?.raw.size.get());
        if size > FILE_SIZE_MAX {
            return Err(too_big());
        }
        let cluster_size = u64::from(self.geometry.cluster_size());
        let have = u64::from(self.ensure_chain(number)?.len());
        let keep = size.div_ceil(cluster_size);
        if size > old {
            self.reserve(keep.saturating_sub(have) as u32, Some(number))?;
            self.settle_size(number)?;
            self.extend_chain(number, size)?;
            self.sectors.note_data_first();
            self.fill_zero(number, old, size, old)?;
        } else if size < old && !size.is_multiple_of(cluster_size) {
            self.shrunk.insert(number);
        }
        if size <= old {
            self.preallocated.set(number, 0);
        }
        if size <= old && have > keep {
            if keep == 0 {
                self.settle(number, true)?;
            }
            let inode = self.inode_mut(number)?;
            let tail = inode.chain.get_or_insert_default().split_off(keep as u32);
            let last = inode.chain.as_ref().and_then(|chain| chain.last());
            match last {
                Some(last) => self.set_link(last, Link::End)?,
                None => inode.raw.set_cluster(0),
            }
            self.free_clusters_of(&tail)?;
        }
        self.set_size(number, size)
    }
}
