//! Inodes. FAT has none, so each directory entry gets a number when its directory is read, and
//! keeps it across renames.

use nandkit_block::BlockDevice;
use nandkit_vfs::{Attributes, ErrorKind, FileKind, FsError, InodeNumber, Result};

use crate::chain::Chain;
use crate::layout::{ShortEntry, attribute};
use crate::patch::{Patch, Phase};
use crate::time;
use crate::volume::MountedVolume;

/// Number of the root directory.
pub const ROOT: u64 = 1;

/// How often the chains read may include all clusters of the volume.
const SHARES_MAX: u64 = 2;

/// The state of a file or directory.
#[derive(Clone, Debug)]
pub struct Inode {
    /// The directory with its entry.
    pub parent: u64,
    /// Slot of its short entry in that directory.
    pub slot: u32,
    /// The current entry.
    pub raw: ShortEntry,
    /// Its clusters, once loaded.
    pub chain: Option<Chain>,
    /// How often it is retained.
    pub retained: u32,
    /// Whether it has a name.
    pub linked: bool,
    /// Sector and byte of its entry on the medium, without the running batch.
    pub durable: Option<(u64, u32)>,
}

impl Inode {
    /// Makes the inode of an entry.
    pub fn new(parent: u64, slot: u32, raw: ShortEntry, durable: Option<(u64, u32)>) -> Self {
        Self { parent, slot, raw, chain: None, retained: 0, linked: true, durable }
    }

    /// The type of the inode.
    pub fn kind(&self) -> FileKind {
        if self.raw.is_directory() { FileKind::Directory } else { FileKind::Regular }
    }
}

impl<D: BlockDevice> MountedVolume<D> {
    /// The inode with this number.
    pub fn inode(&self, number: u64) -> Result<&Inode> {
        self.inodes
            .get(&number)
            .ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("there is no inode {number} (any more)")))
    }

    /// The inode with this number, for changes.
    pub fn inode_mut(&mut self, number: u64) -> Result<&mut Inode> {
        self.inodes
            .get_mut(&number)
            .ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("there is no inode {number} (any more)")))
    }

    /// The inode with this number, which must be a file.
    pub fn file(&self, number: u64) -> Result<&Inode> {
        let inode = self.inode(number)?;
        if inode.raw.is_directory() {
            return Err(FsError::new(ErrorKind::IsADirectory, format!("inode {number} is a directory")));
        }
        Ok(inode)
    }

    /// Adds an inode and returns its number.
    pub fn add_inode(&mut self, inode: Inode) -> u64 {
        let number = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(number, inode);
        number
    }

    /// Loads an inode's chain if needed.
    pub fn ensure_chain(&mut self, number: u64) -> Result<&Chain> {
        let inode = self.inode(number)?;
        if inode.chain.is_none() {
            let cluster = inode.raw.cluster();
            self.expect_room_for_chains(number)?;
            let chain = self.load_chain(cluster, &format!("inode {number}"))?;
            self.inode_mut(number)?.chain = Some(chain);
        }
        static EMPTY: Chain = Chain::new();
        Ok(self.inode(number)?.chain.as_ref().unwrap_or(&EMPTY))
    }

    /// On a damaged volume, refuses to follow more chains once those followed have twice as many
    /// clusters as the volume: thousands of entries may share one chain as long as the volume.
    fn expect_room_for_chains(&self, number: u64) -> Result<()> {
        if !self.options.read_only || self.followed <= u64::from(self.geometry.clusters) * SHARES_MAX {
            return Ok(());
        }
        let detail = format!(
            "inode {number}: the files before it share so many clusters that they have {SHARES_MAX} times those of the volume; \
             what comes behind is not read (a check tells which share)"
        );
        Err(FsError::new(ErrorKind::Corrupt, detail))
    }

    /// An inode's attributes.
    pub fn attributes(&self, number: u64) -> Result<Attributes> {
        let inode = self.inode(number)?;
        let raw = &inode.raw;
        let cluster_size = u64::from(self.geometry.cluster_size());
        let directory = raw.is_directory();
        let allocated = match &inode.chain {
            _ if number == ROOT && self.geometry.root_entries > 0 => {
                u64::from(self.geometry.root_sectors()) * u64::from(self.geometry.sector_size)
            }
            Some(chain) => u64::from(chain.len()) * cluster_size,
            None if directory => cluster_size,
            None => u64::from(raw.size.get()).div_ceil(cluster_size) * cluster_size,
        } + u64::from(self.preallocated.of(number)) * cluster_size;
        let write = if raw.attributes & attribute::READ_ONLY == 0 { 0o200 } else { 0 };
        let modified = time::decode(raw.modified_date.get(), raw.modified_time.get(), 0);
        let created = (raw.created_date.get() != 0)
            .then(|| time::decode(raw.created_date.get(), raw.created_time.get(), raw.created_fine));
        let accessed = match raw.accessed_date.get() {
            0 => modified,
            date => time::decode(date, 0, 0),
        };
        Ok(Attributes {
            inode: InodeNumber(number),
            kind: inode.kind(),
            // Linux's vfat shows the same with the usual umask: what the format cannot store is
            // allowed, so that programs on a card can run.
            mode: write | 0o555,
            links: u32::from(inode.linked),
            uid: 0,
            gid: 0,
            device: 0,
            size: if directory { allocated } else { u64::from(raw.size.get()) },
            allocated,
            accessed,
            modified,
            changed: modified,
            created,
        })
    }

    /// Adds an inode's current entry to the running batch.
    pub fn update_entry(&mut self, number: u64) -> Result<()> {
        let inode = self.inode(number)?;
        if number == ROOT || !inode.linked {
            return Ok(());
        }
        let bytes = inode.raw.bytes();
        let (lba, offset) = self.slot_position(inode.parent, inode.slot)?;
        let mut now = [0; 32];
        self.sectors.read(lba, offset, &mut now)?;
        if now == bytes {
            return Ok(());
        }
        self.sectors.patch(lba, Patch::new(offset, &bytes, Phase::Publish))
    }

    /// Drops an inode that has no name and is not retained, and frees its clusters.
    pub fn drop_if_unused(&mut self, number: u64) -> Result<()> {
        let inode = self.inode(number)?;
        if inode.linked || inode.retained > 0 {
            return Ok(());
        }
        let clusters: Vec<u32> = self.ensure_chain(number)?.iter().collect();
        self.free_clusters_of(&clusters)?;
        self.inodes.remove(&number);
        self.preallocated.set(number, 0);
        self.shrunk.remove(&number);
        self.directories.remove(&number);
        Ok(())
    }
}
