//! Options of the page-mapped translation layer in a stack.

use nandkit_cleaning::separation::Separation;
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_ftl::PageMapOptions;
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::AllocationName;
use crate::SpecError;

/// Options of the page-mapped translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageMapSpec {
    /// The over-provisioning: (physical - user) / user, where the pages of open and of reserved
    /// superblocks are physical ones too.
    pub spare: f64,
    /// Capacity for the host in bytes, a number or a text such as "64M"; 0: determined by `spare`.
    #[serde(deserialize_with = "crate::named::size")]
    pub capacity: u64,
    /// Logical page size in bytes, from 512 to the page size; 0 stands for the page, or for the
    /// largest sector that the file system can use.
    pub sector_size: u32,
    /// Which superblock is cleaned next: a victim policy by name, with its options: `greedy`,
    /// `fifo`, `random`, `d-choices:d=5`, `cost-benefit`.
    #[serde(deserialize_with = "crate::named::victim")]
    pub victim: String,
    /// Which data go to separate superblocks: a separation by name, with its options: `user-moved`
    /// (data moved by cleaning), `none`, `sepbit`, `known:below=5000`.
    pub separation: String,
    /// Whether the layer writes a journal and pages of the map, from which it recovers after a
    /// restart; their programs count. Without it only host pages and copies are written, as
    /// closed-form models assume.
    pub journal: bool,
    /// Logical pages written or moved between two checkpoints; 0 stands for an eighth of the host's
    /// pages.
    pub checkpoint_every: u64,
    /// Largest number of logical pages that share the data of another address (remap); 0 stands for
    /// 1/64 of the host's pages.
    pub aliases: u32,
    /// Write buffer in the device's memory, in bytes or a text such as "1M": host writes wait there
    /// until they fill pages of the chip. 0: each write goes to flash at once.
    #[serde(deserialize_with = "crate::named::size")]
    pub write_buffer: u64,
    /// Memory for the map, in bytes or a text such as "1M": it holds the directory of map pages and
    /// as many map pages as fit; the others are read from flash when needed. 0: the whole map is in
    /// memory.
    #[serde(deserialize_with = "crate::named::size")]
    pub mapping_cache: u64,
    /// Reads of a block since its erase after which its data are moved, with the next change of the
    /// device; 0: never.
    pub read_refresh: u32,
    /// Seconds of simulated time after which the data of a block are moved, with the next change of
    /// the device; 0: never.
    pub retention_refresh_s: u64,
    /// Static wear levelling: the largest difference of erase counts that is tolerated. Beyond it,
    /// cold data move from less worn to more worn blocks. 0: never.
    pub leveling_threshold: u32,
    /// Milliseconds without a request after which the layer works in the background: it cleans,
    /// makes due checkpoints, refreshes and levels wear; 0: never.
    pub idle_after_ms: f64,
    /// Free superblocks at which idle cleaning stops; 0 stands for a quarter of those that can
    /// become free beyond the reserve.
    pub idle_free: u32,
    /// Smallest share of a superblock's pages that idle cleaning must free; 0 stands for the mean
    /// share of all superblocks when the host has filled the device.
    pub idle_gain: f64,
    /// Whether capacitors save the write buffer at a power loss, so that a flush need not wait.
    pub power_loss_protection: bool,
    /// Which free superblock is used next.
    pub allocation: AllocationName,
    /// Blocks per superblock, each on a different die: a power of two up to the number of dies; 0
    /// stands for the largest such power.
    pub stripe: u32,
}

impl Default for PageMapSpec {
    fn default() -> Self {
        Self {
            spare: 0.07,
            capacity: 0,
            sector_size: 0,
            victim: "greedy".to_string(),
            separation: "user-moved".to_string(),
            journal: true,
            checkpoint_every: 0,
            aliases: 0,
            write_buffer: 0,
            mapping_cache: 0,
            read_refresh: 0,
            retention_refresh_s: 0,
            leveling_threshold: 0,
            idle_after_ms: 0.0,
            idle_free: 0,
            idle_gain: 0.0,
            power_loss_protection: false,
            allocation: AllocationName::default(),
            stripe: 0,
        }
    }
}

