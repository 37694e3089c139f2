//! Partial garbage collection (P1): chooses which runs of valid blocks to move before a segment's
//! holes are filled.
//!
//! Slack space recycling (SSR) fills the holes of a used segment without copying, but turns one
//! large write into many small ones. For each run of valid blocks, P1 compares the cost of leaving
//! it with that of moving it, using the device's times for requests of each size ("부분 가비지 컬렉션",
//! section 4.3). [`RequestTimes`] holds the device's curves ([`LearnedTimes`]: as measured in use),
//! [`cost`] the formulas, [`plan`] the decisions for a segment. All times are in nanoseconds, sizes
//! in blocks.

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
