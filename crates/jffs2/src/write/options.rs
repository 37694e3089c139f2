//! Options for writing and collecting.

use nandkit_cleaning::separation::Separation;
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_cleaning::victim::rules::jffs2_lists::Jffs2Lists;
use nandkit_codec::compression::Compression;
use nandkit_units::Nanos;

/// How data are compressed. In every mode, data that do not shrink are stored uncompressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CompressionMode {
    /// No compression.
    None,
    /// The first of LZO, zlib and rtime that makes the data shorter: Linux's default
    /// (fs/jffs2/compr.c; the order follows the priorities in compr.h).
    #[default]
    Priority,
    /// The one of these methods with the shortest result.
    Size,
    /// Always this method. A read-only method counts as none.
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

/// The source of a policy's random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Draws {
    /// Ticks, counted from a seeded number on, modulo what is asked for, as the kernel does
    /// (fs/jffs2/gc.c takes `jiffies % 128`). A list then counts by what passes, not by victims:
    /// victims that take long are rarer, which the kernel's write amplification shows. A tick
    /// passes whenever the volume has programmed this many bytes: a tick then stands for the same
    /// work on every chip, whatever time the chip takes for it.
    Work(u64),
    /// Ticks of this length on the volume's clock (4 ms in Debian's Linux), otherwise as in
    /// [`Self::Work`].
    Ticks(Nanos),
    /// A seeded stream of independent random numbers, for policies that require chance.
    Independent,
}

/// The bytes that are programmed in a tick.
pub const TICK_BYTES: u64 = 64 << 10;

/// What writing and collecting need to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteOptions {
    /// How data are compressed.
    pub compression: CompressionMode,
    /// Whether full blocks end in a summary of their nodes, which makes mounts fast.
    pub summaries: bool,
    /// Which block is collected next.
    pub policy: VictimPolicy,
    /// The source of the policy's random numbers.
    pub draws: Draws,
    /// Which of several open blocks receives new and moved data.
    pub separation: Separation,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Least time between two passes of the background collector, which works while there are
    /// blocks to erase, few free blocks, or many very dirty ones; `None`: the collector only works
    /// when space is needed. Linux: 50 ms.
    pub background: Option<Nanos>,
    /// Whether to continue in the block that the mount found with the most space, as Linux does,
    /// instead of opening a new one: for devices on which no power cut can leave a page that only
    /// looks erased, such as files.
    pub reopen: bool,
}

impl Default for WriteOptions {
    /// Linux' options, without the background collector.
    fn default() -> Self {
        Self {
            compression: CompressionMode::default(),
            summaries: true,
            policy: VictimPolicy::of(&Jffs2Lists),
            // With ticks by work, which do not pass while nothing is programmed, a nearly full
            // volume of small blocks may choose the same list in vain until it has no space.
            draws: Draws::Ticks(Nanos::from_millis(4)),
            separation: Separation::None,
            seed: 0,
            background: None,
            reopen: false,
        }
    }
}
