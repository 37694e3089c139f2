//! What writing and collecting need to know.

use nandkit_cleaning::separation::Separation;
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_cleaning::victim::rules::jffs2_lists::Jffs2Lists;
use nandkit_codec::compression::Compression;
use nandkit_units::Nanos;

/// How data are compressed. Whatever the mode, data that do not get shorter stand as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CompressionMode {
    /// Not at all.
    None,
    /// The first of LZO, zlib and rtime that makes the data shorter: Linux's default
    /// (fs/jffs2/compr.c; the order by the priorities of compr.h).
    #[default]
    Priority,
    /// The one of these that makes the data shortest.
    Size,
    /// Always this one. A method that is only read counts as none.
    Only(Compression),
}

impl CompressionMode {
    /// The methods to try, in this order.
    pub(super) const fn methods(&self) -> &[Compression] {
        match self {
            Self::None => &[],
            Self::Priority | Self::Size => &[Compression::Lzo, Compression::Zlib, Compression::Rtime],
            Self::Only(method) => std::slice::from_ref(method),
        }
    }
}

/// Where the draws of a policy come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Draws {
    /// The ticks of this length on the volume's clock, counted from a seeded instant, modulo what
    /// is asked for: what the kernel does (fs/jffs2/gc.c takes `jiffies % 128`; Debian's ticks are
    /// 4 ms). A list then counts by time, not by victims: victims that take long are rarer, which
    /// the kernel's write amplification shows.
    Ticks(Nanos),
    /// A seeded stream of independent draws: for policies that mean chance.
    Independent,
}

/// What writing and collecting need to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteOptions {
    /// How data are compressed.
    pub compression: CompressionMode,
    /// Whether full blocks end in a summary of their nodes, which makes mounts fast.
    pub summaries: bool,
    /// Which block is collected next.
    pub policy: VictimPolicy,
    /// Where the policy's draws come from.
    pub draws: Draws,
    /// Into which of several open blocks new and moved data go.
    pub separation: Separation,
    /// The seed of all draws.
    pub seed: u64,
    /// The least time between two passes of the background collector, which works as long as there
    /// are blocks to erase, few free or many very dirty ones; `None`: the collector works only when
    /// space is needed. Linux: 50 ms.
    pub background: Option<Nanos>,
    /// Whether writing goes on in the block that the mount found with the most room, as in Linux,
    /// and not in a new one: for devices on which no power cut can leave a page that looks erased
    /// and is not, as files are.
    pub reopen: bool,
}

impl Default for WriteOptions {
    /// As Linux, without the background collector.
    fn default() -> Self {
        Self {
            compression: CompressionMode::default(),
            summaries: true,
            policy: VictimPolicy::of(&Jffs2Lists),
            draws: Draws::Ticks(Nanos::from_millis(4)),
            separation: Separation::None,
            seed: 0,
            background: None,
            reopen: false,
        }
    }
}
