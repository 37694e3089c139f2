//! Chooses the block to clean next.
//!
//! A file system or translation layer describes its candidates as [`BlockView`]s and asks one
//! [`VictimPolicy`]; it never names a policy, so a new one needs no change there. A policy is a
//! [`VictimRule`] (how blocks compare) with two wrappers that work with every rule: whether blocks
//! without invalid data are candidates, and static wear levelling.
//!
//! ```
//! use nandkit_cleaning::victim::{BlockView, VictimPolicy};
//! use nandkit_units::Nanos;
//!
//! let policy: VictimPolicy = "greedy".parse().unwrap();
//! let block = |block, invalid| BlockView { block, valid: 4096 - invalid, invalid, ..BlockView::default() };
//! let blocks = [block(3, 512), block(7, 2048)];
//! let choice = policy.choose(blocks.iter().copied(), Nanos::ZERO, &mut |_| 0).unwrap();
//! assert_eq!((choice.block, choice.evaluated), (7, 2));
//! ```

pub mod index;
mod name;
mod option;
mod rule;
pub mod rules;
#[cfg(test)]
mod tests;

use nandkit_units::Nanos;

use index::IndexOrder;
pub use name::{PolicyError, current_name, names, options, rule};
pub use option::{OptionInfo, OptionValues, RuleOption};
pub(crate) use option::{option, parse_span};
pub use rule::{Candidates, Draw, VictimRule, random_order};

/// The list in which a list-based cleaner keeps a block, in JFFS2's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// A block with errors that still holds data. The owner offers it only while it has free blocks
    /// to spare (Linux: more free blocks than `resv_blocks_gcbad`, which is 0 in 6.1);
    /// [`rules::jffs2_lists::Jffs2Lists`] then takes it before all others.
    BadUsed,
    /// No valid data; waits to be erased.
    Erasable,
    /// At least half of the block is invalid.
    VeryDirty,
    /// Some of the block is invalid.
    #[default]
    Dirty,
    /// Next to nothing is invalid (Linux: at most a node's header and its least data, 128 bytes).
    Clean,
}

impl Queue {
    /// The list for a block of an owner without lists: `Erasable` without valid data, `Clean`
    /// without invalid data, `VeryDirty` if at least half is invalid.
    pub const fn of(valid: u64, invalid: u64, free: u64) -> Self {
        if invalid == 0 {
            Self::Clean
        } else if valid == 0 {
            Self::Erasable
        } else if invalid >= valid.saturating_add(free) {
            Self::VeryDirty
        } else {
            Self::Dirty
        }
    }
}

/// What a policy may know of a block. The owner only offers blocks that it could clean now: none
/// that is free, bad or open for writing.
///
/// Amounts are in bytes if the owner writes nodes of any length (JFFS2), in logical pages if it
/// writes these (page-mapped layer): the same unit in all views of one choice.
///
/// Times and counts that a format does not store start at 0 after a mount; see `erase-offset` of
/// `cat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockView {
    /// The block's number, unique within one choice.
    pub block: u32,
    /// Valid data, which cleaning would copy.
    pub valid: u64,
    /// What cleaning would gain besides free space: obsolete and wasted data.
    pub invalid: u64,
    /// Space not written since the last erase.
    pub free: u64,
    /// The number of erases so far.
    pub erases: u32,
    /// When the block was last written.
    pub written: Nanos,
    /// When the block was first written since its last erase.
    pub first_written: Nanos,
    /// The mean time of changes, if the owner keeps one, as F2FS does; F2FS's rules use it instead
    /// of `written`.
    pub mean_written: Option<Nanos>,
    /// The list that contains it.
    pub queue: Queue,
    /// The position within `queue`; the least is the head.
    pub place: i64,
    /// The position in a combined list of `Dirty` and `VeryDirty`, ordered by when blocks first had
    /// invalid data; it is kept when a block changes between the two. The least is the head.
    pub dirtied: i64,
    /// The region of [`crate::separation`] it belongs to.
    pub region: u8,
}

impl BlockView {
    /// The time from which F2FS counts ages.
    fn modified(&self) -> Nanos {
        self.mean_written.unwrap_or(self.written)
    }

    /// The size of the whole block.
    pub const fn capacity(&self) -> u64 {
        self.valid.saturating_add(self.invalid).saturating_add(self.free)
    }
}

/// Why a block was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was the head of this list.
    Head(Queue),
    /// It compared best.
    Best,
    /// It was drawn.
    Drawn,
    /// Static wear levelling chose it.
    Leveling,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The block to clean.
    pub block: u32,
    /// Reason for the choice.
    pub reason: Reason,
    /// Blocks whose figures the policy examines for this choice with the data structures that its
    /// authors describe: 1 for the head of a list, `d` for d-choices, all for greedy. Used to
    /// account CPU time.
    pub evaluated: u32,
}

