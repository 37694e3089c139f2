//! One program of all tests.

mod common;
mod hostile;
mod images;
mod power_cuts;
mod write;
