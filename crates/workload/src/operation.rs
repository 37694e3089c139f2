//! Operations on files and on blocks, and the two kinds of streams that yield them.

use nandkit_units::{Description, Lba, Nanos};

use crate::error::{Result, WorkloadError};

/// The parts of a run; counters are kept for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Brings the data set onto the empty volume or device.
    Fill,
    /// Brings the volume into the state in which it is measured.
    Age,
    /// The part that is measured.
    Measure,
}

impl Phase {
    /// All phases in their order.
    pub const ALL: [Self; 3] = [Self::Fill, Self::Age, Self::Measure];

    /// The name that records use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Age => "age",
            Self::Measure => "measure",
        }
    }
}

/// Kinds of operations; each has its own latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum OperationKind {
    Read,
    Write,
    /// A flush of a device, a sync of a file or of a volume.
    Sync,
    Trim,
    /// Maps sectors to the content of others, without writing it.
    Remap,
    /// Finding a file by its path.
    Open,
    Create,
    Truncate,
    Rename,
    Remove,
    MakeDirectory,
    RemoveDirectory,
}

impl OperationKind {
    /// How many kinds there are.
    pub const COUNT: usize = 12;

    /// All kinds in the order of their index.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Trim,
        Self::Remap,
        Self::Open,
        Self::Create,
        Self::Truncate,
        Self::Rename,
        Self::Remove,
        Self::MakeDirectory,
        Self::RemoveDirectory,
    ];

    /// The kind's place in a table with [`OperationKind::COUNT`] entries.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name that records use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Trim => "trim",
            Self::Remap => "remap",
            Self::Open => "open",
            Self::Create => "create",
            Self::Truncate => "truncate",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::MakeDirectory => "make_directory",
            Self::RemoveDirectory => "remove_directory",
        }
    }
}

/// A workload's own number for a file or directory; free for another one after its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSlot(pub u32);

impl FileSlot {
    /// The root directory, which is there from the start.
    pub const ROOT: Self = Self(0);
}

/// Which bytes a write puts into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileData {
    /// Bytes that can be made from their description.
    Described(Description),
    /// Bytes of one of the workload's originals ([`FileWorkload::original`]), from `offset` on.
    Original {
        /// The original's number.
        number: u32,
        /// The first byte within it.
        offset: u64,
    },
}

impl FileData {
    /// The same stream, `bytes` further on.
    pub(crate) fn advanced(self, bytes: u64) -> Option<Self> {
        match self {
            Self::Described(description) => description.advanced(u32::try_from(bytes).ok()?).map(Self::Described),
            Self::Original { number, offset } => {
                offset.checked_add(bytes).map(|offset| Self::Original { number, offset })
            }
        }
    }

    /// The content of one piece of a write, counted from 0: of an original its bytes in their
    /// order, else a record of its own, since making a part of a record costs as much as making all
    /// before it. Records are counted from 0, and pieces are fewer than 2^16.
    pub(crate) fn piece(self, piece: u32) -> Self {
        match self {
            Self::Described(description) => {
                Self::Described(Description { record: description.record ^ u64::from(piece) << 48, ..description })
            }
            Self::Original { number, offset } => {
                let before = u64::from(piece) * u64::from(crate::PIECE_BYTES_MAX);
                Self::Original { number, offset: offset.saturating_add(before) }
            }
        }
    }
}

/// One operation on a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FileOperation {
    MakeDirectory {
        slot: FileSlot,
        parent: FileSlot,
        name: Vec<u8>,
    },
    Create {
        slot: FileSlot,
        parent: FileSlot,
        name: Vec<u8>,
    },
    /// Looks the path up from the root, as a program that opens the file does.
    Open {
        slot: FileSlot,
    },
    Write {
        slot: FileSlot,
        offset: u64,
        length: u32,
        data: FileData,
    },
    Read {
        slot: FileSlot,
        offset: u64,
        length: u32,
    },
    Truncate {
        slot: FileSlot,
        size: u64,
    },
    /// To a name that is free.
    Rename {
        slot: FileSlot,
        parent: FileSlot,
        name: Vec<u8>,
    },
    Remove {
        slot: FileSlot,
    },
    RemoveDirectory {
        slot: FileSlot,
    },
    /// One file, or with `None` the volume.
    Sync {
        slot: Option<FileSlot>,
    },
    /// The next operation arrives at this instant after the start of the phase (open loop).
    Arrive {
        at: Nanos,
    },
}

