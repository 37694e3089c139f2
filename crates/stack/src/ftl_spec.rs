//! The translation layer of a stack.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::SpecError;
use crate::named::{overlay, table_or_name, take, whole};
use crate::{AllocationName, PageMapSpec, suggest};

/// The recycling policy of a block-mapped translation layer (P4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyName {
    /// Always merge.
    #[serde(rename = "merge")]
    Merge,
    /// Migrate while that costs less per page than a merge.
    #[serde(rename = "merge+migration")]
    MergeMigration,
    /// Like merge+migration, but with at most `limit` migrations in a row.
    #[serde(rename = "limit")]
    Limit,
    /// The number of migrations in a row that minimises the cost per page of the whole cycle, merge
    /// included; predicted from the measured growth of valid pages.
    #[default]
    #[serde(rename = "macroscopic")]
    Macroscopic,
}

impl PolicyName {
    /// All policies, in the order in which they are compared.
    pub const ALL: [Self; 4] = [Self::Merge, Self::MergeMigration, Self::Limit, Self::Macroscopic];

    /// The name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::MergeMigration => "merge+migration",
            Self::Limit => "limit",
            Self::Macroscopic => "macroscopic",
        }
    }

    /// A description in one line.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Merge => "always merge a full log block with its data block",
            Self::MergeMigration => "migrate a full log block while fewer than half of its pages are valid, else merge",
            Self::Limit => "as merge+migration, but merge after at most Np/2 migrations in a row",
            Self::Macroscopic => {
                "measure how valid pages grow with each migration, and merge when the cost per page of the whole cycle is lowest"
            }
        }
    }
}

/// How the macroscopic policy measures the growth `alpha` of valid pages per migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlphaName {
    /// The slope of a line through the origin: `P_n / n`.
    #[default]
    Origin,
    /// The slope of a regression line.
    Regression,
}

/// Which log block is recycled when another logical block needs one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimName {
    /// The least recently written one.
    #[default]
    LeastRecentlyWritten,
    /// The oldest one.
    Fifo,
    /// The one with the fewest valid pages.
    FewestValid,
    /// In turn.
    RoundRobin,
}

/// The translation layer. In a spec: its kind as a name, or a table with the key `kind` and the
/// options of that kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FtlSpec {
    /// No layer: the device already is a block device.
    None,
    /// Block mapping, with log blocks that are merged or migrated (P4).
    BlockMap(BlockMapSpec),
    /// Log blocks shared by all data blocks (FAST).
    Fast(FastSpec),
    /// Page mapping, with cleaning of superblocks.
    PageMap(PageMapSpec),
}

/// Options of the block-mapped translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockMapSpec {
    /// Log blocks.
    pub log_blocks: u32,
    /// What to do with a full log block.
    pub policy: PolicyName,
    /// Largest number of migrations in a row under the policy `limit`, and under `macroscopic`
    /// until the growth is measured; 0 stands for half of the pages of a block.
    pub limit: u32,
    /// How the policy `macroscopic` measures.
    pub alpha: AlphaName,
    /// Pages of the map that each recycling writes.
    pub map_pages: u32,
    /// Sector size in bytes, from 512 to the page size; 0 stands for the page, or for the largest
    /// sector that the file system can use.
    pub sector_size: u32,
    /// Whether a log block that holds the first pages of its block in order is filled up with the
    /// remaining pages instead of merged.
    pub partial_merge: bool,
    /// Which log block is recycled when another logical block needs one.
    pub victim: VictimName,
    /// Which free block is used next.
    pub allocation: AllocationName,
    /// Difference of erase counts to the most worn block from which a merge moves the content of a
    /// data block there; 0 for never.
    pub wear_threshold: u32,
    /// Spare blocks, which the host does not see; 0 stands for the needs of the layer plus 2 % of
    /// the chip.
    pub spare_blocks: u32,
    /// Capacity for the host in bytes, a number or a text such as "64M"; 0 stands for all but the
    /// spare blocks.
    #[serde(deserialize_with = "crate::named::size")]
    pub capacity: u64,
    /// A logical block whose recyclings the record lists (`ftl_trace`); none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_block: Option<u32>,
}

