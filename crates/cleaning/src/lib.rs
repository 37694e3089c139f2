//! Every cleaning decision as a pure function over plain data.
//!
//! Nothing here does I/O or holds a clock, and ties are broken by index, so the same data always
//! gives the same decision. One policy serves every translation layer and file system.

pub mod allocation;
pub mod gather;
pub mod log_victim;
pub mod partial;
pub mod recycling;
pub mod search;
pub mod separation;
pub mod unified;
pub mod victim;
