//! Options of UBIFS in a stack.

use nandkit_cleaning::victim::VictimPolicy;
use nandkit_codec::compression::Compression;
use nandkit_units::format_bytes;
use serde::{Deserialize, Serialize};

use crate::SpecError;

/// Compression of UBIFS's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompressionName {
    /// No compression. The default, since comparisons are about the flash and not about how well
    /// the content of workloads compresses.
    #[default]
    None,
    /// LZO: the default of mkfs.ubifs.
    Lzo,
    /// zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// Options of UBIFS, and of the UBI below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UbifsSpec {
    /// Compression of data.
    pub compression: CompressionName,
    /// Which LEB is collected next: a victim policy by name, with its options: `ubifs-linux`,
    /// `cost-benefit`.
    #[serde(deserialize_with = "crate::named::victim")]
    pub victim: String,
    /// The most bytes of the journal; 0: an eighth of the volume, 8 MiB at most, as mkfs.ubifs has
    /// it.
    #[serde(deserialize_with = "crate::named::size")]
    pub journal_size: u64,
    /// Children per index node.
    pub fanout: u32,
    /// Bytes of a page that UBI programs apart for its headers; 0: what the chip can program apart,
    /// if it allows two programs per page, otherwise whole pages.
    pub sub_pages: u32,
    /// Difference of erase counters at which UBI moves content that seldom changes.
    pub wear_threshold: u32,
    /// The name of the UBI volume.
    pub volume: String,
}

impl Default for UbifsSpec {
    fn default() -> Self {
        Self {
            compression: CompressionName::None,
            victim: "ubifs-linux".to_string(),
            journal_size: 0,
            fanout: 8,
            sub_pages: 0,
            wear_threshold: 4096,
            volume: "data".to_string(),
        }
    }
}

impl UbifsSpec {
    /// The compression of data.
    pub(super) const fn compression(&self) -> Compression {
        match self.compression {
            CompressionName::None => Compression::None,
            CompressionName::Lzo => Compression::Lzo,
            CompressionName::Zlib => Compression::Zlib,
            CompressionName::Zstd => Compression::Zstd,
        }
    }

    /// The victim policy of the collector.
    pub(super) fn policy(&self) -> Result<VictimPolicy, SpecError> {
        let policy: VictimPolicy = self.victim.parse().map_err(|error| SpecError::form(format!("victim: {error}")))?;
        if policy.rule.needs_lists() {
            let detail = format!(
                "victim: {} takes the head of a list of blocks, which UBIFS does not keep; expected another policy, such as ubifs-linux or cost-benefit",
                self.victim
            );
            return Err(SpecError::conflict(detail));
        }
        Ok(policy)
    }

    /// Refuses values that no chip allows.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        self.policy()?;
        if !(3..=1024).contains(&self.fanout) {
            return Err(SpecError::range(format!("fanout is {}; expected 3 to 1024", self.fanout)));
        }
        if !(2..=65_536).contains(&self.wear_threshold) {
            let detail = format!("wear_threshold is {}; expected 2 to 65536", self.wear_threshold);
            return Err(SpecError::range(detail));
        }
        if self.sub_pages != 0 && !(self.sub_pages.is_power_of_two() && self.sub_pages >= 64) {
            let detail = format!("sub_pages is {}; expected 0, or a power of two from 64 bytes on", self.sub_pages);
            return Err(SpecError::range(detail));
        }
        let name = self.volume.as_bytes();
        if !(1..=nandkit_ubi::layout::NAME_MAX).contains(&name.len()) || name.contains(&0) {
            let detail = format!("volume is '{}'; expected 1 to 127 bytes without zeroes", self.volume.escape_debug());
            return Err(SpecError::range(detail));
        }
        Ok(())
    }

    /// The options that differ from the defaults, in few words.
    pub(super) fn title(&self) -> String {
        let standard = Self::default();
        let mut title = "ubifs".to_string();
        title += match self.compression {
            CompressionName::None => "",
            CompressionName::Lzo => " | lzo",
            CompressionName::Zlib => " | zlib",
            CompressionName::Zstd => " | zstd",
        };
        if self.victim != standard.victim {
            title += &format!(" | {}", self.victim);
        }
        if self.journal_size != standard.journal_size {
            title += &format!(" | journal of {}", format_bytes(self.journal_size));
        }
        if self.fanout != standard.fanout {
            title += &format!(" | fanout {}", self.fanout);
        }
        if self.sub_pages != standard.sub_pages {
            title += &format!(" | headers in {} bytes", self.sub_pages);
        }
        if self.wear_threshold != standard.wear_threshold {
            title += &format!(" | wear threshold {}", self.wear_threshold);
        }
        title
    }
}
