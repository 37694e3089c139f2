//! An experiment: a spec in TOML that stands for a grid of runs.

use std::ops::Range;
use std::path::{self, PathBuf};

use nandkit_record::RunRecord;
use nandkit_stack::{StackSpec, nests_too_deep, suggest};
use nandkit_workload::WorkloadSpec;
use toml::{Table, Value};

use crate::execute::execute;
use crate::run_spec::RunSpec;
use crate::{LabError, Options, Precondition, SpecError, grid};

/// The keys of an experiment.
const KEYS: [&str; 7] = ["name", "stack", "workload", "precondition", "verify", "seeds", "grid"];
/// Most seeds that an experiment may ask for.
const SEEDS_MAX: usize = 10_000;

/// A number of runs with what they have in common.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The experiment's name; empty where the spec has none.
    pub name: String,
    runs: Vec<RunSpec>,
}

impl Experiment {
    /// Reads a spec, lays `settings` (dotted keys with values) over it, expands its grid and checks
    /// every run of it. Nothing runs.
    ///
    /// `file` is what messages call the spec; `seeds` replaces the spec's own.
    pub fn parse(
        text: &str,
        file: &str,
        settings: &[(String, Value)],
        seeds: Option<&[u64]>,
    ) -> Result<Self, SpecError> {
        if nests_too_deep(text) {
            return Err(SpecError::new(file, "tables in tables without end; expected an experiment"));
        }
        let table: Table = toml::from_str(text).map_err(|error| {
            SpecError::new(format!("{file}{}", line_of(text, error.span())), error.message().to_string())
        })?;
        // A slip in the file itself is told with its line; what settings and the grid add is told
        // with its key.
        unknown_keys(&table).map_err(|error| error.in_file(file))?;
        check_in_place(text, file)?;
        Self::from_table(table, settings, seeds).map_err(|error| error.in_file(file))
    }

    fn from_table(mut table: Table, settings: &[(String, Value)], seeds: Option<&[u64]>) -> Result<Self, SpecError> {
        for (key, value) in settings {
            grid::set(&mut table, key, value.clone())?;
        }
        unknown_keys(&table)?;
        let name = match table.remove("name") {
            None => String::new(),
            Some(Value::String(name)) => name,
            Some(other) => return Err(SpecError::value("name", &other, "a text")),
        };
        let own_seeds = table.remove("seeds");
        let seeds = match seeds {
            Some(seeds) => seeds.to_vec(),
            None => read_seeds(own_seeds)?,
        };
        let mut runs = Vec::new();
        for table in grid::expand(table, seeds.len())? {
            unknown_keys(&table)?;
            let run = RunSpec::from_table(table, 0)?;
            runs.extend(seeds.iter().map(|seed| RunSpec { seed: *seed, ..run.clone() }));
        }
        Self::new(name, runs)
    }

    /// An experiment of these runs. Runs that are there twice are refused, and so are two runs on
    /// one device in a file: the second one would find what the first one left, and which of them
    /// is the second would depend on the threads.
    pub fn new(name: impl Into<String>, runs: Vec<RunSpec>) -> Result<Self, SpecError> {
        let mut keys: Vec<String> = runs.iter().map(RunSpec::key).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(SpecError::new(
                "grid",
                "two of its runs are the same; expected each value of a key, and each seed, once",
            ));
        }
        let mut files: Vec<PathBuf> = runs
            .iter()
            .filter_map(|run| run.stack.device_file())
            .map(|file| path::absolute(file).unwrap_or_else(|_| PathBuf::from(file)))
            .collect();
        files.sort_unstable();
        if let Some(file) = files.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[_]>::first) {
            let count = files.iter().filter(|other| *other == file).count();
            let detail = format!(
                "{count} runs are to be made on the one chip in {}; expected one run (one seed, no grid, one workload on one stack), or a file for each",
                file.display()
            );
            return Err(SpecError::new("stack.device.file", detail));
        }
        Ok(Self { name: name.into(), runs })
    }

    /// Every combination of these stacks, workloads and seeds: all stacks on the first workload
    /// first, the seeds of each together.
    pub fn product(stacks: &[StackSpec], workloads: &[WorkloadSpec], seeds: &[u64]) -> Result<Self, SpecError> {
        grid::check_count([stacks.len(), workloads.len(), seeds.len()])?;
        let mut runs = Vec::with_capacity(stacks.len() * workloads.len() * seeds.len());
        for workload in workloads {
            for stack in stacks {
                for seed in seeds {
                    runs.push(RunSpec { seed: *seed, ..RunSpec::new(stack.clone(), workload.clone()) });
                }
            }
        }
        Self::new("", runs)
    }

    /// The runs in their order.
    pub fn runs(&self) -> &[RunSpec] {
        &self.runs
    }

    /// Runs everything that is not there yet and returns all records in the order of the runs.
    pub fn run(&self, options: &Options<'_>) -> Result<Vec<RunRecord>, LabError> {
        execute(&self.runs, options)
    }
}

