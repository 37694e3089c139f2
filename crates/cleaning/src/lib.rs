//! Every cleaning decision as a pure function over plain data.
//!
//! Nothing here does I/O or holds a clock; ties are broken by index, so that the same data always
//! lead to the same decision. One policy serves every translation layer and file system alike.

pub mod allocation;
pub mod gather;
pub mod log_victim;
pub mod partial;
pub mod recycling;
pub mod search;
pub mod separation;
pub mod unified;
pub mod victim;
