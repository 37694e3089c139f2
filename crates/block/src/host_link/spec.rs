//! The spec of a host interface: everything between a host and a drive's translation layer.

use serde::{Deserialize, Serialize};

/// A drive's host interface: queue depth, cost of commands, and link speed.
///
/// `command_ns` limits the commands per second; the latencies are additional time per command that
/// overlaps with other commands. Both belong to the drive: the host's own software time is not
/// included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostLinkSpec {
    /// Commands that the drive holds at once: 32 with SATA's NCQ. Further commands wait in the host
    /// until one has completed.
    pub queue_depth: u32,
    /// Controller time per command, one command at a time.
    pub command_ns: u64,
    /// Additional latency of a read, before the flash is accessed.
    pub read_latency_ns: u64,
    /// Additional latency of a write, after its bytes have arrived.
    pub write_latency_ns: u64,
    /// Time per byte on the link, in picoseconds: 1667 for SATA's 600 MB/s. 0 means no limit.
    pub link_ps_per_byte: u64,
    /// Whether both directions of the link work at once, as on PCI Express; otherwise bytes go one
    /// way at a time, as on SATA.
    pub full_duplex: bool,
}

impl Default for HostLinkSpec {
    /// An interface that takes no time, with SATA's queue depth.
    fn default() -> Self {
        Self {
            queue_depth: 32,
            command_ns: 0,
            read_latency_ns: 0,
            write_latency_ns: 0,
            link_ps_per_byte: 0,
            full_duplex: false,
        }
    }
}

/// Deeper than any queue of NVMe.
const QUEUE_MAX: u32 = 65_536;
/// Longest time (one second): larger values are typing errors.
const LONGEST_NS: u64 = 1_000_000_000;
/// Longest time per byte: a millisecond.
const LONGEST_PS: u64 = 1_000_000_000;

impl HostLinkSpec {
    /// Refuses impossible figures. Errors: a sentence with the key, its value, and what was
    /// expected.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=QUEUE_MAX).contains(&self.queue_depth) {
            return Err(format!("queue_depth is {}; expected 1 to {QUEUE_MAX}", self.queue_depth));
        }
        for (key, time_ns) in [
            ("command_ns", self.command_ns),
            ("read_latency_ns", self.read_latency_ns),
            ("write_latency_ns", self.write_latency_ns),
        ] {
            if time_ns > LONGEST_NS {
                return Err(format!("{key} is {time_ns}; expected at most a second ({LONGEST_NS})"));
            }
        }
        if self.link_ps_per_byte > LONGEST_PS {
            let found = self.link_ps_per_byte;
            return Err(format!("link_ps_per_byte is {found}; expected at most a millisecond a byte ({LONGEST_PS})"));
        }
        Ok(())
    }

    /// The transfer time of this many bytes, rounded up to whole nanoseconds.
    pub(super) fn transfer_ns(&self, bytes: u64) -> u64 {
        let time_ps = u128::from(bytes) * u128::from(self.link_ps_per_byte);
        u64::try_from(time_ps.div_ceil(1000)).unwrap_or(u64::MAX)
    }
}
