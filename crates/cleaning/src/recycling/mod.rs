//! Merge or migrate: chooses how to recycle a full log block (P4).
//!
//! A block-mapped translation layer writes updates of a logical block into a log block. When that
//! is full it either *merges* (copies all current pages of log and data block into a new data
//! block) or *migrates* (copies only the valid pages of the log block into a new log block).
//! [`Costs`] has the cost functions of Lee, Kim, Ahn, Lee and Noh, "Cost-based Optimization of
//! Block Recycling Scheme in NAND Flash Memory Based Storage System" (2007), sections 4 and 5;
//! [`RecyclingPolicy`] decides by them; [`PeriodHistory`] estimates the growth `alpha` online.

mod alpha;
mod cost;
mod policy;

pub use alpha::{AlphaEstimator, PeriodHistory};
pub use cost::Costs;
pub use policy::{Recycling, RecyclingPolicy, RecyclingState};
