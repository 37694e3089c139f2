//! StackSpec to running stack: the only crate that names every implementation.

pub mod suggest;
