//! One program of all tests.

mod hostile;
mod images;
mod journal;
mod nodes;
mod volume;
