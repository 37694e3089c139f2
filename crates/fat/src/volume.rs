//! The mounted volume: its state, and the end of each batch of changes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use nandkit_block::BlockDevice;
use nandkit_units::Nanos;
use nandkit_vfs::{ErrorKind, FsError, Result, Timestamp};

use crate::allocate::FreeMap;
use crate::bpb::Geometry;
use crate::chain::Chain;
use crate::directory::Directory;
use crate::inode::Inode;
use crate::options::{Cache, MountOptions, WriteBack};
use crate::preallocated::Preallocated;
use crate::sectors::Sectors;
use crate::table::{Link, straddles};

/// The state of a mounted volume, without the lock around it.
#[derive(Debug)]
pub(crate) struct MountedVolume<D> {
    pub sectors: Sectors<D>,
    pub geometry: Geometry,
    pub free: FreeMap,
    /// Clusters that are never allocated, because their FAT entry lies in two sectors.
    pub skipped: u32,
    pub options: MountOptions,
    pub inodes: HashMap<u64, Inode>,
    pub next_inode: u64,
    pub directories: HashMap<u64, Directory>,
    /// First cluster of each loaded directory, so that no cluster belongs to two directories.
    pub directory_starts: HashMap<u32, u64>,
    /// Clusters that become free once the running batch is on the medium.
    pub freed: Vec<u32>,
    /// Clusters reserved for files.
    pub preallocated: Preallocated,
    /// Clusters of all chains followed; only read-only volumes may have shared ones.
    pub followed: u64,
    /// Slots by directory that become free once the running batch is on the medium.
    pub freed_slots: Vec<(u64, u32)>,
    /// Inodes whose entry has moved since the last commit.
    pub moved: Vec<u64>,
    /// Files that were truncated within a cluster, possibly not durably: the medium's entry may
    /// still expose the bytes past their end.
    pub shrunk: HashSet<u64>,
    /// Whether the medium says that the volume is in use.
    pub marked_dirty: bool,
    /// The time since which a change is pending.
    pub waiting_since: Option<Nanos>,
    /// The error that interrupted a change: nothing may be written any more.
    pub broken: Option<String>,
}

