//! Chooses the log for a block (segment.c, `__get_segment_type_6`, `_4`, `_2`; f2fs-writing.md,
//! "Logs and classes").

use crate::ids::Log;

/// The number of logs in use (`active_logs`); the others stay where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ActiveLogs {
    Two,
    Four,
    #[default]
    Six,
}

impl ActiveLogs {
    /// Converts a number; `None` if F2FS does not support it.
    pub const fn of(count: u32) -> Option<Self> {
        match count {
            2 => Some(Self::Two),
            4 => Some(Self::Four),
            6 => Some(Self::Six),
            _ => None,
        }
    }
}

/// The writer's hint of how long a file's data will live (RWH_WRITE_LIFE_*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LifeHint {
    /// The data lives shortly.
    Short,
    /// No hint, or neither short nor extreme.
    #[default]
    Other,
    /// An extremely long time.
    Extreme,
}

/// The facts about a data block that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataFacts {
    /// It belongs to a directory.
    pub directory: bool,
    /// Its inode is cold by name or request, or the file is to be compressed.
    pub cold: bool,
    /// Its inode is hot by name or request, the write-back has few pages (`HOT_PAGES`), or it
    /// belongs to the second inode of an atomic write.
    pub hot: bool,
    /// The writer's hint.
    pub life: LifeHint,
}

/// The facts about a node that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeFacts {
    /// It holds nids instead of addresses.
    pub indirect: bool,
    /// Its footer has the cold bit: it belongs to no directory.
    pub cold_bit: bool,
}

impl ActiveLogs {
    /// The log for a data block.
    pub const fn of_data(self, facts: DataFacts) -> Log {
        match self {
            Self::Two => Log::HotData,
            Self::Four if facts.directory => Log::HotData,
            Self::Four => Log::ColdData,
            Self::Six if facts.cold => Log::ColdData,
            Self::Six if facts.hot => Log::HotData,
            Self::Six => match facts.life {
                LifeHint::Short => Log::HotData,
                LifeHint::Other => Log::WarmData,
                LifeHint::Extreme => Log::ColdData,
            },
        }
    }

    /// The log for a node.
    pub const fn of_node(self, facts: NodeFacts) -> Log {
        match self {
            Self::Two => Log::HotNode,
            Self::Four if !facts.indirect && facts.cold_bit => Log::WarmNode,
            Self::Four => Log::ColdNode,
            Self::Six if facts.indirect => Log::ColdNode,
            Self::Six if facts.cold_bit => Log::WarmNode,
            Self::Six => Log::HotNode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_not_hot_by_themselves_and_what_is_cold_stays_so_whatever_else_it_is() {
        let facts = DataFacts::default();
        let directory = DataFacts { directory: true, ..facts };
        assert_eq!(ActiveLogs::Six.of_data(directory), Log::WarmData);
        assert_eq!(ActiveLogs::Four.of_data(directory), Log::HotData);
        assert_eq!(ActiveLogs::Six.of_data(DataFacts { cold: true, hot: true, ..facts }), Log::ColdData);
        assert_eq!(ActiveLogs::Six.of_data(DataFacts { hot: true, life: LifeHint::Extreme, ..facts }), Log::HotData);
        assert_eq!(ActiveLogs::Six.of_data(DataFacts { life: LifeHint::Extreme, ..facts }), Log::ColdData);
        assert_eq!(ActiveLogs::Two.of_data(DataFacts { cold: true, ..facts }), Log::HotData);
    }

    #[test]
    fn nodes_by_what_they_hold_and_by_the_cold_bit() {
        let facts = |indirect, cold_bit| NodeFacts { indirect, cold_bit };
        let logs = |active: ActiveLogs| {
            [(false, false), (false, true), (true, false), (true, true)].map(|(i, c)| active.of_node(facts(i, c)))
        };
        assert_eq!(logs(ActiveLogs::Six), [Log::HotNode, Log::WarmNode, Log::ColdNode, Log::ColdNode]);
        assert_eq!(logs(ActiveLogs::Four), [Log::ColdNode, Log::WarmNode, Log::ColdNode, Log::ColdNode]);
        assert_eq!(logs(ActiveLogs::Two), [Log::HotNode; 4]);
        assert_eq!((ActiveLogs::of(4), ActiveLogs::of(5)), (Some(ActiveLogs::Four), None));
    }
}
