//! The age of a block, for rules that use it.

use crate::victim::{BlockView, OptionValues, RuleOption};
use nandkit_units::Nanos;

/// From when ages count: the last write to the block, or the first one after its erase.
pub const AGE: RuleOption =
    RuleOption::word("age", &["written", "created"], "written or created: what the age counts from");
pub const CREATED: u64 = 1;

/// A block's age in nanoseconds at a time; 0 if the clock is before the block's time.
pub fn age_at(now: Nanos, options: &OptionValues) -> impl Fn(&BlockView) -> u64 + use<> {
    let of_creation = options.get(&AGE) == CREATED;
    move |view| now.since(if of_creation { view.first_written } else { view.written }).get()
}
