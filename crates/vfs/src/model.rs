//! The in-memory model file system: the oracle that every other one is compared with.
