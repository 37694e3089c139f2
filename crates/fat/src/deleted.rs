//! Deleted entries, and the parts of their content that still exist.
//!
//! A deletion changes the first byte of each slot and frees the chain in the FAT; the rest of the
//! entry stays, including first cluster and size (specification, "FAT Directory Structure").
//! Clusters after the first one are therefore unknown, and assumed to be contiguous.

use std::collections::{BTreeSet, HashMap};

use nandkit_block::BlockDevice;
use nandkit_units::ReadInto;
use nandkit_vfs::{ErrorKind, FileKind, FsError, InodeNumber, Result, Timestamp};
use zerocopy::FromBytes;

use crate::chain::Chain;
use crate::inode::ROOT;
use crate::layout::{LongEntry, SLOT_END, SLOT_FREE, SLOT_SIZE, SLOTS_MAX, ShortEntry, attribute};
use crate::names;
use crate::rename::MoveMark;
use crate::survey::Taken;
use crate::table::{Link, scan};
use crate::time;
use crate::volume::MountedVolume;

/// Base of the inode numbers of deleted entries; added to it is the slot's number counted from the
/// start of the volume, which has at most 39 bits.
const NUMBERS_FROM: u64 = 1 << 40;

/// Most bytes of a content returned at once.
pub const CONTENT_MAX: u64 = 1 << 30;

/// A deleted entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedEntry {
    /// The path without a leading `/`; `None` if it is too long, or too many paths are.
    pub path: Option<String>,
    /// The name. The first letter of a short name is lost and shown as `_`.
    pub name: String,
    /// The directory that contained it.
    pub parent: InodeNumber,
    /// A number that no existing inode has; the file's own number if it [`Self::lives`].
    pub inode: InodeNumber,
    /// The former type.
    pub kind: FileKind,
    /// Byte offset of the entry in the volume.
    pub at: u64,
    /// Time of the last change of content.
    pub modified: Timestamp,
    /// Size of the file in bytes.
    pub size: u64,
    /// Number of leading bytes in clusters that are free.
    pub readable: u64,
    /// The reason to doubt that those bytes are the file's, if any.
    pub doubt: Option<Doubt>,
    /// Another entry has its clusters now: it was renamed.
    pub lives: bool,
    /// Its first cluster; 0 if it has none.
    cluster: u32,
    /// Its clusters, if the FAT still chains them and no existing file has them: the deletion was
    /// interrupted.
    chain: Option<Chain>,
}

/// A reason to doubt that the bytes found belong to a deleted file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// It had several clusters, of which only the first is known.
    AssumedContiguous,
    /// Another deleted file also had some of them, earlier or later.
    SharedWithDeleted,
    /// The upper half of its first cluster's number may be lost, because some systems clear it.
    ClusterMayBeCut,
}

impl Doubt {
    /// The reason as a sentence.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::AssumedContiguous => "only the first of its clusters is known, the others are taken to follow it",
            Self::SharedWithDeleted => {
                "another deleted file had some of these clusters too, and may have overwritten them"
            }
            Self::ClusterMayBeCut => "the upper half of its first cluster's number is 0, which some systems make of it",
        }
    }
}

/// A directory whose slots are to be searched.
struct Above {
    inode: u64,
    /// Empty, or ending in `/`; `None` if it is too long.
    path: Option<String>,
}

impl Above {
    /// The path of a name in the directory.
    fn join(&self, name: &str) -> Option<String> {
        let path = format!("{}{name}", self.path.as_ref()?);
        (path.len() <= PATH_MAX).then_some(path)
    }
}

/// The search so far.
struct Search {
    found: Vec<DeletedEntry>,
    /// The directories, as indexes in `found`.
    directories: Vec<usize>,
    /// The remaining bytes for paths.
    path_bytes: usize,
}

/// The slots of a deleted entry: the short one, and the long-name parts before it.
#[derive(Default)]
struct DeletedSlots {
    parts: Vec<LongEntry>,
}

