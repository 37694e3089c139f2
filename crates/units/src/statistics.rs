//! What a layer counts, under its own names.

/// One counted value.
#[derive(Clone, Debug, PartialEq)]
pub enum StatisticValue {
    /// A count that only grows: two snapshots may be subtracted.
    Count(u64),
    /// A value at this moment.
    Level(f64),
    /// A distribution or series: element i is the count, or the value, of i.
    Series(Vec<f64>),
}

/// A layer that counts. Stacks collect every layer's values before and after a phase; records show the difference of counts.
pub trait Statistics: Send + Sync {
    /// Hands each value with its name (snake_case, unit last) to `sink`, in a fixed order. Cost: of the order of the number of values.
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue));
}
