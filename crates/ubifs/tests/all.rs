//! One program of all tests.

mod hostile;
mod images;
mod nodes;