impl DeletedSlots {
    /// The long name of this entry. The checksum of its parts determines the short name's first
    /// byte: a part belongs to another entry if no first byte would match.
    fn long_name(&self, short: &ShortEntry) -> Option<String> {
        let checksum = self.parts.last()?.checksum;
        let mine = self.parts.iter().rev().take_while(|part| part.checksum == checksum).take(20);
        let mut units: Vec<u16> = mine.flat_map(LongEntry::characters).collect();
        units.truncate(units.iter().position(|&unit| unit == 0).unwrap_or(units.len()));
        let fits = |first: u8| {
            let mut name = short.name;
            name[0] = first;
            names::checksum(&name) == checksum
        };
        let first = (0x21..=u8::MAX).find(|&first| fits(first))?;
        let is_name = first.is_ascii_alphanumeric() || first >= 0x80 || b"$%'-_@~`!(){}^#&".contains(&first);
        let is_long = (1..=names::NAME_MAX).contains(&units.len());
        (is_name && is_long).then(|| names::show_long(&units)).flatten()
    }
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Deleted entries by directory and slot, including those below deleted directories. Unreadable
    /// directories are left out.
    ///
    /// Errors: `Device`. Cost: reads all directories and the FAT once.
    pub fn deleted(&mut self) -> Result<Vec<DeletedEntry>> {
        let mut search = Search { found: Vec::new(), directories: Vec::new(), path_bytes: PATH_BYTES_MAX };
        let mut living: HashMap<u32, u64> = HashMap::new();
        let mut queue = vec![Above { inode: ROOT, path: Some(String::new()) }];
        while let Some(above) = queue.pop() {
            match self.deleted_in(&above, &mut search) {
                Err(error) if error.kind != ErrorKind::Device => continue,
                other => other?,
            }
            let entries: Vec<_> = self.directory(above.inode)?.entries.values().cloned().collect();
            for entry in entries {
                let inode = self.inode(entry.inode)?;
                if inode.raw.is_directory() {
                    queue.push(Above { inode: entry.inode, path: above.join(&format!("{}/", entry.name)) });
                }
                if inode.raw.cluster() != 0 {
                    living.insert(inode.raw.cluster(), entry.inode);
                }
            }
        }
        self.below_deleted(&mut search)?;
        let mut found = search.found;
        for entry in &mut found {
            if let Some(&inode) = living.get(&entry.cluster) {
                (entry.inode, entry.lives) = (InodeNumber(inode), true);
            }
        }
        self.measure(&mut found)?;
        found.sort_by(|a, b| (&a.path, a.at).cmp(&(&b.path, b.at)));
        Ok(found)
    }

    /// The deleted entries of an existing directory.
    fn deleted_in(&mut self, above: &Above, search: &mut Search) -> Result<()> {
        let end = self.directory(above.inode)?.end;
        let mut slots = DeletedSlots::default();
        for slot in 0..end {
            let (lba, offset) = self.slot_position(above.inode, slot)?;
            let at = lba * u64::from(self.sectors.size()) + u64::from(offset);
            self.take_slot(at, above, false, &mut slots, search)?;
        }
        Ok(())
    }

    /// Processes a slot: a long-name part waits for its entry. Returns false at the directory's
    /// end, or if this is no slot.
    fn take_slot(
        &mut self,
        at: u64,
        above: &Above,
        all_deleted: bool,
        slots: &mut DeletedSlots,
        search: &mut Search,
    ) -> Result<bool> {
        let bytes = self.slot_bytes(at)?;
        let (Ok(raw), Ok(part)) = (ShortEntry::read_from_bytes(&bytes), LongEntry::read_from_bytes(&bytes)) else {
            return Ok(false);
        };
        let is_deleted = all_deleted || raw.name[0] == SLOT_FREE;
        if raw.name[0] == SLOT_END {
            return Ok(false);
        }
        if is_deleted && raw.is_long_name() {
            slots.parts.push(part);
            return Ok(true);
        }
        let parts = std::mem::take(slots);
        let is_dots = raw.is_directory() && matches!(&raw.name[..2], b"\xE5 " | b"\xE5." | b". " | b"..");
        if !is_deleted || raw.is_label() || is_dots {
            return Ok(true);
        }
        let mut entry = self.deleted_entry(&raw, &parts, above, at);
        if entry.kind == FileKind::Directory {
            search.directories.push(search.found.len());
        }
        let path_bytes = entry.path.as_ref().map_or(0, String::len);
        match search.path_bytes.checked_sub(path_bytes) {
            Some(left) => search.path_bytes = left,
            None => entry.path = None,
        }
        search.found.push(entry);
        Ok(true)
    }

