//! Options of the page-mapped translation layer in a stack.

use nandkit_cleaning::victim::index::VictimIndex;
use nandkit_cleaning::victim::{Leveling, Rule, VictimPolicy};
use nandkit_ftl::PageMapOptions;
use nandkit_ftl::page_map::{Frontiers, Spare};
use serde::{Deserialize, Serialize};

use crate::AllocationName;

/// Where host writes and copies go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrontiersName {
    /// Copies are gathered in superblocks of their own.
    #[default]
    Apart,
    /// Into one superblock, in the order in which they come: what closed forms without separation assume.
    Shared,
}

/// Options of the page-mapped translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageMapSpec {
    /// The over-provisioning: (physical - user) / user, where the pages of open and of reserved superblocks are physical ones too.
    pub spare: f64,
    /// Bytes that the host sees, a number or a text as "64M"; 0: by `spare`.
    #[serde(deserialize_with = "crate::named::size")]
    pub capacity: u64,
    /// Which superblock is cleaned next: a victim policy by name, with its options: `greedy`, `fifo`, `random`, `d-choices:d=5`.
    pub victim: String,
    /// Where host writes and copies go.
    pub frontiers: FrontiersName,
    /// Which free superblock is used next.
    pub allocation: AllocationName,
    /// Blocks of a superblock, each on another die: a power of two up to the number of dies; 0 stands for all dies, as far as they are a power of two.
    pub stripe: u32,
}

impl Default for PageMapSpec {
    fn default() -> Self {
        Self {
            spare: 0.07,
            capacity: 0,
            victim: "greedy".to_string(),
            frontiers: FrontiersName::default(),
            allocation: AllocationName::default(),
            stripe: 0,
        }
    }
}

/// The greatest spare: a hundredth of the flash for the host.
const SPARE_MAX: f64 = 100.0;

impl PageMapSpec {
    /// The victim rule. Errors: no policy of that name, or one that needs more than the layer has for it.
    fn rule(&self) -> Result<Rule, String> {
        let policy: VictimPolicy = self.victim.parse().map_err(|error| format!("victim: {error}"))?;
        if VictimIndex::new(&policy.rule, 1).is_none() {
            return Err(format!(
                "victim is {}: it looks at all superblocks and their ages, which this layer does not do; expected greedy, fifo, random or d-choices",
                self.victim
            ));
        }
        if policy.leveling != Leveling::None || policy.open_clean.is_some() {
            let detail = "of a rule's options this layer takes the rule's own, as in d-choices:d=5";
            return Err(format!("victim is {}: {detail}", self.victim));
        }
        Ok(policy.rule)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.rule()?;
        if !(self.spare > 0.0 && self.spare <= SPARE_MAX) {
            return Err(format!("spare is {}; expected a ratio above 0 and up to {SPARE_MAX}, as 0.07", self.spare));
        }
        let by_default = Self::default().spare;
        if self.capacity > 0 && (self.spare - by_default).abs() > f64::EPSILON {
            return Err("both spare and capacity are set; expected one of them, the other follows".to_string());
        }
        if self.stripe != 0 && !self.stripe.is_power_of_two() {
            let stripe = self.stripe;
            return Err(format!("stripe is {stripe}; expected 0, or a power of two up to the number of dies"));
        }
        Ok(())
    }

    pub(crate) fn title(&self) -> String {
        let mut title = format!("page-map | {}", self.victim);
        if self.capacity > 0 {
            title += &format!(" | capacity {}", nandkit_units::format_bytes(self.capacity));
        } else {
            title += &format!(" | spare {}", self.spare);
        }
        if self.frontiers == FrontiersName::Shared {
            title += " | one frontier";
        }
        if self.allocation == AllocationName::Fifo {
            title += " | free blocks fifo";
        }
        if self.stripe > 0 {
            title += &format!(" | stripe {}", self.stripe);
        }
        title
    }

    /// The layer's options in a run with this seed.
    pub(crate) fn options(&self, seed: u64) -> Result<PageMapOptions, String> {
        Ok(PageMapOptions {
            spare: if self.capacity > 0 { Spare::Capacity(self.capacity) } else { Spare::Ratio(self.spare) },
            victim: self.rule()?,
            frontiers: match self.frontiers {
                FrontiersName::Apart => Frontiers::Apart,
                FrontiersName::Shared => Frontiers::Shared,
            },
            allocation: crate::on_chip::allocation(self.allocation),
            stripe: self.stripe,
            seed,
        })
    }
}
