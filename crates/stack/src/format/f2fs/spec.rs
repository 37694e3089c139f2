//! Options of F2FS in a stack.

use nandkit_cleaning::search;
use nandkit_cleaning::victim::VictimPolicy;
use serde::{Deserialize, Deserializer, Serialize};

use super::reuse::Reuse;
use crate::SpecError;
use crate::named::current_victim;

/// How logs allocate blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum F2fsModeName {
    /// Empty segments while there are enough, then gaps in used segments (SSR) and writes in place.
    /// Linux's default.
    #[default]
    Adaptive,
    /// Only empty segments, which the collector frees.
    Lfs,
}

/// How collection moves blocks of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoverName {
    /// Reads and writes the blocks, in the order of their addresses, as in Linux.
    #[default]
    Copy,
    /// The device remaps the blocks, in the order of their addresses.
    Remap,
    /// The device remaps the blocks, in the order of files and their pages.
    RemapSorted,
}

impl MoverName {
    /// The name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Remap => "remap",
            Self::RemapSorted => "remap-sorted",
        }
    }
}

/// Largest number of pages gathered per checkpoint: 64 GiB.
const GATHER_MOST: u32 = 1 << 24;

/// The version of F2FS rules that Linux has changed over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RulesName {
    /// The rules of current Linux.
    #[default]
    #[serde(rename = "linux")]
    Linux,
    /// The rules of the first F2FS, on which P1 is based: logs fill only gaps in segments of their
    /// own type while there is space, and files with cold extensions are not overwritten in place.
    #[serde(rename = "linux-3.8")]
    Linux38,
}

/// Options of F2FS, named as in Linux (mount options, `/sys/fs/f2fs`) if Linux has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct F2fsSpec {
    /// How logs allocate blocks (`mode=`).
    pub mode: F2fsModeName,
    /// Number of active logs: 2, 4 or 6 (`active_logs=`).
    pub active_logs: u32,
    /// When blocks are overwritten in place: a sum of Linux's bits, or -1 for Linux's choice by the
    /// volume's size.
    pub ipu_policy: i32,
    /// Which section is collected next: `f2fs-search` (Linux's: greedy if a request waits,
    /// cost-benefit in idle times), or a victim policy by name with its options: `cat`,
    /// `d-choices:d=5`.
    #[serde(alias = "collector", deserialize_with = "victim")]
    pub victim: String,
    /// The victim policy for collection in idle times; empty for the policy of `victim`.
    #[serde(alias = "background_collector", deserialize_with = "victim")]
    pub background_victim: String,
    /// What happens to a used segment before its gaps are filled (SSR): `ssr` (nothing), `pgc`
    /// (P1's partial collection), `pgc-optimal`, `gc` (all its blocks move first), `hole-plugging`
    /// (they fill gaps); these four take `:segments=N` for the number of segments per checkpoint,
    /// `curve=unit` for the times within an open unit of a card, and `curve=learned` for times
    /// measured by the volume. `zoned`: gaps are never filled. `atgc`: Linux's age-threshold
    /// collection, which moves blocks into gaps of segments of similar age. `unified`: for each
    /// run, the one of all these methods and remapping that is predicted to take the least time by
    /// the device's figures; also for collected blocks.
    pub reuse: String,
    /// A card file with the device's request times, for `reuse`; empty for the card of the stack.
    pub reuse_curve: String,
    /// How collection moves blocks of data: `copy` (Linux), `remap` (the device points their new
    /// addresses at the old pages), `remap-sorted` (P3: in the order of files and their pages).
    /// Needs a device that remaps.
    pub mover: MoverName,
    /// Pages of the most-read files that are gathered in idle times between two checkpoints, by
    /// remapping or, if that is faster, by copying; 0: none.
    pub gather: u32,
    /// The version of the rules.
    pub rules: RulesName,
    /// Overprovisioning in per cent; 0 for the value that leaves the most space to users, as
    /// mkfs.f2fs chooses.
    pub overprovision: f64,
    /// Segments per section.
    pub segments_per_section: u32,
    /// Features by their names in mkfs.f2fs, separated by commas.
    pub features: String,
    /// Whether freed blocks are discarded after each checkpoint (`discard`).
    pub discard: bool,
    /// Whether an fsync makes a checkpoint if names in its directory are not durable
    /// (`fsync_mode=strict`).
    pub strict_fsync: bool,
    /// Dirty pages of files and directories in memory before some are written back.
    pub dirty_pages: u32,
    /// Clean pages kept in memory.
    pub clean_pages: u32,
}