impl<D: BlockDevice> MountedVolume<D> {
    /// The current time for time stamps.
    pub fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.sectors.clock().unix_ns()).unwrap_or(i64::MAX))
    }

    /// Refuses to continue after an interrupted change. Errors: of the given kind.
    pub fn expect_whole(&self, kind: ErrorKind) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(why) => {
                let detail = format!("an earlier error left a change unfinished ({why}); mount again to repair");
                Err(FsError::new(kind, detail))
            }
        }
    }

    /// Runs a change and then applies the cache's write-back rule. After an error in the middle of
    /// a change, the volume accepts no more changes.
    pub fn change<R>(&mut self, operation: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        if self.options.read_only {
            return Err(FsError::new(ErrorKind::ReadOnly, "mounted for reading only"));
        }
        self.expect_whole(ErrorKind::ReadOnly)?;
        let before = self.sectors.changes_made();
        let result = operation(self);
        let result = match result {
            Ok(value) => self.write_back().map(|()| value),
            Err(error) => Err(error),
        };
        if let Err(error) = &result
            && matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt)
            && self.sectors.changes_made() != before
        {
            self.broken = Some(error.to_string());
        }
        result
    }

    fn write_back(&mut self) -> Result<()> {
        if !self.sectors.has_changes() {
            return self.finish_batch();
        }
        let now = self.sectors.clock().now();
        let since = *self.waiting_since.get_or_insert(now);
        let due = match self.options.cache {
            Cache::None => true,
            Cache::Sectors { write_back, .. } => match write_back {
                WriteBack::Through => true,
                WriteBack::Back { dirty_limit, age_limit } => {
                    self.sectors.dirty() > dirty_limit || now.since(since) >= age_limit
                }
            },
        };
        if due { self.commit() } else { Ok(()) }
    }

    /// Writes the running batch in its safe order.
    pub fn commit(&mut self) -> Result<()> {
        self.commit_by(Sectors::commit)?;
        self.waiting_since = None;
        self.finish_batch()
    }

    /// Writes a file's data and all metadata; other files' data stay pending.
    pub fn commit_file(&mut self, number: u64) -> Result<()> {
        let clusters = self.inode(number)?.chain.iter().flat_map(Chain::iter).collect::<Vec<u32>>();
        let mut own: Vec<Range<u64>> = clusters.into_iter().map(|cluster| self.sectors_of(cluster)).collect();
        own.sort_unstable_by_key(|range| range.start);
        self.commit_by(|sectors| sectors.commit_with_data_of(&own))?;
        if !self.sectors.has_changes() {
            self.waiting_since = None;
        }
        self.finish_batch()
    }

    fn sectors_of(&self, cluster: u32) -> Range<u64> {
        let (first, count) = self.cluster_sectors(cluster);
        first..first + count
    }

    fn commit_by(&mut self, commit: impl FnOnce(&mut Sectors<D>) -> Result<()>) -> Result<()> {
        if self.sectors.has_changes() {
            self.mark_dirty()?;
            if let Err(error) = commit(&mut self.sectors) {
                self.broken = Some(error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Called before bytes past a file's end are written: a smaller size must be durable, or a cut
    /// would expose them in the old, longer file.
    pub fn settle_size(&mut self, number: u64) -> Result<()> {
        if self.shrunk.contains(&number) {
            self.commit()?;
            if self.options.barriers {
                self.sectors.flush()?;
            }
            self.shrunk.clear();
        }
        Ok(())
    }

    /// Completes what waited for the batch to be on the medium.
    fn finish_batch(&mut self) -> Result<()> {
        if self.sectors.has_metadata() {
            return Ok(());
        }
        for cluster in std::mem::take(&mut self.freed) {
            self.give_back(cluster);
        }
        for (directory, slot) in std::mem::take(&mut self.freed_slots) {
            if let Some(directory) = self.directories.get_mut(&directory) {
                directory.release(slot);
            }
        }
        for number in std::mem::take(&mut self.moved) {
            let Some(inode) = self.inodes.get(&number).filter(|inode| inode.linked) else { continue };
            let at = self.slot_position(inode.parent, inode.slot)?;
            if let Some(inode) = self.inodes.get_mut(&number) {
                inode.durable = Some(at);
            }
        }
        Ok(())
    }

    fn give_back(&mut self, cluster: u32) {
        let start = self.geometry.fat_start(self.geometry.active_fat.unwrap_or(0));
        if !straddles(self.geometry.kind, cluster, start, self.sectors.size()) {
            self.free.give(cluster);
        }
    }

    /// Clusters that are free, or will be once the batch is on the medium.
    pub fn free_clusters(&self) -> u32 {
        self.free.free().saturating_add(self.freed.len() as u32)
    }

    /// Clusters that can be allocated now, for this file or, without one, for anything.
    pub fn available(&self, number: Option<u64>) -> u32 {
        self.free.free().saturating_sub(self.preallocated.to_others(number))
    }

    /// Clusters available to files: all except FAT12 clusters whose entry lies in two sectors.
    pub fn usable_clusters(&self) -> u32 {
        self.geometry.clusters - self.skipped
    }

    /// Ensures that `clusters` clusters can be allocated (for the file, if given), writing the
    /// batch if that frees them. Errors: `NoSpace`.
    pub fn reserve(&mut self, clusters: u32, number: Option<u64>) -> Result<()> {
        if self.available(number) < clusters && !self.freed.is_empty() {
            self.commit()?;
        }
        if self.available(number) < clusters {
            let detail = format!("{clusters} clusters needed, {} free", self.available(number));
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        }
        Ok(())
    }

    /// Allocates `count` reserved clusters, near `goal` if possible, and chains them in the running
    /// batch.
    pub fn allocate(&mut self, count: u32, goal: Option<u32>) -> Result<Vec<u32>> {
        let mut clusters = Vec::with_capacity(count as usize);
        let mut goal = goal;
        for _ in 0..count {
            let found = self.free.allocate(goal);
            let cluster = found.ok_or_else(|| FsError::new(ErrorKind::NoSpace, "no free cluster is left"))?;
            clusters.push(cluster);
            goal = cluster.checked_add(1);
        }
        for (at, &cluster) in clusters.iter().enumerate() {
            let link = clusters.get(at + 1).map_or(Link::End, |&next| Link::Next(next));
            self.set_link(cluster, link)?;
        }
        Ok(clusters)
    }

    /// The device sectors of a cluster: first and count.
    pub fn cluster_sectors(&self, cluster: u32) -> (u64, u64) {
        let size = u64::from(self.sectors.size());
        (self.geometry.cluster_start(cluster) / size, u64::from(self.geometry.cluster_size()) / size)
    }

    /// Frees clusters: at once if they are free on the medium, else when the batch is on the
    /// medium.
    pub fn free_clusters_of(&mut self, clusters: &[u32]) -> Result<()> {
        for &cluster in clusters {
            let known = self.base_link(cluster)? != Link::Free;
            self.set_link(cluster, Link::Free)?;
            let (first, count) = self.cluster_sectors(cluster);
            self.sectors.discard(first, count);
            if known {
                self.freed.push(cluster);
            } else {
                self.give_back(cluster);
            }
        }
        Ok(())
    }
}
