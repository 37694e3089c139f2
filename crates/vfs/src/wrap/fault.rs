//! Lets chosen calls fail.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Call, Hook, Method};
use crate::{ErrorKind, FsError, Result};

/// Which calls fail. Calls are counted from 0, only those that the plan looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Looks at this method only; `None` at all.
    pub method: Option<Method>,
    /// The first call that fails.
    pub first: u64,
    /// After it every so-manieth fails; 0 for none.
    pub every: u64,
    /// How many fail at most.
    pub count_max: u64,
    /// The error.
    pub kind: ErrorKind,
}

impl FaultPlan {
    /// The n-th call of a method fails, once.
    pub const fn once(method: Method, first: u64, kind: ErrorKind) -> Self {
        Self { method: Some(method), first, every: 0, count_max: 1, kind }
    }

    /// From the n-th call on every call fails: the volume is gone.
    pub const fn from(first: u64, kind: ErrorKind) -> Self {
        Self { method: None, first, every: 1, count_max: u64::MAX, kind }
    }

    /// Whether call `number` fails.
    fn hits(&self, number: u64) -> bool {
        let Some(behind) = number.checked_sub(self.first) else { return false };
        let position = match self.every {
            0 => behind,
            every if behind.is_multiple_of(every) => behind / every,
            _ => return false,
        };
        position < if self.every == 0 { self.count_max.min(1) } else { self.count_max }
    }
}

/// Lets the calls of a plan fail before they are made, so that nothing has changed.
#[derive(Debug)]
pub struct Fault {
    plan: FaultPlan,
    seen: AtomicU64,
}

impl Fault {
    /// A hook for this plan.
    pub fn new(plan: FaultPlan) -> Self {
        Self { plan, seen: AtomicU64::new(0) }
    }

    /// How many calls the plan has looked at.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }
}

impl Hook for Fault {
    fn before(&self, call: &Call<'_>) -> Result<()> {
        if self.plan.method.is_some_and(|method| method != call.method) {
            return Ok(());
        }
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        if self.plan.hits(number) {
            let text = format!("planned fault: call {number}, {:?} of inode {}", call.method, call.inode.0);
            return Err(FsError::new(self.plan.kind, text));
        }
        Ok(())
    }
}
