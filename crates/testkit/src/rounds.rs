//! Rounds of tests of random cases, and the two environment variables that set their number and
//! repeat one.

use std::env;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Sets the number of rounds instead of the usual one: `NANDKIT_ROUNDS=20000`.
pub const ROUNDS_VARIABLE: &str = "NANDKIT_ROUNDS";

/// What is run again, and nothing else: `round:17` of drawn cases, or a slice of a long run without
/// its end, `round:500..1000`; a plan of power cuts as [`nandkit_flash::wrap::CutPlan`] is written
/// (`at:2@after`).
pub const REPLAY_VARIABLE: &str = "NANDKIT_REPLAY";

/// The number of rounds: the usual one, or what the environment says.
///
/// # Panics
///
/// Where the environment says something that is no number: the test would pass for another one.
pub fn count(usual: u64) -> u64 {
    let Ok(text) = env::var(ROUNDS_VARIABLE) else { return usual };
    text.parse().unwrap_or_else(|_| panic!("{ROUNDS_VARIABLE}={text}: a number of rounds is wanted"))
}

/// The rounds of a test, as an iterator of their numbers. One during which the test fails is named
/// with what runs it again.
#[derive(Debug)]
pub struct Rounds {
    left: Range<u64>,
    count: u64,
    current: Option<u64>,
    is_replay: bool,
}

impl Rounds {
    /// The number of rounds from 0 on that the environment sets, or the rounds that it names.
    pub fn of(usual: u64) -> Self {
        Self::from(usual, env::var(REPLAY_VARIABLE).ok().as_deref())
    }

    fn from(usual: u64, replay: Option<&str>) -> Self {
        let named = replay.and_then(named);
        let is_replay = named.is_some();
        let left = named.unwrap_or_else(|| 0..count(usual));
        Self { count: left.end.saturating_sub(left.start), left, current: None, is_replay }
    }

    /// The number of all rounds of this run.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether named rounds are run, so that nothing is to be asked of the sum of all.
    pub fn is_replay(&self) -> bool {
        self.is_replay
    }
}

/// The rounds that a text names; `None` where it names something else.
fn named(replay: &str) -> Option<Range<u64>> {
    let text = replay.strip_prefix("round:")?;
    let number = |text: &str| text.parse::<u64>().ok();
    match text.split_once("..") {
        Some((start, end)) => Some(number(start)?..number(end)?),
        None => number(text).map(|round| round..round.saturating_add(1)),
    }
}

impl Iterator for &mut Rounds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.current = self.left.next();
        self.current
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        if let Some(round) = self.current.filter(|_| thread::panicking()) {
            eprintln!("  again with {REPLAY_VARIABLE}='round:{round}'");
        }
    }
}

/// Runs the rounds of a test on all processors, each on one of them. One that fails is named as by
/// [`Rounds`], and no further one begins.
///
/// # Panics
///
/// Panics if a round panics.
pub fn in_parallel(usual: u64, round: impl Fn(u64) + Sync) {
    let Range { start, end } = Rounds::of(usual).left.clone();
    let next = AtomicU64::new(start);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                break;
            }
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round(number)));
            if let Err(failed) = failed {
                next.store(end, Ordering::Relaxed);
                eprintln!("  again with {REPLAY_VARIABLE}='round:{number}'");
                std::panic::resume_unwind(failed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(work);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_in_parallel_are_each_run_once_and_a_failure_is_one_of_the_test() {
        let seen: Vec<AtomicU64> = (0..100).map(|_| AtomicU64::new(0)).collect();
        let sum = || seen.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
        let Range { start, end } = Rounds::of(100).left.clone();
        in_parallel(100, |round| {
            seen[round as usize % 100].fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(sum(), end - start);
        let failing = || in_parallel(100, |round| assert!(round < start, "planted"));
        assert!(std::panic::catch_unwind(failing).is_err());
    }

    #[test]
    fn all_rounds_or_the_one_that_is_named() {
        let mut all = Rounds::from(3, None);
        assert_eq!((all.count(), all.is_replay()), (count(3), false));
        assert_eq!((&mut all).next(), Some(0));
        let mut one = Rounds::from(3, Some("round:17"));
        assert_eq!(((&mut one).collect::<Vec<_>>(), one.count(), one.is_replay()), (vec![17], 1, true));
        let mut slice = Rounds::from(3, Some("round:5..8"));
        assert_eq!(((&mut slice).collect::<Vec<_>>(), slice.count(), slice.is_replay()), (vec![5, 6, 7], 3, true));
        assert!(!Rounds::from(3, Some("at:2@after")).is_replay());
    }
}