fn unknown_keys(table: &Table) -> Result<(), SpecError> {
    match table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        Some(key) => Err(SpecError::new("", suggest::unknown("key of an experiment", key, &KEYS))),
        None => Ok(()),
    }
}

fn read_seeds(value: Option<Value>) -> Result<Vec<u64>, SpecError> {
    const EXPECTED: &str = "a number of seeds from 1 to 10000 (which stands for 1, 2, ...), or a list of seeds";
    match value {
        None => Ok(vec![1]),
        Some(Value::Integer(count)) if (1..=SEEDS_MAX as i64).contains(&count) => Ok((1..=count as u64).collect()),
        Some(Value::Array(list)) if !list.is_empty() && list.len() <= SEEDS_MAX => list
            .iter()
            .map(|seed| {
                let seed_value = seed.as_integer().and_then(|seed| u64::try_from(seed).ok());
                seed_value.ok_or_else(|| SpecError::value("seeds", seed, "whole numbers from 0 on"))
            })
            .collect(),
        Some(other) => Err(SpecError::value("seeds", &other, EXPECTED)),
    }
}

/// Reads the file's own stack for its errors alone, because only the file's text gives them a line.
/// A key that the grid or a setting will change is as wrong in the file as any other.
fn check_in_place(text: &str, file: &str) -> Result<(), SpecError> {
    #[derive(serde::Deserialize)]
    struct InPlace {
        #[allow(dead_code, reason = "read for its errors alone")]
        stack: Option<StackSpec>,
        #[allow(dead_code, reason = "read for its errors alone")]
        workload: Option<WorkloadSpec>,
    }
    toml::from_str::<InPlace>(text).map(|_| ()).map_err(|error| {
        SpecError::new(format!("{file}{}", line_of(text, error.span())), suggest::explain(error.message()))
    })
}

fn line_of(text: &str, span: Option<Range<usize>>) -> String {
    let line = |span: Range<usize>| text.get(..span.start).map_or(0, |before| before.matches('\n').count()) + 1;
    span.map_or_else(String::new, |span| format!(", line {}", line(span)))
}

impl RunSpec {
    fn from_table(mut table: Table, seed: u64) -> Result<Self, SpecError> {
        let read = |at: &str, error: toml::de::Error| SpecError::new(at, suggest::explain(error.message()));
        let stack = match table.remove("stack") {
            None => StackSpec::default(),
            Some(stack) => stack.try_into().map_err(|error| read("stack", error))?,
        };
        let workload = match table.remove("workload") {
            None => {
                return Err(SpecError::new(
                    "workload",
                    "missing; expected a name, or a table with kind and parameters",
                ));
            }
            Some(workload) => workload.try_into().map_err(|error| read("workload", error))?,
        };
        let verify = match table.remove("verify") {
            None => true,
            Some(Value::Boolean(verify)) => verify,
            Some(other) => return Err(SpecError::value("verify", &other, "true or false")),
        };
        let precondition = match table.remove("precondition") {
            None => Precondition::None,
            Some(value) => Precondition::from_value(value).map_err(|detail| SpecError::new("precondition", detail))?,
        };
        let run = Self { stack, workload, precondition, verify, seed };
        run.check()?;
        Ok(run)
    }
}
