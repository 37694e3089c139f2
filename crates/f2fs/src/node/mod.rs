//! Nodes: the tree from an inode to the addresses of its pages.

pub mod tree;
