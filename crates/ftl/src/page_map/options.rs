//! Options of a page-mapped device.

use nandkit_cleaning::allocation::AllocationRule;
use nandkit_cleaning::separation::Separation;
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_units::Nanos;

/// How much flash there is beyond what the host sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spare {
    /// Exactly (physical - user) / user, where physical counts all pages of all superblocks,
    /// including open and reserved ones. User pages are rounded down to a whole number.
    Ratio(f64),
    /// This many bytes for the host, rounded down to whole pages.
    Capacity(u64),
}

/// Options of a [`PageMapFtl`](super::PageMapFtl).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageMapOptions {
    /// The over-provisioning. The default of 7 % matches drives that sell a binary gigabyte as a
    /// decimal one.
    pub spare: Spare,
    /// Logical page size in bytes: a power of two from 512 to the chip's page size; 0 means the
    /// chip's page size.
    pub sector_size: u32,
    /// Which superblock is cleaned next.
    pub victim: VictimPolicy,
    /// Which pages are written to superblocks of their own. [`Separation::UserMoved`], the default,
    /// separates pages that cleaning moved, because they are colder than the host's writes. Closed
    /// forms without separation assume [`Separation::None`].
    pub separation: Separation,
    /// What a device needs to be attached again; `None` keeps the device in memory only, with
    /// nothing left after closing, as closed forms assume.
    pub journal: Option<JournalOptions>,
    /// Size in bytes of the device memory in which host writes wait until they fill pages of the
    /// chip. 0, the default: each write goes to flash at once, and the rest of a page that it does
    /// not fill stays empty.
    pub write_buffer: u64,
    /// Size in bytes of the device memory for the map: the directory with the position of each map
    /// page, and map pages in the rest. 0, the default: the whole map is in memory. Requires a
    /// journal, because only then are map pages on flash.
    pub mapping_cache: u64,
    /// Whether capacitors save the write buffer and the journal's lines when power fails: a flush
    /// then waits for nothing. See [`PageMapFtl::on_last_power`](super::PageMapFtl::on_last_power).
    pub power_loss_protection: bool,
    /// Whether a flush with `power_loss_protection` writes to flash at once what the capacitors
    /// would save later. Set it if nothing calls
    /// [`PageMapFtl::on_last_power`](super::PageMapFtl::on_last_power) and the chip nevertheless
    /// outlives the layer, because it is in a file and the process may be killed, or because a test
    /// plan cuts its power. The flush still completes at once; its programs keep the dies busy
    /// afterwards. Unused without protection.
    pub saved_at_flush: bool,
    /// The number of reads of a block since its erase after which its superblock's content is
    /// moved, with the next change of the device. 0, the default: never. Read counts do not survive
    /// a start.
    pub read_refresh: u32,
    /// The age at which a superblock's content is moved, with the next change of the device. 0, the
    /// default: never. Ages restart at each start.
    pub retention_refresh: Nanos,
    /// The tolerated difference in erase counts. Cold data on superblocks that are less worn than
    /// the most-worn one by more than this are moved to worn ones, at most one superblock for each
    /// that is opened. 0, the default: never. Costs an open superblock.
    pub leveling_threshold: u32,
    /// The time without requests after which the layer works by itself: it cleans until `idle_free`
    /// superblocks are free, and does other due work (checkpoints, refresh, levelling). 0, the
    /// default: never.
    pub idle_after: Nanos,
    /// The number of free superblocks at which idle cleaning stops. 0, the default: a quarter of
    /// those that could be free beyond the always-free ones when the host has filled the device,
    /// and at least one.
    pub idle_free: u32,
    /// The least share of a superblock's pages that cleaning it in idle time must gain. 0, the
    /// default: the mean share of all superblocks when the host has filled the device, so that no
    /// victim is worse than a random one.
    pub idle_gain: f64,
    /// Which free superblock is used next.
    pub allocation: AllocationRule,
    /// The number of blocks of a superblock, each on another die: a power of two up to the number
    /// of dies. 0: all dies, as far as they are a power of two and the index of victims can count
    /// the pages.
    pub stripe: u32,
    /// The seed of the victim rule's random choices.
    pub seed: u64,
}

/// Options of the journal that keeps a device on flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalOptions {
    /// Logical pages, written by the host or moved, between two checkpoints; 0 means an eighth of
    /// the host's pages. Fewer pages make starts shorter and cost map writes.
    pub checkpoint_every: u64,
    /// The most logical pages that may point at content written under another address (remap); 0
    /// means one in 64 of the host's pages. Fixed at format time.
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
