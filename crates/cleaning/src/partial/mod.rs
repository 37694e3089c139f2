//! Partial garbage collection (P1): which runs of valid blocks of a segment are moved before its
//! holes are filled.
//!
//! Slack space recycling (SSR) fills the holes of a used segment and copies nothing, but makes many
//! small writes of one large one. P1 compares for each run of valid blocks what it costs to leave
//! it and what it costs to move it away, by the device's times for requests of each size ("부분 가비지
//! 컬렉션", section 4.3). [`RequestTimes`] are the device's curves ([`LearnedTimes`]: as they
//! were seen in use), [`cost`] the formulas, [`plan`]
//! the decisions for a segment. All times are in nanoseconds, sizes in blocks.

pub mod cost;
pub mod freed;
mod learned;
pub mod optimal;
pub mod plan;
pub mod times;

pub use cost::{Choice, MeanHoles, RunTimes, ValidRun};
pub use learned::LearnedTimes;
pub use plan::{Method, Plan};
pub use times::RequestTimes;