/// Largest value of `spare`: the host gets about 1 % of the flash.
const SPARE_MAX: f64 = 100.0;

/// The longest time after which idle work begins.
const IDLE_MAX_MS: f64 = 86_400_000.0;

/// The longest time after which data are refreshed.
const RETENTION_MAX_S: u64 = 100 * 365 * 86_400;

impl PageMapSpec {
    fn policy(&self) -> Result<VictimPolicy, SpecError> {
        let policy: VictimPolicy = self.victim.parse().map_err(|error| SpecError::form(format!("victim: {error}")))?;
        if policy.rule.needs_lists() {
            let name = &self.victim;
            return Err(SpecError::conflict(format!(
                "victim: {name} takes the head of a list of blocks, which this layer does not keep; expected another policy, such as fifo or greedy"
            )));
        }
        Ok(policy)
    }

    fn scheme(&self) -> Result<Separation, SpecError> {
        self.separation.parse().map_err(|error| SpecError::form(format!("separation: {error}")))
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        self.policy()?;
        self.scheme()?;
        if !(self.spare > 0.0 && self.spare <= SPARE_MAX) {
            return Err(SpecError::range(format!(
                "spare is {}; expected a ratio above 0 and up to {SPARE_MAX}, such as 0.07",
                self.spare
            )));
        }
        let by_default = Self::default().spare;
        if self.capacity > 0 && (self.spare - by_default).abs() > f64::EPSILON {
            return Err(SpecError::conflict(
                "both spare and capacity are set; expected only one of them, which determines the other",
            ));
        }
        if self.stripe != 0 && !self.stripe.is_power_of_two() {
            let stripe = self.stripe;
            return Err(SpecError::range(format!(
                "stripe is {stripe}; expected 0, or a power of two up to the number of dies"
            )));
        }
        if self.retention_refresh_s > RETENTION_MAX_S {
            let seconds = self.retention_refresh_s;
            return Err(SpecError::range(format!(
                "retention_refresh_s is {seconds}; expected 0 (never) or up to {RETENTION_MAX_S} (a hundred years)"
            )));
        }
        self.check_idle()?;
        if self.mapping_cache > 0 && !self.journal {
            let what = "mapping_cache is set but journal = false; expected journal = true, which writes map pages to flash, or mapping_cache = 0, which keeps the whole map in memory";
            return Err(SpecError::range(what));
        }
        Ok(())
    }

    /// Checks the idle options. The upper limit of `idle_free` depends on the chip and is checked
    /// when the stack is built.
    fn check_idle(&self) -> Result<(), SpecError> {
        let (after, free, gain) = (self.idle_after_ms, self.idle_free, self.idle_gain);
        if !(after == 0.0 || (1e-3..=IDLE_MAX_MS).contains(&after)) {
            return Err(SpecError::range(format!(
                "idle_after_ms is {after}; expected 0, never, or 0.001 to {IDLE_MAX_MS} milliseconds, a day"
            )));
        }
        if !(0.0..=1.0).contains(&gain) {
            return Err(SpecError::range(format!(
                "idle_gain is {gain}; expected a share of a superblock's pages from 0 (determined by the spare) to 1"
            )));
        }
        if after == 0.0 && (free > 0 || gain > 0.0) {
            let key = if free > 0 { "idle_free" } else { "idle_gain" };
            return Err(SpecError::conflict(format!(
                "{key} is set but idle_after_ms is not, so that the layer never works in idle times; expected idle_after_ms above 0, such as 10, or no {key}"
            )));
        }
        Ok(())
    }

