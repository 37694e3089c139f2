//! One program of all tests.

mod built;
mod cut_runs;
mod cuts;
mod damages;
mod full;
mod hostile;
mod images;
mod journal;
mod mkfs;
mod nodes;
mod repair;
mod strict_lebs;
mod volume;
mod write;
