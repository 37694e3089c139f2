//! The figures of one phase of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A number per cause, by the cause's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByCause(pub BTreeMap<String, u64>);

impl ByCause {
    /// The number of one cause; 0 where it did not occur.
    pub fn get(&self, cause: &str) -> u64 {
        self.0.get(cause).copied().unwrap_or(0)
    }

    /// The sum over all causes.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, value| sum.saturating_add(*value))
    }
}

/// How evenly a phase's erases fell on the blocks of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasesPerBlock {
    /// Fewest erases of a block.
    pub min: u64,
    /// A tenth of the blocks have at most this many.
    pub p10: u64,
    /// Half of the blocks have at most this many.
    pub p50: u64,
    /// Nine tenths of the blocks have at most this many.
    pub p90: u64,
    /// Most erases of a block.
    pub max: u64,
    /// Blocks without an erase.
    pub never: u64,
}

impl ErasesPerBlock {
    /// From each block's number of erases. Percentiles are by nearest rank.
    pub fn of(mut erases: Vec<u64>) -> Self {
        erases.sort_unstable();
        let never = erases.iter().take_while(|count| **count == 0).count() as u64;
        let at_rank = |percent: usize| {
            let rank = (erases.len() * percent).div_ceil(100).max(1);
            erases.get(rank - 1).copied().unwrap_or(0)
        };
        Self { min: at_rank(0), p10: at_rank(10), p50: at_rank(50), p90: at_rank(90), max: at_rank(100), never }
    }
}

/// How long the operations of one kind took, in simulated nanoseconds. Percentiles carry at least
/// three significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of operations.
    pub count: u64,
    /// Half of them took at most this.
    pub p50: u64,
    /// 99 % of operations took at most this.
    pub p99: u64,
    /// 99.9 % of operations took at most this.
    pub p999: u64,
    /// The slowest operation took this.
    pub max: u64,
}

/// A value that a layer counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LayerValue {
    /// How often something happened in the phase.
    Count(u64),
    /// A value at the end of the phase.
    Level(f64),
    /// A distribution of what happened in the phase, or a value of each event since the stack was
    /// started.
    Series(Vec<f64>),
    /// A value that does not exist (a mean of nothing); JSON null.
    Absent,
}

impl LayerValue {
    /// A level; a value that is not a number becomes [`LayerValue::Absent`], because JSON cannot
    /// hold it.
    pub fn level(value: f64) -> Self {
        if value.is_finite() { Self::Level(value) } else { Self::Absent }
    }

    /// A series; elements that are not numbers become 0.
    pub fn series(values: Vec<f64>) -> Self {
        Self::Series(values.into_iter().map(|value| if value.is_finite() { value } else { 0.0 }).collect())
    }

    /// The number, where it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Level(level) => Some(*level),
            Self::Series(_) | Self::Absent => None,
        }
    }
}

/// The values that the layers counted, by layer, then by name.
pub type Layers = BTreeMap<String, BTreeMap<String, LayerValue>>;

/// The figures of one phase. Definitions: [`crate::METRICS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes that the workload wrote.
    pub user_bytes_written: u64,
    /// Bytes that the workload read.
    pub user_bytes_read: u64,
    /// Bytes programmed into flash pages, copies included, OOB not.
    pub bytes_programmed: u64,
    /// Bytes programmed into flash pages, by cause.
    pub bytes_programmed_by_cause: ByCause,
    /// Bytes programmed into flash pages, by area: `main` for files and directories, `metadata` for
    /// areas that hold nothing but metadata at fixed addresses.
    #[serde(default)]
    pub bytes_programmed_by_area: BTreeMap<String, u64>,
    /// `bytes_programmed / user_bytes_written`; `None` if the user wrote nothing.
    pub waf: Option<f64>,
    /// Block erases.
    pub erases: u64,
    /// How the erases fell on the blocks.
    pub erases_per_block: ErasesPerBlock,
    /// Time during which flash operations kept dies and channels busy, summed over them.
    pub device_time_ns: u64,
    /// Time during which flash operations kept dies and channels busy, by cause.
    pub device_time_ns_by_cause: ByCause,
    /// Simulated time from the start of the phase to its end.
    pub elapsed_ns: u64,
    /// User bytes written per elapsed time, in 10^6 bytes per second; `None` if no time passed.
    pub write_mb_per_s: Option<f64>,
    /// User bytes read per elapsed time, in 10^6 bytes per second; `None` if no time passed.
    pub read_mb_per_s: Option<f64>,
    /// How long operations took, by kind of operation.
    pub latency_ns: BTreeMap<String, Latency>,
}

impl Figures {
    /// The bytes programmed for an area; 0 where there were none.
    pub fn area(&self, name: &str) -> u64 {
        self.bytes_programmed_by_area.get(name).copied().unwrap_or(0)
    }

    /// Fills in what follows from the counts: write amplification and rates.
    pub fn derive(&mut self) {
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        // A stack without flash counts no causes, and has no write amplification rather than none
        // at all.
        let has_flash = !self.bytes_programmed_by_cause.0.is_empty();
        self.waf = ratio(self.bytes_programmed, self.user_bytes_written).filter(|_| has_flash);
        // bytes per nanosecond are 10^9 bytes per second, that is 1000 MB/s.
        self.write_mb_per_s = ratio(self.user_bytes_written, self.elapsed_ns).map(|rate| rate * 1000.0);
        self.read_mb_per_s = ratio(self.user_bytes_read, self.elapsed_ns).map(|rate| rate * 1000.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let spread = ErasesPerBlock::of((1..=10).collect());
        assert_eq!(spread, ErasesPerBlock { min: 1, p10: 1, p50: 5, p90: 9, max: 10, never: 0 });
        let spread = ErasesPerBlock::of(vec![0, 4, 0, 0]);
        assert_eq!(spread, ErasesPerBlock { min: 0, p10: 0, p50: 0, p90: 4, max: 4, never: 3 });
        assert_eq!(ErasesPerBlock::of(vec![]), ErasesPerBlock::default());
    }

    #[test]
    fn rates_follow_from_counts() {
        let mut figures = Figures {
            user_bytes_written: 2_000_000,
            bytes_programmed: 3_000_000,
            elapsed_ns: 500_000_000,
            ..Figures::default()
        };
        figures.derive();
        assert_eq!(figures.waf, None);
        figures.bytes_programmed_by_cause.0.insert("user_data".to_string(), 3_000_000);
        figures.derive();
        assert_eq!((figures.waf, figures.write_mb_per_s, figures.read_mb_per_s), (Some(1.5), Some(4.0), Some(0.0)));
        let mut nothing = Figures::default();
        nothing.derive();
        assert_eq!((nothing.waf, nothing.write_mb_per_s), (None, None));
    }
}
