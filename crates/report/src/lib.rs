//! Run records to text for people: a pure function of records, which runs nothing and asks nothing
//! of the terminal.
//!
//! [`comparison`] sets stacks side by side on each workload, [`listing`] shows the records of any
//! experiment with the metrics one asks for.

mod comparison;
mod deciding;
mod fold;
pub mod html;
mod label;
mod listing;
pub mod page;
mod remarks;
mod style;
mod summary;
pub mod svg;
mod table;
mod tree;

pub use comparison::{Verdict, comparison, verdicts, words};
pub use fold::{WIDTH, fold};
pub use listing::listing;
pub use style::Style;
pub use summary::{Group, Summary, groups, shared_parts};
pub use table::{Align, Table};
pub use tree::tree;

#[cfg(test)]
mod testing;
