//! The file allocation table: reading and changing entries of 12, 16 and 28 bits.

use nandkit_block::BlockDevice;
use nandkit_units::ReadInto;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::allocate::FreeMap;
use crate::bpb::{FatKind, Geometry};
use crate::chain::Chain;
use crate::patch::{Patch, Phase};
use crate::volume::MountedVolume;

/// The meaning of a FAT entry for its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The cluster is free.
    Free,
    /// The cluster is followed by this one.
    Next(u32),
    /// The cluster must not be used.
    Bad,
    /// The cluster is the last of its chain.
    End,
}

impl Link {
    /// Decodes an entry's value.
    pub const fn from_raw(kind: FatKind, raw: u32) -> Self {
        let (raw, bad) = match kind {
            FatKind::Fat12 => (raw & 0xFFF, 0xFF7),
            FatKind::Fat16 => (raw & 0xFFFF, 0xFFF7),
            FatKind::Fat32 => (raw & 0x0FFF_FFFF, 0x0FFF_FFF7),
        };
        match raw {
            0 => Self::Free,
            _ if raw == bad => Self::Bad,
            _ if raw > bad => Self::End,
            _ => Self::Next(raw),
        }
    }

    /// Encodes an entry's value.
    pub const fn raw(self, kind: FatKind) -> u32 {
        let ones = match kind {
            FatKind::Fat12 => 0xFFF,
            FatKind::Fat16 => 0xFFFF,
            FatKind::Fat32 => 0x0FFF_FFFF,
        };
        match self {
            Self::Free => 0,
            Self::Next(next) => next,
            Self::Bad => ones - 8,
            Self::End => ones,
        }
    }

    /// The phase in which a change from `old` (on the medium) to `new` may reach the medium.
    const fn phase(old: Self, new: Self) -> Phase {
        match (old, new) {
            (Self::Free, _) => Phase::Prepare,
            (_, Self::Free) => Phase::Free,
            (_, Self::Next(_)) => Phase::Link,
            (_, Self::End | Self::Bad) => Phase::Cut,
        }
    }
}

/// Byte offset of an entry in its FAT, and the number of bytes it touches.
pub const fn entry_position(kind: FatKind, cluster: u32) -> (u64, usize) {
    let cluster = cluster as u64;
    match kind {
        FatKind::Fat12 => (cluster + cluster / 2, 2),
        FatKind::Fat16 => (cluster * 2, 2),
        FatKind::Fat32 => (cluster * 4, 4),
    }
}

/// The value of an entry from its bytes.
pub fn entry_value(kind: FatKind, cluster: u32, bytes: [u8; 4]) -> u32 {
    let raw = u32::from_le_bytes(bytes);
    match kind {
        FatKind::Fat12 if cluster % 2 == 1 => raw >> 4 & 0xFFF,
        FatKind::Fat12 => raw & 0xFFF,
        FatKind::Fat16 => raw & 0xFFFF,
        FatKind::Fat32 => raw & 0x0FFF_FFFF,
    }
}

/// Whether the entry lies in two sectors, so that a power cut can tear it. Only FAT12 has such
/// clusters.
pub const fn straddles(kind: FatKind, cluster: u32, fat_start: u64, sector_size: u32) -> bool {
    let (at, length) = entry_position(kind, cluster);
    matches!(kind, FatKind::Fat12) && (fat_start + at) % sector_size as u64 + length as u64 > sector_size as u64
}

