//! What a page-mapped device is like.

use nandkit_cleaning::allocation::AllocationRule;
use nandkit_cleaning::separation::Separation;
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_units::Nanos;

/// How much flash there is beside what the host sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spare {
    /// (physical - user) / user, exactly: physical are all pages of all superblocks, open and
    /// reserved ones included. User pages are rounded down to whole ones.
    Ratio(f64),
    /// So many bytes for the host, rounded down to whole pages.
    Capacity(u64),
}

/// How a [`PageMapFtl`](super::PageMapFtl) is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageMapOptions {
    /// The over-provisioning. The default is 7 %: drives that sell a binary gigabyte as a decimal
    /// one.
    pub spare: Spare,
    /// Bytes of a logical page: a power of two from 512 to the chip's page; 0 stands for the chip's
    /// page.
    pub sector_size: u32,
    /// Which superblock is cleaned next.
    pub victim: VictimPolicy,
    /// What is written to a superblock of its own. [`Separation::UserMoved`], the default: what
    /// cleaning moved, as it is colder than what the host writes. [`Separation::None`] is what
    /// closed forms without separation assume.
    pub separation: Separation,
    /// What a device needs to be found again; `None` for one in memory, of which nothing is left
    /// when it is closed: what closed forms assume.
    pub journal: Option<JournalOptions>,
    /// Bytes of the device's memory in which host writes wait until they fill pages of the chip; 0,
    /// the default: each write goes to flash at once, and a page that it does not fill holds
    /// nothing else.
    pub write_buffer: u64,
    /// Bytes of the device's memory for the map: the directory, which says where each map page
    /// lies, and map pages in what is left. 0, the default: the whole map is in memory. Needs a
    /// journal, since map pages are on flash only with one.
    pub mapping_cache: u64,
    /// Whether capacitors save the write buffer and the journal's lines when the power goes: a
    /// flush then waits for nothing. See
    /// [`PageMapFtl::on_last_power`](super::PageMapFtl::on_last_power).
    pub power_loss_protection: bool,
    /// Whether a flush, with `power_loss_protection`, puts on flash at once what the capacitors
    /// would save later. Set it where nobody calls
    /// [`PageMapFtl::on_last_power`](super::PageMapFtl::on_last_power) and the chip outlives the
    /// layer all the same: it is in a file, and the process may be killed; or its power is cut by
    /// plan. The flush still completes at once, and its programs keep the dies busy behind it.
    /// Without protection it means nothing.
    pub saved_at_flush: bool,
    /// Reads of a block since its erase after which what its superblock holds is moved, with the
    /// next change of the device; 0, the default: never. Reads are not counted across a start.
    pub read_refresh: u32,
    /// The age at which what a superblock holds is moved, with the next change of the device; 0,
    /// the default: never. After a start ages count anew.
    pub retention_refresh: Nanos,
    /// The greatest difference of erase counts that is left alone: superblocks that are worn less
    /// than the most worn one by more, and whose data rest, are moved to worn ones, at most one for
    /// each superblock that is opened. 0, the default: never. Costs an open superblock.
    pub leveling_threshold: u32,
    /// The time in which nothing was asked after which the layer works by itself: it cleans until
    /// `idle_free` superblocks are free, and does what else is due (checkpoints, refresh,
    /// levelling). 0, the default: never.
    pub idle_after: Nanos,
    /// Free superblocks that are enough in idle times. 0, the default: a quarter of those that
    /// could be free beyond the ones that always are, when the host has filled the device, and at
    /// least one.
    pub idle_free: u32,
    /// The least share of a superblock's pages that cleaning it in idle times must win. 0, the
    /// default: the mean share of all superblocks when the host has filled the device, so that no
    /// victim is worse than one drawn by lot.
    pub idle_gain: f64,
    /// Which free superblock is used next.
    pub allocation: AllocationRule,
    /// Blocks of a superblock, each on another die: a power of two up to the number of dies. 0: all
    /// dies, as far as they are a power of two and the index of victims can count the pages.
    pub stripe: u32,
    /// Decides what the victim rule draws.
    pub seed: u64,
}

/// How a device is kept on flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalOptions {
    /// Logical pages, written by the host or moved, between two checkpoints; 0 stands for an eighth
    /// of the host's pages. Fewer make starts shorter and cost writes of the map.
    pub checkpoint_every: u64,
    /// The most logical pages that may point at what was written under another address (remap); 0
    /// stands for one in 64 of the host's. Fixed when the device is made.
    pub aliases: u32,
}

impl Default for PageMapOptions {
    fn default() -> Self {
        Self {
            spare: Spare::Ratio(0.07),
            sector_size: 0,
            victim: VictimPolicy::default(),
            separation: Separation::UserMoved,
            write_buffer: 0,
            mapping_cache: 0,
            power_loss_protection: false,
            saved_at_flush: false,
            journal: Some(JournalOptions { checkpoint_every: 0, aliases: 0 }),
            read_refresh: 0,
            retention_refresh: Nanos::ZERO,
            leveling_threshold: 0,
            idle_after: Nanos::ZERO,
            idle_free: 0,
            idle_gain: 0.0,
            allocation: AllocationRule::LeastErased,
            stripe: 0,
            seed: 0,
        }
    }
}
