//! Conformance suites, cut plans, model oracles and outside judges for tests

pub mod flash_suite;
pub mod planted_flash;
pub mod violation;
pub mod fs_suite;
pub mod planted_fs;
pub mod model_compare;
