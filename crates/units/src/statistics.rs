//! What a layer counts, under its own names.

use std::sync::{Mutex, PoisonError};

/// One counted value.
#[derive(Clone, Debug, PartialEq)]
pub enum StatisticValue {
    /// A count that only grows: two snapshots may be subtracted.
    Count(u64),
    /// A value at this moment.
    Level(f64),
    /// A distribution: element i is the count of i, which only grows. Two snapshots may be subtracted element by element; what is missing at the end is zero.
    Series(Vec<f64>),
    /// A value of each event since the layer was started, in their order.
    Events(Vec<f64>),
}

/// A layer that counts. Stacks collect every layer's values before and after a phase; records show the difference of counts and
/// distributions.
pub trait Statistics: Send + Sync {
    /// Hands each value with its name (snake_case, unit last) to `sink`, in a fixed order. Cost: of the order of the number of values.
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue));
}

/// A layer that its stack shares; one whose user panicked still tells its counts.
impl<T: Statistics + ?Sized> Statistics for Mutex<T> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.lock().unwrap_or_else(PoisonError::into_inner).collect(sink);
    }
}