    fn deleted_entry(&self, raw: &ShortEntry, slots: &DeletedSlots, above: &Above, at: u64) -> DeletedEntry {
        let mut short = *raw;
        if short.name[0] == SLOT_FREE {
            short.name[0] = b'_';
        }
        let long = slots.long_name(raw);
        let name = long.unwrap_or_else(|| names::show_short(&short, self.options.code_page));
        // The fields of a moved empty file hold its target.
        let is_moved = MoveMark::of(raw, self.sectors.size()).is_some();
        let (cluster, size) = if is_moved { (0, 0) } else { (raw.cluster(), raw.size.get().into()) };
        DeletedEntry {
            path: above.join(&name),
            name,
            parent: InodeNumber(above.inode),
            inode: number_of(at),
            kind: if raw.is_directory() { FileKind::Directory } else { FileKind::Regular },
            at,
            modified: time::decode(raw.modified_date.get(), raw.modified_time.get(), 0),
            size: if raw.is_directory() { 0 } else { size },
            readable: 0,
            doubt: None,
            lives: false,
            cluster,
            chain: None,
        }
    }

    /// Searches deleted directories whose clusters are free and contain slots.
    fn below_deleted(&mut self, search: &mut Search) -> Result<()> {
        let mut seen = Taken::new(self.geometry.clusters);
        while let Some(directory) = search.directories.pop() {
            let Some(entry) = search.found.get(directory) else { continue };
            let path = entry.path.as_ref().map(|path| format!("{path}/"));
            let above = Above { inode: entry.inode.0, path };
            let (first, mut cluster) = (entry.cluster, entry.cluster);
            let mut slots = DeletedSlots::default();
            while self.holds_slots(cluster, first, &seen)? {
                seen.take(cluster);
                let start = self.geometry.cluster_start(cluster);
                let end = start + u64::from(self.geometry.cluster_size());
                let places = (start..end).step_by(SLOT_SIZE as usize);
                let mut goes_on = (cluster - first) < SLOTS_MAX / (self.geometry.cluster_size() / SLOT_SIZE).max(1);
                for at in places {
                    if !self.take_slot(at, &above, true, &mut slots, search)? {
                        goes_on = false;
                        break;
                    }
                }
                if !goes_on {
                    break;
                }
                cluster += 1;
            }
        }
        Ok(())
    }

