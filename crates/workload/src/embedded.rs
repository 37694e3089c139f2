//! The common part of the three embedded workloads (Gal and Toledo, USENIX ATC 2005).
//!
//! The paper describes a fax machine, a cell phone and an event recorder. Its text could not be had
//! when this was written: the kinds of files and the sizes marked "as remembered" are from memory
//! of it, everything else is an assumption and says so. Every value can be overridden.

use crate::error::{Result, WorkloadError};
use crate::operation::{FileOperation, FileWorkload, Phase};
use crate::script::Script;

/// A workload that is a set-up followed by a number of transactions.
pub(crate) trait Transactions: Send {
    /// Makes the files that are there from the start.
    fn set_up(&mut self, script: &mut Script);

    /// The `number`th transaction, from 0.
    fn transaction(&mut self, number: u64, script: &mut Script);
}

/// Streams a set-up (the fill) and transactions (measured).
#[derive(Debug)]
pub(crate) struct TransactionFiles<T> {
    transactions: T,
    count: u64,
    done: u64,
    phase: Phase,
    script: Script,
    is_set_up: bool,
}

impl<T: Transactions> TransactionFiles<T> {
    pub(crate) fn new(transactions: T, count: u64) -> Self {
        Self { transactions, count, done: 0, phase: Phase::Fill, script: Script::default(), is_set_up: false }
    }
}

impl<T: Transactions> FileWorkload for TransactionFiles<T> {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        None
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        loop {
            if let Some(operation) = self.script.next() {
                return Ok(Some(operation));
            }
            match self.phase {
                Phase::Fill if !self.is_set_up => {
                    self.is_set_up = true;
                    self.transactions.set_up(&mut self.script);
                }
                Phase::Measure if self.done < self.count => {
                    self.transactions.transaction(self.done, &mut self.script);
                    self.done += 1;
                }
                _ => return Ok(None),
            }
        }
    }
}

/// Checks that `needed` bytes fit into the `available` bytes of free space.
pub(crate) fn fits(workload: &'static str, needed: u64, available: u64, advice: &str) -> Result<()> {
    if needed <= available {
        return Ok(());
    }
    Err(WorkloadError::DoesNotFit { workload, needed, available, advice: advice.to_string() })
}
