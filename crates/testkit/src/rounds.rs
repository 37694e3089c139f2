//! How many rounds a test of drawn cases makes, and which one again: the two variables of all of them.

use std::env;
use std::ops::Range;

/// How many rounds are made, in place of the usual number: `NANDKIT_ROUNDS=20000`.
pub const ROUNDS_VARIABLE: &str = "NANDKIT_ROUNDS";

/// What is run again, and nothing else: `round:17` of drawn cases, a plan of power cuts as
/// [`nandkit_flash::wrap::CutPlan`] is written (`at:2@after`).
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
    /// So many rounds from 0 on, as the environment says, or the one that it names.
    pub fn of(usual: u64) -> Self {
        Self::from(usual, env::var(REPLAY_VARIABLE).ok().as_deref())
    }

    fn from(usual: u64, replay: Option<&str>) -> Self {
        let one = replay.and_then(|text| text.strip_prefix("round:")?.parse::<u64>().ok());
        let left = one.map_or_else(|| 0..count(usual), |round| round..round.saturating_add(1));
        Self { count: left.end - left.start, left, current: None, is_replay: one.is_some() }
    }

    /// How many there are in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether one round is run again, so that nothing is to be asked of the sum of all.
    pub fn is_replay(&self) -> bool {
        self.is_replay
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
        if let Some(round) = self.current.filter(|_| std::thread::panicking()) {
            eprintln!("  again with {REPLAY_VARIABLE}='round:{round}'");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rounds_or_the_one_that_is_named() {
        let mut all = Rounds::from(3, None);
        assert_eq!((all.count(), all.is_replay()), (count(3), false));
        assert_eq!((&mut all).next(), Some(0));
        let mut one = Rounds::from(3, Some("round:17"));
        assert_eq!(((&mut one).collect::<Vec<_>>(), one.count(), one.is_replay()), (vec![17], 1, true));
        assert!(!Rounds::from(3, Some("at:2@after")).is_replay());
    }
}
