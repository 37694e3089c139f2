//! What the model can hold, so that it equals the format that it judges.

use crate::Features;

/// Which names a format holds, besides the rule for all (not empty, no `/`, no NUL, not `.` and
/// `..`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// Any bytes; `name_max` counts bytes.
    #[default]
    Bytes,
    /// As FAT's long names: valid UTF-8 of at most 255 UTF-16 units, no control characters, none of
    /// `" * : < > ? \ |`, no full stop or space at the end (Microsoft, FAT32 File System
    /// Specification 1.03, "long names"; Windows takes such ends away, the model refuses them).
    FatLong,
}

/// How the model behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOptions {
    /// What it can hold. Without `case_sensitive`, names that differ in case are the same name, and
    /// the case is kept as first written.
    pub features: Features,
    /// Whether a name that is renamed to itself in another case takes the new spelling; else
    /// nothing happens, as Linux has it for F2FS and ext4 (fs/namei.c, `vfs_rename`: both names are
    /// one inode's). Without meaning where case counts.
    pub respells: bool,
    /// Which names it holds.
    pub name_rule: NameRule,
    /// Longest name in bytes.
    pub name_max: u32,
    /// Bytes of the allocation unit, at least 1.
    pub block_size: u32,
    /// Allocation units in all: of contents, directories (beyond empty ones), long symbolic links
    /// and attributes.
    pub capacity_blocks: u64,
    /// Inodes in all; 0 for no limit.
    pub inodes: u64,
    /// Largest file in bytes.
    pub file_size_max: u64,
    /// Most names of one inode.
    pub links_max: u32,
    /// Longest value of an extended attribute in bytes.
    pub xattr_value_max: u32,
    /// Longest target of a symbolic link in bytes.
    pub target_max: u32,
    /// Whether space can be allocated ahead and holes punched.
    pub allocation: bool,
    /// Whether inodes can be retained after their last name went.
    pub open_files: bool,
}

impl ModelOptions {
    /// All of POSIX on a volume of 1 GiB with blocks of 4 KiB.
    pub const POSIX: Self = Self {
        features: Features::POSIX,
        respells: true,
        name_rule: NameRule::Bytes,
        name_max: 255,
        block_size: 4096,
        capacity_blocks: 1 << 18,
        inodes: 0,
        file_size_max: 1 << 44,
        links_max: 65_000,
        xattr_value_max: 65_536,
        // Linux' PATH_MAX (limits.h) less the NUL.
        target_max: 4095,
        allocation: true,
        open_files: true,
    };

    /// What FAT holds: names without case, times in steps of two seconds, files under 4 GiB, no
    /// holes; of the capabilities space that is allocated ahead, and open files.
    pub const FAT: Self = Self {
        features: Features {
            case_sensitive: false,
            permissions: false,
            owners: false,
            owner_max: u32::MAX,
            hard_links: false,
            symlinks: false,
            device_nodes: false,
            holes: false,
            xattrs: false,
            posix_acls: false,
            exchange: false,
            atomic_writes: false,
            accessed_times: false,
            modified_step_ns: 2_000_000_000,
        },
        name_rule: NameRule::FatLong,
        // 255 UTF-16 units of up to three UTF-8 bytes each.
        name_max: 765,
        file_size_max: u32::MAX as u64,
        links_max: 1,
        ..Self::POSIX
    };

    /// The same with another number of allocation units.
    pub const fn with_capacity(mut self, capacity_blocks: u64) -> Self {
        self.capacity_blocks = capacity_blocks;
        self
    }
}
