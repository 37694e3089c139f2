//! Chooses the log block to recycle when another logical block needs one.

/// The state of a log block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogView {
    /// Its index in the table of log blocks.
    pub slot: usize,
    /// When it was opened, as an increasing number.
    pub opened: u64,
    /// When it was last written, as an increasing number.
    pub last_write: u64,
    /// Pages in it that are current.
    pub valid: u32,
}

/// A rule for choosing the victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VictimRule {
    /// The log block written longest ago: a finished file goes before metadata that is written
    /// repeatedly. The default.
    #[default]
    LeastRecentlyWritten,
    /// The log block that was opened first.
    Fifo,
    /// The log block with the fewest valid pages.
    FewestValid,
    /// The slots in turn.
    RoundRobin,
}

impl VictimRule {
    /// The slot to recycle, the lowest among equals; `None` if there is no log block. `cursor` is
    /// the slot after the last victim; only round robin reads and moves it. Cost: linear in the
    /// number of log blocks.
    pub fn choose(&self, logs: impl Iterator<Item = LogView>, cursor: &mut usize) -> Option<usize> {
        let from = *cursor;
        let victim = logs.min_by_key(|log| {
            let key = match self {
                Self::LeastRecentlyWritten => log.last_write,
                Self::Fifo => log.opened,
                Self::FewestValid => u64::from(log.valid),
                Self::RoundRobin => u64::from(log.slot < from),
            };
            (key, log.slot)
        })?;
        if matches!(self, Self::RoundRobin) {
            *cursor = victim.slot + 1;
        }
        Some(victim.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs() -> Vec<LogView> {
        [(0, 5, 9, 3), (1, 1, 10, 7), (3, 7, 2, 3), (4, 2, 2, 1)]
            .map(|(slot, opened, last_write, valid)| LogView { slot, opened, last_write, valid })
            .to_vec()
    }

    #[test]
    fn each_rule_takes_its_own_victim() {
        let choose = |rule: VictimRule| rule.choose(logs().into_iter(), &mut 0);
        assert_eq!(choose(VictimRule::LeastRecentlyWritten), Some(3));
        assert_eq!(choose(VictimRule::Fifo), Some(1));
        assert_eq!(choose(VictimRule::FewestValid), Some(4));
        assert_eq!(choose(VictimRule::RoundRobin), Some(0));
        assert_eq!(VictimRule::Fifo.choose(std::iter::empty(), &mut 0), None);
    }

    #[test]
    fn round_robin_goes_around() {
        let mut cursor = 0;
        let turns: Vec<_> =
            (0..6).map(|_| VictimRule::RoundRobin.choose(logs().into_iter(), &mut cursor).unwrap()).collect();
        assert_eq!(turns, [0, 1, 3, 4, 0, 1]);
    }
}
