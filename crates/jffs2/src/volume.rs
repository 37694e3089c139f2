//! A mounted volume: what all rooms of the crate work on.

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
    /// The bytes.
    pub(crate) medium: Medium<F>,
    /// What stands where.
    pub(crate) catalogue: Catalogue,
    /// The inodes, dead ones included as long as nodes of theirs are on the flash.
    pub(crate) inodes: Inodes,
    /// The extended attributes.
    pub(crate) xattrs: XattrTable,
    /// The highest inode number ever seen: numbers are not given twice in one mount.
    pub(crate) highest_inode: Ino,
    /// What the mount, or the loading of an inode, found damaged.
    pub(crate) damage: DamageList,
    /// The inodes that have lost their names, as the mount found them.
    pub(crate) strays: Vec<Stray>,
    /// Whether what has no name may have been deleted.
    pub(crate) may_lack_deleted: bool,
    /// Everything that only writing needs; `None` where mounted for reading only.
    pub(crate) writer: Option<Box<Writer>>,
}

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Nothing is ever written.
    pub read_only: bool,
    /// The order of bytes in numbers; found where `None` (a blank device counts as little-endian).
    pub order: Option<ByteOrder>,
    /// The nodes have the magic number of before 2001: read with the others' format, never written.
    pub has_old_magic: bool,
    /// Believe summaries where they are; else every block is scanned.
    pub use_summaries: bool,
    /// Where cleanmarkers are; where `None`, as Linux places them on flash of this kind.
    pub cleanmarker: Option<Cleanmarker>,
    /// The device was erased as a whole just now. Without cleanmarkers nothing else tells that the
    /// erase of a block that looks blank has ended: such blocks are erased again before they are
    /// used, which Linux spares itself (fs/jffs2/scan.c), so that a cut erase costs it data.
    pub just_erased: bool,
    /// Scan blocks on all threads of the pool at once. For devices on which no simulated time
    /// passes: with others the order of reads, and with it the time, would depend on the threads.
    /// The result never does.
    pub parallel: bool,
    /// What writing and collecting need to know.
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
    /// The damage that the mount and all reads since have met, by address. [`Jffs2::check`] finds
    /// the rest.
    pub fn damage(&self) -> Vec<Finding> {
        let mut findings = Findings::default();
        findings.extend(self.damage.sorted().iter().map(Damage::finding));
        findings.into_list()
    }

    /// What stands in each block.
    pub const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }
}

impl<F: Flash> Jffs2<F> {
    /// The device.
    pub const fn flash(&self) -> &F {
        self.medium.flash()
    }

    /// The device itself, for those who look after it. Whoever writes to it destroys the volume.
    pub const fn flash_mut(&mut self) -> &mut F {
        self.medium.flash_mut()
    }

    /// Gives the device back as it is: what was not synced is lost.
    pub fn into_flash(self) -> F {
        self.medium.into_flash()
    }

    /// The clock that the device advances.
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
