//! Working with whole paths, files and trees of a [`FileSystem`](crate::FileSystem).
//!
//! Everything here expects hostile images: directories that contain themselves, names with `/`,
//! absurd sizes. Nothing recurses, all loops are bounded, and whatever is impossible is reported
//! with its path.

mod compare;
mod copy;
mod files;
mod resolve;
mod walk;

pub use compare::{CompareOptions, Difference, DifferenceKind, compare_trees};
pub use copy::{CopyOptions, CopyReport, copy_tree};
pub use files::{make_directories, read_file, read_inode, remove_tree, write_file, write_inode};
pub use resolve::{COMPONENTS_MAX, Follow, SYMLINKS_MAX, link_target, resolve, resolve_parent, split};
pub use walk::{
    DEPTH_MAX, ENTRIES_MAX, Next, OwnedEntry, PATH_BYTES_EACH, PATH_BYTES_MAX, PathBudget, Step, check_readable,
    sorted_entries, walk,
};

/// Largest file in bytes that is read whole, copied or compared: a hostile image can claim 2^63
/// bytes of holes.
pub const FILE_BYTES_MAX: u64 = 1 << 36;

/// Bytes per read or write.
const CHUNK: usize = 1 << 17;

/// A path for messages, on one line and with one leading slash.
fn show(path: &[u8]) -> String {
    let mut shown = String::from("/");
    for character in String::from_utf8_lossy(path).trim_start_matches('/').chars() {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests;
