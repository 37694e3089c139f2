//! Files with holes in an archive: version 1.0 of GNU's PAX sparse files, as
//! `tar --sparse --format=posix` writes them (GNU tar manual, "Storing Sparse Files").

use std::ops::Range;

use nandkit_vfs::source::{SourceTree, to_read};

use crate::archive::EXTENTS_MAX;

/// The file has more runs than readers accept in a map.
pub struct TooMany;

/// The runs of a file's data, in whole archive blocks up to the file's end: GNU tar starts each run
/// in its own block, other readers do not. `None` if it has no hole.
pub fn runs(tree: &dyn SourceTree, node: usize, size: u64) -> Result<Option<Vec<Range<u64>>>, TooMany> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut offset = 0;
    while offset < size {
        let run = to_read(tree.data_after(node, offset), offset..size);
        offset = run.end;
        if run.is_empty() {
            continue;
        }
        let block = super::BLOCK as u64;
        let end = run.end.checked_next_multiple_of(block).map_or(size, |end| end.min(size));
        let start = run.start - run.start % block;
        if let Some(last) = runs.last_mut().filter(|last| last.end >= start) {
            last.end = end;
        } else if runs.len() < EXTENTS_MAX - 1 {
            runs.push(start..end);
        } else {
            return Err(TooMany);
        }
    }
    let whole = runs.first().is_some_and(|first| *first == (0..size));
    Ok((size > 0 && !whole).then_some(runs))
}

/// The map that precedes the data, padded to whole blocks: the number of runs, then offset and
/// length of each. The last entry marks the file's end.
pub fn map(runs: &[Range<u64>], size: u64) -> Vec<u8> {
    let end = runs.last().is_none_or(|last| last.end < size).then_some(size..size);
    let mut text = format!("{}\n", runs.len() + usize::from(end.is_some()));
    for run in runs.iter().chain(&end) {
        text.push_str(&format!("{}\n{}\n", run.start, run.end - run.start));
    }
    let mut bytes = text.into_bytes();
    bytes.resize(bytes.len().next_multiple_of(super::BLOCK), 0);
    bytes
}

/// The name in the header, under which readers without sparse support extract map and data: the
/// file's own name is in the records.
pub fn header_name(name: &[u8]) -> Vec<u8> {
    let at = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (directory, own) = name.split_at_checked(at).unwrap_or_default();
    [directory, b"GNUSparseFile.0/", own].concat()
}

/// The extended-header records of a sparse file.
pub fn records(name: &[u8], size: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let record = |key: &str, value: &[u8]| (format!("GNU.sparse.{key}").into_bytes(), value.to_vec());
    vec![
        record("major", b"1"),
        record("minor", b"0"),
        record("name", name),
        record("realsize", size.to_string().as_bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use nandkit_vfs::Result;
    use nandkit_vfs::source::SourceNode;

    use super::*;

    /// A file with data in these ranges.
    struct Data(Vec<Range<u64>>);

    impl SourceTree for Data {
        fn nodes(&self) -> &[SourceNode] {
            &[]
        }

        fn read(&self, _: usize, _: u64, _: &mut [u8]) -> Result<usize> {
            Ok(0)
        }

        fn data_after(&self, _: usize, offset: u64) -> Result<Option<Range<u64>>> {
            let found = self.0.iter().find(|run| run.end > offset);
            Ok(found.map(|run| run.start.max(offset)..run.end))
        }
    }

    fn of(data: &[Range<u64>], size: u64) -> Option<Vec<Range<u64>>> {
        runs(&Data(data.to_vec()), 1, size).ok().flatten()
    }

    #[test]
    fn runs_are_of_whole_blocks() {
        assert_eq!(of(&[3..700, 1500..1501, 5000..5120], 9000), Some([0..1536, 4608..5120].to_vec()));
        assert_eq!(of(&[0..1, 8999..9000], 9000), Some([0..512, 8704..9000].to_vec()));
        assert_eq!((of(&[0..4, 600..700], 700), of(&[], 5), of(&[], 0)), (None, Some(Vec::new()), None));
    }
}
