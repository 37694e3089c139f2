//! Contents as far as they can be read.

use nandkit_vfs::source::SourceTree;

/// Bytes that are read by themselves where a chunk cannot be read, and that become zeroes where they cannot either.
pub const UNIT: usize = 4096;

/// The first offset of a file that could not be read, and how much of the file is missing.
#[derive(Debug, Default)]
pub struct Damage {
    first: Option<(u64, String)>,
    bytes: u64,
}

impl Damage {
    /// What to say of a file of `size` bytes; nothing where all of it was read.
    pub fn note(&self, size: u64) -> Option<String> {
        let (offset, cause) = self.first.as_ref()?;
        Some(format!("{} of {size} bytes are missing, first at {offset}: {cause}", self.bytes))
    }
}

/// Fills all of `chunk` with a file's content from `offset` on.
pub fn read(tree: &dyn SourceTree, node: usize, offset: u64, chunk: &mut [u8], damage: &mut Damage) {
    if tree.read(node, offset, chunk).is_ok_and(|count| count == chunk.len()) {
        return;
    }
    for (number, unit) in chunk.chunks_mut(UNIT).enumerate() {
        let at = offset + (number * UNIT) as u64;
        let read = tree.read(node, at, unit);
        let count = (*read.as_ref().unwrap_or(&0)).min(unit.len());
        let missing = unit.get_mut(count..).unwrap_or_default();
        if missing.is_empty() {
            continue;
        }
        missing.fill(0);
        damage.bytes += missing.len() as u64;
        damage.first.get_or_insert_with(|| {
            let cause = match read {
                Ok(_) => "the content ends before the file's size".to_owned(),
                Err(error) => error.to_string(),
            };
            (at + count as u64, cause)
        });
    }
}
