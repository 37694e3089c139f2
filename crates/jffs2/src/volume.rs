//! A mounted volume: what all rooms of the crate work on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, Clock};

use crate::NodeAddress;
use crate::catalogue::Catalogue;
use crate::inode::Inodes;
use crate::layout::ByteOrder;
use crate::medium::{Cleanmarker, Medium};
use crate::mount::Stray;
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
    pub(crate) highest_inode: u32,
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
    /// Believe summaries where they are; else every block is scanned.
    pub use_summaries: bool,
    /// Where cleanmarkers are; where `None`, as Linux places them on flash of this kind.
    pub cleanmarker: Option<Cleanmarker>,
    /// The device was erased as a whole just now. Without cleanmarkers nothing else tells that the erase of a block that looks blank has ended: such blocks are erased again before
    /// they are used, which Linux spares itself (fs/jffs2/scan.c), so that a cut erase costs it data.
    pub just_erased: bool,
    /// Scan blocks on all threads of the pool at once. For devices on which no simulated time passes: with others the order of reads, and with it the time, would
    /// depend on the threads. The result never does.
    pub parallel: bool,
    /// What writing and collecting need to know.
    pub write: WriteOptions,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            order: None,
            use_summaries: true,
            cleanmarker: None,
            just_erased: false,
            parallel: false,
            write: WriteOptions::default(),
        }
    }
}

/// What was found damaged, in any order; may grow while inodes are loaded through a shared reference.
#[derive(Debug, Default)]
pub(crate) struct DamageList {
    found: Mutex<BTreeSet<Damage>>,
}

impl DamageList {
    /// One more; what is known already is not kept twice.
    pub(crate) fn add(&self, damage: Damage) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(damage);
    }

    /// Many more.
    pub(crate) fn extend(&self, damage: impl IntoIterator<Item = Damage>) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).extend(damage);
    }

    /// All, by address.
    pub(crate) fn sorted(&self) -> Vec<Damage> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Something that a volume holds and that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// Where.
    pub at: NodeAddress,
    /// The block.
    pub block: BlockIndex,
    /// What.
    pub kind: DamageKind,
    /// The inode that it belonged to, where the header could still tell.
    pub inode: Option<u32>,
    /// Details for people: what was found, and what would be right.
    pub detail: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (block {}): {}", self.at, self.block.0, self.kind.name())?;
        if let Some(inode) = self.inode {
            write!(f, ", inode {inode}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

/// Kinds of damage: what a node's checksums, lengths and references witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DamageKind {
    /// A node's header: magic number, checksum or length; or bytes that are no node where one should begin.
    Header,
    /// The fixed part of a node.
    Node,
    /// A file's data.
    Data,
    /// A name.
    Name,
    /// An extended attribute's name or value.
    Xattr,
    /// A summary.
    Summary,
    /// A cleanmarker.
    Cleanmarker,
    /// Bytes where free flash or padding should be.
    FreeSpace,
    /// An inode that cannot be as its nodes say: no type or an impossible one, a link's target that holds a NUL.
    Inode,
    /// A node that names an inode, directory or attribute that is not there, or that is something else.
    Reference,
    /// A whole inode, or a name of one, to which no way leads from the root, in a volume from which nothing was ever taken away.
    Orphan,
    /// Bytes of a file that stand in no node, although its other nodes say that they were written.
    Missing,
    /// The device could not read it without errors.
    Uncorrectable,
    /// The last node of the block that was open when the power went: no loss of anything that was acknowledged as durable.
    Torn,
    /// A name in a directory of which nothing is left, where directories may have been removed: their nodes are erased in any order.
    Remains,
}

impl DamageKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Header,
        Self::Node,
        Self::Data,
        Self::Name,
        Self::Xattr,
        Self::Summary,
        Self::Cleanmarker,
        Self::FreeSpace,
        Self::Inode,
        Self::Reference,
        Self::Orphan,
        Self::Missing,
        Self::Uncorrectable,
        Self::Torn,
        Self::Remains,
    ];

    /// Whether nothing is lost by it that anybody was promised: what a power cut, or the removal of a directory, leaves behind.
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::Torn | Self::Remains)
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "node header",
            Self::Node => "node",
            Self::Data => "data",
            Self::Name => "name",
            Self::Xattr => "extended attribute",
            Self::Summary => "summary",
            Self::Cleanmarker => "cleanmarker",
            Self::FreeSpace => "free space",
            Self::Inode => "inode",
            Self::Reference => "reference",
            Self::Orphan => "orphan",
            Self::Missing => "missing data",
            Self::Uncorrectable => "uncorrectable",
            Self::Torn => "torn write",
            Self::Remains => "remains",
        }
    }
}

impl<F> Jffs2<F> {
    /// What the mount and everything that was read since found damaged, by address. [`Jffs2::check`] finds the rest.
    pub fn damage(&self) -> Vec<Damage> {
        self.damage.sorted()
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

/// The cause that reads of a mount carry.
pub(crate) const MOUNT: Cause = Cause::Recovery;
