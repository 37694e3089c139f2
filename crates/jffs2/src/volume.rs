//! The mounted volume.

use std::fmt;

use nandkit_flash::Flash;
use nandkit_units::Clock;
use nandkit_vfs::check::{Finding, Findings};

use crate::Ino;
use crate::catalogue::Catalogue;
use crate::damage::{Damage, DamageList};
use crate::inode::Inodes;
use crate::inode::Stray;
use crate::layout::ByteOrder;
use crate::medium::{Cleanmarker, Medium};
use crate::write::{WriteOptions, Writer};
use crate::xattr::XattrTable;

/// A mounted JFFS2 volume.
pub struct Jffs2<F> {
    /// The device.
    pub(crate) medium: Medium<F>,
    /// The nodes in each block.
    pub(crate) catalogue: Catalogue,
    /// The inodes, including dead ones while nodes of them are on the flash.
    pub(crate) inodes: Inodes,
    /// The extended attributes.
    pub(crate) xattrs: XattrTable,
    /// The highest inode number ever seen: numbers are not reused within a mount.
    pub(crate) highest_inode: Ino,
    /// Damage found by the mount, or by loading an inode.
    pub(crate) damage: DamageList,
    /// The inodes that have lost their names, as found by the mount.
    pub(crate) strays: Vec<Stray>,
    /// Whether inodes without a name may have been deleted.
    pub(crate) may_lack_deleted: bool,
    /// The state for writing; `None` if mounted read-only.
    pub(crate) writer: Option<Box<Writer>>,
}

/// Options for mounting.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Never writes anything.
    pub read_only: bool,
    /// The byte order; `None` detects it (a blank device counts as little-endian).
    pub order: Option<ByteOrder>,
    /// Nodes have the magic number of before 2001: they are read in the later format, and never
    /// written.
    pub has_old_magic: bool,
    /// Whether to use summaries; otherwise every block is scanned.
    pub use_summaries: bool,
    /// The position of cleanmarkers; `None` means that of Linux on this kind of flash.
    pub cleanmarker: Option<Cleanmarker>,
    /// Whether the whole device was just erased. Without cleanmarkers, nothing else proves that a
    /// blank block was erased completely: such blocks are erased again before use. Linux omits this
    /// (fs/jffs2/scan.c), so an interrupted erase costs it data.
    pub just_erased: bool,
    /// Whether to scan blocks on all threads of the pool. Only for devices without simulated time:
    /// on others, the order of reads, and with it the time, would depend on the threads. The result
    /// never does.
    pub parallel: bool,
    /// Options for writing and collecting.
    pub write: WriteOptions,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            order: None,
            has_old_magic: false,
            use_summaries: true,
            cleanmarker: None,
            just_erased: false,
            parallel: false,
            write: WriteOptions::default(),
        }
    }
}

impl<F> Jffs2<F> {
    /// The damage met by the mount and all reads since, by address. [`Jffs2::check`] finds the
    /// rest.
    pub fn damage(&self) -> Vec<Finding> {
        let mut findings = Findings::default();
        findings.extend(self.damage.sorted().iter().map(Damage::finding));
        findings.into_list()
    }

    /// The nodes in each block.
    pub const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }
}

impl<F: Flash> Jffs2<F> {
    /// The flash device.
    pub const fn flash(&self) -> &F {
        self.medium.flash()
    }

    /// The flash device, for maintenance. Writing to it destroys the volume.
    pub const fn flash_mut(&mut self) -> &mut F {
        self.medium.flash_mut()
    }

    /// Returns the device as it is: unsynced changes are lost.
    pub fn into_flash(self) -> F {
        self.medium.into_flash()
    }

    /// The clock that device operations advance.
    pub const fn clock(&self) -> &Clock {
        self.medium.clock()
    }
}

impl<F> fmt::Debug for Jffs2<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (blocks, inodes) = (self.catalogue.blocks.len(), self.inodes.len());
        write!(f, "Jffs2 {{ blocks: {blocks}, inodes: {inodes}, highest_inode: {} }}", self.highest_inode)
    }
}
