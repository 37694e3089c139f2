//! How a volume is mounted.

use nandkit_codec::code_page::CodePage;
use nandkit_units::Nanos;

/// When the batch of changes is written, as a whole and in the safe order. At a sync it always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteBack {
    /// After each operation.
    #[default]
    Through,
    /// Later.
    Back {
        /// When more sectors than this are dirty after an operation.
        dirty_limit: usize,
        /// When an operation ends and the batch is this old.
        age_limit: Nanos,
    },
}

/// Where sectors wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Nowhere: each operation is on the device when it returns, in the safe order. Reading keeps
    /// the one metadata sector last used.
    #[default]
    None,
    /// In memory.
    Sectors {
        /// Clean sectors kept; the least recently used one goes. Dirty ones are bounded by the
        /// write-back rule, and by what one operation changes.
        sectors: usize,
        /// When the batch of changes is written.
        write_back: WriteBack,
        /// Whether file data waits too, or only metadata.
        data: bool,
    },
}

/// What a sync of one file makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSync {
    /// Everything that waits.
    #[default]
    Everything,
    /// Its own data and all metadata, as Linux's `fsync` does (fs/fat/file.c, `fat_file_fsync`):
    /// data of other files may be lost, and their new sizes show what was in their clusters before.
    OwnData,
}

/// How a volume is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The sector cache.
    pub cache: Cache,
    /// Whether the phases of a commit are kept apart by a flush of the device. Without, the device
    /// must complete writes in order of issue for a power cut to cost no more than lost clusters;
    /// sync flushes in any case.
    pub barriers: bool,
    /// What a sync of one file makes durable.
    pub file_sync: FileSync,
    /// No changes, not even repair.
    pub read_only: bool,
    /// The page of the bytes above 0x7F in short names.
    pub code_page: CodePage,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            cache: Cache::None,
            barriers: true,
            file_sync: FileSync::Everything,
            read_only: false,
            code_page: CodePage::default(),
        }
    }
}
