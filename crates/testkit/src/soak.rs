//! Common parts of the soaks: their command line, and the table of cuts at their end.
//!
//! A soak makes cuts until it has enough, counts each by its cause and by how it was left, and
//! fails where a cause got fewer than one in [`CUTS_PER_CAUSE`]: then it no longer reaches what it
//! is for.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::rounds::REPLAY_VARIABLE;

/// Each cause must get at least one cut in this many: 1,000 of 35,000.
pub const CUTS_PER_CAUSE: u64 = 35;

/// Arguments of a soak's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// Least number of cuts.
    pub cuts: u64,
    /// The first seed.
    pub seed: u64,
    /// The replay string of a failure, which is run again; [`REPLAY_VARIABLE`] sets it as well.
    pub replay: Option<String>,
    /// Values of the soak's own options, in the order in which they were given.
    pub more: Vec<(String, String)>,
}

impl Arguments {
    /// Parses the command line of this process. `own` lists the options that the soak has besides
    /// `--cuts`, `--seed` and `--replay`; each takes a value. Errors: what is wrong, in words.
    pub fn of_process(own: &[&str]) -> Result<Self, String> {
        let arguments = Self::parse(std::env::args().skip(1), own)?;
        Ok(Self { replay: arguments.replay.or_else(|| std::env::var(REPLAY_VARIABLE).ok()), ..arguments })
    }

    /// Parses `words` as a command line; `own` and errors as in [`Self::of_process`].
    pub fn parse(words: impl IntoIterator<Item = String>, own: &[&str]) -> Result<Self, String> {
        let mut arguments = Self { cuts: 35_000, seed: 1, replay: None, more: Vec::new() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(format!("{word}: expected a value after it"))?;
            match word.as_str() {
                "--cuts" => arguments.cuts = number(&word, &value)?,
                "--seed" => arguments.seed = number(&word, &value)?,
                "--replay" => arguments.replay = Some(value),
                _ if own.contains(&word.as_str()) => arguments.more.push((word, value)),
                _ => {
                    let known: Vec<&str> = ["--cuts", "--seed", "--replay"].iter().chain(own).copied().collect();
                    return Err(format!("unknown option {word}: expected one of {}", known.join(", ")));
                }
            }
        }
        Ok(arguments)
    }

    /// The last value of one of the soak's own options.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.more.iter().rev().find(|(word, _)| word == name).map(|(_, value)| value.as_str())
    }

    /// The last value of one of the soak's own options as a number. Errors: it is not a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, String> {
        self.text(name).map(|value| number(name, value)).transpose()
    }

    /// The seed of a replay string `seed:NUMBER`; `None` where nothing is to be done again. Errors:
    /// it is no number.
    pub fn replayed_seed(&self) -> Result<Option<u64>, String> {
        let seed = |text: &String| number("--replay", text.trim_start_matches("seed:"));
        self.replay.as_ref().map(seed).transpose()
    }
}

fn number(word: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{word} \"{text}\": expected a number"))
}

/// Table of cuts: a row for each cause, a column for each state that a cut left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    rows: Vec<&'static str>,
    columns: Vec<String>,
    counts: Vec<Vec<u64>>,
}

