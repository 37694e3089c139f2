//! The host of a stack: its file cache, the same for every file system.

use nandkit_units::{Nanos, format_bytes};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::SpecError;
use crate::named::whole;

/// The host's cache and its cost per request. Without it, a file system has the cache of its own
/// options.
///
/// It replaces those options: FAT's sector cache (with data, written back) and F2FS's pages. UBIFS
/// keeps dirty pages by it, and no clean ones. JFFS2 writes through, as in Linux, and takes only
/// `sync_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Cache for clean data in bytes; in a spec also a text such as "4M".
    #[serde(deserialize_with = "crate::named::size")]
    pub cache: u64,
    /// Largest amount of dirty data in bytes; beyond it, data are written.
    #[serde(deserialize_with = "crate::named::size")]
    pub dirty: u64,
    /// Simulated milliseconds after a change until a sync makes everything durable; 0 for never.
    pub sync_ms: u64,
    /// Nanoseconds of processor time per request to a block device, whatever its size; 0: none, as
    /// on bare flash.
    #[serde(skip_serializing_if = "is_free")]
    pub request_ns: u64,
}

/// Largest accepted `request_ns`: 10 ms, more than any host needs.
const REQUEST_NS_MAX: u64 = 10_000_000;

/// Whether requests cost nothing; records then leave the field out.
fn is_free(request_ns: &u64) -> bool {
    *request_ns == 0
}

impl Default for HostSpec {
    fn default() -> Self {
        Self { cache: 4 << 20, dirty: 1 << 20, sync_ms: 5_000, request_ns: 0 }
    }
}

impl HostSpec {
    /// Parses options such as `cache=4M,dirty=1M,sync_ms=5000`, or `default`; missing options have
    /// their defaults.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut table = Table::new();
        for part in text.split(',').filter(|part| !part.is_empty() && text != "default") {
            let Some((key, value)) = part.split_once('=') else {
                return Err(SpecError::range(format!(
                    "\"{part}\"; expected none, default, or cache=BYTES,dirty=BYTES,sync_ms=N,request_ns=N"
                )));
            };
            let value = value.parse().map_or_else(|_| Value::String(value.to_string()), Value::Integer);
            table.insert(key.trim().to_string(), value);
        }
        let host: Self = whole(table)?;
        host.check()?;
        Ok(host)
    }

    /// A description in sentences.
    pub fn told(&self) -> String {
        let sync = match self.sync_ms {
            0 => "There is no periodic sync.".to_string(),
            ms => format!("A sync makes everything durable {ms} ms after a change, and at the end of each phase."),
        };
        let request = match self.request_ns {
            0 => String::new(),
            ns => format!(" Each request to a block device costs {ns} ns of its processor."),
        };
        format!(
            "The host: {} of memory cache what was read or written; up to {} of it may be dirty (jffs2 writes at once, as in Linux). {sync}{request}",
            format_bytes(self.cache),
            format_bytes(self.dirty)
        )
    }

    /// Time after a change until everything is durable; `None` for never.
    pub fn sync_after(&self) -> Option<Nanos> {
        (self.sync_ms > 0).then(|| Nanos::from_millis(self.sync_ms))
    }

    /// The number of units of `size` bytes that hold `bytes`; at least one.
    pub(crate) fn units(bytes: u64, size: u32) -> usize {
        usize::try_from(bytes / u64::from(size.max(1))).unwrap_or(usize::MAX).max(1)
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.request_ns > REQUEST_NS_MAX {
            let detail = format!("request_ns is {}; expected up to {REQUEST_NS_MAX}", self.request_ns);
            return Err(SpecError::range(detail));
        }
        for (name, bytes) in [("cache", self.cache), ("dirty", self.dirty)] {
            if !(256 << 10..=64 << 30).contains(&bytes) {
                return Err(SpecError::range(format!("{name} is {}; expected 256 KiB to 64 GiB", format_bytes(bytes))));
            }
        }
        Ok(())
    }

    /// In few words, for people.
    pub fn title(&self) -> String {
        let sync = if self.sync_ms > 0 { format!(", a sync after {} ms", self.sync_ms) } else { String::new() };
        let request = if self.request_ns > 0 { format!(", {} ns a request", self.request_ns) } else { String::new() };
        format!("host of {}, {} dirty{sync}{request}", format_bytes(self.cache), format_bytes(self.dirty))
    }
}
