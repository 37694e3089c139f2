//! What the model can store, set to match the format under test.

use crate::Features;

/// Which names a format accepts, beyond the general rule (not empty, no `/`, no NUL, not `.` or
/// `..`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// Any bytes; `name_max` counts bytes.
    #[default]
    Bytes,
    /// FAT's long names: valid UTF-8 of at most 255 UTF-16 units, no control characters, no full
    /// stop or space at the end, and none of `" * : < > ? \ |` (Microsoft, FAT32 File System
    /// Specification 1.03, "long names"; Windows strips such endings, the model refuses them).
    FatLong,
}

/// How the model behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOptions {
    /// What the volume can store. Without `case_sensitive`, names that differ only in case are
    /// equal, and a name keeps the case it was first written in.
    pub features: Features,
    /// Whether renaming a name to itself in another case changes its spelling. If not, nothing
    /// happens, as in Linux for F2FS and ext4 (fs/namei.c, `vfs_rename`: both names are one
    /// inode's). Unused if names are case-sensitive.
    pub respells: bool,
    /// Which names are accepted.
    pub name_rule: NameRule,
    /// Longest name in bytes.
    pub name_max: u32,
    /// Bytes of the allocation unit, at least 1.
    pub block_size: u32,
    /// Allocation units in total: for contents, directories (beyond empty ones), long symbolic
    /// links and attributes.
    pub capacity_blocks: u64,
    /// Inodes in total; 0 for no limit.
    pub inodes: u64,
    /// Largest file in bytes.
    pub file_size_max: u64,
    /// Most names per inode.
    pub links_max: u32,
    /// Longest value of an extended attribute in bytes.
    pub xattr_value_max: u32,
    /// Longest target of a symbolic link in bytes.
    pub target_max: u32,
    /// Whether space can be allocated ahead and holes punched.
    pub allocation: bool,
    /// Whether inodes can be retained after their last name is removed.
    pub open_files: bool,
}

impl ModelOptions {
    /// All of POSIX on a volume of 1 GiB with 4 KiB blocks.
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
        // Linux' PATH_MAX (limits.h) minus the NUL.
        target_max: 4095,
        allocation: true,
        open_files: true,
    };

    /// What FAT can store: names without case, times in two-second steps, files under 4 GiB, no
    /// holes. Capabilities: allocation ahead, and open files.
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

    /// These options with another number of allocation units.
    pub const fn with_capacity(mut self, capacity_blocks: u64) -> Self {
        self.capacity_blocks = capacity_blocks;
        self
    }
}