    /// Refuses a mapping cache that is certainly too small for a device of at least `bytes`.
    /// `sector_size` is the logical page size unless the spec sets one. Limits that depend on the
    /// chip are checked when the stack is built.
    pub(crate) fn check_cache(&self, bytes: u64, sector_size: u32) -> Result<(), SpecError> {
        let sector_size = u64::from(if self.sector_size > 0 { self.sector_size } else { sector_size }).max(512);
        let user = if self.capacity > 0 { self.capacity } else { (bytes as f64 / (1.0 + self.spare)) as u64 };
        let map_pages = (user / sector_size) / (sector_size / 4);
        let least = 4 * map_pages + 2 * sector_size;
        if self.mapping_cache == 0 || self.mapping_cache >= least {
            return Ok(());
        }
        let told = nandkit_units::format_bytes(self.mapping_cache);
        Err(SpecError::range(format!(
            "mapping_cache is {told}; expected at least {least} bytes: the directory of {map_pages} map pages takes {}, and two map pages of {sector_size} must fit in addition",
            4 * map_pages
        )))
    }

    pub(crate) fn title(&self) -> String {
        let mut title = format!("page-map | {}", self.victim);
        if self.capacity > 0 {
            title += &format!(" | capacity {}", nandkit_units::format_bytes(self.capacity));
        } else {
            title += &format!(" | spare {}", self.spare);
        }
        match self.separation.as_str() {
            "user-moved" => {}
            "none" => title += " | not separated",
            other => title += &format!(" | {other}"),
        }
        if self.allocation == AllocationName::Fifo {
            title += " | free blocks fifo";
        }
        if !self.journal {
            title += " | no journal";
        }
        if self.write_buffer > 0 {
            title += &format!(" | buffer {}", nandkit_units::format_bytes(self.write_buffer));
        }
        if self.mapping_cache > 0 {
            title += &format!(" | map cache {}", nandkit_units::format_bytes(self.mapping_cache));
        }
        for (what, number) in [("refresh after reads", self.read_refresh), ("levelling from", self.leveling_threshold)]
        {
            if number > 0 {
                title += &format!(" | {what} {number}");
            }
        }
        if self.retention_refresh_s > 0 {
            title += &format!(" | refresh after {} s", self.retention_refresh_s);
        }
        if self.idle_after_ms > 0.0 {
            title += &format!(" | works after {} ms idle", self.idle_after_ms);
        }
        if self.power_loss_protection {
            title += " | power-loss protection";
        }
        if self.stripe > 0 {
            title += &format!(" | stripe {}", self.stripe);
        }
        if self.sector_size > 0 {
            title += &format!(" | sectors of {}", self.sector_size);
        }
        title
    }

    /// The layer's options for a run with this seed. `sector_size` is the largest sector that the
    /// file system can use; 0: any size.
    pub(crate) fn options(&self, seed: u64, sector_size: u32) -> Result<PageMapOptions, SpecError> {
        Ok(PageMapOptions {
            spare: if self.capacity > 0 { Spare::Capacity(self.capacity) } else { Spare::Ratio(self.spare) },
            sector_size: if self.sector_size > 0 { self.sector_size } else { sector_size },
            victim: self.policy()?,
            separation: self.scheme()?,
            journal: self
                .journal
                .then_some(JournalOptions { checkpoint_every: self.checkpoint_every, aliases: self.aliases }),
            allocation: self.allocation.rule(),
            stripe: self.stripe,
            write_buffer: self.write_buffer,
            mapping_cache: self.mapping_cache,
            read_refresh: self.read_refresh,
            retention_refresh: Nanos::from_secs(self.retention_refresh_s),
            leveling_threshold: self.leveling_threshold,
            idle_after: Nanos((self.idle_after_ms * 1e6) as u64),
            idle_free: self.idle_free,
            idle_gain: self.idle_gain,
            power_loss_protection: self.power_loss_protection,
            saved_at_flush: false,
            seed,
        })
    }
}
