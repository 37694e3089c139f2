//! The nandkit library: one door to the whole stack
