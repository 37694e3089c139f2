//! Mount options.

use nandkit_codec::code_page::CodePage;
use nandkit_units::Nanos;

/// When the batch of changes is written, as a whole and in the safe order. A sync always writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteBack {
    /// After each operation.
    #[default]
    Through,
    /// Dirty sectors stay in memory until a limit is reached.
    Back {
        /// Write after an operation that leaves more dirty sectors than this.
        dirty_limit: usize,
        /// Write at the end of an operation if the batch is this old.
        age_limit: Nanos,
    },
}

/// Where sectors are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// No cache: each operation is on the device when it returns, in the safe order. Reads keep
    /// only the last used metadata sector.
    #[default]
    None,
    /// In memory.
    Sectors {
        /// Most clean sectors in the cache, which drops the least recently used one. Dirty sectors
        /// are limited by the write-back rule, and by what one operation changes.
        sectors: usize,
        /// When the batch of changes is written.
        write_back: WriteBack,
        /// Whether file data are cached too, or only metadata.
        data: bool,
    },
}

/// What the sync of a file makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSync {
    /// All pending changes.
    #[default]
    Everything,
    /// The file's own data and all metadata, like Linux's `fsync` (fs/fat/file.c,
    /// `fat_file_fsync`): data of other files may be lost, and their new sizes then expose old
    /// content of their clusters.
    OwnData,
}

/// Options for mounting a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The cache of sectors.
    pub cache: Cache,
    /// Whether the device is flushed between the phases of a commit. Without flushes, a power cut
    /// costs no more than lost clusters only if the device completes writes in the order of issue;
    /// sync always flushes.
    pub barriers: bool,
    /// What the sync of a file makes durable.
    pub file_sync: FileSync,
    /// Allows no changes, not even repairs.
    pub read_only: bool,
    /// The code page for bytes above 0x7F in short names.
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
