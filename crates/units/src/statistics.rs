//! What a layer counts, under its own names.

use std::sync::{Mutex, PoisonError};

/// One counted value.
#[derive(Clone, Debug, PartialEq)]
pub enum StatisticValue {
    /// A count that only grows: two snapshots may be subtracted.
    Count(u64),
    /// A value at this moment.
    Level(f64),
    /// A distribution: element i is the count of i, which only grows. Two snapshots may be
    /// subtracted element by element; what is missing at the end is zero.
    Series(Vec<f64>),
    /// A value of each event since the layer was started, in their order.
    Events(Vec<f64>),
}

/// Which direction of a value is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: it says what was done, not how well.
    Neither,
}

impl Better {
    /// The word in legends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Neither => "neither",
        }
    }
}

/// What a value of a layer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticDefinition {
    /// Its name in the layer.
    pub name: String,
    /// Its unit; empty for pure numbers.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// What it is, in one sentence.
    pub text: String,
}

/// A layer that counts. Stacks collect every layer's values before and after a phase; records show
/// the difference of counts and distributions.
pub trait Statistics: Send + Sync {
    /// Hands each value with its name (snake_case, unit last) to `sink`, in a fixed order. Cost: of
    /// the order of the number of values.
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue));

    /// What the values mean, in any order; none where the names alone say it.
    fn definitions() -> Vec<StatisticDefinition>
    where
        Self: Sized,
    {
        Vec::new()
    }
}

/// A layer that its stack shares; one whose user panicked still tells its counts.
impl<T: Statistics + ?Sized> Statistics for Mutex<T> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.lock().unwrap_or_else(PoisonError::into_inner).collect(sink);
    }
}