impl Table {
    /// An empty table.
    pub fn new(rows: &[&'static str], columns: impl IntoIterator<Item = impl ToString>) -> Self {
        let columns: Vec<String> = columns.into_iter().map(|column| column.to_string()).collect();
        Self { rows: rows.to_vec(), counts: vec![vec![0; columns.len()]; rows.len()], columns }
    }

    /// Counts cuts; an unknown row or column is ignored.
    pub fn count(&mut self, row: usize, column: usize, cuts: u64) {
        if let Some(cell) = self.counts.get_mut(row).and_then(|row| row.get_mut(column)) {
            *cell += cuts;
        }
    }

    /// All cuts.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Cuts of a cause.
    pub fn of(&self, row: &str) -> u64 {
        let rows = self.rows.iter().zip(&self.counts).filter(|(name, _)| **name == row);
        rows.flat_map(|(_, counts)| counts).sum()
    }

    /// Errors: the causes that got fewer cuts than one in [`CUTS_PER_CAUSE`].
    pub fn reaches_all(&self) -> Result<(), String> {
        let bar = self.total() / CUTS_PER_CAUSE;
        let sums = self.rows.iter().zip(&self.counts).map(|(row, counts)| (row, counts.iter().sum::<u64>()));
        let few: Vec<String> = sums
            .filter(|(_, sum)| *sum < bar)
            .map(|(row, sum)| format!("{row}: {sum} cuts, expected at least {bar}"))
            .collect();
        if few.is_empty() { Ok(()) } else { Err(few.join("\n")) }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self.rows.iter().map(|row| row.len() + 2).max().unwrap_or(0).max(18);
        write!(f, "{:<wide$}", "cause")?;
        self.columns.iter().try_for_each(|column| write!(f, "{column:>17}"))?;
        writeln!(f, "{:>10}", "all")?;
        for (row, counts) in self.rows.iter().zip(&self.counts) {
            write!(f, "{row:<wide$}")?;
            counts.iter().try_for_each(|count| write!(f, "{count:>17}"))?;
            writeln!(f, "{:>10}", counts.iter().sum::<u64>())?;
        }
        Ok(())
    }
}

/// Runs a seed. Errors: the replay string of a panic, whose message was printed.
pub fn attempt<T>(seed: u64, run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| format!("replay with: --replay seed:{seed}"))
}

/// A soak whose seeds give lists of cuts: until there are enough, or what is to be done again.
/// `describe` tells what a seed is; `cut` gets a seed and how many cuts were before it. Errors: a
/// wrong command line, a seed that failed, causes without their share.
pub fn run_lists<C>(
    describe: impl Fn(u64) -> String,
    cut: impl Fn(u64, usize) -> Vec<C>,
    show: impl Fn(&[C]) -> Table,
) -> Result<(), String> {
    let arguments = Arguments::of_process(&[])?;
    if let Some(seed) = arguments.replayed_seed()? {
        println!("{}", describe(seed));
        show(&attempt(seed, || cut(seed, 0))?);
        return Ok(());
    }
    let (mut cuts, mut seed) = (Vec::new(), arguments.seed);
    while (cuts.len() as u64) < arguments.cuts {
        cuts.extend(attempt(seed, || cut(seed, cuts.len()))?);
        seed += 1;
    }
    println!("seeds {} to {}", arguments.seed, seed - 1);
    show(&cuts).reaches_all()
}

/// Ends a soak, and prints its error.
pub fn close(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned), &["--depth"])
    }

    #[test]
    fn arguments_are_the_common_ones_and_the_soaks_own() {
        let arguments = parsed("--cuts 70 --replay seed:9 --depth 3").unwrap();
        assert_eq!((arguments.cuts, arguments.seed), (70, 1));
        assert_eq!((arguments.replayed_seed(), arguments.number("--depth")), (Ok(Some(9)), Ok(Some(3))));
        assert_eq!(parsed("").unwrap().replayed_seed(), Ok(None));
        for wrong in ["--cuts", "--cuts many", "--width 3"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cause_without_its_share_fails_the_soak() {
        let mut table = Table::new(&["data", "metadata"], ["before", "after"]);
        table.count(0, 0, 60);
        table.count(1, 1, 9);
        table.count(2, 0, 500);
        table.count(0, 2, 500);
        assert_eq!((table.total(), table.reaches_all()), (69, Ok(())));
        assert!(table.to_string().contains("metadata"));
        table.count(0, 1, 400);
        assert_eq!(table.reaches_all(), Err("metadata: 9 cuts, expected at least 13".to_owned()));
    }
}
