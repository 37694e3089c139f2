//! Counts calls and bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_units::{StatisticValue, Statistics};

use super::{Call, Hook, Method, Outcome, Wrapped};
use crate::{ErrorKind, FileSystem};

/// The counted methods, in the order of [`Method`], with the names of their counters.
const NAMES: [&str; Method::COUNT] = [
    "fs_volume_calls",
    "fs_lookup_calls",
    "fs_stat_calls",
    "fs_read_dir_calls",
    "fs_read_calls",
    "fs_data_after_calls",
    "fs_read_link_calls",
    "fs_create_calls",
    "fs_write_calls",
    "fs_set_attributes_calls",
    "fs_remove_calls",
    "fs_rename_calls",
    "fs_sync_calls",
    "fs_retain_calls",
    "fs_release_calls",
    "fs_link_calls",
    "fs_xattr_calls",
    "fs_xattr_names_calls",
    "fs_set_xattr_calls",
    "fs_remove_xattr_calls",
    "fs_allocate_calls",
    "fs_punch_hole_calls",
    "fs_extent_after_calls",
    "fs_adopt_calls",
    "fs_begin_atomic_calls",
    "fs_commit_atomic_calls",
    "fs_abort_atomic_calls",
];

/// Counts calls by method, errors, and bytes read and written.
#[derive(Debug, Default)]
pub struct Stats {
    calls: [AtomicU64; Method::COUNT],
    errors: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl Stats {
    /// How often a method was called.
    pub fn calls(&self, method: Method) -> u64 {
        self.calls.get(method as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How many calls ended with an error.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Bytes that `read` delivered.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Bytes that `write` took.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }
}

impl Hook for Stats {
    fn after(&self, call: &Call<'_>, outcome: Result<Outcome, ErrorKind>) {
        if let Some(count) = self.calls.get(call.method as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        match (outcome, call.method) {
            (Err(_), _) => self.errors.fetch_add(1, Ordering::Relaxed),
            (Ok(done), Method::Read) => self.bytes_read.fetch_add(done.bytes, Ordering::Relaxed),
            (Ok(done), Method::Write) => self.bytes_written.fetch_add(done.bytes, Ordering::Relaxed),
            _ => 0,
        };
    }
}

impl Statistics for Stats {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        for (name, count) in NAMES.iter().zip(&self.calls) {
            sink(name, StatisticValue::Count(count.load(Ordering::Relaxed)));
        }
        sink("fs_errors", StatisticValue::Count(self.errors()));
        sink("fs_bytes_read", StatisticValue::Count(self.bytes_read()));
        sink("fs_bytes_written", StatisticValue::Count(self.bytes_written()));
    }
}

impl<F: FileSystem> Statistics for Wrapped<F, Stats> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.hook().collect(sink);
    }
}
