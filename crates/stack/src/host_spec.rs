//! The host of a stack: what its memory does for files, alike for every file system.

use nandkit_units::{Nanos, format_bytes};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::SpecError;
use crate::named::whole;

/// The memory of the host. Without it, a file system has the memory that its own options say.
///
/// It stands in for those options: FAT's sector cache, with data and written back; F2FS's pages. JFFS2 writes through, as Linux's does: it gets the rule of time alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Bytes of clean content that are kept. In a spec also as "4M".
    #[serde(deserialize_with = "crate::named::size")]
    pub cache: u64,
    /// Bytes that wait to be written, beyond which some are.
    #[serde(deserialize_with = "crate::named::size")]
    pub dirty: u64,
    /// In simulated milliseconds: so long after a change everything is made durable by a sync; 0 for never.
    pub sync_ms: u64,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self { cache: 4 << 20, dirty: 1 << 20, sync_ms: 5_000 }
    }
}

impl HostSpec {
    /// Reads options as `cache=4M,dirty=1M,sync_ms=5000`, or `default`; what is left out is the default. Errors: a sentence.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut table = Table::new();
        for part in text.split(',').filter(|part| !part.is_empty() && text != "default") {
            let Some((key, value)) = part.split_once('=') else {
                return Err(SpecError::range(format!(
                    "\"{part}\"; expected none, default, or cache=BYTES,dirty=BYTES,sync_ms=N"
                )));
            };
            let value = value.parse().map_or_else(|_| Value::String(value.to_string()), Value::Integer);
            table.insert(key.trim().to_string(), value);
        }
        let host: Self = whole(table)?;
        host.check()?;
        Ok(host)
    }

    /// What it does, in sentences for people.
    pub fn told(&self) -> String {
        let sync = match self.sync_ms {
            0 => "Nothing is synced before a phase ends.".to_string(),
            ms => format!("A sync makes everything durable {ms} ms after a change, and at the end of each phase."),
        };
        format!(
            "One host for all: {} of its memory hold what was read or written, of which {} may wait to be written (jffs2 writes at once, as in Linux). {sync}",
            format_bytes(self.cache),
            format_bytes(self.dirty)
        )
    }

    /// How long after a change everything is durable; `None` for never.
    pub fn sync_after(&self) -> Option<Nanos> {
        (self.sync_ms > 0).then(|| Nanos::from_millis(self.sync_ms))
    }

    /// So many units of `size` bytes hold `bytes`, at least one.
    pub(crate) fn units(bytes: u64, size: u32) -> usize {
        usize::try_from(bytes / u64::from(size.max(1))).unwrap_or(usize::MAX).max(1)
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        for (name, bytes) in [("cache", self.cache), ("dirty", self.dirty)] {
            if !(256 << 10..=64 << 30).contains(&bytes) {
                return Err(SpecError::range(format!("{name} is {}; expected 256 KiB to 64 GiB", format_bytes(bytes))));
            }
        }
        Ok(())
    }

    /// In few words, for people.
    pub(crate) fn title(&self) -> String {
        let sync = if self.sync_ms > 0 { format!(", a sync after {} ms", self.sync_ms) } else { String::new() };
        format!("host of {}, {} dirty{sync}", format_bytes(self.cache), format_bytes(self.dirty))
    }
}
