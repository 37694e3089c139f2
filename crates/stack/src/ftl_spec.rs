//! The translation layer of a stack.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::named::{table_or_name, take};
use crate::suggest;

/// Which recycling policy a block-mapped translation layer follows (P4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyName {
    /// Always merge.
    #[serde(rename = "merge")]
    Merge,
    /// Migrate while that costs less per page than a merge.
    #[serde(rename = "merge+migration")]
    MergeMigration,
    /// The same, with at most `limit` migrations in a row.
    #[serde(rename = "limit")]
    Limit,
    /// As many migrations in a row as make the cost per page over all of them and the merge least, from the growth of valid pages measured on line.
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

    /// One line for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Merge => "always merge a full log block with its data block",
            Self::MergeMigration => "migrate a full log block while fewer than half of its pages are valid, else merge",
            Self::Limit => "as merge+migration, but merge after at most Np/2 migrations in a row",
            Self::Macroscopic => {
                "measure on line how valid pages grow with migrations, and merge where the cost per page of the whole cycle is least"
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

/// The translation layer. In a spec: its kind as a name, or a table with the key `kind` and the options of that kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FtlSpec {
    /// None: the device is a block device already.
    None,
    /// Blocks mapped, with log blocks that are merged or migrated (P4).
    BlockMap(BlockMapSpec),
    /// Log blocks shared by all data blocks (FAST).
    Fast(FastSpec),
}

/// Options of the block-mapped translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockMapSpec {
    /// Log blocks.
    pub log_blocks: u32,
    /// What to do with a full log block.
    pub policy: PolicyName,
    /// Most migrations in a row under the policy `limit`, and under `macroscopic` while nothing is known of the growth; 0 stands for half of the
    /// pages of a block.
    pub limit: u32,
    /// How the policy `macroscopic` measures.
    pub alpha: AlphaName,
    /// Pages of the map that each recycling writes.
    pub map_pages: u32,
    /// Bytes of a sector, 512 to the page size; 0 stands for the page, or for the largest sector that the file system can use.
    pub sector_size: u32,
    /// Whether a log block that holds the first pages of its block in order is completed with the rest instead of merged.
    pub partial_merge: bool,
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
            trace_block: None,
        }
    }
}

/// Options of FAST.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FastSpec {
    /// Bytes of a sector; 0 stands for a page, or what the file system on top can have.
    pub sector_size: u32,
    /// Log blocks, the one for sequential writes included.
    pub log_blocks: u32,
    /// Pages of the map that each merge writes.
    pub map_pages: u32,
}

impl Default for FastSpec {
    fn default() -> Self {
        Self { sector_size: 0, log_blocks: 8, map_pages: 1 }
    }
}

impl FtlSpec {
    /// The names of all kinds.
    pub const KINDS: &'static [&'static str] = &["block-map", "fast", "none"];

    /// The layer of this kind with its defaults.
    pub fn kind(name: &str) -> Result<Self, String> {
        Self::from_table(Table::from_iter([("kind".to_string(), name.into())]))
    }

    fn from_table(mut table: Table) -> Result<Self, String> {
        let kind: String = take(&mut table, "kind")?.unwrap_or_else(|| "block-map".to_string());
        let wrong = |error: toml::de::Error| format!("in {kind}: {}", suggest::explain(error.message()));
        let spec = match kind.as_str() {
            "block-map" => Self::BlockMap(table.try_into().map_err(wrong)?),
            "fast" => Self::Fast(table.try_into().map_err(wrong)?),
            "none" => match table.keys().next() {
                None => Self::None,
                Some(key) => return Err(format!("unknown key \"{key}\": no translation layer has no options")),
            },
            other => return Err(suggest::unknown("translation layer", other, Self::KINDS)),
        };
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), String> {
        let (log_blocks, least, map_pages) = match self {
            Self::None => return Ok(()),
            Self::BlockMap(spec) => (spec.log_blocks, 1, spec.map_pages),
            Self::Fast(spec) => (spec.log_blocks, 2, spec.map_pages),
        };
        if !(least..=4096).contains(&log_blocks) {
            return Err(format!("log_blocks is {log_blocks}; expected {least} to 4096"));
        }
        if map_pages > 64 {
            return Err(format!("map_pages is {map_pages}; expected 0 to 64"));
        }
        Ok(())
    }

    /// In few words, for people; the parts joined by ` | `.
    pub fn title(&self) -> String {
        match self {
            Self::None => "no translation layer".to_string(),
            Self::BlockMap(spec) => {
                let standard = BlockMapSpec { log_blocks: spec.log_blocks, policy: spec.policy, ..Default::default() };
                let mut title = format!("block-map | {}", spec.policy.name());
                if matches!(spec.policy, PolicyName::Limit | PolicyName::Macroscopic) && spec.limit > 0 {
                    title += &format!(" | limit {}", spec.limit);
                }
                if spec.policy == PolicyName::Macroscopic && spec.alpha != standard.alpha {
                    title += " | alpha by regression";
                }
                if spec.partial_merge {
                    title += " | partial merge";
                }
                if spec.map_pages != standard.map_pages {
                    title += &format!(" | {} map pages", spec.map_pages);
                }
                if spec.sector_size > 0 {
                    title += &format!(" | sectors of {}", spec.sector_size);
                }
                format!("{title} | {} log blocks", spec.log_blocks)
            }
            Self::Fast(spec) => format!("fast | {} log blocks", spec.log_blocks),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FtlSpec, String> {
        FtlSpec::from_table(toml::from_str(text).unwrap())
    }

    #[test]
    fn kinds_have_their_own_options() {
        assert_eq!(read("").unwrap(), FtlSpec::default());
        let FtlSpec::BlockMap(spec) = read("policy = 'limit'\nlimit = 5\nlog_blocks = 4").unwrap() else { panic!() };
        assert_eq!((spec.policy, spec.limit, spec.log_blocks), (PolicyName::Limit, 5, 4));
        assert!(matches!(read("kind = 'fast'").unwrap(), FtlSpec::Fast(_)));
    }

    #[test]
    fn wrong_layers_are_refused_with_what_would_be_right() {
        for (text, expected) in [
            ("kind = 'blockmap'", "did you mean \"block-map\""),
            ("polcy = 'limit'", "did you mean `policy`"),
            ("policy = 'macro'", "did you mean `macroscopic`"),
            ("kind = 'fast'\npolicy = 'merge'", "in fast: unknown field `policy`"),
            ("log_blocks = 0", "log_blocks is 0; expected 1 to 4096"),
            ("kind = 'fast'\nlog_blocks = 1", "expected 2 to 4096"),
            ("kind = 'none'\nlog_blocks = 1", "log_blocks"),
            ("log_blocks = 'x'", "invalid type"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_resolved_layer_reads_as_itself() {
        for kind in FtlSpec::KINDS {
            let spec = FtlSpec::kind(kind).unwrap();
            let line = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<FtlSpec>(&line).unwrap(), spec, "{line}");
        }
        for policy in PolicyName::ALL {
            assert_eq!(serde_json::to_string(&policy).unwrap(), format!("\"{}\"", policy.name()));
        }
    }
}
