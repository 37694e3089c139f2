//! Files with holes in an archive: version 1.0 of GNU's PAX sparse files, as `tar --sparse --format=posix` writes them (GNU tar manual, "Storing Sparse Files").

use std::ops::Range;

use nandkit_vfs::source::{SourceTree, to_read};

use crate::archive::EXTENTS_MAX;

/// More runs than a map is read with.
pub struct TooMany;

/// The data of a file, run by run; `None` where it has no hole.
pub fn runs(tree: &dyn SourceTree, node: usize, size: u64) -> Result<Option<Vec<Range<u64>>>, TooMany> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut offset = 0;
    while offset < size {
        let run = to_read(tree.data_after(node, offset), offset..size);
        offset = run.end;
        if run.is_empty() {
            continue;
        }
        if let Some(last) = runs.last_mut().filter(|last| last.end == run.start) {
            last.end = run.end;
        } else if runs.len() < EXTENTS_MAX - 1 {
            runs.push(run);
        } else {
            return Err(TooMany);
        }
    }
    let whole = runs.first().is_some_and(|first| *first == (0..size));
    Ok((size > 0 && !whole).then_some(runs))
}

/// The map that comes before the data, padded to whole blocks: the count of runs, then offset and length of each. The last one names the file's end.
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

/// The name in the header, by which readers that know no sparse files call map and data: the file's own is in the records.
pub fn header_name(name: &[u8]) -> Vec<u8> {
    let at = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (directory, own) = name.split_at_checked(at).unwrap_or_default();
    [directory, b"GNUSparseFile.0/", own].concat()
}

/// What the extended header says of it.
pub fn records(name: &[u8], size: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let record = |key: &str, value: &[u8]| (format!("GNU.sparse.{key}").into_bytes(), value.to_vec());
    vec![
        record("major", b"1"),
        record("minor", b"0"),
        record("name", name),
        record("realsize", size.to_string().as_bytes()),
    ]
}