impl FileOperation {
    /// The kind under which the operation is counted; `None` for [`FileOperation::Arrive`].
    pub const fn kind(&self) -> Option<OperationKind> {
        Some(match self {
            Self::MakeDirectory { .. } => OperationKind::MakeDirectory,
            Self::Create { .. } => OperationKind::Create,
            Self::Open { .. } => OperationKind::Open,
            Self::Write { .. } => OperationKind::Write,
            Self::Read { .. } => OperationKind::Read,
            Self::Truncate { .. } => OperationKind::Truncate,
            Self::Rename { .. } => OperationKind::Rename,
            Self::Remove { .. } => OperationKind::Remove,
            Self::RemoveDirectory { .. } => OperationKind::RemoveDirectory,
            Self::Sync { .. } => OperationKind::Sync,
            Self::Arrive { .. } => return None,
        })
    }
}

/// A stream of operations on files: a pure function of spec, seed and free space, whatever the file
/// system answers.
pub trait FileWorkload: Send {
    /// Goes to a phase; the answer is how many operations it will have, where that is known.
    fn begin(&mut self, phase: Phase) -> Option<u64>;

    /// The phase's next operation; `None` at its end.
    fn next_operation(&mut self) -> Result<Option<FileOperation>>;

    /// Fills `into` with bytes of an original, from `offset` on. Called when they are written and
    /// again when they are compared.
    fn original(&mut self, number: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        let _ = (offset, into);
        Err(WorkloadError::inconsistent(format!("it has no original {number}")))
    }
}

/// Kinds of operations on a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BlockOperationKind {
    Read,
    Write,
    Flush,
    Trim,
    /// Maps the sectors to the content of as many others, which keep it.
    Share {
        /// The first sector of the others.
        source: Lba,
    },
}

impl BlockOperationKind {
    /// The kind under which the operation is counted.
    #[inline]
    pub const fn counted(self) -> OperationKind {
        match self {
            Self::Read => OperationKind::Read,
            Self::Write => OperationKind::Write,
            Self::Flush => OperationKind::Sync,
            Self::Trim => OperationKind::Trim,
            Self::Share { .. } => OperationKind::Remap,
        }
    }
}

/// One operation on a block device. Its content, for a write, is the driver's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOperation {
    /// What to do.
    pub kind: BlockOperationKind,
    /// The first sector.
    pub at: Lba,
    /// How many; 0 for a flush.
    pub sectors: u32,
    /// Bytes asked for: fewer than the sectors hold where a trace wrote or read a part of a sector.
    pub bytes: u64,
    /// When it arrives after the start of the phase (open loop); `None`: as soon as the queue has
    /// room (closed loop).
    pub arrival: Option<Nanos>,
}

/// A stream of operations on blocks: a pure function of spec, seed and geometry.
pub trait BlockWorkload: Send {
    /// Goes to a phase; the answer is how many operations it will have, where that is known.
    fn begin(&mut self, phase: Phase) -> Option<u64>;

    /// The phase's next operation; `None` at its end.
    fn next_operation(&mut self) -> Result<Option<BlockOperation>>;

    /// How many operations are outstanding in a closed loop.
    fn queue_depth(&self) -> u32 {
        1
    }

    /// The sectors of a unit, where all writes and trims cover whole units of the same size,
    /// counted from sector 0. It makes verification cheaper. At most [`crate::PIECE_BYTES_MAX`].
    fn unit_sectors(&self) -> Option<u32> {
        None
    }
}
