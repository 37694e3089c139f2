//! The known write amplification of page-mapped devices, as closed forms and fixed points of mean
//! fields.
//!
//! Pure mathematics: nothing here knows a device, a clock or a random number. All results are
//! limits for many blocks; a device with a reserve of a few blocks has that much less spare. *Write
//! amplification* is pages programmed per page that the host writes, in the steady state, with
//! every host page in use.
//!
//! | cleaning | overwrites | function | source |
//! | --- | --- | --- | --- |
//! | FIFO | uniform | [`fifo`] | Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012 (there LRU); Robinson, "Analysis of steady-state segment storage utilizations in a log-structured file system with least-utilized segment cleaning", ACM SIGOPS Operating Systems Review 30(4), 1996; Xiang and Kurkoski, "An improved analytic expression for write amplification in NAND flash", ICNC 2012 |
//! | random | uniform | [`random`] | Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid state drives", SIGMETRICS 2013 |
//! | greedy among d | uniform | [`d_choices`] | the same |
//! | greedy | uniform | [`greedy`] | the same, as d grows; Bux and Iliadis, "Performance of greedy garbage collection in flash-based solid-state drives", Performance Evaluation 67(11), 2010; Yang and Zhu, "Analysis and optimization of write amplification ...", ITC 2014 |
//! | FIFO | hot and cold, mixed | [`hot_cold::fifo_mixed`] | Desnoyers, "Analytic models of SSD write performance", ACM Transactions on Storage 10(2), 2014 (there LRU, non-uniform traffic) |
//! | greedy among d, greedy, random | hot and cold, mixed | [`hot_cold::mixed`] | Van Houdt, "On the necessity of hot and cold data identification to reduce the write amplification in flash-based SSDs", Performance Evaluation 82, 2014 (single write frontier) |
//! | greedy among d, greedy, random | hot and cold, each in blocks of its own | [`hot_cold::separated`] | the same (hot and cold data identification); Desnoyers 2014 |
//!
//! P4's cost functions of merge and migration serve decisions as well as theory, and are in
//! `nandkit_cleaning::recycling`.

pub mod hot_cold;
mod mixed;
mod root;
mod separated;
mod uniform;

pub use uniform::{d_choices, fifo, greedy, lambert_w, random};

/// The most pages per block: the work of a mean field grows with their square.
pub const PAGES_PER_BLOCK_MAX: u32 = 4096;

/// A parameter for which there is no steady state.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {found}; expected {expected}")]
pub struct TheoryError {
    /// The parameter.
    pub name: &'static str,
    /// Its value.
    pub found: f64,
    /// The accepted values.
    pub expected: &'static str,
}

/// A device: the length of its blocks, and its flash relative to what the host sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    pages_per_block: u32,
    spare: f64,
}

impl Device {
    /// A device with blocks of this many pages and a spare of (physical - user) / user. Errors: no
    /// pages, more than [`PAGES_PER_BLOCK_MAX`], a spare that is not above 0 and at most 1000.
    pub fn new(pages_per_block: u32, spare: f64) -> Result<Self, TheoryError> {
        if !(1..=PAGES_PER_BLOCK_MAX).contains(&pages_per_block) {
            let found = f64::from(pages_per_block);
            return Err(TheoryError { name: "pages_per_block", found, expected: "1 to 4096 pages" });
        }
        if !(spare > 0.0 && spare <= 1000.0) {
            return Err(TheoryError { name: "spare", found: spare, expected: "a ratio above 0 and up to 1000" });
        }
        Ok(Self { pages_per_block, spare })
    }

    /// Pages per block.
    pub const fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// (physical - user) / user.
    pub const fn spare(&self) -> f64 {
        self.spare
    }

    /// The share of all pages that hold host data: user / physical.
    pub fn used(&self) -> f64 {
        1.0 / (1.0 + self.spare)
    }
}

/// How the block to clean is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The one with the fewest valid pages among this many drawn at random; 1 is a random choice,
    /// and 0 counts as 1.
    Among(u32),
    /// The one with the fewest valid pages of all; ties are drawn, which matters if hot and cold
    /// pages make equal blocks differ.
    Greedy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_without_a_steady_state_are_refused() {
        for (pages, spare, name) in
            [(0, 0.1, "pages_per_block"), (5000, 0.1, "pages_per_block"), (64, 0.0, "spare"), (64, f64::NAN, "spare")]
        {
            let error = Device::new(pages, spare).unwrap_err();
            assert!(error.name == name && error.to_string().contains("expected"), "{error}");
        }
        assert!((Device::new(64, 0.25).unwrap().used() - 0.8).abs() < 1e-15);
    }
}
