//! Mounting for reading.

use std::collections::BTreeMap;

use nandkit_vfs::Result;
use nandkit_vfs::check::{Finding, Findings};

use crate::damage::DamageKind;
use crate::layout::{MASTER_DIRTY, Master, Superblock, flag};
use crate::lebs::Lebs;
use crate::tree::Tree;
use crate::{recovery, replay, superblock};

/// A mounted volume, for reading.
#[derive(Debug)]
pub struct Ubifs<L> {
    pub(crate) lebs: L,
    pub(crate) superblock: Superblock,
    pub(crate) master: Master,
    pub(crate) tree: Tree,
    /// Sizes of files that recovery found larger than their inodes say.
    pub(crate) sizes: BTreeMap<u32, u64>,
    pub(crate) damage: Vec<Finding>,
    replayed: u64,
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

impl<L: Lebs> Ubifs<L> {
    /// Mounts a volume for reading: the state that Linux would mount. Nothing is written.
    ///
    /// Errors: `Corrupt` (superblock, master node or the root of the index), `NotSupported` (a
    /// newer format, authentication), `Device`. Other damage is no error: see [`Ubifs::damage`].
    /// Cost: a read per index node, and per LEB of the journal.
    pub fn mount(lebs: L) -> Result<Self> {
        let superblock = superblock::read(&lebs)?;
        let master = superblock::master(&lebs)?;
        let mut findings = Findings::default();
        let (counted, here) = (superblock.leb_count.get(), lebs.leb_count());
        if counted > here {
            let detail = format!("the superblock counts {counted} LEBs, {here} are here: the others read as erased");
            findings.add(Finding::new(DamageKind::Cut, detail));
        }
        let mut tree = Tree::load(&lebs, &master, &mut findings)?;
        let replayed = replay::replay(&lebs, &superblock, &master, &mut tree, &mut findings)?;
        let mut sizes = BTreeMap::new();
        if master.flags.get() & MASTER_DIRTY != 0 {
            recovery::remove_orphans(&lebs, &superblock, &mut tree)?;
            sizes = replayed.sizes.recover(&lebs, &mut tree);
        }
        let (damage, replayed) = (findings.into_list(), replayed.nodes);
        Ok(Self { lebs, superblock, master, tree, sizes, damage, replayed })
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
            replayed: self.replayed,
        }
    }

    /// What mounting found.
    pub fn damage(&self) -> &[Finding] {
        &self.damage
    }
}
