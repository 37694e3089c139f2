//! Random operations on a file system and on the model, compared one by one and as whole trees.
//!
//! A plan is a seed and a number of operations; the same plan makes the same operations. A
//! disagreement comes back with a replay string (`seed:operations:features`), and with the shortest
//! list of operations that still shows one.
//!
//! ```
//! use nandkit_testkit::fs_suite::ModelMaker;
//! use nandkit_testkit::model_compare::{Plan, run};
//! use nandkit_vfs::model::ModelOptions;
//!
//! let plan = Plan::new(1, 200, ModelOptions::FAT);
//! assert_eq!(run(&ModelMaker(ModelOptions::FAT), &plan).unwrap().operations, 200);
//! ```

mod agree;
mod execute;
mod generate;
mod operation;
mod shrink;

pub use generate::generate;
pub use operation::{Kind, Operation, Path};

use std::fmt;

use nandkit_vfs::model::{ModelOptions, NameRule};

use crate::fs_suite::{FsMaker, VolumeSize};

/// The plan of a comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the operations.
    pub seed: u64,
    /// Operations to run.
    pub operations: u32,
    /// Options of the model: the same features as the file system under test. The model's capacity
    /// is its own, and ample.
    pub options: ModelOptions,
    /// Weight of each kind; it occurs in proportion to its share of the sum.
    pub weights: Vec<(Kind, u32)>,
    /// Number of operations after which whole trees are compared; they are also compared after each
    /// remount and at the end.
    pub compare_every: u32,
    /// The volume.
    pub volume_size: VolumeSize,
    /// Largest offset and size of a file.
    pub file_bytes_max: u64,
    /// `NoSpace` is believed where fewer bytes than this, besides those to be written, are free.
    pub space_slack: u64,
    /// Number of further names from which most new names are drawn, for directories with many
    /// entries; 0: only the usual few names.
    pub many_names: u64,
    /// For directories without case: no name has bytes above 0x7F, or more than the 254 that Linux
    /// folds.
    pub foldable_names: bool,
}

impl Plan {
    /// A plan with the usual weights on a roomy volume.
    pub fn new(seed: u64, operations: u32, options: ModelOptions) -> Self {
        Self {
            seed,
            operations,
            options,
            weights: Kind::USUAL.to_vec(),
            compare_every: 100,
            volume_size: VolumeSize::Roomy,
            file_bytes_max: 150_000,
            space_slack: 128 << 10,
            many_names: 0,
            foldable_names: false,
        }
    }

    /// The plan as a short text.
    pub fn replay(&self) -> String {
        let letters: String =
            LETTERS.iter().filter(|(_, flag)| *flag(&mut self.options.clone())).map(|(l, _)| l).collect();
        format!("{}:{}:{}", self.seed, self.operations, letters)
    }

    /// The plan of a replay string; what the string does not hold comes from `options` and from the
    /// usual plan. `None` if the text is not a replay string.
    pub fn from_replay(text: &str, mut options: ModelOptions) -> Option<Self> {
        let mut parts = text.split(':');
        let (seed, operations, letters) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
        if parts.next().is_some() || !letters.chars().all(|c| LETTERS.iter().any(|(letter, _)| *letter == c)) {
            return None;
        }
        for (letter, flag) in LETTERS {
            *flag(&mut options) = letters.contains(*letter);
        }
        Some(Self::new(seed, operations, options))
    }

    fn has_any_byte_names(&self) -> bool {
        self.options.name_rule == NameRule::Bytes && !self.foldable_names
    }
}

type Flag = fn(&mut ModelOptions) -> &mut bool;

/// The features of a replay string.
const LETTERS: &[(char, Flag)] = &[
    ('c', |o| &mut o.features.case_sensitive),
    ('p', |o| &mut o.features.permissions),
    ('o', |o| &mut o.features.owners),
    ('h', |o| &mut o.features.hard_links),
    ('s', |o| &mut o.features.symlinks),
    ('d', |o| &mut o.features.device_nodes),
    ('z', |o| &mut o.features.holes),
    ('x', |o| &mut o.features.xattrs),
    ('l', |o| &mut o.features.posix_acls),
    ('e', |o| &mut o.features.exchange),
    ('a', |o| &mut o.allocation),
    ('r', |o| &mut o.open_files),
];

/// What a run without disagreement did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Operations done.
    pub operations: u32,
    /// Of these, how many the model answered with an error.
    pub errors: u32,
    /// Of these, how many met a full volume.
    pub no_space: u32,
    /// Whole trees compared.
    pub comparisons: u32,
}

/// A disagreement of the file system and the model.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// Makes the same operations again, by [`Plan::from_replay`].
    pub replay: String,
    /// The operation, counted from 0, that showed it in the whole run.
    pub at: usize,
    /// The disagreement that it showed there.
    pub what: String,
    /// A short list of operations that shows a disagreement on a new volume.
    pub shortest: Vec<Operation>,
    /// What the short list shows.
    pub shortest_what: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "replay {}: operation {}: {}", self.replay, self.at, self.what)?;
        writeln!(f, "the same in {} operations: {}", self.shortest.len(), self.shortest_what)?;
        for operation in &self.shortest {
            writeln!(f, "  {operation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Disagreement {}

/// Runs a plan; a disagreement is made as short as it gets in some hundred tries.
pub fn run<M: FsMaker>(maker: &M, plan: &Plan) -> Result<Summary, Box<Disagreement>> {
    let operations = generate(plan);
    match execute::execute(maker, plan, &operations) {
        Ok(summary) => Ok(summary),
        Err(mismatch) => {
            let shown = &operations[..operations.len().min(mismatch.at + 1)];
            let (shortest, last) = shrink::shrink(maker, plan, shown, mismatch.clone());
            Err(Box::new(Disagreement {
                replay: plan.replay(),
                at: mismatch.at,
                what: mismatch.what,
                shortest,
                shortest_what: last.what,
            }))
        }
    }
}

#[cfg(test)]
mod tests;