/// Reads a whole FAT and passes every entry from cluster 2 on to `each`.
pub fn scan(
    geometry: &Geometry,
    copy: u32,
    device_sector: u32,
    read: &dyn Fn(u64, ReadInto<'_>) -> Result<()>,
    each: &mut dyn FnMut(u32, Link),
) -> Result<()> {
    let last = u64::from(geometry.clusters) + 1;
    let needed = entry_position(geometry.kind, last as u32).0 + 4;
    let length = needed.div_ceil(u64::from(device_sector)) * u64::from(device_sector);
    let length = length.min(geometry.fat_bytes());
    let start = geometry.fat_start(copy);
    // 192 KiB hold whole entries of every width.
    let piece = (192u64 << 10).max(u64::from(device_sector) * 3);
    let mut bytes = Vec::new();
    let mut cluster = 0u32;
    let mut at = 0;
    while at < length {
        bytes.clear();
        bytes.resize((length - at).min(piece) as usize, 0);
        read((start + at) / u64::from(device_sector), ReadInto::Bytes(&mut bytes))?;
        while u64::from(cluster) <= last {
            let within = entry_position(geometry.kind, cluster).0 - at;
            if within >= bytes.len() as u64 {
                break;
            }
            let from = bytes.get(within as usize..).unwrap_or_default();
            // Only the last entries have fewer than four bytes left.
            let raw = from.first_chunk().copied().unwrap_or_else(|| {
                let mut raw = [0; 4];
                raw.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                raw
            });
            if cluster >= 2 {
                each(cluster, Link::from_raw(geometry.kind, entry_value(geometry.kind, cluster, raw)));
            }
            cluster += 1;
        }
        at += bytes.len() as u64;
    }
    Ok(())
}

impl<D: BlockDevice> MountedVolume<D> {
    fn fat_bytes_at(&mut self, cluster: u32, base: bool) -> Result<[u8; 4]> {
        let (at, length) = entry_position(self.geometry.kind, cluster);
        let at = self.geometry.fat_start(self.geometry.active_fat.unwrap_or(0)) + at;
        let size = u64::from(self.sectors.size());
        let (lba, offset) = (at / size, (at % size) as u32);
        let mut raw = [0; 4];
        let here = length.min((size - at % size) as usize);
        let (first, rest) = raw.split_at_mut(here);
        if base {
            self.sectors.read_base(lba, offset, first)?
        } else {
            self.sectors.read(lba, offset, first)?
        }
        if let Some(second) = rest.get_mut(..length - here).filter(|second| !second.is_empty()) {
            if base { self.sectors.read_base(lba + 1, 0, second)? } else { self.sectors.read(lba + 1, 0, second)? }
        }
        Ok(raw)
    }

    /// The FAT entry of a cluster.
    pub(crate) fn link(&mut self, cluster: u32) -> Result<Link> {
        self.link_of(cluster, false)
    }

    /// The FAT entry of a cluster on the medium, without the running batch.
    pub(crate) fn base_link(&mut self, cluster: u32) -> Result<Link> {
        self.link_of(cluster, true)
    }

    fn link_of(&mut self, cluster: u32, base: bool) -> Result<Link> {
        let kind = self.geometry.kind;
        if !self.geometry.holds(cluster) {
            return Err(self.out_of_range(cluster));
        }
        let raw = self.fat_bytes_at(cluster, base)?;
        Ok(Link::from_raw(kind, entry_value(kind, cluster, raw)))
    }

    fn out_of_range(&self, cluster: u32) -> FsError {
        let detail = format!("a reference to cluster {cluster}; {} expected", self.geometry.range());
        FsError::new(ErrorKind::Corrupt, detail)
    }

    /// Sets an entry in the running batch; the phase follows from the medium's value.
    pub(crate) fn set_link(&mut self, cluster: u32, link: Link) -> Result<()> {
        let kind = self.geometry.kind;
        let old = self.base_link(cluster)?;
        let (at, length) = entry_position(kind, cluster);
        let at = self.geometry.fat_start(self.geometry.active_fat.unwrap_or(0)) + at;
        let size = u64::from(self.sectors.size());
        let (lba, offset) = (at / size, (at % size) as u32);
        let here = length.min((size - at % size) as usize);
        if old == link {
            self.sectors.unpatch(lba, offset, kind == FatKind::Fat12 && cluster % 2 == 1);
            if here < length {
                self.sectors.unpatch(lba + 1, 0, false);
            }
            return Ok(());
        }
        let raw = link.raw(kind);
        let (value, first_mask, last_mask) = match kind {
            FatKind::Fat12 if cluster % 2 == 1 => (raw << 4, 0xF0, 0xFF),
            FatKind::Fat12 => (raw, 0xFF, 0x0F),
            FatKind::Fat16 => (raw, 0xFF, 0xFF),
            FatKind::Fat32 => (raw, 0xFF, 0x0F),
        };
        let bytes = value.to_le_bytes();
        let phase = Link::phase(old, link);
        let (first, rest) = bytes.split_at(here);
        let mut patch = Patch::new(offset, first, phase);
        patch.first_mask = first_mask;
        if here == length {
            patch.last_mask = last_mask;
            return self.sectors.patch(lba, patch);
        }
        self.sectors.patch(lba, patch)?;
        let mut patch = Patch::new(0, rest.get(..length - here).unwrap_or_default(), phase);
        patch.last_mask = last_mask;
        self.sectors.patch(lba + 1, patch)
    }

    /// Walks a chain from its first cluster to its end.
    pub(crate) fn load_chain(&mut self, first: u32, whose: &str) -> Result<Chain> {
        let mut chain = Chain::default();
        if first == 0 {
            return Ok(chain);
        }
        let corrupt = |detail: String| FsError::new(ErrorKind::Corrupt, format!("{whose}: {detail}"));
        // Brent's method: a loop is detected after at most three times its length.
        let (mut cluster, mut mark, mut until) = (first, first, 1u32);
        loop {
            if !self.geometry.holds(cluster) {
                return Err(corrupt(format!(
                    "its chain leads to cluster {cluster}; {} expected",
                    self.geometry.range()
                )));
            }
            chain.push(cluster);
            self.followed += 1;
            let next = match self.link(cluster)? {
                Link::End => return Ok(chain),
                Link::Next(next) => next,
                Link::Free => return Err(corrupt(format!("its chain leads to cluster {cluster}, which is free"))),
                Link::Bad => return Err(corrupt(format!("its chain leads to cluster {cluster}, which is marked bad"))),
            };
            if next == mark {
                return Err(corrupt(format!("its chain runs in a circle through cluster {next}")));
            }
            if chain.len() == until {
                (mark, until) = (next, until.saturating_mul(2));
            }
            cluster = next;
        }
    }

    /// The number of clusters whose entry lies in two sectors.
    pub(crate) fn count_skipped(&self) -> u32 {
        let start = self.geometry.fat_start(self.geometry.active_fat.unwrap_or(0));
        let (kind, size) = (self.geometry.kind, self.sectors.size());
        if kind != FatKind::Fat12 {
            return 0;
        }
        (2..self.geometry.clusters + 2).filter(|&cluster| straddles(kind, cluster, start, size)).count() as u32
    }

    /// Reads the FAT and builds the map of free clusters.
    pub(crate) fn load_free_map(&mut self) -> Result<FreeMap> {
        let mut map = FreeMap::new(self.geometry.clusters);
        let copy = self.geometry.active_fat.unwrap_or(0);
        let size = self.sectors.size();
        let (kind, start) = (self.geometry.kind, self.geometry.fat_start(copy));
        let sectors = &self.sectors;
        scan(&self.geometry, copy, size, &|lba, into| sectors.read_device(lba, false, into), &mut |cluster, link| {
            if link == Link::Free && !straddles(kind, cluster, start, size) {
                map.give(cluster);
            }
        })?;
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_links_go_back_and_forth() {
        for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
            for link in [Link::Free, Link::Next(2), Link::Next(0xFEF), Link::Bad, Link::End] {
                assert_eq!(Link::from_raw(kind, link.raw(kind)), link);
            }
        }
        assert_eq!(Link::from_raw(FatKind::Fat12, 0xFF8), Link::End);
        assert_eq!(Link::from_raw(FatKind::Fat32, 0xF000_0005), Link::Next(5));
        assert_eq!(entry_value(FatKind::Fat12, 3, [0x34, 0x12, 0xFF, 0xFF]), 0x123);
        assert_eq!(entry_value(FatKind::Fat12, 2, [0x34, 0x12, 0xFF, 0xFF]), 0x234);
    }

    #[test]
    fn only_fat12_entries_straddle() {
        let straddling: Vec<u32> = (0..1024).filter(|&cluster| straddles(FatKind::Fat12, cluster, 512, 512)).collect();
        assert_eq!(straddling, [341, 682]);
        assert!((0..4096).all(|cluster| !straddles(FatKind::Fat16, cluster, 512, 512)));
    }
}
