//! Writing: nodes go to the heads of the journal, and from time to time a commit makes the index on
//! flash know them.
//!
//! Design: `docs/design/21-ubifs-writer.md`. Rules: Linux `fs/ubifs`, named where they are.

mod attributes;
mod budget;
mod buffers;
mod changes;
mod collect;
mod commit;
mod data;
mod group;
mod index;
mod inodes;
mod log;
mod lpt;
mod master;
mod names;
mod open;
mod orphans;
mod pages;
mod rename;
mod space;
mod xattr;

use std::collections::{BTreeMap, BTreeSet};

use nandkit_cleaning::victim::VictimPolicy;
use nandkit_cleaning::victim::rules::most_gain::MostGain;
use nandkit_codec::compression::{Compression, Level};
use nandkit_units::Clock;
use nandkit_units::random::Random;
use nandkit_vfs::{ErrorKind, FsError, Result, Timestamp};

use crate::mount::Ubifs;
use crate::node::Place;
use crate::pack::Packer;
use crate::properties::Areas;
use log::LogState;
use lpt::Lpt;
use space::Space;

pub(crate) use buffers::Buffers;
pub(crate) use inodes::InodeAndData;
pub(crate) use pages::Pages;

/// How a volume is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Compression of new files' data; `None` for the volume's own.
    pub compression: Option<Compression>,
    /// Effort of the compression.
    pub level: Level,
    /// Which LEB is collected next. Ages and erases count from the mount on.
    pub policy: VictimPolicy,
    /// Seed of what the policy draws.
    pub seed: u64,
    /// Bytes of pages that may wait in memory until they are synced; 0: what is written goes to the
    /// journal at once.
    pub dirty_max: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { compression: None, level: Level::BEST, policy: VictimPolicy::of(&MostGain), seed: 0, dirty_max: 0 }
    }
}

/// What a writer did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Commits.
    pub commits: u64,
    /// LEBs collected, of files and of the index.
    pub collected: u64,
    /// Bytes of nodes that the collector moved.
    pub moved_bytes: u64,
    /// Index nodes written.
    pub index_nodes: u64,
    /// LEBs of the index that were written in their gaps.
    pub gap_lebs: u64,
}

/// The state of a volume that is written.
pub(crate) struct Writer {
    areas: Areas,
    /// Bytes that the flash takes at once.
    unit: u32,
    /// The last sequence number that was given.
    sequence: u64,
    /// The number of the last commit.
    commit: u64,
    highest_inode: u32,
    space: Space,
    log: LogState,
    lpt: Lpt,
    /// Where the next node of the index goes.
    index_head: (u32, u32),
    /// Index nodes of the last commit that are out of use: the flash needs them until the next one.
    old_index: Vec<Place>,
    /// The empty LEB for the collector.
    collector_leb: Option<u32>,
    /// Where the next master node goes in both LEBs.
    master_offset: u32,
    /// Inodes without a name that are open.
    orphans: BTreeSet<u32>,
    /// Whether the orphan area holds nodes.
    has_orphan_nodes: bool,
    /// How often open inodes were retained.
    retained: BTreeMap<u32, u32>,
    /// Whether the journal is so full that a commit is to come soon.
    wants_commit: bool,
    /// Whether anything was written since the last commit.
    is_changed: bool,
    /// Whether the last search for space was in vain, and nothing was freed since.
    is_full: bool,
    /// Why nothing can be written any more.
    broken: Option<String>,
    clock: Clock,
    packer: Packer,
    options: WriteOptions,
    /// What the victim policy draws from.
    random: Random,
    counters: WriteCounters,
}

impl Writer {
    fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.saturating_add(1);
        self.sequence
    }

    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.clock.unix_ns()).unwrap_or(i64::MAX))
    }
}

impl Ubifs {
    /// What was written since the volume was mounted; zeroes if it is for reading.
    pub fn write_counters(&self) -> WriteCounters {
        self.writer.as_deref().map_or_else(WriteCounters::default, |writer| writer.counters)
    }

    /// The clock of a volume that is written.
    pub fn clock(&self) -> Option<&Clock> {
        self.writer.as_deref().map(|writer| &writer.clock)
    }

    /// The state for writing. Errors: `ReadOnly` if there is none, or an error ended it.
    fn writer(&mut self) -> Result<&mut Writer> {
        let read_only = |why: &str| Err(FsError::new(ErrorKind::ReadOnly, why));
        match self.writer.as_deref_mut() {
            None => read_only("the volume is mounted for reading"),
            Some(Writer { broken: Some(why), .. }) => {
                read_only(&format!("an error ended the changes, and they cannot go on: {why}"))
            }
            Some(writer) => Ok(writer),
        }
    }

    /// Ends all changes if a step failed that must not fail half way.
    fn or_broken<T>(&mut self, result: Result<T>) -> Result<T> {
        if let (Err(error), Some(writer)) = (&result, self.writer.as_deref_mut()) {
            writer.broken.get_or_insert_with(|| error.to_string());
        }
        result
    }
}
