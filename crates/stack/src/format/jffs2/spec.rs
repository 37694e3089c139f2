//! Options of JFFS2 in a stack.

use crate::SpecError;
use nandkit_cleaning::separation::Separation;
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_jffs2::write::TICK_BYTES;
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
    /// From ticks for `jffs2-lists`, independent for all others.
    #[default]
    Auto,
    /// From ticks, as Linux has it.
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
    /// The bytes that are programmed in a tick: a tick holds the same work on every chip.
    pub tick_bytes: u64,
    /// The length of a tick in simulated milliseconds in place of that (4 in Debian's Linux); 0: a
    /// tick is `tick_bytes`.
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
            tick_bytes: TICK_BYTES,
            tick_ms: 0,
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
        if self.tick_ms > 10_000 {
            return Err(SpecError::range(format!("tick_ms is {}; expected 0 to 10000", self.tick_ms)));
        }
        if !(1..=1 << 30).contains(&self.tick_bytes) {
            return Err(SpecError::range(format!("tick_bytes is {}; expected 1 to {}", self.tick_bytes, 1 << 30)));
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
        } else if self.tick_bytes != standard.tick_bytes {
            title += &format!(" | ticks of {} bytes", self.tick_bytes);
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
