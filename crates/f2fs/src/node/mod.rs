//! Nodes and the trees they form.

pub mod cache;
pub(crate) mod checked;
pub mod tree;
