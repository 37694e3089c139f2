//! The nandkit command line.
fn main() {}
