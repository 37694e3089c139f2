//! Nodes, and the trees of files that they make.

pub mod cache;
pub(crate) mod checked;
pub mod tree;
