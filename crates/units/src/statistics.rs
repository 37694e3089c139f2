//! Statistics of a layer, under its own names.

use std::sync::{Mutex, PoisonError};

/// One counted value.
#[derive(Clone, Debug, PartialEq)]
pub enum StatisticValue {
    /// A count that only grows: snapshots can be subtracted.
    Count(u64),
    /// A current value.
    Level(f64),
    /// A distribution: element i is the count of i, which only grows. Snapshots can be subtracted
    /// element by element; missing elements at the end are zero.
    Series(Vec<f64>),
    /// A value of each event since the layer was started, in their order.
    Events(Vec<f64>),
}

/// Which direction of a value is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: the value tells what was done, not how well.
    Neither,
}

impl Better {
    /// The word used in legends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Neither => "neither",
        }
    }
}

/// The meaning of a layer's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticDefinition {
    /// The value's name in the layer.
    pub name: String,
    /// The value's unit; empty for pure numbers.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// A description in one sentence.
    pub text: String,
}

/// A layer with statistics. Stacks collect every layer's values before and after a phase; records
/// show the difference of counts and distributions.
pub trait Statistics: Send + Sync {
    /// Passes each value with its name (snake_case, unit last) to `sink`, in a fixed order. Cost:
    /// proportional to the number of values.
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue));

    /// The meaning of the values, in any order; none if the names say enough.
    fn definitions() -> Vec<StatisticDefinition>
    where
        Self: Sized,
    {
        Vec::new()
    }
}

/// A layer shared with its stack; it reports its counts even if a user panicked.
impl<T: Statistics + ?Sized> Statistics for Mutex<T> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.lock().unwrap_or_else(PoisonError::into_inner).collect(sink);
    }
}
