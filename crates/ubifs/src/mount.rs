//! Mounting for reading.

use std::collections::BTreeMap;
use std::fmt;

use nandkit_vfs::Result;
use nandkit_vfs::check::{Finding, Findings};

use crate::damage::DamageKind;
use crate::layout::{MASTER_DIRTY, Master, Superblock, flag};
use crate::lebs::Lebs;
use crate::replay::Replayed;
use crate::tree::Tree;
use crate::write::{Buffers, InodeAndData, Pages, Writer};
use crate::{recovery, replay, superblock};

/// A mounted volume. What it stands on is a trait object, so that UBIFS is compiled once however
/// many kinds of LEBs there are; a call costs far less than the read or write that it asks for.
pub struct Ubifs {
    pub(crate) lebs: Buffers,
    pub(crate) superblock: Superblock,
    pub(crate) master: Master,
    pub(crate) tree: Tree,
    /// Inodes that differ from the flash: changed, or with a size that recovery found.
    pub(crate) pending: BTreeMap<u32, InodeAndData>,
    /// Pages of files that are not written yet.
    pub(crate) pages: Pages,
    pub(crate) damage: Vec<Finding>,
    /// What the journal held.
    pub(crate) replayed: Replayed,
    /// The state for writing; `None` if mounted for reading.
    pub(crate) writer: Option<Box<Writer>>,
}

/// What the superblock and the master node say of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeFacts {
    /// Bytes per LEB.
    pub leb_size: u32,
    /// LEBs in use.
    pub leb_count: u32,
    /// Largest number of LEBs, to which the volume grows.
    pub leb_count_max: u32,
    /// Smallest unit of input and output in bytes.
    pub min_io_size: u32,
    /// Version of the format.
    pub format: u32,
    /// Identifier of the volume.
    pub uuid: [u8; 16],
    /// Whether the volume was not unmounted.
    pub is_dirty: bool,
    /// Whether files may be encrypted.
    pub may_be_encrypted: bool,
    /// Nodes of the journal that were applied.
    pub replayed: u64,
}

impl Ubifs {
    /// Mounts a volume for reading: the state that Linux would mount. Nothing is written.
    ///
    /// Errors: `Corrupt` (superblock, master node or the root of the index), `NotSupported` (a
    /// newer format, authentication), `Device`. Other damage is no error: see [`Ubifs::damage`].
    /// Cost: a read per index node, and per LEB of the journal.
    pub fn mount(lebs: Box<dyn Lebs>) -> Result<Self> {
        let lebs = Buffers::new(lebs);
        let superblock = superblock::read(&lebs)?;
        let (master, _) = superblock::master(&lebs)?;
        let mut findings = Findings::default();
        let (counted, here) = (superblock.leb_count.get(), lebs.leb_count());
        if counted > here {
            let detail = format!("the superblock counts {counted} LEBs, {here} are here: the others read as erased");
            findings.add(Finding::new(DamageKind::Cut, detail));
        }
        let mut tree = Tree::load(&lebs, &master, superblock.fanout.get(), &mut findings)?;
        let mut replayed = replay::replay(&lebs, &superblock, &master, &mut tree, &mut findings)?;
        let mut sizes = BTreeMap::new();
        if master.flags.get() & MASTER_DIRTY != 0 {
            recovery::remove_orphans(&lebs, &superblock, &mut tree)?;
            sizes = replayed.sizes.recover(&lebs, &mut tree);
        }
        let (pending, damage) = (BTreeMap::new(), findings.into_list());
        let pages = Pages::default();
        let mut volume = Self { lebs, superblock, master, tree, pending, pages, damage, replayed, writer: None };
        for (number, size) in sizes {
            if let Ok((mut inode, data)) = volume.inode(number) {
                inode.size.set(size);
                volume.pending.insert(number, (inode, data));
            }
        }
        Ok(volume)
    }

    /// What superblock and master node say.
    pub fn facts(&self) -> VolumeFacts {
        let superblock = &self.superblock;
        VolumeFacts {
            leb_size: superblock.leb_size.get(),
            leb_count: superblock.leb_count.get(),
            leb_count_max: superblock.leb_count_max.get(),
            min_io_size: superblock.min_io_size.get(),
            format: superblock.format.get(),
            uuid: superblock.uuid,
            is_dirty: self.master.flags.get() & MASTER_DIRTY != 0,
            may_be_encrypted: superblock.flags.get() & flag::ENCRYPTION != 0,
            replayed: self.replayed.nodes,
        }
    }

    /// What mounting found.
    pub fn damage(&self) -> &[Finding] {
        &self.damage
    }

    /// The LEBs, as they are: what was not synced is lost.
    pub fn into_lebs(self) -> Box<dyn Lebs> {
        self.lebs.into_lebs()
    }

    /// The LEBs.
    pub fn lebs(&self) -> &dyn Lebs {
        self.lebs.lebs()
    }
}

impl fmt::Debug for Ubifs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ubifs {{ commit: {}, replayed: {} }}", self.master.commit, self.replayed.nodes)
    }
}