impl Default for F2fsSpec {
    fn default() -> Self {
        Self {
            mode: F2fsModeName::Adaptive,
            active_logs: 6,
            ipu_policy: -1,
            victim: search::NAME.to_string(),
            background_victim: String::new(),
            reuse: "ssr".to_string(),
            reuse_curve: String::new(),
            mover: MoverName::Copy,
            gather: 0,
            rules: RulesName::Linux,
            overprovision: 0.0,
            segments_per_section: 1,
            features: String::new(),
            discard: true,
            strict_fsync: false,
            dirty_pages: 16_384,
            clean_pages: 16_384,
        }
    }
}

/// Reads the name of a victim policy. The old name `linux` meant F2FS's search here, and JFFS2's
/// policy elsewhere.
fn victim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    Ok(if name == "linux" { search::NAME.to_owned() } else { current_victim(&name) })
}

impl F2fsSpec {
    /// The victim policies for collection with a waiting operation and in idle times; `None` for
    /// Linux's own search.
    pub fn policies(&self) -> Result<[Option<VictimPolicy>; 2], SpecError> {
        let named = |key: &str, name: &str| match name {
            search::NAME => Ok(None),
            name => name
                .parse()
                .map(Some)
                .map_err(|error| SpecError::unknown(format!("{key}: {error}; or {}", search::NAME))),
        };
        let foreground = named("victim", &self.victim)?;
        match self.background_victim.as_str() {
            "" => Ok([foreground; 2]),
            name => Ok([foreground, named("background_victim", name)?]),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        self.policies()?;
        let reuse = Reuse::parse(&self.reuse)?;
        if self.mode == F2fsModeName::Lfs {
            reuse.check_lfs()?;
        }
        if self.mover != MoverName::Copy && reuse.way.weighs_all {
            let detail = format!(
                "mover is {}, but reuse = \"unified\" chooses how blocks move; expected mover = \"copy\", or another reuse",
                self.mover.name()
            );
            return Err(SpecError::conflict(detail));
        }
        if self.gather > GATHER_MOST {
            return Err(SpecError::range(format!("gather is {}; expected 0 to {GATHER_MOST} pages", self.gather)));
        }
        if nandkit_f2fs::write::ActiveLogs::of(self.active_logs).is_none() {
            return Err(SpecError::range(format!("active_logs is {}; expected 2, 4 or 6", self.active_logs)));
        }
        if !(-1..=255).contains(&self.ipu_policy) {
            return Err(SpecError::range(format!(
                "ipu_policy is {}; expected -1, or a sum of bits up to 255",
                self.ipu_policy
            )));
        }
        if !(0.0..=50.0).contains(&self.overprovision) {
            return Err(SpecError::range(format!(
                "overprovision is {}; expected 0 to 50 per cent",
                self.overprovision
            )));
        }
        if !(1..=1024).contains(&self.segments_per_section) {
            return Err(SpecError::range(format!(
                "segments_per_section is {}; expected 1 to 1024",
                self.segments_per_section
            )));
        }
        for (name, pages) in [("dirty_pages", self.dirty_pages), ("clean_pages", self.clean_pages)] {
            if !(64..=1 << 24).contains(&pages) {
                return Err(SpecError::range(format!("{name} is {pages}; expected 64 to {}", 1 << 24)));
            }
        }
        nandkit_f2fs::mkfs::features_named(&self.features)
            .map(drop)
            .map_err(|error| SpecError::form(format!("features: {}", error.detail)))
    }

    pub(crate) fn title(&self) -> String {
        let standard = Self::default();
        let mut title = format!("f2fs | {}", self.victim);
        if !self.background_victim.is_empty() && self.background_victim != self.victim {
            title += &format!(", {} when idle", self.background_victim);
        }
        if self.reuse != standard.reuse {
            title += &format!(" | {}", self.reuse);
        }
        if self.mover != MoverName::Copy {
            title += &format!(" | {}", self.mover.name());
        }
        if self.gather > 0 {
            title += &format!(" | gathers {} pages", self.gather);
        }
        if self.rules == RulesName::Linux38 {
            title += " | linux-3.8";
        }
        if self.mode == F2fsModeName::Lfs {
            title += " | mode=lfs";
        }
        if self.active_logs != standard.active_logs {
            title += &format!(" | {} logs", self.active_logs);
        }
        if self.ipu_policy != standard.ipu_policy {
            title += &format!(" | ipu_policy={}", self.ipu_policy);
        }
        if self.overprovision > 0.0 {
            title += &format!(" | spare {} %", self.overprovision);
        }
        if self.segments_per_section > 1 {
            title += &format!(" | sections of {} segments", self.segments_per_section);
        }
        if !self.features.is_empty() {
            title += &format!(" | {}", self.features);
        }
        if !self.discard {
            title += " | no discards";
        }
        if self.strict_fsync {
            title += " | fsync_mode=strict";
        }
        if (self.dirty_pages, self.clean_pages) != (standard.dirty_pages, standard.clean_pages) {
            title += &format!(" | {} dirty and {} clean pages", self.dirty_pages, self.clean_pages);
        }
        title
    }
}
