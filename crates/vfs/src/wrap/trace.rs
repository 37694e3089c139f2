//! Writes down every call.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::{Call, Hook, Method, Outcome};
use crate::{ErrorKind, InodeNumber};

/// One call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// The method.
    pub method: Method,
    /// The inode, or the directory of the (first) name.
    pub inode: InodeNumber,
    /// The (first) name.
    pub name: Vec<u8>,
    /// The offset or cookie.
    pub offset: u64,
    /// The bytes asked for or handed over.
    pub length: u64,
    /// The bytes that were read or written, or the error.
    pub outcome: Result<u64, ErrorKind>,
}

/// Keeps the last calls, at most a fixed number.
#[derive(Debug)]
pub struct Trace {
    records_max: usize,
    records: Mutex<VecDeque<TraceRecord>>,
}

impl Trace {
    /// Keeps at most `records_max` calls; older ones are dropped.
    pub fn new(records_max: usize) -> Self {
        Self { records_max, records: Mutex::default() }
    }

    /// The calls kept, oldest first; the trace is empty afterwards.
    pub fn take(&self) -> Vec<TraceRecord> {
        std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

impl Hook for Trace {
    fn after(&self, call: &Call<'_>, outcome: Result<Outcome, ErrorKind>) {
        let Call { method, inode, name, offset, length, .. } = *call;
        let outcome = outcome.map(|done| done.bytes);
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push_back(TraceRecord { method, inode, name: name.to_vec(), offset, length, outcome });
        while records.len() > self.records_max {
            records.pop_front();
        }
    }
}
