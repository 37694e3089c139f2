//! Conformance suites, cut plans, model oracles and outside judges for tests

pub mod block_suite;
pub mod cut;
pub mod flash_suite;
pub mod fs_suite;
pub mod judges;
pub mod model_block;
pub mod model_compare;
pub mod planted_block;
pub mod planted_flash;
pub mod planted_fs;
pub mod soak;
pub mod timeline;
pub mod violation;