impl Default for BlockMapSpec {
    fn default() -> Self {
        Self {
            log_blocks: 8,
            policy: PolicyName::default(),
            limit: 0,
            alpha: AlphaName::default(),
            map_pages: 1,
            sector_size: 0,
            partial_merge: false,
            victim: VictimName::default(),
            allocation: AllocationName::default(),
            wear_threshold: 0,
            spare_blocks: 0,
            capacity: 0,
            trace_block: None,
        }
    }
}

/// Options common to the layers with log blocks.
struct Common {
    allocation: AllocationName,
    spare_blocks: u32,
    capacity: u64,
    map_pages: u32,
    sector_size: u32,
}

impl Common {
    /// Adds the parts of a title for options that differ from the default.
    fn tell(&self, add: &mut dyn FnMut(String)) {
        if self.allocation == AllocationName::Fifo {
            add("free blocks fifo".to_string());
        }
        if self.spare_blocks > 0 {
            add(format!("{} spare blocks", self.spare_blocks));
        }
        if self.capacity > 0 {
            add(format!("capacity {}", nandkit_units::format_bytes(self.capacity)));
        }
        if self.map_pages != 1 {
            add(format!("{} map pages", self.map_pages));
        }
        if self.sector_size > 0 {
            add(format!("sectors of {}", self.sector_size));
        }
    }
}

impl BlockMapSpec {
    fn title(&self) -> String {
        let standard = Self::default();
        let mut title = format!("block-map | {}", self.policy.name());
        let mut add = |part: String| title += &format!(" | {part}");
        if matches!(self.policy, PolicyName::Limit | PolicyName::Macroscopic) && self.limit > 0 {
            add(format!("limit {}", self.limit));
        }
        if self.policy == PolicyName::Macroscopic && self.alpha != standard.alpha {
            add("alpha by regression".to_string());
        }
        if self.partial_merge {
            add("partial merge".to_string());
        }
        match self.victim {
            VictimName::LeastRecentlyWritten => {}
            VictimName::Fifo => add("victim fifo".to_string()),
            VictimName::FewestValid => add("victim fewest-valid".to_string()),
            VictimName::RoundRobin => add("victim round-robin".to_string()),
        }
        if self.wear_threshold > 0 {
            add(format!("wear threshold {}", self.wear_threshold));
        }
        let common = Common {
            allocation: self.allocation,
            spare_blocks: self.spare_blocks,
            capacity: self.capacity,
            map_pages: self.map_pages,
            sector_size: self.sector_size,
        };
        common.tell(&mut add);
        add(format!("{} log blocks", self.log_blocks));
        title
    }
}

/// Options of FAST.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FastSpec {
    /// Sector size in bytes; 0 stands for the page, or for the largest sector that the file system
    /// can use.
    pub sector_size: u32,
    /// Log blocks, including the one for sequential writes.
    pub log_blocks: u32,
    /// Pages of the map that each merge writes.
    pub map_pages: u32,
    /// Which free block is used next.
    pub allocation: AllocationName,
    /// Spare blocks, which the host does not see; 0 stands for the needs of the layer plus 2 % of
    /// the chip.
    pub spare_blocks: u32,
    /// Capacity for the host in bytes, a number or a text such as "64M"; 0 stands for all but the
    /// spare blocks.
    #[serde(deserialize_with = "crate::named::size")]
    pub capacity: u64,
}

impl Default for FastSpec {
    fn default() -> Self {
        Self {
            sector_size: 0,
            log_blocks: 8,
            map_pages: 1,
            allocation: AllocationName::default(),
            spare_blocks: 0,
            capacity: 0,
        }
    }
}

