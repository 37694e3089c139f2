//! Finds P4's runs among records, and compares these runs.

use nandkit_record::{LayerValue, RunRecord};
use serde_json::Value;

use super::plan::{LARGE_IN_PIECES, PIECE, Setting, all_settings};

/// A record with what distinguishes it within P4.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// The workload's name; [`LARGE_IN_PIECES`] for large files in small calls.
    pub workload: &'a str,
    /// The transactions of a workload that has them, else 0.
    pub transactions: u64,
    /// The policy's name; `fast` for FAST; `macroscopic (regression)` for the other estimator.
    pub policy: &'a str,
    /// The number of migrations that LIMIT allows; 0 for its default.
    pub limit: u64,
    /// The number of log blocks.
    pub log_blocks: u64,
    /// The setting's name.
    pub setting: &'static str,
    /// The seed.
    pub seed: u64,
    /// Whether the run traced a block's recyclings.
    pub is_traced: bool,
    /// The whole record.
    pub record: &'a RunRecord,
}

/// The macroscopic policy with the regression estimator.
pub const REGRESSION: &str = "macroscopic (regression)";

/// The points that records stand for; records of anything else are left out.
pub fn read(records: &[RunRecord]) -> Vec<Point<'_>> {
    records.iter().filter_map(point).collect()
}

fn point(record: &RunRecord) -> Option<Point<'_>> {
    let at = |path: &str| record.spec.pointer(path);
    let number = |path: &str| at(path).and_then(Value::as_u64);
    let flag = |path: &str, usual: bool| at(path).and_then(Value::as_bool).unwrap_or(usual);
    let kind = at("/stack/ftl/kind")?.as_str()?;
    let regression = at("/stack/ftl/alpha").and_then(Value::as_str) == Some("regression");
    let policy = match (kind, at("/stack/ftl/policy").and_then(Value::as_str)) {
        ("block-map", Some("macroscopic")) if regression => REGRESSION,
        ("block-map", policy) => policy?,
        (kind, _) => kind,
    };
    let (fat_type, alignment) = (at("/stack/fs/fat_type")?, at("/stack/fs/alignment")?);
    let is_this = |setting: &&Setting| {
        number("/stack/ftl/sector_size") == Some(setting.sector_size.into())
            && number("/stack/fs/cache_sectors") == Some(setting.cache_sectors.into())
            && number("/stack/fs/cluster_size") == Some(setting.cluster_size.into())
            && number("/stack/device/geometry/blocks") == Some(setting.blocks.into())
            && flag("/stack/fs/write_padding", true) != setting.just_formatted
            && flag("/stack/fs/formatted_before", false) == (setting.just_formatted && !setting.is_blank)
            && serde_json::to_value(setting.fat_type).is_ok_and(|own| own == *fat_type)
            && serde_json::to_value(setting.alignment).is_ok_and(|own| own == *alignment)
    };
    let setting = all_settings().find(is_this)?;
    let workload = match at("/workload/kind")?.as_str()? {
        "postmark-large" if number("/workload/write") == Some(PIECE) => LARGE_IN_PIECES,
        kind => kind,
    };
    Some(Point {
        workload,
        transactions: number("/workload/transactions").unwrap_or(0),
        policy,
        limit: number("/stack/ftl/limit").unwrap_or(0),
        log_blocks: number("/stack/ftl/log_blocks")?,
        setting: setting.name,
        seed: record.seed,
        is_traced: at("/stack/ftl/trace_block").is_some_and(|block| !block.is_null()),
        record,
    })
}

impl Point<'_> {
    /// Simulated time that the measured phase took.
    pub fn time_ns(&self) -> f64 {
        self.record.figures.elapsed_ns as f64
    }

    /// A count of the translation layer; 0 where it has none of this name.
    pub fn count(&self, name: &str) -> f64 {
        let ftl = self.record.layers.get("ftl");
        ftl.and_then(|ftl| ftl.get(name)).and_then(LayerValue::as_f64).unwrap_or(0.0)
    }

    /// The recyclings of the traced block: pages that each migration copied; negative for a merge.
    pub fn traced(&self) -> Option<&[f64]> {
        match self.record.layers.get("ftl_trace")?.get("traced_p")? {
            LayerValue::Series(series) => Some(series),
            _ => None,
        }
    }
}

/// A figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The number of seeds.
    pub seeds: usize,
}

impl From<Spread> for f64 {
    fn from(spread: Spread) -> Self {
        spread.mean
    }
}

impl Spread {
    /// Mean, least and greatest of these values, one for each seed; `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let seeds = values.len();
        (seeds > 0).then(|| Self {
            mean: values.iter().sum::<f64>() / seeds as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            seeds,
        })
    }

    /// The spread as JSON, rounded to four decimals.
    pub fn to_json(self) -> Value {
        let round = |value: f64| (value * 1e4).round() / 1e4;
        serde_json::json!({"mean": round(self.mean), "min": round(self.min), "max": round(self.max), "seeds": self.seeds})
    }
}

/// The points of one workload in one setting with the paper's eight log blocks and no limit of
/// their own.
pub fn standard<'a, 'b>(
    points: &'b [Point<'a>],
    workload: &'b str,
    setting: &'b str,
) -> impl Iterator<Item = &'b Point<'a>> {
    points.iter().filter(move |point| {
        point.workload == workload
            && point.setting == setting
            && point.log_blocks == 8
            && point.limit == 0
            && !point.is_traced
    })
}

/// How much faster `policy` is than `base`, seed by seed: `T_base / T_policy - 1`.
pub fn gain(points: &[Point<'_>], workload: &str, setting: &str, policy: &str, base: &str) -> Option<Spread> {
    let time = |policy: &str, seed: u64| {
        standard(points, workload, setting)
            .find(|point| point.policy == policy && point.seed == seed)
            .map(Point::time_ns)
            .filter(|time| *time > 0.0)
    };
    let seeds = standard(points, workload, setting).filter(|point| point.policy == policy).map(|point| point.seed);
    Spread::of(seeds.filter_map(|seed| Some(time(base, seed)? / time(policy, seed)? - 1.0)))
}