    /// Whether a cluster is free, was not looked at, and holds a directory's slots: its first one
    /// is ".", which names it, and all slots up to an end have possible names and attributes.
    fn holds_slots(&mut self, cluster: u32, first: u32, seen: &Taken) -> Result<bool> {
        if !self.geometry.holds(cluster) || seen.has(cluster) || self.link(cluster)? != Link::Free {
            return Ok(false);
        }
        let start = self.geometry.cluster_start(cluster);
        if cluster == first {
            let dot = ShortEntry::read_from_bytes(&self.slot_bytes(start)?).ok();
            return Ok(dot.is_some_and(|dot| &dot.name[1..] == b"          " && dot.cluster() == cluster));
        }
        for at in (start..start + u64::from(self.geometry.cluster_size())).step_by(SLOT_SIZE as usize) {
            let bytes = self.slot_bytes(at)?;
            match ShortEntry::read_from_bytes(&bytes) {
                Ok(raw) if raw.name[0] == SLOT_END => break,
                Ok(raw) if raw.is_long_name() => {}
                Ok(raw) if raw.attributes & !POSSIBLE == 0 && raw.name[1..].iter().all(|&byte| byte >= 0x20) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The path of an existing inode without a leading `/`; `None` if it has none, or one longer
    /// than [`PATH_MAX`].
    pub fn path_of(&mut self, number: u64) -> Option<String> {
        let (mut names, mut length, mut at) = (Vec::new(), 0, number);
        while at != ROOT {
            let inode = self.inode(at).ok().filter(|inode| inode.linked)?;
            let (parent, slot) = (inode.parent, inode.slot);
            let name = self.directory(parent).ok()?.entries.get(&slot)?.name.clone();
            length += name.len() + 1;
            if length > PATH_MAX {
                return None;
            }
            names.push(name);
            at = parent;
        }
        names.reverse();
        Some(names.join("/"))
    }

    fn slot_bytes(&mut self, at: u64) -> Result<[u8; SLOT_SIZE as usize]> {
        let mut bytes = [0; SLOT_SIZE as usize];
        let size = u64::from(self.sectors.size());
        self.sectors.read(at / size, (at % size) as u32, &mut bytes)?;
        Ok(bytes)
    }

    /// Determines how much of each content is in free clusters, and the doubts about it.
    fn measure(&mut self, found: &mut [DeletedEntry]) -> Result<()> {
        let cluster_size = u64::from(self.geometry.cluster_size());
        let holds = |entry: &&mut DeletedEntry| entry.size > 0 && !entry.lives;
        let starts: BTreeSet<u32> = found.iter_mut().filter(holds).map(|entry| entry.cluster).collect();
        let starts: Vec<u32> = starts.into_iter().filter(|&cluster| self.geometry.holds(cluster)).collect();
        let ends = self.free_ends(&starts)?;
        let is_wide = self.geometry.clusters > 0xFFFF;
        for entry in found.iter_mut().filter(|entry| entry.size > 0 && !entry.lives) {
            let at = starts.binary_search(&entry.cluster).ok();
            let end = at.and_then(|at| ends.get(at)).copied().unwrap_or(entry.cluster);
            entry.readable = entry.size.min(u64::from(end - entry.cluster) * cluster_size);
            entry.doubt = if is_wide && entry.cluster <= 0xFFFF {
                Some(Doubt::ClusterMayBeCut)
            } else {
                (entry.readable > cluster_size).then_some(Doubt::AssumedContiguous)
            };
        }
        mark_shared(found, cluster_size);
        self.find_chains(found, cluster_size)
    }

    /// Follows the chains of deleted files whose first cluster is in use but belongs to no existing
    /// file. Cost: if there are such files, follows the chains of all existing files.
    fn find_chains(&mut self, found: &mut [DeletedEntry], cluster_size: u64) -> Result<()> {
        let is_used = |entry: &DeletedEntry| entry.size > 0 && entry.readable == 0 && !entry.lives;
        if !found.iter().any(is_used) {
            return Ok(());
        }
        let mut taken = Taken::new(self.geometry.clusters);
        // In a fixed order: the first inode takes all shared clusters.
        let mut inodes: Vec<(u64, u32)> =
            self.inodes.iter().map(|(&number, inode)| (number, inode.raw.cluster())).collect();
        inodes.sort_unstable();
        for (_, cluster) in inodes {
            if self.geometry.holds(cluster) {
                self.take_chain(&mut taken, cluster, u32::MAX)?;
            }
        }
        for entry in found.iter_mut().filter(|entry| is_used(entry)) {
            if !self.geometry.holds(entry.cluster) || taken.has(entry.cluster) {
                continue;
            }
            let (chain, _) = self.take_chain(&mut taken, entry.cluster, u32::MAX)?;
            entry.readable = entry.size.min(u64::from(chain.len()) * cluster_size);
            entry.doubt = None;
            entry.chain = Some(chain);
        }
        Ok(())
    }

    /// For each of these clusters, in ascending order, the first cluster at or after it that is not
    /// free.
    fn free_ends(&mut self, starts: &[u32]) -> Result<Vec<u32>> {
        let mut ends = vec![self.geometry.clusters.saturating_add(2); starts.len()];
        let (mut waiting, mut next) = (0, 0);
        let copy = self.geometry.active_fat.unwrap_or(0);
        let sectors = &self.sectors;
        let read = |lba, into: ReadInto<'_>| sectors.read_device(lba, false, into);
        scan(&self.geometry, copy, sectors.size(), &read, &mut |cluster, link| {
            while starts.get(next).is_some_and(|&start| start <= cluster) {
                next += 1;
            }
            if link != Link::Free {
                ends.get_mut(waiting..next).unwrap_or_default().fill(cluster);
                waiting = next;
            }
        })?;
        Ok(ends)
    }

    /// The readable content of a deleted file.
    ///
    /// Errors: `InvalidArgument` (a directory), `FileTooBig` (more than [`CONTENT_MAX`]), `Device`.
    pub fn deleted_content(&mut self, entry: &DeletedEntry) -> Result<Vec<u8>> {
        if entry.kind != FileKind::Regular {
            return Err(FsError::new(ErrorKind::InvalidArgument, "this was a directory; expected a file"));
        }
        if entry.readable > CONTENT_MAX {
            let detail = format!("{} bytes of a deleted file; at most {CONTENT_MAX} are delivered", entry.readable);
            return Err(FsError::new(ErrorKind::FileTooBig, detail));
        }
        let size = u64::from(self.sectors.size());
        let cluster_size = self.geometry.cluster_size() as usize;
        let mut bytes = vec![0; entry.readable.next_multiple_of(size) as usize];
        for (index, piece) in (0_u32..).zip(bytes.chunks_mut(cluster_size)) {
            let chained = entry.chain.as_ref().and_then(|chain| chain.get(index)).map(|(cluster, _)| cluster);
            let cluster = chained.unwrap_or(entry.cluster.saturating_add(index));
            self.sectors.read_data(self.geometry.cluster_start(cluster) / size, ReadInto::Bytes(piece))?;
        }
        bytes.truncate(entry.readable as usize);
        Ok(bytes)
    }
}

/// Longest reported path; limits also apply to all paths together, because hostile directories can
/// contain very many.
const PATH_MAX: usize = 4096;
const PATH_BYTES_MAX: usize = 64 << 20;
/// Attribute bits defined by the specification.
const POSSIBLE: u8 = attribute::READ_ONLY | 0x02 | 0x04 | attribute::VOLUME | attribute::DIRECTORY | attribute::ARCHIVE;

const fn number_of(at: u64) -> InodeNumber {
    InodeNumber(NUMBERS_FROM | (at / SLOT_SIZE as u64))
}

/// Marks files whose clusters overlap with those of another one.
fn mark_shared(found: &mut [DeletedEntry], cluster_size: u64) {
    let mut order: Vec<(u32, u64, usize)> = (0_usize..)
        .zip(found.iter())
        .filter(|(_, entry)| entry.readable > 0)
        .map(|(at, entry)| (entry.cluster, u64::from(entry.cluster) + entry.readable.div_ceil(cluster_size), at))
        .collect();
    order.sort_unstable();
    let mut last: Option<(u64, usize)> = None;
    for (first, end, at) in order {
        if let Some((_, other)) = last.filter(|(last_end, _)| u64::from(first) < *last_end) {
            for shared in [other, at] {
                if let Some(entry) = found.get_mut(shared) {
                    entry.doubt = Some(Doubt::SharedWithDeleted);
                }
            }
        }
        if last.is_none_or(|(last_end, _)| end > last_end) {
            last = Some((end, at));
        }
    }
}