/// Static wear levelling: occasionally cleans a block that no rule would take, because its data
/// never changes, so that it takes part in wear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Leveling {
    /// None beyond the rule's own. The default.
    #[default]
    None,
    /// One victim in this many (by draw; 0 means never) is the coldest block.
    OneIn {
        /// The mean number of victims between two such ones.
        victims: u32,
        /// What the coldest block is.
        coldest: Coldest,
    },
    /// Takes the least-erased block, the longest unwritten among equals, whenever the erase counts
    /// of the offered blocks differ by more than this (as UBI does with
    /// `CONFIG_MTD_UBI_WL_THRESHOLD`).
    Gap {
        /// The greatest difference that is tolerated.
        erases: u32,
    },
}

/// The meaning of the coldest block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Coldest {
    /// The one unwritten longest, the least erased among equals. The default.
    #[default]
    Oldest,
    /// The least erased one, the longest unwritten among equals.
    LeastErased,
}

/// A rule and its wrappers. [`VictimPolicy::named`] and `FromStr` make one from a name; `Display`
/// gives the name back. The default is [`rules::greedy::Greedy`].
#[derive(Clone, Copy, Debug)]
pub struct VictimPolicy {
    /// How blocks compare.
    pub rule: &'static dyn VictimRule,
    /// The rule's options.
    options: OptionValues,
    /// Whether blocks of the queue `Clean` are candidates; `None`: as the rule's authors decide
    /// ([`VictimRule::opens_clean`]). Wear levelling always sees them.
    pub open_clean: Option<bool>,
    /// Static wear levelling.
    pub leveling: Leveling,
}

impl Default for VictimPolicy {
    fn default() -> Self {
        Self::of(&rules::greedy::Greedy)
    }
}

/// Rules with the same name are equal.
impl PartialEq for VictimPolicy {
    fn eq(&self, other: &Self) -> bool {
        (self.name(), self.options, self.open_clean, self.leveling)
            == (other.name(), other.options, other.open_clean, other.leveling)
    }
}

/// Candidates passed to a rule at once: its loop over them is compiled for the rule, and the
/// virtual call is paid once per chunk.
const CHUNK: usize = 16;

impl VictimPolicy {
    /// The block to clean next; `None` without candidates. Ties go to the lowest block number, and
    /// the order in which blocks are offered does not matter.
    ///
    /// `draw(n)` gives a uniform number in `0..n` from a seeded stream. A policy calls it at most
    /// twice per choice; how often depends on the policy alone.
    ///
    /// Cost: one pass over the blocks, one more if a rule needs the range of a figure or wear
    /// levelling is on; only rules with a window allocate.
    pub fn choose<I>(&self, blocks: I, now: Nanos, draw: &mut impl FnMut(u32) -> u32) -> Option<Choice>
    where
        I: IntoIterator<Item = BlockView>,
        I::IntoIter: Clone,
    {
        let all = blocks.into_iter();
        if let Some(choice) = self.level(all.clone(), draw) {
            return Some(choice);
        }
        let open_clean = self.open_clean.unwrap_or(self.rule.opens_clean());
        let visit = |each: &mut dyn FnMut(&[BlockView])| {
            let mut chunk = [BlockView::default(); CHUNK];
            let mut length = 0;
            for view in all.clone().filter(|view| open_clean || view.queue != Queue::Clean) {
                chunk[length] = view;
                length += 1;
                if length == CHUNK {
                    each(&chunk);
                    length = 0;
                }
            }
            each(&chunk[..length]);
        };
        self.rule.choose(&Candidates { now, open_clean, visit: &visit }, &self.options, draw)
    }

    /// As [`Self::choose`], for candidates that are already listed: compiled once.
    pub fn choose_among(&self, blocks: &[BlockView], now: Nanos, draw: &mut Draw<'_>) -> Option<Choice> {
        self.choose(blocks.iter().copied(), now, &mut |bound| draw(bound))
    }

    /// The order in which an index can keep the candidates for this policy; `None` if it looks at
    /// all of them.
    pub fn index_order(&self) -> Option<IndexOrder> {
        (self.leveling == Leveling::None).then(|| self.rule.index(&self.options)).flatten()
    }

    /// The victim of static wear levelling, if one is due.
    fn level(
        &self,
        blocks: impl Iterator<Item = BlockView> + Clone,
        draw: &mut impl FnMut(u32) -> u32,
    ) -> Option<Choice> {
        let coldest = match self.leveling {
            Leveling::None | Leveling::OneIn { victims: 0, .. } => return None,
            Leveling::OneIn { victims, coldest } => (draw(victims) == 0).then_some(coldest)?,
            Leveling::Gap { erases } => {
                let (least, most) =
                    blocks.clone().fold((u32::MAX, 0), |(least, most), b| (least.min(b.erases), most.max(b.erases)));
                (most.saturating_sub(least) > erases).then_some(Coldest::LeastErased)?
            }
        };
        let mut evaluated = 0;
        let victim = blocks.inspect(|_| evaluated += 1).min_by_key(|view| {
            let (age, wear) = (view.written.get(), u64::from(view.erases));
            let (first, second) = if coldest == Coldest::Oldest { (age, wear) } else { (wear, age) };
            (first, second, view.block)
        })?;
        Some(Choice { block: victim.block, reason: Reason::Leveling, evaluated })
    }
}
