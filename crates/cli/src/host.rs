//! Clock and memory of the host, for the `host_*` fields of records and for estimates of the time
//! left.

use std::path::Path;
use std::time::Instant;

use nandkit_lab::HostMeter;

/// This process on this machine.
pub struct Host {
    started: Instant,
}

impl Host {
    /// Starts the clock.
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }
}

impl HostMeter for Host {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Peak memory: `VmHWM` of /proc/self/status (proc_pid_status(5)), which is in KiB; 0 on
    /// systems without it.
    fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0).saturating_mul(1024)
    }
}

/// A string that identifies the running build: length and CRC-32 of its file. `None` if the file
/// cannot be read.
pub fn program() -> Option<String> {
    // If the file was replaced meanwhile, its path leads to another program; /proc/self/exe is
    // still the running one.
    let running = Path::new("/proc/self/exe");
    let path = if running.exists() { running.to_path_buf() } else { std::env::current_exe().ok()? };
    let bytes = std::fs::read(path).ok()?;
    Some(format!("{}-{:08x}", bytes.len(), crc32fast::hash(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_a_word_that_stays() {
        let word = program().unwrap();
        assert!(!word.contains(char::is_whitespace) && program() == Some(word));
    }

    #[test]
    fn this_process_takes_time_and_memory() {
        let host = Host::start();
        let first = host.now_ns();
        assert!(host.now_ns() >= first);
        if cfg!(target_os = "linux") {
            assert!(host.peak_bytes() > 1 << 20);
        }
    }
}
