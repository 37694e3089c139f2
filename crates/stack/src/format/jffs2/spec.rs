//! Options of JFFS2 in a stack.

use crate::SpecError;
use nandkit_cleaning::separation::Separation;
use nandkit_cleaning::victim::VictimPolicy;
use serde::{Deserialize, Serialize};

/// Compression modes of JFFS2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompressionName {
    /// No compression. The default, since comparisons are about the flash and not about how well
    /// the content of workloads compresses.
    #[default]
    None,
    /// The first of LZO, zlib and rtime that makes the data shorter: Linux's default.
    Priority,
    /// The one of LZO, zlib and rtime with the shortest result.
    Size,
    /// Always zlib.
    Zlib,
    /// Always LZO.
    Lzo,
    /// Always rtime.
    Rtime,
}

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndianName {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// Source of the random numbers of a victim policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawsName {
    /// The clock for `jffs2-lists`, a seeded stream for all others.
    #[default]
    Auto,
    /// The ticks of the clock, as in Linux.
    Ticks,
    /// A seeded stream.
    Independent,
}

/// Options of JFFS2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jffs2Spec {
    /// Compression of data.
    pub compression: CompressionName,
    /// Which block is collected next: a victim policy by name, with its options: `jffs2-lists`,
    /// `cat:open-clean=yes`.
    #[serde(alias = "collector", deserialize_with = "crate::named::victim")]
    pub victim: String,
    /// Source of the collector's random numbers.
    pub draws: DrawsName,
    /// Length of a tick in simulated milliseconds; 4 in Debian's Linux.
    pub tick_ms: u64,
    /// How data are divided among several open blocks: a separation by name, with its options:
    /// `none`, `dac:regions=3`.
    pub separation: String,
    /// Whether full blocks end with a summary.
    pub summaries: bool,
    /// Shortest time between two passes of the background collector in simulated milliseconds, 50
    /// in Linux; 0 disables it.
    pub background_ms: u64,
    /// Byte order of numbers.
    pub endian: EndianName,
}

impl Default for Jffs2Spec {
    fn default() -> Self {
        Self {
            compression: CompressionName::None,
            victim: "jffs2-lists".to_string(),
            draws: DrawsName::Auto,
            tick_ms: 4,
            separation: "none".to_string(),
            summaries: true,
            background_ms: 50,
            endian: EndianName::Little,
        }
    }
}

impl Jffs2Spec {
    /// The victim policy of the collector.
    pub fn policy(&self) -> Result<VictimPolicy, SpecError> {
        self.victim.parse().map_err(|error| SpecError::form(format!("victim: {error}")))
    }

    /// The separation of data.
    pub fn separation(&self) -> Result<Separation, SpecError> {
        self.separation.parse().map_err(|error| SpecError::form(format!("separation: {error}")))
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        self.policy()?;
        self.separation()?;
        if self.background_ms > 3_600_000 {
            return Err(SpecError::range(format!("background_ms is {}; expected 0 to 3600000", self.background_ms)));
        }
        if !(1..=10_000).contains(&self.tick_ms) {
            return Err(SpecError::range(format!("tick_ms is {}; expected 1 to 10000", self.tick_ms)));
        }
        Ok(())
    }

    pub(crate) fn title(&self) -> String {
        let standard = Self::default();
        let mut title = format!("jffs2 | {}", self.victim);
        if self.separation != standard.separation {
            title += &format!(" | {}", self.separation);
        }
        match self.draws {
            DrawsName::Auto => {}
            DrawsName::Ticks => title += " | draws by ticks",
            DrawsName::Independent => title += " | independent draws",
        }
        if self.tick_ms != standard.tick_ms {
            title += &format!(" | ticks of {} ms", self.tick_ms);
        }
        match self.compression {
            CompressionName::None => {}
            CompressionName::Priority => title += " | compressed",
            CompressionName::Size => title += " | compressed for size",
            CompressionName::Zlib => title += " | zlib",
            CompressionName::Lzo => title += " | lzo",
            CompressionName::Rtime => title += " | rtime",
        }
        if !self.summaries {
            title += " | no summaries";
        }
        if self.background_ms != standard.background_ms {
            title += &format!(" | background every {} ms", self.background_ms);
        }
        if self.endian == EndianName::Big {
            title += " | big-endian";
        }
        title
    }
}
