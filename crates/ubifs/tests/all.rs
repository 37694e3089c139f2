//! One program of all tests.

mod hostile;
mod images;
mod journal;
mod mkfs;
mod nodes;
mod volume;