impl FastSpec {
    fn title(&self) -> String {
        let mut title = "fast".to_string();
        let mut add = |part: String| title += &format!(" | {part}");
        let common = Common {
            allocation: self.allocation,
            spare_blocks: self.spare_blocks,
            capacity: self.capacity,
            map_pages: self.map_pages,
            sector_size: self.sector_size,
        };
        common.tell(&mut add);
        add(format!("{} log blocks", self.log_blocks));
        title
    }
}

impl FtlSpec {
    /// The names of all kinds.
    pub const KINDS: &'static [&'static str] = &["block-map", "fast", "page-map", "none"];

    /// The layer of this kind with its defaults.
    pub fn kind(name: &str) -> Result<Self, SpecError> {
        Self::from_table(Table::from_iter([("kind".to_string(), name.into())]))
    }

    /// The layer of a table. If the table names no kind or that of the drive's own layer, missing
    /// options come from the latter.
    pub(crate) fn over(layer: Option<Table>, table: Table) -> Result<Self, SpecError> {
        let kind_of = |table: &Table| table.get("kind").cloned();
        match layer {
            Some(mut layer) if !table.contains_key("kind") || kind_of(&table) == kind_of(&layer) => {
                // Each of the two keys replaces the other.
                if table.contains_key("capacity") {
                    layer.remove("spare");
                }
                overlay(&mut layer, table);
                Self::from_table(layer)
            }
            _ => Self::from_table(table),
        }
    }

    pub(crate) fn from_table(mut table: Table) -> Result<Self, SpecError> {
        let kind: String = take(&mut table, "kind")?.unwrap_or_else(|| "block-map".to_string());
        let wrong = |error: SpecError| error.within(&kind);
        let spec = match kind.as_str() {
            "block-map" => Self::BlockMap(whole(table).map_err(wrong)?),
            "fast" => Self::Fast(whole(table).map_err(wrong)?),
            "page-map" => Self::PageMap(whole(table).map_err(wrong)?),
            "none" => match table.keys().next() {
                None => Self::None,
                Some(key) => {
                    return Err(SpecError::unknown(format!(
                        "unknown key \"{key}\": no translation layer has no options"
                    )));
                }
            },
            other => return Err(SpecError::unknown(suggest::unknown("translation layer", other, Self::KINDS))),
        };
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), SpecError> {
        let (log_blocks, least, map_pages) = match self {
            Self::None => return Ok(()),
            Self::BlockMap(spec) => (spec.log_blocks, 1, spec.map_pages),
            Self::Fast(spec) => (spec.log_blocks, 2, spec.map_pages),
            Self::PageMap(spec) => return spec.check().map_err(|error| error.within("page-map")),
        };
        if !(least..=4096).contains(&log_blocks) {
            return Err(SpecError::range(format!("log_blocks is {log_blocks}; expected {least} to 4096")));
        }
        if map_pages > 64 {
            return Err(SpecError::range(format!("map_pages is {map_pages}; expected 0 to 64")));
        }
        if let Self::BlockMap(BlockMapSpec { spare_blocks: 1.., capacity: 1.., .. })
        | Self::Fast(FastSpec { spare_blocks: 1.., capacity: 1.., .. }) = self
        {
            return Err(SpecError::conflict(
                "both spare_blocks and capacity are set; expected only one of them, which determines the other",
            ));
        }
        Ok(())
    }

    /// Its kind, as specs name it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BlockMap(_) => "block-map",
            Self::Fast(_) => "fast",
            Self::PageMap(_) => "page-map",
        }
    }

    /// A short text, its parts joined by ` | `.
    pub fn title(&self) -> String {
        match self {
            Self::None => "no translation layer".to_string(),
            Self::BlockMap(spec) => spec.title(),
            Self::Fast(spec) => spec.title(),
            Self::PageMap(spec) => spec.title(),
        }
    }
}

impl Default for FtlSpec {
    fn default() -> Self {
        Self::BlockMap(BlockMapSpec::default())
    }
}

impl<'de> Deserialize<'de> for FtlSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_table(table_or_name(deserializer, "kind")?).map_err(D::Error::custom)
    }
}
